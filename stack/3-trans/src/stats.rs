//! Counters of an engine, in the spirit of those that Linux keeps for each mounted XFS.
//!
//! Counting must be cheap. Mutexes count under their own lock ([`crate::lock`]). A thread counts
//! what its transactions do in a `Tally`, and its next commit adds that to the CIL.

use crate::engine::Engine;
use crate::lock::LockStats;

pub use crate::tally::{AilStats, Transactions};

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
