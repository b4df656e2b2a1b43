//! Floor 0: mutual exclusion locks of several kinds.
//!
//! The stack's short locks are [`Mutex`]es. By default they park: a waiting thread gives its
//! processor away. A study compares them with the spinning locks of kernels, so each lock has a
//! [`Kind`] that is fixed when the lock is made. Locks made inside [`with_config`] get the kind
//! named there. The price is one comparison each time a lock is taken; a lock takes eight bytes
//! whatever its kind.
//!
//! | kind | order | cost of waiting |
//! | --- | --- | --- |
//! | [`Kind::Parking`] | none; in the long run the longest sleeper | a context switch |
//! | [`Kind::TestAndSet`] | none | every attempt takes the lock's cache line from its holder |
//! | [`Kind::BackOff`] | none | a pause, twice as long after each attempt |
//! | [`Kind::Ticket`] | arrival | all waiters read the same cache line |
//! | [`Kind::Queued`] | arrival | each waiter reads a cache line of its own |
//!
//! A spinning thread never gives its processor away, as in a kernel or in a virtual machine. With
//! more threads than processors, the holder may have no processor. With a lock in order of arrival,
//! the next waiter may have none either. The study measures just that; nothing else uses these
//! kinds.

mod queue;
mod raw;
mod spin;

use std::cell::Cell;

pub use raw::RawLock;
pub use spin::PAUSES_MAX;

/// A mutex of a kind that is chosen when it is made.
pub type Mutex<T> = lock_api::Mutex<RawLock, T>;
/// The guard of a held [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// How threads wait for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A few attempts, then sleep until woken.
    #[default]
    Parking,
    /// Attempts in a tight loop.
    TestAndSet,
    /// Attempts with pauses between them, each twice as long.
    BackOff,
    /// Each thread draws a number and waits until it is served.
    Ticket,
    /// A queue in which each waiter is woken by its predecessor (MCS, as Linux has it in one word).
    Queued,
}

impl Kind {
    /// All kinds, in order of declaration.
    pub const ALL: [Self; 5] =
        [Self::Parking, Self::TestAndSet, Self::BackOff, Self::Ticket, Self::Queued];

    /// Returns the name that reports print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parking => "parking",
            Self::TestAndSet => "test-and-set",
            Self::BackOff => "test-and-set with back-off",
            Self::Ticket => "ticket",
            Self::Queued => "queued",
        }
    }
}

/// The configuration of locks that are made now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockConfig {
    /// How threads wait.
    pub kind: Kind,
    /// Hold times are measured, at a cost. The owner of the lock reads this flag and measures.
    pub timed: bool,
}

thread_local! {
    static CONFIG: Cell<LockConfig> = const { Cell::new(LockConfig { kind: Kind::Parking, timed: false }) };
}

impl LockConfig {
    /// Returns the configuration for locks that this thread makes now.
    pub fn current() -> Self {
        CONFIG.get()
    }
}

/// Calls `make`. Locks that this thread makes meanwhile get `config`.
pub fn with_config<T>(config: LockConfig, make: impl FnOnce() -> T) -> T {
    /// Restores the previous configuration, after a panic too.
    struct Before(LockConfig);
    impl Drop for Before {
        fn drop(&mut self) {
            CONFIG.set(self.0);
        }
    }
    let _before = Before(CONFIG.replace(config));
    make()
}

/// Returns a mutex around `value`, of the kind currently configured.
pub fn mutex<T>(value: T) -> Mutex<T> {
    Mutex::from_raw(RawLock::new(LockConfig::current().kind), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_of_the_kind_chosen_where_they_are_made() {
        let ticket = LockConfig { kind: Kind::Ticket, timed: true };
        with_config(ticket, || {
            assert_eq!(LockConfig::current(), ticket);
            drop(mutex(()).lock());
        });
        assert_eq!(LockConfig::current(), LockConfig::default());
    }

    #[test]
    fn a_panic_restores_the_configuration() {
        let config = LockConfig { kind: Kind::Queued, timed: false };
        assert!(std::panic::catch_unwind(|| with_config(config, || panic!("on purpose"))).is_err());
        assert_eq!(LockConfig::current(), LockConfig::default());
    }
}
