//! The raw lock: its kind, and a byte or a word that holds its state.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;

use lock_api::{GuardNoSend, RawMutex as _};

use crate::{Kind, queue, spin};

/// A lock without the data that it guards.
pub struct RawLock {
    kind: Kind,
    /// The state of [`Kind::Parking`].
    parking: parking_lot::RawMutex,
    /// The state of every other kind. 0 is free, except for tickets.
    word: AtomicU32,
}

impl RawLock {
    /// Returns a free lock.
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

// SAFETY: each kind admits one holder at a time (the tests of this crate count under the lock), and
// taking a lock acquires what its previous holder released. A lock's kind never changes.
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
            // SAFETY: the caller holds this lock, and so the parking lot's lock inside it.
            unsafe { self.parking.unlock() }
        } else {
            self.unlock_word();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockConfig, mutex, with_config};

    /// Rounds of each thread. More would take long where spinning threads share one processor.
    const TURNS: u64 = 1000;

    #[test]
    fn a_lock_takes_eight_bytes() {
        assert_eq!(size_of::<RawLock>(), 8);
    }

    #[test]
    fn every_kind_admits_one_holder_at_a_time() {
        for kind in Kind::ALL {
            let counter = with_config(LockConfig { kind, timed: false }, || mutex((0_u64, 0_u64)));
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
    fn try_lock_takes_a_free_lock_and_no_other() {
        for kind in Kind::ALL {
            let lock = with_config(LockConfig { kind, timed: false }, || mutex(()));
            let held = lock.try_lock().expect("free");
            assert!(lock.try_lock().is_none(), "{kind:?}");
            drop(held);
            assert!(lock.try_lock().is_some(), "{kind:?}");
            drop(lock.lock());
        }
    }
}
