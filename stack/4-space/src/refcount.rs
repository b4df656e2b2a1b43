//! Reference counts: the number of files that share a block, and the staging extents of copy on
//! write.
//!
//! A block that one file maps has no record. A block that `n` files map has a record with the count
//! `n`. The second file therefore makes a record, and the last but one removes it. A block without
//! a record that loses its last file is free. Staging extents of copy on write are allocated and
//! not mapped by any file yet. They are in a domain of their own behind all shared extents. After a
//! crash, the next open of the volume frees them.
//!
//! [`plan`] computes the changes on plain records. This module finds the records in the tree and
//! applies the edits. Volumes without REFLINK have no reference counts.

mod plan;

use std::ops::Range;

use xfskit_format::agbtree::Tree;
use xfskit_format::refcount::{COW_FLAG, Rec};
use xfskit_format::{Expected, Value};
use xfskit_units::{AgBlock, AgNumber, ExtLen, FsBlock};

use crate::agtree::{AgKind, AgTree};
use crate::alloc;
use crate::btree::{Cursor, Seek};
use crate::deferred::Deferred;
use crate::edits;
use crate::error::{Error, Result};
use crate::extent::Owner;
use crate::kinds::Refcounts;
use crate::tx::SpaceTx;

/// The refcountbt of a group.
type RefcountTree = AgTree<Refcounts>;

impl AgKind for Refcounts {
    const TREE: Tree = Tree::Refcount;

    fn take_block(tx: &mut SpaceTx<'_>, agno: AgNumber, near: AgBlock) -> Result<AgBlock> {
        alloc::take_tree_block(tx, agno, near, Owner::Refcount)
    }

    fn give_block(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock) -> Result<()> {
        alloc::give_tree_block(tx, agno, agbno, Owner::Refcount)
    }
}

/// Maximum number of refcountbt records that one change of counts should meet. Each takes some
/// dozen bytes of the journal, or a block if they are far apart.
pub const RECORDS_MAX: usize = 64;

/// Increases the reference count of an extent by one.
pub(crate) fn increase(tx: &mut SpaceTx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    if !tx.space().geo().features.reflink() {
        return Err(Error::Unsupported("sharing blocks on a volume without reflink".into()));
    }
    let (agno, agbno) = tx.space().split_extent(start, len)?;
    let range = plan::shared(agbno, len);
    with_tree(tx, agno, range.clone(), |_, around| Ok(plan::increase(around, range)))
}

/// Decreases the reference count of an extent by one. Blocks that no file maps any more are freed.
pub(crate) fn decrease(tx: &mut SpaceTx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    if !tx.space().geo().features.reflink() {
        return tx.free_extent(start, len, Owner::Unmapped);
    }
    let (agno, agbno) = tx.space().split_extent(start, len)?;
    let range = plan::shared(agbno, len);
    let mut free = Vec::new();
    with_tree(tx, agno, range.clone(), |_, around| {
        let (edits, unmapped) = plan::decrease(around, range);
        free = unmapped;
        Ok(edits)
    })?;
    if free.iter().map(|(_, freed)| freed.0).sum::<u32>() < len.0 {
        tx.note_remapped(start);
    }
    for (agbno, len) in free {
        let start = tx.space().geo().agb_to_fsb(agno, agbno);
        tx.defer(Deferred::Free { start, len, owner: Owner::Unmapped });
    }
    Ok(())
}

/// Records an extent that was allocated for [`Owner::Cow`] as a staging extent.
pub(crate) fn stage(tx: &mut SpaceTx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    let (agno, agbno) = tx.space().split_extent(start, len)?;
    let range = plan::staged(agbno, len);
    with_tree(tx, agno, range.clone(), |tx, around| {
        let found = "some of it";
        plan::stage(around, range)
            .ok_or_else(|| unstaged(tx, agno, agbno, "no staging extent", found.into()))
    })
}

/// Removes the record of a staging extent. The caller removes its reverse mapping.
pub(crate) fn unstage(tx: &mut SpaceTx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    let (agno, agbno) = tx.space().split_extent(start, len)?;
    let range = plan::staged(agbno, len);
    with_tree(tx, agno, range.clone(), |tx, around| {
        plan::unstage(around, range)
            .ok_or_else(|| unstaged(tx, agno, agbno, "a staging extent", Value::Missing))
    })
}

/// Returns the corruption of blocks that are recorded as staging and should not be, or the reverse.
fn unstaged(
    tx: &SpaceTx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    due: &'static str,
    found: Value,
) -> Error {
    let space = tx.space();
    let ctx = space.ctx(Tree::Refcount.location(space.geo(), agno, agbno));
    ctx.corruption("refcountbt.staging", Expected::Described(due.into()), found).into()
}

/// Applies the edits that `decide` returns for the records that overlap or touch `range`.
fn with_tree(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    range: Range<u32>,
    decide: impl FnOnce(&SpaceTx<'_>, &[Rec]) -> Result<edits::Edits<Rec>>,
) -> Result<()> {
    let mut tree = Cursor::new(RefcountTree::new(tx, agno)?);
    let around = touching(tx, &mut tree, &range, usize::MAX)?;
    let edits = decide(tx, &around)?;
    edits::make(tx, &mut tree, &edits)?;
    tree.close(tx);
    Ok(())
}

/// Returns the records that overlap or touch `range`, at most `most`.
fn touching(
    tx: &mut SpaceTx<'_>,
    tree: &mut Cursor<RefcountTree>,
    range: &Range<u32>,
    most: usize,
) -> Result<Vec<Rec>> {
    let mut found = Vec::new();
    // One that begins right at the start may have another that ends there.
    let mut here = match tree.seek(tx, range.start.saturating_sub(1), Seek::Le)? {
        Some(rec) if plan::end(&rec) >= range.start => Some(rec),
        Some(_) => tree.next(tx)?,
        None => tree.first(tx)?,
    };
    while let Some(rec) = here.filter(|rec| rec.startblock.get() <= range.end)
        && found.len() < most
    {
        found.push(rec);
        here = tree.next(tx)?;
    }
    Ok(found)
}

impl SpaceTx<'_> {
    /// Returns the records of the shared domain that overlap or touch an extent, at most `most`,
    /// and the extent.
    fn shares(
        &mut self,
        start: FsBlock,
        len: ExtLen,
        most: usize,
    ) -> Result<(AgNumber, Range<u32>, Vec<Rec>)> {
        let (agno, agbno) = self.space().split_extent(start, len)?;
        let range = plan::shared(agbno, len);
        if !self.space().geo().features.reflink() {
            return Ok((agno, range, Vec::new()));
        }
        let mine = self.holds_agf(agno);
        let mut tree = Cursor::new(RefcountTree::new(self, agno)?);
        let found = touching(self, &mut tree, &range, most)?;
        tree.close(self);
        // A look-up alone releases the AGF, so that other transactions need not wait. An earlier
        // change may hold it unchanged, with blocks of the rmapbt that it has changed.
        if !mine {
            let agf = self.agf(agno)?;
            self.release(agf);
        }
        Ok((agno, range, found))
    }

    /// Returns the first part of `[start, start + len)` (in one group) that several files share:
    /// its first block and length. Returns `None` if no part is shared.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn find_shared(
        &mut self,
        start: FsBlock,
        len: ExtLen,
    ) -> Result<Option<(FsBlock, ExtLen)>> {
        let (agno, range, found) = self.shares(start, len, usize::MAX)?;
        let Some(Range { start, end }) = plan::first_run(&found, &range) else { return Ok(None) };
        let start_fsb = self.space().geo().agb_to_fsb(agno, AgBlock(start));
        Ok(Some((start_fsb, ExtLen(end.saturating_sub(start)))))
    }

    /// Returns how many blocks from `start` on, at most `len`, can have their counts changed in one
    /// transaction: the part that meets no more than [`RECORDS_MAX`] records. At least 1.
    ///
    /// # Errors
    /// As [`find_shared`](Self::find_shared).
    pub fn refcount_reach(&mut self, start: FsBlock, len: ExtLen) -> Result<ExtLen> {
        let (_, range, found) = self.shares(start, len, RECORDS_MAX + 1)?;
        let stop = found.get(RECORDS_MAX).map_or(range.end, |rec| rec.startblock.get());
        Ok(ExtLen(stop.clamp(range.start, range.end).saturating_sub(range.start).max(1)))
    }

    /// Defers the freeing of a few staging extents of group `agno` that a crash left behind.
    /// Returns false if there are none left.
    ///
    /// # Errors
    /// As [`find_shared`](Self::find_shared).
    pub fn free_some_staging(&mut self, agno: AgNumber) -> Result<bool> {
        let mut tree = Cursor::new(RefcountTree::new(self, agno)?);
        let staged = touching(self, &mut tree, &(COW_FLAG..u32::MAX), RECORDS_MAX)?;
        tree.close(self);
        for rec in &staged {
            let (start, len) = (self.space().geo().agb_to_fsb(agno, rec.start()), rec.len());
            self.defer(Deferred::CowFree { start, len });
            self.defer(Deferred::Free { start, len, owner: Owner::Unmapped });
        }
        Ok(!staged.is_empty())
    }
}

#[cfg(test)]
mod tests;
