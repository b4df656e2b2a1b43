//! A byte range of another device: a partition, a piece of a logical volume.

use std::sync::Arc;

use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, IoRead, Result, check_range, check_span};
use crate::topology::Topology;
use crate::{forward, plain};

/// The bytes `[start, start + size)` of a device, as a device. Errors that the window detects name
/// its own offsets; errors of the device below name that device's offsets.
#[derive(Debug)]
pub struct WindowDevice {
    base: Arc<dyn BlockDevice>,
    start: ByteOffset,
    size: ByteLen,
}

impl WindowDevice {
    /// Makes a window of `size` bytes of `base` from byte `start` on.
    ///
    /// # Errors
    /// [`crate::Error::BeyondEnd`] if they leave the device.
    pub fn new(base: Arc<dyn BlockDevice>, start: ByteOffset, size: ByteLen) -> Result<Self> {
        check_span("window", base.size(), start, size)?;
        Ok(Self { base, start, size })
    }

    /// Returns the offset of byte `offset` of the window on the device below. The range was
    /// checked, and the window lies within the device, so the sum cannot overflow.
    fn below(&self, offset: ByteOffset) -> ByteOffset {
        self.start.saturating_add(offset.0)
    }
}

impl BlockDevice for WindowDevice {
    forward!(this => this.base; logical_block_size, physical_block_size, is_read_only, flush);
    plain!(write_batch);
    fn size(&self) -> ByteLen {
        self.size
    }
    fn topology(&self) -> Topology {
        self.base.topology().for_part(self.start.0)
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size, offset, buf.len())?;
        self.base.read_at(self.below(offset), buf)
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = batch
            .iter()
            .map(|io| check_range("read", self.size, io.offset, io.buf.len()))
            .collect();
        let mut inside: Vec<IoRead<'_>> = batch
            .iter_mut()
            .zip(&results)
            .filter(|(_, result)| result.is_ok())
            .map(|(io, _)| IoRead { offset: self.below(io.offset), buf: &mut *io.buf })
            .collect();
        let read = self.base.read_batch(&mut inside);
        results.iter_mut().filter(|a| a.is_ok()).zip(read).for_each(|(a, below)| *a = below);
        results
    }
    fn lend(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        ahead: ByteLen,
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> bool {
        check_span("read", self.size, offset, len).is_ok()
            && self.base.lend(self.below(offset), len, ahead, take)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        check_range("write", self.size, offset, buf.len())?;
        self.base.write_at(self.below(offset), buf)
    }
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        check_range("write", self.size, offset, buf.len())?;
        self.base.write_fua(self.below(offset), buf)
    }
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        check_span("discard", self.size, offset, len)?;
        self.base.discard(self.below(offset), len)
    }
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        check_span("write", self.size, offset, len)?;
        self.base.write_zeroes(self.below(offset), len)
    }
    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        if check_span("read", self.size, offset, len).is_ok() {
            self.base.will_need(self.below(offset), len);
        }
    }
    fn skip_hole(&self, offset: ByteOffset) -> ByteOffset {
        let below = self.base.skip_hole(self.below(offset));
        ByteOffset(below.0.saturating_sub(self.start.0))
    }
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        match check_span("read", self.size, offset, len) {
            Ok(()) => self.base.alternatives(self.below(offset), len),
            Err(_) => 1,
        }
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        check_range("read", self.size, offset, buf.len())?;
        self.base.read_alternative(self.below(offset), buf, k)
    }
    fn heal(&self, offset: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        check_range("write", self.size, offset, good.len())?;
        self.base.heal(self.below(offset), good, k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, MemDevice};

    fn window() -> (Arc<dyn BlockDevice>, WindowDevice) {
        let base: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(10_000)));
        let window = WindowDevice::new(Arc::clone(&base), ByteOffset(1000), ByteLen(500)).unwrap();
        (base, window)
    }

    #[test]
    fn a_window_shifts_every_access_by_its_start() {
        let (base, window) = window();
        window.write_at(ByteOffset(7), b"seen").unwrap();
        let mut buf = [0; 4];
        base.read_at(ByteOffset(1007), &mut buf).unwrap();
        assert_eq!(&buf, b"seen");
        window.write_zeroes(ByteOffset(8), ByteLen(2)).unwrap();
        window.read_at(ByteOffset(7), &mut buf).unwrap();
        assert_eq!(&buf, b"s\0\0n");
    }

    #[test]
    fn accesses_outside_the_window_are_refused() {
        let (base, window) = window();
        let mut buf = [0; 4];
        for offset in [497, 500, u64::MAX - 1, u64::MAX] {
            assert!(window.read_at(ByteOffset(offset), &mut buf).is_err());
            assert!(window.write_at(ByteOffset(offset), &buf).is_err());
            assert!(window.write_fua(ByteOffset(offset), &buf).is_err());
            assert!(window.discard(ByteOffset(offset), ByteLen(4)).is_err());
            assert!(window.write_zeroes(ByteOffset(offset), ByteLen(4)).is_err());
        }
        assert!(matches!(
            WindowDevice::new(base, ByteOffset(9_600), ByteLen(500)),
            Err(Error::BeyondEnd { .. })
        ));
    }

    #[test]
    fn a_batch_through_a_window_refuses_only_what_leaves_it() {
        let (base, window) = window();
        base.write_at(ByteOffset(1000), &[5; 500]).unwrap();
        let (mut a, mut b, mut c) = ([0; 4], [0; 4], [0; 4]);
        let mut batch = [
            IoRead { offset: ByteOffset(0), buf: &mut a },
            IoRead { offset: ByteOffset(498), buf: &mut b },
            IoRead { offset: ByteOffset(496), buf: &mut c },
        ];
        let results = window.read_batch(&mut batch);
        assert!(results[0].is_ok() && results[1].is_err() && results[2].is_ok());
        assert_eq!((a, b, c), ([5; 4], [0; 4], [5; 4]));
    }
}
