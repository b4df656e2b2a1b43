//! A cache of the tree position of the record that a group's last inode was allocated from or freed
//! to. The next inode is mostly of the same chunk, and neither tree need be searched.
//!
//! 1. A cached position is a hint. A caller that holds the AGI verifies that both blocks are still
//!    leaves of their trees with that record at that index, and searches if they are not.
//! 2. Only changes that do not restructure either tree are made here: the record has free inodes
//!    before and after, and inodes in use.
//! 3. Cached blocks stay in memory, so only the few most recent groups are cached.

use std::sync::Arc;

use xfskit_format::agbtree::Tree;
use xfskit_format::btree_edit::Shape;
use xfskit_format::bytes::be32;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK, Rec};
use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_trans::{Handle, LockPosition, LogItem};
use xfskit_units::{AgIno, AgNumber, Ino, index};

use super::Group;
use crate::error::Result;
use crate::tx::Tx;

/// Number of groups that are cached at once.
const GROUPS: usize = 64;

/// The cached positions of all groups.
#[derive(Debug)]
pub(crate) struct RecordCache {
    /// By group number, modulo the number of slots; rank [`LockRank::Leaf`].
    slots: Vec<RankedMutex<Slot>>,
}

impl Default for RecordCache {
    fn default() -> Self {
        let slot = || RankedMutex::new(LockRank::Leaf, Slot::default());
        Self { slots: (0..GROUPS).map(|_| slot()).collect() }
    }
}

/// The cached positions of one group, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    /// The directory that the last inode was allocated for, and its record.
    last_alloc: Option<(Ino, Arc<CachedRecord>)>,
    /// The record that the last inode was freed to.
    last_free: Option<Arc<CachedRecord>>,
}

impl RecordCache {
    fn slot(&self, agno: AgNumber) -> &RankedMutex<Slot> {
        &self.slots[index(agno.0.into()) % GROUPS]
    }

    /// Returns the record of the group's last allocation, if that was near `parent`.
    pub(super) fn last_alloc(&self, agno: AgNumber, parent: Ino) -> Option<Arc<CachedRecord>> {
        let slot = self.slot(agno).lock();
        let (near, known) = slot.last_alloc.as_ref()?;
        (*near == parent && known.agno == agno).then(|| Arc::clone(known))
    }

    /// Returns the record of the group's last freeing, if that was in the chunk of `agino`.
    pub(super) fn last_free(&self, agno: AgNumber, agino: AgIno) -> Option<Arc<CachedRecord>> {
        let slot = self.slot(agno).lock();
        let known = slot.last_free.as_ref()?;
        (known.agno == agno && known.bit_of(agino).is_some()).then(|| Arc::clone(known))
    }

    /// Records an allocation near `parent` from `known`.
    pub(super) fn note_alloc(&self, parent: Ino, known: Arc<CachedRecord>) {
        let mut slot = self.slot(known.agno).lock();
        slot.last_alloc = Some((parent, known));
    }

    /// Records a freeing to `known`.
    pub(super) fn note_free(&self, known: Arc<CachedRecord>) {
        let mut slot = self.slot(known.agno).lock();
        slot.last_free = Some(known);
    }
}

/// The position of a record in its leaf.
#[derive(Clone, Debug)]
pub(super) struct RecordPosition {
    leaf: Arc<LogItem>,
    index: usize,
}

impl RecordPosition {
    /// Returns the position of record `index` of the leaf that the transaction holds as `leaf`.
    pub(super) fn new(tx: &Tx<'_>, (leaf, index): (Handle, usize)) -> Self {
        Self { leaf: Arc::clone(tx.item(leaf)), index }
    }

    /// Returns the leaf, locked, and the record of `tree` there; `None` if the leaf does not hold
    /// one any more.
    fn look(&self, tx: &mut Tx<'_>, tree: Tree) -> Result<Option<(Handle, Chunk)>> {
        let geo = tx.volume().geo();
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

/// The record of a chunk, in both trees.
#[derive(Debug)]
pub(super) struct CachedRecord {
    pub(super) agno: AgNumber,
    pub(super) agi: Arc<LogItem>,
    pub(super) startino: AgIno,
    pub(super) inobt: RecordPosition,
    pub(super) finobt: RecordPosition,
}

impl CachedRecord {
    fn bit_of(&self, agino: AgIno) -> Option<u64> {
        let ahead = agino.0.checked_sub(self.startino.0)?;
        (ahead < INODES_PER_CHUNK).then(|| 1 << ahead)
    }

    /// Takes the first free inode. Returns `None`, and changes nothing, if the trees must be
    /// searched.
    pub(super) fn alloc(&self, tx: &mut Tx<'_>) -> Result<Option<AgIno>> {
        let mut taken = None;
        let done = self.change(tx, -1, |chunk| {
            taken = chunk.first_free();
            taken.map(|agino| chunk.with_allocated(agino))
        })?;
        Ok(taken.filter(|_| done))
    }

    /// Frees inode `agino` of the chunk. Returns false, and changes nothing, if the trees must be
    /// searched.
    pub(super) fn free(&self, tx: &mut Tx<'_>, agino: AgIno) -> Result<bool> {
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
        tx: &mut Tx<'_>,
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
        let geo = tx.volume().geo();
        let rec = new.encode(geo);
        for (leaf, position) in [(inobt, &self.inobt), (finobt, &self.finobt)] {
            let shape = Shape::short(Tree::Ino, geo, 0);
            shape.set_entry(&mut tx.image(leaf), position.index, &rec);
        }
        Group { agno: self.agno, agi }.count(tx, 0, free)?;
        Ok(true)
    }
}
