//! A device that is never flushed.

use std::sync::Arc;

use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, IoRead, Result};

/// A device whose flushes and FUA writes are passed on as nothing, and as plain writes: what `nobarrier` asks
/// for. After a crash of the machine, whatever its caches held is lost in any order. For devices whose caches
/// outlive that, and for volumes that nobody will miss.
#[derive(Debug)]
pub struct NoBarrierDevice(Arc<dyn BlockDevice>);

impl NoBarrierDevice {
    /// `base`, never flushed.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self(base)
    }
}

impl BlockDevice for NoBarrierDevice {
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.0.write_at(offset, buf)
    }

    fn size(&self) -> ByteLen {
        self.0.size()
    }
    fn logical_block_size(&self) -> u32 {
        self.0.logical_block_size()
    }
    fn physical_block_size(&self) -> u32 {
        self.0.physical_block_size()
    }
    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buf)
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        self.0.read_batch(batch)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.0.write_at(offset, buf)
    }
    fn write_batch(&self, batch: &[(ByteOffset, &[u8])]) -> Vec<Result<()>> {
        self.0.write_batch(batch)
    }
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.0.discard(offset, len)
    }
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.0.write_zeroes(offset, len)
    }
    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        self.0.will_need(offset, len);
    }
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        self.0.alternatives(offset, len)
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.0.read_alternative(offset, buf, k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CountingDevice, MemDevice};

    #[test]
    fn flushes_end_here_and_writes_go_on() {
        let below = Arc::new(CountingDevice::new(Arc::new(MemDevice::new(ByteLen(1 << 20)))));
        let device = NoBarrierDevice::new(Arc::clone(&below) as Arc<dyn BlockDevice>);
        device.write_at(ByteOffset(0), b"abc").unwrap();
        device.write_fua(ByteOffset(3), b"def").unwrap();
        device.flush().unwrap();
        assert_eq!((below.counts().writes, below.counts().flushes), (2, 0));
        let mut buf = [0; 6];
        device.read_at(ByteOffset(0), &mut buf).unwrap();
        assert_eq!(&buf, b"abcdef");
    }
}
