//! A member device with the counters of iostat.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, IoRead, Result};
use xfskit_units::ByteOffset;

use crate::measure::share::percent_of;

/// Counters of a member, or the difference between two states of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    /// Number of reads.
    pub(super) count: u64,
    /// Bytes read.
    pub(super) bytes: u64,
    /// Total time of waiting for reads. A read that was announced before counts from the start of
    /// the wait.
    pub(super) waited: Duration,
    /// Time in which at least one thread waited.
    pub(super) busy: Duration,
    /// Time in which all of this was counted. `busy` is a part of it.
    pub(super) elapsed: Duration,
}

impl Reads {
    /// Returns the difference to `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            bytes: self.bytes.saturating_sub(before.bytes),
            waited: self.waited.saturating_sub(before.waited),
            busy: self.busy.saturating_sub(before.busy),
            elapsed: self.elapsed.saturating_sub(before.elapsed),
        }
    }

    /// Returns the utilisation in percent. `name` is that of the member.
    ///
    /// # Errors
    /// If the member was busy for longer than the time in which that was counted.
    pub(super) fn utilisation(&self, name: &str) -> io::Result<f64> {
        let (busy, elapsed) = (self.busy.as_secs_f64(), self.elapsed.as_secs_f64());
        percent_of(&format!("utilisation of member {name}"), busy, elapsed)
    }
}

/// The reads that are waited for: an interval begins with the first waiting thread and ends with
/// the last one.
///
/// Times are passed in. They are taken under the lock of this, so they never decrease: a time from
/// before the lock may lie in an interval that has ended already, which would count it twice.
#[derive(Debug)]
struct Waiting {
    made: Instant,
    now: usize,
    /// Start of the current interval.
    since: Instant,
    /// Length of all earlier intervals.
    busy: Duration,
}

impl Waiting {
    fn new(now: Instant) -> Self {
        Self { made: now, now: 0, since: now, busy: Duration::ZERO }
    }

    fn begin(&mut self, at: Instant) {
        if self.now == 0 {
            self.since = at;
        }
        self.now += 1;
    }

    fn end(&mut self, at: Instant) {
        self.now -= 1;
        if self.now == 0 {
            self.busy += at.saturating_duration_since(self.since);
        }
    }

    /// Returns the busy time and the whole time until `at`.
    fn until(&self, at: Instant) -> (Duration, Duration) {
        let current = at.saturating_duration_since(self.since);
        let busy = self.busy + if self.now > 0 { current } else { Duration::ZERO };
        (busy, at.saturating_duration_since(self.made))
    }
}

/// A device whose reads are counted and timed.
#[derive(Debug)]
pub(super) struct Member {
    base: Arc<dyn BlockDevice>,
    count: AtomicU64,
    bytes: AtomicU64,
    waited_nanos: AtomicU64,
    waiting: Mutex<Waiting>,
}

impl Member {
    pub(super) fn new(base: Arc<dyn BlockDevice>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            base,
            count: zero(),
            bytes: zero(),
            waited_nanos: zero(),
            waiting: Mutex::new(Waiting::new(Instant::now())),
        }
    }

    /// Returns the counters so far.
    pub(super) fn reads(&self) -> Reads {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waiting = self.waiting.lock();
        let (busy, elapsed) = waiting.until(Instant::now());
        Reads {
            count: get(&self.count),
            bytes: get(&self.bytes),
            waited: Duration::from_nanos(get(&self.waited_nanos)),
            busy,
            elapsed,
        }
    }

    fn read<T>(&self, count: u64, bytes: u64, read: impl FnOnce() -> T) -> T {
        let start = {
            let mut waiting = self.waiting.lock();
            let now = Instant::now();
            waiting.begin(now);
            now
        };
        let result = read();
        let mut waiting = self.waiting.lock();
        let end = Instant::now();
        waiting.end(end);
        let waited = u64::try_from((end - start).as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(count, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.waited_nanos.fetch_add(waited, Ordering::Relaxed);
        result
    }
}

impl BlockDevice for Member {
    xfskit_block::forward!(this => this.base;
        size, logical_block_size, physical_block_size, topology, is_read_only, write_at,
        write_batch, flush, write_fua, discard, write_zeroes, will_need, skip_hole, alternatives,
        read_alternative, heal
    );
    xfskit_block::plain!(lend);
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.read(1, buf.len() as u64, || self.base.read_at(offset, buf))
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let bytes = batch.iter().map(|io| io.buf.len() as u64).sum();
        self.read(batch.len() as u64, bytes, || self.base.read_batch(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xfskit_block::MemDevice;
    use xfskit_units::ByteLen;

    #[test]
    fn reads_are_counted_and_timed() {
        let member = Member::new(Arc::new(MemDevice::new(ByteLen(1 << 20))));
        let before = member.reads();
        member.read_at(ByteOffset(0), &mut [0; 4096]).expect("memory");
        let (mut a, mut b) = ([0; 512], [0; 512]);
        let at = |offset, buf| IoRead { offset: ByteOffset(offset), buf };
        member.read_batch(&mut [at(0, &mut a), at(512, &mut b)]);
        let reads = member.reads().since(before);
        assert_eq!((reads.count, reads.bytes), (3, 4096 + 1024));
        assert!(reads.waited > Duration::ZERO && reads.busy > Duration::ZERO, "{reads:?}");
        assert!(reads.utilisation("m0").expect("a part") <= 100.0, "{reads:?}");
    }

    #[test]
    #[allow(clippy::float_cmp)] // of a value that is exact
    fn overlapping_reads_are_busy_time_once() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut waiting = Waiting::new(zero);
        waiting.begin(at(10));
        waiting.begin(at(20));
        waiting.end(at(30));
        assert_eq!(waiting.until(at(35)).0, Duration::from_millis(25), "until now");
        waiting.end(at(40));
        waiting.begin(at(60));
        waiting.end(at(80));
        let (busy, elapsed) = waiting.until(at(100));
        assert_eq!((busy, elapsed), (Duration::from_millis(50), Duration::from_millis(100)));
        let reads = Reads { busy, elapsed, ..Reads::default() };
        assert_eq!(reads.utilisation("m0").expect("a part"), 50.0);
    }

    #[test]
    fn a_utilisation_over_100_percent_is_an_error() {
        let second = Duration::from_secs(1);
        let reads = Reads { busy: second * 5, elapsed: second, ..Reads::default() };
        let error = reads.utilisation("m7").expect_err("no figure").to_string();
        assert!(error.contains("utilisation of member m7: 500.0 %"), "{error}");
    }
}
