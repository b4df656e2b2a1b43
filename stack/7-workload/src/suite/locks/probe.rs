//! The cost of locks and threads on this machine, measured without a filesystem: inputs of the
//! model.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// From the release of a lock of each kind until the thread that waits for it has it. `None` if
    /// it could not be measured.
    pub(super) hand_over: Vec<(&'static str, Option<f64>)>,
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
        let clock = turns(each, read_clock).min() / 2.0;
        let uncontended = |kind: Kind| (kind.name(), lock_cost(kind, each));
        let hand_over = |kind: Kind| (kind.name(), hand_over(kind, each, clock));
        Self {
            uncontended: Kind::ALL.map(uncontended).to_vec(),
            hand_over: Kind::ALL.map(hand_over).to_vec(),
            clock,
            pause: turns(each, spin_loop).min(),
            spin: turns(each, spin_like_parking).min(),
            wake: wake(each),
            slice: slice(each * 10),
        }
    }

    /// Returns the time of a hand-over with this kind, if it was measured.
    pub(super) fn hand_over(&self, kind: Kind) -> Option<f64> {
        self.hand_over.iter().find(|(name, _)| *name == kind.name()).and_then(|(_, cost)| *cost)
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

/// Returns the time to take and release a lock on one thread. Only other programs interfere, so the
/// minimum is right.
fn lock_cost(kind: Kind, each: Duration) -> f64 {
    let lock = with_config(LockConfig { kind, timed: false }, || mutex(0_u64));
    turns(each, || *lock.lock() += 1).min()
}

/// Fewest hand-overs that give a figure.
const HAND_OVERS_MIN: usize = 100;
/// Time for which the threads continue if there were fewer.
const HAND_OVERS_TIME_MAX: Duration = Duration::from_secs(2);
/// Pauses between the announcement of the waiting thread and the release, in which it begins to
/// wait; far fewer than a parking lock spins before it sleeps.
const PAUSES: usize = 4;

/// An acquisition of the lock.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// The thread that held the lock before.
    from: usize,
    by: usize,
    /// Nanoseconds since the release.
    nanos: f64,
}

/// The state that the lock protects.
#[derive(Debug)]
struct Held {
    by: usize,
    released: Instant,
    taken: Vec<Taken>,
}

/// Returns the median time of a hand-over in nanoseconds: of acquisitions by a thread other than
/// the one that held the lock before, less a reading of the clock. `None` if there are too few.
fn of_hand_overs(taken: &[Taken], clock: f64) -> Option<f64> {
    let others = taken.iter().filter(|one| one.from != one.by);
    let times: Samples = others.map(|one| one.nanos).collect();
    (times.count() >= HAND_OVERS_MIN).then(|| (times.median() - clock).max(1.0))
}

/// Measures the hand-over of a lock between two threads that provably alternate: the holder
/// releases the lock only when the other thread has announced that it waits, and waits itself only
/// when the other one has the lock. `None` with a single processor, where a hand-over waits for the
/// scheduler.
fn hand_over(kind: Kind, each: Duration, clock: f64) -> Option<f64> {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let begin = Instant::now();
    let held = Held { by: 1, released: begin, taken: Vec::new() };
    let lock = with_config(LockConfig { kind, timed: false }, || mutex(held));
    // How often each thread has announced that it will wait, and has taken the lock.
    let [announced, taken] = [(); 2].map(|()| [AtomicU64::new(0), AtomicU64::new(0)]);
    let stop = AtomicBool::new(false);
    let until = |condition: &dyn Fn() -> bool| {
        for n in 0_u64.. {
            if condition() || stop.load(Ordering::Relaxed) {
                return;
            }
            // Other programs may have the other thread's processor.
            if n % 1024 == 1023 { thread::yield_now() } else { spin_loop() }
        }
    };
    let run = |me: usize| {
        let other = 1 - me;
        while !stop.load(Ordering::Relaxed) {
            announced[me].fetch_add(1, Ordering::AcqRel);
            let mut held = lock.lock();
            let nanos = nanos(held.released.elapsed());
            let one = Taken { from: held.by, by: me, nanos };
            held.taken.push(one);
            held.by = me;
            taken[me].fetch_add(1, Ordering::AcqRel);
            let others = taken[other].load(Ordering::Acquire);
            until(&|| announced[other].load(Ordering::Acquire) > others);
            (0..PAUSES).for_each(|_| spin_loop());
            let (elapsed, count) = (begin.elapsed(), held.taken.len());
            let enough = elapsed >= each && count > 2 * HAND_OVERS_MIN;
            if enough || elapsed >= each + HAND_OVERS_TIME_MAX {
                stop.store(true, Ordering::Relaxed);
            }
            held.released = Instant::now();
            drop(held);
            until(&|| taken[other].load(Ordering::Acquire) > others);
        }
    };
    thread::scope(|scope| {
        let run = &run;
        (0..2).for_each(|me| drop(scope.spawn(move || run(me))));
    });
    let held = lock.lock();
    of_hand_overs(&held.taken, clock)
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
        assert_eq!((costs.uncontended.len(), costs.hand_over.len()), (5, 5));
        let all = costs.uncontended.iter().map(|(_, cost)| *cost);
        let all = all.chain(costs.hand_over.iter().filter_map(|(_, cost)| *cost));
        for cost in all.chain([costs.clock, costs.pause, costs.spin, costs.wake, costs.slice]) {
            assert!(cost > 0.0 && cost.is_finite(), "{costs:?}");
        }
    }

    #[test]
    #[allow(clippy::float_cmp)] // of values that are exact
    fn only_acquisitions_by_the_other_thread_are_hand_overs() {
        // A thread that takes its own lock again needs 2 ns; a hand-over takes 130.
        let again = Taken { from: 0, by: 0, nanos: 2.0 };
        let over = |n: usize| Taken { from: n % 2, by: 1 - n % 2, nanos: 130.0 };
        let mut taken = vec![again; 10_000];
        taken.extend((0..HAND_OVERS_MIN - 1).map(over));
        assert_eq!(of_hand_overs(&taken, 25.0), None, "too few met");
        taken.push(over(0));
        assert_eq!(of_hand_overs(&taken, 25.0), Some(105.0));
        assert_eq!(of_hand_overs(&vec![again; 1000], 25.0), None, "the threads never met");
    }
}
