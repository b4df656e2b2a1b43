//! The readers: each reads a file from start to end, then another one, until the time is over.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use xfskit_block::BlockDevice;
use xfskit_md::array::IoStats;
use xfskit_units::{ByteLen, ByteOffset};

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

    fn missing(self) -> usize {
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

/// State that all readers share.
struct Reading<'r> {
    array: &'r RaidArray,
    files: &'r [Range<u64>],
    setup: Setup,
    seed: u64,
    bytes: AtomicU64,
    requests: AtomicU64,
    stop: AtomicBool,
}

impl Reading<'_> {
    /// Returns the bytes and the requests so far.
    fn done(&self) -> [u64; 2] {
        [&self.bytes, &self.requests].map(|count| count.load(Ordering::Relaxed))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn reader(&self, n: usize) -> io::Result<()> {
        if self.setup.pinned {
            pin(n)?;
        }
        let mut random = Random::stream(self.seed, n as u64);
        let request =
            if self.setup.request == 0 { self.array.stripe_bytes } else { self.setup.request };
        let mut buf = vec![0; usize::try_from(request).map_err(io::Error::other)?];
        let size = self.array.device.size().0;
        while !self.stopped() {
            let file = &self.files[random.index(self.files.len())];
            // Files start at a full stripe, as allocation on an array aligns large files.
            let start = file.start / self.array.stripe_bytes * self.array.stripe_bytes;
            let end = (start + file.end - file.start).min(size);
            let mut at = start.min(end);
            while at < end && !self.stopped() {
                let part = &mut buf[..usize::try_from(request.min(end - at)).unwrap_or(0)];
                self.array.device.read_at(ByteOffset(at), part).map_err(io::Error::other)?;
                self.bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
                self.requests.fetch_add(1, Ordering::Relaxed);
                at += part.len() as u64;
            }
        }
        Ok(())
    }

    /// Rebuilds new members until the readers stop. Returns the rebuilt bytes of each.
    fn rebuild(&self) -> io::Result<u64> {
        let mut filled = 0;
        for leg in self.array.legs.iter().filter(|leg| leg.needs_rebuild()) {
            let watch = |step: xfskit_md::array::sync_action::Progress| {
                filled = step.done.0;
                if self.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            leg.rebuild(watch).map_err(io::Error::other)?;
        }
        Ok(filled)
    }
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
    files: &[Range<u64>],
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
        files,
        setup,
        seed,
        bytes: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let reading = &reading;
        let readers: Vec<_> =
            (0..setup.readers).map(|n| scope.spawn(move || reading.reader(n))).collect();
        // The first moments are not counted: all readers start at the same time.
        thread::sleep(time / 4);
        let before = (reading.done(), array.io_stats(), member_set.reads());
        let watch = Stopwatch::start();
        let filling = rebuilding.then(|| scope.spawn(|| reading.rebuild()));
        let mut left = time;
        while left > Duration::ZERO && !filling.as_ref().is_some_and(ScopedJoinHandle::is_finished)
        {
            thread::sleep(left.min(LOOK));
            left = left.saturating_sub(LOOK);
        }
        let usage = watch.and_then(|watch| watch.read());
        let after = (reading.done(), array.io_stats(), member_set.reads());
        reading.stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no panic")?;
        }
        let rebuilt = filling.map(|filling| filling.join().expect("no panic")).transpose()?;
        let members = after.2.iter().zip(before.2).map(|(now, before)| now.since(before));
        Ok(Outcome {
            bytes: after.0[0] - before.0[0],
            requests: after.0[1] - before.0[1],
            usage: usage?,
            io_stats: IoStats {
                read: after.1.read.minus(before.1.read),
                loaded: after.1.loaded.minus(before.1.loaded),
                stored: after.1.stored.minus(before.1.stored),
            },
            members: members.collect(),
            rebuilt,
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
        }
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
