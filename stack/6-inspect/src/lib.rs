//! Floor 6: decode any structure of a volume field by field.
//!
//! A [`Dump`] prints as `xfs_db`'s `print` does, with its names, so that a dump of ours can be
//! compared with a dump of theirs line by line. It also converts to JSON. Nothing is verified here:
//! damaged structures are printed as they are, with their CRC marked.
//!
//! | module | what |
//! | --- | --- |
//! | [`structure`] | [`Structure`]: `sb 0`, `inode 131`, `dir 131`, `block 0x40`, … |
//! | [`dump`] | [`Dump`]: named values, as text and as JSON |
//! | [`fields`] | structures as tables of fields |
//! | [`headers`] | superblock and AG headers |
//! | [`trees`] | blocks of per-AG btrees and extent btrees |
//! | [`inode`] | inodes with both forks |
//! | [`dir`] | directory blocks |
//! | [`attr`] | attribute blocks, remote values, remote symlinks |
//! | [`log`] | the journal: records, operations, transactions, items |
//! | [`open`] | reads the bytes of a [`Structure`] |

pub mod attr;
pub mod dir;
pub mod dump;
pub mod fields;
pub mod headers;
pub mod inode;
pub mod log;
pub mod open;
pub mod structure;
pub mod trees;

pub use dump::Dump;
pub use open::inspect;
pub use structure::Structure;
