//! The lock itself: its kind, and a byte or a word that holds its state.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;

use lock_api::{GuardNoSend, RawMutex as _};

use crate::{Kind, queue, spin};

/// A lock without what it guards.
pub struct RawLock {
    kind: Kind,
    /// The state of [`Kind::Parking`].
    parking: parking_lot::RawMutex,
    /// The state of any other kind; 0 is free, but for tickets.
    word: AtomicU32,
}

impl RawLock {
    /// A free lock.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, parking: parking_lot::RawMutex::INIT, word: AtomicU32::new(0) }
    }

    #[cold]
    fn lock_word(&self) {
        match self.kind {
            Kind::Parking => self.parking.lock(),
            Kind::TestAndSet => spin::test_and_set(&self.word),
            Kind::BackOff => spin::back_off(&self.word),
            Kind::Ticket => spin::ticket(&self.word),
            Kind::Queued => queue::lock(&self.word),
        }
    }

    #[cold]
    fn try_lock_word(&self) -> bool {
        match self.kind {
            Kind::Parking => self.parking.try_lock(),
            Kind::TestAndSet | Kind::BackOff => spin::attempt(&self.word),
            Kind::Ticket => spin::try_ticket(&self.word),
            Kind::Queued => queue::try_lock(&self.word),
        }
    }

    #[cold]
    fn unlock_word(&self) {
        match self.kind {
            Kind::Parking => {}
            Kind::TestAndSet | Kind::BackOff => spin::release(&self.word),
            Kind::Ticket => spin::next_ticket(&self.word),
            Kind::Queued => queue::unlock(&self.word),
        }
    }
}

// SAFETY: each kind lets one holder in at a time (the tests of this crate count under the lock), and acquires
// what the holder before has released. A lock's kind never changes.
unsafe impl lock_api::RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const)] // it is how lock_api makes a new one
    const INIT: Self = Self::new(Kind::Parking);
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if self.kind == Kind::Parking {
            self.parking.lock();
        } else {
            self.lock_word();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        if self.kind == Kind::Parking { self.parking.try_lock() } else { self.try_lock_word() }
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.kind == Kind::Parking {
            // SAFETY: the caller holds this lock, and so the lock that it is made of.
            unsafe { self.parking.unlock() }
        } else {
            self.unlock_word();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, making, mutex};

    /// Of each thread; more would take long where spinning threads have one processor.
    const TURNS: u64 = 1000;

    #[test]
    fn a_lock_takes_eight_bytes() {
        assert_eq!(size_of::<RawLock>(), 8);
    }

    #[test]
    fn every_kind_lets_in_one_at_a_time() {
        for kind in Kind::ALL {
            let counter = making(Choice { kind, timed: false }, || mutex((0_u64, 0_u64)));
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..TURNS {
                            let mut count = counter.lock();
                            count.0 += 1;
                            std::hint::black_box(&mut count);
                            count.1 += 1;
                            assert_eq!(count.0, count.1, "{kind:?}");
                        }
                    });
                }
            });
            assert_eq!(*counter.lock(), (2 * TURNS, 2 * TURNS), "{kind:?}");
        }
    }

    #[test]
    fn who_only_tries_gets_a_free_lock_and_no_other() {
        for kind in Kind::ALL {
            let lock = making(Choice { kind, timed: false }, || mutex(()));
            let held = lock.try_lock().expect("free");
            assert!(lock.try_lock().is_none(), "{kind:?}");
            drop(held);
            assert!(lock.try_lock().is_some(), "{kind:?}");
            drop(lock.lock());
        }
    }
}
