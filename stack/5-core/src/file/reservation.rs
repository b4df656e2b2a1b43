//! Delayed-allocation reservations of one file: the blocks that its data in memory, or a change in
//! several transactions, may come to need ([`xfskit_space::reservation`]).
//!
//! Reservations are worst-case estimates. When a request is refused because of them, the data in
//! memory is flushed, which counts exactly, and the request is tried again ([`Volume::transact`]).

use std::ops::Range;

use xfskit_format::bmbt;
use xfskit_units::{FilBlks, FileOff, PositionRange};

use super::content::SEGMENTS;
use crate::bmap::Backing;
use crate::error::{Error, Result};
use crate::open_files::{Content, State};
use crate::volume::Volume;

impl Volume {
    /// Returns the blocks by which a file's bmbt may grow when the file gets `extents` more.
    pub(super) fn nodes_for(&self, extents: u64) -> FilBlks {
        FilBlks(match extents {
            0 => 0,
            _ => extents.div_ceil(bmbt::minrecs(self.geo()).max(1) as u64) + 4,
        })
    }

    /// Returns the blocks that writing `blocks` blocks may take, wherever they lie: themselves, and
    /// the growth of the bmbt.
    pub(super) fn reservation_for(&self, blocks: FilBlks) -> FilBlks {
        blocks.plus(self.nodes_for(blocks.0))
    }
}

impl Content {
    /// Reserves blocks for those of `blocks` that are not in memory yet (invariant 2 of
    /// `content.rs`).
    pub(super) fn reserve(
        &self,
        vol: &Volume,
        state: &mut State,
        blocks: Range<FileOff>,
    ) -> Result<()> {
        let all = state.dirty.blocks().plus(state.dirty.missing(blocks.clone()));
        let more = vol.reservation_for(all).saturating_minus(state.reserved);
        if let Some(left) = &mut state.reservation {
            let part = more.min(*left);
            *left = left.minus(part);
            state.reserved = state.reserved.plus(part);
            return Ok(());
        }
        if !vol.space().reserve(more.0)? {
            // Nearly full. Reservations are worst-case estimates: flushing replaces them by exact
            // counts.
            self.flush_reserved(vol, state)?;
            let more = self.cost(vol, blocks)?;
            if !vol.space().reserve(more.0)? {
                return Err(Error::NoSpace("blocks"));
            }
            state.reserved = state.reserved.plus(more);
            return Ok(());
        }
        state.reserved = state.reserved.plus(more);
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
        blocks: FilBlks,
        work: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        if !vol.space().reserve(blocks.0)? {
            self.flush_reserved(vol, state)?;
            if !vol.space().reserve(blocks.0)? {
                return Err(Error::NoSpace("blocks"));
            }
        }
        state.reservation = Some(blocks);
        let result = work(state);
        vol.space().unreserve(state.reservation.take().unwrap_or(FilBlks(0)).0);
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
    pub(super) fn cost(&self, vol: &Volume, blocks: Range<FileOff>) -> Result<FilBlks> {
        let found = self.survey(vol, blocks.clone())?;
        let new = found.holes.saturating_plus(self.shared_blocks(vol, blocks)?);
        // A write into the middle of an unwritten extent makes three of it.
        let extents = new.0.saturating_add(2 * found.unwritten);
        Ok(new.saturating_plus(self.nodes(vol, extents)?))
    }

    /// Counts holes and extents in the range `blocks`.
    pub(super) fn survey(&self, vol: &Volume, blocks: Range<FileOff>) -> Result<Survey> {
        let mut found = Survey::default();
        let mut at = blocks.start;
        while at < blocks.end {
            for segment in self.look_up(vol, at..blocks.end, SEGMENTS)? {
                at = at.plus(segment.blockcount);
                match segment.backing {
                    Backing::Hole => found.holes = found.holes.plus(segment.blockcount),
                    Backing::Unwritten(_) => found.unwritten += 1,
                    Backing::Written(_) => found.written += 1,
                }
            }
        }
        Ok(found)
    }

    /// Returns how many of `blocks` other files share.
    pub(super) fn shared_blocks(&self, vol: &Volume, blocks: Range<FileOff>) -> Result<FilBlks> {
        let (mut count, mut at) = (FilBlks(0), blocks.start);
        while let Some(shared) = self.next_shared(vol, at..blocks.end)? {
            count = count.plus(shared.length());
            at = shared.end;
        }
        Ok(count)
    }

    /// Returns the blocks by which the bmbt may grow when the file gets `extents` more: none while
    /// the extent list fits in the inode.
    pub(super) fn nodes(&self, vol: &Volume, extents: u64) -> Result<FilBlks> {
        let inside = vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            let core = tx.core(inode);
            let capacity = bmbt::inline_records(core.data_fork().len()) as u64;
            Ok(core.nextents().saturating_add(extents) <= capacity)
        })?;
        Ok(if inside { FilBlks(0) } else { vol.nodes_for(extents) })
    }

    /// Returns the same when all extents move to other offsets of the file, and one is split.
    pub(super) fn nodes_to_move(&self, vol: &Volume) -> Result<FilBlks> {
        if self.nodes(vol, 1)?.is_zero() {
            return Ok(FilBlks(0));
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
    pub(super) holes: FilBlks,
    /// Unwritten extents.
    pub(super) unwritten: u64,
    /// Written extents.
    pub(super) written: u64,
}
