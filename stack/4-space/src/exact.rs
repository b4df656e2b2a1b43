//! Allocation of blocks that are named exactly: those of a removed file, which still have its
//! content.
//!
//! While one removed file is given back, those of others wait in free space. Allocations
//! meanwhile (inode chunks, directories, trees, the free list) must not take them, so they are kept
//! ([`Space::keep_free`]).

use xfskit_units::{ExtLen, FsBlock};

use crate::error::{Error, Result};
use crate::extent::Owner;
use crate::free_space::FreeSpace;
use crate::refill;
use crate::rmap;
use crate::space::Space;
use crate::tx::SpaceTx;

/// Keeps extents until it is dropped: see [`Space::keep_free`].
#[derive(Debug)]
#[must_use = "the extents are kept for as long as this value lives"]
pub struct KeptExtents<'s> {
    space: &'s Space,
}

impl Drop for KeptExtents<'_> {
    fn drop(&mut self) {
        self.space.kept.clear();
    }
}

impl Space {
    /// Keeps all allocations but [`SpaceTx::alloc_exactly`] away from these extents, as far as they
    /// are free, for as long as the returned value lives. One caller does this at a time. What lies
    /// outside of the volume is left out.
    pub fn keep_free(
        &self,
        extents: impl IntoIterator<Item = (FsBlock, ExtLen)>,
    ) -> KeptExtents<'_> {
        for (start, len) in extents {
            if let Ok((agno, agbno)) = self.split_extent(start, len) {
                self.kept.add(agno, &(agbno.0..agbno.0.saturating_add(len.0)));
            }
        }
        KeptExtents { space: self }
    }
}

impl SpaceTx<'_> {
    /// Allocates exactly the blocks `[start, start + len)`.
    ///
    /// # Errors
    /// [`Error::Limit`] if one of them is not free, or lies outside of the volume;
    /// [`Error::NoSpace`] if free space is reserved; [`Error::BusyExtents`] for blocks that were
    /// freed too recently.
    pub fn alloc_exactly(&mut self, start: FsBlock, len: ExtLen, owner: Owner) -> Result<()> {
        let (agno, agbno) = self.space().split_extent(start, len)?;
        if !self.uses_reservation && self.taken.take(len.0, len.0)?.is_none() {
            self.met_reservations = true;
            return Err(Error::NoSpace("blocks"));
        }
        let agf = self.agf(agno)?;
        refill::fix(self, agno, agf)?;
        if self.spare(agno, agf, false) < len.0 {
            return Err(Error::NoSpace("blocks"));
        }
        let blocks = agbno.0..agbno.0.saturating_add(len.0);
        let freed = self.freed_so_far().iter().any(|freed| {
            let end = freed.agbno.0.saturating_add(freed.len.0);
            freed.agno == agno && freed.agbno.0 < blocks.end && end > blocks.start
        });
        if freed || self.engine().busy().overlap(agno, agbno, len).is_some() {
            return Err(Error::BusyExtents);
        }
        let mut space = FreeSpace::of(self, agno)?;
        let taken = space.take_exactly(self, &blocks)?;
        space.close(self);
        if !taken {
            return Err(Error::Limit("blocks that the file had are not free any more"));
        }
        rmap::map(self, agno, agbno, len, owner)?;
        self.delta.fdblocks -= i64::from(len.0);
        Ok(())
    }
}
