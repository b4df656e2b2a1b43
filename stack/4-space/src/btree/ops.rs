//! The traits by which a cursor accesses its tree.

use std::fmt::Debug;

use xfskit_format::btree_edit::Shape;
use xfskit_trans::Handle;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Error, Result};
use crate::tx::SpaceTx;

/// Records and keys of one kind of tree.
pub trait RecordOps: Debug {
    /// A record of a leaf, as on disk.
    type Rec: Copy + Debug + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned;
    /// What a node stores for each child.
    type Key: Copy + Debug + PartialEq + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned;
    /// The sort key of records; no two records of a tree have the same.
    type Pos: Copy + Ord + Debug;
    /// Set if a node's key depends on all records below, not on the first alone.
    const OVERLAPS: bool = false;

    /// Returns the position of a record.
    fn rec_pos(rec: &Self::Rec) -> Self::Pos;

    /// Returns the position of the first record below a key.
    fn key_pos(key: &Self::Key) -> Self::Pos;

    /// Returns the key of a child that holds only this record.
    fn key(rec: &Self::Rec) -> Self::Key;

    /// Returns the key of a child that holds the records below `first` and, behind them, those
    /// below `more`.
    fn span(first: Self::Key, more: &Self::Key) -> Self::Key {
        let _ = more;
        first
    }

    /// Returns the end of a record, for trees whose records may overlap.
    fn rec_end(rec: &Self::Rec) -> Self::Pos {
        Self::rec_pos(rec)
    }

    /// Returns the last end of any record below a key, for trees whose records may overlap.
    fn key_end(key: &Self::Key) -> Self::Pos {
        Self::key_pos(key)
    }
}

/// A block of a tree, as the tree's pointers name it: an agbno or an fsbno.
pub type BlockRef = u64;

/// The root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A block, and the number of levels, including its own.
    Block(BlockRef, u16),
    /// In an inode: its image, and the shape of the root in it. The root stores its level.
    Inode(Handle, Shape),
}

/// An inconsistency between blocks of a tree that passed their verifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A block is not one level below its parent.
    Level,
    /// A block is empty that must not be.
    Numrecs,
    /// Records do not ascend.
    Order,
    /// A block holds a record before its parent's key, or behind the next.
    Key,
}

/// Access to one tree.
pub trait BtreeOps: Debug {
    /// The kind of its records.
    type RecordOps: RecordOps;

    /// Returns the layout of a block of level `level` (not of a root in an inode).
    fn shape(&self, tx: &SpaceTx<'_>, level: u16) -> Shape;

    /// Returns the present root.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    fn root(&self, tx: &mut SpaceTx<'_>) -> Result<Root>;

    /// Records that the root moved to another block. Never called for a root in an inode.
    ///
    /// # Errors
    /// As [`root`](Self::root).
    fn set_root(&self, tx: &mut SpaceTx<'_>, block: BlockRef, levels: u16) -> Result<()>;

    /// Returns block `block`, locked and verified as part of this tree. A pointer outside of the
    /// tree's space is a corruption.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    fn read(&self, tx: &mut SpaceTx<'_>, block: BlockRef) -> Result<Handle>;

    /// Allocates a block near `near` and writes its header: of `level`, empty, without siblings.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    fn alloc(&self, tx: &mut SpaceTx<'_>, near: BlockRef, level: u16)
    -> Result<(BlockRef, Handle)>;

    /// Frees a block.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    fn free(&self, tx: &mut SpaceTx<'_>, block: BlockRef, handle: Handle) -> Result<()>;

    /// Returns the error for `flaw` in `block` (`None`: in a root in an inode).
    fn flaw(&self, tx: &SpaceTx<'_>, block: Option<BlockRef>, flaw: Flaw) -> Error;
}
