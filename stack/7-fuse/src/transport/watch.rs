//! Which thread waits for the next request.
//!
//! One thread at a time has the watch: it waits for a request, and serves it without waking another
//! thread. So one program that makes one call after the other is served by one thread, whose caches
//! are warm. The watch is handed over
//!
//! * before a request is served that is expected to take long,
//! * if another request is there already, so that all processors serve a busy mount,
//! * by the deputy, a thread that sleeps for a millisecond at a time while requests arrive, if the
//!   same request was being served a millisecond ago.

use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Time after which a request counts as long, to twice that.
const TICK: Duration = Duration::from_millis(1);
/// Ticks without a request after which the deputy sleeps until there is one.
const IDLE: u32 = 100;

/// Number of a thread.
pub(crate) type Thread = usize;

/// The watch of a mount.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes a deputy that sleeps for good.
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
    /// One of the sleeping threads is the deputy.
    has_deputy: bool,
    /// … and sleeps until there is a request.
    deputy_rests: bool,
    ended: bool,
}

impl Watch {
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
                self.changed.wait(&mut state);
            } else {
                state.has_deputy = true;
                self.stand_by(&mut state, thread);
                state.has_deputy = false;
                // Another thread that sleeps is the next deputy.
                self.changed.notify_one();
            }
        }
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
            self.changed.wait_for(state, TICK);
            let is_same = state.requests == before;
            if is_same && state.busy {
                state.holder = Some(thread);
                return;
            }
            idle = if is_same { idle + 1 } else { 0 };
        }
    }

    /// Records that the thread with the watch received a request. `hand_over`: another thread gets
    /// the watch while it is served.
    pub(super) fn received(&self, hand_over: bool) {
        let mut state = self.state.lock();
        state.requests += 1;
        state.busy = true;
        if hand_over {
            state.holder = None;
        }
        let rests = state.deputy_rests;
        drop(state);
        if rests {
            self.deputy_called.notify_one();
        } else if hand_over {
            self.changed.notify_one();
        }
    }

    /// Ends the wait of all threads: the mount is gone.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
        self.deputy_called.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_watch_stays_with_a_thread_that_is_quick() {
        let watch = Watch::default();
        for _ in 0..10 {
            assert!(watch.take(1));
            watch.received(false);
        }
    }

    #[test]
    fn another_thread_gets_it_when_it_is_handed_over_or_a_request_takes_long() {
        for hand_over in [true, false] {
            let (watch, taken) = (Watch::default(), AtomicBool::new(false));
            assert!(watch.take(1));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert!(watch.take(2));
                    taken.store(true, Ordering::Release);
                    watch.received(true);
                });
                watch.received(hand_over);
                while !taken.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
            assert!(watch.take(1), "handed over by the other");
        }
    }

    #[test]
    fn a_deputy_that_rests_is_woken() {
        let watch = Watch::default();
        assert!(watch.take(1));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(watch.take(2)));
            std::thread::sleep(TICK * (IDLE + 100));
            watch.received(false);
        });
    }

    #[test]
    fn the_end_wakes_all() {
        let watch = Watch::default();
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
