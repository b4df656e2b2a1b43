//! The lock order of the whole stack.
//!
//! Two mechanisms keep it, for two kinds of locks.
//!
//! * Plain mutexes, the journal and the CIL context lock have a [`LockRank`]. A thread takes them
//!   in ascending rank. Debug builds record the ranks that each thread holds and panic where the
//!   order is broken, so a test finds a deadlock that could happen even in a run in which it does
//!   not.
//! * Log items (inodes, AGI, AGF, other blocks) have a [`LockPosition`]. A transaction waits for
//!   them in ascending position only. Out of order it only tries, and
//!   [`TransError::Busy`](crate::TransError::Busy) makes the caller undo the transaction, wait and
//!   run it again. All of them come after [`LockRank::CilContext`] and before [`LockRank::Cil`].
//!
//! `ARCHITECTURE.md` draws the order and gives its reasons.

use std::iter::Sum;
use std::ops::{AddAssign, Deref, DerefMut};
use std::time::Instant;

use xfskit_lock::LockConfig;
use xfskit_units::{AgNumber, Ino};

use crate::sync::{Chosen, ChosenGuard, chosen};

/// Ranks of locks, in the order in which a thread takes them. A rank may be taken again while it is
/// held, except [`Leaf`](Self::Leaf).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockRank {
    /// IOLOCK: content and size of one file.
    Io,
    /// The journal. The thread that writes a checkpoint holds it, outside of any transaction.
    Journal,
    /// AIL push. A thread that writes items in place holds it, outside of any transaction.
    WriteBack,
    /// Held from the copy of a block until the block is written in place.
    InFlight,
    /// The CIL context lock: shared by transactions, exclusive for a checkpoint that snapshots the
    /// CIL.
    CilContext,
    /// One shard of the CIL (committed item list).
    Cil,
    /// The AIL (active item list).
    Ail,
    /// Counters, cache shards, busy extents, device queues. No lock is taken under one.
    Leaf,
}

/// The position of a lock in the order in which transactions wait: inodes by number, then the AGI
/// and AGF of each group, ascending. One of these locks protects every other block, so other blocks
/// have no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockPosition {
    /// An inode's ILOCK.
    Inode(Ino),
    /// AGI of a group.
    Agi(AgNumber),
    /// AGF of a group.
    Agf(AgNumber),
}

#[cfg(debug_assertions)]
mod held {
    use super::LockRank;
    use std::cell::RefCell;

    crate::sync::thread_local! {
        static HELD: RefCell<Vec<LockRank>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn take(rank: LockRank) {
        HELD.with(|held| {
            let mut held = held.borrow_mut();
            if let Some(&top) = held.iter().max() {
                let in_order = top < rank || (top == rank && rank != LockRank::Leaf);
                assert!(in_order, "lock order: {rank:?} taken while {top:?} is held");
            }
            held.push(rank);
        });
    }

    pub(super) fn release(rank: LockRank) {
        HELD.with(|held| {
            let mut held = held.borrow_mut();
            if let Some(i) = held.iter().rposition(|&r| r == rank) {
                held.remove(i);
            }
        });
    }
}

/// Records that the thread holds a lock of this rank which is not a [`RankedMutex`].
#[derive(Debug)]
pub(crate) struct Ranked {
    #[cfg(debug_assertions)]
    rank: LockRank,
}

impl Ranked {
    /// Records the rank, before the lock is waited for.
    #[cfg_attr(not(debug_assertions), allow(unused_variables))]
    pub(crate) fn take(rank: LockRank) -> Self {
        #[cfg(debug_assertions)]
        held::take(rank);
        Self {
            #[cfg(debug_assertions)]
            rank,
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for Ranked {
    fn drop(&mut self) {
        held::release(self.rank);
    }
}

/// How often a lock was taken, and the time that this cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Acquisitions.
    pub taken: u64,
    /// Acquisitions that had to wait.
    pub waits: u64,
    /// Total time waited, in nanoseconds.
    pub wait_nanos: u64,
    /// Total time held, in nanoseconds; 0 unless the lock was created [timed](LockConfig::timed).
    pub held_nanos: u64,
    /// Number of mutexes in these figures; 0 for other kinds of locks.
    pub mutexes: u64,
}

fn nanos_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl LockStats {
    /// Counts an acquisition that waited since `start`.
    pub(crate) fn waited(&mut self, start: Instant) {
        self.taken += 1;
        self.waits += 1;
        self.wait_nanos += nanos_since(start);
    }
}

impl AddAssign for LockStats {
    fn add_assign(&mut self, other: Self) {
        self.taken += other.taken;
        self.waits += other.waits;
        self.wait_nanos += other.wait_nanos;
        self.held_nanos += other.held_nanos;
        self.mutexes += other.mutexes;
    }
}

/// The sum over several locks of one kind.
impl Sum for LockStats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// A mutex with a rank in the lock order, and with counters. It counts under the lock itself, so
/// that without contention counting costs an addition. Its kind is the one
/// [configured](xfskit_lock::with_config) when it is created.
#[derive(Debug)]
pub struct RankedMutex<T> {
    rank: LockRank,
    inner: Chosen<Counted<T>>,
}

#[derive(Debug)]
struct Counted<T> {
    stats: LockStats,
    /// The start of the current hold, if the lock is timed.
    timed: Option<Box<Instant>>,
    value: T,
}

impl<T> Counted<T> {
    #[inline]
    fn taken(&mut self) {
        self.stats.taken += 1;
        self.start();
    }

    #[inline]
    fn start(&mut self) {
        if let Some(since) = &mut self.timed {
            **since = Instant::now();
        }
    }
}

impl<T> RankedMutex<T> {
    /// Returns a mutex of this rank around `value`.
    pub fn new(rank: LockRank, value: T) -> Self {
        let stats = LockStats { mutexes: 1, ..LockStats::default() };
        let timed = LockConfig::current().timed.then(|| Box::new(Instant::now()));
        Self { rank, inner: chosen(Counted { stats, timed, value }) }
    }

    /// Takes the lock, and waits for it. A panic of an earlier holder is not passed on, because
    /// what these locks cover is consistent at every step.
    ///
    /// # Panics
    /// In debug builds, if the calling thread holds a lock of a higher rank.
    #[inline]
    pub fn lock(&self) -> RankedGuard<'_, T> {
        #[cfg(debug_assertions)]
        held::take(self.rank);
        let guard = match self.inner.try_lock() {
            Some(mut guard) => {
                guard.taken();
                guard
            }
            None => self.wait(),
        };
        RankedGuard { rank: self.rank, guard }
    }

    #[cold]
    fn wait(&self) -> ChosenGuard<'_, Counted<T>> {
        let start = Instant::now();
        let mut guard = self.inner.lock();
        guard.stats.waited(start);
        guard.start();
        guard
    }

    /// Takes the lock if it is free.
    ///
    /// # Panics
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let mut guard = self.inner.try_lock()?;
        #[cfg(debug_assertions)]
        held::take(self.rank);
        guard.taken();
        Some(RankedGuard { rank: self.rank, guard })
    }

    /// Returns the statistics of the lock.
    pub fn stats(&self) -> LockStats {
        self.inner.lock().stats
    }
}

/// Guard of a [`RankedMutex`].
#[derive(Debug)]
pub struct RankedGuard<'a, T> {
    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    rank: LockRank,
    guard: ChosenGuard<'a, Counted<T>>,
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard.value
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard.value
    }
}

impl<T> Drop for RankedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        held::release(self.rank);
        if let Some(since) = &self.guard.timed {
            let held = nanos_since(**since);
            self.guard.stats.held_nanos += held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_ranks_are_fine() {
        let context = RankedMutex::new(LockRank::CilContext, 1);
        let leaf = RankedMutex::new(LockRank::Leaf, 2);
        for _ in 0..2 {
            let a = context.lock();
            let b = leaf.lock();
            assert_eq!(*a + *b, 3);
        }
    }

    #[test]
    fn a_wait_for_a_held_lock_is_counted() {
        let lock = RankedMutex::new(LockRank::Leaf, 0);
        std::thread::scope(|scope| {
            let guard = lock.lock();
            assert!(lock.try_lock().is_none());
            scope.spawn(|| *lock.lock() += 1);
            // The other thread waits, unless it has not reached the lock yet: then nothing is
            // proved.
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(guard);
        });
        let stats = lock.stats();
        assert_eq!(stats.taken, 2);
        assert_eq!(stats.waits == 0, stats.wait_nanos == 0);
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn a_timed_lock_counts_how_long_it_is_held() {
        let made = |timed| {
            let choice = LockConfig { timed, ..LockConfig::default() };
            xfskit_lock::with_config(choice, || RankedMutex::new(LockRank::Leaf, ()))
        };
        let held = |lock: RankedMutex<()>| {
            let guard = lock.lock();
            std::thread::sleep(std::time::Duration::from_millis(2));
            drop(guard);
            lock.stats().held_nanos
        };
        assert!(held(made(true)) >= 2_000_000);
        assert_eq!(held(made(false)), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order")]
    fn descending_ranks_panic_in_debug_builds() {
        let context = RankedMutex::new(LockRank::CilContext, ());
        let leaf = RankedMutex::new(LockRank::Leaf, ());
        let _leaf = leaf.lock();
        let _context = context.lock();
    }
}
