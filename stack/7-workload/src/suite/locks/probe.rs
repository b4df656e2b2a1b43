//! The cost of locks and threads on this machine, measured without a filesystem: inputs of the
//! model.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use xfskit_lock::{Kind, LockConfig, mutex, with_config};

use crate::measure::Samples;

/// A longer gap between two readings of the clock means that the thread was preempted.
const GAP: Duration = Duration::from_micros(200);
/// The time slice that is assumed if none was observed.
const SLICE: Duration = Duration::from_millis(3);

/// Costs in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Costs {
    /// To take and release a lock of each kind, on one thread.
    pub(super) uncontended: Vec<(&'static str, f64)>,
    /// To take and release a lock of each kind, on two threads that do nothing else.
    pub(super) contended: Vec<(&'static str, f64)>,
    /// Time that the clock adds to the hold time of a lock.
    pub(super) clock: f64,
    /// A pause of a spinning processor.
    pub(super) pause: f64,
    /// Spinning of a parking lock before it sleeps.
    pub(super) spin: f64,
    /// From the call that wakes a thread until that thread runs.
    pub(super) wake: f64,
    /// Time slice of a thread while others wait for its processor.
    pub(super) slice: f64,
}

impl Costs {
    /// Measures all costs, which takes about 25 times `each`.
    pub(super) fn measure(each: Duration) -> Self {
        let of =
            |threads| Kind::ALL.map(|kind| (kind.name(), lock_cost(kind, threads, each))).to_vec();
        Self {
            uncontended: of(1),
            contended: of(2),
            clock: turns(each, read_clock).min() / 2.0,
            pause: turns(each, spin_loop).min(),
            spin: turns(each, spin_like_parking).min(),
            wake: wake(each),
            slice: slice(each * 10),
        }
    }

    /// Returns the cost of a lock of this kind with two processors.
    pub(super) fn contended(&self, kind: Kind) -> f64 {
        let found = self.contended.iter().find(|(name, _)| *name == kind.name());
        found.map_or(0.0, |(_, cost)| *cost)
    }
}

#[allow(clippy::cast_precision_loss)] // of a short time
fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Reads the clock as a timed lock does: once at the acquisition, once at the release.
fn read_clock() {
    std::hint::black_box(Instant::now().elapsed());
}

/// Times `work` in batches of a hundred for `each`. Other programs may run in between.
fn turns(each: Duration, mut work: impl FnMut()) -> Samples {
    const AT_ONCE: u32 = 100;
    let begin = Instant::now();
    let mut samples = Samples::default();
    while samples.count() == 0 || begin.elapsed() < each {
        let start = Instant::now();
        (0..AT_ONCE).for_each(|_| work());
        samples.add(nanos(start.elapsed()) / f64::from(AT_ONCE));
    }
    samples
}

/// Returns the time to take and release a lock, over all threads together.
fn lock_cost(kind: Kind, threads: usize, each: Duration) -> f64 {
    let lock = with_config(LockConfig { kind, timed: false }, || mutex(0_u64));
    let start = Barrier::new(threads);
    let take = || {
        start.wait();
        let turns = turns(each, || *lock.lock() += 1);
        // On one thread only other programs interfere, so the minimum is right. On several threads
        // the fastest turn is one without contention, so the median is right.
        1.0 / if threads == 1 { turns.min() } else { turns.median() }
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        1.0 / running.into_iter().map(|thread| thread.join().expect("no panic")).sum::<f64>()
    })
}

/// Spins as parking_lot does: 2, 4, 8 pauses, then seven yields.
fn spin_like_parking() {
    (0..14).for_each(|_| spin_loop());
    (0..7).for_each(|_| thread::yield_now());
}

/// Measures how long two threads take to wake each other.
fn wake(each: Duration) -> f64 {
    let first = thread::current();
    let turns = AtomicU64::new(0);
    thread::scope(|scope| {
        let (turns, first) = (&turns, &first);
        let second = scope.spawn(move || {
            while turns.load(Ordering::Acquire) != u64::MAX {
                if turns.load(Ordering::Acquire) % 2 == 1 {
                    let _ = turns.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                        (n != u64::MAX).then_some(n + 1)
                    });
                    first.unpark();
                }
                thread::park_timeout(Duration::from_millis(1));
            }
        });
        let begin = Instant::now();
        let mut switches = Samples::default();
        while switches.count() == 0 || begin.elapsed() < each {
            let start = Instant::now();
            turns.fetch_add(1, Ordering::AcqRel);
            second.thread().unpark();
            while turns.load(Ordering::Acquire) % 2 == 1 {
                thread::park_timeout(Duration::from_millis(1));
            }
            switches.add(nanos(start.elapsed()) / 2.0);
        }
        turns.store(u64::MAX, Ordering::Release);
        second.thread().unpark();
        switches.median()
    })
}

/// Runs twice as many threads as processors, and returns how long each runs before it is preempted.
fn slice(time: Duration) -> f64 {
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    let mut runs = Samples::default();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| stretches(time))).collect();
        for thread in running {
            thread.join().expect("no panic").into_iter().for_each(|run| runs.add(run));
        }
    });
    if runs.count() == 0 { nanos(SLICE) } else { runs.median() }
}

/// Returns the lengths of the intervals between two gaps.
fn stretches(time: Duration) -> Vec<f64> {
    let start = Instant::now();
    let (mut last, mut began, mut found) = (start, None, Vec::new());
    while last - start < time {
        let now = Instant::now();
        if now - last > GAP {
            found.extend(began.map(|began| nanos(last - began)));
            began = Some(now);
        }
        last = now;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_cost() {
        let costs = Costs::measure(Duration::from_micros(200));
        assert_eq!((costs.uncontended.len(), costs.contended.len()), (5, 5));
        let all = costs.uncontended.iter().chain(&costs.contended).map(|(_, cost)| *cost);
        for cost in all.chain([costs.clock, costs.pause, costs.spin, costs.wake, costs.slice]) {
            assert!(cost > 0.0 && cost.is_finite(), "{costs:?}");
        }
    }
}
