//! A device of an operation that can be cancelled.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_block::{BlockDevice, Error as DeviceError, Result as DeviceResult};
use xfskit_units::{ByteLen, ByteOffset};

use crate::CancelToken;

/// A device whose reads fail once an operation is cancelled, which so ends soon. It is not written.
pub(crate) struct CancelDevice<D> {
    below: D,
    cancel: CancelToken,
    /// Cancelling has no effect any more.
    goes_on: AtomicBool,
}

impl<D> std::fmt::Debug for CancelDevice<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CancelDevice")
    }
}

impl<D> CancelDevice<D> {
    pub(crate) fn new(below: D, cancel: CancelToken) -> Self {
        Self { below, cancel, goes_on: AtomicBool::new(false) }
    }

    /// Reads on, whether the operation is cancelled or not: what it has begun to write must not be
    /// left unfinished.
    pub(crate) fn go_on(&self) {
        self.goes_on.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() && !self.goes_on.load(Ordering::Relaxed)
    }

    fn verify(&self, offset: ByteOffset, len: usize) -> DeviceResult<()> {
        if !self.is_cancelled() {
            return Ok(());
        }
        let source = std::io::Error::other("cancelled");
        Err(DeviceError::Io { op: "read", offset, len: ByteLen(len as u64), source })
    }
}

impl<D> BlockDevice for CancelDevice<D>
where
    D: Deref<Target: BlockDevice> + Send + Sync,
{
    xfskit_block::plain!(lend, write_batch, write_fua, discard, write_zeroes);
    xfskit_block::forward!(this => *this.below; size, logical_block_size, physical_block_size,
        topology, will_need, skip_hole, alternatives, heal);

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> DeviceResult<()> {
        self.verify(offset, buf.len())?;
        self.below.read_at(offset, buf)
    }

    fn read_batch(&self, batch: &mut [xfskit_block::IoRead<'_>]) -> Vec<DeviceResult<()>> {
        if self.is_cancelled() {
            let failed = batch.iter().map(|read| self.verify(read.offset, read.buf.len()));
            return failed.collect();
        }
        self.below.read_batch(batch)
    }

    fn write_at(&self, _: ByteOffset, _: &[u8]) -> DeviceResult<()> {
        Err(DeviceError::ReadOnly)
    }

    fn flush(&self) -> DeviceResult<()> {
        Ok(())
    }

    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> DeviceResult<()> {
        self.verify(offset, buf.len())?;
        self.below.read_alternative(offset, buf, k)
    }
}
