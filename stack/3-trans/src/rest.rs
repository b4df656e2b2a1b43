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
//! 3. Nobody waits for a transaction at rest. Whoever would (for an object or, to write a checkpoint, for the gate) first
//!    says that he is waiting, then settles all that rest. Whoever lies down to rest does so first and then looks whether
//!    anybody is waiting. So one of the two sees the other.
//! 4. There is a place for each shard of threads; who finds his taken does not rest.

use std::fmt;

use crate::guard;
use crate::list::{GateGuard, Lists, Shard};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, thread_number};
use crate::work::Kept;

/// A transaction at rest. It holds the gate of its shard.
pub(crate) struct AtRest {
    work: Kept,
    /// Whose it is.
    thread: usize,
}

/// Place for one.
#[derive(Default)]
pub(crate) struct Slot {
    /// Whether there is one: changed under the lock, asked without.
    taken: AtomicBool,
    /// Nothing is taken under it.
    at_rest: Mutex<Option<AtRest>>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.taken).finish()
    }
}

impl Slot {
    fn put(&self, at_rest: AtRest) -> Result<(), AtRest> {
        let mut place = self.at_rest.lock();
        if place.is_some() {
            return Err(at_rest);
        }
        *place = Some(at_rest);
        self.taken.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn take(&self, which: impl FnOnce(&AtRest) -> bool) -> Option<AtRest> {
        if !self.taken.load(Ordering::SeqCst) {
            return None;
        }
        let mut place = self.at_rest.lock();
        let at_rest = place.take_if(|at_rest| which(at_rest));
        self.taken.store(place.is_some(), Ordering::SeqCst);
        at_rest
    }
}

impl Lists {
    /// True where somebody waits for those who rest.
    fn wants_peace(&self) -> bool {
        self.closing.load(Ordering::SeqCst) || self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Lets the thread's transaction rest, where it may.
    pub(crate) fn rest<'l>(
        &'l self,
        work: Kept,
        gate: GateGuard<'l>,
    ) -> Result<(), (Kept, GateGuard<'l>)> {
        if gate.is_alone() || work.bytes() > self.rest_limit() || self.wants_peace() {
            return Err((work, gate));
        }
        let shard = self.shard();
        if let Err(AtRest { work, .. }) =
            shard.at_rest.put(AtRest { work, thread: thread_number() })
        {
            return Err((work, gate));
        }
        gate.leave();
        if self.wants_peace() {
            self.settle_in(shard);
        }
        Ok(())
    }

    /// The thread's transaction at rest, which goes on.
    pub(crate) fn go_on(&self) -> Option<(Kept, GateGuard<'_>)> {
        let shard = self.shard();
        let AtRest { work, .. } = shard.at_rest.take(|it| it.thread == thread_number())?;
        Some((work, GateGuard::again(shard)))
    }

    /// Commits all that rest.
    pub(crate) fn settle(&self) {
        self.shards.iter().for_each(|shard| self.settle_in(shard));
    }

    fn settle_in(&self, shard: &Shard) {
        if let Some(AtRest { mut work, .. }) = shard.at_rest.take(|_| true) {
            work.commit(self);
            drop(work);
            drop(guard::again(&shard.gate));
        }
    }

    /// Waits, with `take`, for a lock that a transaction at rest may hold.
    #[cold]
    pub(crate) fn wait<T>(&self, take: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.settle();
        let taken = take();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        taken
    }
}
