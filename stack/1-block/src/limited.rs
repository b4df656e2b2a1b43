//! A simulated disk with a fixed bandwidth and latency.
//!
//! The disk has one timeline. A request is scheduled after all earlier ones and completes when its
//! bytes have been transferred. An announcement ([`BlockDevice::will_need`]) is scheduled at once,
//! as by the kernel's read-ahead; the read that follows waits only for the remainder. Bytes that
//! are announced again before they are read are on their way already, and are not transferred
//! again: an array of arrays announces a read at each of its levels. Every read uses up what was
//! announced of its range, so bytes that are read twice are transferred twice. Writes return at
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
    /// Bytes of all transfers.
    transferred: u64,
    /// Ranges that do not overlap.
    announced: Vec<Announced>,
}

/// A range whose transfer begins at `start`.
#[derive(Clone, Debug)]
struct Announced {
    range: Range<u64>,
    start: Instant,
}

fn overlaps(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Timeline {
    /// Returns the parts of `range` that are not announced, in order.
    fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut known: Vec<&Range<u64>> = self
            .announced
            .iter()
            .map(|one| &one.range)
            .filter(|one| overlaps(one, range))
            .collect();
        known.sort_unstable_by_key(|one| one.start);
        let (mut missing, mut at) = (Vec::new(), range.start);
        for one in known {
            if at < one.start {
                missing.push(at..one.start);
            }
            at = at.max(one.end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}

impl LimitedDevice {
    /// Wraps `base` with at most `bytes_per_second` (not 0). Each read takes at least `latency`
    /// from its request or announcement on.
    pub fn new(base: Arc<dyn BlockDevice>, bytes_per_second: u64, latency: Duration) -> Self {
        let timeline =
            Timeline { busy_until: Instant::now(), transferred: 0, announced: Vec::new() };
        Self { base, bytes_per_second, latency, timeline: Mutex::new(timeline) }
    }

    /// Returns the bytes of all transfers so far: those of reads, writes and announcements.
    pub fn transferred(&self) -> ByteLen {
        ByteLen(self.timeline.lock().transferred)
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
        timeline.transferred = timeline.transferred.saturating_add(bytes);
        start
    }

    /// Schedules what was not announced of a read. Returns when the whole read completes.
    fn completion(&self, offset: u64, len: u64) -> Instant {
        let mut timeline = self.timeline.lock();
        let range = offset..offset.saturating_add(len);
        let mut done: Option<Instant> = None;
        let mut wait_for = |end: Instant| done = done.max(Some(end + self.latency));
        for part in timeline.missing(&range) {
            let bytes = part.end - part.start;
            let start = self.schedule(&mut timeline, bytes);
            wait_for(start + self.transfer_time(bytes));
        }
        let (used, mut kept) =
            timeline.announced.drain(..).partition::<Vec<_>, _>(|one| overlaps(&one.range, &range));
        for Announced { range: announced, start } in used {
            let end = announced.end.min(range.end);
            let at = |byte: u64| start + self.transfer_time(byte - announced.start);
            wait_for(at(end));
            if announced.start < range.start {
                kept.push(Announced { range: announced.start..range.start, start });
            }
            if end < announced.end {
                kept.push(Announced { range: end..announced.end, start: at(end) });
            }
        }
        timeline.announced = kept;
        done.unwrap_or_else(Instant::now)
    }

    /// Schedules what was not announced before of a range.
    fn announce(&self, offset: u64, len: u64) {
        let mut timeline = self.timeline.lock();
        for range in timeline.missing(&(offset..offset.saturating_add(len))) {
            if timeline.announced.len() >= ANNOUNCED_MAX {
                return;
            }
            let start = self.schedule(&mut timeline, range.end - range.start);
            timeline.announced.push(Announced { range, start });
        }
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
    plain!(lend, write_batch, write_fua, write_zeroes);
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
        self.announce(offset.0, len.0);
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
    fn a_second_announcement_of_the_same_bytes_transfers_nothing() {
        let disk = disk();
        disk.will_need(ByteOffset(0), ByteLen(2_000_000));
        let busy_until = disk.timeline.lock().busy_until;
        // As the arrays within an array announce it: the same bytes, in other pieces.
        disk.will_need(ByteOffset(0), ByteLen(1_000_000));
        disk.will_need(ByteOffset(1_000_000), ByteLen(1_000_000));
        assert_eq!(disk.timeline.lock().busy_until, busy_until);
        assert_eq!(disk.transferred(), ByteLen(2_000_000));
        disk.completion(0, 2_000_000);
        assert_eq!(disk.transferred(), ByteLen(2_000_000), "the read uses what was announced");
        disk.completion(0, 2_000_000);
        assert_eq!(disk.transferred(), ByteLen(4_000_000), "read twice, transferred twice");
    }

    #[test]
    fn a_transfer_that_is_complete_is_not_waited_for_again() {
        let memory = Arc::new(MemDevice::new(ByteLen(1 << 20)));
        let disk = LimitedDevice::new(memory, 100_000_000, Duration::from_secs(1));
        disk.will_need(ByteOffset(0), ByteLen(1000));
        let start = disk.timeline.lock().announced[0].start;
        let all = disk.transfer_time(1000) + disk.latency;
        assert_eq!(disk.completion(0, 1000), start + all, "the latency counts from there on");
    }

    #[test]
    fn only_the_part_that_was_not_announced_is_transferred() {
        let disk = disk();
        disk.will_need(ByteOffset(1_000_000), ByteLen(1_000_000));
        disk.will_need(ByteOffset(500_000), ByteLen(2_000_000));
        assert_eq!(disk.transferred(), ByteLen(2_000_000));
        // A read from the middle leaves both ends announced.
        disk.completion(1_200_000, 100_000);
        disk.completion(500_000, 700_000);
        disk.completion(1_300_000, 1_200_000);
        assert_eq!(disk.transferred(), ByteLen(2_000_000));
        assert!(disk.timeline.lock().announced.is_empty());
        // A read that is longer than its announcement.
        disk.will_need(ByteOffset(0), ByteLen(10));
        disk.completion(0, 30);
        assert_eq!(disk.transferred(), ByteLen(2_000_030));
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
