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
pub(crate) const MIN: usize = 64 << 10;
/// The same for a part of a batch: who writes batches is not the one who fills a device, and waits for each of them.
pub(crate) const BATCH_MIN: usize = 1 << 20;

/// True where `pieces`, which follow each other from `offset` on, may go there past the page cache, and should, being
/// `least` bytes and more.
pub(crate) fn suits<'b>(
    offset: ByteOffset,
    pieces: impl IntoIterator<Item = &'b [u8]>,
    least: usize,
) -> bool {
    let mut len = 0;
    let aligned = pieces.into_iter().all(|piece| {
        len += piece.len();
        piece.len().is_multiple_of(ALIGN) && piece.as_ptr().addr().is_multiple_of(ALIGN)
    });
    aligned && len >= least && offset.0.is_multiple_of(ALIGN as u64)
}

/// Bytes that begin at a page of memory, so that a device may take them without a copy: from the first on, or
/// where they grow, as soon as they are worth it.
#[derive(Debug, Default)]
pub struct AlignedBuf {
    /// Grows within its capacity only, so that it does not move.
    bytes: Vec<u8>,
    from: usize,
}

impl AlignedBuf {
    /// `len` bytes, all zero.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGN];
        let from = bytes.as_ptr().addr().next_multiple_of(ALIGN) - bytes.as_ptr().addr();
        let mut aligned = Self { bytes, from };
        aligned.bytes.truncate(from + len);
        aligned
    }

    /// What `bytes` are, with room for `capacity`; aligned, where that is much.
    fn with_capacity(bytes: &[u8], capacity: usize) -> Self {
        if capacity < MIN {
            return Self { bytes: bytes.to_vec(), from: 0 };
        }
        let mut room: Vec<u8> = Vec::with_capacity(capacity + ALIGN);
        let from = room.as_ptr().addr().next_multiple_of(ALIGN) - room.as_ptr().addr();
        room.resize(from, 0);
        room.extend_from_slice(bytes);
        Self { bytes: room, from }
    }

    /// Makes it `len` bytes long, of which those that are new are zero. Few bytes are not aligned: a page of memory for each
    /// of many would be too much.
    pub fn resize(&mut self, len: usize) {
        if len >= MIN && self.from + len > self.bytes.capacity() {
            *self = Self::with_capacity(self, len.next_power_of_two());
        }
        self.bytes.resize(self.from + len, 0);
    }
}

impl From<&[u8]> for AlignedBuf {
    fn from(bytes: &[u8]) -> Self {
        Self::with_capacity(bytes, bytes.len())
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_keeps_its_bytes_and_is_aligned_once_it_is_much() {
        let mut buf = AlignedBuf::default();
        for len in [1, 100, 4096, MIN - 1, MIN, MIN + 4096, 300_000, 1 << 20, 70_000, 10] {
            let before = buf.len();
            buf.resize(len);
            assert_eq!(buf.len(), len);
            assert!(buf.iter().skip(before).all(|&byte| byte == 0));
            buf[before.min(len)..].fill(7);
            assert!(buf.iter().all(|&byte| byte == 7));
            if len >= MIN {
                assert!(suits(ByteOffset(8192), [&buf[..len - len % ALIGN]], MIN), "{len}");
            }
        }
        assert!(!suits(ByteOffset(512), [&AlignedBuf::new(MIN)[..]], MIN));
    }
}
