//! Committed transactions, assembled from the records.
//!
//! Operations carry a transaction id. START opens a transaction, COMMIT closes it. In between,
//! every operation adds a region, or a piece of one that did not fit into its record. Several
//! transactions may be open at once. A transaction without COMMIT before the head is ignored;
//! pieces of one that began before the tail are skipped.

use std::collections::{BTreeMap, VecDeque};

use xfskit_format::log::op::{Op, OpFlags, TransHeader};
use xfskit_format::{Ctx, VerifyResult};
use xfskit_units::{LogBlock, Lsn};

use crate::Result;
use crate::record::{Record, Records};

/// Most transactions open at once. Delayed logging has a handful, older kernels one for every
/// thread.
const OPEN_MAX: usize = 4096;
/// Most bytes that open transactions hold together. Linux blocks writers at 64 MiB.
const BYTES_MAX: usize = 256 << 20;

/// A transaction: its regions, and its position in the journal.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Transaction id.
    pub tid: u32,
    /// Position of the record with its START. Everything that it changes carries this LSN.
    pub lsn: Lsn,
    /// Position of the record with its COMMIT.
    pub commit_lsn: Lsn,
    /// Block of the record with its START.
    pub at: LogBlock,
    bytes: Vec<u8>,
    /// End of each region in `bytes`.
    ends: Vec<usize>,
}

impl Transaction {
    fn new(tid: u32, record: &Record) -> Self {
        let lsn = record.lsn();
        Self { tid, lsn, commit_lsn: lsn, at: record.at, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Returns all regions; that of the transaction header is first.
    pub fn regions(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let cut = |&end: &usize| self.bytes.get(std::mem::replace(&mut start, end)..end);
        self.ends.iter().filter_map(cut).collect()
    }

    /// Returns the length of all regions, in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Verifies and returns the transaction header; `None` for an empty transaction.
    ///
    /// # Errors
    /// If the first region is no transaction header.
    pub fn header<'a>(
        regions: &[&'a [u8]],
        ctx: &Ctx<'_>,
    ) -> VerifyResult<Option<&'a TransHeader>> {
        regions.first().map(|region| TransHeader::verify(region, ctx)).transpose()
    }

    /// Adds the data of `op`.
    fn add(&mut self, op: &Op<'_>, ctx: &Ctx<'_>) -> VerifyResult {
        if op.data.is_empty() {
            return Ok(());
        }
        self.bytes.extend_from_slice(op.data);
        match self.ends.last_mut() {
            Some(end) if op.has(OpFlags::WAS_CONT) => *end = self.bytes.len(),
            None if op.has(OpFlags::WAS_CONT) => {
                return ctx.require(
                    "log.op.flags",
                    false,
                    "a region to continue",
                    OpFlags::WAS_CONT.bits(),
                );
            }
            _ => self.ends.push(self.bytes.len()),
        }
        Ok(())
    }
}

/// Transactions that are assembled from records.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    open: BTreeMap<u32, Transaction>,
    open_bytes: usize,
    ready: VecDeque<Transaction>,
}

impl Assembly {
    /// Adds all operations of `record`.
    pub(crate) fn take(&mut self, record: &Record, ctx: &Ctx<'_>) -> Result<()> {
        for op in record.ops(ctx) {
            self.take_op(record, &op?, ctx)?;
        }
        Ok(())
    }

    fn take_op(&mut self, record: &Record, op: &Op<'_>, ctx: &Ctx<'_>) -> VerifyResult {
        let tid = op.header.tid.get();
        if op.has(OpFlags::START) {
            ctx.at_most("log.trans.open", OPEN_MAX, self.open.len())?;
            let again = self.open.insert(tid, Transaction::new(tid, record)).is_some();
            return ctx.require(
                "log.op.flags",
                !again,
                "one START of a transaction",
                OpFlags::START.bits(),
            );
        }
        if op.has(OpFlags::COMMIT) {
            if let Some(mut transaction) = self.open.remove(&tid) {
                self.open_bytes = self.open_bytes.saturating_sub(transaction.byte_len());
                transaction.commit_lsn = record.lsn();
                self.ready.push_back(transaction);
            }
            return Ok(());
        }
        let Some(transaction) = self.open.get_mut(&tid) else { return Ok(()) };
        self.open_bytes = self.open_bytes.saturating_add(op.data.len());
        ctx.at_most("log.trans.bytes", BYTES_MAX, self.open_bytes)?;
        transaction.add(op, ctx)
    }
    /// Returns the next transaction that is complete.
    pub(crate) fn pop(&mut self) -> Option<Transaction> {
        self.ready.pop_front()
    }

    /// Drops the transactions that are not complete.
    pub(crate) fn interrupt(&mut self) {
        self.open.clear();
        self.open_bytes = 0;
    }
}

/// The committed transactions of some records, in the order of their commits. The iterator ends
/// after the first error.
#[derive(Debug)]
pub struct Transactions<'r, 'd> {
    records: Records<'r, 'd>,
    assembly: Assembly,
    failed: bool,
    records_read: u64,
}

impl<'r, 'd> Transactions<'r, 'd> {
    /// Iterates over the transactions of `records`.
    pub fn new(records: Records<'r, 'd>) -> Self {
        Self { records, assembly: Assembly::default(), failed: false, records_read: 0 }
    }

    /// Returns the number of records read so far.
    pub fn records_read(&self) -> u64 {
        self.records_read
    }

    /// Returns the block of the record that was read last, or that failed.
    pub fn current(&self) -> LogBlock {
        self.records.current()
    }

    /// Returns the number of journal blocks that have not been read yet.
    pub fn blocks_left(&self) -> u32 {
        self.records.blocks_left()
    }

    /// Returns the verifier's context for `transaction`.
    pub fn ctx(&self, transaction: &Transaction) -> Ctx<'d> {
        self.records.ring().ctx(transaction.at)
    }

    /// Adds all operations of `record`.
    fn take(&mut self, record: &Record) -> Result<()> {
        self.assembly.take(record, &self.records.ring().ctx(record.at))?;
        self.records_read += 1;
        Ok(())
    }
}

impl Iterator for Transactions<'_, '_> {
    type Item = Result<Transaction>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            if let Some(ready) = self.assembly.pop() {
                return Some(Ok(ready));
            }
            let taken = match self.records.next()? {
                Ok(record) => self.take(&record),
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                self.failed = true;
                return Some(Err(error));
            }
        }
        None
    }
}
