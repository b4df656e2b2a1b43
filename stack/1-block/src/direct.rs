//! Writing past the page cache.
//!
//! Whoever fills a device in one go has no use for the pages, and the kernel takes longer to write
//! them back than the device takes to be written: see `docs/design/building.md` for figures. So what
//! is large, and aligned in memory and on the device, goes straight there. [`AlignedBuf`] is memory
//! for that.

use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::ReadWriteFlags;
use xfskit_units::ByteOffset;

/// Alignment of what is written straight to the device, in bytes: in memory, at its place, and in
/// its length. Enough for all devices but those with larger sectors, which refuse.
const ALIGN: usize = 4096;
/// A write of fewer bytes is better collected by the page cache.
pub(crate) const MIN: usize = 64 << 10;
/// The same for a part of a batch: who writes batches waits for each of them.
pub(crate) const BATCH_MIN: usize = 128 << 10;
/// Bytes from which on memory that grows begins at a page. Contents of smaller files are left to the page cache: who closes
/// them would wait for the device.
const GROWN_MIN: usize = 1 << 20;

/// A file that is open for writes past the page cache.
#[derive(Debug)]
pub(crate) struct Direct {
    file: File,
    /// What the device asks of memory, place and length, in bytes.
    sector: usize,
}

impl Direct {
    /// The same file, open once more; `None` where its filesystem cannot.
    pub(crate) fn open(file: &File) -> Option<Self> {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = options.open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let stat = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let asked = stat.ok().filter(|stat| stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
        let asked = asked.map_or(0, |stat| stat.stx_dio_mem_align.max(stat.stx_dio_offset_align));
        let sector = usize::try_from(asked).ok().filter(|sector| sector.is_power_of_two());
        Some(Self { file, sector: sector.unwrap_or(ALIGN) })
    }

    /// How much of `slices`, whole pages of memory, was written from `offset` on, a page of the file: not all of it where they
    /// are not, or the filesystem fails.
    pub(crate) fn write_pages(&self, offset: ByteOffset, slices: &[IoSlice<'_>]) -> usize {
        if !aligned(offset, slices.iter().map(Deref::deref), ALIGN.max(self.sector)) {
            return 0;
        }
        rustix::io::pwritev(&self.file, slices, offset.0).unwrap_or(0)
    }

    /// Writes `bytes`, whole sectors, to `offset`, and makes them durable, waiting for nothing else; false where that was
    /// not done.
    pub(crate) fn write_fua(&self, offset: ByteOffset, bytes: &[u8]) -> bool {
        let slices = [IoSlice::new(bytes)];
        aligned(offset, [bytes], self.sector)
            && rustix::io::pwritev2(&self.file, &slices, offset.0, ReadWriteFlags::DSYNC)
                .is_ok_and(|wrote| wrote == bytes.len())
    }
}

/// True where `pieces`, which follow each other from `offset` on, are aligned to `align` bytes, all of them and everywhere.
fn aligned<'b>(
    offset: ByteOffset,
    pieces: impl IntoIterator<Item = &'b [u8]>,
    align: usize,
) -> bool {
    offset.0.is_multiple_of(align as u64)
        && pieces.into_iter().all(|piece| {
            piece.len().is_multiple_of(align) && piece.as_ptr().addr().is_multiple_of(align)
        })
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
    /// Bytes to which the first of many is aligned, and the next after [`align`](Self::align).
    pub const ALIGN: usize = ALIGN;

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
        if capacity < GROWN_MIN {
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
        self.make_room(len);
        self.bytes.resize(self.from + len, 0);
    }

    /// Adds `bytes` behind the others.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.make_room(self.len() + bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// What grows to `len` bytes, and is large, stays aligned.
    fn make_room(&mut self, len: usize) {
        if len >= GROWN_MIN && self.from + len > self.bytes.capacity() {
            *self = Self::with_capacity(self, len.next_power_of_two());
        }
    }

    /// Goes on at a page of memory: what is between is zero.
    pub fn align(&mut self) {
        self.resize(self.len().next_multiple_of(ALIGN));
    }

    /// Forgets all bytes, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.from);
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
        for len in [1, 100, GROWN_MIN - 1, GROWN_MIN, GROWN_MIN + 4096, 5 << 20, 1 << 20, 70_000] {
            let before = buf.len();
            buf.resize(len);
            assert_eq!(buf.len(), len);
            assert!(buf.iter().skip(before).all(|&byte| byte == 0));
            buf[before.min(len)..].fill(7);
            assert!(buf.iter().all(|&byte| byte == 7));
            if len >= GROWN_MIN {
                assert!(aligned(ByteOffset(8192), [&buf[..len - len % ALIGN]], ALIGN), "{len}");
            }
        }
        assert!(!aligned(ByteOffset(512), [&AlignedBuf::new(MIN)[..]], ALIGN));
    }

    #[test]
    fn what_is_added_stands_behind_the_rest_and_at_pages_where_asked() {
        let mut buf = AlignedBuf::default();
        let mut wanted = Vec::new();
        for len in [100, 4096, 70_000, 1, 3_000_000, 4096] {
            if len % ALIGN == 0 {
                buf.align();
                wanted.resize(wanted.len().next_multiple_of(ALIGN), 0);
            }
            buf.extend_from_slice(&vec![7; len]);
            wanted.extend(vec![7; len]);
            assert!(*buf == wanted[..], "{len}");
        }
        assert!(aligned(ByteOffset(0), [&buf[buf.len() - 4096..]], ALIGN));
        buf.clear();
        assert!(buf.is_empty());
    }
}
