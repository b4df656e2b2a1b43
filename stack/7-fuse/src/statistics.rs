//! Counters of requests: how many of each kind, and how long they took.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Bins of a histogram: bin `n` counts latencies below 2^n µs, the last one all longer ones.
const BINS: usize = 24;
/// Requests that the moving average looks back at, about.
const RECENT: u64 = 8;

macro_rules! kinds {
    ($($kind:ident),* $(,)?) => {
        /// A kind of request, named as the protocol has it.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Kind { $($kind),* }

        const KINDS: &[Kind] = &[$(Kind::$kind),*];
    };
}

kinds! {
    Lookup, Forget, GetAttr, SetAttr, ReadLink, Symlink, MkNod, MkDir, Unlink, RmDir, Rename, Link,
    Open, Read, Write, StatFs, Release, FSync, SetXattr, GetXattr, ListXattr, RemoveXattr, OpenDir,
    ReadDir, ReadDirPlus, FSyncDir, Create, Ioctl, Fallocate, LSeek, CopyFileRange, SyncFs, TmpFile,
    Statx,
}

/// What carries requests of the kernel to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// The device, `/dev/fuse`.
    Device,
    /// Rings of io_uring.
    IoUring,
}

impl Carrier {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::IoUring => "io_uring",
        }
    }
}

/// Which requests came by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// What carries requests of programs.
    pub carrier: Carrier,
    /// Requests by the device.
    pub device: u64,
    /// Requests by io_uring.
    pub io_uring: u64,
}

/// Counts of one kind.
#[derive(Debug, Default)]
struct Counter {
    requests: AtomicU64,
    nanoseconds: AtomicU64,
    bins: [AtomicU64; BINS],
    /// Nanoseconds that requests took lately: a moving average. Threads that add at the same time
    /// may lose one of their times.
    recent: AtomicU64,
}

/// Counts of all requests of a mount.
#[derive(Debug)]
pub struct Statistics {
    counters: Box<[Counter]>,
    /// Requests by each [`Carrier`].
    carried: [AtomicU64; 2],
    /// Requests of programs come by rings.
    by_ring: AtomicBool,
}

/// The requests of one kind so far.
#[derive(Clone, Debug, Serialize)]
pub struct Requests {
    /// Kind of request.
    pub kind: Kind,
    /// Number of requests.
    pub requests: u64,
    /// Sum of the time between a request and its reply in this process.
    pub seconds: f64,
    /// Number of requests that took less than 2^n µs and not less than 2^(n-1), for n from 0; the
    /// last number counts all longer ones.
    pub histogram: Vec<u64>,
}

impl Default for Statistics {
    fn default() -> Self {
        let counters = KINDS.iter().map(|_| Counter::default()).collect();
        Self { counters, carried: Default::default(), by_ring: AtomicBool::new(false) }
    }
}

/// The time of one request, which is counted when this is dropped.
pub(crate) struct Timer<'s> {
    counter: &'s Counter,
    start: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.counter.add(self.start.elapsed());
    }
}

impl Counter {
    fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bin = xfskit_units::index(u64::from(u64::BITS - micros.leading_zeros()));
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.bins[bin.min(BINS - 1)].fetch_add(1, Ordering::Relaxed);
        let recent = self.recent.load(Ordering::Relaxed);
        let recent = recent - recent / RECENT + nanoseconds / RECENT;
        self.recent.store(recent, Ordering::Relaxed);
    }
}

impl Statistics {
    /// Counts a request of `kind`, and its time until the result is dropped.
    pub(crate) fn time(&self, kind: Kind) -> Timer<'_> {
        let counter = &self.counters[kind as usize];
        counter.requests.fetch_add(1, Ordering::Relaxed);
        Timer { counter, start: Instant::now() }
    }

    /// Counts a request that came by this.
    pub(crate) fn came(&self, by: Carrier) {
        self.carried[by as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Records whether requests of programs come by rings.
    pub(crate) fn set_ring(&self, by_ring: bool) {
        self.by_ring.store(by_ring, Ordering::Relaxed);
    }

    /// Returns what carries requests of programs.
    pub(crate) fn carrier(&self) -> Carrier {
        if self.by_ring.load(Ordering::Relaxed) { Carrier::IoUring } else { Carrier::Device }
    }

    /// Returns which requests came by what.
    pub fn carried(&self) -> Carried {
        let [device, io_uring] = self.carried.each_ref().map(|count| count.load(Ordering::Relaxed));
        Carried { carrier: self.carrier(), device, io_uring }
    }

    /// Returns how long requests of `kind` took lately.
    pub(crate) fn recent(&self, kind: Kind) -> Duration {
        Duration::from_nanos(self.counters[kind as usize].recent.load(Ordering::Relaxed))
    }

    /// Returns the number of all requests.
    pub(crate) fn total(&self) -> u64 {
        self.counters.iter().map(|counter| counter.requests.load(Ordering::Relaxed)).sum()
    }

    /// Returns the counts of the kinds that there were.
    #[allow(clippy::cast_precision_loss)] // a sum of seconds
    pub fn requests(&self) -> Vec<Requests> {
        let count = |(kind, counter): (&Kind, &Counter)| {
            let requests = counter.requests.load(Ordering::Relaxed);
            let mut histogram: Vec<u64> =
                counter.bins.iter().map(|bin| bin.load(Ordering::Relaxed)).collect();
            let used = histogram.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
            histogram.truncate(used);
            let seconds = counter.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
            (requests > 0).then_some(Requests { kind: *kind, requests, seconds, histogram })
        };
        KINDS.iter().zip(&self.counters).filter_map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_lately_is_known_and_forgotten() {
        let statistics = Statistics::default();
        let add = |micros| {
            let counter = &statistics.counters[Kind::Read as usize];
            (0..50).for_each(|_| counter.add(Duration::from_micros(micros)));
        };
        assert_eq!(statistics.recent(Kind::Read), Duration::ZERO);
        add(1000);
        assert!(statistics.recent(Kind::Read) > Duration::from_micros(900));
        add(10);
        assert!(statistics.recent(Kind::Read) < Duration::from_micros(20));
        assert_eq!(statistics.recent(Kind::Write), Duration::ZERO);
    }
}
