//! The names of `sync`, for a scheduler that tries one order of steps after another.
//!
//! The locks are those of parking_lot, on other raw locks: the state of a lock is protected by a
//! mutex of the scheduler, and a waiting thread waits for a condition of the scheduler.

use std::time::Instant;

use parking_lot::lock_api;
use shuttle::rand::Rng;
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::thread;
pub(crate) use shuttle::thread_local;

pub(crate) type Mutex<T> = lock_api::Mutex<RawMutex, T>;
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// The lock of every kind: here the scheduler chooses the next holder.
pub(crate) type Chosen<T> = Mutex<T>;
pub(crate) type ChosenGuard<'a, T> = MutexGuard<'a, T>;
pub(crate) type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
pub(crate) type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// Returns a number for the calling thread.
pub(crate) fn thread_number() -> usize {
    thread::current().id().into()
}

pub(crate) fn chosen<T>(value: T) -> Chosen<T> {
    Mutex::new(value)
}

/// The holders of a lock: 0 if it is free, the number of readers, or -1 for a writer.
#[derive(Debug)]
pub(crate) struct RawRwLock {
    holders: shuttle::sync::Mutex<i32>,
    released: shuttle::sync::Condvar,
}

impl RawRwLock {
    fn change<T>(&self, change: impl FnOnce(&mut i32) -> T) -> T {
        change(&mut self.holders.lock().expect("no panic"))
    }

    /// Waits until `may` accepts the holders, and then changes them by `by`.
    fn take(&self, may: impl Fn(i32) -> bool, by: i32) {
        let mut holders = self.holders.lock().expect("no panic");
        while !may(*holders) {
            holders = self.released.wait(holders).expect("no panic");
        }
        *holders += by;
    }

    fn try_take(&self, may: impl Fn(i32) -> bool, by: i32) -> bool {
        self.change(|holders| {
            let free = may(*holders);
            *holders += if free { by } else { 0 };
            free
        })
    }

    fn release(&self, by: i32) {
        self.change(|holders| *holders += by);
        self.released.notify_all();
    }
}

// SAFETY: `holders` changes under a mutex: to -1 only from 0, and upwards only from 0 or more.
#[allow(unsafe_code)]
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self =
        Self { holders: shuttle::sync::Mutex::new(0), released: shuttle::sync::Condvar::new() };
    type GuardMarker = lock_api::GuardSend;

    fn lock_shared(&self) {
        self.take(|holders| holders >= 0, 1);
    }
    fn try_lock_shared(&self) -> bool {
        self.try_take(|holders| holders >= 0, 1)
    }
    unsafe fn unlock_shared(&self) {
        self.release(-1);
    }
    fn lock_exclusive(&self) {
        self.take(|holders| holders == 0, -1);
    }
    fn try_lock_exclusive(&self) -> bool {
        self.try_take(|holders| holders == 0, -1)
    }
    unsafe fn unlock_exclusive(&self) {
        self.release(1);
    }
    fn is_locked(&self) -> bool {
        self.change(|holders| *holders != 0)
    }
}

// SAFETY: readers never wait for waiting writers.
#[allow(unsafe_code)]
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        lock_api::RawRwLock::lock_shared(self);
    }
    fn try_lock_shared_recursive(&self) -> bool {
        lock_api::RawRwLock::try_lock_shared(self)
    }
}

/// A lock that is always exclusive.
#[derive(Debug)]
pub(crate) struct RawMutex(RawRwLock);

// SAFETY: as for the inner lock, which is only taken exclusively.
#[allow(unsafe_code)]
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(<RawRwLock as lock_api::RawRwLock>::INIT);
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        lock_api::RawRwLock::lock_exclusive(&self.0);
    }
    fn try_lock(&self) -> bool {
        lock_api::RawRwLock::try_lock_exclusive(&self.0)
    }
    unsafe fn unlock(&self) {
        self.0.release(1);
    }
}

/// Whether a wait timed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedOut(bool);

impl TimedOut {
    pub(crate) fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    /// Held from before a waiting thread releases its own lock until it waits, and by a thread that
    /// wakes it, so that no call is lost.
    entry: shuttle::sync::Mutex<()>,
    call: shuttle::sync::Condvar,
}

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let entry = self.entry.lock().expect("no panic");
        MutexGuard::unlocked(guard, || drop(self.call.wait(entry).expect("no panic")));
    }

    /// Durations mean nothing here: the wait times out at once, or the notification was in time.
    #[allow(clippy::unused_self)]
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _until: Instant) -> TimedOut {
        MutexGuard::unlocked(guard, thread::yield_now);
        TimedOut(shuttle::rand::thread_rng().gen_bool(0.5))
    }

    pub(crate) fn notify_one(&self) {
        let _entry = self.entry.lock().expect("no panic");
        self.call.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        let _entry = self.entry.lock().expect("no panic");
        self.call.notify_all();
    }
}
