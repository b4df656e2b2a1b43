//! A device in memory that stores only what was written: `mem:500T` costs nothing until used.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, Result, check_range};

/// Bytes of one page, the unit in which memory is taken.
const PAGE: u64 = 64 * 1024;
/// Shards of the page table, so that threads in different places do not meet.
const SHARDS: usize = 64;

type Pages = HashMap<u64, Box<[u8]>>;

/// A sparse device in memory. Pages that were never written read as zeroes. Each shard of the page
/// table has its own lock (a leaf: nothing else is taken under it).
#[derive(Debug)]
pub struct MemDevice {
    size: ByteLen,
    shards: Vec<RwLock<Pages>>,
}

/// The part of one page that an access touches.
struct Part {
    page: u64,
    in_page: std::ops::Range<usize>,
    in_buf: std::ops::Range<usize>,
}

/// Splits `[offset, offset + len)` at page boundaries.
fn parts(offset: ByteOffset, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0usize;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset.0 + done as u64;
        let start = index(at % PAGE);
        let n = (index(PAGE) - start).min(len - done);
        let part = Part { page: at / PAGE, in_page: start..start + n, in_buf: done..done + n };
        done += n;
        Some(part)
    })
}

impl MemDevice {
    /// A device of `size` bytes, all zero.
    pub fn new(size: ByteLen) -> Self {
        Self { size, shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    /// Bytes of memory taken by written pages.
    pub fn resident(&self) -> ByteLen {
        let pages: usize = self
            .shards
            .iter()
            .map(|s| s.read().unwrap_or_else(PoisonError::into_inner).len())
            .sum();
        ByteLen(pages as u64 * PAGE)
    }

    fn shard(&self, page: u64) -> &RwLock<Pages> {
        &self.shards[index(page % SHARDS as u64)]
    }
}

impl BlockDevice for MemDevice {
    fn size(&self) -> ByteLen {
        self.size
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size, offset, buf.len())?;
        for part in parts(offset, buf.len()) {
            let shard = self.shard(part.page).read().unwrap_or_else(PoisonError::into_inner);
            match shard.get(&part.page) {
                Some(page) => buf[part.in_buf].copy_from_slice(&page[part.in_page]),
                None => buf[part.in_buf].fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        check_range("write", self.size, offset, buf.len())?;
        for part in parts(offset, buf.len()) {
            let mut shard = self.shard(part.page).write().unwrap_or_else(PoisonError::into_inner);
            let page =
                shard.entry(part.page).or_insert_with(|| vec![0; index(PAGE)].into_boxed_slice());
            page[part.in_page].copy_from_slice(&buf[part.in_buf]);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        let end = offset.0.saturating_add(len.0).min(self.size.0);
        let (first, last) = (offset.0.div_ceil(PAGE), end / PAGE);
        for shard in &self.shards {
            let mut pages = shard.write().unwrap_or_else(PoisonError::into_inner);
            pages.retain(|page, _| !(first..last).contains(page));
        }
        Ok(())
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        check_range("write", self.size, offset, usize::try_from(len.0).unwrap_or(usize::MAX))?;
        self.discard(offset, len)?;
        let end = offset.0 + len.0;
        let zeroes = vec![0u8; index(PAGE)];
        // What discard left: the partial pages at both ends.
        for (from, to) in [
            (offset.0, end.min(offset.0.next_multiple_of(PAGE))),
            (offset.0.max(end / PAGE * PAGE), end),
        ] {
            if let Some(n) = to.checked_sub(from).and_then(|n| usize::try_from(n).ok()) {
                self.write_at(ByteOffset(from), &zeroes[..n])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_device_takes_only_what_is_written() {
        let dev = MemDevice::new(ByteLen(500 << 40));
        dev.write_at(ByteOffset((400 << 40) + 65_530), b"across a page").unwrap();
        let mut buf = [0u8; 13];
        dev.read_at(ByteOffset((400 << 40) + 65_530), &mut buf).unwrap();
        assert_eq!(&buf, b"across a page");
        assert_eq!(dev.resident(), ByteLen(2 * PAGE));
        assert!(dev.read_at(ByteOffset(500 << 40), &mut buf).is_err());
    }

    #[test]
    fn zeroed_ranges_read_as_zeroes_at_any_alignment() {
        let dev = MemDevice::new(ByteLen(1 << 20));
        for (offset, len) in [(10u64, 20u64), (65_000, 200_000), (131_072, 65_536)] {
            dev.write_at(ByteOffset(0), &vec![0xff; 1 << 20]).unwrap();
            dev.write_zeroes(ByteOffset(offset), ByteLen(len)).unwrap();
            let mut all = vec![0u8; 1 << 20];
            dev.read_at(ByteOffset(0), &mut all).unwrap();
            for (i, byte) in all.iter().enumerate() {
                let inside = (offset..offset + len).contains(&(i as u64));
                assert_eq!(*byte, if inside { 0 } else { 0xff }, "byte {i}");
            }
        }
    }
}
