//! Btrees, changed in transactions: one cursor for all of them.
//!
//! What the seven trees of XFS differ in is told by two traits. A [`RecordOps`] says what records and keys look
//! like and how they are ordered. A [`BtreeOps`] says where one particular tree lives: its root, how its
//! blocks are read, where new ones come from and freed ones go. The [`Cursor`] does the rest: look up, walk,
//! update, insert, delete.
//!
//! 1. Every block but the root holds at least half of what fits, before and after each call.
//! 2. A node's key is that of its child, as [`RecordOps`] defines it, up to the root.
//! 3. Blocks are moved between and joined with neighbours below the same parent only: a parent other
//!    than the root always has two children, so there always is such a neighbour.
//! 4. A walk ends whatever the blocks say: each level is one below the last, records ascend strictly.
//!
//! In one transaction, one cursor at a time works on a tree: it lets go of blocks that it leaves unchanged.

mod ag;
mod balance;
mod cursor;
mod ops;
mod overlap;

pub use ag::{
    AgKind, AgTree, BnoTree, ByBlock, BySize, Chunks, CntTree, FinoTree, InoTree, Mappings,
    RefcountTree, Refcounts, RmapTree,
};
pub use cursor::{Cursor, Seek};
pub use ops::{BlockRef, BtreeOps, Flaw, RecordOps, Root};
