//! Locks, atomics and threads of this crate.
//!
//! They are parking_lot's and the standard library's. Built with `--cfg shuttle` they are those of a scheduler that
//! decides itself who takes the next step, and tries one order after another: `tests/protocols` runs the engine
//! under it.

#[cfg(not(shuttle))]
mod real {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::thread;
    pub(crate) use std::thread_local;

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use xfskit_lock::{Mutex as Chosen, MutexGuard as ChosenGuard, mutex as chosen};

    use atomic::{AtomicUsize, Ordering};

    /// A number of the thread that calls: they are given out in turn.
    pub(crate) fn thread_number() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        NUMBER.with(|number| *number)
    }
}

#[cfg(shuttle)]
#[path = "sync/explored.rs"]
mod explored;

#[cfg(shuttle)]
pub(crate) use explored::*;
#[cfg(not(shuttle))]
pub(crate) use real::*;
