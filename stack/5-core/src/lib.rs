//! Floor 5: inodes, extent maps, directories, attributes, file data.
//!
//! A [`Volume`] is an XFS filesystem on any [`BlockDevice`](xfskit_block::BlockDevice). Opening a
//! volume verifies the superblock, replays the journal and sets up the buffer cache. On a volume
//! that is opened for reading only, the journal is replayed in memory. Afterwards every metadata
//! block comes through the cache and has passed its verifier.
//!
//! | module | contents |
//! | --- | --- |
//! | [`error`] | errors: device failures, corruption and refused requests kept apart |
//! | [`options`] | how a volume is opened |
//! | [`superblock`] | the superblock, or a copy where the primary is damaged |
//! | `open_files`, `dir_cache`, `attr_map`, `swept`, `orphan` | what is kept between changes |
//! | [`volume`] | [`Volume`]: its parts |
//! | `superblock_edit` | changes of the superblock |
//! | [`tx`] | [`Tx`]: an atomic change of the volume |
//! | [`inode`] | inodes, read one by one or by cluster |
//! | [`icore`] | changes of the fields of an inode's core |
//! | [`bmap`] | extent maps of forks |
//! | `meta_tree` | btrees of realtime groups |
//! | `da` | the hash btree that directories and attributes share |
//! | [`dir`] | directories: listing, look-up by hash, adding and removing names |
//! | [`attr`], [`parent`] | extended attributes, and the names of an inode from its parent pointers |
//! | [`mod@file`] | file data, symlink targets |
//! | `ialloc` | new inodes, and the freeing of unlinked ones |
//! | [`restore`] | removed files, given back with the blocks that they had |
//! | `exchange` | exchange of the mappings of two files, in several transactions |
//! | `intents` | finishing of the intents that a crash left |
//! | `writable`, `open`, `close` | what can be written; opening, sync, closing |
//! | [`uuid`] | changing a volume's UUID |
//! | [`chunks`] | all inodes of the volume, by chunk: bulkstat |
//! | `warnings` | the damage that a search met on its way |
//! | `shared_blocks`, `trim` | extents that are shared; free blocks for the device |

pub mod attr;
mod attr_map;
pub mod bmap;
pub mod chunks;
mod close;
mod da;
pub mod dir;
mod dir_cache;
pub mod error;
mod exchange;
pub mod file;
mod ialloc;
pub mod icore;
pub mod inode;
mod intents;
mod meta_tree;
mod open;
mod open_files;
pub mod options;
mod orphan;
pub mod parent;
pub mod restore;
mod shared_blocks;
pub mod superblock;
mod superblock_edit;
mod swept;
mod trim;
pub mod tx;
pub mod uuid;
pub mod volume;
mod warnings;
mod writable;

pub use attr::change::{ParentName, SetMode};
pub use attr::{Attr, AttrValue, Xattr};
pub use bmap::ExtentList;
pub use close::Closed;
pub use dir::{Dir, DirEntry};
pub use error::{Error, Result};
pub use inode::Inode;
pub use options::{JournalOptions, OpenOptions};
pub use orphan::Orphan;
pub use parent::Parent;
pub use shared_blocks::MappedExtent;
pub use tx::{Tx, TxInode};
pub use volume::Volume;
pub use warnings::Warnings;
pub use xfskit_recovery::{JournalDamage, OnReplay, Replay, ReplayOptions};
pub use xfskit_space::{Counts, KeptExtents};
pub use xfskit_trans::heal::{Healed, Heals};
pub use xfskit_trans::lock::LockStats;
pub use xfskit_trans::stats::Stats;
