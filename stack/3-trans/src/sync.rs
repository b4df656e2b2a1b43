//! Locks, atomics and threads of this crate.
//!
//! They are those of parking_lot and of the standard library. Built with `--cfg shuttle` they
//! belong to a scheduler that decides itself which thread takes the next step, and tries one order
//! after another: `tests/protocols` runs the engine under it.

#[cfg(not(shuttle))]
mod real {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::thread;
    pub(crate) use std::thread_local;

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use xfskit_lock::{Mutex as Chosen, MutexGuard as ChosenGuard, mutex as chosen};

    use atomic::{AtomicUsize, Ordering};

    /// Returns a number for the calling thread. Numbers are assigned in turn.
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
