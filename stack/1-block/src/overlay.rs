//! Copy-on-write in memory: writes stay in memory, the device below is never touched.
//!
//! A dirty log is replayed this way on a volume that is opened for reading only.

use std::ops::Range;
use std::sync::Arc;

use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, IoRead, Result, check_range};
use crate::pages::Pages;
use crate::{forward, plain};

/// Size of a page in bytes, the unit in which the device below is copied.
const PAGE: u64 = 4096;

/// A writable view of a device whose changes live in memory and end with the view.
///
/// The device below must not be written meanwhile.
#[derive(Debug)]
pub struct OverlayDevice {
    base: Arc<dyn BlockDevice>,
    changed: Pages,
}

impl OverlayDevice {
    /// Makes a view of `base` without changes.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self { base, changed: Pages::new(PAGE) }
    }

    /// Returns the written ranges in bytes, ascending and merged. They are rounded out to 4 KiB and
    /// end with the device.
    pub fn changed_ranges(&self) -> Vec<Range<ByteOffset>> {
        let mut ranges: Vec<Range<ByteOffset>> = Vec::new();
        for start in self.changed.offsets() {
            let end = ByteOffset((start.0 + PAGE).min(self.size().0));
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

    /// Copies a page from the device below before part of it is written.
    fn copy_up(&self, offset: ByteOffset, page: &mut [u8]) -> Result<()> {
        let n = page.len().min(index(self.size().0 - offset.0));
        self.base.read_at(offset, &mut page[..n])
    }
}

impl BlockDevice for OverlayDevice {
    forward!(this => this.base; size, logical_block_size, physical_block_size, topology, will_need);
    // Writes go to memory, so the device below neither zeroes, nor discards, nor heals; its holes may
    // have been written.
    plain!(is_read_only, write_batch, write_fua, discard, write_zeroes, skip_hole, heal);
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.base.read_at(offset, buf)?;
        self.changed.read_over(offset, buf);
        Ok(())
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let results = self.base.read_batch(batch);
        for (io, _) in batch.iter_mut().zip(&results).filter(|(_, result)| result.is_ok()) {
            self.changed.read_over(io.offset, io.buf);
        }
        results
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        check_range("write", self.size(), offset, buf.len())?;
        self.changed.write(offset, buf, |at, page| self.copy_up(at, page))
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
        self.changed.read_over(offset, buf);
        Ok(())
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
    fn writes_beyond_the_end_are_refused() {
        let view = OverlayDevice::new(Arc::new(MemDevice::new(ByteLen(4096))));
        assert!(matches!(view.write_at(ByteOffset(4095), b"xy"), Err(Error::BeyondEnd { .. })));
        assert!(matches!(
            view.write_zeroes(ByteOffset(1 << 60), ByteLen(u64::MAX)),
            Err(Error::BeyondEnd { .. })
        ));
    }
}
