//! A device that is never flushed.

use std::sync::Arc;

use xfskit_units::ByteOffset;

use crate::device::{BlockDevice, Result};
use crate::forward;

/// A device that ignores flushes and turns FUA writes into plain ones, as the option `nobarrier`
/// requests. After a crash of the machine, any writes in its caches are lost, in any order. Use it
/// only for devices whose caches survive a crash, or for volumes that may be lost.
#[derive(Debug)]
pub struct NoBarrierDevice(Arc<dyn BlockDevice>);

impl NoBarrierDevice {
    /// Wraps `base`.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self(base)
    }
}

impl BlockDevice for NoBarrierDevice {
    forward!(this => this.0;
        size, logical_block_size, physical_block_size, topology, is_read_only, read_at, read_batch, lend,
        write_at, write_batch, discard, write_zeroes, will_need, skip_hole, alternatives,
        read_alternative, heal
    );
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.0.write_at(offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use xfskit_units::ByteLen;

    use super::*;
    use crate::{CountingDevice, MemDevice};

    #[test]
    fn flushes_are_dropped_and_writes_are_forwarded() {
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
