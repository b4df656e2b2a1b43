//! The replay of a journal: both passes, and what they found.

use xfskit_block::BlockDevice;
use xfskit_format::log::item::{Intent, Item};
use xfskit_format::sb::{SbError, Superblock};
use xfskit_log::{HealedRecord, Log, Torn, Transaction};
use xfskit_units::{Daddr, Geometry, Lsn};

use crate::cancel::Cancelled;
use crate::counters;
use crate::error::{Error, JournalDamage, Result};
use crate::intents::UnfinishedIntents;
use crate::options::ReplayOptions;
use crate::pass::{Counts, Pass, for_items};
use crate::restamp;

/// The result of a journal recovery.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The journal's head. No LSN on the volume may be ahead of it.
    pub head: Lsn,
    /// The journal's tail.
    pub tail: Lsn,
    /// The journal was clean: there was nothing to replay.
    pub clean: bool,
    /// The part that was cut off at the head because it was not completely written.
    pub torn: Option<Torn>,
    /// Records that were read from other members of an array.
    pub healed: Vec<HealedRecord>,
    /// Number of records read.
    pub records: u64,
    /// Number of committed transactions.
    pub transactions: u64,
    /// Results of their items.
    pub items: Counts,
    /// Intents without done items, in the order of the journal.
    pub unfinished: Vec<Intent>,
    /// Number of them that were finished when the volume was opened.
    pub finished: u64,
    /// Number of unlinked lists that are not empty: files deleted while open.
    pub unlinked_lists: u64,
}

impl Replay {
    /// Returns the replay of `log` before anything is read of it.
    fn of(log: &Log<'_>) -> Self {
        Self {
            head: log.head(),
            tail: log.tail(),
            clean: log.is_clean(),
            torn: log.torn().cloned(),
            healed: log.healed().to_vec(),
            records: 0,
            transactions: 0,
            items: Counts::default(),
            unfinished: Vec::new(),
            finished: 0,
            unlinked_lists: 0,
        }
    }
}

/// Opens the journal of the volume on `dev`; `log_dev` is the device of an external journal.
///
/// # Errors
/// Device failures, corruption, and a missing log device.
pub fn open_log<'d>(
    dev: &'d dyn BlockDevice,
    log_dev: Option<&'d dyn BlockDevice>,
    geo: &'d Geometry,
) -> Result<Log<'d>> {
    let log = match (geo.log_daddr(), log_dev) {
        (Some(start), _) => Log::open(dev, start, geo)?,
        (None, Some(log_dev)) => Log::open(log_dev, Daddr(0), geo)?,
        (None, None) => {
            let what = "it is on a device of its own: name that device, or open without recovery";
            return Err(Error::Journal(what.into()));
        }
    };
    Ok(log)
}

/// Replays the journal of the volume on `dev`, whose superblock is `sb`; `log_dev` is the device of
/// an external journal. The journal itself is not changed, and replaying twice changes nothing.
///
/// # Errors
/// Device failures and corruption. If the first pass fails, nothing has been written. The second
/// pass writes only whole groups of transactions.
pub fn replay(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    sb: &Superblock,
) -> Result<Replay> {
    replay_if(dev, log_dev, sb, &ReplayOptions::default(), |_| Ok(()))
}

/// Replays like [`replay`], but fails before writing anything if `verify` rejects the unfinished
/// intents.
///
/// # Errors
/// As [`replay`], and those of `verify`.
pub fn replay_if<E: From<Error>>(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    sb: &Superblock,
    options: &ReplayOptions,
    verify: impl FnOnce(&[Intent]) -> Result<(), E>,
) -> Result<Replay, E> {
    let geo = sb.geometry();
    let log = open_log(dev, log_dev, &geo).map_err(|error| damaged(error, None))?;
    let mut report = Replay::of(&log);
    if report.clean {
        return Ok(report);
    }
    let bits = sb.unknown_log_incompat().bits();
    if bits != 0 {
        return Err(Error::from(SbError::UnknownFeature { word: "log_incompat", bits }).into());
    }
    let (cancelled, intents) = first_pass(&log, options)?;
    report.unfinished = intents.unfinished();
    verify(&report.unfinished)?;
    let pass = Pass::new(dev, sb, cancelled);
    second_pass(pass, &log, options, &mut report)?;
    dev.flush().map_err(Error::from)?;
    Ok(report)
}

/// Applies every committed transaction, and counts into `report` what was done.
fn second_pass(
    mut pass: Pass<'_>,
    log: &Log<'_>,
    options: &ReplayOptions,
    report: &mut Replay,
) -> Result<()> {
    let mut transactions = log.transactions();
    let blocks = u64::from(transactions.blocks_left());
    let mut whole = Whole::default();
    while let Some(transaction) = transactions.next() {
        options.progress(2 * blocks - u64::from(transactions.blocks_left()), 2 * blocks);
        let transaction = transaction?;
        let at = Some((transaction.lsn, &whole));
        pass.commit(&transaction, &transactions.ctx(&transaction)).map_err(|e| damaged(e, at))?;
        whole.add(&transaction);
    }
    report.transactions = whole.transactions;
    report.records = transactions.records_read();
    pass.flush()?;
    restamp::all(&mut pass)?;
    report.unlinked_lists = counters::rebuild(&mut pass)?;
    report.items = pass.counts;
    Ok(())
}

/// Verifies every item of every committed transaction, and collects freed buffers and intents.
fn first_pass(log: &Log<'_>, options: &ReplayOptions) -> Result<(Cancelled, UnfinishedIntents)> {
    let (mut cancelled, mut intents) = (Cancelled::default(), UnfinishedIntents::default());
    let mut transactions = log.transactions();
    let blocks = u64::from(transactions.blocks_left());
    let mut whole = Whole::default();
    while let Some(transaction) = transactions.next() {
        options.progress(blocks - u64::from(transactions.blocks_left()), 2 * blocks);
        let transaction = transaction.map_err(|error| {
            let at = transactions.current();
            damaged(error.into(), Some((Lsn::new(log.cycle_of(at), at), &whole)))
        })?;
        let ctx = transactions.ctx(&transaction);
        let collected = for_items(&transaction, &ctx, |items| {
            for item in items {
                match item {
                    Item::Buf(buf) if buf.is_cancel() => cancelled.add(buf),
                    Item::Intent(intent) => intents.add(intent),
                    Item::Done(done) => intents.finish(done),
                    _ => {}
                }
            }
            Ok(())
        });
        collected.map_err(|error| damaged(error, Some((transaction.lsn, &whole))))?;
        whole.add(&transaction);
    }
    Ok((cancelled, intents))
}

/// The transactions that were read without corruption.
#[derive(Default)]
struct Whole {
    transactions: u64,
    /// Positions of the first and the last of them.
    span: Option<(Lsn, Lsn)>,
}

impl Whole {
    fn add(&mut self, transaction: &Transaction) {
        self.transactions += 1;
        let first = self.span.map_or(transaction.lsn, |(first, _)| first);
        self.span = Some((first, transaction.commit_lsn));
    }
}

/// Adds the position of the damaged record, and the intact transactions before it, to a corruption.
/// Failures of the device are returned unchanged.
fn damaged(error: Error, at: Option<(Lsn, &Whole)>) -> Error {
    let Error::Corrupt(fault) = error else { return error };
    let (record, whole) = at.unzip();
    Error::JournalDamaged(Box::new(JournalDamage {
        fault: *fault,
        record,
        transactions: whole.map_or(0, |whole| whole.transactions),
        whole: whole.and_then(|whole| whole.span),
    }))
}
