//! All that the ring still holds: also the records before the tail, whose changes are in place, and
//! those behind damage, which are not replayed.
//!
//! The oldest record begins somewhere behind the head, where the newest has overwritten a part of
//! the one before. So every block is tried as the header of a record. A transaction of which a
//! record is missing is left out.

use xfskit_format::Ctx;
use xfskit_format::log::op::OpFlags;
use xfskit_units::{LogBlock, Lsn};

use crate::Result;
use crate::intact::IntactRecords;
use crate::record::Record;
use crate::ring::Ring;
use crate::transaction::{Assembly, Transaction};

/// The committed transactions that the ring still holds, oldest first. The iterator ends after an
/// error of the device, and skips damaged records.
#[derive(Debug)]
pub struct History<'r, 'd> {
    records: IntactRecords<'r, 'd>,
    assembly: Assembly,
    /// Older records are skipped.
    since: Lsn,
    seen: Seen,
}

/// What a history has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Intact records.
    pub records: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Transactions whose COMMIT is in one of them, also those of which a record is missing.
    pub commits: u64,
}

impl<'r, 'd> History<'r, 'd> {
    /// Iterates over the whole of `ring`, from block `from` on: mostly the head, where the next
    /// record would be written.
    pub fn new(ring: &'r Ring<'d>, from: LogBlock) -> Self {
        Self {
            records: IntactRecords::new(ring, from),
            assembly: Assembly::default(),
            since: Lsn::NONE,
            seen: Seen::default(),
        }
    }

    /// Skips the records before `since`.
    #[must_use]
    pub fn since(self, since: Lsn) -> Self {
        Self { since, ..self }
    }

    /// Returns the number of blocks of the ring that have not been read yet.
    pub fn blocks_left(&self) -> u32 {
        self.records.blocks_left()
    }

    /// Returns what was read so far.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Returns the verifier's context for `transaction`.
    pub fn ctx(&self, transaction: &Transaction) -> Ctx<'d> {
        self.records.ring().ctx(transaction.at)
    }

    /// Takes over the operations of a record.
    fn take(&mut self, record: &Record) {
        if self.records.is_behind_gap() {
            self.assembly.interrupt();
        }
        if record.lsn() < self.since {
            return;
        }
        let ctx = self.records.ring().ctx(record.at);
        let commits = record.ops(&ctx).flatten().filter(|op| op.has(OpFlags::COMMIT)).count();
        self.seen.records += 1;
        self.seen.blocks += u64::from(record.blocks());
        self.seen.commits += commits as u64;
        if self.assembly.take(record, &ctx).is_err() {
            self.assembly.interrupt();
        }
    }
}

impl Iterator for History<'_, '_> {
    type Item = Result<Transaction>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ready) = self.assembly.pop() {
                return Some(Ok(ready));
            }
            match self.records.next()? {
                Ok(record) => self.take(&record),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
