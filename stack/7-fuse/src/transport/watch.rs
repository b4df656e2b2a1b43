//! Which thread waits for the next request.
//!
//! One thread at a time has the watch: it waits for a request, and serves it without waking another
//! thread. So one program that makes one call after the other is served by one thread, whose caches
//! are warm. The watch is handed over
//!
//! * before a request is served that takes long by its kind or size,
//! * before one that is expected to wait for a disk, as others of its kind did lately, if another
//!   is being served, or if the last requests had been waiting for a thread: several programs ask,
//! * if requests have been there already for a while, so that a busy mount is served by half of the
//!   processors: the other half has the programs that ask,
//! * by the deputy, a thread that sleeps for a millisecond at a time while requests arrive, if the
//!   same request was being served a millisecond ago.
//!
//! The thread that slept last is woken first: its memory is still in the processor's caches.

use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Time after which a request counts as long, to twice that.
const TICK: Duration = Duration::from_millis(1);
/// Ticks without a request after which the deputy sleeps until there is one.
const IDLE: u32 = 100;

/// Requests in a row behind which another one was there already, from which on the mount is busy.
const BACKLOG: u32 = 8;
/// Requests in a row that waited for a thread, from which on there are too few threads.
const QUEUED: u32 = 2;

/// Number of a thread.
pub(crate) type Thread = usize;

/// How long a request is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Less than it costs to wake another thread.
    Quick,
    /// As long as a disk, which serves other requests meanwhile.
    Disk,
    /// So long that another thread has to have the watch.
    Long,
}

/// The watch of a mount.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Threads that serve requests at once because the mount is busy.
    most: usize,
    state: Mutex<State>,
    /// Wakes each thread.
    bells: Box<[Condvar]>,
    /// Wakes the deputy.
    deputy_called: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The thread that has the watch.
    holder: Option<Thread>,
    /// … serves a request.
    busy: bool,
    /// Requests so far.
    requests: u64,
    /// … in a row behind which another one was there.
    backlog: u32,
    /// … in a row that had waited for a thread.
    queued: u32,
    /// Threads that serve a request.
    serving: usize,
    /// The threads that sleep, but for the deputy: the last one has slept least.
    asleep: Vec<Thread>,
    /// One more thread sleeps: the deputy.
    has_deputy: bool,
    /// … and sleeps until there is a request.
    deputy_rests: bool,
    ended: bool,
}

impl Watch {
    /// Returns the watch of a mount with so many `threads`, of which `most` serve requests at once
    /// when it is busy.
    pub(super) fn new(threads: usize, most: usize) -> Self {
        let bells = (0..threads).map(|_| Condvar::new()).collect();
        Self { most, state: Mutex::default(), bells, deputy_called: Condvar::new() }
    }

    /// Returns true if it matters whether another request is there.
    pub(super) fn counts_backlog(&self) -> bool {
        self.most > 1
    }

    /// Waits until `thread` has the watch. Returns false at the end of the mount.
    pub(super) fn take(&self, thread: Thread) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.ended {
                return false;
            }
            if state.holder.is_none_or(|holder| holder == thread) {
                (state.holder, state.busy) = (Some(thread), false);
                return true;
            }
            if state.has_deputy {
                self.sleep(&mut state, thread);
            } else {
                state.has_deputy = true;
                self.stand_by(&mut state, thread);
                state.has_deputy = false;
                // Another thread that sleeps is the next deputy.
                self.wake_one(&mut state);
            }
        }
    }

    /// Sleeps until the thread is woken.
    fn sleep(&self, state: &mut MutexGuard<'_, State>, thread: Thread) {
        state.asleep.push(thread);
        self.bells[thread].wait(state);
        // Not there any more, unless it woke by itself.
        state.asleep.retain(|&other| other != thread);
    }

    /// Wakes a thread that sleeps, the deputy if there is no other.
    fn wake_one(&self, state: &mut State) {
        match state.asleep.pop() {
            Some(thread) => self.bells[thread].notify_one(),
            None => self.deputy_called.notify_one(),
        };
    }

    /// Sleeps as the deputy until the watch is free, and takes it from a thread that is busy for
    /// long.
    fn stand_by(&self, state: &mut MutexGuard<'_, State>, thread: Thread) {
        let mut idle = 0;
        while !state.ended && state.holder.is_some() {
            let before = state.requests;
            if idle > IDLE {
                state.deputy_rests = true;
                self.deputy_called.wait(state);
                (state.deputy_rests, idle) = (false, 0);
                continue;
            }
            self.deputy_called.wait_for(state, TICK);
            let is_same = state.requests == before;
            if is_same && state.busy {
                state.holder = Some(thread);
                return;
            }
            idle = if is_same { idle + 1 } else { 0 };
        }
    }

    /// Records that the thread with the watch received a request, `queued` if it had waited for a
    /// thread. Another thread gets the watch meanwhile if the request takes long, or if the mount
    /// is busy; `more` are there.
    pub(super) fn received(&self, expected: Expected, queued: bool, more: bool) {
        let count = |so_far: u32, counts: bool| if counts { so_far.saturating_add(1) } else { 0 };
        let mut state = self.state.lock();
        state.requests += 1;
        state.serving += 1;
        state.busy = true;
        state.backlog = count(state.backlog, more);
        state.queued = count(state.queued, queued);
        let is_busy = state.backlog > BACKLOG && state.serving < self.most;
        let hand_over = match expected {
            Expected::Quick => is_busy,
            Expected::Disk => state.serving > 1 || more || state.queued >= QUEUED,
            Expected::Long => true,
        };
        if hand_over {
            state.holder = None;
        }
        if state.deputy_rests {
            self.deputy_called.notify_one();
        } else if hand_over {
            self.wake_one(&mut state);
        }
    }

    /// Records that a thread has served its request.
    pub(super) fn served(&self) {
        self.state.lock().serving -= 1;
    }

    /// Ends the wait of all threads: the mount is gone.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        for bell in &self.bells {
            bell.notify_one();
        }
        self.deputy_called.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_watch_stays_with_a_thread_that_is_quick() {
        let watch = Watch::new(4, 4);
        for _ in 0..10 {
            assert!(watch.take(1));
            watch.received(Expected::Quick, false, false);
        }
    }

    #[test]
    fn another_thread_gets_it_when_it_is_handed_over_or_a_request_takes_long() {
        for expected in [Expected::Long, Expected::Quick] {
            let (watch, taken) = (Watch::new(4, 4), AtomicBool::new(false));
            assert!(watch.take(1));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert!(watch.take(2));
                    taken.store(true, Ordering::Release);
                    watch.received(Expected::Long, false, false);
                });
                watch.received(expected, false, false);
                while !taken.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
            assert!(watch.take(1), "handed over by the other");
        }
    }

    #[test]
    fn a_busy_mount_is_served_by_several_threads_at_once() {
        for (most, handed_over) in [(1, false), (2, true)] {
            let watch = Watch::new(4, most);
            for _ in 0..=BACKLOG {
                assert!(watch.take(1));
                watch.received(Expected::Quick, false, true);
                watch.served();
            }
            assert_eq!(watch.state.lock().holder.is_none(), handed_over);
        }
    }

    #[test]
    fn a_thread_keeps_the_watch_while_a_disk_serves_it_unless_several_programs_ask() {
        let watch = Watch::new(4, 1);
        for queued in [false, true, false, true] {
            assert!(watch.take(1));
            watch.received(Expected::Disk, queued, false);
            assert_eq!(watch.state.lock().holder, Some(1));
            watch.served();
        }
        assert!(watch.take(1));
        watch.received(Expected::Disk, true, false);
        assert_eq!(watch.state.lock().holder, None, "two in a row");
        assert!(watch.take(2));
        watch.received(Expected::Disk, false, false);
        assert_eq!(watch.state.lock().holder, None, "the first is still being served");
    }

    #[test]
    fn a_deputy_that_rests_is_woken() {
        let watch = Watch::new(4, 4);
        assert!(watch.take(1));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(watch.take(2)));
            std::thread::sleep(TICK * (IDLE + 100));
            watch.received(Expected::Quick, false, false);
        });
    }

    #[test]
    fn the_end_wakes_all() {
        let watch = Watch::new(4, 4);
        assert!(watch.take(0));
        std::thread::scope(|scope| {
            let (first, second) = (scope.spawn(|| watch.take(1)), scope.spawn(|| watch.take(2)));
            std::thread::sleep(TICK * 5);
            watch.end();
            assert!(!first.join().unwrap() && !second.join().unwrap());
        });
        assert!(!watch.take(0));
    }
}
