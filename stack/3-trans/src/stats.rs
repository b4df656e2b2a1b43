//! What an engine has done so far, in the spirit of what Linux counts for each mounted XFS.
//!
//! Counting must not cost what it counts: mutexes count under themselves ([`crate::lock`]), and what
//! transactions do is counted by their thread in a `Tally` that its next commit hands over together with what
//! it cil.

use std::time::Instant;

use crate::engine::Engine;
use crate::lock::LockStats;
use crate::trans::LockPosition;

/// What an engine has done so far: [`Engine::stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What transactions did.
    pub transactions: Transactions,
    /// The journal: checkpoints, records, bytes, writes, flushes.
    pub log: xfskit_log::Stats,
    /// Write-back.
    pub ail: AilStats,
    /// The buffer cache.
    pub buffers: crate::buf::Stats,
    /// The hot locks by name, those of one kind together.
    pub locks: Vec<(&'static str, LockStats)>,
}

/// What transactions did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// Committed, and something was changed.
    pub committed: u64,
    /// Committed, and nothing was changed.
    pub empty: u64,
    /// Undone: after an error, or to be run again.
    pub undone: u64,
    /// Objects that a commit listed for the next checkpoint.
    pub items: u64,
    /// Objects that a commit changed and that were on the list already: they are written once.
    pub relogged: u64,
}

/// What write-back did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AilStats {
    /// Times that the oldest were written back.
    pub pushes: u64,
    /// Objects written in place.
    pub items: u64,
    /// Bytes written in place.
    pub bytes: u64,
    /// Flushes of the device behind them.
    pub flushes: u64,
}

/// What one thread's transactions did since they handed it over last.
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
    /// The locks of items with this place in the lock order.
    pub(crate) fn of_place(&mut self, place: Option<LockPosition>) -> &mut LockStats {
        match place {
            Some(LockPosition::Inode(_)) => &mut self.inodes,
            Some(LockPosition::Agi(_)) => &mut self.agi,
            Some(LockPosition::Agf(_)) => &mut self.agf,
            None => &mut self.blocks,
        }
    }

    /// Takes over all of `other`.
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

/// Takes over a lock that `attempt` got, or else waits for it with `wait`, and counts which it was.
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
    /// What was done so far. What other threads did since their last commit is not in it.
    pub fn stats(&self) -> Stats {
        let (log, journal) = self.journal_stats();
        let (tally, list) = self.tally();
        let (ail, write_back) = self.write_back.stats();
        let locks = vec![
            ("cil context", tally.ctx_lock),
            ("inode", tally.inodes),
            ("agi", tally.agi),
            ("agf", tally.agf),
            ("block", tally.blocks),
            ("list", list),
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
