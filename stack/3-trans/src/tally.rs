//! What each thread counts of its transactions, and each push of the AIL of its writes.

use std::time::Instant;

use crate::lock::{LockPosition, LockStats};

/// Counters of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// Changes that changed something and were committed. A transaction holds one or, if its
    /// thread's next changes joined it while it was parked, several.
    pub changes: u64,
    /// Transactions committed: what Linux counts in `trans`.
    pub committed: u64,
    /// Changes committed that changed nothing.
    pub empty: u64,
    /// Changes undone, after an error or before another attempt.
    pub undone: u64,
    /// Items that a commit inserted into the CIL.
    pub items: u64,
    /// Items that a commit changed and that were in the CIL already: they are written once.
    pub relogged: u64,
}

/// Counters of AIL pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AilStats {
    /// Number of pushes.
    pub pushes: u64,
    /// Items written in position.
    pub items: u64,
    /// Bytes written in position.
    pub bytes: u64,
    /// Flushes of the device after pushes.
    pub flushes: u64,
}

/// Counters of one thread's transactions since its last commit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) transactions: Transactions,
    pub(crate) ctx_lock: LockStats,
    pub(crate) inodes: LockStats,
    pub(crate) agi: LockStats,
    pub(crate) agf: LockStats,
    pub(crate) blocks: LockStats,
}

impl Tally {
    /// Returns the statistics for locks with this position in the lock order.
    pub(crate) fn locks_at(&mut self, position: Option<LockPosition>) -> &mut LockStats {
        match position {
            Some(LockPosition::Inode(_)) => &mut self.inodes,
            Some(LockPosition::Agi(_)) => &mut self.agi,
            Some(LockPosition::Agf(_)) => &mut self.agf,
            None => &mut self.blocks,
        }
    }

    /// Adds all of `other`, and clears it.
    pub(crate) fn take(&mut self, other: &mut Self) {
        let other = std::mem::take(other);
        let (mine, theirs) = (&mut self.transactions, other.transactions);
        mine.changes += theirs.changes;
        mine.committed += theirs.committed;
        mine.empty += theirs.empty;
        mine.undone += theirs.undone;
        mine.items += theirs.items;
        mine.relogged += theirs.relogged;
        self.ctx_lock += other.ctx_lock;
        self.inodes += other.inodes;
        self.agi += other.agi;
        self.agf += other.agf;
        self.blocks += other.blocks;
    }
}

/// Returns the lock that `attempt` got, or waits for it with `wait`. Counts which it was.
pub(crate) fn counted<T, E>(
    stats: &mut LockStats,
    attempt: Result<T, E>,
    wait: impl FnOnce(E) -> T,
) -> T {
    match attempt {
        Ok(guard) => {
            stats.taken += 1;
            guard
        }
        Err(missed) => {
            let start = Instant::now();
            let guard = wait(missed);
            stats.waited(start);
            guard
        }
    }
}
