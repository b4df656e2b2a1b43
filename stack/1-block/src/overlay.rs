//! Copy-on-write in memory: writes stay in memory, the device below is never touched.
//!
//! A dirty log is replayed this way on a volume that is opened for reading only. As a log may hold
//! 2 GiB, memory can be limited: further pages go to a file without a name.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, IoRead, Result, check_range};
use crate::pages::{Pages, Part, parts};
use crate::spill::Spill;
use crate::{forward, plain};

/// Size of a page in bytes.
const PAGE: u64 = 4096;
/// Size of a page in bytes where sectors must stay apart.
const SECTOR: u64 = 512;

/// A writable view of a device whose changes live in memory and end with the view.
///
/// The device below must not be written meanwhile.
#[derive(Debug)]
pub struct OverlayDevice {
    base: Arc<dyn BlockDevice>,
    /// Size of a page in bytes, the unit in which the device below is copied.
    page: u64,
    changed: Pages,
    limited: Option<Limited>,
}

/// What keeps the changes from taking more memory.
#[derive(Debug)]
struct Limited {
    memory: ByteLen,
    spill: Spill,
    /// Held by a writer: a page is in one of both places. Taken before the locks of both.
    writer: Mutex<()>,
}

impl OverlayDevice {
    /// Makes a view of `base` without changes.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self::with_pages(base, PAGE)
    }

    /// Makes a view like [`new`](Self::new) that copies no more than the sectors that are written,
    /// of 512 bytes. The sources of the sectors beside them stay apart.
    pub fn by_sectors(base: Arc<dyn BlockDevice>) -> Self {
        Self::with_pages(base, SECTOR)
    }

    fn with_pages(base: Arc<dyn BlockDevice>, page: u64) -> Self {
        Self { base, page, changed: Pages::new(page), limited: None }
    }

    /// Keeps the changes to about `memory` bytes of memory. More go to a file without a name in
    /// `dir`, if one can be made there.
    pub fn limited_to(self, memory: ByteLen, dir: &Path) -> Self {
        let spill = Spill::new(self.page, dir.to_owned());
        Self { limited: Some(Limited { memory, spill, writer: Mutex::default() }), ..self }
    }

    /// Returns the written ranges in bytes, ascending and merged. They are rounded out to whole
    /// pages, and end with the device.
    pub fn changed_ranges(&self) -> Vec<Range<ByteOffset>> {
        let mut ranges: Vec<Range<ByteOffset>> = Vec::new();
        let mut starts = self.changed.offsets();
        let spilled = self.limited.iter().flat_map(|limited| limited.spill.pages());
        starts.extend(spilled.map(|page| ByteOffset(page * self.page)));
        starts.sort_unstable();
        for start in starts {
            let end = ByteOffset((start.0 + self.page).min(self.size().0));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Returns the memory that the changes take, in bytes.
    pub fn resident(&self) -> ByteLen {
        self.changed.resident()
    }

    /// Returns the device below.
    pub fn base(&self) -> &Arc<dyn BlockDevice> {
        &self.base
    }

    /// Lays the changes over `buf`, whose bytes begin at `offset`.
    fn read_over(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.changed.read_over(offset, buf);
        match &self.limited {
            Some(limited) => limited.spill.read_over(offset, buf),
            None => Ok(()),
        }
    }

    /// Writes to the part of a page where memory is limited.
    fn write_limited(&self, limited: &Limited, part: Part, buf: &[u8]) -> Result<()> {
        let Limited { memory, spill, .. } = limited;
        let start = ByteOffset(part.page * self.page);
        let is_in_memory = self.changed.touches(start, ByteLen(1));
        let has_room = self.changed.resident() < *memory;
        if !is_in_memory && (!has_room || spill.holds(part.page)) {
            let fill = |page: &mut [u8]| self.copy_up(start, page);
            if spill.write(part.page, part.in_page.start, buf, fill)? {
                return Ok(());
            }
        }
        let offset = ByteOffset(start.0 + part.in_page.start as u64);
        self.changed.write(offset, buf, |at, page| self.copy_up(at, page))
    }

    /// Copies a page from the device below before part of it is written.
    fn copy_up(&self, offset: ByteOffset, page: &mut [u8]) -> Result<()> {
        let n = page.len().min(index(self.size().0 - offset.0));
        self.base.read_at(offset, &mut page[..n])
    }
}

impl BlockDevice for OverlayDevice {
    forward!(this => this.base; size, logical_block_size, physical_block_size, topology, will_need);
    // Writes go to memory, so the device below neither zeroes, nor discards, nor heals.
    plain!(lend, is_read_only, write_batch, write_fua, discard, write_zeroes, heal);
    /// Skips holes below that were not written.
    fn skip_hole(&self, offset: ByteOffset) -> ByteOffset {
        let below = self.base.skip_hole(offset);
        if below == offset {
            return offset;
        }
        let spilled = self.limited.iter().flat_map(|limited| limited.spill.pages());
        let spilled = spilled.filter(|page| (page + 1) * self.page > offset.0);
        let written = spilled.map(|page| ByteOffset(page * self.page).max(offset)).min();
        self.changed.next(offset).into_iter().chain(written).fold(below, ByteOffset::min)
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.base.read_at(offset, buf)?;
        self.read_over(offset, buf)
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let results = self.base.read_batch(batch);
        let over = |(io, result): (&mut IoRead<'_>, Result<()>)| {
            result.and_then(|()| self.read_over(io.offset, io.buf))
        };
        batch.iter_mut().zip(results).map(over).collect()
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        check_range("write", self.size(), offset, buf.len())?;
        let Some(limited) = &self.limited else {
            return self.changed.write(offset, buf, |at, page| self.copy_up(at, page));
        };
        let _writer = limited.writer.lock();
        parts(self.page, offset, buf.len()).try_for_each(|part| {
            let buf = &buf[part.in_buf.clone()];
            self.write_limited(limited, part, buf)
        })
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    /// Returns the number of sources of the device below. The written data is laid over each of
    /// them.
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        self.base.alternatives(offset, len)
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.base.read_alternative(offset, buf, k)?;
        self.read_over(offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CountingDevice, Error, MemDevice};

    #[test]
    fn reads_merge_the_base_and_the_changes_and_the_base_stays_untouched() {
        let size = 10_000u64; // no multiple of a page
        let base = Arc::new(CountingDevice::new(Arc::new(MemDevice::new(ByteLen(size)))));
        let mut expect: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap()).collect();
        base.write_at(ByteOffset(0), &expect).unwrap();
        let before = base.counts();
        let view = OverlayDevice::new(Arc::clone(&base) as Arc<dyn BlockDevice>);
        for (at, len) in [(4000usize, 200usize), (9_990, 10), (0, 1)] {
            view.write_at(ByteOffset(at as u64), &vec![0xff; len]).unwrap();
            expect[at..at + len].fill(0xff);
        }
        let mut all = vec![0; index(size)];
        view.read_at(ByteOffset(0), &mut all).unwrap();
        assert_eq!(all, expect);
        let mut part = vec![0; 300];
        view.read_batch(&mut [IoRead { offset: ByteOffset(3950), buf: &mut part }]);
        assert_eq!(part, expect[3950..4250]);
        view.flush().unwrap();
        let after = base.counts();
        assert_eq!((after.writes, after.flushes), (before.writes, before.flushes));
    }

    #[test]
    fn a_limited_view_keeps_the_rest_of_its_changes_in_a_file() {
        let size = 100 * PAGE + 7;
        let base = Arc::new(MemDevice::new(ByteLen(size)));
        let mut expected: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap()).collect();
        base.write_at(ByteOffset(0), &expected).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let memory = ByteLen(8 * PAGE);
        let view = OverlayDevice::new(base).limited_to(memory, dir.path());
        let len = 3 * index(PAGE) / 2;
        for round in 0..200 {
            let at = round * 7919 % (index(size) - len);
            let fill = u8::try_from(round).unwrap();
            view.write_at(ByteOffset(at as u64), &vec![fill; len]).unwrap();
            expected[at..at + len].fill(fill);
            assert!(view.resident() <= memory);
        }
        view.write_at(ByteOffset(size - 7), b"the end").unwrap();
        expected[index(size) - 7..].copy_from_slice(b"the end");
        let mut all = vec![0; index(size)];
        view.read_at(ByteOffset(0), &mut all).unwrap();
        assert!(all == expected);
        let ranges = view.changed_ranges();
        assert_eq!(ranges.last().unwrap().end, ByteOffset(size));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
        // Without a directory for the file, memory takes everything.
        let nowhere = OverlayDevice::new(Arc::new(MemDevice::new(ByteLen(size))));
        let nowhere = nowhere.limited_to(ByteLen(0), &dir.path().join("missing"));
        nowhere.write_at(ByteOffset(5), b"kept").unwrap();
        let mut kept = [0; 4];
        nowhere.read_at(ByteOffset(5), &mut kept).unwrap();
        assert_eq!(&kept, b"kept");
    }

    #[test]
    fn changed_ranges_are_merged_and_end_with_the_device() {
        let view = OverlayDevice::new(Arc::new(MemDevice::new(ByteLen(40_000))));
        assert!(view.changed_ranges().is_empty());
        for at in [39_999, 5000, 9000, 20_000] {
            view.write_at(ByteOffset(at), b"x").unwrap();
        }
        let ranges: Vec<_> =
            view.changed_ranges().into_iter().map(|r| (r.start.0, r.end.0)).collect();
        assert_eq!(ranges, [(4096, 12_288), (16_384, 20_480), (36_864, 40_000)]);
    }

    #[test]
    fn holes_below_that_were_written_are_not_skipped() {
        let base: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(1 << 20)));
        base.write_at(ByteOffset(512 << 10), b"below").unwrap();
        let plain = OverlayDevice::new(Arc::clone(&base));
        let limited = OverlayDevice::new(base).limited_to(ByteLen(0), &std::env::temp_dir());
        for view in [plain, limited] {
            assert_eq!(view.skip_hole(ByteOffset(0)), ByteOffset(512 << 10));
            view.write_at(ByteOffset(10_000), b"above").unwrap();
            assert_eq!(view.skip_hole(ByteOffset(0)), ByteOffset(8192));
            assert_eq!(view.skip_hole(ByteOffset(9000)), ByteOffset(9000));
            assert_eq!(view.skip_hole(ByteOffset(12_288)), ByteOffset(512 << 10));
        }
    }

    #[test]
    fn writes_beyond_the_end_are_refused() {
        let view = OverlayDevice::new(Arc::new(MemDevice::new(ByteLen(4096))));
        assert!(matches!(view.write_at(ByteOffset(4095), b"xy"), Err(Error::BeyondEnd { .. })));
        assert!(matches!(
            view.write_zeroes(ByteOffset(1 << 60), ByteLen(u64::MAX)),
            Err(Error::BeyondEnd { .. })
        ));
    }
}
