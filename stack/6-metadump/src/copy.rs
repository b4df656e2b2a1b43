//! Ranges of blocks read, cleaned and written.
//!
//! The ranges are in the order of the disk. Threads take about a mebibyte of them at a time, read
//! it with few large reads, and clean it. The results are written in order.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_block::IoRead;
use xfskit_units::{Daddr, Ino, index};

use crate::clean::{Cleaner, Seen};
use crate::error::{Error, Result};
use crate::forks::{self, Found, Inodes};
use crate::format::{Part, SECTOR};
use crate::ordered;
use crate::report::{Phase, Progress, WarningKind};
use crate::runs::{Kind, Run, Scattered};
use crate::walk::{Source, byte_of};
use crate::writer::Writer;

/// Bytes of metadata that a thread takes at a time.
const SEGMENT: usize = 1 << 20;
/// Longest gap between two ranges that is read along, in bytes.
const GAP: u64 = 16 * 1024;

/// What a copy needs to know.
pub(crate) struct Copy<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) cleaner: &'a Cleaner<'a>,
    pub(crate) inodes: &'a Inodes,
    pub(crate) threads: usize,
    pub(crate) stop_on_error: bool,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) cancelled: &'a AtomicBool,
}

/// Cleaned sectors, ready to be written.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Sectors, with their place in `bytes`: address, start, length in bytes.
    extents: Vec<(Daddr, usize, usize)>,
    found: Found,
    failed: Option<xfskit_block::Error>,
}

impl Batch {
    fn add(&mut self, start: Daddr, at: usize, len: usize) {
        match self.extents.last_mut() {
            Some((first, from, have))
                if *from + *have == at && first.0 + (*have / SECTOR) as u64 == start.0 =>
            {
                *have += len;
            }
            _ => self.extents.push((start, at, len)),
        }
    }

    fn write<W: Write>(&self, writer: &mut Writer<W>) -> Result<u64> {
        let mut done = 0;
        for &(start, at, len) in &self.extents {
            writer.put(Part::Data, start, &self.bytes[at..at + len]).map_err(Error::Write)?;
            done += len as u64;
        }
        Ok(done)
    }
}

impl Copy<'_> {
    /// Copies `runs`, and returns what the inodes among them lead to, and the number of bytes.
    pub(crate) fn runs<W: Write>(
        &self,
        runs: &[Run],
        writer: &mut Writer<W>,
        phase: Phase,
    ) -> Result<(Found, u64)> {
        let segments = segments(runs, self.source.geo);
        let total: u64 = runs.iter().map(|run| run.bytes() as u64).sum();
        let mut done = 0;
        let mut all = Found::default();
        let work = |n: usize| self.segment(&segments[n]);
        ordered::for_each(self.threads, segments.len(), work, |_, batch| {
            self.check_cancelled()?;
            done += batch.write(writer)?;
            all.extend(batch.found);
            if let Some(error) = batch.failed.filter(|_| self.stop_on_error) {
                return Err(Error::Device(error));
            }
            self.progress.report(phase, done, total);
            Ok(())
        })?;
        Ok((all, done))
    }

    /// Copies directory blocks whose parts lie apart.
    pub(crate) fn scattered<W: Write>(
        &self,
        blocks: &[Scattered],
        writer: &mut Writer<W>,
    ) -> Result<(Found, u64)> {
        let mut done = 0;
        let mut all = Found::default();
        let work = |n: usize| self.gather(&blocks[n]);
        ordered::for_each(self.threads, blocks.len(), work, |_, batch| {
            self.check_cancelled()?;
            done += batch.write(writer)?;
            all.extend(batch.found);
            match batch.failed.filter(|_| self.stop_on_error) {
                Some(error) => Err(Error::Device(error)),
                None => Ok(()),
            }
        })?;
        Ok((all, done))
    }

    pub(crate) fn check_cancelled(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Reads and cleans the ranges of a segment.
    fn segment(&self, runs: &[Run]) -> Batch {
        let mut batch = Batch::default();
        if self.cancelled.load(Ordering::Relaxed) {
            return batch;
        }
        let spans = spans(runs);
        let sum = spans.iter().map(|span| span_bytes(span)).sum();
        batch.bytes = vec![0; sum];
        let mut rest = &mut batch.bytes[..];
        let mut reads = Vec::with_capacity(spans.len());
        for span in &spans {
            let (buf, after) = rest.split_at_mut(span_bytes(span));
            reads.push(IoRead { offset: byte_of(span[0].start.0), buf });
            rest = after;
        }
        let results = self.source.dev.read_batch(&mut reads);
        let mut base = 0;
        for (span, result) in spans.iter().zip(results) {
            for run in *span {
                let at = base + index(run.start.0 - span[0].start.0) * SECTOR;
                if result.is_ok() || self.read_again(run, at, &mut batch) {
                    self.run(run, at, &mut batch);
                }
            }
            base += span_bytes(span);
        }
        batch
    }

    /// Reads a range by itself, after a read of several ranges failed, and block by block if that
    /// fails too. Returns true if all of it was read. Blocks that can be read are copied.
    fn read_again(&self, run: &Run, at: usize, batch: &mut Batch) -> bool {
        let bytes = &mut batch.bytes[at..at + run.bytes()];
        if self.source.dev.read_at(byte_of(run.start.0), bytes).is_ok() {
            return true;
        }
        let geo = self.source.geo;
        let step = if run.kind == Kind::Header { geo.sectsize() } else { geo.blocksize() };
        let mut rest = Some(*run);
        let mut at = at;
        while let Some(run) = rest {
            let (block, after) = run.split(geo, step);
            let bytes = &mut batch.bytes[at..at + block.bytes()];
            match self.source.dev.read_at(byte_of(block.start.0), bytes) {
                Ok(()) => self.run(&block, at, batch),
                Err(error) => {
                    self.source.unreadable(block.start, &error);
                    batch.failed = Some(error);
                }
            }
            at += block.bytes();
            rest = after;
        }
        false
    }

    /// Cleans a range that was read to byte `at` of the batch.
    fn run(&self, run: &Run, at: usize, batch: &mut Batch) {
        let geo = self.source.geo;
        let unit = run.unit(geo).max(SECTOR);
        let lost = self.source.inodes_lost.load(Ordering::Relaxed);
        let names = lost && matches!(run.kind, Kind::Dir { .. });
        let bytes = &mut batch.bytes[at..at + run.bytes()];
        let mut ino = match run.kind {
            Kind::Inodes => geo
                .daddr_to_agb(run.start)
                .map(|(agno, agbno)| geo.agino_to_ino(agno, geo.agb_to_agino(agbno))),
            _ => None,
        };
        let unit = if run.kind == Kind::Inodes { geo.inodesize() } else { unit };
        for (i, bytes) in bytes.chunks_mut(unit).enumerate() {
            if let Some(ino) = &mut ino {
                forks::collect(self.source, self.inodes, *ino, bytes, &mut batch.found);
            } else if names {
                forks::collect_names(self.source, bytes, &mut batch.found);
            }
            let seen = self.cleaner.clean(bytes, run.kind);
            if seen.unknown && run.kind == Kind::Inodes {
                self.source.inodes_lost.store(true, Ordering::Relaxed);
            }
            if seen != Seen::default() {
                let sector = run.start.0 + (i * unit / SECTOR) as u64;
                self.warn(seen, run, Daddr(sector), ino);
            }
            if let Some(ino) = &mut ino {
                *ino = Ino(ino.0 + 1);
            }
        }
        batch.add(run.start, at, run.bytes());
    }

    fn warn(&self, seen: Seen, run: &Run, at: Daddr, ino: Option<Ino>) {
        let what = || match (ino, run.owner) {
            (Some(ino), _) => format!("inode {ino} (sector {at})"),
            (None, Some(owner)) => {
                format!("{} of inode {owner} (sector {at})", run.kind.describe())
            }
            (None, None) => format!("{} (sector {at})", run.kind.describe()),
        };
        let sink = self.source.sink;
        if seen.bad_crc {
            sink.warn(WarningKind::BadCrc, || format!("{}: the checksum is wrong", what()));
        }
        if seen.unknown {
            sink.warn(WarningKind::Undecoded, || format!("{}: cannot be decoded", what()));
        }
    }

    /// Reads and cleans a block in several pieces.
    fn gather(&self, block: &Scattered) -> Batch {
        let mut batch = Batch::default();
        let mut ends = Vec::new();
        for piece in &block.pieces {
            let at = batch.bytes.len();
            batch.bytes.resize(at + piece.bytes(), 0);
            let read = self.source.dev.read_at(byte_of(piece.start.0), &mut batch.bytes[at..]);
            if let Err(error) = read {
                self.source.unreadable(piece.start, &error);
                batch.failed = Some(error);
                continue;
            }
            ends.push((piece.start, at, piece.bytes()));
        }
        if self.source.inodes_lost.load(Ordering::Relaxed) {
            forks::collect_names(self.source, &batch.bytes, &mut batch.found);
        }
        if let Some(first) = block.pieces.first() {
            let seen = self.cleaner.clean(&mut batch.bytes, first.kind);
            if seen != Seen::default() {
                self.warn(seen, first, first.start, None);
            }
        }
        batch.extents = ends;
        batch
    }
}

/// Divides `runs` into parts of about [`SEGMENT`] bytes.
fn segments(runs: &[Run], geo: &xfskit_units::Geometry) -> Vec<Vec<Run>> {
    let mut segments = Vec::new();
    let (mut open, mut bytes) = (Vec::new(), 0);
    for run in runs {
        let mut rest = Some(*run);
        while let Some(run) = rest {
            let (first, after) = run.split(geo, SEGMENT - bytes);
            bytes += first.bytes();
            open.push(first);
            rest = after;
            if bytes >= SEGMENT {
                segments.push(std::mem::take(&mut open));
                bytes = 0;
            }
        }
    }
    if !open.is_empty() {
        segments.push(open);
    }
    segments
}

/// Divides `runs` where the gap between two is too long to be read along.
fn spans(runs: &[Run]) -> Vec<&[Run]> {
    let near = |a: &Run, b: &Run| (b.start.0.saturating_sub(a.end())) * SECTOR as u64 <= GAP;
    runs.chunk_by(near).collect()
}

fn span_bytes(span: &[Run]) -> usize {
    match (span.first(), span.last()) {
        (Some(first), Some(last)) => index(last.end() - first.start.0) * SECTOR,
        _ => 0,
    }
}
