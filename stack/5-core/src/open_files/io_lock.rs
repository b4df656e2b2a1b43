//! The IOLOCK of a file that is open for writing.
//!
//! A file that is written faster than the device takes it is written *behind*: a thread places the
//! first of its data under the lock, and sends it to the device without. Meanwhile other threads
//! write elsewhere in the file, into memory. Every other operation waits until that data has
//! arrived: the lock is theirs only while nothing is on its way. They go first: while one waits, no
//! thread begins to write behind.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use xfskit_units::{FileOff, PositionRange};

use super::State;

/// The lock of [`State`].
#[derive(Debug)]
pub(crate) struct IoLock {
    state: RwLock<State>,
    /// How many times data has been written behind.
    arrivals: Mutex<u64>,
    arrived: Condvar,
    /// Number of threads that wait for the lock until all data has arrived.
    waiting: AtomicUsize,
}

impl IoLock {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state: RwLock::new(state),
            arrivals: Mutex::new(0),
            arrived: Condvar::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Locks, shared with other readers, once nothing is written behind.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.settled(|| self.state.read())
    }

    /// Locks once nothing is written behind.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.settled(|| self.state.write())
    }

    /// Locks if neither another thread nor data on its way is waited for.
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, State>> {
        self.state.try_write().filter(|state| state.behind.is_none())
    }

    /// Locks to change only the blocks that `touched` returns, which are not written behind.
    pub(crate) fn write_at(
        &self,
        touched: impl Fn(&State) -> Range<FileOff>,
    ) -> RwLockWriteGuard<'_, State> {
        let state = self.state.write();
        let apart = |behind: &Range<FileOff>| behind.intersection(&touched(&state)).is_empty();
        if state.behind.as_ref().is_none_or(apart) {
            return state;
        }
        drop(state);
        self.write()
    }

    /// Locks to write behind; `None` if a thread does so already, or if another operation waits.
    pub(crate) fn write_to_write_behind(&self) -> Option<RwLockWriteGuard<'_, State>> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let state = self.state.write();
        state.behind.is_none().then_some(state)
    }

    /// Ends a thread's writing behind, and calls `settle` under the lock.
    pub(crate) fn end_behind(&self, settle: impl FnOnce(&mut State)) {
        let mut state = self.state.write();
        state.behind = None;
        settle(&mut state);
        drop(state);
        *self.arrivals.lock() += 1;
        self.arrived.notify_all();
    }

    /// Waits until the data that is being written behind has arrived. Returns false if there is
    /// none.
    pub(crate) fn await_behind(&self) -> bool {
        let seen = *self.arrivals.lock();
        let waits = self.state.read().behind.is_some();
        if waits {
            self.await_arrival(seen);
        }
        waits
    }

    fn settled<G: Deref<Target = State>>(&self, lock: impl Fn() -> G) -> G {
        let guard = lock();
        if guard.behind.is_none() {
            return guard;
        }
        drop(guard);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = loop {
            let seen = *self.arrivals.lock();
            let guard = lock();
            if guard.behind.is_none() {
                break guard;
            }
            drop(guard);
            self.await_arrival(seen);
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Waits until more data has arrived than the `seen` times.
    fn await_arrival(&self, seen: u64) {
        let mut arrivals = self.arrivals.lock();
        while *arrivals == seen {
            self.arrived.wait(&mut arrivals);
        }
    }
}
