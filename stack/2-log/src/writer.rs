//! Writes checkpoints at the head of the journal.
//!
//! A checkpoint is one transaction: START, the transaction header, the regions, COMMIT. It fills as
//! many records as it needs; a region that reaches the end of a record continues in the next one.
//! One writer writes one checkpoint at a time, so the position of the next one is known beforehand.
//!
//! 1. A checkpoint is durable when [`append`](LogWriter::append) returns.
//! 2. At most 2 MiB (eight of the longest records) are in flight at once, in one write with FUA. A
//!    crash may lose any sectors of them: recovery cuts the journal off at the first record that is
//!    not whole, and looks for such records no further back. Within that bound the record with
//!    COMMIT needs no flush of its own before it.
//! 3. Changes written in place are durable before a record that releases their space in the journal
//!    is written: the caller flushes before it moves the tail. [`FlushBefore`] flushes new file
//!    data to which the metadata refers.
//! 4. The head never reaches the tail: space for one whole record stays between them.
//! 5. All records between tail and head have the same number of header blocks. A writer begins on a
//!    journal whose content is no longer needed, or adopts the record size of the existing records
//!    ([`LogWriter::resume`]). It never changes its record size.
//!
//! Cost: a write with FUA for every 2 MiB, and a flush before them if [`FlushBefore`] requests it.

use std::sync::Arc;

use xfskit_block::{AlignedBuf, BlockDevice};
use xfskit_crc::meter;
use xfskit_format::log::op::{self, CLIENT_TRANSACTION, OpFlags, OpHeader, TransHeader};
use xfskit_format::log::record::{
    self, BLOCK, FMT_LINUX_LE, MAGIC, RecordHeader, SIZE_MAX, next_cycle, previous_cycle,
};
use xfskit_format::log::unmount_record;
use xfskit_units::{Daddr, Geometry, LogBlock, Lsn};
use zerocopy::{FromZeros, IntoBytes};

use crate::head::header_at;
use crate::payload::Payload;
use crate::{Error, Log, Result, Ring};

/// Default size of records, in bytes; every kernel's default.
pub const RECORD_SIZE: u32 = 32 * 1024;
/// Most records of the greatest size in flight at once.
pub const BUFFERS_MAX: u32 = 8;
/// Smallest space for which a region is split: an operation header and four bytes.
const CUT_MIN: usize = op::LEN + 4;

/// The data that must be durable before a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushBefore {
    /// None.
    Nothing,
    /// New file data: the data device is flushed first.
    Data,
}

/// The position of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Position of the record with its START: the LSN of everything that it changes.
    pub start: Lsn,
    /// Position of the record with its COMMIT.
    pub commit: Lsn,
}

/// The reason why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It does not fit before the tail. Nothing was written.
    #[error("{needed} bytes do not fit into the journal, which has {free} free")]
    Full {
        /// Upper bound of the bytes to write.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// The journal failed. No further append is possible.
    #[error(transparent)]
    Journal(#[from] Error),
}

/// The totals of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Records written.
    pub records: u64,
    /// Bytes written, headers and padding included.
    pub bytes: u64,
    /// Writes to the journal's device, each with FUA.
    pub writes: u64,
    /// Flushes of the journal's device, if that is the data device too.
    pub flushes: u64,
    /// Flushes of a data device that is not the journal's.
    pub data_flushes: u64,
    /// The cost of the records' checksums, while [`xfskit_crc::meter`] is on.
    pub sums: meter::Cost,
}

/// The writer at the head of a journal.
#[derive(Debug)]
pub struct LogWriter {
    dev: Arc<dyn BlockDevice>,
    data: Arc<dyn BlockDevice>,
    start: Daddr,
    geo: Geometry,
    shape: Shape,
    /// Most bytes written at once.
    at_once: usize,
    /// Nothing before this position is needed: the first record of this writer, or an older tail.
    first: Lsn,
    head: Lsn,
    prev: u32,
    /// The tail that the newest record carries.
    tail: Lsn,
    records: AlignedBuf,
    stats: Stats,
}

/// The sizes of records, in bytes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// The field `size` of records.
    size: u32,
    /// Header blocks.
    headers: usize,
    /// Records are padded to multiples of this.
    unit: usize,
    /// Length of the longest record, headers included.
    max: usize,
}

impl Shape {
    fn new(geo: &Geometry, wanted: u32) -> Self {
        let unit = geo.logsectsize().max(geo.logsunit as usize).max(BLOCK);
        let least = u32::try_from(unit).unwrap_or(SIZE_MAX).max(16 * 1024);
        let size = wanted.clamp(least, SIZE_MAX.max(least));
        let headers = record::header_blocks(size);
        Self { size, headers, unit, max: size as usize / unit * unit }
    }

    /// Returns the payload bytes of the longest record.
    fn room(&self) -> usize {
        self.max - self.headers * BLOCK
    }

    /// Returns the length of a record with `payload` bytes.
    fn record(&self, payload: usize) -> usize {
        (self.headers * BLOCK + payload).next_multiple_of(self.unit)
    }
}

/// Returns the length of `buffers` records of the greatest size, in bytes.
fn at_once(buffers: u32) -> usize {
    buffers as usize * SIZE_MAX as usize
}

impl LogWriter {
    /// Makes a writer at the head of `log`, whose device is `dev`. `data` is the device of the
    /// volume (the same one for an internal journal). Everything that the journal holds is in place
    /// and durable: the journal is clean, or was just recovered. Records have at most `size` bytes
    /// ([`RECORD_SIZE`]), from 16 KiB to 256 KiB, or the stripe unit of the journal if that is
    /// larger.
    ///
    /// Remains of an interrupted write ahead of the head are [cleared](Log::clear_ahead).
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(
        log: &Log<'_>,
        dev: Arc<dyn BlockDevice>,
        data: Arc<dyn BlockDevice>,
        size: u32,
    ) -> Result<Self> {
        let ring = log.ring();
        let geo = ring.geo().clone();
        log.clear_ahead()?;
        Ok(Self {
            shape: Shape::new(&geo, size),
            at_once: at_once(BUFFERS_MAX),
            dev,
            data,
            start: ring.start(),
            geo,
            first: log.head(),
            head: log.head(),
            prev: log.last_record().map_or(u32::MAX, |block| block.0),
            tail: log.head(),
            records: AlignedBuf::default(),
            stats: Stats::default(),
        })
    }

    /// Makes a writer at the head of `log` whose content is still needed in part. The tail stays
    /// until [`append`](Self::append) moves it, and records are as long as the existing ones.
    ///
    /// # Errors
    /// If the device fails.
    pub fn resume(
        log: &Log<'_>,
        dev: Arc<dyn BlockDevice>,
        data: Arc<dyn BlockDevice>,
    ) -> Result<Self> {
        let tail = log.tail();
        let size = header_at(log.ring(), tail.block())?.size.get();
        Ok(Self { first: tail, tail, ..Self::new(log, dev, data, size)? })
    }

    /// Returns the tail that the newest record carries, or that the first record will carry.
    pub fn tail(&self) -> Lsn {
        self.tail
    }

    /// Sets the most records of the greatest size in flight at once: 2 to [`BUFFERS_MAX`].
    #[must_use]
    pub fn buffers(self, buffers: u32) -> Self {
        Self { at_once: at_once(buffers.clamp(2, BUFFERS_MAX)), ..self }
    }

    /// Returns the position of the next record: the start LSN of the next checkpoint. No LSN on the
    /// volume may lie ahead of it.
    pub fn next_lsn(&self) -> Lsn {
        self.head
    }

    /// Returns the totals so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns the LSN `bytes` bytes before the head.
    pub fn lsn_before_head(&self, bytes: u64) -> Lsn {
        let back = u32::try_from(bytes / BLOCK as u64).unwrap_or(u32::MAX).min(self.geo.log_bbs());
        let (cycle, block) = (self.head.cycle(), self.head.block().0);
        match block.checked_sub(back) {
            Some(block) => Lsn::new(cycle, LogBlock(block)),
            None => Lsn::new(previous_cycle(cycle), LogBlock(block + self.geo.log_bbs() - back)),
        }
    }

    /// Returns the size of the whole journal in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.geo.log_bbs()) * BLOCK as u64
    }

    /// Returns the most bytes of the journal that `payload` takes, headers and padding included.
    pub fn space_of(&self, payload: &Payload) -> u64 {
        self.space_for(payload.byte_len(), payload.region_count())
    }

    /// Returns the most bytes of the journal that `regions` regions of `bytes` bytes in all take.
    pub fn space_for(&self, bytes: usize, regions: usize) -> u64 {
        let all = bytes + size_of::<TransHeader>() + (regions + 3) * op::LEN;
        let room = self.shape.room();
        if all <= room {
            return self.shape.record(all) as u64;
        }
        // A record may end early by less than CUT_MIN bytes, and a split region has one more
        // header.
        let records = all.div_ceil(room - CUT_MIN - op::LEN);
        records as u64 * self.shape.max as u64
    }

    /// Returns the bytes that can be written before the head comes too near to `tail`.
    pub fn free(&self, tail: Lsn) -> u64 {
        let (tail, head) = (tail.max(self.first), self.head);
        let blocks = match tail.block().0.checked_sub(head.block().0) {
            _ if tail >= head => self.geo.log_bbs(),
            Some(ahead) => ahead,
            None => self.geo.log_bbs() - (head.block().0 - tail.block().0),
        };
        (u64::from(blocks) * BLOCK as u64).saturating_sub(self.shape.max as u64)
    }

    /// Writes `payload` as one checkpoint, which is durable on return. `tail` is the start LSN of
    /// the oldest checkpoint that is not in place and flushed yet, or [`next_lsn`](Self::next_lsn)
    /// if there is none.
    ///
    /// # Errors
    /// [`AppendError::Full`] if the payload does not fit before the tail; else those of the
    /// devices.
    pub fn append(
        &mut self,
        payload: &Payload,
        tail: Lsn,
        before: FlushBefore,
    ) -> std::result::Result<Committed, AppendError> {
        let tail = tail.clamp(self.first, self.head);
        let (needed, free) = (self.space_of(payload), self.free(tail));
        if needed > free {
            return Err(AppendError::Full { needed, free });
        }
        if before == FlushBefore::Data {
            self.flush_data()?;
        }
        let start = self.head;
        let mut ops = Ops::new(payload, tid(start));
        let mut commit = start;
        while !ops.done() {
            self.records.clear();
            let at = self.head;
            let mut count = 0;
            while self.records.len() + self.shape.max <= self.at_once && !ops.done() {
                commit = self.head;
                self.add_record(&mut ops, tail);
                count += 1;
            }
            self.write(at, count)?;
        }
        self.tail = tail;
        self.stats.checkpoints += 1;
        Ok(Committed { start, commit })
    }

    /// Marks the journal clean. Everything that it holds is in place. The data device is flushed
    /// first.
    ///
    /// # Errors
    /// If the device fails.
    pub fn unmount(&mut self) -> Result<()> {
        self.flush_data()?;
        let at = self.head;
        self.records.clear();
        self.records.extend_from_slice(&unmount_record(&self.geo, at, self.prev));
        self.prev = at.block().0;
        self.advance(self.records.len());
        self.write(at, 1)?;
        // The size of records may change here, because nothing before is needed.
        (self.first, self.tail) = (self.head, self.head);
        Ok(())
    }

    fn flush_data(&mut self) -> Result<()> {
        self.data.flush()?;
        if Arc::ptr_eq(&self.data, &self.dev) {
            self.stats.flushes += 1;
        } else {
            self.stats.data_flushes += 1;
        }
        Ok(())
    }

    /// Adds the next record to those to be written, and moves the head after it.
    fn add_record(&mut self, ops: &mut Ops<'_>, tail: Lsn) {
        let Shape { size, headers, .. } = self.shape;
        let from = self.records.len();
        self.records.resize(from + headers * BLOCK);
        let num_logops = ops.fill(&mut self.records, self.shape.room());
        let payload = self.records.len() - from - headers * BLOCK;
        let total = self.shape.record(payload);
        self.records.resize(from + total);

        let mut header = RecordHeader::new_zeroed();
        header.magicno = MAGIC.into();
        header.cycle = self.head.cycle().into();
        header.version = 2.into();
        header.len = u32::try_from(total - headers * BLOCK).unwrap_or(0).into();
        header.lsn = self.head.0.into();
        header.tail_lsn = tail.0.into();
        header.prev_block = self.prev.into();
        header.num_logops = num_logops.into();
        header.fmt = FMT_LINUX_LE.into();
        header.fs_uuid = *self.geo.uuid.as_bytes();
        header.size = size.into();

        let bytes = &mut self.records[from..];
        bytes[..BLOCK].copy_from_slice(header.as_bytes());
        record::pack(bytes, headers, self.head.cycle());
        record::wrap(bytes, (self.geo.log_bbs() - self.head.block().0) as usize);
        let before = meter::of_thread();
        record::sum(bytes, headers);
        self.stats.sums = self.stats.sums + (meter::of_thread() - before);
        self.prev = self.head.block().0;
        self.advance(total);
    }

    /// Moves the head by `bytes`.
    fn advance(&mut self, bytes: usize) {
        let blocks = self.geo.log_bbs();
        let end = self.head.block().0 + u32::try_from(bytes / BLOCK).unwrap_or(0);
        self.head = if end < blocks {
            Lsn::new(self.head.cycle(), LogBlock(end))
        } else {
            Lsn::new(next_cycle(self.head.cycle()), LogBlock(end - blocks))
        };
    }

    /// Writes the `count` pending records from `at` on, and makes them durable.
    fn write(&mut self, at: Lsn, count: u32) -> Result<()> {
        let ring = Ring::new(&*self.dev, self.start, &self.geo)?;
        self.stats.writes += ring.write_fua(at.block(), &self.records)?;
        self.stats.records += u64::from(count);
        self.stats.bytes += self.records.len() as u64;
        Ok(())
    }
}

/// Returns the id of the checkpoint that begins at `start`. Only one transaction is open at a time,
/// so any number will do; this one rarely repeats.
fn tid(start: Lsn) -> u32 {
    start.block().0 ^ start.cycle().wrapping_mul(0x9e37_79b1)
}

/// The operations of one checkpoint that have not been written yet.
struct Ops<'p> {
    payload: &'p Payload,
    tid: u32,
    /// The next region: 0 is START, 1 the transaction header, 2 the payload's first; the one after
    /// the last is COMMIT.
    next: usize,
    /// Offset of that region in the payload, in bytes.
    offset: usize,
    /// Bytes of that region that are already written.
    cut: usize,
}

impl<'p> Ops<'p> {
    fn new(payload: &'p Payload, tid: u32) -> Self {
        Self { payload, tid, next: 0, offset: 0, cut: 0 }
    }

    fn done(&self) -> bool {
        self.next > self.payload.lens.len() + 2
    }

    /// Adds operations to `record` until `room` bytes are filled or none is left. Returns how many.
    fn fill(&mut self, record: &mut AlignedBuf, room: usize) -> u32 {
        let end = record.len() + room;
        let mut count = 0;
        while !self.done() && self.add(record, end) {
            count += 1;
        }
        count
    }

    /// Adds the next operation, or as much of it as fits. Returns false if none was added.
    fn add(&mut self, record: &mut AlignedBuf, end: usize) -> bool {
        let payload = self.payload;
        let trans;
        let (flags, region): (OpFlags, &[u8]) = match self.next {
            0 => (OpFlags::START, &[]),
            1 => {
                trans = trans_header(self.tid, payload.lens.len());
                (OpFlags::empty(), &trans)
            }
            next => match payload.lens.get(next - 2) {
                Some(&len) => {
                    let region = &payload.bytes[self.offset..self.offset + len as usize];
                    (OpFlags::empty(), region)
                }
                None => (OpFlags::COMMIT, &[]),
            },
        };
        let rest = &region[self.cut..];
        let room = end - record.len();
        if room < (op::LEN + rest.len()).min(CUT_MIN) {
            return false;
        }
        let piece = rest.len().min((room - op::LEN) / 4 * 4);
        let (first, last) = (self.cut == 0, piece == rest.len());
        let cut = match (first, last) {
            (true, true) => OpFlags::empty(),
            (true, false) => OpFlags::CONTINUE,
            (false, false) => OpFlags::WAS_CONT | OpFlags::CONTINUE,
            (false, true) => OpFlags::WAS_CONT | OpFlags::END,
        };
        let header = OpHeader {
            tid: self.tid.into(),
            len: u32::try_from(piece).unwrap_or(0).into(),
            clientid: CLIENT_TRANSACTION,
            flags: flags | cut,
            res2: 0.into(),
        };
        record.extend_from_slice(header.as_bytes());
        record.extend_from_slice(&rest[..piece]);
        if last {
            self.offset += if self.next < 2 { 0 } else { region.len() };
            (self.next, self.cut) = (self.next + 1, 0);
        } else {
            self.cut += piece;
        }
        true
    }
}

fn trans_header(tid: u32, regions: usize) -> [u8; size_of::<TransHeader>()] {
    let header = TransHeader {
        magic: op::TRANS_MAGIC.into(),
        r#type: op::TRANS_CHECKPOINT.into(),
        tid: tid.into(),
        num_items: u32::try_from(regions).unwrap_or(u32::MAX).into(),
    };
    let mut bytes = [0; size_of::<TransHeader>()];
    bytes.copy_from_slice(header.as_bytes());
    bytes
}

#[cfg(test)]
mod tests;
