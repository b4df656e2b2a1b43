//! The checkpoint: writes the items of the CIL as records into the journal.
//!
//! 1. The context lock is taken exclusively, every item in the CIL and its changes are snapshotted,
//!    and the lock is released. A later change of an item changes a copy.
//! 2. The changed ranges are copied into the payload as log items. The checkpoint waits for data
//!    that the changes refer to.
//! 3. The records are written and durable. Everything under older LSNs than the tail in these
//!    records is in place and flushed (`writeback`).
//! 4. The items move to the AIL and are unpinned. Freed extents may be reused once no older copy of
//!    them is being written to the device.
//! 5. The AIL push is requested, so that the next checkpoint finds space (engine, invariant 2).

use std::ops::Range;
use std::sync::Arc;

use xfskit_format::bytes;
use xfskit_format::log::item::{Regions, encode};
use xfskit_log::{FlushBefore, Payload};
use xfskit_units::{AgIno, Geometry, Lsn};
use zerocopy::IntoBytes;

use crate::bytes::{Frozen, Scratch};
use crate::engine::{Engine, PanicGuard, TakenCil};
use crate::error::TransError;
use crate::journal::{Journal, JournalError};
use crate::log_item::{DiskLocation, LogItem, Unplaced};

/// Offset of the unlinked pointer in an inode, in bytes.
const NEXT_UNLINKED: usize = 96;

impl Engine {
    /// Writes a checkpoint if the CIL is half full.
    pub(crate) fn checkpoint_if_due(&self) -> Result<(), TransError> {
        self.checkpoint_if(|engine| engine.cil().is_due())
    }

    /// Makes all committed changes durable.
    ///
    /// # Errors
    /// [`TransError::ShutDown`] if the journal cannot be written, now or earlier.
    pub fn checkpoint(&self) -> Result<(), TransError> {
        self.checkpoint_if(|_| true)
    }

    /// Makes all changes up to checkpoint `number` durable. Threads that call this concurrently
    /// share one write of the journal.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn force(&self, number: u64) -> Result<(), TransError> {
        let is_durable = || self.is_durable(number);
        if is_durable() {
            return Ok(self.check_not_shut_down()?);
        }
        let is_done = || match self.check_not_shut_down() {
            Err(shut) => Some(Err(shut.into())),
            Ok(()) => is_durable().then_some(Ok(())),
        };
        self.forcing.run(is_done, || self.checkpoint_if(|_| !is_durable()))
    }

    /// Makes all committed changes of `item` durable.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn force_item(&self, item: &LogItem) -> Result<(), TransError> {
        self.commit_parked();
        self.force(item.last_checkpoint())
    }

    /// Takes the journal's lock and writes a checkpoint if `due` still returns true.
    pub(crate) fn checkpoint_if(&self, due: impl Fn(&Self) -> bool) -> Result<(), TransError> {
        let mut journal = self.journal.lock();
        let _guard = PanicGuard::new(self, "a checkpoint");
        self.check_not_shut_down()?;
        if !due(self) {
            return Ok(());
        }
        let done = journal.checkpoint(self);
        done.map_err(|error| TransError::ShutDown(self.shut_down(&error.to_string())))
    }

    /// Makes all committed changes durable, writes them in place, and marks the journal clean. The
    /// caller starts no transaction that changes something before this returns. A later one
    /// continues the journal behind the mark.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn unmount(&self) -> Result<(), TransError> {
        self.checkpoint()?;
        self.write_back()?;
        let mut journal = self.journal.lock();
        let _guard = PanicGuard::new(self, "the end of the journal");
        let done = journal.unmount();
        done.map_err(|error| TransError::ShutDown(self.shut_down(&error.to_string())))
    }
}

impl Journal {
    /// Returns the start LSN of the oldest checkpoint that is not in place yet or holds an open
    /// intent.
    fn tail(&self, engine: &Engine) -> Lsn {
        let needed = [engine.ail.tail(), self.intents.tail(), self.recovery_tail];
        needed.into_iter().flatten().min().unwrap_or(self.last)
    }

    /// Writes all items of the CIL.
    pub(crate) fn checkpoint(&mut self, engine: &Engine) -> Result<(), JournalError> {
        // The intents that this checkpoint finishes are needed until it is durable.
        let tail = self.tail(engine);
        let Self { writer, payload, intents, .. } = self;
        payload.clear();
        let lsn = writer.next_lsn();
        let old = writer.lsn_before_head(writer.size() / 4);
        let taken = engine.take_cil(|items| {
            intents.format(&items.intents, payload, (lsn, old), &engine.intent_ids);
            items.items.iter().map(Snapshot::take).collect()
        });
        format(engine.geo(), &taken, payload, lsn);
        let before = if taken.data.wait()? { FlushBefore::Data } else { FlushBefore::Nothing };
        let number = taken.number;
        if !taken.items.is_empty() || !self.payload.is_empty() {
            self.append(engine, taken, tail, before)?;
        }
        engine.mark_durable(number);
        self.free_log_space(engine)
    }

    fn append(
        &mut self,
        engine: &Engine,
        taken: TakenCil<Vec<Snapshot>>,
        tail: Lsn,
        before: FlushBefore,
    ) -> Result<(), JournalError> {
        let written = self.writer.append(&self.payload, tail, before)?;
        self.last = written.start;
        let (mut cancelled, mut logged) = (Vec::new(), Vec::with_capacity(taken.items.len()));
        for (item, snapshot) in taken.items.into_iter().zip(taken.snapshots) {
            if let Snapshot::Cancelled = snapshot {
                cancelled.push(item);
            } else {
                logged.push(item);
            }
        }
        engine.ail.remove(cancelled.iter().filter_map(|item| Some((&**item, item.lsn()?))));
        for item in &cancelled {
            item.unpin();
        }
        if !cancelled.is_empty() {
            engine.write_back.wait_in_flight();
        }
        engine.ail.insert(logged, written.start);
        Ok(())
    }

    /// Pushes the oldest items of the AIL, so that the next checkpoint finds space, and the items
    /// that are not in place take no more memory than allowed. The push thread is asked early;
    /// where it is late, the caller pushes.
    fn free_log_space(&self, engine: &Engine) -> Result<(), JournalError> {
        let (writer, write_back) = (&self.writer, &engine.write_back);
        let (size, free) = (writer.size(), writer.free(self.tail(engine)));
        let (early, late) = (size / 8 * 5, size / 8 * 3);
        let upto = writer.lsn_before_head(size / 4);
        match free {
            _ if free < late => {
                let is_enough = || writer.free(self.tail(engine)) >= late;
                write_back.push_until(engine, upto, is_enough)?;
            }
            _ if free < early => write_back.request(engine, upto)?,
            _ => {}
        }
        let max_items = engine.items_max();
        if let Some(upto) = engine.ail.excess_lsn(max_items) {
            write_back.push(engine, upto)?;
        } else if let Some(upto) = engine.ail.excess_lsn(max_items / 2) {
            write_back.request(engine, upto)?;
        }
        Ok(())
    }
}

/// The record of one item in a checkpoint.
#[derive(Debug)]
enum Snapshot {
    /// The item was freed, and is cancelled.
    Cancelled,
    /// The bytes as of the snapshot, and the part to log.
    Changed(Frozen, Unplaced),
    /// Not logged: the item is only written in place.
    Ordered,
}

impl Snapshot {
    /// Moves the committed changes out of `item`. The caller holds the context lock exclusively.
    fn take(item: &Arc<LogItem>) -> Self {
        let mut state = item.lock.write();
        let state = &mut *state;
        state.logged.merge(&Unplaced {
            chunks: std::mem::take(&mut state.dirty),
            unlinked: std::mem::take(&mut state.unlinked),
        });
        state.in_cil = false;
        if std::mem::take(&mut state.stale) {
            // A later user of these blocks reads them anew.
            (state.bytes, state.verified, state.new) = Default::default();
            (state.logged, state.writing) = Default::default();
            return Self::Cancelled;
        }
        if state.new.is_some() {
            return Self::Ordered;
        }
        match state.bytes.freeze() {
            None => Self::Cancelled,
            Some(bytes) => Self::Changed(bytes, state.unplaced()),
        }
    }
}

/// Copies the snapshots into the payload.
fn format(geo: &Geometry, taken: &TakenCil<Vec<Snapshot>>, payload: &mut Payload, lsn: Lsn) {
    for icreate in &taken.icreates {
        payload.region(&[icreate.as_bytes()]);
    }
    let (mut runs, mut scratch) = (Vec::new(), Scratch::default());
    for (item, snapshot) in taken.items.iter().zip(&taken.snapshots) {
        match (snapshot, item.location()) {
            (Snapshot::Cancelled, DiskLocation::Block(map)) => {
                map.iter().for_each(|piece| encode::cancel(payload, piece));
            }
            (Snapshot::Changed(bytes, unplaced), location) => {
                runs.clear();
                runs.extend(unplaced.chunks.runs(bytes.len()));
                let image = bytes.whole(&mut scratch);
                format_changed(geo, payload, lsn, location, (image, &runs, unplaced.unlinked));
            }
            (Snapshot::Cancelled, DiskLocation::Inode { .. }) | (Snapshot::Ordered, _) => {}
        }
    }
}

/// Copies the changed `runs` of one item, and its unlinked pointer if that changed.
fn format_changed(
    geo: &Geometry,
    payload: &mut Payload,
    lsn: Lsn,
    location: &DiskLocation,
    (image, runs, unlinked): (&[u8], &[Range<usize>], bool),
) {
    match location {
        DiskLocation::Block(_) if runs.is_empty() => {}
        DiskLocation::Block(map) => {
            let pieces: Vec<_> = map.iter().collect();
            encode::buf(payload, geo, image, &pieces, runs, lsn);
        }
        DiskLocation::Inode { ino, cluster, offset } => {
            encode::inode(payload, geo, *ino, (*cluster, *offset), image, runs);
            if unlinked {
                let next = bytes::be32(image, NEXT_UNLINKED).filter(|&next| next != u32::MAX);
                encode::unlinked(payload, *cluster, &[(*offset, next.map(AgIno))]);
            }
        }
    }
}
