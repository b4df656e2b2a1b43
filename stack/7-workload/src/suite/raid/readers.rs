//! The readers: each reads a file from start to end, then another one, until the time is over.
//!
//! The time of a point begins when all readers begin, with nothing in flight, and ends when the
//! last request that began in time is complete. So bytes and time belong together, and the rate
//! cannot exceed what the members deliver: 50 readers of stripes have half a gigabyte in flight,
//! which a time that is cut out of their work would count or leave out by accident.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use xfskit_md::array::IoStats;
use xfskit_md::array::sync_action::Progress;
use xfskit_units::ByteLen;

use super::content::{Content, Source};
use super::member::Reads;
use super::members::{MemberSet, Plan, RaidArray};
use crate::measure::usage::{Stopwatch, Usage};
use crate::random::Random;

/// Polling interval for the end of a rebuild.
const LOOK: Duration = Duration::from_millis(5);

/// Fewest requests of a point, however few readers it has.
pub(super) const REQUESTS_MIN: u64 = 10;

/// The state of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// This many members are missing.
    Missing(usize),
    /// One member is new and is being rebuilt.
    Rebuilding,
}

impl State {
    pub(super) fn name(self) -> String {
        match self {
            Self::Missing(0) => "healthy".into(),
            Self::Missing(1) => "one failed".into(),
            Self::Missing(2) => "two failed".into(),
            Self::Missing(n) => format!("{n} failed"),
            Self::Rebuilding => "rebuilding".into(),
        }
    }

    pub(super) fn missing(self) -> usize {
        match self {
            Self::Missing(n) => n,
            Self::Rebuilding => 1,
        }
    }
}

/// The parameters of one point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) plan: Plan,
    pub(super) state: State,
    pub(super) readers: usize,
    /// Bytes of a request; 0 for a full stripe.
    pub(super) request: u64,
    pub(super) stripe_cache: u64,
    /// Each reader is pinned to a processor.
    pub(super) pinned: bool,
    /// Most bytes per second of each member that a rebuild fills, as md's `sync_speed_max` limits
    /// it.
    pub(super) rebuild_limit: Option<u64>,
    pub(super) time: Duration,
}

/// What a rebuild did beside the readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebuilt {
    /// Bytes of each new member.
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// The result of one turn of a point.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) bytes: u64,
    /// Requests completed.
    pub(super) requests: u64,
    pub(super) usage: Usage,
    pub(super) io_stats: IoStats,
    pub(super) members: Vec<Reads>,
    pub(super) rebuilt: Option<Rebuilt>,
    /// Memory that the stripe cache allocated.
    pub(super) cache: ByteLen,
}

#[allow(clippy::cast_precision_loss)] // of rates
impl Outcome {
    /// Returns the throughput in MB per second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.usage.wall.as_secs_f64()
    }

    /// Returns true if so few requests were completed that the rate is an accident: the last
    /// request of each reader runs beside fewer others.
    pub(super) fn is_too_short(&self, readers: usize) -> bool {
        self.requests < REQUESTS_MIN.max(2 * readers as u64)
    }

    /// Returns `count` per byte read; not finite if nothing was read.
    pub(super) fn per_byte(&self, count: u64) -> f64 {
        count as f64 / self.bytes as f64
    }

    /// Returns the nanoseconds of processor time per byte read; not finite if nothing was read.
    pub(super) fn processor(&self) -> f64 {
        self.usage.processor.as_secs_f64() * 1e9 / self.bytes as f64
    }

    /// Returns the rate of the rebuild in MB per second; `None` if nothing was rebuilt.
    pub(super) fn rebuild_rate(&self) -> Option<f64> {
        let rebuilt = self.rebuilt.filter(|rebuilt| rebuilt.bytes > 0);
        rebuilt.map(|rebuilt| rebuilt.bytes as f64 / 1e6 / rebuilt.time.as_secs_f64())
    }
}

/// Lays out consecutive files with sizes around `mean`: from a fifth of it to five times as much.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn files(count: usize, mean: u64, seed: u64) -> Vec<Range<u64>> {
    let mut random = Random::new(seed);
    let mut at = 0;
    let mut file = |_| {
        let mean = mean as f64;
        let size = random.normal(mean, mean / 3.0).clamp(mean / 5.0, mean * 5.0) as u64;
        let start = at;
        at = start + size.next_multiple_of(4096);
        start..start + size.max(1)
    };
    (0..count).map(&mut file).collect()
}

/// State that all readers share.
struct Reading<'r> {
    array: &'r RaidArray,
    source: Box<dyn Source + 'r>,
    setup: Setup,
    seed: u64,
    bytes: AtomicU64,
    requests: AtomicU64,
    /// All readers, the rebuild, and the thread that measures.
    begin: Barrier,
    stop: AtomicBool,
}

impl Reading<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn reader(&self, n: usize) -> io::Result<()> {
        let pinned = if self.setup.pinned { pin(n) } else { Ok(()) };
        let mut random = Random::stream(self.seed, n as u64);
        let request =
            if self.setup.request == 0 { self.array.stripe_bytes } else { self.setup.request };
        // Not zero, so that the memory is there before the time begins.
        let mut buf = vec![0xff; usize::try_from(request).map_err(io::Error::other)?];
        self.begin.wait();
        pinned?;
        while !self.stopped() {
            let file = random.index(self.source.files());
            self.source.read_file(file, &mut buf, &mut |bytes| {
                self.count(bytes);
                if self.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(())
    }

    /// Rebuilds new members until the readers stop.
    fn rebuild(&self) -> io::Result<Rebuilt> {
        self.begin.wait();
        let (begun, mut filled) = (Instant::now(), 0);
        for leg in self.array.legs.iter().filter(|leg| leg.needs_rebuild()) {
            let watch = |step: Progress| {
                filled = self.wait_for_limit(begun, step.done.0);
                if self.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            leg.rebuild(watch).map_err(io::Error::other)?;
        }
        Ok(Rebuilt { bytes: filled, time: begun.elapsed() })
    }

    /// Waits until the limit of the rebuild allows `filled` bytes since `begun`, or until the
    /// readers stop. Returns how many bytes it allows then, at most `filled`.
    fn wait_for_limit(&self, begun: Instant, filled: u64) -> u64 {
        let Some(limit) = self.setup.rebuild_limit else { return filled };
        loop {
            let allowed = allowed_bytes(limit, begun.elapsed());
            if allowed >= filled || self.stopped() {
                return filled.min(allowed);
            }
            thread::sleep(time_of(filled - allowed, limit).min(LOOK));
        }
    }
}

/// Returns the bytes that a limit in bytes per second allows in `time`.
fn allowed_bytes(limit: u64, time: Duration) -> u64 {
    u64::try_from(time.as_nanos() * u128::from(limit) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// Returns the time in which a limit in bytes per second allows `bytes`.
fn time_of(bytes: u64, limit: u64) -> Duration {
    let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(limit.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// Pins this thread to processor `n`, modulo the number of processors.
fn pin(n: usize) -> io::Result<()> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    set.set(n % processors);
    sched_setaffinity(None, &set).map_err(io::Error::from)
}

/// Reads for the time of `setup`, and until the requests that are in flight then are complete. With
/// a rebuild, ends earlier if the rebuild ends.
pub(super) fn run(
    member_set: &MemberSet,
    content: &Content,
    setup: Setup,
    seed: u64,
) -> io::Result<Outcome> {
    let rebuilding = setup.state == State::Rebuilding;
    let array = member_set.array(
        &setup.plan,
        setup.state.missing(),
        rebuilding,
        ByteLen(setup.stripe_cache),
    )?;
    member_set.drop_caches()?;
    let reading = Reading {
        array: &array,
        source: content.open(&array)?,
        setup,
        seed,
        bytes: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        begin: Barrier::new(setup.readers + 1 + usize::from(rebuilding)),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let reading = &reading;
        let readers: Vec<_> =
            (0..setup.readers).map(|n| scope.spawn(move || reading.reader(n))).collect();
        let filling = rebuilding.then(|| scope.spawn(|| reading.rebuild()));
        let before = (array.io_stats(), member_set.reads());
        reading.begin.wait();
        let watch = Stopwatch::start();
        let mut left = setup.time;
        while left > Duration::ZERO && !filling.as_ref().is_some_and(ScopedJoinHandle::is_finished)
        {
            thread::sleep(left.min(LOOK));
            left = left.saturating_sub(LOOK);
        }
        reading.stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no panic")?;
        }
        let usage = watch.and_then(|watch| watch.read());
        let after = (array.io_stats(), member_set.reads());
        let rebuilt = filling.map(|filling| filling.join().expect("no panic")).transpose()?;
        let members = after.1.iter().zip(before.1).map(|(now, before)| now.since(before));
        Ok(Outcome {
            bytes: reading.bytes.load(Ordering::Relaxed),
            requests: reading.requests.load(Ordering::Relaxed),
            usage: usage?,
            io_stats: IoStats {
                read: after.0.read.minus(before.0.read),
                loaded: after.0.loaded.minus(before.0.loaded),
                stored: after.0.stored.minus(before.0.stored),
            },
            members: members.collect(),
            rebuilt,
            cache: array.cache_bytes(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(bytes: u64, requests: u64) -> Outcome {
        Outcome {
            bytes,
            requests,
            usage: Usage { processor: Duration::from_millis(1), ..Usage::default() },
            io_stats: IoStats::default(),
            members: Vec::new(),
            rebuilt: Some(Rebuilt { bytes: 0, time: Duration::from_millis(1) }),
            cache: ByteLen(0),
        }
    }

    #[test]
    fn a_limit_allows_its_bytes_per_second() {
        let ms = Duration::from_millis;
        assert_eq!(allowed_bytes(10_000_000, ms(1500)), 15_000_000);
        assert_eq!(time_of(5_000_000, 10_000_000), ms(500));
        assert_eq!(time_of(1, 0), Duration::from_secs(1), "no division by zero");
    }

    #[test]
    fn the_cost_per_byte_is_not_finite_if_nothing_was_read() {
        let outcome = outcome(0, 0);
        assert!(!outcome.processor().is_finite() && !outcome.per_byte(1).is_finite());
        assert_eq!(outcome.rebuild_rate(), None, "nothing was rebuilt");
    }

    #[test]
    fn a_point_needs_two_requests_of_each_reader_and_ten_in_all() {
        for (requests, readers, short) in
            [(0, 1, true), (9, 1, true), (10, 1, false), (99, 50, true), (100, 50, false)]
        {
            let outcome = outcome(requests << 20, requests);
            assert_eq!(outcome.is_too_short(readers), short, "{requests} by {readers}");
        }
    }
}
