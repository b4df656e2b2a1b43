//! Content of two files that change places, at once: whoever looks, also after a crash, sees both as they were
//! or both exchanged.
//!
//! Linux exchanges extent by extent, and its journal holds an intent that says how far it came. Here all of it
//! is one transaction, so it must be small enough for one: files in more pieces are refused.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{ByteLen, ByteOffset, FileOff};

use super::content::{Content, State};
use crate::bmap::BUNMAP_MAX;
use crate::error::{Error, Result};
use crate::icore::Touch;
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// What changes places: blocks of one file from `ours` on and of another from `theirs` on.
#[derive(Clone, Copy)]
struct Swap {
    ours: u64,
    theirs: u64,
    blocks: u64,
}

impl Content {
    /// Exchanges the bytes of `range` with those from `offset` on of the file `other`. The ranges consist of whole blocks,
    /// or end where both files end.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a volume without the exchange feature, [`Error::Limit`] for other ranges and for more
    /// extents than one transaction can move, [`Error::NoSpace`], [`Error::Device`], [`Error::Corrupt`]: then
    /// nothing has changed.
    pub fn exchange_range(
        &self,
        vol: &Volume,
        range: Range<ByteOffset>,
        other: &Self,
        offset: ByteOffset,
        now: Timestamp,
    ) -> Result<()> {
        self.exchange_held(vol, other, now, |state, theirs| {
            let blocksize = 1_u64 << vol.geo().blocklog;
            let len = range.end.0.saturating_sub(range.start.0);
            let their_end = offset.0.saturating_add(len);
            if len == 0 || range.end.0 > state.size || their_end > theirs.size {
                return Err(Error::Limit("what is exchanged must lie within both files"));
            }
            let both_end = range.end.0 == state.size && their_end == theirs.size;
            let starts = [range.start.0, offset.0];
            let aligned = starts.iter().all(|start| start.is_multiple_of(blocksize));
            if !(aligned && (len.is_multiple_of(blocksize) || both_end)) {
                return Err(Error::Limit(
                    "whole blocks are exchanged, or to the end of both files",
                ));
            }
            let [ours, theirs] = starts.map(|start| start / blocksize);
            Ok(Swap { ours, theirs, blocks: len.div_ceil(blocksize) })
        })
    }

    /// Exchanges all of the content with that of the file `other`, sizes included.
    ///
    /// # Errors
    /// As [`exchange_range`](Self::exchange_range).
    pub fn exchange(&self, vol: &Volume, other: &Self, now: Timestamp) -> Result<()> {
        let all = Swap { ours: 0, theirs: 0, blocks: u64::MAX };
        self.exchange_held(vol, other, now, |_, _| Ok(all))
    }

    /// Locks both files, writes what is in memory of them, and exchanges what `plan` says.
    fn exchange_held(
        &self,
        vol: &Volume,
        other: &Self,
        now: Timestamp,
        plan: impl Fn(&State, &State) -> Result<Swap>,
    ) -> Result<()> {
        if !vol.geo().features.exchange() {
            let what = "exchanging content on a volume without the exchange feature";
            return Err(Error::Unsupported(what.into()));
        }
        if self.ino() == other.ino() {
            return Err(Error::Limit("a file cannot be exchanged with itself"));
        }
        let (mut state, mut theirs) = self.lock_both(other);
        let swap = plan(&state, &theirs)?;
        self.flush_state(vol, &mut state)?;
        other.flush_state(vol, &mut theirs)?;
        let sizes = (swap.blocks == u64::MAX).then_some((theirs.size, state.size));
        vol.transact(|tx| {
            let (ours, theirs) = self.take_both(tx, other.ino())?;
            tx.swap_extents(ours, theirs, swap)?;
            if let Some((size, their_size)) = sizes {
                tx.set_size(ours, ByteLen(size));
                tx.set_size(theirs, ByteLen(their_size));
            }
            tx.touch(ours, Touch::CONTENT, now);
            tx.touch(theirs, Touch::CONTENT, now);
            Ok(())
        })?;
        if let Some(sizes) = sizes {
            (state.size, theirs.size) = sizes;
        }
        Ok(())
    }
}

impl Tx<'_> {
    /// Extents change places.
    fn swap_extents(&mut self, ours: TxInode, theirs: TxInode, swap: Swap) -> Result<()> {
        let range = |start: u64| FileOff(start)..FileOff(start.saturating_add(swap.blocks));
        let sides = [(ours, range(swap.ours)), (theirs, range(swap.theirs))];
        self.can_move(&sides)?;
        // Either file may have shared blocks of the other's now.
        let shared = [ours, theirs].iter().any(|&inode| self.core(inode).is_reflink());
        if shared {
            self.set_reflink(ours);
            self.set_reflink(theirs);
        }
        // All leave before any comes: blocks that both map may even stay where they are.
        let [(_, from), (_, to)] = sides;
        let going = self.bmap_take(ours, from)?;
        let coming = self.bmap_take(theirs, to)?;
        for (inode, extents, start, to) in
            [(theirs, going, swap.ours, swap.theirs), (ours, coming, swap.theirs, swap.ours)]
        {
            for extent in extents {
                let startoff = FileOff(extent.startoff.0 - start + to);
                self.bmap_give(inode, &Extent { startoff, ..extent })?;
            }
        }
        Ok(())
    }

    /// Fails where the ranges hold more extents than one transaction can move.
    fn can_move(&self, sides: &[(TxInode, Range<FileOff>)]) -> Result<()> {
        let mut count = 0;
        for (inode, range) in sides {
            let mut at = range.start;
            while at < range.end
                && let Some(extent) = self.bmap_next(*inode, Fork::Data, at)?
                && extent.startoff < range.end
            {
                count += 1;
                if count > BUNMAP_MAX {
                    return Err(Error::Limit("too many extents to exchange at once"));
                }
                at = extent.end();
            }
        }
        Ok(())
    }
}
