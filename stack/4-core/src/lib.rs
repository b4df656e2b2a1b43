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
//! | [`superblock`] | the superblock, or a copy where the primary is damaged |
//! | [`inode`] | inodes one by one, by cluster |
//! | [`bmap`] | extent lists: where a fork lies |
//! | [`mod@file`] | content of files, targets of symlinks |
//! | `exchange` | content of two files that changes places, in as many transactions as it takes |
//! | [`dir`] | directories: listing, look-up by hash, names that come and go |
//! | [`attr`], [`parent`] | extended attributes, and the names of an inode by its parent pointers |
//! | [`icore`] | the core of an inode, changed field by field |
//! | [`tx`] | [`Tx`]: a change of the volume, all of it or nothing |
//! | [`btree`] | btrees of all kinds, changed in transactions |
//! | [`space`] | free space: allocating and freeing extents, and work that is put off |
//! | [`bulk`] | whole structures in one go, for a volume that is built from nothing |
//! | [`uuid`] | another UUID for a volume |
//! | [`chunks`] | all inodes of the volume, by chunk: bulkstat |

pub mod attr;
pub mod bmap;
pub mod btree;
pub mod bulk;
pub mod chunks;
mod da;
pub mod dir;
pub mod error;
mod exchange;
pub mod file;
mod ialloc;
pub mod icore;
pub mod inode;
pub mod options;
pub mod parent;
pub mod recovery;
pub mod space;
pub mod superblock;
pub mod tx;
pub mod uuid;
pub mod volume;
mod writable;

pub use attr::change::{ParentName, SetMode};
pub use attr::{Attr, AttrValue, Xattr};
pub use bmap::ExtentList;
pub use dir::{Dir, DirEntry};
pub use error::{Error, JournalDamage, Result};
pub use ialloc::Orphan;
pub use inode::Inode;
pub use options::{JournalOptions, OpenOptions};
pub use parent::Parent;
pub use tx::{Tx, TxInode};
pub use volume::Volume;
pub use xfskit_trans::heal::{Healed, Heals};
pub use xfskit_trans::lock::LockStats;
pub use xfskit_trans::stats::Stats;
