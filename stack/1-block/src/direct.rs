//! Writing past the page cache.
//!
//! A program that fills a device in one go does not need the pages, and the kernel takes longer to
//! write them back than the device takes to be written: see `docs/design/building.md` for figures.
//! So large writes that are aligned in memory and on the device go straight to the device.
//! [`AlignedBuf`] is memory for them.

use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::ReadWriteFlags;
use xfskit_units::ByteOffset;

/// Alignment of direct writes in bytes: of memory, offset and length. Enough for all devices except
/// those with larger sectors, which refuse.
const ALIGN: usize = 4096;
/// Smallest direct write, in bytes; smaller writes are better collected by the page cache.
pub(crate) const MIN: usize = 64 << 10;
/// Smallest direct write as part of a batch, in bytes: the writer of a batch waits for each part.
pub(crate) const BATCH_MIN: usize = 128 << 10;
/// Size in bytes at which growing memory becomes page-aligned. The contents of smaller files are
/// left to the page cache, because closing such a file would wait for the device.
const ALIGN_FROM: usize = 1 << 20;
/// Size in bytes from which on a part of something large is aligned. For a smaller one, a page more
/// would be too much memory.
const ALIGN_PART_FROM: usize = 64 << 10;

/// A file opened for writes that bypass the page cache.
#[derive(Debug)]
pub(crate) struct Direct {
    file: File,
    /// Alignment that the device requires of memory, offset and length, in bytes.
    sector: usize,
}

impl Direct {
    /// Opens the same file once more, with `O_DIRECT`; `None` if its filesystem cannot.
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

    /// Writes `slices`, whole pages of memory, at the page-aligned `offset` of the file. Returns
    /// how many bytes were written: fewer than all if something is not aligned, or if the
    /// filesystem fails.
    pub(crate) fn write_pages(&self, offset: ByteOffset, slices: &[IoSlice<'_>]) -> usize {
        if !aligned(offset, slices.iter().map(Deref::deref), ALIGN.max(self.sector)) {
            return 0;
        }
        rustix::io::pwritev(&self.file, slices, offset.0).unwrap_or(0)
    }

    /// Writes `bytes`, whole sectors, at `offset` and makes them durable without waiting for other
    /// writes. Returns false if that was not done.
    pub(crate) fn write_fua(&self, offset: ByteOffset, bytes: &[u8]) -> bool {
        let slices = [IoSlice::new(bytes)];
        aligned(offset, [bytes], self.sector)
            && rustix::io::pwritev2(&self.file, &slices, offset.0, ReadWriteFlags::DSYNC)
                .is_ok_and(|wrote| wrote == bytes.len())
    }
}

/// Returns, for each of the `pieces` of a run of neighbours, whether it belongs to a stretch that
/// should be written past the page cache: aligned, and no shorter than `least` bytes.
pub(crate) fn stretches(pieces: &[(ByteOffset, &[u8])], least: usize) -> Vec<bool> {
    let is_aligned = |(offset, bytes): &(ByteOffset, &[u8])| aligned(*offset, [*bytes], ALIGN);
    let mut direct = Vec::with_capacity(pieces.len());
    for stretch in pieces.chunk_by(|piece, next| is_aligned(piece) == is_aligned(next)) {
        let len: usize = stretch.iter().map(|(_, bytes)| bytes.len()).sum();
        let is_direct = len >= least && stretch.first().is_some_and(is_aligned);
        direct.resize(direct.len() + stretch.len(), is_direct);
    }
    direct
}

/// Returns true if all of `pieces`, which follow each other from `offset` on, are aligned to
/// `align` bytes in memory and on the device.
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

/// A buffer that begins at a page of memory, so that a device can take it without a copy: from its
/// creation on, or from [the size](Self::ALIGN) at which a growing buffer is worth it.
#[derive(Debug)]
pub struct AlignedBuf {
    /// Grows within its capacity only, so that it does not move.
    bytes: Vec<u8>,
    from: usize,
    /// Size in bytes from which on the buffer is aligned.
    align_from: usize,
}

impl Default for AlignedBuf {
    fn default() -> Self {
        Self { bytes: Vec::new(), from: 0, align_from: ALIGN_FROM }
    }
}

impl AlignedBuf {
    /// Alignment of the first byte of a large buffer, and of the next byte after
    /// [`align`](Self::align).
    pub const ALIGN: usize = ALIGN;

    /// Makes a buffer of `len` zero bytes.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGN];
        let from = bytes.as_ptr().addr().next_multiple_of(ALIGN) - bytes.as_ptr().addr();
        let mut aligned = Self { bytes, from, align_from: 0 };
        aligned.bytes.truncate(from + len);
        aligned
    }

    /// Makes an empty buffer for a part of something large: it is aligned at a smaller size.
    pub fn part_of_large() -> Self {
        Self { align_from: ALIGN_PART_FROM, ..Self::default() }
    }

    /// Copies `bytes` into a buffer with `capacity`, aligned if that reaches `align_from`.
    fn with_capacity(bytes: &[u8], capacity: usize, align_from: usize) -> Self {
        if capacity < align_from {
            return Self { bytes: bytes.to_vec(), from: 0, align_from };
        }
        let mut room: Vec<u8> = Vec::with_capacity(capacity + ALIGN);
        let from = room.as_ptr().addr().next_multiple_of(ALIGN) - room.as_ptr().addr();
        room.resize(from, 0);
        room.extend_from_slice(bytes);
        Self { bytes: room, from, align_from }
    }

    /// Resizes the buffer to `len` bytes; new bytes are zero. Small buffers are not aligned: a page
    /// of memory for each of many would be too much.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        self.bytes.resize(self.from + len, 0);
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(self.len() + bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Reserves memory for `len` bytes, and keeps a large buffer aligned.
    fn reserve(&mut self, len: usize) {
        if len >= self.align_from && self.from + len > self.bytes.capacity() {
            *self = Self::with_capacity(self, len.next_power_of_two(), self.align_from);
        }
    }

    /// Pads with zeroes up to the next page of memory.
    pub fn align(&mut self) {
        self.resize(self.len().next_multiple_of(ALIGN));
    }

    /// Removes all bytes, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.from);
    }
}

impl From<&[u8]> for AlignedBuf {
    fn from(bytes: &[u8]) -> Self {
        Self::with_capacity(bytes, bytes.len(), ALIGN_FROM)
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
    fn a_growing_buffer_keeps_its_bytes_and_is_aligned_once_large() {
        let mut buf = AlignedBuf::default();
        for len in [1, 100, ALIGN_FROM - 1, ALIGN_FROM, ALIGN_FROM + 4096, 5 << 20, 1 << 20, 70_000]
        {
            let before = buf.len();
            buf.resize(len);
            assert_eq!(buf.len(), len);
            assert!(buf.iter().skip(before).all(|&byte| byte == 0));
            buf[before.min(len)..].fill(7);
            assert!(buf.iter().all(|&byte| byte == 7));
            if len >= ALIGN_FROM {
                assert!(aligned(ByteOffset(8192), [&buf[..len - len % ALIGN]], ALIGN), "{len}");
            }
        }
        assert!(!aligned(ByteOffset(512), [&AlignedBuf::new(MIN)[..]], ALIGN));
        let mut part = AlignedBuf::part_of_large();
        part.resize(ALIGN_PART_FROM);
        assert!(aligned(ByteOffset(0), [&part[..]], ALIGN));
    }

    #[test]
    fn only_long_aligned_stretches_of_a_run_go_past_the_page_cache() {
        let buf = AlignedBuf::new(5 * ALIGN);
        let piece = |from: usize, len: usize| (ByteOffset(from as u64), &buf[from..from + len]);
        let run = [
            piece(0, ALIGN),
            piece(ALIGN, ALIGN),
            piece(2 * ALIGN, ALIGN / 2),
            piece(2 * ALIGN + ALIGN / 2, ALIGN / 2),
            piece(3 * ALIGN, ALIGN),
        ];
        assert_eq!(stretches(&run, 2 * ALIGN), [true, true, false, false, false]);
        assert_eq!(stretches(&run, ALIGN), [true, true, false, false, true]);
        assert_eq!(stretches(&run, 3 * ALIGN), [false; 5]);
    }

    #[test]
    fn appended_bytes_follow_the_others_or_begin_at_a_page() {
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
