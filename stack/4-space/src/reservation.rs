//! Reservations: free blocks that are set aside before they are allocated.
//!
//! A write leaves data in memory whose blocks are allocated later. A change of a file in several
//! transactions must not find the volume full halfway. Both reserve blocks first, and are refused
//! while nothing has changed. Reservations are not stored on disk.
//!
//! Reserved blocks are available to their owner only. Directories and inodes allocate without a
//! reservation, but only from what is neither reserved nor withheld, and their blocks count as
//! reserved until the transaction commits ([`BlockReservation`]). Reservations are worst-case
//! estimates. A transaction that consumes a reservation
//! is [marked](crate::SpaceTx::set_uses_reservation). So is one that frees space and needs a block
//! for that; Linux keeps its reserve pool for this case.

use crate::error::Result;
use crate::space::Space;

/// Blocks that stay reserved until this value is dropped.
#[derive(Debug)]
pub struct BlockReservation<'v> {
    space: &'v Space,
    blocks: u64,
}

impl BlockReservation<'_> {
    /// Adds as many of `most` blocks as are neither withheld nor reserved by others, and returns
    /// their number. Returns `None` if they are fewer than `least`.
    pub(crate) fn take(&mut self, least: u32, most: u32) -> Result<Option<u32>> {
        let there = self.space.blocks_available().min(most.into()).max(least.into());
        for blocks in [there, least.into()] {
            if self.space.reserve(blocks)? {
                self.blocks += blocks;
                return Ok(Some(u32::try_from(blocks).unwrap_or(most)));
            }
        }
        Ok(None)
    }

    /// Releases `blocks` of them.
    pub(crate) fn give_back(&mut self, blocks: u32) {
        let blocks = self.blocks.min(blocks.into());
        self.blocks -= blocks;
        self.space.unreserve(blocks);
    }
}

impl Drop for BlockReservation<'_> {
    fn drop(&mut self) {
        if self.blocks > 0 {
            self.space.unreserve(self.blocks);
        }
    }
}

impl Space {
    /// Returns the free blocks that file data can take. Data that waits in memory has its blocks
    /// reserved already.
    pub fn blocks_available(&self) -> u64 {
        let known = || i64::try_from(self.counts().fdblocks).unwrap_or(i64::MAX);
        let free =
            self.engine().map_or_else(|_| known(), |engine| engine.counters().get().fdblocks);
        let free = free.saturating_sub(self.set_aside()).saturating_sub(self.reserved.blocks());
        u64::try_from(free).unwrap_or(0)
    }

    /// Reserves `blocks` more, until [`unreserve`](Self::unreserve). Returns false if fewer are
    /// free.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly).
    pub fn reserve(&self, blocks: u64) -> Result<bool> {
        let free = self.engine()?.counters().get().fdblocks - self.set_aside();
        Ok(self.reserved.take(blocks, free))
    }

    /// Releases `blocks` that were reserved.
    pub fn unreserve(&self, blocks: u64) {
        self.reserved.give_back(blocks);
    }

    /// Returns an empty reservation, to add blocks to.
    pub(crate) fn no_reservation(&self) -> BlockReservation<'_> {
        BlockReservation { space: self, blocks: 0 }
    }

    /// Reserves `blocks` for as long as the returned value lives. Returns `None` if fewer are free.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn reserve_blocks(&self, blocks: u64) -> Result<Option<BlockReservation<'_>>> {
        // Dropping a reservation releases its blocks, so none is made unless they were taken.
        Ok(self.reserve(blocks)?.then(|| BlockReservation { space: self, blocks }))
    }

    /// Returns the free blocks that file data cannot take: those that are withheld, as they were at
    /// the first call, which is before any transaction calls this. Trees may take blocks of it
    /// later.
    pub fn set_aside(&self) -> i64 {
        let now = || i64::try_from(self.withheld()).unwrap_or(i64::MAX);
        *self.reserved.set_aside.get_or_init(now)
    }
}
