//! Spinning locks on one word that all waiters poll.
//!
//! Test-and-set: 0 is free, 1 is held. Tickets: the high half is the next number to draw, the low
//! half is the number being served. Numbers wrap around.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest pause between two attempts, in pauses of the processor.
pub const PAUSES_MAX: u32 = 64;
/// One ticket drawn.
const DRAWN: u32 = 1 << 16;

/// Takes the lock if it is free.
pub(crate) fn attempt(word: &AtomicU32) -> bool {
    word.swap(1, Ordering::Acquire) == 0
}

pub(crate) fn test_and_set(word: &AtomicU32) {
    while !attempt(word) {
        spin_loop();
    }
}

pub(crate) fn back_off(word: &AtomicU32) {
    let mut pauses = 1;
    while word.load(Ordering::Relaxed) != 0 || !attempt(word) {
        (0..pauses).for_each(|_| spin_loop());
        pauses = (pauses * 2).min(PAUSES_MAX);
    }
}

pub(crate) fn release(word: &AtomicU32) {
    word.store(0, Ordering::Release);
}

/// Returns the number being served.
fn served(word: u32) -> u32 {
    word % DRAWN
}

pub(crate) fn ticket(word: &AtomicU32) {
    let mine = word.fetch_add(DRAWN, Ordering::Relaxed) / DRAWN;
    while served(word.load(Ordering::Acquire)) != mine {
        spin_loop();
    }
}

pub(crate) fn try_ticket(word: &AtomicU32) -> bool {
    let now = word.load(Ordering::Relaxed);
    served(now) == now / DRAWN
        && word
            .compare_exchange(now, now.wrapping_add(DRAWN), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
}

/// Serves the next number. Only the holder changes the low half, so no carry into the high half is
/// lost or made.
pub(crate) fn next_ticket(word: &AtomicU32) {
    if served(word.load(Ordering::Relaxed)) == DRAWN - 1 {
        word.fetch_sub(DRAWN - 1, Ordering::Release);
    } else {
        word.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_go_round() {
        let word = AtomicU32::new(0);
        for n in 0..2 * DRAWN + 3 {
            assert_eq!(served(word.load(Ordering::Relaxed)), n % DRAWN);
            ticket(&word);
            assert!(!try_ticket(&word), "{n}");
            next_ticket(&word);
        }
        assert!(try_ticket(&word));
    }

    #[test]
    fn tickets_are_served_in_order() {
        let word = AtomicU32::new(0);
        ticket(&word);
        let drawn = word.fetch_add(DRAWN, Ordering::Relaxed) / DRAWN;
        let behind = word.fetch_add(DRAWN, Ordering::Relaxed) / DRAWN;
        next_ticket(&word);
        assert_eq!(served(word.load(Ordering::Relaxed)), drawn);
        next_ticket(&word);
        assert_eq!(served(word.load(Ordering::Relaxed)), behind);
    }
}
