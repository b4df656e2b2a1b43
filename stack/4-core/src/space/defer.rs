//! Work that is deferred to the end of the transaction and done there, sorted by group. Locks of
//! groups are thereby taken in ascending order, and held only as long as needed.
//!
//! Within a group, reverse mappings come first, then reference counts, then freed extents.

use xfskit_units::{AgNumber, ExtLen, FsBlock};

use crate::error::Result;
use crate::space::{Owner, refcount, rmap};
use crate::tx::Tx;

/// Work that a transaction puts off: what shall become of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// It is mapped: it has one owner more. Nothing to do without RMAPBT.
    RmapMap {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// The owner that comes.
        owner: Owner,
    },
    /// It is unmapped: it has one owner less. Nothing to do without RMAPBT.
    RmapUnmap {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// The owner that goes.
        owner: Owner,
    },
    /// It is written where it was unwritten, or the other way. Nothing to do without RMAPBT.
    RmapConvert {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// The owner as it was: [`Owner::Unwritten`], or [`Owner::Fork`] of a data fork.
        owner: Owner,
    },
    /// One file more maps it. Needs REFLINK.
    RefcountIncrease {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// One file less maps it, and where that was the last, it is freed. The reverse mapping goes by
    /// [`RmapUnmap`](Self::RmapUnmap).
    RefcountDecrease {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// It was allocated for [`Owner::Cow`], and is recorded as a staging extent.
    CowAlloc {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// It is no staging extent any more: its record and its reverse mapping go. It is not freed: a file maps
    /// it, or [`Free`](Self::Free) with [`Owner::Unmapped`] comes too.
    CowFree {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// It is no staging extent any more: its record goes, and nothing else.
    CowForget {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
    },
    /// Free an extent.
    Free {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// Whose it was.
        owner: Owner,
    },
}

impl Deferred {
    /// What comes first: by group, then by kind.
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
    /// Puts work off to the end of the transaction.
    pub fn defer(&mut self, work: Deferred) {
        self.deferred.push(work);
    }

    /// Does what was put off, and what that puts off in turn.
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
