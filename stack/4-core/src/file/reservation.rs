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

/// Free blocks that are spoken for, and not allocated yet.
#[derive(Debug, Default)]
pub(super) struct DelallocReservation {
    all: AtomicI64,
}

impl DelallocReservation {
    /// Takes `blocks` more, where so many are free.
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

    /// Takes as many of `most` blocks as are free, and none where they are fewer than `least`.
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

/// Blocks that stay promised until this goes.
#[derive(Debug)]
pub(crate) struct BlockReservation<'v> {
    delalloc: &'v DelallocReservation,
    blocks: u64,
}

impl BlockReservation<'_> {
    /// Takes as many of `most` blocks as are neither withheld nor promised to others, and returns how many; `None` where
    /// they are fewer than `least`.
    pub(crate) fn take(&mut self, vol: &Volume, least: u32, most: u32) -> Result<Option<u32>> {
        let Some(blocks) = self.delalloc.take_some(vol, least.into(), most.into())? else {
            return Ok(None);
        };
        self.blocks += blocks;
        Ok(Some(u32::try_from(blocks).unwrap_or(most)))
    }

    /// Gives some of them back.
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
    /// Free blocks that content can have; what is in memory only has its blocks already.
    pub fn blocks_available(&self) -> u64 {
        let known = || i64::try_from(self.superblock().fdblocks.get()).unwrap_or(i64::MAX);
        let free =
            self.engine().map_or_else(|_| known(), |engine| engine.counters().get().fdblocks);
        let reserved = self.contents.delalloc.all.load(Ordering::Relaxed);
        u64::try_from(free.saturating_sub(self.set_aside()).saturating_sub(reserved)).unwrap_or(0)
    }

    /// Returns room for nothing, to take blocks into.
    pub(crate) fn no_reservation(&self) -> BlockReservation<'_> {
        BlockReservation { delalloc: &self.contents.delalloc, blocks: 0 }
    }

    /// DelallocReservation `blocks` for as long as the answer lives; `None` where there are not so many.
    pub(super) fn reserve_blocks(&self, blocks: u64) -> Result<Option<BlockReservation<'_>>> {
        let delalloc = &self.contents.delalloc;
        // A room that is dropped gives back: it must not come to be where nothing was taken.
        Ok(delalloc.take(self, blocks)?.then(|| BlockReservation { delalloc, blocks }))
    }

    /// A transaction with blocks promised to what it does.
    pub(crate) fn transact_reserved<T>(
        &self,
        mut change: impl FnMut(&mut Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        self.transact(|tx| {
            tx.uses_reservation = true;
            change(tx)
        })
    }

    /// Free blocks that content cannot have: [`withheld`](Self::withheld), as it was when first asked, which is before
    /// any transaction that asks. What the trees take of it meanwhile is theirs.
    pub(crate) fn set_aside(&self) -> i64 {
        let now = || i64::try_from(self.withheld()).unwrap_or(i64::MAX);
        *self.contents.set_aside.get_or_init(now)
    }

    /// Blocks that a file's tree of extents may grow by when it gets so many more.
    pub(super) fn nodes_for(&self, extents: u64) -> u64 {
        match extents {
            0 => 0,
            _ => extents.div_ceil(bmbt::minrecs(self.geo()).max(1) as u64) + 4,
        }
    }

    /// Blocks that it takes to write `blocks` blocks, wherever they lie: themselves, and what their map needs.
    pub(super) fn reservation_for(&self, blocks: u64) -> u64 {
        blocks + self.nodes_for(blocks)
    }
}

impl Tx<'_> {
    /// Makes `change`, which frees more than it takes, with the reserve pool at its disposal: a full volume can be emptied.
    pub(crate) fn with_pool<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = std::mem::replace(&mut self.uses_reservation, true);
        let answer = change(self);
        self.uses_reservation = before;
        answer
    }
}

impl Content {
    /// Has blocks promised for those of `blocks` that are not in memory yet (invariant 2 of `content.rs`).
    pub(super) fn reserve(
        &self,
        vol: &Volume,
        state: &mut State,
        blocks: Range<u64>,
    ) -> Result<()> {
        let all = state.dirty.blocks() + state.dirty.missing(blocks.clone());
        let more = vol.reservation_for(all).saturating_sub(state.reserved);
        if let Some(room) = &mut state.reservation {
            let part = more.min(*room);
            *room -= part;
            state.reserved += part;
            return Ok(());
        }
        if !vol.contents.delalloc.take(vol, more)? {
            // Nearly full: delalloc are for the worst case, so put them into practice, and count.
            self.settle(vol, state)?;
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

    /// Does `work`, which takes several transactions, with `blocks` promised to it, so that it does not end halfway for
    /// want of space. Nothing is in memory that is not flushed. Its transactions that need those blocks are
    /// [entitled](Volume::transact_reserved) to them.
    ///
    /// # Errors
    /// [`Error::NoSpace`] before anything is done, and those of `work`.
    pub(super) fn with_reservation<T>(
        &self,
        vol: &Volume,
        state: &mut State,
        blocks: u64,
        work: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        if !vol.contents.delalloc.take(vol, blocks)? {
            self.settle(vol, state)?;
            if !vol.contents.delalloc.take(vol, blocks)? {
                return Err(Error::NoSpace("blocks"));
            }
        }
        state.reservation = Some(blocks);
        let answer = work(state);
        vol.contents.delalloc.give_back(state.reservation.take().unwrap_or(0));
        answer
    }

    /// Puts delalloc into practice, and makes what was freed usable.
    fn settle(&self, vol: &Volume, state: &mut State) -> Result<()> {
        self.flush_state(vol, state)?;
        state.unstage(vol)?;
        vol.flush_idle_contents()?;
        Ok(vol.engine()?.checkpoint()?)
    }

    /// Blocks that it takes to write all of `blocks`, none of which is in memory: holes, blocks that other files map
    /// too, and what the map needs.
    pub(super) fn cost(&self, vol: &Volume, blocks: Range<u64>) -> Result<u64> {
        let found = self.survey(vol, blocks.clone())?;
        let new = found.holes.saturating_add(self.shared_blocks(vol, blocks)?);
        // An unwritten extent that is written in its middle becomes three.
        Ok(new.saturating_add(self.nodes(vol, new.saturating_add(2 * found.unwritten))?))
    }

    /// What lies behind `blocks`.
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

    /// How many of `blocks` other files map too.
    pub(super) fn shared_blocks(&self, vol: &Volume, blocks: Range<u64>) -> Result<u64> {
        let (mut count, mut at) = (0, blocks.start);
        while let Some(shared) = self.next_shared(vol, at..blocks.end)? {
            count += shared.end - shared.start;
            at = shared.end;
        }
        Ok(count)
    }

    /// Blocks that the map may grow by when it gets so many `extents` more: none while it stays in the inode.
    pub(super) fn nodes(&self, vol: &Volume, extents: u64) -> Result<u64> {
        let inside = vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            let core = tx.core(inode);
            let room = bmbt::inline_records(core.data_fork().len()) as u64;
            Ok(core.nextents().saturating_add(extents) <= room)
        })?;
        Ok(if inside { 0 } else { vol.nodes_for(extents) })
    }

    /// The same when all of its extents are put to other places in the file, and one is cut in two.
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

/// What lies behind a range of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Survey {
    /// Blocks that are not mapped.
    pub(super) holes: u64,
    /// Extents that nothing was written to.
    pub(super) unwritten: u64,
    /// Extents that hold content.
    pub(super) written: u64,
}
