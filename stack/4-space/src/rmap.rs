//! Reverse mappings: the owner of each used block.
//!
//! [`plan`] computes the changes on plain records. This module finds the records in the tree and
//! applies the edits. The caller holds the AGF and has filled the AGFL. Without RMAPBT, and for
//! [`Owner::Unmapped`], there is nothing to do.
//!
//! Where file data is shared, records overlap, and the record that covers a block need not be the
//! last that begins before it. It mostly is, so that one is tried first. Otherwise all records that
//! cover the block are searched.

mod plan;

use xfskit_format::agbtree::Tree;
use xfskit_format::rmap::{OFF_ATTR_FORK, OFF_BMBT_BLOCK, Rec};
use xfskit_format::{Expected, Value};
use xfskit_units::{AgBlock, AgNumber, ExtLen};

use crate::agfl;
use crate::agtree::{AgKind, AgTree};
use crate::btree::{Cursor, Seek};
use crate::edits;
use crate::error::{Error, Result};
use crate::extent::Owner;
use crate::kinds::Mappings;
use crate::tx::SpaceTx;

/// The rmapbt of a group.
type RmapTree = AgTree<Mappings>;

impl AgKind for Mappings {
    const TREE: Tree = Tree::Rmap;

    fn take_block(tx: &mut SpaceTx<'_>, agno: AgNumber, _: AgBlock) -> Result<AgBlock> {
        agfl::take(tx, agno)
    }

    fn give_block(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock) -> Result<()> {
        agfl::put(tx, agno, agbno)
    }
}

/// Adds `owner` to `[agbno, agbno + len)` of group `agno`.
pub(crate) fn map(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
    owner: Owner,
) -> Result<()> {
    with_tree(tx, agno, agbno, len, owner, |tx, tree, new| {
        let (left, right) = (left_of(tx, tree, new)?, right_of(tx, tree, new)?);
        Ok(plan::map(*new, left, right))
    })
}

/// Removes `owner` from `[agbno, agbno + len)` of group `agno`.
pub(crate) fn unmap(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
    owner: Owner,
) -> Result<()> {
    if owner == Owner::Anyone {
        return unmap_all(tx, agno, agbno, len);
    }
    with_tree(tx, agno, agbno, len, owner, |tx, tree, gone| {
        let whole = covering(tx, tree, gone)?;
        let edits = whole.and_then(|whole| plan::unmap(*gone, whole));
        edits.ok_or_else(|| missing(tx, agno, gone))
    })
}

/// Removes all owners of `[agbno, agbno + len)` of group `agno`.
fn unmap_all(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock, len: ExtLen) -> Result<()> {
    if !tx.space().geo().features.rmapbt() {
        return Ok(());
    }
    let mut tree = Cursor::new(RmapTree::new(tx, agno)?);
    let last = agbno.0.saturating_add(len.0.saturating_sub(1));
    let (from, to) = ((agbno.0, 0, 0), (last, u64::MAX, u64::MAX));
    for whole in tree.overlapping(tx, from, to, usize::MAX)? {
        let edits = plan::unmap(plan::clip(whole, agbno.0..=last), whole);
        edits::make(tx, &mut tree, &edits.unwrap_or_default())?;
    }
    tree.close(tx);
    Ok(())
}

/// Converts `[agbno, agbno + len)` of group `agno`, which belongs to `owner`, from written to
/// unwritten, or back.
pub(crate) fn convert(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
    owner: Owner,
) -> Result<()> {
    with_tree(tx, agno, agbno, len, owner, |tx, tree, part| {
        let whole = covering(tx, tree, part)?.ok_or_else(|| missing(tx, agno, part))?;
        let (left, right) = (left_of(tx, tree, &whole)?, right_of(tx, tree, &whole)?);
        plan::convert(*part, whole, left, right).ok_or_else(|| missing(tx, agno, part))
    })
}

/// Applies the edits that `decide` returns for the owner's record.
fn with_tree(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
    owner: Owner,
    decide: impl FnOnce(&mut SpaceTx<'_>, &mut Cursor<RmapTree>, &Rec) -> Result<edits::Edits<Rec>>,
) -> Result<()> {
    let Some(raw) = owner.raw() else { return Ok(()) };
    if !tx.space().geo().features.rmapbt() {
        return Ok(());
    }
    let mut tree = Cursor::new(RmapTree::new(tx, agno)?);
    let edits = decide(tx, &mut tree, &plan::rec(agbno, len, raw))?;
    edits::make(tx, &mut tree, &edits)?;
    tree.close(tx);
    Ok(())
}

/// Returns the record that touches `rec` on the left, if there is one.
fn left_of(tx: &mut SpaceTx<'_>, tree: &mut Cursor<RmapTree>, rec: &Rec) -> Result<Option<Rec>> {
    match plan::block_before(rec) {
        Some(before) => covering(tx, tree, &before),
        None => Ok(None),
    }
}

/// Returns the record that touches `rec` on the right, if there is one.
fn right_of(tx: &mut SpaceTx<'_>, tree: &mut Cursor<RmapTree>, rec: &Rec) -> Result<Option<Rec>> {
    tree.seek(tx, plan::key_behind(rec).sort_key(), Seek::Eq)
}

/// Returns the record of which `part` is a part, written or not.
fn covering(tx: &mut SpaceTx<'_>, tree: &mut Cursor<RmapTree>, part: &Rec) -> Result<Option<Rec>> {
    let covers = |whole: &Rec| plan::covers(whole, part);
    let (low, high) = (part.low_key().sort_key(), part.high_key().sort_key());
    let nearest = tree.seek(tx, low, Seek::Le)?.filter(covers);
    if nearest.is_some() || !may_overlap(tx, part) {
        return Ok(nearest);
    }
    Ok(tree.overlapping(tx, high, low, usize::MAX)?.into_iter().find(covers))
}

/// Returns true for blocks that several owners may share: file data.
fn may_overlap(tx: &SpaceTx<'_>, rec: &Rec) -> bool {
    let content = rec.offset.get() & (OFF_ATTR_FORK | OFF_BMBT_BLOCK) == 0;
    tx.space().geo().features.reflink() && rec.inode().is_some() && content
}

/// Returns the corruption for a missing reverse mapping.
fn missing(tx: &SpaceTx<'_>, agno: AgNumber, rec: &Rec) -> Error {
    let space = tx.space();
    let ctx = space.ctx(Tree::Rmap.location(space.geo(), agno, rec.start()));
    let due = format!("{} blocks of owner {:#x}", rec.len(), rec.owner.get());
    ctx.corruption("rmapbt.missing", Expected::Described(due.into()), Value::Missing).into()
}

#[cfg(test)]
mod tests;
