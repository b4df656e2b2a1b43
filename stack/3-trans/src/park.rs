//! Transactions at rest.
//!
//! A thread mostly changes what it changed just before: the same directory, the same group, the next inode. So when a change is
//! complete its transaction need not end there. It rests, its locks held, and the next change of the thread goes on
//! in it: nothing is looked for, locked, listed and let go of again. All its changes are committed at once.
//!
//! ```text
//!   begin ──▶ change ──▶ rest ──▶ change ──▶ rest ── … ──▶ commit: when it is large enough, or does more than edit,
//!                           └──────────────────────────▶ or settled by whoever waits for what it holds
//! ```
//!
//! 1. A change that is complete happens: one that fails later in the same transaction undoes itself alone.
//! 2. What rests has only edited, and made inodes in chunks that exist: blocks that were allocated or freed are committed at once.
//! 3. Nobody waits for a transaction at rest. Whoever would (for a log item or, to write a checkpoint, for the ctx_lock) first
//!    says that he is waiting, then settles all that rest. Whoever lies down to rest does so first and then looks whether
//!    anybody is waiting. So one of the two sees the other.
//! 4. There is a place for each shard of threads; who finds his taken does not rest.

use std::fmt;

use crate::cil::{Cil, CtxGuard, Shard};
use crate::guard;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, thread_number};
use crate::work::ReusedWork;

/// A transaction at rest. It holds the gate of its shard.
pub(crate) struct Parked {
    work: ReusedWork,
    /// Whose it is.
    thread: usize,
}

/// LockPosition for one.
#[derive(Default)]
pub(crate) struct Slot {
    /// Whether there is one: changed under the lock, asked without.
    taken: AtomicBool,
    /// Nothing is taken under it.
    parked: Mutex<Option<Parked>>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.taken).finish()
    }
}

impl Slot {
    fn put(&self, parked: Parked) -> Result<(), Parked> {
        let mut place = self.parked.lock();
        if place.is_some() {
            return Err(parked);
        }
        *place = Some(parked);
        self.taken.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn take(&self, which: impl FnOnce(&Parked) -> bool) -> Option<Parked> {
        if !self.taken.load(Ordering::SeqCst) {
            return None;
        }
        let mut place = self.parked.lock();
        let parked = place.take_if(|parked| which(parked));
        self.taken.store(place.is_some(), Ordering::SeqCst);
        parked
    }
}

impl Cil {
    /// True where somebody waits for those who rest.
    fn has_waiters(&self) -> bool {
        self.closing.load(Ordering::SeqCst) || self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Lets the thread's transaction rest, where it may.
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
        ctx_lock.leave();
        if self.has_waiters() {
            self.commit_parked_in(shard);
        }
        Ok(())
    }

    /// The thread's transaction at rest, which goes on.
    pub(crate) fn resume(&self) -> Option<(ReusedWork, CtxGuard<'_>)> {
        let shard = self.shard();
        let Parked { work, .. } = shard.parked.take(|it| it.thread == thread_number())?;
        Some((work, CtxGuard::again(shard)))
    }

    /// Commits all that rest.
    pub(crate) fn commit_parked(&self) {
        self.shards.iter().for_each(|shard| self.commit_parked_in(shard));
    }

    fn commit_parked_in(&self, shard: &Shard) {
        if let Some(Parked { mut work, .. }) = shard.parked.take(|_| true) {
            work.commit(self);
            drop(work);
            drop(guard::again(&shard.ctx_lock));
        }
    }

    /// Waits, with `take`, for a lock that a transaction at rest may hold.
    #[cold]
    pub(crate) fn wait<T>(&self, take: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.commit_parked();
        let taken = take();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        taken
    }
}
