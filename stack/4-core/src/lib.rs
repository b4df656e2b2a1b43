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
//! | [`volume`] | [`Volume`]: open, geometry, AG headers, counters |

pub mod error;
pub mod volume;

pub use error::{Error, Result};
pub use volume::{OpenOptions, Volume};
