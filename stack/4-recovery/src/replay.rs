//! The replay of a journal: both passes, and what they found.

use xfskit_block::BlockDevice;
use xfskit_format::Ctx;
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
    pub(crate) fn of(log: &Log<'_>) -> Self {
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
    refuse_unknown(sb)?;
    let first = first_pass(&log, options, u64::MAX)?;
    if let Some(damage) = first.damage {
        return Err(Error::JournalDamaged(Box::new(damage)).into());
    }
    report.unfinished = first.intents.unfinished();
    verify(&report.unfinished)?;
    let pass = Pass::new(dev, sb, first.cancelled);
    second_pass(pass, &log, options, u64::MAX, &mut report)?;
    dev.flush().map_err(Error::from)?;
    Ok(report)
}

/// Refuses a journal with features that this code does not know.
pub(crate) fn refuse_unknown(sb: &Superblock) -> Result<()> {
    match sb.unknown_log_incompat().bits() {
        0 => Ok(()),
        bits => Err(SbError::UnknownFeature { word: "log_incompat", bits }.into()),
    }
}

/// Applies the first `limit` committed transactions, and counts into `report` what was done.
pub(crate) fn second_pass(
    mut pass: Pass<'_>,
    log: &Log<'_>,
    options: &ReplayOptions,
    limit: u64,
    report: &mut Replay,
) -> Result<()> {
    let mut transactions = log.transactions();
    let blocks = u64::from(transactions.blocks_left());
    let mut whole = Whole::default();
    while whole.transactions < limit
        && let Some(transaction) = transactions.next()
    {
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

/// What the first pass found.
pub(crate) struct FirstPass {
    pub(crate) cancelled: Cancelled,
    pub(crate) intents: UnfinishedIntents,
    /// Number of intact transactions, up to the limit.
    pub(crate) transactions: u64,
    /// The damage behind them.
    pub(crate) damage: Option<JournalDamage>,
}

/// Verifies every item of the first `limit` committed transactions, and collects freed buffers and
/// intents. Ends at the first damage.
pub(crate) fn first_pass(log: &Log<'_>, options: &ReplayOptions, limit: u64) -> Result<FirstPass> {
    let (mut cancelled, mut intents) = (Cancelled::default(), UnfinishedIntents::default());
    let mut transactions = log.transactions();
    let blocks = u64::from(transactions.blocks_left());
    let (mut whole, mut damage) = (Whole::default(), None);
    while whole.transactions < limit
        && let Some(transaction) = transactions.next()
    {
        options.progress(blocks - u64::from(transactions.blocks_left()), 2 * blocks);
        let at = match &transaction {
            Ok(transaction) => transaction.lsn,
            Err(_) => Lsn::new(log.cycle_of(transactions.current()), transactions.current()),
        };
        let taken = transaction.map_err(Error::from).and_then(|transaction| {
            let ctx = transactions.ctx(&transaction);
            collect(&transaction, &ctx, &mut cancelled, &mut intents)?;
            Ok(transaction)
        });
        match taken {
            Ok(transaction) => whole.add(&transaction),
            Err(error) => {
                damage = Some(damage_of(error, Some((at, &whole)))?);
                break;
            }
        }
    }
    if damage.is_none()
        && let Some(torn) = log.torn().filter(|torn| torn.is_whole && !torn.is_unmount)
    {
        let fault = Error::Corrupt(torn.corruption.clone());
        damage = Some(damage_of(fault, Some((log.head(), &whole)))?);
    }
    Ok(FirstPass { cancelled, intents, transactions: whole.transactions, damage })
}

/// Collects the freed buffers and the intents of a transaction.
fn collect(
    transaction: &Transaction,
    ctx: &Ctx<'_>,
    cancelled: &mut Cancelled,
    intents: &mut UnfinishedIntents,
) -> Result<()> {
    for_items(transaction, ctx, |items| {
        for item in items {
            match item {
                Item::Buf(buf) if buf.is_cancel() => cancelled.add(buf),
                Item::Intent(intent) => intents.add(intent),
                Item::Done(done) => intents.finish(done),
                _ => {}
            }
        }
        Ok(())
    })
}

/// The transactions that were read without corruption.
#[derive(Default)]
pub(crate) struct Whole {
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
    damage_of(error, at).map_or_else(|error| error, |damage| Error::JournalDamaged(damage.into()))
}

/// Returns a corruption with the position of the damaged record, and the intact transactions before
/// it.
///
/// # Errors
/// Failures of the device.
pub(crate) fn damage_of(error: Error, at: Option<(Lsn, &Whole)>) -> Result<JournalDamage> {
    let Error::Corrupt(fault) = error else { return Err(error) };
    let (record, whole) = at.unzip();
    Ok(JournalDamage {
        fault: *fault,
        record,
        transactions: whole.map_or(0, |whole| whole.transactions),
        whole: whole.and_then(|whole| whole.span),
    })
}
