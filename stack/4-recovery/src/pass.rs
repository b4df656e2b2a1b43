//! The second pass: applies the items of a transaction, by rank.

use xfskit_block::BlockDevice;
use xfskit_format::Ctx;
use xfskit_format::log::item::{Item, split};
use xfskit_format::sb::Superblock;
use xfskit_log::Transaction;
use xfskit_units::{Daddr, Geometry, Lsn};

use crate::cancel::Cancelled;
use crate::error::Result;
use crate::pieces::Pieces;
use crate::queue::Queue;

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

/// Parses `transaction` and passes its items to `take`.
///
/// # Errors
/// Corruption of an item; errors of `take`.
pub fn for_items(
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
pub(crate) struct Pass<'d> {
    pub(crate) geo: Geometry,
    /// The superblock that `geo` comes from.
    pub(crate) sb: Box<Superblock>,
    pub(crate) queue: Queue<'d>,
    pub(crate) cancelled: Cancelled,
    pub(crate) pieces: Pieces,
    /// LSN of the present transaction. Everything that it changes is stamped with it.
    pub(crate) lsn: Lsn,
    pub(crate) counts: Counts,
}

impl<'d> Pass<'d> {
    pub(crate) fn new(dev: &'d dyn BlockDevice, sb: &Superblock, cancelled: Cancelled) -> Self {
        Self {
            geo: sb.geometry(),
            sb: Box::new(sb.clone()),
            queue: Queue::new(dev),
            cancelled,
            pieces: Pieces::default(),
            lsn: Lsn::NONE,
            counts: Counts::default(),
        }
    }

    /// Applies one transaction.
    pub(crate) fn commit(&mut self, transaction: &Transaction, ctx: &Ctx<'_>) -> Result<()> {
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
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.queue.flush(self.lsn, &self.geo)
    }
}
