//! Floor 1: every byte of XFS, as structs and verifiers. No I/O, no `unsafe`.
//!
//! This is the trust boundary: bytes go in, a `Result` comes out. Each on-disk structure has a
//! module of its own, in the same order everywhere: description, the struct (its fields spelled as
//! `xfs_db` prints them), compile-time checks of size and offsets, the verifier, tests.
//!
//! | read in this order | content |
//! | --- | --- |
//! | [`corruption`] | [`Corruption`]: which check failed, where, expected, found |
//! | [`checks`] | the table of all checks: what each verifies, what `xfs_repair` calls it |
//! | [`ctx`] | [`Ctx`]: the context of a verifier, and its helpers |
//! | [`image`] | [`Image`]: bytes that change only in declared ranges |
//! | [`layout`] | [`Layout`]: the sizes and offsets in which version 4 and 5 differ |
//! | [`sb`] | the superblock, and the [`Geometry`](xfskit_units::Geometry) it describes |
//! | [`sb_search`] | finds copies of the superblock when the primary is lost
//! | [`agf`], [`agi`], [`agfl`] | the three headers of an allocation group |
//! | [`agbtree`] | one block of a per-AG btree |
//! | [`alloc`], [`inobt`], [`rmap`], [`refcount`] | the records of those btrees |
//! | [`inode`] | an inode of any version, its forks; [`timestamp`] its times |
//! | [`bmbt`] | extent records and the btree of a fork |
//! | [`metabt`] | btrees of realtime groups, below an inode |
//! | [`btree_edit`] | edits blocks of any btree |
//! | [`symlink`], [`dquot`] | remote symlink targets, quota records |
//! | [`rtsb`] | the realtime superblock |
//! | [`hash`], [`da`], [`da_edit`] | name hash and hash btree of directories and attributes |
//! | [`da_cuts`] | where blocks of that btree may be divided |
//! | [`dir`], [`attr`] | directories and extended attributes in all their forms |
//! | [`log`] | the journal: records, operations, items |
//! | [`verify`] | verifies a block by its magic before it is written |
//!
//! A verifier checks the CRC first, then magic and identity (uuid, address, owner), then structure:
//! cheapest and most depended upon first. It returns the first [`Corruption`]. The same verifier
//! runs after every read and before every write; then the writer stamps LSN and CRC.

#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::arithmetic_side_effects)]
#![cfg_attr(
    test,
    allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::arithmetic_side_effects)
)]

pub mod agbtree;
pub mod agf;
pub mod agfl;
pub mod agi;
pub mod alloc;
pub mod attr;
pub mod bmbt;
pub mod btree_edit;
pub mod bytes;
pub mod checks;
pub mod corruption;
pub mod ctx;
pub mod da;
pub mod da_cuts;
pub mod da_edit;
pub mod dir;
pub mod dquot;
pub mod hash;
pub mod image;
pub mod inobt;
pub mod inode;
pub mod layout;
pub mod log;
pub mod metabt;
pub mod refcount;
pub mod reserve;
pub mod rmap;
pub mod rtsb;
pub mod sb;
pub mod sb_search;
pub mod symlink;
#[cfg(test)]
mod testing;
pub mod timestamp;
pub mod verify;

pub use corruption::{Corruption, Expected, Fork, Location, Value, VerifyResult};
pub use ctx::Ctx;
pub use image::Image;
pub use layout::Layout;
