//! Counts the requests to a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, IoRead, Result};
use crate::{forward, plain};

/// The requests to a device so far, including failed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads; each read of a batch counts.
    pub reads: u64,
    /// Bytes requested by those reads.
    pub read_bytes: ByteLen,
    /// Batches of reads.
    pub batches: u64,
    /// Writes, FUA writes and ranges of zeroes; each write of a batch counts.
    pub writes: u64,
    /// Bytes of those writes.
    pub written_bytes: ByteLen,
    /// Flushes. A FUA write counts here too.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
}

/// A device that counts requests and forwards them.
#[derive(Debug)]
pub struct CountingDevice {
    base: Arc<dyn BlockDevice>,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    batches: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl CountingDevice {
    /// Wraps `base`, with all counts at zero.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            base,
            reads: zero(),
            read_bytes: zero(),
            batches: zero(),
            writes: zero(),
            written_bytes: zero(),
            flushes: zero(),
            discards: zero(),
        }
    }

    /// Returns the counts so far. Each is exact. Together they are a snapshot only while no other
    /// thread uses the device.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            reads: get(&self.reads),
            read_bytes: ByteLen(get(&self.read_bytes)),
            batches: get(&self.batches),
            writes: get(&self.writes),
            written_bytes: ByteLen(get(&self.written_bytes)),
            flushes: get(&self.flushes),
            discards: get(&self.discards),
        }
    }

    fn count_read(&self, len: usize) {
        add(&self.reads, 1);
        add(&self.read_bytes, len as u64);
    }

    fn count_write(&self, len: u64) {
        add(&self.writes, 1);
        add(&self.written_bytes, len);
    }
}

impl BlockDevice for CountingDevice {
    forward!(this => this.base;
        size, logical_block_size, physical_block_size, topology, is_read_only, will_need, skip_hole,
        alternatives, heal
    );
    // Lent bytes would not be counted.
    plain!(lend);
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.count_read(buf.len());
        self.base.read_at(offset, buf)
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        add(&self.batches, 1);
        for io in batch.iter() {
            self.count_read(io.buf.len());
        }
        self.base.read_batch(batch)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.count_write(buf.len() as u64);
        self.base.write_at(offset, buf)
    }
    fn write_batch(&self, batch: &[(ByteOffset, &[u8])]) -> Vec<Result<()>> {
        for (_, buf) in batch {
            self.count_write(buf.len() as u64);
        }
        self.base.write_batch(batch)
    }
    fn flush(&self) -> Result<()> {
        add(&self.flushes, 1);
        self.base.flush()
    }
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.count_write(buf.len() as u64);
        add(&self.flushes, 1);
        self.base.write_fua(offset, buf)
    }
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        add(&self.discards, 1);
        self.base.discard(offset, len)
    }
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.count_write(len.0);
        self.base.write_zeroes(offset, len)
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.count_read(buf.len());
        self.base.read_alternative(offset, buf, k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    #[test]
    fn every_request_is_counted_once() {
        let device = CountingDevice::new(Arc::new(MemDevice::new(ByteLen(1 << 20))));
        let mut buf = [0; 100];
        device.read_at(ByteOffset(0), &mut buf).unwrap();
        let (mut a, mut b) = ([0; 10], [0; 20]);
        device.read_batch(&mut [
            IoRead { offset: ByteOffset(0), buf: &mut a },
            IoRead { offset: ByteOffset(50), buf: &mut b },
        ]);
        device.write_at(ByteOffset(0), &buf).unwrap();
        device.write_batch(&[(ByteOffset(0), &a), (ByteOffset(9), &b)]);
        device.write_fua(ByteOffset(0), &a).unwrap();
        device.write_zeroes(ByteOffset(0), ByteLen(1000)).unwrap();
        device.discard(ByteOffset(0), ByteLen(1000)).unwrap();
        device.flush().unwrap();
        let expect = Counts {
            reads: 3,
            read_bytes: ByteLen(130),
            batches: 1,
            writes: 5,
            written_bytes: ByteLen(1140),
            flushes: 2,
            discards: 1,
        };
        assert_eq!(device.counts(), expect);
    }
}
