//! Writing past the page cache.
//!
//! Whoever fills a device in one go has no use for the pages, and the kernel takes longer to write
//! them back than the device takes to be written: see `docs/design/building.md` for figures. So what
//! is large, and aligned in memory and on the device, goes straight there. [`AlignedBuf`] is memory
//! for that.

use std::ops::{Deref, DerefMut};

use xfskit_units::ByteOffset;

/// Alignment of what is written straight to the device, in bytes: in memory, at its place, and in
/// its length. Enough for all devices but those with larger sectors, which refuse.
const ALIGN: usize = 4096;
/// A write of fewer bytes is better collected by the page cache.
const MIN: usize = 64 << 10;

/// True where `buf` may go to `offset` past the page cache, and should.
pub(crate) fn suits(offset: ByteOffset, buf: &[u8]) -> bool {
    buf.len() >= MIN
        && buf.len().is_multiple_of(ALIGN)
        && offset.0.is_multiple_of(ALIGN as u64)
        && buf.as_ptr().addr().is_multiple_of(ALIGN)
}

/// Bytes that begin at a page of memory, so that a device may take them without a copy.
#[derive(Debug)]
pub struct AlignedBuf {
    /// Never grows, so it never moves.
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl AlignedBuf {
    /// `len` bytes, all zero.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGN];
        let from = bytes.as_ptr().addr().next_multiple_of(ALIGN) - bytes.as_ptr().addr();
        Self { bytes, from, len }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}
