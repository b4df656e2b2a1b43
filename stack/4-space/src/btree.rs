//! Btrees, changed in transactions: one cursor for all of them.
//!
//! Two traits describe the differences between the seven trees of XFS. A [`RecordOps`] defines the
//! format and the order of records and keys. A [`BtreeOps`] gives access to one particular tree:
//! its root, reading of its blocks, and their allocation and freeing. The [`Cursor`] does the rest:
//! look up, walk, update, insert, delete.
//!
//! 1. Every block but the root is at least half full, before and after each call.
//! 2. A node's key is that of its child, as [`RecordOps`] defines it, up to the root.
//! 3. Records move between blocks, and blocks are joined, below the same parent only. A parent
//!    other than the root always has two children, so there always is such a neighbour.
//! 4. A walk ends whatever the blocks contain: each level is one below the last, records ascend
//!    strictly.
//!
//! In one transaction only one cursor at a time works on a tree, because a cursor releases blocks
//! that it leaves unchanged.

mod balance;
mod cursor;
mod ops;
mod overlap;

pub use cursor::{Cursor, Seek};
pub use ops::{BlockRef, BtreeOps, Flaw, RecordOps, Root};
