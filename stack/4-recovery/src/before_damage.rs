//! The replay of a damaged journal up to the damage. Only a repair asks for it: a mount refuses the
//! journal.
//!
//! What follows a damaged record is never replayed: its transactions build on those that are lost.
//! It is counted, as far as records are intact, so that the loss can be named.
//!
//! Damage may also show in the second pass, where a block on the volume does not fit the item that
//! changes it. Groups of transactions before it are in place by then, without the cancellations
//! that only hold up to that point. So the replay starts over on a fresh view of the volume, with
//! fewer transactions.

use std::collections::BTreeSet;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_format::log::item::Item;
use xfskit_format::sb::Superblock;
use xfskit_log::{History, Newest, Ring, Transaction};
use xfskit_units::{Daddr, Geometry, Ino, LogBlock, Lsn};

use crate::error::{Error, JournalDamage, Result};
use crate::options::ReplayOptions;
use crate::pass::{Pass, for_items};
use crate::replay::{self, Replay};

/// Replays that are tried. The last one replays nothing.
const ATTEMPTS_MAX: usize = 4;
/// Inodes, and blocks, that are told apart.
const NAMED_MAX: usize = 1 << 20;

/// The replay of a journal up to the first damage.
#[derive(Clone, Debug)]
pub struct BeforeDamage {
    /// The replay of the transactions before the damage; `None` without any.
    pub replay: Option<Replay>,
    /// The first damage; `None` if all of the journal was replayed.
    pub damage: Option<JournalDamage>,
    /// The records behind the damage.
    pub lost: Lost,
}

/// What a journal holds behind its first damage, as far as records are intact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The newest intact record of the whole journal.
    pub newest: Option<Newest>,
    /// Intact records.
    pub records: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Blocks of the journal, of 512 bytes, that belong to no intact record.
    pub unreadable_blocks: u64,
    /// Inodes that these transactions change: a million at most.
    pub inodes: BTreeSet<Ino>,
    /// Buffers that they change: a million at most.
    pub buffers: BTreeSet<Daddr>,
}

impl BeforeDamage {
    /// Returns the result for a journal of which nothing can be replayed, because of `damage`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn nothing(dev: &dyn BlockDevice, geo: &Geometry, damage: JournalDamage) -> Result<Self> {
        let lost = Lost::behind(dev, geo, damage.record)?;
        Ok(Self { replay: None, damage: Some(damage), lost })
    }
}

/// Replays the internal journal of a volume up to the first damage, on what `view` returns: a fresh
/// view of the volume for each attempt. `sb` is its superblock. The journal itself is not changed.
///
/// # Errors
/// Device failures, and what does not allow a replay at all. Damage is no error.
pub fn replay_before_damage<D: BlockDevice>(
    sb: &Superblock,
    view: impl Fn() -> Result<Arc<D>>,
) -> Result<(Arc<D>, BeforeDamage)> {
    replay::refuse_unknown(sb)?;
    let (mut limit, mut known) = (u64::MAX, None);
    for _ in 1..ATTEMPTS_MAX {
        let dev = view()?;
        match replay_first(&*dev, sb, limit, known.clone()) {
            Err(Error::JournalDamaged(damage)) => {
                limit = damage.transactions;
                known = Some(*damage);
            }
            done => return Ok((dev, done?)),
        }
    }
    let dev = view()?;
    let done = replay_first(&*dev, sb, 0, known)?;
    Ok((dev, done))
}

/// Replays at most `limit` transactions, and none behind damage. `known` is the damage that set the
/// limit.
fn replay_first(
    dev: &dyn BlockDevice,
    sb: &Superblock,
    limit: u64,
    known: Option<JournalDamage>,
) -> Result<BeforeDamage> {
    let geo = sb.geometry();
    let log = match replay::open_log(dev, None, &geo) {
        Ok(log) => log,
        Err(error) => {
            return BeforeDamage::nothing(dev, &geo, replay::damage_of(error, None)?);
        }
    };
    let options = ReplayOptions::default();
    let first = replay::first_pass(&log, &options, limit)?;
    let damage = known.or(first.damage);
    let mut report = Replay::of(&log);
    report.unfinished = first.intents.unfinished();
    if first.transactions > 0 {
        let pass = Pass::new(dev, sb, first.cancelled);
        replay::second_pass(pass, &log, &options, first.transactions, &mut report)?;
        dev.flush()?;
    }
    let lost = match &damage {
        Some(damage) => Lost::behind(dev, &geo, damage.record)?,
        None => Lost::default(),
    };
    Ok(BeforeDamage { replay: Some(report), damage, lost })
}

impl Lost {
    /// Reads the journal on `dev` for what lies behind `damaged`, the position of a record; without
    /// one, for all that a replay would have needed.
    fn behind(dev: &dyn BlockDevice, geo: &Geometry, damaged: Option<Lsn>) -> Result<Self> {
        let Some(start) = geo.log_daddr() else { return Ok(Self::default()) };
        let ring = Ring::new(dev, start, geo)?;
        let Some(newest) = Newest::find(&ring)? else {
            let unreadable_blocks = u64::from(ring.blocks());
            return Ok(Self { unreadable_blocks, ..Self::default() });
        };
        let since = damaged.unwrap_or(newest.tail.min(newest.lsn));
        let from = LogBlock(since.block().0 % ring.blocks());
        let mut lost = Self { newest: Some(newest), ..Self::default() };
        let mut history = History::new(&ring, from).since(since);
        while let Some(transaction) = history.next() {
            let transaction = transaction?;
            let ctx = history.ctx(&transaction);
            lost.add(&transaction, &ctx);
        }
        let seen = history.seen();
        (lost.records, lost.transactions) = (seen.records, seen.commits);
        let end = ring.forward(newest.lsn.block(), newest.blocks);
        let span = if since <= newest.lsn { u64::from(ring.distance(from, end)) } else { 0 };
        lost.unreadable_blocks = span.saturating_sub(seen.blocks);
        Ok(lost)
    }

    /// Adds the inodes and buffers of a transaction. One with an impossible item is counted only.
    fn add(&mut self, transaction: &Transaction, ctx: &xfskit_format::Ctx<'_>) {
        let _ = for_items(transaction, ctx, |items| {
            for item in items {
                match item {
                    Item::Inode(inode) => insert(&mut self.inodes, inode.ino()),
                    Item::Buf(buf) if !buf.is_cancel() => insert(&mut self.buffers, buf.daddr()),
                    _ => {}
                }
            }
            Ok(())
        });
    }
}

fn insert<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    if set.len() < NAMED_MAX {
        set.insert(value);
    }
}
