//! The lock order of the whole stack.
//!
//! A thread takes locks in ascending [`LockRank`]. Debug builds keep the ranks a thread holds and
//! panic when the order is broken, so that a deadlock that could happen is found by a test in
//! which it does not. ARCHITECTURE.md tells why the order is this one.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every lock of the stack, in the order in which locks are taken. Equal ranks: several inodes by
/// ascending number, several groups by ascending number, btree buffers from root to leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockRank {
    /// IOLOCK: content and size of one file.
    Io,
    /// MMAPLOCK: page faults of one file.
    Mmap,
    /// Waiting for log space, holding neither ILOCK nor any buffer.
    LogSpace,
    /// ILOCK: metadata of one inode, and its directory, attribute and bmbt buffers.
    Inode,
    /// AGI of one group.
    Agi,
    /// AGF of one group.
    Agf,
    /// Buffers of a per-AG btree, root to leaf.
    AgBtree,
    /// Committed-item list.
    Cil,
    /// Active-item list.
    Ail,
    /// Leaf locks: counters, cache shards, device queues. Nothing is taken under one.
    Leaf,
}

#[cfg(debug_assertions)]
mod held {
    use super::LockRank;
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<LockRank>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn take(rank: LockRank) {
        HELD.with_borrow_mut(|held| {
            if let Some(&top) = held.iter().max() {
                let in_order = top < rank || (top == rank && rank != LockRank::Leaf);
                assert!(in_order, "lock order: {rank:?} taken while {top:?} is held");
            }
            held.push(rank);
        });
    }

    pub(super) fn release(rank: LockRank) {
        HELD.with_borrow_mut(|held| {
            if let Some(i) = held.iter().rposition(|&r| r == rank) {
                held.remove(i);
            }
        });
    }
}

/// A mutex that knows its place in the lock order.
#[derive(Debug)]
pub struct RankedMutex<T> {
    rank: LockRank,
    inner: Mutex<T>,
}

impl<T> RankedMutex<T> {
    /// A mutex of this rank around `value`.
    pub const fn new(rank: LockRank, value: T) -> Self {
        Self { rank, inner: Mutex::new(value) }
    }

    /// Takes the lock, waiting for it. A panic of an earlier holder is not passed on: what these
    /// locks cover is kept consistent at every step.
    ///
    /// # Panics
    /// In debug builds, when the calling thread holds a lock of a higher rank.
    pub fn lock(&self) -> RankedGuard<'_, T> {
        #[cfg(debug_assertions)]
        held::take(self.rank);
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        RankedGuard { rank: self.rank, guard }
    }
}

/// The lock, held.
#[derive(Debug)]
pub struct RankedGuard<'a, T> {
    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    rank: LockRank,
    guard: MutexGuard<'a, T>,
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for RankedGuard<'_, T> {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        held::release(self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_ranks_are_fine() {
        let agi = RankedMutex::new(LockRank::Agi, 1);
        let leaf = RankedMutex::new(LockRank::Leaf, 2);
        for _ in 0..2 {
            let a = agi.lock();
            let b = leaf.lock();
            assert_eq!(*a + *b, 3);
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order")]
    fn descending_ranks_panic_in_debug_builds() {
        let agi = RankedMutex::new(LockRank::Agi, ());
        let leaf = RankedMutex::new(LockRank::Leaf, ());
        let _leaf = leaf.lock();
        let _agi = agi.lock();
    }
}
