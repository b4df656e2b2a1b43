//! Sparse memory in pages, for the memory device and the overlay.

use std::collections::HashMap;
use std::ops::Range;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::Result;

/// Shards of the page table, so that threads at different offsets do not contend.
const SHARDS: usize = 64;

type Shard = HashMap<u64, Box<[u8]>>;

/// A sparse table of pages. Each shard has its own lock. While it is held, only the device below is
/// read (to fill a page); otherwise it is a leaf lock.
#[derive(Debug)]
pub(crate) struct Pages {
    page_bytes: u64,
    shards: Vec<RwLock<Shard>>,
}

/// The part of one page that an access touches.
pub(crate) struct Part {
    pub(crate) page: u64,
    pub(crate) in_page: Range<usize>,
    pub(crate) in_buf: Range<usize>,
}

/// Splits `[offset, offset + len)` at page boundaries.
pub(crate) fn parts(
    page_bytes: u64,
    offset: ByteOffset,
    len: usize,
) -> impl Iterator<Item = Part> + use<> {
    let mut done = 0usize;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset.0 + done as u64;
        let start = index(at % page_bytes);
        let n = (index(page_bytes) - start).min(len - done);
        let in_page = start..start + n;
        let part = Part { page: at / page_bytes, in_page, in_buf: done..done + n };
        done += n;
        Some(part)
    })
}

impl Pages {
    /// Makes an empty table with pages of `page_bytes` bytes.
    pub(crate) fn new(page_bytes: u64) -> Self {
        Self { page_bytes, shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    fn parts(&self, offset: ByteOffset, len: usize) -> impl Iterator<Item = Part> + use<> {
        parts(self.page_bytes, offset, len)
    }

    fn shard(&self, page: u64) -> &RwLock<Shard> {
        &self.shards[index(page % SHARDS as u64)]
    }

    fn read_shard(&self, page: u64) -> RwLockReadGuard<'_, Shard> {
        self.shard(page).read()
    }

    fn write_shard(&self, page: u64) -> RwLockWriteGuard<'_, Shard> {
        self.shard(page).write()
    }

    /// Copies the pages over `buf`, whose bytes begin at `offset`. Missing pages leave `buf`
    /// unchanged.
    pub(crate) fn read_over(&self, offset: ByteOffset, buf: &mut [u8]) {
        for part in self.parts(offset, buf.len()) {
            if let Some(page) = self.read_shard(part.page).get(&part.page) {
                buf[part.in_buf].copy_from_slice(&page[part.in_page]);
            }
        }
    }

    /// Writes `buf` at `offset`. A missing page that is written in part is first filled by
    /// `fill(offset of the page in bytes, page)`, which receives it zeroed.
    pub(crate) fn write(
        &self,
        offset: ByteOffset,
        buf: &[u8],
        fill: impl Fn(ByteOffset, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        for part in self.parts(offset, buf.len()) {
            let mut shard = self.write_shard(part.page);
            if let Some(page) = shard.get_mut(&part.page) {
                page[part.in_page].copy_from_slice(&buf[part.in_buf]);
                continue;
            }
            let mut page = vec![0; index(self.page_bytes)].into_boxed_slice();
            if part.in_page.len() < page.len() {
                fill(ByteOffset(part.page * self.page_bytes), &mut page)?;
            }
            page[part.in_page].copy_from_slice(&buf[part.in_buf]);
            shard.insert(part.page, page);
        }
        Ok(())
    }

    /// Returns true if any page exists in the range.
    pub(crate) fn touches(&self, offset: ByteOffset, len: ByteLen) -> bool {
        self.parts(offset, index(len.0)).any(|p| self.read_shard(p.page).contains_key(&p.page))
    }

    /// Returns the first byte at or after `offset` that lies in a page. Looks at all pages if the
    /// one at `offset` is missing.
    pub(crate) fn next(&self, offset: ByteOffset) -> Option<ByteOffset> {
        let first = offset.0 / self.page_bytes;
        if self.read_shard(first).contains_key(&first) {
            return Some(offset);
        }
        let after =
            |shard: &RwLock<Shard>| shard.read().keys().copied().filter(|page| *page > first).min();
        let page = self.shards.iter().filter_map(after).min()?;
        Some(ByteOffset(page * self.page_bytes))
    }

    /// Drops the pages that lie wholly in the range.
    pub(crate) fn drop_within(&self, range: Range<u64>) {
        let (first, last) = (range.start.div_ceil(self.page_bytes), range.end / self.page_bytes);
        for shard in &self.shards {
            let mut pages = shard.write();
            pages.retain(|page, _| !(first..last).contains(page));
        }
    }

    /// Returns the offsets of all pages in bytes, ascending.
    pub(crate) fn offsets(&self) -> Vec<ByteOffset> {
        let mut offsets = Vec::new();
        for shard in &self.shards {
            let pages = shard.read();
            offsets.extend(pages.keys().map(|page| ByteOffset(page * self.page_bytes)));
        }
        offsets.sort_unstable();
        offsets
    }

    /// Returns the memory that the pages take, in bytes.
    pub(crate) fn resident(&self) -> ByteLen {
        let pages: usize = self.shards.iter().map(|s| s.read().len()).sum();
        ByteLen(pages as u64 * self.page_bytes)
    }
}
