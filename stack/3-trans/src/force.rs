//! Group commit: many threads in fsync share one checkpoint, with its flushes.
//!
//! One of those who ask leads and writes a checkpoint; the others wait for it. Who comes while it is being
//! written mostly finds that it was begun too early for him, and waits for the next one. So two groups would
//! take turns, each at half its size, were it not for the leader's patience: he first waits for as
//! many as there were the last time, a part of what a checkpoint takes at most.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

use crate::lock::LockStats;

/// Part of the last checkpoint's time that a leader waits for others.
const PATIENCE: u32 = 3;

/// Those who want a checkpoint to be durable.
#[derive(Debug, Default)]
pub(crate) struct Forcing {
    /// Held for moments, and nothing is taken under it.
    state: Mutex<State>,
    /// The leader is done.
    done: Condvar,
    /// All whom the leader waits for are there.
    complete: Condvar,
}

#[derive(Debug, Default)]
struct State {
    led: bool,
    waiting: usize,
    /// How many there were at the end of the last checkpoint, its leader included.
    crowd: usize,
    /// What that took.
    took: Duration,
    stats: LockStats,
}

impl State {
    /// Somebody is served, or leads, after waiting since then.
    fn came(&mut self, waiting_since: Option<Instant>) {
        match waiting_since {
            Some(start) => self.stats.waited(start),
            None => self.stats.taken += 1,
        }
    }
}

impl Forcing {
    /// Returns when `is_done` says so, which it does not before a checkpoint: writes one with `write`, or waits for
    /// another thread's.
    pub(crate) fn run<T>(&self, is_done: impl Fn() -> Option<T>, write: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock();
        let start = Instant::now();
        let mut waited = false;
        loop {
            if let Some(answer) = is_done() {
                state.came(waited.then_some(start));
                return answer;
            }
            if !state.led {
                break;
            }
            state.waiting += 1;
            if state.waiting + 1 >= state.crowd {
                self.complete.notify_one();
            }
            waited = true;
            self.done.wait(&mut state);
        }
        state.came(waited.then_some(start));
        state.led = true;
        let leader = Leader(self);
        let until = Instant::now() + state.took / PATIENCE;
        while state.waiting + 1 < state.crowd {
            if self.complete.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        drop(state);
        let start = Instant::now();
        let answer = write();
        leader.wrote(start.elapsed());
        answer
    }

    pub(crate) fn stats(&self) -> LockStats {
        self.state.lock().stats
    }
}

/// Leads until dropped, by a panic too.
struct Leader<'f>(&'f Forcing);

impl Leader<'_> {
    fn wrote(&self, took: Duration) {
        self.0.state.lock().took = took;
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.led = false;
        state.crowd = state.waiting + 1;
        state.waiting = 0;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    /// Each thread commits, which is a number, and forces it; a checkpoint makes all numbers durable that
    /// were given out before it.
    #[test]
    fn everybody_returns_with_his_own_number_durable_and_checkpoints_are_shared() {
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
    fn a_leader_that_panics_leaves_the_lead_to_others() {
        let forcing = Forcing::default();
        thread::scope(|scope| {
            let died = scope.spawn(|| forcing.run(|| None, || panic!("as the test wants")));
            assert!(died.join().is_err());
        });
        assert_eq!(forcing.run(|| None, || 7), 7);
    }
}
