//! The checkpoint: what is listed becomes records in the journal.
//!
//! 1. The gate is closed, a snapshot is taken of every listed item and of what changed of it, the gate is opened.
//!    Who changes a log item again changes a copy.
//! 2. The changed ranges are copied into the payload as log items. Data that the changes refer to is waited for.
//! 3. The records are written and durable. What stood under older LSNs than the tail that they carry is in place and
//!    flushed (`writeback`).
//! 4. The items go to the AIL, unpinned; once no older copy of what was freed is on its way to the device, freed
//!    extents may be used again.
//! 5. Write-back is asked to make the journal roomy for the next checkpoint (engine, invariant 2).

use std::ops::Range;
use std::sync::Arc;

use xfskit_format::bytes;
use xfskit_format::log::item::{Regions, encode};
use xfskit_log::{AppendError, Before, LogWriter, Payload, Stats};
use xfskit_units::{AgIno, Geometry, Lsn};
use zerocopy::IntoBytes;

use crate::buf::BufError;
use crate::bytes::{Frozen, Scratch};
use crate::engine::{Engine, TakenList};
use crate::intents::OpenIntents;
use crate::log_item::{DiskLocation, LogItem, Unplaced};

/// Where an inode's unlinked pointer stands in it, in bytes.
const NEXT_UNLINKED: usize = 96;

/// Why a checkpoint could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("the journal cannot be written: {0}")]
    Append(#[from] AppendError),
    #[error("the journal cannot be written: {0}")]
    Log(#[from] xfskit_log::Error),
    #[error("metadata cannot be written back: {0}")]
    WriteBack(#[from] BufError),
}

/// The journal of a writable volume.
#[derive(Debug)]
pub struct Journal {
    writer: LogWriter,
    payload: Payload,
    /// Start of the newest checkpoint: the tail where everything is in place.
    last: Lsn,
    /// What was promised since the journal was opened, and is not kept.
    intents: OpenIntents,
    /// Where older promises stand: the tail goes no further.
    held: Option<Lsn>,
}

impl Journal {
    /// The journal behind `writer`: everything that it held before is in place, or promised where its tail is.
    pub fn new(writer: LogWriter) -> Self {
        let (last, tail) = (writer.next_lsn(), writer.tail());
        let held = (tail < last).then_some(tail);
        Self { writer, payload: Payload::new(), last, intents: OpenIntents::default(), held }
    }

    /// See [`Engine::let_tail_go`].
    pub(crate) fn let_tail_go(&mut self) {
        self.held = None;
    }

    /// What was written so far.
    pub fn stats(&self) -> Stats {
        self.writer.stats()
    }

    /// Start LSN of the oldest checkpoint that is not in place yet, or holds a promise that is not kept.
    fn tail(&self, engine: &Engine) -> Lsn {
        let needed = [engine.ail.tail(), self.intents.tail(), self.held];
        needed.into_iter().flatten().min().unwrap_or(self.last)
    }

    /// Writes all that is items.
    pub(crate) fn checkpoint(&mut self, engine: &Engine) -> Result<(), JournalError> {
        // Until this checkpoint is durable, what it answers is needed too.
        let tail = self.tail(engine);
        let Self { writer, payload, intents, .. } = self;
        payload.clear();
        let lsn = writer.next_lsn();
        let old = writer.lsn_behind_head(writer.size() / 4);
        let taken = engine.take_list(|items| {
            intents.format(&items.intents, payload, (lsn, old), &engine.intent_ids);
            items.items.iter().map(Snapshot::take).collect()
        });
        format(engine.geo(), &taken, payload, lsn);
        let before = if taken.data.wait() { Before::Data } else { Before::Nothing };
        let number = taken.number;
        if !taken.items.is_empty() || !self.payload.is_empty() {
            self.append(engine, taken, tail, before)?;
        }
        engine.mark_durable(number);
        self.make_room(engine)
    }

    fn append(
        &mut self,
        engine: &Engine,
        taken: TakenList<Vec<Snapshot>>,
        tail: Lsn,
        before: Before,
    ) -> Result<(), JournalError> {
        let written = self.writer.append(&self.payload, tail, before)?;
        self.last = written.start;
        let (mut gone, mut kept) = (Vec::new(), Vec::with_capacity(taken.items.len()));
        for (item, snapshot) in taken.items.into_iter().zip(taken.snapshots) {
            if let Snapshot::Gone = snapshot { gone.push(item) } else { kept.push(item) }
        }
        engine.ail.remove(gone.iter().filter_map(|item| Some((&**item, item.lsn()?))));
        for item in &gone {
            item.unpin();
        }
        if !gone.is_empty() {
            engine.write_back.commit_parked();
        }
        engine.ail.insert(kept, written.start);
        Ok(())
    }

    /// Has the oldest written back, so that the next checkpoint finds room, and no more memory is taken for what is not in
    /// place than the engine may have. Write-back begins early, and is waited for where it comes too late.
    fn make_room(&self, engine: &Engine) -> Result<(), JournalError> {
        let (writer, write_back) = (&self.writer, &engine.write_back);
        let (size, free) = (writer.size(), writer.free(self.tail(engine)));
        let (early, late) = (size / 8 * 5, size / 8 * 3);
        let upto = writer.lsn_behind_head(size / 4);
        match free {
            _ if free < late => {
                let is_enough = || writer.free(self.tail(engine)) >= late;
                write_back.push_until(engine, upto, is_enough)?;
            }
            _ if free < early => write_back.ask(engine, upto)?,
            _ => {}
        }
        let most = engine.objects_max();
        if let Some(upto) = engine.ail.too_many(most) {
            write_back.push(engine, upto)?;
        } else if let Some(upto) = engine.ail.too_many(most / 2) {
            write_back.ask(engine, upto)?;
        }
        Ok(())
    }

    /// Marks the journal clean. Everything is in place.
    pub(crate) fn unmount(&mut self) -> Result<(), JournalError> {
        Ok(self.writer.unmount()?)
    }
}

/// What a checkpoint says of one item.
#[derive(Debug)]
enum Snapshot {
    /// It was freed, and is cancelled.
    Gone,
    /// This, as it was when the gate was closed.
    Changed(Frozen, Unplaced),
    /// Nothing: it is written in place, unlogged.
    Ordered,
}

impl Snapshot {
    /// Takes what is listed of `item` off it. The caller has closed the ctx_lock.
    fn take(item: &Arc<LogItem>) -> Self {
        let mut state = item.lock.write();
        let state = &mut *state;
        state.logged.merge(&Unplaced {
            chunks: std::mem::take(&mut state.dirty),
            unlinked: std::mem::take(&mut state.unlinked),
        });
        state.in_cil = false;
        if std::mem::take(&mut state.stale) {
            // Whoever needs what comes to stand there reads it anew.
            (state.bytes, state.verified, state.new) = Default::default();
            (state.logged, state.writing) = Default::default();
            return Self::Gone;
        }
        if state.new.is_some() {
            return Self::Ordered;
        }
        match state.bytes.freeze() {
            None => Self::Gone,
            Some(bytes) => Self::Changed(bytes, state.unplaced()),
        }
    }
}

/// Copies what was taken into the payload.
fn format(geo: &Geometry, taken: &TakenList<Vec<Snapshot>>, payload: &mut Payload, lsn: Lsn) {
    for icreate in &taken.icreates {
        payload.region(&[icreate.as_bytes()]);
    }
    let (mut runs, mut scratch) = (Vec::new(), Scratch::default());
    for (item, snapshot) in taken.items.iter().zip(&taken.snapshots) {
        match (snapshot, item.location()) {
            (Snapshot::Gone, DiskLocation::Block(map)) => {
                map.iter().for_each(|place| encode::cancel(payload, place));
            }
            (Snapshot::Changed(bytes, unplaced), location) => {
                runs.clear();
                runs.extend(unplaced.chunks.runs(bytes.len()));
                let image = bytes.whole(&mut scratch);
                format_changed(geo, payload, lsn, location, (image, &runs, unplaced.unlinked));
            }
            (Snapshot::Gone, DiskLocation::Inode { .. }) | (Snapshot::Ordered, _) => {}
        }
    }
}

/// Copies the `runs` that changed of one item, and its unlinked pointer where that did.
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
