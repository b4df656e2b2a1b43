//! A simulated disk with a fixed bandwidth and latency.
//!
//! The disk has one timeline. A request is scheduled after all earlier ones and completes when its
//! bytes have been transferred. An announcement ([`BlockDevice::will_need`]) is scheduled at once,
//! as by the kernel's read-ahead; the read that follows waits only for the remainder. Every read
//! uses up its announcement, so bytes that are read twice are transferred twice. Writes return at
//! once while the backlog fits into the disk's buffer; a flush waits for all of them.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, IoRead, Result};
use crate::{forward, plain};

/// Most announcements that a disk remembers.
const ANNOUNCED_MAX: usize = 4096;

/// Size of the write buffer, in bytes. When it is full, writers wait.
const BUFFER: u64 = 8 << 20;

/// A device with the bandwidth and latency of a disk.
#[derive(Debug)]
pub struct LimitedDevice {
    base: Arc<dyn BlockDevice>,
    bytes_per_second: u64,
    latency: Duration,
    /// Leaf lock.
    timeline: Mutex<Timeline>,
}

#[derive(Debug)]
struct Timeline {
    busy_until: Instant,
    announced: Vec<Announced>,
}

/// A range whose transfer begins at `start`.
#[derive(Debug)]
struct Announced {
    range: Range<u64>,
    start: Instant,
}

impl LimitedDevice {
    /// Wraps `base` with at most `bytes_per_second` (not 0). Each read takes at least `latency`
    /// from its request or announcement on.
    pub fn new(base: Arc<dyn BlockDevice>, bytes_per_second: u64, latency: Duration) -> Self {
        let timeline = Timeline { busy_until: Instant::now(), announced: Vec::new() };
        Self { base, bytes_per_second, latency, timeline: Mutex::new(timeline) }
    }

    /// Returns the time that the transfer of `bytes` takes.
    fn transfer_time(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Schedules a transfer of `bytes`. Returns when it begins.
    fn schedule(&self, timeline: &mut Timeline, bytes: u64) -> Instant {
        let start = timeline.busy_until.max(Instant::now());
        timeline.busy_until = start + self.transfer_time(bytes);
        start
    }

    /// Schedules a read and returns when it completes.
    fn completion(&self, offset: u64, len: u64) -> Instant {
        let mut timeline = self.timeline.lock();
        let end = offset.saturating_add(len);
        let covers = |a: &Announced| a.range.start <= offset && end <= a.range.end;
        let Some(i) = timeline.announced.iter().position(covers) else {
            return self.schedule(&mut timeline, len) + self.transfer_time(len) + self.latency;
        };
        let Announced { range, start } = &mut timeline.announced[i];
        let done = *start + self.transfer_time(end - range.start) + self.latency;
        if end == range.end {
            timeline.announced.swap_remove(i);
        } else {
            *start += self.transfer_time(end - range.start);
            range.start = end;
        }
        done
    }

    fn wait_until(done: Instant) {
        let left = done.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
    }
}

impl BlockDevice for LimitedDevice {
    forward!(this => this.base;
        size, logical_block_size, physical_block_size, topology, is_read_only, discard, skip_hole,
        alternatives, heal
    );
    plain!(write_batch, write_fua, write_zeroes);
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        Self::wait_until(self.completion(offset.0, buf.len() as u64));
        self.base.read_at(offset, buf)
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let done = batch.iter().map(|io| self.completion(io.offset.0, io.buf.len() as u64)).max();
        if let Some(done) = done {
            Self::wait_until(done);
        }
        self.base.read_batch(batch)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let done = {
            let mut timeline = self.timeline.lock();
            self.schedule(&mut timeline, buf.len() as u64);
            timeline.busy_until
        };
        if let Some(soon) = done.checked_sub(self.transfer_time(BUFFER)) {
            Self::wait_until(soon);
        }
        self.base.write_at(offset, buf)
    }
    fn flush(&self) -> Result<()> {
        let done = self.timeline.lock().busy_until;
        Self::wait_until(done);
        self.base.flush()
    }
    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        let mut timeline = self.timeline.lock();
        if timeline.announced.len() < ANNOUNCED_MAX {
            let start = self.schedule(&mut timeline, len.0);
            let range = offset.0..offset.0.saturating_add(len.0);
            timeline.announced.push(Announced { range, start });
        }
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        Self::wait_until(self.completion(offset.0, buf.len() as u64));
        self.base.read_alternative(offset, buf, k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    fn disk() -> LimitedDevice {
        // A byte takes 10 ns: 1 MB takes 10 ms.
        let memory = Arc::new(MemDevice::new(ByteLen(1 << 30)));
        LimitedDevice::new(memory, 100_000_000, Duration::ZERO)
    }

    #[test]
    fn reads_are_transferred_one_after_the_other() {
        let disk = disk();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for i in 0..4 {
                let disk = &disk;
                scope.spawn(move || disk.read_at(ByteOffset(i << 20), &mut vec![0; 1_000_000]));
            }
        });
        assert!(start.elapsed() >= Duration::from_millis(40));
    }

    #[test]
    fn an_announcement_starts_a_transfer_and_serves_one_read() {
        let disk = disk();
        disk.will_need(ByteOffset(0), ByteLen(2_000_000));
        let takes = Duration::from_millis(10);
        let first = disk.completion(0, 1_000_000);
        let second = disk.completion(1_000_000, 1_000_000);
        assert_eq!(second - first, takes);
        assert!(disk.completion(0, 1_000_000) - second >= takes, "the second time");
    }

    #[test]
    fn a_flush_waits_for_the_writes() {
        let disk = disk();
        let start = Instant::now();
        disk.write_at(ByteOffset(0), &vec![1; 1_000_000]).unwrap();
        disk.flush().unwrap();
        assert!(start.elapsed() >= Duration::from_millis(10));
    }
}
