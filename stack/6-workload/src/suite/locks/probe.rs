//! What locks and threads cost on this machine, measured without any filesystem: what the model is fed with.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use xfskit_lock::{Kind, LockConfig, mutex, with_config};

use crate::measure::Samples;

/// Longer than this between two looks at the clock, and the thread had no processor.
const GAP: Duration = Duration::from_micros(200);
/// A slice where none was seen.
const SLICE: Duration = Duration::from_millis(3);

/// In nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Costs {
    /// A lock of each kind taken and given back by one thread, and by two that want nothing else.
    pub(super) alone: Vec<(&'static str, f64)>,
    /// See `alone`: per holder, with the other one waiting.
    pub(super) contended: Vec<(&'static str, f64)>,
    /// What a held lock's clock adds to its time.
    pub(super) clock: f64,
    /// One pause of a spinning processor.
    pub(super) pause: f64,
    /// What a parking lock tries before it sleeps.
    pub(super) spin: f64,
    /// From one thread's waking another until that one runs.
    pub(super) wake: f64,
    /// How long a thread runs while others want its processor.
    pub(super) slice: f64,
}

impl Costs {
    /// Measures all, which takes about 25 times `each`.
    pub(super) fn measure(each: Duration) -> Self {
        let of = |threads| Kind::ALL.map(|kind| (kind.name(), taken(kind, threads, each))).to_vec();
        Self {
            alone: of(1),
            contended: of(2),
            clock: turns(each, look).min() / 2.0,
            pause: turns(each, spin_loop).min(),
            spin: turns(each, spin_as_parking).min(),
            wake: wake(each),
            slice: slice(each * 10),
        }
    }

    /// Of a lock of this kind with two processors at it.
    pub(super) fn contended(&self, kind: Kind) -> f64 {
        let found = self.contended.iter().find(|(name, _)| *name == kind.name());
        found.map_or(0.0, |(_, cost)| *cost)
    }
}

#[allow(clippy::cast_precision_loss)] // of a short time
fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// As a lock that is timed does: once when it is taken, once when it is given back.
fn look() {
    std::hint::black_box(Instant::now().elapsed());
}

/// Times of one `work`, a hundred at once, for `each`. Other programs may run in between.
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

/// A lock taken and given back: time for each, of all threads together.
fn taken(kind: Kind, threads: usize, each: Duration) -> f64 {
    let lock = with_config(LockConfig { kind, timed: false }, || mutex(0_u64));
    let start = Barrier::new(threads);
    let take = || {
        start.wait();
        let turns = turns(each, || *lock.lock() += 1);
        // Alone nothing but other programs is in the way; with others the fastest turn is one that met nobody.
        1.0 / if threads == 1 { turns.min() } else { turns.median() }
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        1.0 / running.into_iter().map(|thread| thread.join().expect("no panic")).sum::<f64>()
    })
}

/// parking_lot's attempts: 2, 4, 8 pauses, then the processor offered to others seven times.
fn spin_as_parking() {
    (0..14).for_each(|_| spin_loop());
    (0..7).for_each(|_| thread::yield_now());
}

/// Two threads wake each other in turn.
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

/// Twice as many threads as processors look at the clock: how long each runs at a stretch.
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

/// The stretches between two gaps.
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
        assert_eq!((costs.alone.len(), costs.contended.len()), (5, 5));
        let all = costs.alone.iter().chain(&costs.contended).map(|(_, cost)| *cost);
        for cost in all.chain([costs.clock, costs.pause, costs.spin, costs.wake, costs.slice]) {
            assert!(cost > 0.0 && cost.is_finite(), "{costs:?}");
        }
    }
}
