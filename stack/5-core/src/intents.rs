//! Finishing of intents: work that Linux logged as an intent, and that a crash interrupted.
//!
//! Linux does large work in several transactions. Each logs an intent: the work that remains. The
//! transaction that does the work logs a done item with the intent's id. Recovery finishes intents
//! without a done item with the engine's own transactions, and logs its own done items.
//!
//! 1. An intent's done item is in the same transaction as the work. After a crash in between, the
//!    next recovery finds either the intent or the work.
//! 2. Before the first intent is finished, all are logged again under new ids, in one checkpoint
//!    that also logs done items for the old ones. Nothing older is needed from then on. The engine
//!    keeps the journal's tail before unfinished intents, and they do not hold it up.
//! 3. Our transactions leave no intents behind, except where the work is too large for one
//!    transaction. The rest is logged as a new intent then.
//!
//! Linux does the first step of each intent in the order of the journal, and all that follows from
//! those steps afterwards. This code does the same, for as many intents as fit into one
//! transaction. Mappings and attributes change at once. Reverse mappings, reference counts and
//! freed extents, those of the intents first, are deferred to its end.
//!
//! | module | contents |
//! | --- | --- |
//! | `verify` | invalid intents, and those that this code cannot finish |
//! | `exchange` | exchange of the mappings of two files |

mod exchange;
mod verify;

use xfskit_format::attr::Namespace;
use xfskit_format::bmbt::Extent;
use xfskit_format::log::item::Intent;
use xfskit_format::log::item::attri::{AttrOp, Attri};
use xfskit_format::log::item::intent::{
    CountExtent, CountOp, FreeExtent, MapExtent, MapOp, RmapOp, Work,
};
use xfskit_format::rmap::{OFF_ATTR_FORK, OFF_BMBT_BLOCK, OFF_UNWRITTEN};
use xfskit_format::{Ctx, Location};
use xfskit_space::{Deferred, Owner};
use xfskit_units::{ExtLen, FilBlks, FileOff, FsBlock, Ino};

use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

pub(crate) use verify::refuse;

/// Extents that one transaction deals with, roughly.
const AT_ONCE: usize = 64;
/// What an exchange or an attribute counts for.
const HEAVY: usize = 32;

/// Finishes the intents `unfinished` of the journal that `volume` was opened with.
///
/// # Errors
/// [`Error::Corrupt`] for an intent that is invalid, and the errors of transactions: then the
/// journal still holds what is left of them.
pub(crate) fn finish(volume: &Volume, unfinished: &[Intent]) -> Result<()> {
    let engine = volume.engine()?;
    unfinished.iter().try_for_each(|intent| verify::verify(volume, intent))?;
    engine.reserve_intent_ids(unfinished.iter().map(|intent| intent.id).max().unwrap_or(0));
    let mut left = relog(volume, unfinished)?;
    engine.release_tail();
    while !left.is_empty() {
        let behind = left.split_off(at_once(&left));
        left = volume.transact_reserved(|tx| tx.finish_intents(&left))?;
        left.extend(behind);
    }
    Ok(engine.checkpoint()?)
}

/// Logs all intents again, in a checkpoint with the done items of the old ones.
fn relog(volume: &Volume, old: &[Intent]) -> Result<Vec<Intent>> {
    let again = volume.transact(|tx| {
        for intent in old {
            tx.log_done(intent.done());
        }
        let again = old.iter().map(|intent| tx.log_intent(intent.family, intent.work.clone()));
        Ok(again.collect())
    })?;
    volume.engine()?.checkpoint()?;
    Ok(again)
}

/// Returns how many of the intents the next transaction finishes; at least one.
fn at_once(intents: &[Intent]) -> usize {
    let mut sum = 0usize;
    let fits = intents.iter().take_while(|intent| {
        sum = sum.saturating_add(match &intent.work {
            Work::Free(extents) => extents.len(),
            Work::Rmap(extents) | Work::Bmap(extents) => extents.len(),
            Work::Refcount(extents) => extents.len(),
            Work::Attr(_) | Work::Exchange(_) => HEAVY,
        });
        sum <= AT_ONCE
    });
    fits.count().max(1)
}

/// Returns the context for verifying an intent.
fn ctx<'v>(volume: &'v Volume, intent: &Intent) -> Ctx<'v> {
    volume.ctx(Location::of(intent.family.intent_name()))
}

impl Tx<'_> {
    /// Finishes `intents`. Returns intents, logged again, for the work that is left.
    fn finish_intents(&mut self, intents: &[Intent]) -> Result<Vec<Intent>> {
        let mut left = Vec::new();
        for intent in intents {
            self.log_done(intent.done());
            match &intent.work {
                Work::Free(extents) => extents.iter().for_each(|extent| self.keep_free(extent)),
                Work::Rmap(extents) => extents.iter().for_each(|extent| self.keep_rmap(extent)),
                Work::Refcount(extents) => {
                    let rest = self.keep_counts(extents)?;
                    left.extend(rest.map(|work| (intent.family, work)));
                }
                Work::Bmap(_) | Work::Attr(_) | Work::Exchange(_) => {}
            }
        }
        for intent in intents {
            match &intent.work {
                Work::Bmap(extents) => {
                    for extent in extents {
                        self.keep_map(intent, extent)?;
                    }
                }
                Work::Attr(attri) => self.keep_attr(intent, attri)?,
                Work::Exchange(exchange) => {
                    let rest = self.keep_exchange(intent, exchange)?;
                    left.extend(rest.map(|work| (intent.family, work)));
                }
                Work::Free(_) | Work::Rmap(_) | Work::Refcount(_) => {}
            }
        }
        Ok(left.into_iter().map(|(family, work)| self.log_intent(family, work)).collect())
    }

    /// Does the work of an EFI. An EFI does not record the owner of the extent.
    fn keep_free(&mut self, extent: &FreeExtent) {
        let (start, len) = (FsBlock(extent.start.get()), ExtLen(extent.len.get()));
        self.defer(Deferred::Free { start, len, owner: Owner::Anyone });
    }

    /// Finishes an RUI.
    fn keep_rmap(&mut self, extent: &MapExtent) {
        let (start, len) = (FsBlock(extent.startblock.get()), ExtLen(extent.len.get()));
        let mut offset = extent.startoff.get();
        for (says, flag) in [
            (extent.in_attr_fork(), OFF_ATTR_FORK),
            (extent.is_tree_block(), OFF_BMBT_BLOCK),
            (extent.rmap_unwritten(), OFF_UNWRITTEN),
        ] {
            offset |= if says { flag } else { 0 };
        }
        let raw = |offset| Owner::Raw(extent.owner.get(), offset);
        let owner = raw(offset);
        match extent.rmap_op() {
            Some(RmapOp::Map) => self.defer(Deferred::RmapMap { start, len, owner }),
            Some(RmapOp::Unmap) => self.defer(Deferred::RmapUnmap { start, len, owner }),
            // The intent holds the final state.
            Some(RmapOp::Convert) => {
                let owner = raw(offset ^ OFF_UNWRITTEN);
                self.defer(Deferred::RmapConvert { start, len, owner });
            }
            None => {}
        }
    }

    /// Finishes a CUI. Where an extent meets more records than one transaction should change,
    /// the rest is left.
    fn keep_counts(&mut self, extents: &[CountExtent]) -> Result<Option<Work>> {
        let mut left = Vec::new();
        for extent in extents {
            let (start, len) = (FsBlock(extent.startblock.get()), ExtLen(extent.len.get()));
            match extent.op() {
                Some(op @ (CountOp::Increase | CountOp::Decrease)) => {
                    let len = self.refcount_reach(start, len)?;
                    self.defer(match op {
                        CountOp::Increase => Deferred::RefcountIncrease { start, len },
                        _ => Deferred::RefcountDecrease { start, len },
                    });
                    left.extend(extent.behind(len.0));
                }
                Some(CountOp::CowAlloc) => self.defer(Deferred::CowAlloc { start, len }),
                Some(CountOp::CowFree) => self.defer(Deferred::CowForget { start, len }),
                None => {}
            }
        }
        Ok((!left.is_empty()).then_some(Work::Refcount(left)))
    }

    /// Finishes a BUI.
    fn keep_map(&mut self, intent: &Intent, extent: &MapExtent) -> Result<()> {
        let inode = self.intent_inode(intent, extent.owner.get())?;
        let extent_op = extent.map_op();
        let extent = Extent {
            startoff: FileOff(extent.startoff.get()),
            startblock: FsBlock(extent.startblock.get()),
            blockcount: FilBlks(extent.len.get().into()),
            unwritten: extent.map_unwritten(),
        };
        if extent_op == Some(MapOp::Map) {
            return self.bmap_give(inode, &extent);
        }
        let taken = self.bmap_take(inode, extent.startoff..extent.end())?;
        let blocks: u64 = taken.iter().map(|part| part.blockcount.0).sum();
        let is_wanted = |part: &Extent| extent.block_at(part.startoff) == Some(part.startblock);
        let all = blocks == extent.blockcount.0 && taken.iter().all(is_wanted);
        let due = "blocks that the file maps";
        Ok(ctx(self.volume(), intent).require("log.bui.mapped", all, due, extent.startblock)?)
    }

    /// Returns the inode that an intent is about.
    fn intent_inode(&mut self, intent: &Intent, ino: u64) -> Result<TxInode> {
        match self.iget(Ino(ino)) {
            Err(Error::NoInode(ino)) => {
                let ctx = ctx(self.volume(), intent);
                ctx.require("log.intent.ino", false, "an inode in use", ino)?;
                Err(Error::NoInode(ino))
            }
            answer => answer,
        }
    }

    /// Finishes an ATTRI. Linux may have come some way already.
    fn keep_attr(&mut self, intent: &Intent, attri: &Attri) -> Result<()> {
        let inode = self.intent_inode(intent, attri.format.ino.get())?;
        let with_parent =
            matches!(attri.op, AttrOp::ParentSet | AttrOp::ParentRemove | AttrOp::ParentReplace);
        if with_parent {
            let generation = self.core(inode).generation();
            let ctx = ctx(self.volume(), intent);
            ctx.eq("log.attri.igen", generation, attri.format.igen.get())?;
        }
        let namespace = attri.namespace().unwrap_or(Namespace::User);
        let (name, value) = (&attri.name, &attri.value);
        match attri.op {
            AttrOp::Set | AttrOp::Replace => self.attr_finish_set(inode, namespace, name, value),
            AttrOp::Remove => self.attr_finish_remove(inode, namespace, name, None),
            AttrOp::ParentSet => self.parent_finish_set(inode, name, value),
            AttrOp::ParentRemove => {
                self.attr_finish_remove(inode, Namespace::Parent, name, Some(value))
            }
            AttrOp::ParentReplace => {
                self.parent_finish_set(inode, &attri.new_name, &attri.new_value)?;
                self.attr_finish_remove(inode, Namespace::Parent, name, Some(value))
            }
        }
    }
}
