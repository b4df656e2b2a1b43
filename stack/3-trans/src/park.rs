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

use crate::cil::{Cil, CtxGuard, Shard};
use crate::guard;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, thread_number};
use crate::work::ReusedWork;

/// A parked transaction. It holds the context lock of its shard.
pub(crate) struct Parked {
    work: ReusedWork,
    /// The thread that parked it.
    thread: usize,
}

/// A slot for one parked transaction.
#[derive(Default)]
pub(crate) struct Slot {
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

impl Cil {
    /// Returns true if a thread waits for a lock that a parked transaction may hold.
    fn has_waiters(&self) -> bool {
        self.closing.load(Ordering::SeqCst) || self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Parks the thread's transaction; returns it if it must be committed instead.
    pub(crate) fn park<'l>(
        &'l self,
        work: ReusedWork,
        ctx_lock: CtxGuard<'l>,
    ) -> Result<(), (ReusedWork, CtxGuard<'l>)> {
        if ctx_lock.is_exclusive() || work.bytes() > self.park_limit() || self.has_waiters() {
            return Err((work, ctx_lock));
        }
        let shard = self.shard();
        if let Err(Parked { work, .. }) = shard.parked.put(Parked { work, thread: thread_number() })
        {
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
        let shard = self.shard();
        let Parked { work, .. } = shard.parked.take(|parked| parked.thread == thread_number())?;
        Some((work, CtxGuard::reclaim(shard)))
    }

    /// Commits all parked transactions.
    pub(crate) fn commit_parked(&self) {
        self.shards.iter().for_each(|shard| self.commit_parked_in(shard));
    }

    fn commit_parked_in(&self, shard: &Shard) {
        if let Some(Parked { mut work, .. }) = shard.parked.take(|_| true) {
            work.commit(self);
            drop(work);
            drop(guard::reclaim(&shard.ctx_lock));
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
}
