//! Delayed-allocation reservations: free blocks that are set aside before they are allocated.
//!
//! A write leaves data in memory whose blocks are allocated later. A change of a file in several
//! transactions must not find the volume full halfway. Both reserve blocks first, and are refused
//! while nothing has changed. Reservations are not stored on disk.
//!
//! Reserved blocks are available to their owner only. Directories and inodes allocate without a
//! reservation, but only from what is neither reserved nor withheld, and their blocks count as
//! reserved until the transaction commits ([`BlockReservation::take`]). Reservations are
//! worst-case estimates. When a request is refused because of them, the data in memory is flushed,
//! which counts exactly, and the request is tried again ([`Volume::transact`]). A transaction that
//! consumes a reservation sets *uses_reservation*. So does one that frees space and needs a block
//! for that ([`Tx::with_pool`]), which is what Linux keeps its reserve pool for.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};

use xfskit_format::bmbt;

use super::content::{Content, SEGMENTS, State};
use crate::bmap::Backing;
use crate::error::{Error, Result};
use crate::tx::Tx;
use crate::volume::Volume;

/// Counts the free blocks that are reserved and not allocated yet.
#[derive(Debug, Default)]
pub(super) struct DelallocReservation {
    all: AtomicI64,
}

impl DelallocReservation {
    /// Reserves `blocks` more. Returns false if fewer are free.
    fn take(&self, vol: &Volume, blocks: u64) -> Result<bool> {
        let blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
        let free = vol.engine()?.counters().get().fdblocks - vol.set_aside();
        let all = self.all.fetch_add(blocks, Ordering::Relaxed).saturating_add(blocks);
        if all > free && blocks > 0 {
            self.all.fetch_sub(blocks, Ordering::Relaxed);
            return Ok(false);
        }
        Ok(true)
    }

    /// Reserves as many of `most` blocks as are free. Returns `None`, with no block reserved, if
    /// fewer than `least` are.
    fn take_some(&self, vol: &Volume, least: u64, most: u64) -> Result<Option<u64>> {
        let there = vol.blocks_available().min(most).max(least);
        for blocks in [there, least] {
            if self.take(vol, blocks)? {
                return Ok(Some(blocks));
            }
        }
        Ok(None)
    }

    pub(super) fn give_back(&self, blocks: u64) {
        self.all.fetch_sub(i64::try_from(blocks).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

/// Blocks that stay reserved until this value is dropped.
#[derive(Debug)]
pub(crate) struct BlockReservation<'v> {
    delalloc: &'v DelallocReservation,
    blocks: u64,
}

impl BlockReservation<'_> {
    /// Adds as many of `most` blocks as are neither withheld nor reserved by others, and returns
    /// their number. Returns `None` if they are fewer than `least`.
    pub(crate) fn take(&mut self, vol: &Volume, least: u32, most: u32) -> Result<Option<u32>> {
        let Some(blocks) = self.delalloc.take_some(vol, least.into(), most.into())? else {
            return Ok(None);
        };
        self.blocks += blocks;
        Ok(Some(u32::try_from(blocks).unwrap_or(most)))
    }

    /// Releases `blocks` of them.
    pub(crate) fn give_back(&mut self, blocks: u32) {
        let blocks = self.blocks.min(blocks.into());
        self.blocks -= blocks;
        self.delalloc.give_back(blocks);
    }
}

impl Drop for BlockReservation<'_> {
    fn drop(&mut self) {
        if self.blocks > 0 {
            self.delalloc.give_back(self.blocks);
        }
    }
}

impl Volume {
    /// Returns the free blocks that file data can take. Data that waits in memory has its blocks
    /// reserved already.
    pub fn blocks_available(&self) -> u64 {
        let known = || i64::try_from(self.superblock().fdblocks.get()).unwrap_or(i64::MAX);
        let free =
            self.engine().map_or_else(|_| known(), |engine| engine.counters().get().fdblocks);
        let reserved = self.contents.delalloc.all.load(Ordering::Relaxed);
        u64::try_from(free.saturating_sub(self.set_aside()).saturating_sub(reserved)).unwrap_or(0)
    }

    /// Returns an empty reservation, to add blocks to.
    pub(crate) fn no_reservation(&self) -> BlockReservation<'_> {
        BlockReservation { delalloc: &self.contents.delalloc, blocks: 0 }
    }

    /// Reserves `blocks` for as long as the returned value lives. Returns `None` if fewer are free.
    pub(super) fn reserve_blocks(&self, blocks: u64) -> Result<Option<BlockReservation<'_>>> {
        let delalloc = &self.contents.delalloc;
        // Dropping a reservation releases its blocks, so none is made unless they were taken.
        Ok(delalloc.take(self, blocks)?.then(|| BlockReservation { delalloc, blocks }))
    }

    /// Runs a transaction that consumes a reservation.
    pub(crate) fn transact_reserved<T>(
        &self,
        mut change: impl FnMut(&mut Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        self.transact(|tx| {
            tx.uses_reservation = true;
            change(tx)
        })
    }

    /// Returns the free blocks that file data cannot take: [`withheld`](Self::withheld), as it was
    /// at the first call, which is before any transaction calls this. Trees may take blocks of it
    /// later.
    pub(crate) fn set_aside(&self) -> i64 {
        let now = || i64::try_from(self.withheld()).unwrap_or(i64::MAX);
        *self.contents.set_aside.get_or_init(now)
    }

    /// Returns the blocks by which a file's bmbt may grow when the file gets `extents` more.
    pub(super) fn nodes_for(&self, extents: u64) -> u64 {
        match extents {
            0 => 0,
            _ => extents.div_ceil(bmbt::minrecs(self.geo()).max(1) as u64) + 4,
        }
    }

    /// Returns the blocks that writing `blocks` blocks may take, wherever they lie: themselves, and
    /// the growth of the bmbt.
    pub(super) fn reservation_for(&self, blocks: u64) -> u64 {
        blocks + self.nodes_for(blocks)
    }
}

impl Tx<'_> {
    /// Makes `change`, which frees more than it takes, and lets it use the reserve pool, so that a
    /// full volume can be emptied.
    pub(crate) fn with_pool<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = std::mem::replace(&mut self.uses_reservation, true);
        let result = change(self);
        self.uses_reservation = before;
        result
    }
}

impl Content {
    /// Reserves blocks for those of `blocks` that are not in memory yet (invariant 2 of
    /// `content.rs`).
    pub(super) fn reserve(
        &self,
        vol: &Volume,
        state: &mut State,
        blocks: Range<u64>,
    ) -> Result<()> {
        let all = state.dirty.blocks() + state.dirty.missing(blocks.clone());
        let more = vol.reservation_for(all).saturating_sub(state.reserved);
        if let Some(left) = &mut state.reservation {
            let part = more.min(*left);
            *left -= part;
            state.reserved += part;
            return Ok(());
        }
        if !vol.contents.delalloc.take(vol, more)? {
            // Nearly full. Reservations are worst-case estimates: flushing replaces them by exact
            // counts.
            self.flush_reserved(vol, state)?;
            let more = self.cost(vol, blocks)?;
            if !vol.contents.delalloc.take(vol, more)? {
                return Err(Error::NoSpace("blocks"));
            }
            state.reserved += more;
            return Ok(());
        }
        state.reserved += more;
        Ok(())
    }

    /// Runs `work`, which takes several transactions, with `blocks` reserved for it, so that it
    /// does not run out of space halfway. All data in memory is flushed before. The transactions
    /// that need those blocks [consume the reservation](Volume::transact_reserved).
    ///
    /// # Errors
    /// [`Error::NoSpace`] before anything is changed, and the errors of `work`.
    pub(super) fn with_reservation<T>(
        &self,
        vol: &Volume,
        state: &mut State,
        blocks: u64,
        work: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        if !vol.contents.delalloc.take(vol, blocks)? {
            self.flush_reserved(vol, state)?;
            if !vol.contents.delalloc.take(vol, blocks)? {
                return Err(Error::NoSpace("blocks"));
            }
        }
        state.reservation = Some(blocks);
        let result = work(state);
        vol.contents.delalloc.give_back(state.reservation.take().unwrap_or(0));
        result
    }

    /// Allocates what is reserved, and makes freed extents usable.
    fn flush_reserved(&self, vol: &Volume, state: &mut State) -> Result<()> {
        self.flush_state(vol, state)?;
        state.unstage(vol)?;
        vol.flush_idle_contents()?;
        Ok(vol.engine()?.checkpoint()?)
    }

    /// Returns the blocks that writing all of `blocks` takes, if none of them is in memory: for
    /// holes, for blocks that other files share, and for the bmbt.
    pub(super) fn cost(&self, vol: &Volume, blocks: Range<u64>) -> Result<u64> {
        let found = self.survey(vol, blocks.clone())?;
        let new = found.holes.saturating_add(self.shared_blocks(vol, blocks)?);
        // A write into the middle of an unwritten extent makes three of it.
        Ok(new.saturating_add(self.nodes(vol, new.saturating_add(2 * found.unwritten))?))
    }

    /// Counts holes and extents in the range `blocks`.
    pub(super) fn survey(&self, vol: &Volume, blocks: Range<u64>) -> Result<Survey> {
        let mut found = Survey::default();
        let mut at = blocks.start;
        while at < blocks.end {
            for segment in self.look_up(vol, at..blocks.end, SEGMENTS)? {
                at += segment.blockcount.0;
                match segment.backing {
                    Backing::Hole => found.holes += segment.blockcount.0,
                    Backing::Unwritten(_) => found.unwritten += 1,
                    Backing::Written(_) => found.written += 1,
                }
            }
        }
        Ok(found)
    }

    /// Returns how many of `blocks` other files share.
    pub(super) fn shared_blocks(&self, vol: &Volume, blocks: Range<u64>) -> Result<u64> {
        let (mut count, mut at) = (0, blocks.start);
        while let Some(shared) = self.next_shared(vol, at..blocks.end)? {
            count += shared.end - shared.start;
            at = shared.end;
        }
        Ok(count)
    }

    /// Returns the blocks by which the bmbt may grow when the file gets `extents` more: none while
    /// the extent list fits in the inode.
    pub(super) fn nodes(&self, vol: &Volume, extents: u64) -> Result<u64> {
        let inside = vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            let core = tx.core(inode);
            let capacity = bmbt::inline_records(core.data_fork().len()) as u64;
            Ok(core.nextents().saturating_add(extents) <= capacity)
        })?;
        Ok(if inside { 0 } else { vol.nodes_for(extents) })
    }

    /// Returns the same when all extents move to other offsets of the file, and one is split.
    pub(super) fn nodes_to_move(&self, vol: &Volume) -> Result<u64> {
        if self.nodes(vol, 1)? == 0 {
            return Ok(0);
        }
        let extents = vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            Ok(tx.core(inode).nextents())
        })?;
        Ok(vol.nodes_for(extents.saturating_add(1)))
    }
}

/// Holes and extents in a range of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Survey {
    /// Blocks that are not mapped.
    pub(super) holes: u64,
    /// Unwritten extents.
    pub(super) unwritten: u64,
    /// Written extents.
    pub(super) written: u64,
}
