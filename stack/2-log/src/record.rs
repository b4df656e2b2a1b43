//! Records: reads, verifies and unpacks them.

use xfskit_format::log::RecordHeader;
use xfskit_format::log::op::{self, Op};
use xfskit_format::log::record::{BLOCK, checksums, unpack};
use xfskit_format::{Ctx, Expected, Value, VerifyResult};
use xfskit_units::{LogBlock, Lsn};

use crate::Result;
use crate::ring::{RECORD_MAX, Ring, Window};

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Block of its header.
    pub at: LogBlock,
    /// The header.
    pub header: Box<RecordHeader>,
    /// The payload as it was before cycle numbers were stamped into it.
    pub payload: Vec<u8>,
}

impl Record {
    /// Returns the LSN of the record.
    pub fn lsn(&self) -> Lsn {
        self.header.lsn()
    }

    /// Returns its length in blocks, with its header; at least 1.
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.header.blocks()).unwrap_or(u32::MAX).max(1)
    }

    /// Iterates over the operations; ends after the first that fails a check.
    pub fn ops<'a>(&'a self, ctx: &Ctx<'_>) -> impl Iterator<Item = VerifyResult<Op<'a>>> {
        op::ops(&self.payload, self.header.num_logops.get(), ctx)
    }

    /// Reads and verifies the record at `at`. `crc` decides about a missing checksum.
    ///
    /// # Errors
    /// The first check that fails, or the device's failure.
    pub fn read(
        window: &mut Window<'_, '_>,
        ring: &Ring<'_>,
        at: LogBlock,
        crc: Crc,
    ) -> Result<Self> {
        let ctx = ring.ctx(at);
        let header = window.blocks(at, 1)?;
        let header = RecordHeader::verify(header, &ctx, at)?;
        let blocks = u32::try_from(header.blocks()).unwrap_or(u32::MAX);
        ctx.at_most("log.record.len", RECORD_MAX.min(ring.blocks()), blocks)?;
        Self::of_bytes(window.blocks(at, blocks)?, ring, at, crc)
    }

    /// Verifies the record in `bytes`.
    ///
    /// # Errors
    /// The first check that fails.
    pub(crate) fn of_bytes(bytes: &[u8], ring: &Ring<'_>, at: LogBlock, crc: Crc) -> Result<Self> {
        let ctx = ring.ctx(at);
        let header = Box::new(RecordHeader::verify(bytes, &ctx, at)?.clone());
        let (headers, payload) = bytes.split_at(header.header_blocks() * BLOCK);
        let payload = payload.get(..header.len.get() as usize).unwrap_or(payload);
        crc.check(&header, headers, payload, &ctx)?;
        let mut payload = payload.to_vec();
        unpack(headers, &mut payload);
        Ok(Self { at, header, payload })
    }
}

/// Returns the header at `at` if it has the right checksum of its record, whatever its fields are.
pub(crate) fn summed_header(
    window: &mut Window<'_, '_>,
    ring: &Ring<'_>,
    at: LogBlock,
) -> Result<Option<Box<RecordHeader>>> {
    let header = RecordHeader::parse(window.blocks(at, 1)?).cloned().map(Box::new);
    let Some(header) = header.filter(|header| header.crc() != 0) else { return Ok(None) };
    let blocks = u32::try_from(header.blocks()).unwrap_or(u32::MAX);
    if blocks > RECORD_MAX.min(ring.blocks()) {
        return Ok(None);
    }
    let bytes = window.blocks(at, blocks)?;
    let is_right = bytes.split_at_checked(header.header_blocks() * BLOCK).is_some_and(|parts| {
        let (headers, payload) = parts;
        let payload = payload.get(..header.len.get() as usize).unwrap_or(payload);
        checksums(headers, payload).contains(&header.crc())
    });
    Ok(is_right.then_some(header))
}

/// The treatment of a missing checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crc {
    /// It is a corruption: on version 5 every record that is replayed has one.
    Required,
    /// It is valid: old kernels and mkfs write none.
    IfPresent,
}

impl Crc {
    /// Returns the treatment for the replay of a volume.
    pub fn for_replay(v5: bool) -> Self {
        if v5 { Self::Required } else { Self::IfPresent }
    }

    fn check(
        self,
        header: &RecordHeader,
        headers: &[u8],
        payload: &[u8],
        ctx: &Ctx<'_>,
    ) -> VerifyResult {
        let found = header.crc();
        if found == 0 && self == Self::IfPresent {
            return Ok(());
        }
        let expected = checksums(headers, payload);
        if expected.contains(&found) {
            return Ok(());
        }
        let [expected, _] = expected.map(|crc| Value::Hex(crc.into()));
        Err(ctx.corruption("log.record.crc", Expected::Exactly(expected), Value::Hex(found.into())))
    }
}

/// The records from one block to another, oldest first. The iterator ends after the first bad one.
#[derive(Debug)]
pub struct Records<'r, 'd> {
    ring: &'r Ring<'d>,
    window: Window<'r, 'd>,
    next: LogBlock,
    /// Blocks left to read: the ring is read once at most.
    left: u32,
    /// The block of the record that was read last, or failed.
    current: LogBlock,
    /// True if the previous record was bad.
    failed: bool,
    crc: Crc,
}

impl<'r, 'd> Records<'r, 'd> {
    /// Iterates over the records of `[from, to)`; none if both are equal.
    pub fn new(ring: &'r Ring<'d>, from: LogBlock, to: LogBlock) -> Self {
        let left = ring.distance(from, to);
        let crc = Crc::for_replay(ring.geo().v5());
        Self {
            ring,
            window: Window::new(ring),
            next: from,
            left,
            current: from,
            failed: false,
            crc,
        }
    }

    /// Returns the ring.
    pub fn ring(&self) -> &'r Ring<'d> {
        self.ring
    }

    /// Returns the block of the record that was read last, or that failed.
    pub fn current(&self) -> LogBlock {
        self.current
    }

    /// Returns the number of blocks that have not been read yet.
    pub fn blocks_left(&self) -> u32 {
        self.left
    }

    /// Sets the treatment of a missing checksum.
    pub fn crc(self, crc: Crc) -> Self {
        Self { crc, ..self }
    }

    fn read(&mut self) -> Result<Record> {
        self.current = self.next;
        let record = Record::read(&mut self.window, self.ring, self.next, self.crc)?;
        let blocks = record.blocks();
        let ctx = self.ring.ctx(self.next);
        ctx.at_most("log.record.end", self.left, blocks)?;
        self.left -= blocks;
        self.next = self.ring.forward(self.next, blocks);
        Ok(record)
    }
}

impl Iterator for Records<'_, '_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.failed {
            return None;
        }
        let record = self.read();
        self.failed = record.is_err();
        Some(record)
    }
}
