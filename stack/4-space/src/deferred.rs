//! Work on extents that is deferred to the end of the transaction.

use xfskit_units::{ExtLen, FsBlock};

use crate::extent::Owner;

/// An operation on an extent that a transaction defers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// Adds a reverse mapping. Without RMAPBT this does nothing.
    RmapMap {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// The new owner.
        owner: Owner,
    },
    /// Removes a reverse mapping. Without RMAPBT this does nothing.
    RmapUnmap {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// The former owner.
        owner: Owner,
    },
    /// Converts a reverse mapping from unwritten to written, or back. Without RMAPBT this does
    /// nothing.
    RmapConvert {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// The owner before the change: [`Owner::Unwritten`], or [`Owner::Fork`] of a data fork.
        owner: Owner,
    },
    /// Increases the reference count: one more file maps the extent. Needs REFLINK.
    RefcountIncrease {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// Decreases the reference count. Blocks that no file maps any more are freed. The reverse
    /// mapping is removed by [`RmapUnmap`](Self::RmapUnmap).
    RefcountDecrease {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// Records an extent that was allocated for [`Owner::Cow`] as a staging extent.
    CowAlloc {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// Removes the record and the reverse mapping of a staging extent. The blocks are not freed: a
    /// file maps them, or [`Free`](Self::Free) with [`Owner::Unmapped`] follows.
    CowFree {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// Removes the record of a staging extent, and nothing else.
    CowForget {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// Frees an extent.
    Free {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// The former owner.
        owner: Owner,
    },
}
