//! Floor 0: locks that exclude each other's holders, in several kinds.
//!
//! The stack's short locks are [`Mutex`]es. They park: who waits gives its processor away. A study asks what
//! would become of it with the locks that kernels spin on, so a lock's [`Kind`] is chosen while it is made, and
//! what is made in [`making`] gets the kind named there. That costs a comparison where a lock is taken; the lock
//! takes eight bytes whatever its kind.
//!
//! | kind | who is next | what waiting costs |
//! | --- | --- | --- |
//! | [`Kind::Parking`] | whoever comes, in time the one that sleeps longest | a switch of threads |
//! | [`Kind::TestAndSet`] | whoever comes | every attempt takes the lock's cache line from its holder |
//! | [`Kind::BackOff`] | whoever comes | a pause, twice as long after each attempt |
//! | [`Kind::Ticket`] | in order of arrival | everybody looks at the same line |
//! | [`Kind::Queued`] | in order of arrival | everybody looks at a line of his own |
//!
//! Who spins never gives its processor away, as in a kernel or in a virtual machine: with more threads than
//! processors the holder may have none, and in order of arrival the next one may have none either. That is
//! the point of the study, and the reason why nothing but studies wants these kinds.

mod queue;
mod raw;
mod spin;

use std::cell::Cell;

pub use raw::RawLock;
pub use spin::PAUSES_MAX;

/// A mutex of a kind that was chosen when it was made.
pub type Mutex<T> = lock_api::Mutex<RawLock, T>;
/// A [`Mutex`], held.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// How threads wait for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A few attempts, then asleep until woken.
    #[default]
    Parking,
    /// Attempts without end.
    TestAndSet,
    /// Attempts with pauses between them, each twice as long.
    BackOff,
    /// A number is drawn, and waited for.
    Ticket,
    /// A queue, in which everybody is told by the one before (MCS, as Linux has it in one word).
    Queued,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Parking, Self::TestAndSet, Self::BackOff, Self::Ticket, Self::Queued];

    /// As reports call it.
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

/// What locks are like that are made now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// How threads wait for them.
    pub kind: Kind,
    /// Somebody wants to know how long they are held, and pays for it: whoever owns the lock looks at this.
    pub timed: bool,
}

thread_local! {
    static CHOICE: Cell<Choice> = const { Cell::new(Choice { kind: Kind::Parking, timed: false }) };
}

impl Choice {
    /// The choice for locks that this thread makes now.
    pub fn now() -> Self {
        CHOICE.get()
    }
}

/// Calls `make`; locks that this thread makes meanwhile are as `choice` says.
pub fn making<T>(choice: Choice, make: impl FnOnce() -> T) -> T {
    /// Puts the choice back, after a panic too.
    struct Before(Choice);
    impl Drop for Before {
        fn drop(&mut self) {
            CHOICE.set(self.0);
        }
    }
    let _before = Before(CHOICE.replace(choice));
    make()
}

/// A mutex around `value`, of the kind that is chosen now.
pub fn mutex<T>(value: T) -> Mutex<T> {
    Mutex::from_raw(RawLock::new(Choice::now().kind), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_of_the_kind_chosen_where_they_are_made() {
        let ticket = Choice { kind: Kind::Ticket, timed: true };
        making(ticket, || {
            assert_eq!(Choice::now(), ticket);
            drop(mutex(()).lock());
        });
        assert_eq!(Choice::now(), Choice::default());
    }

    #[test]
    fn a_panic_puts_the_choice_back() {
        let choice = Choice { kind: Kind::Queued, timed: false };
        assert!(std::panic::catch_unwind(|| making(choice, || panic!("on purpose"))).is_err());
        assert_eq!(Choice::now(), Choice::default());
    }
}
