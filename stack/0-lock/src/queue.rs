//! A queue of waiting threads in one word, after Linux's queued spinlock.
//!
//! ```text
//! bit 0        the lock is held
//! the rest     the number of the last node of the queue, from 1; 0 for an empty queue
//! ```
//!
//! A thread waits for one lock at a time, so it needs one node, however many locks it holds: the
//! holder has left the queue. Each waiter polls its own node until its predecessor marks it first;
//! the first waiter polls the word. A free lock can be taken directly only while the queue is
//! empty, so no thread overtakes another.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The lock is held.
const HELD: u32 = 1;
/// Threads that may queue at once. A further thread spins until it succeeds.
const NODES: usize = 1024;

/// The queue entry of a waiting thread, on cache lines of its own.
#[repr(align(128))]
struct Node {
    /// A thread owns the node.
    used: AtomicBool,
    /// The thread is first in the queue.
    first: AtomicBool,
    /// The number of the next node, from 1.
    next: AtomicU32,
}

static POOL: [Node; NODES] = [const {
    Node { used: AtomicBool::new(false), first: AtomicBool::new(false), next: AtomicU32::new(0) }
}; NODES];

/// The number of a thread's node, which is freed when the thread ends.
struct OwnNode(Cell<u32>);

impl Drop for OwnNode {
    fn drop(&mut self) {
        if let Some(node) = node(self.0.get()) {
            node.used.store(false, Ordering::Release);
        }
    }
}

thread_local! {
    static OWN: OwnNode = const { OwnNode(Cell::new(0)) };
}

/// Returns the node with this number.
fn node(number: u32) -> Option<&'static Node> {
    usize::try_from(number).ok()?.checked_sub(1).and_then(|n| POOL.get(n))
}

/// Returns this thread's node, allocating it on first use.
fn own_node() -> Option<(u32, &'static Node)> {
    let number = OWN.try_with(|mine| {
        if mine.0.get() == 0 {
            let free = POOL.iter().position(|node| !node.used.swap(true, Ordering::Acquire));
            mine.0.set(free.and_then(|n| u32::try_from(n + 1).ok()).unwrap_or(0));
        }
        mine.0.get()
    });
    number.ok().and_then(|number| Some((number, node(number)?)))
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
    let Some((number, own)) = own_node() else {
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

/// Appends the node with this number to the queue. Returns the previous last node.
fn join(word: &AtomicU32, number: u32) -> Option<&'static Node> {
    let mut now = word.load(Ordering::Relaxed);
    loop {
        let new = number << 1 | now & HELD;
        match word.compare_exchange_weak(now, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(before) => return node(before >> 1),
            Err(other) => now = other,
        }
    }
}

/// Takes the lock for the first in the queue when it becomes free, and makes the next node first.
fn leave(word: &AtomicU32, number: u32, own: &Node) {
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
        if let Some(next) = node(own.next.load(Ordering::Acquire)) {
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
    fn no_thread_overtakes_a_waiting_one() {
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
        assert_eq!(word.into_inner(), 0, "free, and the queue is empty");
    }

    #[test]
    fn the_node_of_an_ended_thread_is_used_again() {
        let number = || std::thread::spawn(|| own_node().map(|(n, _)| n)).join().expect("no panic");
        assert!(number().is_some());
        // Tests on other threads come and go; a thousand threads would need more nodes than exist.
        assert!((0..2 * NODES).all(|_| number().is_some()));
    }
}
