//! Work that is deferred to the end of the transaction and done there, sorted by group. Locks of
//! groups are thereby taken in ascending order, and held only as long as needed.
//!
//! Within a group, reverse mappings come first, then reference counts, then freed extents.

use xfskit_units::{AgBlock, AgNumber, ExtLen, FsBlock};

use crate::deferred::Deferred;
use crate::error::Result;
use crate::extent::Owner;
use crate::refcount;
use crate::refill;
use crate::rmap;
use crate::tx::SpaceTx;

impl Deferred {
    /// Returns the sort key: group, then kind.
    fn turn(&self, tx: &SpaceTx<'_>) -> (Option<AgNumber>, u8) {
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
        (tx.space().geo().fsb_split(*start).map(|(agno, _)| agno), kind)
    }

    fn run(self, tx: &mut SpaceTx<'_>) -> Result<()> {
        match self {
            Self::RmapMap { start, len, owner } => change_rmap(tx, start, len, owner, rmap::map),
            Self::RmapUnmap { start, len, owner } => {
                change_rmap(tx, start, len, owner, rmap::unmap)
            }
            Self::RmapConvert { start, len, owner } => {
                change_rmap(tx, start, len, owner, rmap::convert)
            }
            Self::RefcountIncrease { start, len } => refcount::increase(tx, start, len),
            Self::RefcountDecrease { start, len } => refcount::decrease(tx, start, len),
            Self::CowAlloc { start, len } => refcount::stage(tx, start, len),
            Self::CowFree { start, len } => {
                refcount::unstage(tx, start, len)?;
                change_rmap(tx, start, len, Owner::Cow, rmap::unmap)
            }
            Self::CowForget { start, len } => refcount::unstage(tx, start, len),
            Self::Free { start, len, owner } => tx.free_extent(start, len, owner),
        }
    }
}

/// A change of the reverse mappings of an extent of group `agno`.
type Change = fn(&mut SpaceTx<'_>, AgNumber, AgBlock, ExtLen, Owner) -> Result<()>;

/// Makes a deferred change of reverse mappings.
fn change_rmap(
    tx: &mut SpaceTx<'_>,
    start: FsBlock,
    len: ExtLen,
    owner: Owner,
    change: Change,
) -> Result<()> {
    if owner == Owner::Unmapped || !tx.space().geo().features.rmapbt() {
        return Ok(());
    }
    let (agno, agbno) = tx.space().split_extent(start, len)?;
    let agf = tx.agf(agno)?;
    refill::fix(tx, agno, agf)?;
    change(tx, agno, agbno, len, owner)
}

impl SpaceTx<'_> {
    /// Does the deferred operations, and those that they defer in turn.
    ///
    /// # Errors
    /// Those of [`alloc_extent`](Self::alloc_extent) and [`free_extent`](Self::free_extent).
    pub fn run_deferred(&mut self) -> Result<()> {
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
