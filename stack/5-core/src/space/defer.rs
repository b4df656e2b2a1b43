//! Work that is deferred to the end of the transaction and done there, sorted by group. Locks of
//! groups are thereby taken in ascending order, and held only as long as needed.
//!
//! Within a group, reverse mappings come first, then reference counts, then freed extents.

use xfskit_units::{AgNumber, ExtLen, FsBlock};

use crate::error::Result;
use crate::space::{Owner, refcount, rmap};
use crate::tx::Tx;

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

impl Deferred {
    /// Returns the sort key: group, then kind.
    fn turn(&self, tx: &Tx<'_>) -> (Option<AgNumber>, u8) {
        let (start, kind) = match self {
            Self::RmapMap { start, .. }
            | Self::RmapUnmap { start, .. }
            | Self::RmapConvert { start, .. } => (start, 0),
            Self::RefcountIncrease { start, .. }
            | Self::RefcountDecrease { start, .. }
            | Self::CowAlloc { start, .. }
            | Self::CowFree { start, .. }
            | Self::CowForget { start, .. } => (start, 1),
            Self::Free { start, .. } => (start, 2),
        };
        (tx.volume().geo().fsb_split(*start).map(|(agno, _)| agno), kind)
    }

    fn run(self, tx: &mut Tx<'_>) -> Result<()> {
        match self {
            Self::RmapMap { start, len, owner } => rmap::deferred(tx, start, len, owner, rmap::map),
            Self::RmapUnmap { start, len, owner } => {
                rmap::deferred(tx, start, len, owner, rmap::unmap)
            }
            Self::RmapConvert { start, len, owner } => {
                rmap::deferred(tx, start, len, owner, rmap::convert)
            }
            Self::RefcountIncrease { start, len } => refcount::increase(tx, start, len),
            Self::RefcountDecrease { start, len } => refcount::decrease(tx, start, len),
            Self::CowAlloc { start, len } => refcount::stage(tx, start, len),
            Self::CowFree { start, len } => {
                refcount::unstage(tx, start, len)?;
                rmap::deferred(tx, start, len, Owner::Cow, rmap::unmap)
            }
            Self::CowForget { start, len } => refcount::unstage(tx, start, len),
            Self::Free { start, len, owner } => tx.free_extent(start, len, owner),
        }
    }
}

impl Tx<'_> {
    /// Defers an operation to the end of the transaction.
    pub fn defer(&mut self, work: Deferred) {
        self.deferred.push(work);
    }

    /// Does the deferred operations, and those that they defer in turn.
    pub(crate) fn run_deferred(&mut self) -> Result<()> {
        while !self.deferred.is_empty() {
            let mut batch = std::mem::take(&mut self.deferred);
            batch.sort_by_key(|work| work.turn(self));
            for work in batch {
                work.run(self)?;
            }
        }
        Ok(())
    }
}
