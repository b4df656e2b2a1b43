//! The readers: each reads a file from start to end, then another one, until the time is over.
//!
//! Bytes count while the [`Window`] is open. A request that begins before it or ends after it
//! counts for the part of its time that lies within. With many readers and large requests whole
//! requests would make the rate an accident: 50 readers of stripes have half a gigabyte in flight.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;
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

/// The part of the time of a point that passes before it is measured: one of this many.
pub(super) const RUN_UP: u32 = 4;

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
    /// Bytes that were rebuilt on the new member.
    pub(super) rebuilt: Option<u64>,
    /// Memory that the stripe cache allocated.
    pub(super) cache: ByteLen,
}

#[allow(clippy::cast_precision_loss)] // of rates
impl Outcome {
    /// Returns the throughput in MB per second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.usage.wall.as_secs_f64()
    }

    /// Returns true if so few requests were completed that the rate is an accident. A request
    /// counts when it is complete, so each reader may add or lack a part of one.
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
        let rebuilt = self.rebuilt.filter(|bytes| *bytes > 0);
        rebuilt.map(|bytes| bytes as f64 / 1e6 / self.usage.wall.as_secs_f64())
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

/// The time in which bytes count.
#[derive(Debug, Default)]
struct Window {
    start: OnceLock<Instant>,
    end: OnceLock<Instant>,
}

impl Window {
    /// Returns the part of the time from `begun` to `done` that lies within the window: 0 to 1.
    fn part(&self, begun: Instant, done: Instant) -> f64 {
        let Some(start) = self.start.get() else { return 0.0 };
        let end = self.end.get().map_or(done, |end| done.min(*end));
        let (inside, whole) = (end.saturating_duration_since(begun.max(*start)), done - begun);
        if inside >= whole {
            return if done >= *start { 1.0 } else { 0.0 };
        }
        inside.as_secs_f64() / whole.as_secs_f64()
    }
}

/// State that all readers share.
struct Reading<'r> {
    array: &'r RaidArray,
    source: Box<dyn Source + 'r>,
    setup: Setup,
    seed: u64,
    window: Window,
    bytes: AtomicU64,
    requests: AtomicU64,
    stop: AtomicBool,
}

impl Reading<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts a request of `bytes`.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn count(&self, bytes: usize, begun: Instant, done: Instant) {
        let part = self.window.part(begun, done);
        let counted = (bytes as f64 * part).round() as u64;
        self.bytes.fetch_add(counted, Ordering::Relaxed);
        if part > 0.0 && self.window.end.get().is_none() {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn reader(&self, n: usize) -> io::Result<()> {
        if self.setup.pinned {
            pin(n)?;
        }
        let mut random = Random::stream(self.seed, n as u64);
        let request =
            if self.setup.request == 0 { self.array.stripe_bytes } else { self.setup.request };
        let mut buf = vec![0; usize::try_from(request).map_err(io::Error::other)?];
        let mut begun = Instant::now();
        while !self.stopped() {
            let file = random.index(self.source.files());
            self.source.read_file(file, &mut buf, &mut |bytes| {
                let done = Instant::now();
                self.count(bytes, begun, done);
                begun = done;
                if self.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(())
    }

    /// Rebuilds new members until the readers stop. Returns the rebuilt bytes of each.
    fn rebuild(&self) -> io::Result<u64> {
        let (begun, mut filled) = (Instant::now(), 0);
        for leg in self.array.legs.iter().filter(|leg| leg.needs_rebuild()) {
            let watch = |step: Progress| {
                filled = self.wait_for_limit(begun, step.done.0);
                if self.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            leg.rebuild(watch).map_err(io::Error::other)?;
        }
        Ok(filled)
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

/// Reads for `time`. With a rebuild, ends earlier if the rebuild ends.
pub(super) fn run(
    member_set: &MemberSet,
    content: &Content,
    setup: Setup,
    time: Duration,
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
        window: Window::default(),
        bytes: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let reading = &reading;
        let readers: Vec<_> =
            (0..setup.readers).map(|n| scope.spawn(move || reading.reader(n))).collect();
        // The first moments are not counted: all readers start at the same time.
        thread::sleep(time / RUN_UP);
        let before = (array.io_stats(), member_set.reads());
        let watch = Stopwatch::start();
        reading.window.start.get_or_init(Instant::now);
        let filling = rebuilding.then(|| scope.spawn(|| reading.rebuild()));
        let mut left = time;
        while left > Duration::ZERO && !filling.as_ref().is_some_and(ScopedJoinHandle::is_finished)
        {
            thread::sleep(left.min(LOOK));
            left = left.saturating_sub(LOOK);
        }
        reading.window.end.get_or_init(Instant::now);
        let usage = watch.and_then(|watch| watch.read());
        let after = (array.io_stats(), member_set.reads());
        reading.stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no panic")?;
        }
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
            rebuilt: Some(0),
            cache: ByteLen(0),
        }
    }

    #[test]
    #[allow(clippy::float_cmp)] // of values that are exact
    fn a_request_at_the_edge_of_the_window_counts_for_its_part() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let window = Window::default();
        assert_eq!(window.part(at(0), at(10)), 0.0, "not open yet");
        window.start.set(at(100)).expect("once");
        for (begun, done, part) in
            [(0, 50, 0.0), (50, 150, 0.5), (100, 200, 1.0), (150, 160, 1.0), (90, 100, 0.0)]
        {
            assert_eq!(window.part(at(begun), at(done)), part, "{begun} to {done}");
        }
        window.end.set(at(300)).expect("once");
        for (begun, done, part) in
            [(200, 300, 1.0), (200, 400, 0.5), (0, 400, 0.5), (310, 400, 0.0)]
        {
            assert_eq!(window.part(at(begun), at(done)), part, "{begun} to {done}");
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
