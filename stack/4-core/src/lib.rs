//! Floor 4: inodes, extent maps, directories, attributes, recovery.
//!
//! A [`Volume`] is an XFS filesystem on any [`BlockDevice`](xfskit_block::BlockDevice). Opening it
//! judges the superblock, replays the journal (in memory, when the volume is opened for reading
//! only) and sets up the buffer cache; after that every metadata block comes through the cache and
//! has passed its verifier.
//!
//! | module | what |
//! | --- | --- |
//! | [`error`] | what can go wrong, with device, corruption and refusal kept apart |
//! | [`recovery`] | the journal's changes put in place |
//! | [`volume`] | [`Volume`]: open, geometry, AG headers, counters |
//! | [`inode`] | inodes one by one, by cluster |
//! | [`bmap`] | extent lists: where a fork lies |
//! | [`file`] | content of files, targets of symlinks |
//! | [`chunks`] | all inodes of the volume, by chunk: bulkstat |

pub mod bmap;
pub mod chunks;
pub mod error;
pub mod file;
pub mod inode;
pub mod recovery;
pub mod volume;

pub use bmap::ExtentList;
pub use error::{Error, Result};
pub use inode::Inode;
pub use volume::{OpenOptions, Volume};
