//! Changes of inode records at their cached positions (see `record_cache`).

use std::sync::Arc;

use xfskit_format::agbtree::Tree;
use xfskit_format::btree_edit::Shape;
use xfskit_format::bytes::be32;
use xfskit_format::inobt::{Chunk, Rec};
use xfskit_trans::{Handle, LockPosition};
use xfskit_units::AgIno;

use super::group::InodeGroup;
use crate::error::Result;
use crate::record_cache::{CachedRecord, RecordPosition};
use crate::tx::SpaceTx;

impl RecordPosition {
    /// Returns the position of record `index` of the leaf that the transaction holds as `leaf`.
    pub(super) fn new(tx: &SpaceTx<'_>, (leaf, index): (Handle, usize)) -> Self {
        Self { leaf: Arc::clone(tx.item(leaf)), index }
    }

    /// Returns the leaf, locked, and the record of `tree` there; `None` if the leaf does not hold
    /// one any more.
    fn look(&self, tx: &mut SpaceTx<'_>, tree: Tree) -> Result<Option<(Handle, Chunk)>> {
        let geo = tx.space().geo();
        let shape = Shape::short(tree, geo, 0);
        let holds_it = |bytes: &[u8]| {
            let is_leaf = be32(bytes, 0) == Some(tree.magic(geo)) && shape.level(bytes) == 0;
            is_leaf && self.index < shape.count(bytes)
        };
        let Some(leaf) = tx.join_if(&self.leaf, None, holds_it)? else { return Ok(None) };
        let rec = shape.entry::<Rec>(tx.bytes(leaf), self.index);
        Ok(rec.map(|rec| (leaf, rec.decode(geo))))
    }
}

impl CachedRecord {
    /// Takes the first free inode. Returns `None`, and changes nothing, if the trees must be
    /// searched.
    pub(super) fn alloc(&self, tx: &mut SpaceTx<'_>) -> Result<Option<AgIno>> {
        let mut taken = None;
        let done = self.change(tx, -1, |chunk| {
            taken = chunk.first_free();
            taken.map(|agino| chunk.with_allocated(agino))
        })?;
        Ok(taken.filter(|_| done))
    }

    /// Frees inode `agino` of the chunk. Returns false, and changes nothing, if the trees must be
    /// searched.
    pub(super) fn free(&self, tx: &mut SpaceTx<'_>, agino: AgIno) -> Result<bool> {
        let bit = self.bit_of(agino).unwrap_or(0);
        self.change(tx, 1, |chunk| {
            let freed = Chunk { free: chunk.free | bit, freecount: chunk.freecount + 1, ..*chunk };
            (chunk.used() & bit != 0).then_some(freed)
        })
    }

    /// Applies `change` to the record, in both trees and the AGI, if that does not restructure
    /// either tree.
    fn change(
        &self,
        tx: &mut SpaceTx<'_>,
        free: i64,
        change: impl FnOnce(&Chunk) -> Option<Chunk>,
    ) -> Result<bool> {
        let place = Some(LockPosition::Agi(self.agno));
        let Some(agi) = tx.join_if(&self.agi, place, |_| true)? else { return Ok(false) };
        let Some((inobt, chunk)) = self.inobt.look(tx, Tree::Ino)? else { return Ok(false) };
        let Some((finobt, copy)) = self.finobt.look(tx, Tree::Fino)? else { return Ok(false) };
        let is_it = chunk.startino == self.startino && chunk == copy;
        let Some(new) = change(&chunk).filter(|_| is_it) else { return Ok(false) };
        if chunk.freecount == 0 || new.freecount == 0 || new.freecount >= new.count {
            return Ok(false);
        }
        let geo = tx.space().geo();
        let rec = new.encode(geo);
        for (leaf, position) in [(inobt, &self.inobt), (finobt, &self.finobt)] {
            let shape = Shape::short(Tree::Ino, geo, 0);
            shape.set_entry(&mut tx.image(leaf), position.index, &rec);
        }
        InodeGroup { agno: self.agno, agi }.count(tx, 0, free)?;
        Ok(true)
    }
}
