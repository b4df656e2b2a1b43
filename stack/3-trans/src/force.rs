//! Group commit: many threads in fsync share one checkpoint, with its flushes.
//!
//! One of the callers leads and writes a checkpoint; the others wait for it. A caller that arrives
//! while the checkpoint is being written has mostly committed too late for it, and waits for the
//! next one. So two groups would take turns, each at half the size. To prevent that, the leader
//! first waits until the group is as large as the last one, for a fraction of the time that a
//! checkpoint takes at most.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

use crate::lock::LockStats;

/// The leader waits for others for the time of the last checkpoint divided by this.
const WAIT_DIVISOR: u32 = 3;

/// Threads that wait for a checkpoint to be durable.
#[derive(Debug, Default)]
pub(crate) struct Forcing {
    /// Held briefly; no lock is taken under it.
    state: Mutex<State>,
    /// Signalled when the leader is done.
    done: Condvar,
    /// Signalled when the group is complete.
    complete: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_leader: bool,
    waiting: usize,
    /// Size of the last group, its leader included.
    last_group: usize,
    /// Duration of the last checkpoint.
    took: Duration,
    stats: LockStats,
}

impl State {
    /// Counts a caller that returns or leads; it has waited since then, if it waited.
    fn count(&mut self, waiting_since: Option<Instant>) {
        match waiting_since {
            Some(start) => self.stats.waited(start),
            None => self.stats.taken += 1,
        }
    }
}

impl Forcing {
    /// Returns the result of `is_done` once it has one, which requires a checkpoint: writes one
    /// with `write`, or waits for another thread's.
    pub(crate) fn run<T>(&self, is_done: impl Fn() -> Option<T>, write: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock();
        let start = Instant::now();
        let mut waited = false;
        loop {
            if let Some(result) = is_done() {
                state.count(waited.then_some(start));
                return result;
            }
            if !state.has_leader {
                break;
            }
            state.waiting += 1;
            if state.waiting + 1 >= state.last_group {
                self.complete.notify_one();
            }
            waited = true;
            self.done.wait(&mut state);
        }
        state.count(waited.then_some(start));
        state.has_leader = true;
        let leader = Leader(self);
        let until = Instant::now() + state.took / WAIT_DIVISOR;
        while state.waiting + 1 < state.last_group {
            if self.complete.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        drop(state);
        let start = Instant::now();
        let result = write();
        leader.set_duration(start.elapsed());
        result
    }

    pub(crate) fn stats(&self) -> LockStats {
        self.state.lock().stats
    }
}

/// The lead of a group, given up on drop, by a panic too.
struct Leader<'f>(&'f Forcing);

impl Leader<'_> {
    fn set_duration(&self, took: Duration) {
        self.0.state.lock().took = took;
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_leader = false;
        state.last_group = state.waiting + 1;
        state.waiting = 0;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    /// Each thread commits a number and forces it; a checkpoint makes all numbers durable that were
    /// committed before it.
    #[test]
    fn each_thread_returns_with_its_number_durable_and_checkpoints_are_shared() {
        let forcing = Forcing::default();
        let [committed, durable, written] = [0, 0, 0].map(AtomicU64::new);
        let one = || {
            let mine = committed.fetch_add(1, Ordering::SeqCst) + 1;
            let is_done = || (durable.load(Ordering::SeqCst) >= mine).then_some(());
            forcing.run(is_done, || {
                let all = committed.load(Ordering::SeqCst);
                thread::sleep(Duration::from_millis(2));
                durable.fetch_max(all, Ordering::SeqCst);
                written.fetch_add(1, Ordering::SeqCst);
            });
            assert!(durable.load(Ordering::SeqCst) >= mine);
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| one()));
            }
        });
        assert!(written.into_inner() < 400, "no checkpoint was shared");
        assert_eq!(forcing.stats().taken, 400);
    }

    #[test]
    fn a_leader_that_panics_gives_up_the_lead() {
        let forcing = Forcing::default();
        thread::scope(|scope| {
            let died = scope.spawn(|| forcing.run(|| None, || panic!("panic of the test")));
            assert!(died.join().is_err());
        });
        assert_eq!(forcing.run(|| None, || 7), 7);
    }
}
