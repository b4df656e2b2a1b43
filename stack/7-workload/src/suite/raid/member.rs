//! A member device with the counters of iostat.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, IoRead, Result};
use xfskit_units::ByteOffset;

/// Counters of a member.
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
}

impl Reads {
    /// Returns the difference to `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            bytes: self.bytes.saturating_sub(before.bytes),
            waited: self.waited.saturating_sub(before.waited),
            busy: self.busy.saturating_sub(before.busy),
        }
    }
}

/// Number of waiting threads, start of the current busy time, and total of the earlier ones.
#[derive(Debug)]
struct Waiting {
    now: usize,
    since: Instant,
    busy: Duration,
}

impl Waiting {
    fn busy_so_far(&self) -> Duration {
        self.busy + if self.now > 0 { self.since.elapsed() } else { Duration::ZERO }
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
        let waiting = Waiting { now: 0, since: Instant::now(), busy: Duration::ZERO };
        Self {
            base,
            count: zero(),
            bytes: zero(),
            waited_nanos: zero(),
            waiting: Mutex::new(waiting),
        }
    }

    /// Returns the counters so far.
    pub(super) fn reads(&self) -> Reads {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reads {
            count: get(&self.count),
            bytes: get(&self.bytes),
            waited: Duration::from_nanos(get(&self.waited_nanos)),
            busy: self.waiting.lock().busy_so_far(),
        }
    }

    fn read<T>(&self, count: u64, bytes: u64, read: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        {
            let mut waiting = self.waiting.lock();
            if waiting.now == 0 {
                waiting.since = start;
            }
            waiting.now += 1;
        }
        let result = read();
        let end = Instant::now();
        {
            let mut waiting = self.waiting.lock();
            waiting.busy = if waiting.now == 1 { waiting.busy_so_far() } else { waiting.busy };
            waiting.now -= 1;
        }
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
    }
}
