//! Atomic exchange of the data of two files. A reader sees both files either before or after the
//! exchange, also after a crash.
//!
//! A small exchange is done in one transaction. A large one takes several, and both files stay
//! locked meanwhile. Each transaction logs an intent for the remaining work, so that recovery
//! continues after a crash in between. The blocks that both extent maps may need are reserved
//! beforehand, so that the exchange cannot run out of space halfway.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::inode::Dinode;
use xfskit_format::log::item::intent::{Exchange, Work, exchange};
use xfskit_format::log::item::{Family, Intent, kind};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{ByteLen, ByteOffset, FilBlks, FileOff, PositionRange};

use super::share::count_extents;
use crate::error::{Error, Result};
use crate::icore::Touch;
use crate::open_files::{Content, State};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// An exchange: blocks of one file from `ours` on, and of another from `theirs` on.
#[derive(Clone, Copy)]
struct Swap {
    ours: FileOff,
    theirs: FileOff,
    blocks: FilBlks,
    /// Exchange the sizes of both, too.
    sizes: bool,
}

impl Content {
    /// Exchanges the bytes of `range` with those from `offset` on of the file `other`. The ranges
    /// consist of whole blocks, or end where both files end.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a volume without the exchange feature, [`Error::Limit`] for other
    /// ranges, [`Error::NoSpace`], [`Error::Device`], [`Error::Corrupt`]: then nothing has changed,
    /// or the volume was shut down halfway, and recovery does the rest.
    pub fn exchange_range(
        &self,
        vol: &Volume,
        range: Range<ByteOffset>,
        other: &Self,
        offset: ByteOffset,
        now: Timestamp,
    ) -> Result<()> {
        self.exchange_held(vol, other, now, |state, theirs| {
            let blocksize = vol.geo().filblks_to_bytes(FilBlks(1));
            let len = range.length();
            let their_end = offset.saturating_plus(len);
            if len.is_zero() || range.end > state.end() || their_end > theirs.end() {
                return Err(Error::Limit("what is exchanged must lie within both files"));
            }
            let both_end = range.end == state.end() && their_end == theirs.end();
            let aligned = |at: ByteOffset| at.within(blocksize).is_zero();
            let starts = [range.start, offset];
            if !(starts.into_iter().all(aligned) && (aligned(ByteOffset(len.0)) || both_end)) {
                return Err(Error::Limit(
                    "whole blocks are exchanged, or to the end of both files",
                ));
            }
            let [ours, theirs] = starts.map(|start| vol.geo().byte_to_fileoff(start));
            let blocks = FilBlks(len.div_ceil(blocksize));
            Ok(Swap { ours, theirs, blocks, sizes: false })
        })
    }

    /// Exchanges all data with that of the file `other`, sizes included.
    ///
    /// # Errors
    /// As [`exchange_range`](Self::exchange_range).
    pub fn exchange(&self, vol: &Volume, other: &Self, now: Timestamp) -> Result<()> {
        let (ours, theirs) = (FileOff::ZERO, FileOff::ZERO);
        let all = Swap { ours, theirs, blocks: FilBlks(u64::MAX), sizes: true };
        self.exchange_held(vol, other, now, |_, _| Ok(all))
    }

    /// Locks both files, flushes their data in memory, and makes the exchange that `plan` returns.
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
        self.verify_map_from(vol, ByteOffset(0))?;
        other.verify_map_from(vol, ByteOffset(0))?;
        let work = vol.transact(|tx| {
            let (ours, theirs) = self.take_both(tx, other.ino())?;
            tx.plan_exchange([ours, theirs], swap)
        })?;
        let cost = self.cost_of_exchange(vol, other, &work)?;
        self.with_reservation(vol, &mut state, cost, |_| self.exchange_all(vol, other, work, now))?;
        if swap.sizes {
            std::mem::swap(&mut state.size, &mut theirs.size);
        }
        Ok(())
    }

    /// Returns the number of blocks that the maps of both files may need on the way.
    fn cost_of_exchange(&self, vol: &Volume, other: &Self, work: &Exchange) -> Result<FilBlks> {
        let len = FilBlks(work.blockcount.get());
        let range = |start: FileOff| start..start.saturating_plus(len);
        let ours = count_extents(vol, self.ino(), range(FileOff(work.startoff1.get())))?;
        let theirs = count_extents(vol, other.ino(), range(FileOff(work.startoff2.get())))?;
        // An extent is cut at each end of a range, and where the walk stands.
        let all = ours + theirs + 6;
        Ok(self.nodes(vol, all)?.plus(other.nodes(vol, all)?))
    }

    /// Does all of `work`, transaction by transaction.
    fn exchange_all(
        &self,
        vol: &Volume,
        other: &Self,
        work: Exchange,
        now: Timestamp,
    ) -> Result<()> {
        let mut intent = self.exchange_step(vol, other, &work, |tx, files| {
            tx.begin_exchange(files, now);
        })?;
        while let Some(Intent { work: Work::Exchange(work), .. }) = &intent {
            let done = intent.as_ref().map(Intent::done);
            let step = self.exchange_step(vol, other, work, |tx, _| {
                if let Some(done) = &done {
                    tx.log_done(done.clone());
                }
            });
            intent = step.inspect_err(|error| {
                if let Ok(engine) = vol.engine() {
                    engine.shut_down(&format!("an exchange of content, halfway: {error}"));
                }
            })?;
        }
        Ok(())
    }

    /// Runs one transaction of an exchange, and returns the intent for the remaining work.
    fn exchange_step(
        &self,
        vol: &Volume,
        other: &Self,
        work: &Exchange,
        first: impl Fn(&mut Tx<'_>, [TxInode; 2]),
    ) -> Result<Option<Intent>> {
        vol.transact_reserved(|tx| {
            let (ours, theirs) = self.take_both(tx, other.ino())?;
            first(tx, [ours, theirs]);
            let left = tx.exchange_some([ours, theirs], work)?;
            let reserved = |left| tx.log_intent(Family::Exchange, Work::Exchange(Box::new(left)));
            Ok(left.map(reserved))
        })
    }
}

impl Tx<'_> {
    /// Returns the exchange `swap` between `files` in the form of the journal's intent.
    fn plan_exchange(&self, files: [TxInode; 2], swap: Swap) -> Result<Exchange> {
        let [ours, theirs] = files.map(|file| self.core(file));
        let mut blocks = swap.blocks;
        let (mut flags, mut sizes) = (0, [ByteLen(u64::MAX); 2]);
        if swap.sizes {
            let ends = [files[0], files[1]].map(|file| self.bmap_end(file, Fork::Data));
            let [end, their_end] = ends;
            blocks = end?.max(their_end?).distance_from(FileOff::ZERO);
            flags = exchange::SET_SIZES | unshared(&ours, &theirs);
            sizes = [theirs.size(), ours.size()];
        }
        Ok(Exchange {
            r#type: kind::XMI.into(),
            size: 1.into(),
            pad: 0.into(),
            id: 0.into(),
            inode1: files[0].ino.0.into(),
            inode2: files[1].ino.0.into(),
            igen1: ours.generation().into(),
            igen2: theirs.generation().into(),
            startoff1: swap.ours.0.into(),
            startoff2: swap.theirs.0.into(),
            blockcount: blocks.0.into(),
            flags: flags.into(),
            isize1: sizes[0].0.into(),
            isize2: sizes[1].0.into(),
        })
    }

    /// Prepares both files before the first extent moves.
    fn begin_exchange(&mut self, files: [TxInode; 2], now: Timestamp) {
        // Either file may have shared blocks of the other's from now on.
        let shared = files.iter().any(|&file| self.core(file).is_reflink());
        for file in files {
            if shared {
                self.set_reflink(file);
            }
            self.touch(file, Touch::CONTENT, now);
        }
    }
}

/// Returns the flags for the file that loses its last shared blocks when all data of both is
/// exchanged.
fn unshared(ours: &Dinode<'_>, theirs: &Dinode<'_>) -> u64 {
    match (ours.is_reflink(), theirs.is_reflink()) {
        (true, false) => exchange::CLEAR_REFLINK_1,
        (false, true) => exchange::CLEAR_REFLINK_2,
        _ => 0,
    }
}
