//! Parked transactions.
//!
//! A thread mostly changes what it has just changed: the same directory, the same group, the next
//! inode. So a transaction need not end when a change is complete. It is parked with its locks
//! held, and the thread's next change resumes it. The items need not be looked up, locked and
//! released again, and all changes are committed at once.
//!
//! ```text
//!   begin ─▶ change ─▶ park ─▶ resume, change ──▶ park ── … ──▶ commit: large, or more than edits
//!                        └───────────────────────────────────▶ commit by another thread
//! ```
//!
//! 1. A complete change is final. A change that fails later in the same transaction undoes only
//!    itself.
//! 2. A parked transaction has only edited blocks, and taken inodes from existing chunks.
//!    Allocations and frees of blocks are committed at once.
//! 3. No thread waits for a parked transaction. A thread that needs a log item, or the context lock
//!    exclusively, first announces that it waits, then commits all parked transactions. A thread
//!    that parks a transaction does so first and then checks for waiters. So one of the two sees
//!    the other.
//! 4. Each shard has one slot. A thread that finds its slot taken commits instead of parking.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::cil::{Cil, CilItems, CtxGuard, shard_of_thread};
use crate::guard::{self, Locked, Shared};
use crate::log_item::{ItemState, LogItem};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, thread_number};
use crate::work::ReusedWork;

/// A parked transaction. It holds the context lock of its shard.
struct Parked {
    work: ReusedWork,
    /// The thread that parked it.
    thread: usize,
}

/// A slot for one parked transaction, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    /// True if there is one. Changed under the lock, read without it.
    taken: AtomicBool,
    /// No lock is taken under it.
    parked: Mutex<Option<Parked>>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.taken).finish()
    }
}

impl Slot {
    fn put(&self, parked: Parked) -> Result<(), Parked> {
        let mut slot = self.parked.lock();
        if slot.is_some() {
            return Err(parked);
        }
        *slot = Some(parked);
        self.taken.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn take(&self, matches: impl FnOnce(&Parked) -> bool) -> Option<Parked> {
        if !self.taken.load(Ordering::SeqCst) {
            return None;
        }
        let mut slot = self.parked.lock();
        let parked = slot.take_if(|parked| matches(parked));
        self.taken.store(slot.is_some(), Ordering::SeqCst);
        parked
    }
}

/// The CIL, and the transactions that are parked. The engine and the caches share it, because a
/// reader of a cache may have to commit a parked transaction.
#[derive(Debug)]
pub(crate) struct Parking {
    pub cil: Cil,
    /// One slot per shard of the CIL.
    slots: Vec<Slot>,
    /// Threads that wait for a log item that a parked transaction may hold. No transaction is
    /// parked while there are any.
    waiting: AtomicUsize,
}

impl Parking {
    /// Returns the parking of `cil`, empty.
    pub(crate) fn new(cil: Cil) -> Self {
        let slots = cil.shards.iter().map(|_| Slot::default()).collect();
        Self { cil, slots, waiting: AtomicUsize::new(0) }
    }

    /// Returns true if a thread waits for a lock that a parked transaction may hold.
    fn has_waiters(&self) -> bool {
        self.cil.closing.load(Ordering::SeqCst) || self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Parks the thread's transaction; returns it if it must be committed instead.
    pub(crate) fn park<'l>(
        &'l self,
        work: ReusedWork,
        ctx_lock: CtxGuard<'l>,
    ) -> Result<(), (ReusedWork, CtxGuard<'l>)> {
        if ctx_lock.is_exclusive() || work.bytes() > self.cil.park_limit() || self.has_waiters() {
            return Err((work, ctx_lock));
        }
        let shard = shard_of_thread();
        let parked = Parked { work, thread: thread_number() };
        if let Err(Parked { work, .. }) = self.slots[shard].put(parked) {
            return Err((work, ctx_lock));
        }
        ctx_lock.forget();
        if self.has_waiters() {
            self.commit_parked_in(shard);
        }
        Ok(())
    }

    /// Takes the thread's parked transaction, to be continued.
    pub(crate) fn resume(&self) -> Option<(ReusedWork, CtxGuard<'_>)> {
        let shard = shard_of_thread();
        let thread = thread_number();
        let Parked { work, .. } = self.slots[shard].take(|parked| parked.thread == thread)?;
        Some((work, CtxGuard::reclaim(&self.cil.shards[shard])))
    }

    /// Commits all parked transactions.
    pub(crate) fn commit_parked(&self) {
        (0..self.slots.len()).for_each(|shard| self.commit_parked_in(shard));
    }

    fn commit_parked_in(&self, shard: usize) {
        if let Some(Parked { mut work, .. }) = self.slots[shard].take(|_| true) {
            work.commit(&self.cil);
            drop(work);
            drop(guard::reclaim(&self.cil.shards[shard].ctx_lock));
        }
    }

    /// Waits, by calling `take`, for a lock that a parked transaction may hold.
    #[cold]
    pub(crate) fn wait<T>(&self, take: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.commit_parked();
        let taken = take();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    /// Takes the CIL over for a checkpoint ([`Cil::take_over`]).
    pub(crate) fn take_over<T>(&self, take: impl FnOnce(&mut CilItems) -> T) -> (CilItems, u64, T) {
        self.cil.take_over(|| self.commit_parked(), take)
    }
}

impl LogItem {
    /// Locks the state shared. Waits for a transaction that holds it, and commits a parked one.
    /// Without `parking` there are no transactions.
    pub(crate) fn read<'o>(
        &'o self,
        parking: Option<&Parking>,
    ) -> impl Deref<Target = ItemState> + use<'o> {
        match (self.lock.try_read_recursive(), parking) {
            (Some(state), _) => state,
            (None, Some(parking)) => parking.wait(|| self.lock.read_recursive()),
            (None, None) => self.lock.read_recursive(),
        }
    }

    /// Locks the state exclusively, as [`read`](Self::read) does shared.
    pub(crate) fn write<'o>(
        &'o self,
        parking: Option<&Parking>,
    ) -> impl DerefMut<Target = ItemState> + use<'o> {
        match (self.lock.try_write(), parking) {
            (Some(state), _) => state,
            (None, Some(parking)) => parking.wait(|| self.lock.write()),
            (None, None) => self.lock.write(),
        }
    }
}

impl Locked {
    /// Locks the item. Waits for a transaction that holds it, and commits a parked one.
    pub(crate) fn take(item: Arc<LogItem>, parking: &Parking) -> Self {
        Self::try_take(item).unwrap_or_else(|item| parking.wait(|| Self::wait(item)))
    }
}

impl Shared {
    /// Locks the item, as [`Locked::take`] does.
    pub(crate) fn take(item: Arc<LogItem>, parking: &Parking) -> Self {
        Self::try_take(item).unwrap_or_else(|item| parking.wait(|| Self::wait(item)))
    }
}
