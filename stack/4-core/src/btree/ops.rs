//! The traits by which a cursor accesses its tree.

use std::fmt::Debug;

use xfskit_format::btree_edit::Shape;
use xfskit_trans::Handle;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Error, Result};
use crate::tx::Tx;

/// Records and keys of a kind of tree.
pub trait RecordOps: Debug {
    /// A record of a leaf, as it stands on disk.
    type Rec: Copy + Debug + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned;
    /// What a node stores for each child.
    type Key: Copy + Debug + PartialEq + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned;
    /// What records are ordered by; no two records of a tree have the same.
    type Pos: Copy + Ord + Debug;
    /// True where a node's key depends on all records below, not on the first alone.
    const OVERLAPS: bool = false;

    /// The place of a record.
    fn rec_pos(rec: &Self::Rec) -> Self::Pos;

    /// The place of the first record below a key.
    fn key_pos(key: &Self::Key) -> Self::Pos;

    /// The key of a child that holds this record alone.
    fn key(rec: &Self::Rec) -> Self::Key;

    /// The key of a child that holds what is below `first` and, behind it, what is below `more`.
    fn span(first: Self::Key, more: &Self::Key) -> Self::Key {
        let _ = more;
        first
    }

    /// Where a record ends: of trees whose records may overlap.
    fn rec_end(rec: &Self::Rec) -> Self::Pos {
        Self::rec_pos(rec)
    }

    /// The last end of any record below a key: of trees whose records may overlap.
    fn key_end(key: &Self::Key) -> Self::Pos {
        Self::key_pos(key)
    }
}

/// A block of a tree, as the tree's pointers name it: an agbno or an fsbno.
pub type BlockRef = u64;

/// The root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A block, and how many levels there are with it.
    Block(BlockRef, u16),
    /// In an inode: its image, and what part of it is the root. The level stands in the root.
    Inode(Handle, Shape),
}

/// What a cursor can find wrong with a tree that passed its verifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A block is not one level below its parent.
    Level,
    /// A block that must not be empty is.
    Numrecs,
    /// Records do not ascend.
    Order,
    /// A block holds something before its parent's key, or behind the next.
    Key,
}

/// Where one tree lives.
pub trait BtreeOps: Debug {
    /// What its records are.
    type RecordOps: RecordOps;

    /// The layout of a block of level `level` (not of a root in an inode).
    fn shape(&self, tx: &Tx<'_>, level: u16) -> Shape;

    /// Where the root is now.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    fn root(&self, tx: &mut Tx<'_>) -> Result<Root>;

    /// The root moved to another block. Never called for a root in an inode.
    ///
    /// # Errors
    /// As [`root`](Self::root).
    fn set_root(&self, tx: &mut Tx<'_>, block: BlockRef, levels: u16) -> Result<()>;

    /// Block `block`, held, verified as part of this tree; a pointer that leads nowhere is a fault.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    fn read(&self, tx: &mut Tx<'_>, block: BlockRef) -> Result<Handle>;

    /// A new block near `near`, its head written: of `level`, empty, without siblings.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    fn alloc(&self, tx: &mut Tx<'_>, near: BlockRef, level: u16) -> Result<(BlockRef, Handle)>;

    /// Gives a block back.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    fn free(&self, tx: &mut Tx<'_>, block: BlockRef, handle: Handle) -> Result<()>;

    /// The error that says that `flaw` was found in `block` (`None`: in a root in an inode).
    fn flaw(&self, tx: &Tx<'_>, block: Option<BlockRef>, flaw: Flaw) -> Error;
}
