//! The ring of blocks of the journal.

use std::collections::BTreeMap;

use xfskit_block::BlockDevice;
use xfskit_format::log::record::{BLOCK, MAGIC, cycle_of};
use xfskit_format::{Ctx, Location};
use xfskit_units::{ByteLen, ByteOffset, Daddr, Geometry, LogBlock, Sectors};

use crate::Result;

/// Blocks of the longest record: 256 KiB with its headers, and 8 more header blocks for a writer
/// that did not count them.
pub const RECORD_MAX: u32 = 520;
/// Blocks read at once: 1 MiB.
const READ_AHEAD: u32 = 2048;
/// Blocks that the first read of a window takes, and one at another place than the last.
const READ_AHEAD_FIRST: u32 = 64;

/// The blocks of a journal, numbered from 0. The first follows the last.
#[derive(Debug)]
pub struct Ring<'d> {
    dev: &'d dyn BlockDevice,
    start: Daddr,
    blocks: u32,
    geo: &'d Geometry,
    /// True if the device has several sources for a block, which must be distinguished.
    has_alternatives: bool,
    patches: Patches,
}

/// Blocks that replace those of the device's first source, by number.
pub(crate) type Patches = BTreeMap<u32, Box<[u8; BLOCK]>>;

impl<'d> Ring<'d> {
    /// Returns the ring of the volume `geo` that begins at `start` of `dev`.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if the device ends before the ring does.
    pub fn new(dev: &'d dyn BlockDevice, start: Daddr, geo: &'d Geometry) -> Result<Self> {
        let ring = Self {
            dev,
            start,
            blocks: geo.log_bbs(),
            geo,
            has_alternatives: false,
            patches: Patches::new(),
        };
        let end = start.saturating_add(ring.blocks.into()).byte_offset();
        let ctx = ring.ctx(LogBlock(0));
        ctx.at_least("log.blocks", 2, ring.blocks)?;
        ctx.at_least("log.device", end.0, dev.size().0)?;
        Ok(ring)
    }

    /// Returns the address of the ring on its device.
    pub fn start(&self) -> Daddr {
        self.start
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the geometry of the volume.
    pub fn geo(&self) -> &'d Geometry {
        self.geo
    }

    /// Returns the verifier's context for the record at `at`.
    pub fn ctx(&self, at: LogBlock) -> Ctx<'d> {
        let daddr = self.start.saturating_add(at.0.into());
        Ctx::new(self.geo, Location::of("log record").daddr(daddr, Sectors(0)))
    }

    /// Returns the block `n` after `at`.
    pub fn forward(&self, at: LogBlock, n: u32) -> LogBlock {
        let sum = (u64::from(at.0) + u64::from(n)) % u64::from(self.blocks);
        LogBlock(u32::try_from(sum).unwrap_or(0))
    }

    /// Returns the block `n` before `at`.
    pub fn back(&self, at: LogBlock, n: u32) -> LogBlock {
        self.forward(at, self.blocks - n % self.blocks)
    }

    /// Returns the number of blocks from `from` forward to `to`: 0 if they are equal.
    pub fn distance(&self, from: LogBlock, to: LogBlock) -> u32 {
        if to >= from { to.0 - from.0 } else { self.blocks.saturating_sub(from.0) + to.0 }
    }

    /// Fills `buf` from block `at` on. It consists of whole blocks, no more than the ring has.
    pub fn read(&self, at: LogBlock, buf: &mut [u8]) -> Result<()> {
        if self.has_alternatives && self.read_alternative(at, buf, 0).is_ok() {
            self.apply_patches(at, buf);
            return Ok(());
        }
        let to_end = (self.blocks - at.0 % self.blocks) as usize * BLOCK;
        let (first, wrapped) = buf.split_at_mut(to_end.min(buf.len()));
        self.dev.read_at(self.byte(at), first)?;
        if !wrapped.is_empty() {
            self.dev.read_at(self.byte(LogBlock(0)), wrapped)?;
        }
        self.apply_patches(at, buf);
        Ok(())
    }

    /// Overlays healed blocks on those that the device returned.
    fn apply_patches(&self, at: LogBlock, buf: &mut [u8]) {
        if self.patches.is_empty() {
            return;
        }
        for (n, block) in (0..).zip(buf.chunks_exact_mut(BLOCK)) {
            if let Some(patch) = self.patches.get(&self.forward(at, n).0) {
                block.copy_from_slice(&patch[..]);
            }
        }
    }

    /// Makes every further read use the same source: of mirrors, the first copy. Returns false if
    /// the device has no other source.
    pub(crate) fn pin_alternatives(&mut self) -> bool {
        self.has_alternatives = self.alternatives() > 1;
        self.has_alternatives
    }

    /// Adds `patches` to the overlay.
    pub(crate) fn patch(&mut self, patches: Patches) {
        self.patches.extend(patches);
    }

    /// Returns the largest number of sources that the device has for a block of the journal.
    pub(crate) fn alternatives(&self) -> usize {
        let len = Sectors(self.blocks.into()).byte_len();
        self.dev.alternatives(self.start.byte_offset(), len)
    }

    /// Reads like [`read`](Self::read), from source `k` of the device, or from the last source if
    /// it has fewer there.
    pub(crate) fn read_alternative(&self, at: LogBlock, buf: &mut [u8], k: usize) -> Result<()> {
        let to_end = (self.blocks - at.0 % self.blocks) as usize * BLOCK;
        let (first, wrapped) = buf.split_at_mut(to_end.min(buf.len()));
        let parts = [(self.byte(at), first), (self.byte(LogBlock(0)), wrapped)];
        for (offset, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            let sources = self.dev.alternatives(offset, ByteLen(part.len() as u64));
            self.dev.read_alternative(offset, part, k.min(sources.saturating_sub(1)))?;
        }
        Ok(())
    }

    /// Makes the device return these blocks from every source. They do not cross the end of the
    /// ring, and source `k` returned them.
    pub(crate) fn heal(&self, at: LogBlock, good: &[u8], k: usize) -> Result<bool> {
        Ok(self.dev.heal(self.byte(at), good, k)?)
    }

    /// Reads `count` blocks from block `at` on; at most the whole ring.
    pub fn read_blocks(&self, at: LogBlock, count: u32) -> Result<Vec<u8>> {
        let mut buf = vec![0; count.min(self.blocks) as usize * BLOCK];
        self.read(at, &mut buf)?;
        Ok(buf)
    }

    /// Writes `bytes` from block `at` on: whole blocks, no more than the ring has. Returns the
    /// number of writes.
    pub fn write(&self, at: LogBlock, bytes: &[u8]) -> Result<u64> {
        self.write_with(at, bytes, |offset, bytes| self.dev.write_at(offset, bytes))
    }

    /// Writes like [`write`](Self::write), and makes the bytes durable.
    pub fn write_fua(&self, at: LogBlock, bytes: &[u8]) -> Result<u64> {
        self.write_with(at, bytes, |offset, bytes| self.dev.write_fua(offset, bytes))
    }

    fn write_with(
        &self,
        at: LogBlock,
        bytes: &[u8],
        write: impl Fn(ByteOffset, &[u8]) -> xfskit_block::Result<()>,
    ) -> Result<u64> {
        let to_end = (self.blocks - at.0 % self.blocks) as usize * BLOCK;
        let (first, wrapped) = bytes.split_at(to_end.min(bytes.len()));
        write(self.byte(at), first)?;
        if wrapped.is_empty() {
            return Ok(1);
        }
        write(self.byte(LogBlock(0)), wrapped)?;
        Ok(2)
    }

    /// Makes every write durable.
    pub fn flush(&self) -> Result<()> {
        Ok(self.dev.flush()?)
    }

    /// Returns the cycle that block `at` carries.
    pub fn cycle(&self, at: LogBlock) -> Result<u32> {
        let mut block = [0; BLOCK];
        self.read(at, &mut block)?;
        Ok(cycle_of(&block))
    }

    /// Returns the first block before `end` that begins with a record's header.
    pub fn first_record(&self, end: LogBlock) -> Result<Option<LogBlock>> {
        let bytes = self.read_blocks(LogBlock(0), end.0.min(RECORD_MAX))?;
        let magic = MAGIC.to_be_bytes();
        let is_header = |block: &[u8]| block.first_chunk() == Some(&magic);
        let found = bytes.chunks_exact(BLOCK).position(is_header);
        Ok(found.and_then(|n| u32::try_from(n).ok()).map(LogBlock))
    }

    /// Returns the offset of block `at` on the device.
    fn byte(&self, at: LogBlock) -> ByteOffset {
        self.start.saturating_add((at.0 % self.blocks).into()).byte_offset()
    }
}

/// A reader that moves forward through the ring. Its read-ahead grows while reads follow each
/// other, because many rings hold a few records only.
#[derive(Debug)]
pub struct Window<'r, 'd> {
    ring: &'r Ring<'d>,
    first: LogBlock,
    bytes: Vec<u8>,
    /// Blocks that the next read takes, if it goes on where the last one ended.
    ahead: u32,
}

impl<'r, 'd> Window<'r, 'd> {
    /// Makes an empty window.
    pub fn new(ring: &'r Ring<'d>) -> Self {
        Self { ring, first: LogBlock(0), bytes: Vec::new(), ahead: READ_AHEAD_FIRST }
    }

    /// Returns the `count` blocks from `at`, contiguous even across the end of the ring.
    ///
    /// # Errors
    /// If the device fails. A `count` beyond the ring's size yields the whole ring.
    pub fn blocks(&mut self, at: LogBlock, count: u32) -> Result<&[u8]> {
        let count = count.min(self.ring.blocks());
        let len = count as usize * BLOCK;
        let skip = self.ring.distance(self.first, at) as usize * BLOCK;
        if skip + len > self.bytes.len() {
            let goes_on = skip <= self.bytes.len();
            self.ahead = if goes_on { (4 * self.ahead).min(READ_AHEAD) } else { READ_AHEAD_FIRST };
            let ahead = count.max(self.ahead.min(self.ring.blocks()));
            self.bytes.resize(ahead as usize * BLOCK, 0);
            self.ring.read(at, &mut self.bytes)?;
            self.first = at;
            return Ok(&self.bytes[..len]);
        }
        Ok(&self.bytes[skip..skip + len])
    }
}
