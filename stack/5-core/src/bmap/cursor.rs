//! A position in a fork's map, and changes of the tree there.
//!
//! A cursor is positioned between two extents: all before it begin at or before the block that was
//! looked up. The path from the root (in the inode) to the leaf names blocks by number and children
//! by index. Blocks are locked only when they are changed. A change that restructures the tree ends
//! with a new look-up. That costs a few steps in memory and avoids updating the path.
//!
//! 1. Every block is at least half full, except the only child of the root.
//! 2. A fork whose extents fit without a tree has none.
//! 3. A parent's key is its child's first key.
//!
//! A map of the kernel that violates 1 is used as it is.

use xfskit_format::bmbt::edit::{self, Identity, Node, Slot};
use xfskit_format::bmbt::{self, Extent};
use xfskit_format::inode::Format;
use xfskit_format::{Fork, Image};
use xfskit_trans::BufMap;
use xfskit_units::{FileOff, FsBlock};

use super::blocks;
use super::node::{Due, ForkOf, count_blocks};
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// One node on the way down.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Its block; `None` for the root.
    block: Option<FsBlock>,
    /// In a node the child that is descended to; in a leaf the number of extents before the cursor.
    index: usize,
}

/// A position in a fork's map.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    of: ForkOf,
    /// Root first, leaf last.
    path: Vec<Step>,
}

/// The side on which a sibling is.
#[derive(Clone, Copy, Debug)]
enum Side {
    Left,
    Right,
}

/// Descends to the leaf for `fileoff` and passes the steps to `each`. Returns the last extent in
/// the leaf that begins at or before it. The order within each block of the path, and from block to
/// block, is verified.
fn descend(
    tx: &Tx<'_>,
    of: ForkOf,
    fileoff: FileOff,
    mut each: impl FnMut(Step),
) -> Result<Option<Slot>> {
    let ctx = of.ctx(tx);
    let (mut block, mut due) = (None, None::<Due>);
    loop {
        let (index, slot, below) = of.look(tx, block, |bytes, node| -> Result<_> {
            match &due {
                Some(due) => due.verify(&ctx, bytes, node)?,
                None if node.level == 0 => bmbt::verify_order(&ctx, node.recs(bytes))?,
                None => {}
            }
            let upto = node.upto(bytes, fileoff);
            let before = upto.checked_sub(1);
            if node.level == 0 {
                return Ok((upto, before.and_then(|at| node.slot(bytes, at)), None));
            }
            // Blocks before the first child's key belong to the first child.
            let index = before.unwrap_or(0);
            let end = due.map_or(FileOff(u64::MAX), |due| due.end());
            Ok((index, node.slot(bytes, index), Due::of_child(bytes, node, index, end)))
        })??;
        each(Step { block, index });
        match (slot, below) {
            (Some(slot), Some(below)) => (block, due) = (Some(slot.child()), Some(below)),
            _ => return Ok(slot),
        }
    }
}

/// Returns the extent in a leaf's slot, verified.
fn verified(tx: &Tx<'_>, of: ForkOf, slot: Slot) -> Result<Extent> {
    let extent = slot.extent();
    let rules = bmbt::ExtentRules::of(&tx.core(of.inode), of.fork);
    extent.verify(&of.ctx(tx), rules)?;
    Ok(extent)
}

/// Returns the extent that covers block `fileoff`, in one descent.
pub(super) fn covering(
    tx: &Tx<'_>,
    inode: TxInode,
    fork: Fork,
    fileoff: FileOff,
) -> Result<Option<Extent>> {
    let of = ForkOf { inode, fork };
    let Some(slot) = descend(tx, of, fileoff, |_| ())? else { return Ok(None) };
    let extent = verified(tx, of, slot)?;
    Ok(Some(extent).filter(|extent| fileoff < extent.end()))
}

/// Returns the first `count` extents of a fork, or all if there are fewer, in one descent for each
/// leaf.
pub(super) fn first(tx: &Tx<'_>, inode: TxInode, fork: Fork, count: usize) -> Result<Vec<Extent>> {
    let of = ForkOf { inode, fork };
    let (ctx, rules) = (of.ctx(tx), bmbt::ExtentRules::of(&tx.core(inode), fork));
    let mut cursor = Cursor::seek(tx, inode, fork, FileOff::ZERO)?;
    let mut found = Vec::new();
    loop {
        for slot in of.slots(tx, cursor.leaf().block)?.iter().take(count - found.len()) {
            let extent = slot.extent();
            extent.verify(&ctx, rules)?;
            found.push(extent);
        }
        if found.len() == count {
            return Ok(found);
        }
        let Some(next) = cursor.next_leaf(tx)? else { return Ok(found) };
        cursor = next;
    }
}

// ---- moving ----------------------------------------------------------------------------------

impl Cursor {
    /// Positions a cursor behind the last extent that begins at or before `fileoff`.
    pub(super) fn seek(tx: &Tx<'_>, inode: TxInode, fork: Fork, fileoff: FileOff) -> Result<Self> {
        let mut cursor = Self { of: ForkOf { inode, fork }, path: Vec::with_capacity(4) };
        cursor.descend(tx, fileoff)?;
        Ok(cursor)
    }

    fn descend(&mut self, tx: &Tx<'_>, fileoff: FileOff) -> Result<()> {
        self.path.clear();
        let path = &mut self.path;
        descend(tx, self.of, fileoff, |step| path.push(step)).map(drop)
    }

    fn leaf(&self) -> Step {
        // A path begins with the root.
        self.path.last().copied().unwrap_or(Step { block: None, index: 0 })
    }

    fn extent_at(&self, tx: &Tx<'_>, index: usize) -> Result<Option<Extent>> {
        let slot = self.of.look(tx, self.leaf().block, |bytes, node| node.slot(bytes, index))?;
        slot.map(|slot| verified(tx, self.of, slot)).transpose()
    }

    /// Returns the extent before the cursor.
    pub(super) fn before(&self, tx: &Tx<'_>) -> Result<Option<Extent>> {
        match self.leaf().index.checked_sub(1) {
            Some(index) => self.extent_at(tx, index),
            None => Ok(None),
        }
    }

    /// Returns the extent behind the cursor.
    pub(super) fn after(&self, tx: &Tx<'_>) -> Result<Option<Extent>> {
        if let Some(extent) = self.extent_at(tx, self.leaf().index)? {
            return Ok(Some(extent));
        }
        match self.next_leaf(tx)? {
            Some(next) => next.extent_at(tx, 0),
            None => Ok(None),
        }
    }

    /// Returns the same position as seen from the leaf to the right; `None` if there is none.
    fn next_leaf(&self, tx: &Tx<'_>) -> Result<Option<Self>> {
        for depth in (0..self.path.len().saturating_sub(1)).rev() {
            let Step { block, index } = self.path[depth];
            let key = self.of.look(tx, block, |bytes, node| node.key(bytes, index + 1))?;
            if let Some(key) = key {
                let mut next = Self::seek(tx, self.of.inode, self.of.fork, key)?;
                if let Some(leaf) = next.path.last_mut() {
                    leaf.index = 0;
                }
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Steps over the extent behind the cursor; returns false at the end of the map.
    pub(super) fn forward(&mut self, tx: &Tx<'_>) -> Result<bool> {
        if self.extent_at(tx, self.leaf().index)?.is_none() {
            match self.next_leaf(tx)? {
                Some(next) => *self = next,
                None => return Ok(false),
            }
        }
        if let Some(leaf) = self.path.last_mut() {
            leaf.index += 1;
        }
        Ok(true)
    }
}

// ---- changing --------------------------------------------------------------------------------

impl Cursor {
    /// Replaces the extent before the cursor by another one that keeps the order.
    pub(super) fn replace(&mut self, tx: &mut Tx<'_>, extent: &Extent) -> Result<()> {
        let Step { block, index } = self.leaf();
        let index = index.saturating_sub(1);
        let slot = Slot::of_extent(extent);
        self.of.edit(tx, block, |image, node| node.put(image, index, slot))?;
        self.fix_keys(tx, self.path.len() - 1, index, extent.startoff)
    }

    /// Inserts an extent at the cursor, and moves the cursor behind it.
    pub(super) fn insert(&mut self, tx: &mut Tx<'_>, extent: &Extent) -> Result<()> {
        while self.make_room(tx, self.path.len() - 1)? {
            self.descend(tx, extent.startoff)?;
        }
        let Step { block, index } = self.leaf();
        let slot = Slot::of_extent(extent);
        self.of.edit(tx, block, |image, node| node.insert(image, index, &[slot]))?;
        self.of.count_extents(tx, 1)?;
        self.fix_keys(tx, self.path.len() - 1, index, extent.startoff)?;
        if let Some(leaf) = self.path.last_mut() {
            leaf.index += 1;
        }
        Ok(())
    }

    /// Removes the extent before the cursor.
    pub(super) fn remove(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let Step { block, index } = self.leaf();
        let index = index.saturating_sub(1);
        let (start, first) = self.of.edit(tx, block, |image, node| {
            let start = node.key(image.bytes(), index);
            node.remove(image, index, 1);
            (start, node.key(image.bytes(), 0))
        })?;
        self.of.count_extents(tx, -1)?;
        if let Some(leaf) = self.path.last_mut() {
            leaf.index = index;
        }
        if let Some(first) = first {
            self.fix_keys(tx, self.path.len() - 1, index, first)?;
        }
        let restructured = self.balance(tx, self.path.len() - 1)?;
        if flatten_if_small(tx, self.of)? || restructured {
            // The former start of the extent; its predecessor is before the cursor.
            let at = start.unwrap_or(FileOff::ZERO);
            self.descend(tx, at)?;
        }
        Ok(())
    }

    /// Propagates `key`, the new first key of slot `index` of the node at `depth`, to the parents,
    /// if it is the first slot.
    fn fix_keys(
        &self,
        tx: &mut Tx<'_>,
        depth: usize,
        mut index: usize,
        key: FileOff,
    ) -> Result<()> {
        for step in self.path[..depth].iter().rev() {
            if index > 0 {
                break;
            }
            index = step.index;
            self.of.edit(tx, step.block, |image, node| node.put_key(image, index, key))?;
        }
        Ok(())
    }

    fn node(&self, tx: &Tx<'_>, block: Option<FsBlock>) -> Result<Node> {
        self.of.look(tx, block, |_, node| *node)
    }

    /// Returns the neighbour of the node at `depth` below the same parent: its index there, and its
    /// block.
    fn neighbour(&self, tx: &Tx<'_>, depth: usize, side: Side) -> Result<Option<(usize, FsBlock)>> {
        let Some(parent) = depth.checked_sub(1).map(|depth| self.path[depth]) else {
            return Ok(None);
        };
        let index = match side {
            Side::Left => parent.index.checked_sub(1),
            Side::Right => parent.index.checked_add(1),
        };
        let Some(index) = index else { return Ok(None) };
        let said = self.of.look(tx, parent.block, |bytes, node| {
            node.slot(bytes, index).zip(Due::of_child(bytes, node, index, FileOff(u64::MAX)))
        })?;
        let Some((slot, due)) = said else { return Ok(None) };
        let ctx = self.of.ctx(tx);
        self.of.look(tx, Some(slot.child()), |bytes, node| due.verify(&ctx, bytes, node))??;
        Ok(Some((index, slot.child())))
    }

    /// Makes space for a slot in the node at `depth`. Returns true if that changed the tree. The
    /// path is invalid then, and there may still be no space.
    fn make_room(&self, tx: &mut Tx<'_>, depth: usize) -> Result<bool> {
        let step = self.path[depth];
        let node = self.node(tx, step.block)?;
        if !node.is_full() {
            return Ok(false);
        }
        let Some(block) = step.block else {
            grow_root(tx, self.of)?;
            return Ok(true);
        };
        for side in [Side::Left, Side::Right] {
            let Some((index, other)) = self.neighbour(tx, depth, side)? else { continue };
            let free = node.maxrecs.saturating_sub(self.node(tx, Some(other))?.numrecs);
            // A file that grows at its end leaves full blocks behind.
            let appends = matches!(side, Side::Left) && step.index == node.numrecs;
            // Half of the space, rounded down, leaves some on both sides: the new slot may belong
            // on either.
            let count = if appends { free } else { free / 2 };
            let count = count.min(node.numrecs.saturating_sub(bmbt::minrecs(tx.volume().geo())));
            if count > 0 {
                self.shift(tx, depth, side, (index, other), count)?;
                return Ok(true);
            }
        }
        if !self.make_room(tx, depth - 1)? {
            self.split(tx, depth, block)?;
        }
        Ok(true)
    }

    /// Moves `count` slots from the node at `depth` to its neighbour.
    fn shift(
        &self,
        tx: &mut Tx<'_>,
        depth: usize,
        side: Side,
        (index, other): (usize, FsBlock),
        count: usize,
    ) -> Result<()> {
        let (here, parent) = (self.path[depth].block, self.path[depth - 1]);
        let (right_index, right) = match side {
            Side::Left => (parent.index, here),
            Side::Right => (index, Some(other)),
        };
        let moved = self.of.edit(tx, here, |image, node| {
            let from = match side {
                Side::Left => 0,
                Side::Right => node.numrecs - count,
            };
            let mut moved = node.slots(image.bytes(), from);
            moved.truncate(count);
            node.remove(image, from, count);
            moved
        })?;
        self.of.edit(tx, Some(other), |image, node| {
            let to = match side {
                Side::Left => node.numrecs,
                Side::Right => 0,
            };
            node.insert(image, to, &moved);
        })?;
        self.key_to_parent(tx, parent.block, right_index, right)
    }

    /// Updates the key of child `index` of `parent` to the first key of `child`.
    fn key_to_parent(
        &self,
        tx: &mut Tx<'_>,
        parent: Option<FsBlock>,
        index: usize,
        child: Option<FsBlock>,
    ) -> Result<()> {
        let key = self.of.look(tx, child, |bytes, node| node.key(bytes, 0))?;
        match key {
            Some(key) => self.of.edit(tx, parent, |image, node| node.put_key(image, index, key)),
            None => Ok(()),
        }
    }

    /// Moves half of the block at `depth` into a new one behind it. Its parent has space.
    fn split(&self, tx: &mut Tx<'_>, depth: usize, block: FsBlock) -> Result<()> {
        let (_, rightsib) = self.of.siblings(tx, block)?;
        let node = self.node(tx, Some(block))?;
        let keep = node.numrecs.div_ceil(2);
        let id = (Some(block), rightsib);
        let moved = self.of.look(tx, Some(block), |bytes, node| node.slots(bytes, keep))?;
        let (new, first) = new_block(tx, self.of, node.level, id, block, &moved)?;
        self.of.edit(tx, Some(block), |image, node| {
            node.remove(image, keep, moved.len());
            edit::set_rightsib(image, Some(new));
        })?;
        if let Some(right) = rightsib {
            self.of.edit(tx, Some(right), |image, _| edit::set_leftsib(image, Some(new)))?;
        }
        let parent = self.path[depth - 1];
        let slot = Slot::of_child(first, new);
        self.of.edit(tx, parent.block, |image, node| node.insert(image, parent.index + 1, &[slot]))
    }

    /// Joins the node at `depth` with a neighbour, or borrows slots from one, if it is less than
    /// half full. Returns true if that changed the tree. The path is invalid then.
    fn balance(&self, tx: &mut Tx<'_>, depth: usize) -> Result<bool> {
        let Step { block, .. } = self.path[depth];
        let Some(block) = block else { return pull_up(tx, self.of) };
        let node = self.node(tx, Some(block))?;
        if node.numrecs >= bmbt::minrecs(tx.volume().geo()) {
            return Ok(false);
        }
        let mut fullest = None;
        for side in [Side::Left, Side::Right] {
            let Some((index, other)) = self.neighbour(tx, depth, side)? else { continue };
            let theirs = self.node(tx, Some(other))?.numrecs;
            if node.numrecs + theirs <= node.maxrecs {
                match side {
                    Side::Left => self.join(tx, depth, (other, block), index + 1)?,
                    Side::Right => self.join(tx, depth, (block, other), index)?,
                }
                self.balance(tx, depth - 1)?;
                return Ok(true);
            }
            if fullest.is_none_or(|(_, _, most)| theirs > most) {
                fullest = Some((side, (index, other), theirs));
            }
        }
        match fullest {
            Some((side, neighbour, theirs)) => {
                self.borrow(tx, depth, side, neighbour, (theirs - node.numrecs) / 2)?;
                Ok(true)
            }
            None => self.balance(tx, depth - 1),
        }
    }

    /// Moves all of `right` into `left`, its neighbour below the same parent; `right` is child
    /// `index`.
    fn join(
        &self,
        tx: &mut Tx<'_>,
        depth: usize,
        (left, right): (FsBlock, FsBlock),
        index: usize,
    ) -> Result<()> {
        let parent = self.path[depth - 1];
        let (_, beyond) = self.of.siblings(tx, right)?;
        let moved = self.of.slots(tx, Some(right))?;
        let first = self.of.edit(tx, Some(left), |image, node| {
            node.insert(image, node.numrecs, &moved);
            edit::set_rightsib(image, beyond);
            node.key(image.bytes(), 0)
        })?;
        if let Some(beyond) = beyond {
            self.of.edit(tx, Some(beyond), |image, _| edit::set_leftsib(image, Some(left)))?;
        }
        free_block(tx, self.of, right)?;
        self.of.edit(tx, parent.block, |image, node| {
            node.remove(image, index, 1);
            // A left block that was empty has a new first key.
            if let Some(first) = first {
                node.put_key(image, index - 1, first);
            }
        })?;
        match first {
            Some(first) => self.fix_keys(tx, depth - 1, index - 1, first),
            None => Ok(()),
        }
    }

    /// Takes `count` slots from a neighbour of the node at `depth`.
    fn borrow(
        &self,
        tx: &mut Tx<'_>,
        depth: usize,
        side: Side,
        (index, other): (usize, FsBlock),
        count: usize,
    ) -> Result<()> {
        let (here, parent) = (self.path[depth].block, self.path[depth - 1]);
        let moved = self.of.edit(tx, Some(other), |image, node| {
            let from = match side {
                Side::Left => node.numrecs - count,
                Side::Right => 0,
            };
            let mut moved = node.slots(image.bytes(), from);
            moved.truncate(count);
            node.remove(image, from, count);
            moved
        })?;
        let first = self.of.edit(tx, here, |image, node| {
            let to = match side {
                Side::Left => 0,
                Side::Right => node.numrecs,
            };
            node.insert(image, to, &moved);
            node.key(image.bytes(), 0)
        })?;
        if let Some(first) = first {
            // A block that was empty has a new first key.
            self.fix_keys(tx, depth, 0, first)?;
        }
        let (right_index, right) = match side {
            Side::Left => (parent.index, here),
            Side::Right => (index, Some(other)),
        };
        self.key_to_parent(tx, parent.block, right_index, right)
    }
}

// ---- root and blocks -------------------------------------------------------------------------

/// Moves all of the root into a new block, which becomes its only child.
pub(super) fn grow_root(tx: &mut Tx<'_>, of: ForkOf) -> Result<()> {
    let level = of.root(tx)?.level;
    let slots = of.slots(tx, None)?;
    let near = match slots.first() {
        Some(slot) if level > 0 => slot.child(),
        Some(slot) => slot.extent().startblock,
        None => FsBlock(0),
    };
    let (block, first) = new_block(tx, of, level, (None, None), near, &slots)?;
    make_root(tx, of, level + 1, &[Slot::of_child(first, block)]);
    Ok(())
}

/// Makes the fork the root of a tree, with these children.
pub(super) fn make_root(tx: &mut Tx<'_>, of: ForkOf, level: u16, children: &[Slot]) {
    let (at, len) = of.area(tx);
    let mut image = tx.image(of.inode.handle);
    let mut node = Node::make_root(&mut image, at, len, level);
    node.insert(&mut image, 0, children);
    of.set_format(tx, Format::Btree);
}

/// Makes the fork hold these extents itself; its count of extents is already right.
pub(super) fn make_extents(tx: &mut Tx<'_>, of: ForkOf, extents: &[Slot]) {
    let (at, len) = of.area(tx);
    let mut image = tx.image(of.inode.handle);
    image.zero(at..at + len);
    Node::of_extents(at, len, 0).insert(&mut image, 0, extents);
    of.set_format(tx, Format::Extents);
}

/// Moves the contents of the root's only child into the root, repeatedly, unless the child is a
/// leaf.
fn pull_up(tx: &mut Tx<'_>, of: ForkOf) -> Result<bool> {
    let mut changed = false;
    loop {
        let root = of.root(tx)?;
        if root.level < 2 || root.numrecs != 1 {
            return Ok(changed);
        }
        let only = of.slots(tx, None)?;
        let Some(child) = only.first().map(|slot| slot.child()) else { return Ok(changed) };
        let slots = of.slots(tx, Some(child))?;
        if slots.len() > root.maxrecs {
            return Ok(changed);
        }
        make_root(tx, of, root.level - 1, &slots);
        free_block(tx, of, child)?;
        changed = true;
    }
}

/// Moves all extents of a tree into the fork, if they fit: invariant 2.
pub(super) fn flatten_if_small(tx: &mut Tx<'_>, of: ForkOf) -> Result<bool> {
    let root = of.root(tx)?;
    if root.level == 0 || of.nextents(tx) > of.inline_records(tx) {
        return Ok(false);
    }
    let mut slots = of.slots(tx, None)?;
    for _ in 0..root.level {
        let mut below = Vec::new();
        for slot in &slots {
            below.extend(of.slots(tx, Some(slot.child()))?);
            free_block(tx, of, slot.child())?;
        }
        slots = below;
    }
    of.ctx(tx).eq("inode.nextents.count", of.nextents(tx), slots.len() as u64)?;
    make_extents(tx, of, &slots);
    Ok(true)
}

/// Makes a new block of the tree with these slots, at least one. Returns its number and first key.
fn new_block(
    tx: &mut Tx<'_>,
    of: ForkOf,
    level: u16,
    (leftsib, rightsib): (Option<FsBlock>, Option<FsBlock>),
    near: FsBlock,
    slots: &[Slot],
) -> Result<(FsBlock, FileOff)> {
    let geo = tx.volume().geo();
    let block = blocks::alloc_node(tx, of, near)?;
    let at = bmbt::location(geo, block);
    let daddr = at.daddr.ok_or(Error::NoSpace("blocks"))?;
    let handle = tx.fresh(&BufMap::single(daddr, at.sectors))?;
    let mut image = tx.image(handle);
    let id = Identity { daddr, owner: of.inode.ino, leftsib, rightsib };
    let mut node = edit::make_block(&mut image, geo, level, &id);
    node.insert(&mut image, 0, slots);
    let first = node.key(image.bytes(), 0).unwrap_or(FileOff::ZERO);
    count_blocks(tx, of.inode, 1);
    Ok((block, first))
}

/// Frees a block of the tree.
fn free_block(tx: &mut Tx<'_>, of: ForkOf, block: FsBlock) -> Result<()> {
    let handle = of.hold(tx, block)?;
    tx.invalidate(handle);
    count_blocks(tx, of.inode, -1);
    blocks::free_node(tx, of, block);
    Ok(())
}
