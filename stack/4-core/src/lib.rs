//! Floor 4: inodes, extent maps, directories, attributes, recovery.
//!
//! A [`Volume`] is an XFS filesystem on any [`BlockDevice`](xfskit_block::BlockDevice). Opening a
//! volume verifies the superblock, replays the journal and sets up the buffer cache. On a volume
//! that is opened for reading only, the journal is replayed in memory. Afterwards every metadata
//! block comes through the cache and has passed its verifier.
//!
//! | module | contents |
//! | --- | --- |
//! | [`error`] | errors: device failures, corruption and refused requests kept apart |
//! | [`recovery`] | journal recovery |
//! | [`volume`] | [`Volume`]: open, geometry, AG headers, counters |
//! | [`superblock`] | the superblock, or a copy where the primary is damaged |
//! | [`inode`] | inodes, read one by one or by cluster |
//! | [`bmap`] | extent maps of forks |
//! | [`mod@file`] | file data, symlink targets |
//! | `exchange` | exchange of the mappings of two files, in several transactions |
//! | [`dir`] | directories: listing, look-up by hash, adding and removing names |
//! | [`attr`], [`parent`] | extended attributes, and the names of an inode from its parent pointers |
//! | [`icore`] | changes of the fields of an inode's core |
//! | [`tx`] | [`Tx`]: an atomic change of the volume |
//! | [`btree`] | btrees of all kinds, changed in transactions |
//! | [`space`] | free space: allocation and freeing of extents, deferred operations |
//! | [`bulk`] | bulk building of whole structures, for a new volume |
//! | [`uuid`] | changing a volume's UUID |
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
pub use options::{JournalOptions, OnReplay, OpenOptions, ReplayOptions};
pub use parent::Parent;
pub use tx::{Tx, TxInode};
pub use volume::{Closed, Volume};
pub use xfskit_trans::heal::{Healed, Heals};
pub use xfskit_trans::lock::LockStats;
pub use xfskit_trans::stats::Stats;
