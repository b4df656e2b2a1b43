//! A simulated disk: so many bytes per second, so long until the first of them.
//!
//! The disk has one timeline. A request takes its place behind all earlier ones and is done when its
//! bytes have passed. An announcement ([`BlockDevice::will_need`]) takes its place at once, as the
//! kernel's read-ahead does; the read that follows waits only for what is left of it. Every read uses
//! up its announcement, so bytes that are read twice pass twice. Writes are taken at once as long as
//! the disk is not more than its buffer behind; a flush waits for all of them.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, IoRead, Result};
use crate::forward::forward;

/// Announcements that a disk remembers.
const ANNOUNCED_MAX: usize = 4096;

/// Bytes of writes that a disk takes before it makes the writer wait.
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

/// A range whose bytes begin to pass at `start`.
#[derive(Debug)]
struct Announced {
    range: Range<u64>,
    start: Instant,
}

impl LimitedDevice {
    /// `base`, with at most `bytes_per_second` (not 0), each read at least `latency` after it was
    /// asked for or announced.
    pub fn new(base: Arc<dyn BlockDevice>, bytes_per_second: u64, latency: Duration) -> Self {
        let timeline = Timeline { busy_until: Instant::now(), announced: Vec::new() };
        Self { base, bytes_per_second, latency, timeline: Mutex::new(timeline) }
    }

    fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long so many bytes take.
    fn takes(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Takes a place for so many bytes. Answers when they begin to pass.
    fn book(&self, timeline: &mut Timeline, bytes: u64) -> Instant {
        let start = timeline.busy_until.max(Instant::now());
        timeline.busy_until = start + self.takes(bytes);
        start
    }

    /// When the bytes of a read have passed.
    fn done_at(&self, offset: u64, len: u64) -> Instant {
        let mut timeline = self.timeline();
        let end = offset.saturating_add(len);
        let covers = |a: &Announced| a.range.start <= offset && end <= a.range.end;
        let Some(i) = timeline.announced.iter().position(covers) else {
            return self.book(&mut timeline, len) + self.takes(len) + self.latency;
        };
        let Announced { range, start } = &mut timeline.announced[i];
        let done = *start + self.takes(end - range.start) + self.latency;
        if end == range.end {
            timeline.announced.swap_remove(i);
        } else {
            *start += self.takes(end - range.start);
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
        size, logical_block_size, physical_block_size, topology, is_read_only, alternatives, heal
    );
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        Self::wait_until(self.done_at(offset.0, buf.len() as u64));
        self.base.read_at(offset, buf)
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let done = batch.iter().map(|io| self.done_at(io.offset.0, io.buf.len() as u64)).max();
        if let Some(done) = done {
            Self::wait_until(done);
        }
        self.base.read_batch(batch)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let done = {
            let mut timeline = self.timeline();
            self.book(&mut timeline, buf.len() as u64);
            timeline.busy_until
        };
        if let Some(soon) = done.checked_sub(self.takes(BUFFER)) {
            Self::wait_until(soon);
        }
        self.base.write_at(offset, buf)
    }
    fn flush(&self) -> Result<()> {
        let done = self.timeline().busy_until;
        Self::wait_until(done);
        self.base.flush()
    }
    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        let mut timeline = self.timeline();
        if timeline.announced.len() < ANNOUNCED_MAX {
            let start = self.book(&mut timeline, len.0);
            let range = offset.0..offset.0.saturating_add(len.0);
            timeline.announced.push(Announced { range, start });
        }
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        Self::wait_until(self.done_at(offset.0, buf.len() as u64));
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
    fn reads_take_their_time_one_after_the_other() {
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
    fn what_was_announced_is_on_its_way_and_comes_once() {
        let disk = disk();
        disk.will_need(ByteOffset(0), ByteLen(2_000_000));
        let takes = Duration::from_millis(10);
        let first = disk.done_at(0, 1_000_000);
        let second = disk.done_at(1_000_000, 1_000_000);
        assert_eq!(second - first, takes);
        assert!(disk.done_at(0, 1_000_000) - second >= takes, "the second time");
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
