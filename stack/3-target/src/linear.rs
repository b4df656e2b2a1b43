//! Pieces of a device joined in order: a linear logical volume.

use std::sync::Arc;

use xfskit_block::device::check_range;
use xfskit_block::{BlockDevice, Error, IoRead, Result, Topology};
use xfskit_units::{ByteLen, ByteOffset, index};

/// One piece: bytes `[start, start + len)` of the volume lie at `below` on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) below: u64,
}

/// Pieces of one device joined in order. They begin at 0, follow each other without gaps, and lie
/// within the device; `new` checks this.
#[derive(Debug)]
pub(crate) struct LinearDevice {
    base: Arc<dyn BlockDevice>,
    pieces: Vec<Piece>,
    size: ByteLen,
}

impl LinearDevice {
    /// Joins the pieces given as (offset on `base`, length), in bytes.
    pub(crate) fn new(
        base: Arc<dyn BlockDevice>,
        pieces: impl IntoIterator<Item = (ByteOffset, ByteLen)>,
    ) -> Result<Self> {
        let mut volume = Vec::new();
        let mut size = ByteLen(0);
        for (below, len) in pieces {
            check_range("open", base.size(), below, index(len.0))?;
            volume.push(Piece { start: size.0, len: len.0, below: below.0 });
            size = size.checked_add(len.0).ok_or(Error::BeyondEnd {
                op: "open",
                offset: below,
                len,
                size: base.size(),
            })?;
        }
        Ok(Self { base, pieces: volume, size })
    }

    /// Splits `[offset, offset + len)`, which lies in the volume, at the ends of pieces. Returns
    /// offsets on the device and lengths.
    fn split(&self, offset: ByteOffset, len: u64) -> impl Iterator<Item = (ByteOffset, u64)> {
        let end = offset.0 + len;
        let first = self.pieces.partition_point(|p| p.start + p.len <= offset.0);
        self.pieces[first..].iter().take_while(move |p| p.start < end).map(move |p| {
            let from = offset.0.max(p.start);
            let to = end.min(p.start + p.len);
            (ByteOffset(p.below + (from - p.start)), to - from)
        })
    }

    /// Returns where a range lies on the device below, if all of it lies in one piece.
    fn below(&self, offset: ByteOffset, len: u64) -> Option<ByteOffset> {
        check_range("read", self.size, offset, index(len)).ok()?;
        self.split(offset, len).next().filter(|(_, n)| *n == len).map(|(below, _)| below)
    }

    /// Calls `act` for each part of a range.
    fn each(
        &self,
        op: &'static str,
        offset: ByteOffset,
        len: u64,
        mut act: impl FnMut(ByteOffset, u64) -> Result<()>,
    ) -> Result<()> {
        check_range(op, self.size, offset, index(len))?;
        self.split(offset, len).try_for_each(|(below, n)| act(below, n))
    }
}

impl BlockDevice for LinearDevice {
    xfskit_block::forward!(this => this.base;
        logical_block_size, physical_block_size, is_read_only, flush
    );
    xfskit_block::plain!(write_batch, write_fua, skip_hole);
    fn size(&self) -> ByteLen {
        self.size
    }
    /// Returns the layout of the piece that is aligned worst.
    fn topology(&self) -> Topology {
        let below = self.base.topology();
        let pieces = self.pieces.iter();
        let each = pieces.map(|piece| below.for_part(piece.below).for_whole(piece.start));
        each.max_by_key(|piece| piece.alignment_offset).unwrap_or_default()
    }
    fn read_at(&self, offset: ByteOffset, mut buf: &mut [u8]) -> Result<()> {
        self.each("read", offset, buf.len() as u64, |below, n| {
            let (part, rest) = std::mem::take(&mut buf).split_at_mut(index(n));
            buf = rest;
            self.base.read_at(below, part)
        })
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = Vec::with_capacity(batch.len());
        let mut parts = Vec::with_capacity(batch.len());
        let mut indices = Vec::with_capacity(batch.len());
        for (i, io) in batch.iter_mut().enumerate() {
            let mut rest = &mut *io.buf;
            let len = rest.len() as u64;
            results.push(self.each("read", io.offset, len, |offset, n| {
                let (buf, behind) = std::mem::take(&mut rest).split_at_mut(index(n));
                rest = behind;
                parts.push(IoRead { offset, buf });
                indices.push(i);
                Ok(())
            }));
        }
        for (i, result) in indices.into_iter().zip(self.base.read_batch(&mut parts)) {
            if result.is_err() {
                results[i] = result;
            }
        }
        results
    }
    /// Lends a range in one piece.
    fn lend(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        ahead: ByteLen,
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> bool {
        self.below(offset, len.0).is_some_and(|below| self.base.lend(below, len, ahead, take))
    }
    fn write_at(&self, offset: ByteOffset, mut buf: &[u8]) -> Result<()> {
        self.each("write", offset, buf.len() as u64, |below, n| {
            let (part, rest) = buf.split_at(index(n));
            buf = rest;
            self.base.write_at(below, part)
        })
    }
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.each("discard", offset, len.0, |below, n| self.base.discard(below, ByteLen(n)))
    }
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.each("write", offset, len.0, |below, n| self.base.write_zeroes(below, ByteLen(n)))
    }
    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        // Errors of a hint are ignored.
        let _ = self.each("read", offset, len.0, |below, n| {
            self.base.will_need(below, ByteLen(n));
            Ok(())
        });
    }
    /// A range in one piece has the alternatives of the device below.
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        match self.below(offset, len.0) {
            Some(below) => self.base.alternatives(below, len),
            None => 1,
        }
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        match self.below(offset, buf.len() as u64) {
            Some(below) => self.base.read_alternative(below, buf, k),
            None if k == 0 => self.read_at(offset, buf),
            None => Err(Error::NoAlternative(k)),
        }
    }
    fn heal(&self, offset: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        match self.below(offset, good.len() as u64) {
            Some(below) => self.base.heal(below, good, k),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xfskit_block::MemDevice;
    use xfskit_units::Sectors;

    #[test]
    fn pieces_are_read_and_written_as_one_volume() {
        let base: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(1000)));
        let pieces = [(ByteOffset(500), ByteLen(10)), (ByteOffset(100), ByteLen(5))];
        let volume = LinearDevice::new(Arc::clone(&base), pieces).unwrap();
        assert_eq!(volume.size(), ByteLen(15));
        volume.write_at(ByteOffset(8), b"abcdefg").unwrap();
        let mut buf = [0; 2];
        base.read_at(ByteOffset(508), &mut buf).unwrap();
        assert_eq!(&buf, b"ab");
        let mut buf = [0; 5];
        base.read_at(ByteOffset(100), &mut buf).unwrap();
        assert_eq!(&buf, b"cdefg");
        let (mut a, mut b, mut c) = ([0; 4], [0; 4], [0; 0]);
        let results = volume.read_batch(&mut [
            IoRead { offset: ByteOffset(8), buf: &mut a },
            IoRead { offset: ByteOffset(12), buf: &mut b },
            IoRead { offset: ByteOffset(15), buf: &mut c },
        ]);
        assert_eq!(&a, b"abcd");
        assert!(results[0].is_ok() && results[1].is_err() && results[2].is_ok());
        volume.read_at(ByteOffset(11), &mut a).unwrap();
        assert_eq!(&a, b"defg");
        volume.write_zeroes(ByteOffset(9), ByteLen(2)).unwrap();
        volume.read_at(ByteOffset(8), &mut a).unwrap();
        assert_eq!(&a, b"a\0\0d");
        assert!(volume.write_at(ByteOffset(u64::MAX), b"x").is_err());
    }

    #[test]
    fn a_volume_is_aligned_to_the_stripes_below_where_all_its_pieces_are() {
        const MIB: u64 = 1 << 20;
        let member = |i: u8| {
            let device = Arc::new(MemDevice::new(ByteLen(8 * MIB)));
            Some(xfskit_md::Member { name: i.to_string(), device })
        };
        let layout = xfskit_md::Layout::Raid0(xfskit_md::Raid0Layout::Original);
        let [chunk, offset] = [Sectors(128), Sectors(0)];
        let manual = xfskit_md::assemble::ManualGeometry { layout, chunk, offset, size: None };
        let base: Arc<dyn BlockDevice> = Arc::new(manual.open(&[0, 1, 2].map(member)).unwrap());
        let offset = |pieces: [(u64, u64); 2]| {
            let pieces = pieces.map(|(start, len)| (ByteOffset(start), ByteLen(len)));
            let volume = LinearDevice::new(Arc::clone(&base), pieces).unwrap();
            assert_eq!(volume.topology().stripe_width, ByteLen(3 << 16));
            volume.topology().alignment_offset.0
        };
        assert_eq!(offset([(MIB, 4 * MIB), (9 * MIB, MIB)]), 0);
        assert_eq!(offset([(MIB + 512, MIB), (9 * MIB, MIB)]), 65_536 - 512);
        assert_eq!(offset([(MIB, MIB), (9 * MIB + 4096, MIB)]), 65_536 - 4096);
        assert_eq!(offset([(MIB, MIB + 4096), (9 * MIB + 4096, MIB)]), 0);
    }

    #[test]
    fn a_piece_beyond_the_device_is_refused() {
        let base: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(1000)));
        for piece in [(995, 10), (u64::MAX, 1), (1, u64::MAX)] {
            let piece = (ByteOffset(piece.0), ByteLen(piece.1));
            assert!(LinearDevice::new(Arc::clone(&base), [piece]).is_err());
        }
    }
}
