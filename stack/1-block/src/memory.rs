//! A sparse device in memory: `mem:500T` costs nothing until it is written.

use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, Result, check_range, check_span};
use crate::pages::Pages;
use crate::plain;

/// Size of a page in bytes, the unit in which memory is allocated.
const PAGE: u64 = 64 * 1024;

/// A sparse device in memory. Pages that were never written read as zeroes.
#[derive(Debug)]
pub struct MemDevice {
    size: ByteLen,
    pages: Pages,
}

impl MemDevice {
    /// Makes a device of `size` bytes, all zero.
    pub fn new(size: ByteLen) -> Self {
        Self { size, pages: Pages::new(PAGE) }
    }

    /// Returns the memory that the written pages take, in bytes.
    pub fn resident(&self) -> ByteLen {
        self.pages.resident()
    }
}

impl BlockDevice for MemDevice {
    plain!(
        lend,
        logical_block_size,
        physical_block_size,
        topology,
        is_read_only,
        read_batch,
        write_batch,
        write_fua,
        will_need,
        alternatives,
        read_alternative,
        heal
    );
    fn size(&self) -> ByteLen {
        self.size
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size, offset, buf.len())?;
        buf.fill(0);
        self.pages.read_over(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        check_range("write", self.size, offset, buf.len())?;
        self.pages.write(offset, buf, |_, _| Ok(()))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        check_span("discard", self.size, offset, len)?;
        self.pages.drop_within(offset.0..offset.0 + len.0);
        Ok(())
    }

    fn skip_hole(&self, offset: ByteOffset) -> ByteOffset {
        self.pages.next(offset).unwrap_or(ByteOffset(self.size.0.max(offset.0)))
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.discard(offset, len)?;
        let end = offset.0 + len.0;
        let zeroes = vec![0u8; index(PAGE)];
        // The partial pages at both ends, which `discard` keeps.
        for (from, to) in [
            (offset.0, end.min(offset.0.next_multiple_of(PAGE))),
            (offset.0.max(end / PAGE * PAGE), end),
        ] {
            let part = ByteLen(to.saturating_sub(from));
            if self.pages.touches(ByteOffset(from), part) {
                self.write_at(ByteOffset(from), &zeroes[..index(part.0)])?;
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
    fn holes_are_skipped_to_the_next_page_or_the_end() {
        let dev = MemDevice::new(ByteLen(1 << 40));
        let skip = |at| dev.skip_hole(ByteOffset(at)).0;
        assert_eq!((skip(0), skip(7 << 40)), (1 << 40, 7 << 40), "no page");
        dev.write_at(ByteOffset(3 * PAGE + 5), b"x").unwrap();
        dev.write_at(ByteOffset(1 << 39), b"x").unwrap();
        assert_eq!((skip(0), skip(3 * PAGE + 7)), (3 * PAGE, 3 * PAGE + 7));
        assert_eq!((skip(4 * PAGE), skip((1 << 39) + PAGE)), (1 << 39, 1 << 40));
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
