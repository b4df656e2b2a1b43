//! Counters of an engine, in the spirit of those that Linux keeps for each mounted XFS.
//!
//! Counting must be cheap. Mutexes count under their own lock ([`crate::lock`]). A thread counts
//! what its transactions do in a `Tally`, and its next commit adds that to the CIL.

use std::time::Instant;

use crate::engine::Engine;
use crate::lock::LockStats;
use crate::trans::LockPosition;

/// The counters of an engine: [`Engine::stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters of transactions.
    pub transactions: Transactions,
    /// The journal: checkpoints, records, bytes, writes, flushes.
    pub log: xfskit_log::Stats,
    /// AIL pushes.
    pub ail: AilStats,
    /// The buffer cache.
    pub buffers: crate::buf::Stats,
    /// The hot locks by name, each name with the sum of its kind.
    pub locks: Vec<(&'static str, LockStats)>,
}

/// Counters of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// Changes committed that changed something.
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
    inodes: LockStats,
    agi: LockStats,
    agf: LockStats,
    blocks: LockStats,
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

impl Engine {
    /// Returns the counters. Changes by other threads since their last commit are not included.
    pub fn stats(&self) -> Stats {
        let (log, journal) = self.journal_stats();
        let (tally, cil) = self.tally();
        let (ail, write_back) = self.write_back.stats();
        let locks = vec![
            ("cil context", tally.ctx_lock),
            ("inode", tally.inodes),
            ("agi", tally.agi),
            ("agf", tally.agf),
            ("block", tally.blocks),
            ("cil", cil),
            ("journal", journal),
            ("fsync", self.forcing.stats()),
            ("write-back", write_back),
            ("ail", self.ail.lock_stats()),
            ("buffer cache", self.cache().lock_stats()),
            ("inode cache", self.inodes().lock_stats()),
            ("busy extents", self.busy().lock_stats()),
        ];
        Stats { transactions: tally.transactions, log, ail, buffers: self.cache().stats(), locks }
    }
}
