//! Owners of extents, and requests to allocate one.

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::rmap::{OFF_ATTR_FORK, OFF_BMBT_BLOCK, OFF_UNWRITTEN, owner};
use xfskit_units::{FileOff, FsBlock, Ino};

/// The owner of an extent, as recorded in the reverse mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Free-space trees, the rmapbt, the AGFL.
    Ag,
    /// Blocks of inobt and finobt.
    Inobt,
    /// Chunks of inodes.
    Inodes,
    /// Blocks of the refcountbt.
    Refcount,
    /// Staging extents of copy on write.
    Cow,
    /// Blocks of a fork's tree.
    Bmbt(Ino, Fork),
    /// File data of a fork, written, from this offset on.
    Fork(Ino, Fork, FileOff),
    /// File data of the data fork, allocated and unwritten, from this offset on.
    Unwritten(Ino, FileOff),
    /// Two numbers as returned by [`raw`](Self::raw).
    Raw(u64, u64),
    /// The caller updates the reverse mappings itself.
    Unmapped,
    /// Any owner or none, for an extent that is freed.
    Anyone,
}

impl Owner {
    /// Returns the owner of `extent` in a fork of inode `ino`.
    pub fn of(ino: Ino, fork: Fork, extent: &Extent) -> Self {
        if extent.unwritten {
            Self::Unwritten(ino, extent.startoff)
        } else {
            Self::Fork(ino, fork, extent.startoff)
        }
    }

    /// Returns the two numbers of a reverse mapping: owner, and offset with flags; `None` for
    /// [`Unmapped`](Self::Unmapped) and [`Anyone`](Self::Anyone).
    pub fn raw(self) -> Option<(u64, u64)> {
        let flag = |fork: Fork| if fork == Fork::Attr { OFF_ATTR_FORK } else { 0 };
        Some(match self {
            Self::Ag => (owner::AG, 0),
            Self::Inobt => (owner::INOBT, 0),
            Self::Inodes => (owner::INODES, 0),
            Self::Refcount => (owner::REFC, 0),
            Self::Cow => (owner::COW, 0),
            Self::Bmbt(ino, fork) => (ino.0, OFF_BMBT_BLOCK | flag(fork)),
            Self::Fork(ino, fork, at) => (ino.0, at.0 | flag(fork)),
            Self::Unwritten(ino, at) => (ino.0, at.0 | OFF_UNWRITTEN),
            Self::Raw(owner, offset) => (owner, offset),
            Self::Unmapped | Self::Anyone => return None,
        })
    }
}

/// A request to allocate one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// Minimum number of blocks, at least 1.
    pub minlen: u32,
    /// Maximum number of blocks.
    pub maxlen: u32,
    /// Start of the search: at this block, then near it in its group, then in the groups behind it.
    pub near: FsBlock,
    /// Allocate in the group of `near` only.
    pub this_group: bool,
    /// The first block's number in its group is a multiple of this; 1 for no alignment.
    pub align: u32,
    /// May use the blocks that are held back for the growth of the group's own trees. Only those
    /// trees set this.
    pub reserve: bool,
    /// The owner of the allocated extent.
    pub owner: Owner,
}

impl AllocRequest {
    /// Requests `len` contiguous blocks, near `near`, for `owner`.
    pub fn exactly(len: u32, near: FsBlock, owner: Owner) -> Self {
        Self::between(len, len, near, owner)
    }

    /// Requests `minlen` to `maxlen` contiguous blocks, near `near`, for `owner`.
    pub fn between(minlen: u32, maxlen: u32, near: FsBlock, owner: Owner) -> Self {
        Self { minlen, maxlen, near, this_group: false, align: 1, reserve: false, owner }
    }

    /// Aligns the request.
    pub fn align(self, align: u32) -> Self {
        Self { align: align.max(1), ..self }
    }

    /// Restricts the request to the group of `near`.
    pub fn in_this_group(self) -> Self {
        Self { this_group: true, ..self }
    }
}
