//! The cursor: a position in a tree, found from the root; walking, and changing one record.

use std::cmp::Ordering;

use xfskit_format::btree_edit::Shape;
use xfskit_trans::Handle;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::btree::ops::{BlockRef, BtreeOps, Flaw, RecordOps, Root};
use crate::error::{Error, Result};
use crate::tx::SpaceTx;

/// The record that a look-up selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The last record at or before the position.
    Le,
    /// The record at the position.
    Eq,
    /// The first record at or behind the position.
    Ge,
}

pub(super) type Rec<H> = <<H as BtreeOps>::RecordOps as RecordOps>::Rec;
pub(super) type Key<H> = <<H as BtreeOps>::RecordOps as RecordOps>::Key;
pub(super) type Pos<H> = <<H as BtreeOps>::RecordOps as RecordOps>::Pos;

/// One block on the path from the root to a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub handle: Handle,
    /// The block; `None` for a root in an inode.
    pub block: Option<BlockRef>,
    pub shape: Shape,
    pub level: u16,
    /// The entry on the path; in a leaf, the record.
    pub index: usize,
}

/// A position in a tree.
#[derive(Debug)]
pub struct Cursor<H: BtreeOps> {
    pub(super) tree: H,
    /// From the root to the leaf; empty if the cursor has no position.
    pub(super) path: Vec<Step>,
    /// The previous path, while a new one is found. Blocks on both are not looked up again.
    before: Vec<Step>,
}

impl<H: BtreeOps> Cursor<H> {
    /// Returns a cursor without a position.
    pub fn new(tree: H) -> Self {
        Self { tree, path: Vec::new(), before: Vec::new() }
    }

    /// Returns the tree.
    pub fn tree(&self) -> &H {
        &self.tree
    }

    /// Moves to the record that `how` selects and returns it. Returns `None` if there is none; the
    /// cursor then stays near, at no record.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn seek(&mut self, tx: &mut SpaceTx<'_>, pos: Pos<H>, how: Seek) -> Result<Option<Rec<H>>> {
        self.descend_to(tx, pos)?;
        let here = self.get(tx);
        let found = here.as_ref().map(|rec| H::RecordOps::rec_pos(rec).cmp(&pos));
        match (how, found) {
            (_, Some(Ordering::Equal)) | (Seek::Ge, Some(_)) => Ok(here),
            (Seek::Eq, _) => Ok(None),
            // Behind the last record of a leaf: the next record is the first of the next leaf.
            (Seek::Ge, None) => self.step_over(tx),
            (Seek::Le, _) => self.prev(tx),
        }
    }

    /// Moves to the first record.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn first(&mut self, tx: &mut SpaceTx<'_>) -> Result<Option<Rec<H>>> {
        self.descend(tx, |_, _| 0)?;
        Ok(self.get(tx))
    }

    /// Moves to the last record.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn last(&mut self, tx: &mut SpaceTx<'_>) -> Result<Option<Rec<H>>> {
        self.descend(tx, |bytes, step| step.shape.count(bytes).saturating_sub(1))?;
        Ok(self.get(tx))
    }

    /// Returns the record at the cursor; `None` if it is at none.
    pub fn get(&self, tx: &SpaceTx<'_>) -> Option<Rec<H>> {
        let leaf = self.path.last()?;
        let bytes = tx.bytes(leaf.handle);
        (leaf.index < leaf.shape.count(bytes)).then(|| leaf.shape.entry(bytes, leaf.index))?
    }

    /// Returns the leaf of the cursor, locked, and the index of its record there.
    pub fn position(&self) -> Option<(Handle, usize)> {
        self.path.last().map(|leaf| (leaf.handle, leaf.index))
    }

    /// Moves to the next record. At the end it returns `None` and stays where it is.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn next(&mut self, tx: &mut SpaceTx<'_>) -> Result<Option<Rec<H>>> {
        let Some(before) = self.get(tx) else { return Ok(None) };
        let Some(leaf) = self.path.last_mut() else { return Ok(None) };
        let in_leaf = leaf.index + 1 < leaf.shape.count(tx.bytes(leaf.handle));
        let next = if in_leaf {
            leaf.index += 1;
            self.get(tx)
        } else {
            self.step_over(tx)?
        };
        self.verify_order(tx, next.map(|next| (before, next)))?;
        Ok(next)
    }

    /// Moves to the previous record. At the beginning it returns `None` and stays where it is.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn prev(&mut self, tx: &mut SpaceTx<'_>) -> Result<Option<Rec<H>>> {
        let behind = self.get(tx);
        let Some(leaf) = self.path.last_mut() else { return Ok(None) };
        let before = if leaf.index > 0 {
            leaf.index -= 1;
            self.get(tx)
        } else {
            let Some(depth) = self.path.iter().rposition(|step| step.index > 0) else {
                return Ok(None);
            };
            self.path[depth].index -= 1;
            self.extend(tx, depth, |bytes, step| step.shape.count(bytes).saturating_sub(1))?;
            self.get(tx)
        };
        self.verify_order(tx, before.zip(behind))?;
        Ok(before)
    }

    /// Moves from the last record of a leaf to the first of the next one.
    fn step_over(&mut self, tx: &mut SpaceTx<'_>) -> Result<Option<Rec<H>>> {
        let nodes = self.path.len().saturating_sub(1);
        let more = |step: &Step| step.index + 1 < step.shape.count(tx.bytes(step.handle));
        let Some(depth) = self.path[..nodes].iter().rposition(more) else { return Ok(None) };
        self.path[depth].index += 1;
        self.extend(tx, depth, |_, _| 0)?;
        Ok(self.get(tx))
    }

    fn verify_order(&self, tx: &SpaceTx<'_>, pair: Option<(Rec<H>, Rec<H>)>) -> Result<()> {
        match pair {
            Some((left, right))
                if H::RecordOps::rec_pos(&left) >= H::RecordOps::rec_pos(&right) =>
            {
                Err(self.flaw(tx, self.path.len() - 1, Flaw::Order))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn flaw(&self, tx: &SpaceTx<'_>, depth: usize, flaw: Flaw) -> Error {
        self.tree.flaw(tx, self.path.get(depth).and_then(|step| step.block), flaw)
    }

    // ---- the descent -------------------------------------------------------------------------

    /// Moves to the leaf for `pos`, and there to the first record at or behind it.
    pub(super) fn descend_to(&mut self, tx: &mut SpaceTx<'_>, pos: Pos<H>) -> Result<()> {
        self.descend(tx, |bytes, step| {
            if step.level == 0 {
                let recs = step.shape.entries::<Rec<H>>(bytes);
                recs.partition_point(|rec| H::RecordOps::rec_pos(rec) < pos)
            } else {
                let keys = step.shape.entries::<Key<H>>(bytes);
                keys.partition_point(|key| H::RecordOps::key_pos(key) <= pos).saturating_sub(1)
            }
        })
    }

    /// Descends from the root to a leaf, through the entries that `pick` selects.
    fn descend(
        &mut self,
        tx: &mut SpaceTx<'_>,
        pick: impl Fn(&[u8], &Step) -> usize,
    ) -> Result<()> {
        std::mem::swap(&mut self.path, &mut self.before);
        self.path.clear();
        let result = self.enter_root(tx, &pick).and_then(|()| self.extend(tx, 0, pick));
        for step in self.before.drain(..) {
            let still = self.path.iter().any(|now| now.handle == step.handle);
            if step.block.is_some() && !still {
                tx.release(step.handle);
            }
        }
        result
    }

    pub(super) fn enter_root(
        &mut self,
        tx: &mut SpaceTx<'_>,
        pick: &impl Fn(&[u8], &Step) -> usize,
    ) -> Result<()> {
        match self.tree.root(tx)? {
            Root::Block(block, levels) => self.enter(tx, block, levels.saturating_sub(1), pick),
            Root::Inode(handle, shape) => {
                let level = shape.level(tx.bytes(handle));
                let mut step = Step { handle, block: None, shape, level, index: 0 };
                step.index = pick(tx.bytes(handle), &step);
                self.path.push(step);
                Ok(())
            }
        }
    }

    /// Returns the step for `block`, read, or taken over from the previous path.
    fn step_at(&self, tx: &mut SpaceTx<'_>, block: BlockRef, level: u16) -> Result<Step> {
        let known = self.before.get(self.path.len());
        let known = known.filter(|step| step.block == Some(block) && step.level == level);
        if let Some(step) = known {
            return Ok(*step);
        }
        let handle = self.tree.read(tx, block)?;
        let shape = self.tree.shape(tx, level);
        Ok(Step { handle, block: Some(block), shape, level, index: 0 })
    }

    /// Reads a block, which must be of `level`, as the next step.
    fn enter(
        &mut self,
        tx: &mut SpaceTx<'_>,
        block: BlockRef,
        level: u16,
        pick: &impl Fn(&[u8], &Step) -> usize,
    ) -> Result<()> {
        let mut step = self.step_at(tx, block, level)?;
        let (handle, shape) = (step.handle, step.shape);
        let bytes = tx.bytes(handle);
        step.index = pick(bytes, &step);
        let (found, count) = (shape.level(bytes), shape.count(bytes));
        self.path.push(step);
        let depth = self.path.len() - 1;
        if found != level {
            return Err(self.flaw(tx, depth, Flaw::Level));
        }
        if count == 0 && depth > 0 {
            return Err(self.flaw(tx, depth, Flaw::Numrecs));
        }
        Ok(())
    }

    /// Replaces the path below the step at `depth` by the path down to a leaf.
    fn extend(
        &mut self,
        tx: &mut SpaceTx<'_>,
        depth: usize,
        pick: impl Fn(&[u8], &Step) -> usize,
    ) -> Result<()> {
        for step in self.path.drain(depth + 1..) {
            tx.release(step.handle);
        }
        while let Some(&step) = self.path.last()
            && step.level > 0
        {
            self.enter_child(tx, self.path.len() - 1, step.index, &pick)?;
        }
        Ok(())
    }

    /// Reads child `index` of the block at `depth`, the last so far, as the next step.
    pub(super) fn enter_child(
        &mut self,
        tx: &mut SpaceTx<'_>,
        depth: usize,
        index: usize,
        pick: &impl Fn(&[u8], &Step) -> usize,
    ) -> Result<()> {
        let step = self.path[depth];
        let bytes = tx.bytes(step.handle);
        let there = index < step.shape.count(bytes);
        match step.shape.ptr(bytes, index).filter(|_| there) {
            Some(child) => self.enter(tx, child, step.level - 1, pick)?,
            None => return Err(self.flaw(tx, depth, Flaw::Numrecs)),
        }
        let child = self.path[depth + 1];
        self.verify_between(tx, depth, index, &child)
    }

    /// Fails if `child`, entry `index` of the block at `depth`, holds a record outside of the range
    /// that the keys above it allow.
    pub(super) fn verify_between(
        &self,
        tx: &SpaceTx<'_>,
        depth: usize,
        index: usize,
        child: &Step,
    ) -> Result<()> {
        let key =
            |step: &Step, index| entry_pos::<H, Key<H>>(tx, step, index, H::RecordOps::key_pos);
        let place = |index| match child.level {
            0 => entry_pos::<H, Rec<H>>(tx, child, index, H::RecordOps::rec_pos),
            _ => key(child, index),
        };
        let last = child.shape.count(tx.bytes(child.handle)).checked_sub(1);
        let (Some(first), Some(last)) = (place(0), last.and_then(place)) else { return Ok(()) };
        let above = self.path[..depth].iter().rev().map(|step| key(step, step.index + 1));
        let next = std::iter::once(key(&self.path[depth], index + 1)).chain(above).flatten().next();
        let within = key(&self.path[depth], index).is_none_or(|key| key <= first)
            && next.is_none_or(|next| last < next);
        if within { Ok(()) } else { Err(self.tree.flaw(tx, child.block, Flaw::Key)) }
    }

    /// Ends the cursor and releases blocks that it did not change.
    pub fn close(mut self, tx: &mut SpaceTx<'_>) {
        self.leave(tx);
    }

    pub(super) fn leave(&mut self, tx: &mut SpaceTx<'_>) {
        for step in self.path.drain(..) {
            if step.block.is_some() {
                tx.release(step.handle);
            }
        }
    }

    // ---- changing ----------------------------------------------------------------------------

    /// Replaces the record at the cursor by `rec`, which must be between its neighbours.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    ///
    /// # Panics
    /// If the cursor is at no record.
    pub fn update(&mut self, tx: &mut SpaceTx<'_>, rec: &Rec<H>) -> Result<()> {
        let before = self.get(tx).expect("a cursor at a record");
        let leaf = self.path[self.path.len() - 1];
        leaf.shape.set_entry(&mut tx.image(leaf.handle), leaf.index, rec);
        if H::RecordOps::key(&before) != H::RecordOps::key(rec) {
            self.entry_changed(tx);
        }
        Ok(())
    }

    /// Returns true if `rec` may replace the record at the cursor. Only the cursor's block is
    /// examined; if that is not enough, the result is false.
    pub fn stays_in_order(&self, tx: &SpaceTx<'_>, rec: &Rec<H>) -> bool {
        let Some(leaf) = self.path.last() else { return false };
        let recs = leaf.shape.entries::<Rec<H>>(tx.bytes(leaf.handle));
        let pos = H::RecordOps::rec_pos(rec);
        let above =
            |left: usize| recs.get(left).is_some_and(|left| H::RecordOps::rec_pos(left) < pos);
        let below = |right: &Rec<H>| pos < H::RecordOps::rec_pos(right);
        // The last record of all has nothing behind it.
        let right = match recs.get(leaf.index + 1) {
            Some(right) => below(right),
            None => leaf.shape.right(tx.bytes(leaf.handle)).is_none(),
        };
        let left = match leaf.index.checked_sub(1) {
            Some(left) => above(left),
            None => leaf.shape.left(tx.bytes(leaf.handle)).is_none(),
        };
        left && right
    }

    /// Inserts `rec`, wherever the cursor is, and moves the cursor to it. A record at the same
    /// position is [`Error::Corrupt`].
    ///
    /// # Errors
    /// As [`seek`](Self::seek), and [`Error::NoSpace`] if the tree must grow and cannot.
    pub fn insert(&mut self, tx: &mut SpaceTx<'_>, rec: &Rec<H>) -> Result<()> {
        let pos = H::RecordOps::rec_pos(rec);
        loop {
            self.descend_to(tx, pos)?;
            if self.get(tx).is_some_and(|here| H::RecordOps::rec_pos(&here) == pos) {
                return Err(self.flaw(tx, self.path.len() - 1, Flaw::Order));
            }
            if !self.make_room(tx)? {
                break;
            }
        }
        let leaf = self.path[self.path.len() - 1];
        let mut image = tx.image(leaf.handle);
        leaf.shape.open(&mut image, leaf.index, 1);
        leaf.shape.set_entry(&mut image, leaf.index, rec);
        self.entry_changed(tx);
        Ok(())
    }

    /// Deletes the record at the cursor. The cursor has no position afterwards:
    /// [`seek`](Self::seek) again.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    ///
    /// # Panics
    /// If the cursor is at no record.
    pub fn delete(&mut self, tx: &mut SpaceTx<'_>) -> Result<()> {
        assert!(self.get(tx).is_some(), "a cursor at a record");
        let leaf = self.path[self.path.len() - 1];
        leaf.shape.close(&mut tx.image(leaf.handle), leaf.index, 1);
        self.entry_changed(tx);
        self.make_full(tx)?;
        self.leave(tx);
        Ok(())
    }

    /// Updates the keys above the cursor after its record was inserted, changed or deleted.
    fn entry_changed(&mut self, tx: &mut SpaceTx<'_>) {
        let leaf = self.path.len() - 1;
        if self.path[leaf].index == 0 || H::RecordOps::OVERLAPS {
            self.fix_keys(tx, leaf);
        }
    }

    /// Updates the keys above the block at `depth`.
    pub(super) fn fix_keys(&mut self, tx: &mut SpaceTx<'_>, depth: usize) {
        for child in (1..=depth).rev() {
            let (parent, step) = (self.path[child - 1], self.path[child]);
            let changed = set_key::<H>(tx, &parent, parent.index, &step);
            if !changed || (parent.index > 0 && !H::RecordOps::OVERLAPS) {
                break;
            }
        }
    }
}

/// Returns the position of entry `index` of a block in the order, if there is one.
fn entry_pos<H: BtreeOps, T: FromBytes + KnownLayout + Immutable + Unaligned + Copy>(
    tx: &SpaceTx<'_>,
    step: &Step,
    index: usize,
    pos: impl Fn(&T) -> Pos<H>,
) -> Option<Pos<H>> {
    let bytes = tx.bytes(step.handle);
    let there = index < step.shape.count(bytes);
    step.shape.entry::<T>(bytes, index).filter(|_| there).map(|entry| pos(&entry))
}

/// Returns the key of all records in a block; `None` if it is empty.
pub(super) fn key_of<H: BtreeOps>(tx: &SpaceTx<'_>, step: &Step) -> Option<Key<H>> {
    let bytes = tx.bytes(step.handle);
    if step.level == 0 {
        fold::<H>(step.shape.entries::<Rec<H>>(bytes).iter().map(H::RecordOps::key))
    } else {
        fold::<H>(step.shape.entries::<Key<H>>(bytes).iter().copied())
    }
}

fn fold<H: BtreeOps>(mut keys: impl Iterator<Item = Key<H>>) -> Option<Key<H>> {
    let first = keys.next()?;
    if !H::RecordOps::OVERLAPS {
        return Some(first);
    }
    Some(keys.fold(first, |span, key| H::RecordOps::span(span, &key)))
}

/// Sets key `index` of `parent` to that of `child`; returns true if it was another.
pub(super) fn set_key<H: BtreeOps>(
    tx: &mut SpaceTx<'_>,
    parent: &Step,
    index: usize,
    child: &Step,
) -> bool {
    let Some(key) = key_of::<H>(tx, child) else { return false };
    if parent.shape.entry::<Key<H>>(tx.bytes(parent.handle), index) == Some(key) {
        return false;
    }
    parent.shape.set_entry(&mut tx.image(parent.handle), index, &key);
    true
}
