//! Recovery: applies the changes in the journal to the disk.
//!
//! The journal is read twice from tail to head. The first pass changes nothing. It verifies every
//! record and item, and collects the buffers that were freed (`cancel`). Older images of those must
//! not be replayed, because their blocks may hold file data by now. The second pass applies
//! transaction after transaction, in the order of their commits. Within a transaction the items are
//! applied in five ranks (see `rank`).
//!
//! The LSN on a block tells whether a change is already in place, because every write stamps the
//! block with the LSN of the transaction that changed it. All transactions that share an LSN must
//! be compared with the state on disk before any of them. Changes are therefore collected in a
//! `queue`, and written when a transaction with another LSN follows.
//!
//! Recovery writes to the device it is given. A volume that is opened for reading gives it an
//! overlay in memory.
//!
//! Replay leaves intents without done items untouched, and inodes on unlinked lists. The [`Replay`]
//! lists both. Intents are finished in transactions of their own (`finish`), and so are unlinked
//! inodes, once the volume is open. Quota records are skipped.
//!
//! | module | contents |
//! | --- | --- |
//! | `queue` | changed sectors that wait for the write, and their stamps |
//! | `cancel` | buffers that were freed |
//! | `buffer` | BUF items; the superblock; unlinked pointers |
//! | `inode` | INODE and ICREATE items |
//! | `owner` | changes of the owner of extent btree blocks |
//! | `pieces` | directory blocks in several pieces, which Linux cannot recover |
//! | `counters` | the superblock's counters, from the group headers |
//! | `intents` | intents and their done items |
//! | `finish` | finishing of intents |

mod buffer;
mod cancel;
mod counters;
mod finish;
mod inode;
mod intents;
mod owner;
mod pieces;
mod queue;

use xfskit_block::BlockDevice;
use xfskit_format::Ctx;
use xfskit_format::log::item::{Intent, Item, split};
use xfskit_format::sb::{SbError, Superblock};
use xfskit_log::{HealedRecord, Log, Torn, Transaction};
use xfskit_units::{Daddr, Geometry, Lsn};

use crate::error::{Error, JournalDamage, Result};
use crate::options::ReplayOptions;
use cancel::Cancelled;
use intents::UnfinishedIntents;
use pieces::Pieces;
use queue::Queue;

pub(crate) use finish::{finish, refuse};

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

/// Numbers of items by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Buffers changed.
    pub buffers: u64,
    /// Inodes changed.
    pub inodes: u64,
    /// Inode chunks initialised.
    pub chunks: u64,
    /// Items whose change was already in place.
    pub in_place: u64,
    /// Items of buffers that were freed later.
    pub cancelled: u64,
    /// Quota items skipped.
    pub quota: u64,
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
pub(crate) fn replay_if(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    sb: &Superblock,
    options: &ReplayOptions,
    verify: impl FnOnce(&[Intent]) -> Result<()>,
) -> Result<Replay> {
    let geo = sb.geometry();
    let log = open_log(dev, log_dev, &geo).map_err(|error| damaged(error, None))?;
    let mut report = Replay {
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
    };
    if report.clean {
        return Ok(report);
    }
    let bits = sb.unknown_log_incompat();
    if bits != 0 {
        return Err(SbError::UnknownFeature { word: "log_incompat", bits }.into());
    }
    let (cancelled, intents) = first_pass(&log, options)?;
    report.unfinished = intents.unfinished();
    verify(&report.unfinished)?;
    let mut pass = Pass::new(dev, geo.clone(), cancelled);
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
    pieces::restamp(&mut pass)?;
    report.unlinked_lists = counters::rebuild(&mut pass)?;
    dev.flush()?;
    report.items = pass.counts;
    Ok(report)
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

/// Parses `transaction` and passes its items on.
fn for_items(
    transaction: &Transaction,
    ctx: &Ctx<'_>,
    take: impl FnOnce(&mut [Item<'_>]) -> Result<()>,
) -> Result<()> {
    let regions = transaction.regions();
    if Transaction::header(&regions, ctx)?.is_none() {
        return Ok(());
    }
    let mut items = Vec::new();
    for regions in split(regions.get(1..).unwrap_or_default(), ctx) {
        items.push(Item::decode(regions?, ctx)?);
    }
    take(&mut items)
}

/// Returns the rank of an item within a transaction. The superblock comes first, because the volume
/// may have grown. Whole images come before the inodes in them, and unlinked pointers after those.
/// Cancellations come last, since they concern what was logged before.
fn rank(item: &Item<'_>) -> u8 {
    match item {
        Item::Buf(buf) if buf.is_cancel() => 4,
        Item::Buf(buf) if buf.is_unlinked() => 3,
        Item::Buf(buf) if buf.daddr() == Daddr(0) => 0,
        Item::Buf(_) | Item::Icreate(_) => 1,
        _ => 2,
    }
}

/// The second pass.
struct Pass<'d> {
    geo: Geometry,
    queue: Queue<'d>,
    cancelled: Cancelled,
    pieces: Pieces,
    /// LSN of the present transaction. Everything that it changes is stamped with it.
    lsn: Lsn,
    counts: Counts,
}

impl<'d> Pass<'d> {
    fn new(dev: &'d dyn BlockDevice, geo: Geometry, cancelled: Cancelled) -> Self {
        Self {
            geo,
            queue: Queue::new(dev),
            cancelled,
            pieces: Pieces::default(),
            lsn: Lsn::NONE,
            counts: Counts::default(),
        }
    }

    /// Applies one transaction.
    fn commit(&mut self, transaction: &Transaction, ctx: &Ctx<'_>) -> Result<()> {
        if transaction.lsn != self.lsn {
            self.flush()?;
            self.lsn = transaction.lsn;
        }
        for_items(transaction, ctx, |items| {
            items.sort_by_key(rank);
            items.iter().try_for_each(|item| self.apply(item, ctx))
        })
    }

    fn apply(&mut self, item: &Item<'_>, ctx: &Ctx<'_>) -> Result<()> {
        match item {
            Item::Buf(buf) if buf.is_cancel() => self.cancelled.remove(buf),
            Item::Buf(buf) => return self.replay_buf(buf, ctx),
            Item::Inode(inode) => return self.replay_inode(inode, ctx),
            Item::Icreate(icreate) => return self.replay_icreate(icreate, ctx),
            Item::Dquot(_) | Item::Quotaoff(_) => self.counts.quota += 1,
            Item::Intent(_) | Item::Done(_) => {}
        }
        Ok(())
    }

    /// Writes the changes of the transactions with this LSN.
    fn flush(&mut self) -> Result<()> {
        self.queue.flush(self.lsn, &self.geo)
    }
}
