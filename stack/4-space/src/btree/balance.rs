//! Rebalancing of btree blocks: splitting, shifting and joining blocks, and growing and shrinking
//! the root.
//!
//! All of this happens below one parent. The total contents of a parent do not change, so keys
//! change in that parent alone.

use std::ops::Range;

use crate::btree::cursor::{Cursor, Step, key_of, set_key};
use crate::btree::ops::{BlockRef, BtreeOps, Flaw, RecordOps};
use crate::error::Result;
use crate::tx::SpaceTx;

impl<H: BtreeOps> Cursor<H> {
    // ---- before an insertion -----------------------------------------------------------------

    /// Takes one step towards space in the leaf. Returns true if the tree has changed: the caller
    /// descends and asks again. Returns false if there is space.
    ///
    /// Every step makes space in the highest of a series of full blocks that reaches down to the
    /// leaf, and leaves none of its neighbours full. At most a few steps are needed for each level.
    pub(super) fn make_room(&mut self, tx: &mut SpaceTx<'_>) -> Result<bool> {
        for depth in (0..self.path.len()).rev() {
            if !self.is_full(tx, depth) {
                // There is space above: the block below is split.
                if depth + 1 < self.path.len() {
                    self.split(tx, depth + 1)?;
                    return Ok(true);
                }
                return Ok(false);
            }
            if depth == 0 {
                self.grow_root(tx)?;
            } else if self.move_over(tx, depth)? {
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn is_full(&self, tx: &SpaceTx<'_>, depth: usize) -> bool {
        let step = &self.path[depth];
        step.shape.count(tx.bytes(step.handle)) >= step.shape.max()
    }

    /// Moves entries of a full block to a neighbour that has enough space to be worth the work. It
    /// moves half of that space, so that neither is full afterwards.
    fn move_over(&mut self, tx: &mut SpaceTx<'_>, depth: usize) -> Result<bool> {
        let (parent, step) = (self.path[depth - 1], self.path[depth]);
        let children = parent.shape.count(tx.bytes(parent.handle));
        let (max, full) = (step.shape.max(), step.shape.count(tx.bytes(step.handle)));
        let neighbours = [parent.index.checked_sub(1), Some(parent.index + 1)];
        for index in neighbours.into_iter().flatten().filter(|&index| index < children) {
            let other = self.sibling(tx, depth, index)?;
            let count = other.shape.count(tx.bytes(other.handle));
            let some = max.saturating_sub(count) / 2;
            if some < (max / 16).max(1) {
                tx.release(other.handle);
            } else if index < parent.index {
                move_left(tx, &other, &step, some);
                return Ok(self.rekey(tx, depth, &[(index, other), (parent.index, step)]));
            } else {
                move_right(tx, &step, full - some, &other);
                return Ok(self.rekey(tx, depth, &[(parent.index, step), (index, other)]));
            }
        }
        Ok(false)
    }

    /// Moves the right half of a block into a new one. Its parent has space.
    fn split(&mut self, tx: &mut SpaceTx<'_>, depth: usize) -> Result<()> {
        let (parent, left) = (self.path[depth - 1], self.path[depth]);
        let block = left.block.unwrap_or(0);
        let behind = left.shape.right(tx.bytes(left.handle));
        let count = left.shape.count(tx.bytes(left.handle));
        let (new, handle) = self.tree.alloc(tx, block, left.level)?;
        let right = Step { handle, block: Some(new), ..left };
        move_right(tx, &left, count - count / 2, &right);

        left.shape.set_right(&mut tx.image(left.handle), Some(new));
        right.shape.set_left(&mut tx.image(handle), left.block);
        right.shape.set_right(&mut tx.image(handle), behind);
        self.set_left_of(tx, behind, &left, Some(new))?;

        let at = parent.index + 1;
        let mut image = tx.image(parent.handle);
        parent.shape.open(&mut image, at, 1);
        parent.shape.set_ptr(&mut image, at, new);
        self.rekey(tx, depth, &[(parent.index, left), (at, right)]);
        Ok(())
    }

    /// Puts a root with one child above a full root.
    fn grow_root(&mut self, tx: &mut SpaceTx<'_>) -> Result<()> {
        let root = self.path[0];
        let key = key_of::<H>(tx, &root);
        let Some(block) = root.block else { return self.push_down(tx, &root) };
        let (new, handle) = self.tree.alloc(tx, block, root.level + 1)?;
        let shape = self.tree.shape(tx, root.level + 1);
        let mut image = tx.image(handle);
        shape.open(&mut image, 0, 1);
        shape.set_ptr(&mut image, 0, block);
        if let Some(key) = key {
            shape.set_entry(&mut image, 0, &key);
        }
        self.tree.set_root(tx, new, root.level + 2)
    }

    /// Moves all entries of a root in an inode into a new block, which becomes its only child.
    fn push_down(&mut self, tx: &mut SpaceTx<'_>, root: &Step) -> Result<()> {
        let bytes = tx.bytes(root.handle);
        let count = root.shape.count(bytes);
        let near = root.shape.ptr(bytes, 0).unwrap_or(0);
        let (new, handle) = self.tree.alloc(tx, near, root.level)?;
        let child =
            Step { handle, block: Some(new), shape: self.tree.shape(tx, root.level), ..*root };
        append(tx, &child, 0, root, 0..count);
        let mut image = tx.image(root.handle);
        root.shape.set_level(&mut image, root.level + 1, 1);
        root.shape.set_ptr(&mut image, 0, new);
        Ok(())
    }

    // ---- after a deletion --------------------------------------------------------------------

    /// Fills or joins the blocks on the path that have become too empty, and shrinks the root.
    pub(super) fn make_full(&mut self, tx: &mut SpaceTx<'_>) -> Result<()> {
        for depth in (1..self.path.len()).rev() {
            let step = &self.path[depth];
            let enough = step.shape.count(tx.bytes(step.handle)) >= step.shape.min();
            if enough || !self.refill(tx, depth)? {
                return Ok(());
            }
        }
        self.shrink_root(tx)
    }

    /// Joins a block with a neighbour, or distributes their entries evenly. Returns true if the
    /// parent lost a child.
    fn refill(&mut self, tx: &mut SpaceTx<'_>, depth: usize) -> Result<bool> {
        let (parent, step) = (self.path[depth - 1], self.path[depth]);
        let children = parent.shape.count(tx.bytes(parent.handle));
        // Only the only child of a root in an inode has no sibling, in a valid tree.
        if children < 2 {
            return Ok(depth == 1);
        }
        let at = if parent.index + 1 < children { parent.index } else { parent.index - 1 };
        let other = if at == parent.index { at + 1 } else { at };
        let other = self.sibling(tx, depth, other)?;
        let (left, right) = if at == parent.index { (step, other) } else { (other, step) };
        let mine = left.shape.count(tx.bytes(left.handle));
        let theirs = right.shape.count(tx.bytes(right.handle));
        if mine + theirs <= left.shape.max() {
            self.join(tx, depth, at, &left, &right)?;
            return Ok(true);
        }
        let half = usize::midpoint(mine, theirs);
        if mine < half {
            move_left(tx, &left, &right, half - mine);
        } else {
            move_right(tx, &left, half, &right);
        }
        self.rekey(tx, depth, &[(at, left), (at + 1, right)]);
        Ok(false)
    }

    /// Moves all of `right`, child `at + 1` of its parent, into `left`, child `at`.
    fn join(
        &mut self,
        tx: &mut SpaceTx<'_>,
        depth: usize,
        at: usize,
        left: &Step,
        right: &Step,
    ) -> Result<()> {
        let parent = self.path[depth - 1];
        let count = right.shape.count(tx.bytes(right.handle));
        let behind = right.shape.right(tx.bytes(right.handle));
        move_left(tx, left, right, count);
        left.shape.set_right(&mut tx.image(left.handle), behind);
        self.set_left_of(tx, behind, left, left.block)?;
        parent.shape.close(&mut tx.image(parent.handle), at + 1, 1);
        self.rekey(tx, depth, &[(at, *left)]);
        self.tree.free(tx, right.block.unwrap_or(0), right.handle)
    }

    /// Makes the only child of a root the new root.
    fn shrink_root(&mut self, tx: &mut SpaceTx<'_>) -> Result<()> {
        let mut root = self.path[0];
        while root.level > 0 && root.shape.count(tx.bytes(root.handle)) == 1 {
            let Some(child) = root.shape.ptr(tx.bytes(root.handle), 0) else { return Ok(()) };
            let Some(block) = root.block else { return self.pull_up(tx, &root, child) };
            self.tree.set_root(tx, child, root.level)?;
            self.tree.free(tx, block, root.handle)?;
            root = self.step_to(tx, child, root.level - 1)?;
        }
        Ok(())
    }

    /// Moves the contents of a root's only child into the root in the inode, if they fit. A leaf
    /// stays: the module that knows the fork's other forms takes its records.
    fn pull_up(&mut self, tx: &mut SpaceTx<'_>, root: &Step, child: BlockRef) -> Result<()> {
        if root.level < 2 {
            return Ok(());
        }
        let child = self.step_to(tx, child, root.level - 1)?;
        let count = child.shape.count(tx.bytes(child.handle));
        if count > root.shape.max() {
            return Ok(());
        }
        root.shape.set_level(&mut tx.image(root.handle), child.level, 0);
        append(tx, root, 0, &child, 0..count);
        self.tree.free(tx, child.block.unwrap_or(0), child.handle)
    }

    // ---- shared ------------------------------------------------------------------------------

    /// Reads child `index` of the parent of the block at `depth`.
    fn sibling(&self, tx: &mut SpaceTx<'_>, depth: usize, index: usize) -> Result<Step> {
        let (parent, step) = (self.path[depth - 1], self.path[depth]);
        let Some(block) = parent.shape.ptr(tx.bytes(parent.handle), index) else {
            return Err(self.flaw(tx, depth - 1, Flaw::Numrecs));
        };
        let sibling = self.step_to(tx, block, step.level)?;
        self.verify_between(tx, depth - 1, index, &sibling)?;
        Ok(sibling)
    }

    fn step_to(&self, tx: &mut SpaceTx<'_>, block: BlockRef, level: u16) -> Result<Step> {
        let handle = self.tree.read(tx, block)?;
        let shape = self.tree.shape(tx, level);
        if shape.level(tx.bytes(handle)) != level {
            return Err(self.tree.flaw(tx, Some(block), Flaw::Level));
        }
        Ok(Step { handle, block: Some(block), shape, level, index: 0 })
    }

    /// Sets the left neighbour of `block`, if there is one; it is on the level of `like`.
    fn set_left_of(
        &self,
        tx: &mut SpaceTx<'_>,
        block: Option<BlockRef>,
        like: &Step,
        left: Option<BlockRef>,
    ) -> Result<()> {
        if let Some(block) = block {
            let step = self.step_to(tx, block, like.level)?;
            step.shape.set_left(&mut tx.image(step.handle), left);
        }
        Ok(())
    }

    /// Updates keys of children of the parent of the block at `depth`, and those above.
    fn rekey(&mut self, tx: &mut SpaceTx<'_>, depth: usize, children: &[(usize, Step)]) -> bool {
        let parent = self.path[depth - 1];
        for (index, child) in children {
            set_key::<H>(tx, &parent, *index, child);
        }
        if children.iter().any(|(index, _)| *index == 0) || H::RecordOps::OVERLAPS {
            self.fix_keys(tx, depth - 1);
        }
        true
    }
}

/// Moves the first `some` entries of `right` to the end of `left`.
fn move_left(tx: &mut SpaceTx<'_>, left: &Step, right: &Step, some: usize) {
    let at = left.shape.count(tx.bytes(left.handle));
    append(tx, left, at, right, 0..some);
    right.shape.close(&mut tx.image(right.handle), 0, some);
}

/// Moves the entries of `left` from `from` on to the beginning of `right`.
fn move_right(tx: &mut SpaceTx<'_>, left: &Step, from: usize, right: &Step) {
    let count = left.shape.count(tx.bytes(left.handle));
    append(tx, right, 0, left, from..count);
    left.shape.close(&mut tx.image(left.handle), from, count.saturating_sub(from));
}

/// Inserts entries of `from` at index `at` of `to`.
fn append(tx: &mut SpaceTx<'_>, to: &Step, at: usize, from: &Step, range: Range<usize>) {
    let bytes = tx.snapshot(from.handle);
    let mut image = tx.image(to.handle);
    to.shape.open(&mut image, at, range.len());
    to.shape.copy(&mut image, at, &from.shape, &bytes, &range);
}
