//! A queue of waiting threads in one word, after Linux's queued spinlock.
//!
//! ```text
//! bit 0        somebody holds the lock
//! the rest     the last of the queue: the number of his place, from 1; 0 where nobody waits
//! ```
//!
//! A thread waits for one lock at a time, so it needs one place, whatever number of locks it holds: the holder
//! has left the queue. Each looks at his own place until the one before says that he is first; the first
//! looks at the word. The lock is free for the taking only while nobody waits, so nobody overtakes.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The lock is held.
const HELD: u32 = 1;
/// Threads that may wait at once. A further one tries until it succeeds.
const PLACES: usize = 1024;

/// Where a thread waits, on cache lines of its own.
#[repr(align(128))]
struct Place {
    /// A thread has it.
    used: AtomicBool,
    /// The thread is first.
    first: AtomicBool,
    /// The place behind, from 1.
    next: AtomicU32,
}

static ALL: [Place; PLACES] = [const {
    Place { used: AtomicBool::new(false), first: AtomicBool::new(false), next: AtomicU32::new(0) }
}; PLACES];

/// A thread's place, until the thread ends.
struct Mine(Cell<u32>);

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(place) = place(self.0.get()) {
            place.used.store(false, Ordering::Release);
        }
    }
}

thread_local! {
    static MINE: Mine = const { Mine(Cell::new(0)) };
}

/// The place of this number.
fn place(number: u32) -> Option<&'static Place> {
    usize::try_from(number).ok()?.checked_sub(1).and_then(|n| ALL.get(n))
}

/// This thread's place, taken if need be.
fn mine() -> Option<(u32, &'static Place)> {
    let number = MINE.try_with(|mine| {
        if mine.0.get() == 0 {
            let free = ALL.iter().position(|place| !place.used.swap(true, Ordering::Acquire));
            mine.0.set(free.and_then(|n| u32::try_from(n + 1).ok()).unwrap_or(0));
        }
        mine.0.get()
    });
    number.ok().and_then(|number| Some((number, place(number)?)))
}

pub(crate) fn try_lock(word: &AtomicU32) -> bool {
    word.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

pub(crate) fn unlock(word: &AtomicU32) {
    word.fetch_and(!HELD, Ordering::Release);
}

pub(crate) fn lock(word: &AtomicU32) {
    if try_lock(word) {
        return;
    }
    let Some((number, own)) = mine() else {
        while !try_lock(word) {
            spin_loop();
        }
        return;
    };
    own.next.store(0, Ordering::Relaxed);
    own.first.store(false, Ordering::Relaxed);
    if let Some(before) = join(word, number) {
        before.next.store(number, Ordering::Release);
        while !own.first.load(Ordering::Acquire) {
            spin_loop();
        }
    }
    leave(word, number, own);
}

/// Puts the place of this number last. Answers the one before.
fn join(word: &AtomicU32, number: u32) -> Option<&'static Place> {
    let mut now = word.load(Ordering::Relaxed);
    loop {
        let new = number << 1 | now & HELD;
        match word.compare_exchange_weak(now, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(before) => return place(before >> 1),
            Err(other) => now = other,
        }
    }
}

/// The first of the queue takes the lock when it becomes free, and makes the next one first.
fn leave(word: &AtomicU32, number: u32, own: &Place) {
    loop {
        let now = word.load(Ordering::Acquire);
        if now & HELD != 0 {
            spin_loop();
        } else if now >> 1 != number {
            break;
        } else if word.compare_exchange(now, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
    }
    word.fetch_or(HELD, Ordering::Acquire);
    loop {
        if let Some(next) = place(own.next.load(Ordering::Acquire)) {
            next.first.store(true, Ordering::Release);
            return;
        }
        spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_overtakes_who_waits() {
        let word = AtomicU32::new(0);
        lock(&word);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                lock(&word);
                unlock(&word);
            });
            while word.load(Ordering::Relaxed) >> 1 == 0 {
                std::thread::yield_now();
            }
            assert!(!try_lock(&word), "held");
            unlock(&word);
            waiting.join().expect("no panic");
        });
        assert_eq!(word.into_inner(), 0, "free, and nobody waits");
    }

    #[test]
    fn a_place_is_used_again_when_its_thread_ended() {
        let number = || std::thread::spawn(|| mine().map(|(n, _)| n)).join().expect("no panic");
        assert!(number().is_some());
        // Tests on other threads come and go; a thousand threads would need more places than there are.
        assert!((0..2 * PLACES).all(|_| number().is_some()));
    }
}
