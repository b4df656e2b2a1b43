//! The write side of the hash btree: inserting and removing entries, and rebalancing the tree.
//!
//! A leaf or node that overflows or becomes too empty is rebalanced with its neighbours under the
//! same parent. At most four blocks take part. [`plan`](super::plan) decides how, and the same code
//! serves every level.
//!
//! 1. The root stays at its address: its contents move down when the tree grows, and a last child
//!    moves up when it shrinks.
//! 2. A node's entry for a child carries the hash of the child's last entry.
//! 3. Blocks of one level are chained in hash order.
//! 4. In a tree of four leaves or more whose entries take at most 300 bytes (blocks of 4 KiB) no
//!    leaf is less than two thirds full.
//! 5. One change of an entry touches a number of blocks that is bounded by the depth of the tree.

use std::cell::OnceCell;
use std::ops::Range;

use xfskit_format::da::{self, BlkInfo, Node, NodeEntry};
use xfskit_format::da_edit::{self, Identity};
use xfskit_format::{Ctx, Fork, Image, Layout, Location, VerifyResult};
use xfskit_units::{DaBlock, Daddr, FileOff, Geometry, Ino};
use zerocopy::FromBytes;

use crate::da::plan::{self, Neighbours, Plan};
use crate::error::{Error, Result};

/// Access to the blocks of one fork. In a transaction every block that was accessed is locked to
/// the end.
pub(crate) trait DaBlocks {
    /// Returns the verified bytes of block `dablk`: a node or a leaf.
    fn bytes(&mut self, dablk: DaBlock) -> Result<&[u8]>;

    /// Returns block `dablk`, for a change.
    fn image(&mut self, dablk: DaBlock) -> Result<impl Image + '_>;

    /// Returns the device address of block `dablk`.
    fn daddr(&mut self, dablk: DaBlock) -> Result<Daddr>;

    /// Allocates a block for the tree, with undefined contents.
    fn grow(&mut self) -> Result<DaBlock>;

    /// Frees block `dablk`, to which nothing points any more.
    fn shrink(&mut self, dablk: DaBlock) -> Result<()>;
}

/// The format of the blocks of one level: entries in hash order, each with a length.
pub(crate) trait Level {
    /// An entry, read from its block or to be inserted into one.
    type Item<'a>: Copy;

    /// Runs of one hash are kept in one block if they fit.
    const WHOLE_RUNS: bool;

    /// Converts an entry with a longer lifetime to one with a shorter: returns `item` unchanged.
    fn shorten<'s, 'l: 's>(item: Self::Item<'l>) -> Self::Item<'s>;

    /// Returns the hash of the entry.
    fn hash(item: Self::Item<'_>) -> u32;

    /// Returns the bytes of [`capacity`](Self::capacity) that the entry takes.
    fn len(item: Self::Item<'_>) -> usize;

    /// Returns the bytes for entries in a block.
    fn capacity(geo: &Geometry, fork: Fork) -> usize;

    /// Returns the bytes that the entries of `block` take, without stale ones.
    fn used(block: &[u8], geo: &Geometry) -> usize;

    /// Returns the entries of `block`, without stale ones.
    fn items<'a>(block: &'a [u8], geo: &Geometry) -> Vec<Self::Item<'a>>;

    /// Returns the hash of the last entry of `block`, stale or not.
    fn last_hash(block: &[u8], geo: &Geometry) -> Option<u32>;

    /// Makes `image` an empty block of this level, which is 0 for leaves.
    fn init(image: &mut impl Image, geo: &Geometry, id: Identity, level: u16);

    /// Fills `image` with `items` and nothing else; its siblings stay. They were planned to fit.
    fn pack(image: &mut impl Image, geo: &Geometry, fork: Fork, items: &[Self::Item<'_>]);

    /// Inserts `items` at their position, which for nodes is behind `at` entries. Returns false,
    /// and changes nothing, if they do not fit.
    fn insert(
        image: &mut impl Image,
        geo: &Geometry,
        fork: Fork,
        at: usize,
        items: &[Self::Item<'_>],
    ) -> bool;
}

/// Nodes: an entry is a child.
pub(crate) enum Nodes {}

impl Level for Nodes {
    type Item<'a> = NodeEntry;
    const WHOLE_RUNS: bool = true;

    fn shorten<'s, 'l: 's>(item: NodeEntry) -> NodeEntry {
        item
    }
    fn hash(item: NodeEntry) -> u32 {
        item.hashval.get()
    }
    fn len(_: NodeEntry) -> usize {
        size_of::<NodeEntry>()
    }
    fn capacity(geo: &Geometry, fork: Fork) -> usize {
        da::node_max(geo, fork) * size_of::<NodeEntry>()
    }
    fn used(block: &[u8], geo: &Geometry) -> usize {
        Node::parse(block, geo).map_or(0, |node| size_of_val(node.btree))
    }
    fn items(block: &[u8], geo: &Geometry) -> Vec<NodeEntry> {
        Node::parse(block, geo).map_or_else(Vec::new, |node| node.btree.to_vec())
    }
    fn last_hash(block: &[u8], geo: &Geometry) -> Option<u32> {
        Node::parse(block, geo)?.btree.last().map(|child| child.hashval.get())
    }
    fn init(image: &mut impl Image, geo: &Geometry, id: Identity, level: u16) {
        da_edit::init_node(image, geo, id, level);
    }
    fn pack(image: &mut impl Image, geo: &Geometry, fork: Fork, items: &[NodeEntry]) {
        let all = da::node_max(geo, fork);
        let fits = da_edit::splice_children(image, geo, fork, 0, all, items);
        debug_assert!(fits, "planned to fit");
    }
    fn insert(
        image: &mut impl Image,
        geo: &Geometry,
        fork: Fork,
        at: usize,
        items: &[NodeEntry],
    ) -> bool {
        da_edit::splice_children(image, geo, fork, at, 0, items)
    }
}

/// One block on the path from the root to a leaf.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    dablk: DaBlock,
    /// The child that the path continues with; 0 in the leaf.
    index: usize,
}

/// Maximum number of blocks from the root to a leaf.
const STEPS_MAX: usize = da::MAX_LEVEL as usize + 1;

/// The path from the root to a leaf. Valid until the tree is changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    steps: [Step; STEPS_MAX],
    len: usize,
}

impl Path {
    fn steps(&self) -> &[Step] {
        &self.steps[..self.len]
    }

    /// Appends `step`. Levels descend on every path, so there are never too many.
    fn push(&mut self, step: Step) {
        self.steps[self.len] = step;
        self.len += 1;
    }

    /// Inserts a new root above the path; the former root has moved to `dablk`.
    fn push_down(&mut self, root: DaBlock, dablk: DaBlock) {
        self.steps[0].dablk = dablk;
        self.steps.copy_within(..self.len, 1);
        self.steps[0] = Step { dablk: root, index: 0 };
        self.len += 1;
    }

    /// Returns the leaf at its end.
    pub(crate) fn leaf(&self) -> DaBlock {
        self.steps().last().map_or(DaBlock(0), |step| step.dablk)
    }
}

/// The tree of one fork, for changes.
#[derive(Debug)]
pub(crate) struct Tree<'t, B> {
    geo: &'t Geometry,
    fork: Fork,
    owner: Ino,
    /// Its blocks.
    pub(crate) blocks: &'t mut B,
}

impl<'t, B: DaBlocks> Tree<'t, B> {
    /// Opens the tree of this fork of inode `owner`.
    pub(crate) fn new(geo: &'t Geometry, fork: Fork, owner: Ino, blocks: &'t mut B) -> Self {
        Self { geo, fork, owner, blocks }
    }

    /// Returns the volume's geometry.
    pub(crate) fn geo(&self) -> &'t Geometry {
        self.geo
    }

    fn root(&self) -> DaBlock {
        da::root(self.geo, self.fork)
    }

    fn ctx(&self, dablk: DaBlock) -> Ctx<'t> {
        let at = Location::of("da block").ino(self.owner).fork(self.fork);
        Ctx::new(self.geo, at.fileoff(FileOff(dablk.0.into())))
    }

    /// Returns level and children of block `dablk`; 0 and none for a leaf.
    fn children(&mut self, dablk: DaBlock) -> Result<(u16, &[NodeEntry])> {
        let geo = self.geo;
        let bytes = self.blocks.bytes(dablk)?;
        Ok(node(bytes, geo).map_or((0, &[]), |node| (node.level, node.btree)))
    }

    /// Fails if block `dablk` is not on level `wanted`, if that is known, or is on a level that
    /// cannot exist.
    fn verify_level(&self, dablk: DaBlock, wanted: Option<u16>, found: u16) -> VerifyResult {
        let wanted = wanted.unwrap_or(found);
        if wanted == found && found <= da::MAX_LEVEL {
            return Ok(());
        }
        let ctx = self.ctx(dablk);
        ctx.eq("da.node.level", wanted, found)?;
        ctx.at_most("da.node.level", da::MAX_LEVEL, found)
    }

    // ---- paths through the tree --------------------------------------------------------------

    /// Returns the path to the first leaf that may hold `hash`, or to the last one if all hashes
    /// are smaller.
    pub(crate) fn find(&mut self, hash: u32) -> Result<Path> {
        let mut path = Path::default();
        self.descend(&mut path, self.root(), None, |kids| {
            kids.partition_point(|child| child.hashval.get() < hash)
        })?;
        Ok(path)
    }

    /// Extends `path` from `dablk`, which must be on `level` if that is known, down to a leaf.
    fn descend(
        &mut self,
        path: &mut Path,
        mut dablk: DaBlock,
        mut level: Option<u16>,
        choose: impl Fn(&[NodeEntry]) -> usize,
    ) -> Result<()> {
        loop {
            let (own, kids) = self.children(dablk)?;
            let index = choose(kids).min(kids.len().saturating_sub(1));
            let child = kids.get(index).map(|child| DaBlock(child.before.get()));
            self.verify_level(dablk, level, own)?;
            path.push(Step { dablk, index });
            let (Some(child), Some(below)) = (child, own.checked_sub(1)) else { return Ok(()) };
            (dablk, level) = (child, Some(below));
        }
    }

    /// Moves `path` to the next leaf in hash order. At the last one, returns false and leaves
    /// `path` unchanged.
    pub(crate) fn advance(&mut self, path: &mut Path) -> Result<bool> {
        for depth in (0..path.len.saturating_sub(1)).rev() {
            let Step { dablk, index } = path.steps[depth];
            let (level, kids) = self.children(dablk)?;
            let Some(child) = kids.get(index + 1).copied() else { continue };
            path.len = depth;
            path.push(Step { dablk, index: index + 1 });
            let below = level.checked_sub(1);
            self.descend(path, DaBlock(child.before.get()), below, |_| 0)?;
            return Ok(true);
        }
        Ok(false)
    }

    // ---- inserting and removing --------------------------------------------------------------

    /// Inserts `item` into the leaf at the end of `path`, which [`find`](Self::find) returned for
    /// its hash.
    pub(crate) fn insert<L: Level>(&mut self, mut path: Path, item: L::Item<'_>) -> Result<()> {
        let depth = path.len - 1;
        self.put::<L>(&mut path, depth, None, &[item])
    }

    /// Rebalances the tree after an entry was removed from the leaf at the end of `path`.
    pub(crate) fn removed<L: Level>(&mut self, mut path: Path) -> Result<()> {
        let depth = path.len - 1;
        self.taken_out::<L>(&mut path, depth)
    }

    /// Inserts `items` into the block at `depth` of `path`: behind `at` entries of a node, by their
    /// hash in a leaf.
    fn put<L: Level>(
        &mut self,
        path: &mut Path,
        depth: usize,
        at: Option<usize>,
        items: &[L::Item<'_>],
    ) -> Result<()> {
        let (geo, fork) = (self.geo, self.fork);
        let dablk = path.steps[depth].dablk;
        let mut image = self.blocks.image(dablk)?;
        if L::insert(&mut image, geo, fork, at.unwrap_or(0), items) {
            let last = L::last_hash(image.bytes(), geo);
            drop(image);
            return self.carry_up(path, depth, last);
        }
        drop(image);
        let depth = if depth == 0 { self.push_down(path)? } else { depth };
        let mut window = self.window::<L>(path, depth)?;
        window.used[window.own] += items.iter().map(|item| L::len(*item)).sum::<usize>();
        let copies = Copies::default();
        let new = New { at, items };
        let mut all = WindowItems::<L, B>::new(self, &window, &copies, Some(new));
        let plan = plan::to_grow(window.neighbours::<L>(geo, fork), &mut all)?;
        let items = all.into_items(&plan.blocks);
        self.apply_plan::<L>(path, depth, &window, &plan, &items)
    }

    /// Rebalances after an entry was removed from the block at `depth` of `path`.
    fn taken_out<L: Level>(&mut self, path: &mut Path, depth: usize) -> Result<()> {
        let (geo, fork) = (self.geo, self.fork);
        if depth == 0 {
            return self.pull_up();
        }
        let dablk = path.steps[depth].dablk;
        let used = L::used(self.blocks.bytes(dablk)?, geo);
        let capacity = L::capacity(geo, fork);
        let kids = self.children(path.steps[depth - 1].dablk)?.1.len();
        if plan::is_full_enough(used, capacity)
            || (kids > 1 && plan::may_stay(used, capacity, kids))
        {
            return self.update_hashes::<L>(path, depth);
        }
        let window = self.window::<L>(path, depth)?;
        if window.blocks.len() == 1 && depth == 1 {
            return self.pull_up();
        }
        let copies = Copies::default();
        let mut all = WindowItems::<L, B>::new(self, &window, &copies, None);
        let plan = plan::to_shrink(window.neighbours::<L>(geo, fork), &mut all)?;
        let Some(plan) = plan else { return self.update_hashes::<L>(path, depth) };
        let items = all.into_items(&plan.blocks);
        self.apply_plan::<L>(path, depth, &window, &plan, &items)
    }

    /// Propagates the last hash of the block at `depth` of `path` upwards, until a parent has it
    /// already.
    fn update_hashes<L: Level>(&mut self, path: &Path, depth: usize) -> Result<()> {
        let last = L::last_hash(self.blocks.bytes(path.steps[depth].dablk)?, self.geo);
        self.carry_up(path, depth, last)
    }

    /// Propagates `hash`, the last hash of that block, upwards.
    fn carry_up(&mut self, path: &Path, depth: usize, hash: Option<u32>) -> Result<()> {
        let geo = self.geo;
        let Some(hash) = hash else { return Ok(()) };
        for &Step { dablk, index } in path.steps[..depth].iter().rev() {
            let kids = node(self.blocks.bytes(dablk)?, geo).map_or(&[][..], |node| node.btree);
            let last = index + 1 >= kids.len();
            if kids.get(index).is_none_or(|child| child.hashval.get() == hash) {
                return Ok(());
            }
            da_edit::set_hash(&mut self.blocks.image(dablk)?, index, hash);
            if !last {
                return Ok(());
            }
        }
        Ok(())
    }

    // ---- neighbours --------------------------------------------------------------------------

    /// Returns the block at `depth` of `path` and its neighbours under the same parent, at most
    /// four.
    fn window<L: Level>(&mut self, path: &Path, depth: usize) -> Result<Window> {
        let geo = self.geo;
        let parent = path.steps[depth - 1];
        let (level, kids) = self.children(parent.dablk)?;
        let len = kids.len().min(plan::WINDOW);
        let start = parent.index.saturating_sub(1).min(kids.len() - len);
        let blocks: Vec<_> =
            kids[start..start + len].iter().map(|child| DaBlock(child.before.get())).collect();
        let mut used = Vec::with_capacity(len);
        for &dablk in &blocks {
            let bytes = self.blocks.bytes(dablk)?;
            let found = level_of(bytes, geo);
            used.push(L::used(bytes, geo));
            self.verify_level(dablk, Some(level.saturating_sub(1)), found)?;
        }
        Ok(Window { start, own: parent.index - start, blocks, used })
    }

    /// Redistributes `items`, the entries of the plan's blocks, according to `plan`.
    fn apply_plan<L: Level>(
        &mut self,
        path: &mut Path,
        depth: usize,
        window: &Window,
        plan: &Plan,
        items: &[L::Item<'_>],
    ) -> Result<()> {
        let (geo, fork) = (self.geo, self.fork);
        let old = &window.blocks[plan.blocks.clone()];
        let level = level_of(self.blocks.bytes(old[0])?, geo);
        let mut start = 0;
        let mut children = Vec::with_capacity(plan.ends.len());
        for (number, &end) in plan.ends.iter().enumerate() {
            let items = &items[start..end];
            let dablk = match old.get(number) {
                Some(dablk) => *dablk,
                None => self.new_neighbour::<L>(children.last(), level)?,
            };
            L::pack(&mut self.blocks.image(dablk)?, geo, fork, items);
            let hash = items.last().map_or(0, |item| L::hash(*item));
            children.push(da_edit::child(hash, dablk));
            start = end;
        }
        for gone in old.iter().skip(children.len()) {
            self.unchain(*gone)?;
            self.blocks.shrink(*gone)?;
        }
        let first = window.start + plan.blocks.start;
        self.replace_children(path, depth - 1, first..first + old.len(), &children)
    }

    /// Inserts a new block behind the block `before` of the same level.
    fn new_neighbour<L: Level>(
        &mut self,
        before: Option<&NodeEntry>,
        level: u16,
    ) -> Result<DaBlock> {
        let dablk = self.blocks.grow()?;
        let id = Identity { owner: self.owner, daddr: self.blocks.daddr(dablk)? };
        L::init(&mut self.blocks.image(dablk)?, self.geo, id, level);
        let Some(back) = before.map(|child| DaBlock(child.before.get())) else { return Ok(dablk) };
        let forw = self.forw(back)?;
        self.chain(back, dablk)?;
        self.chain(dablk, forw)?;
        Ok(dablk)
    }

    /// Removes `dablk` from the chain of its level.
    fn unchain(&mut self, dablk: DaBlock) -> Result<()> {
        let (_, back) = siblings(self.blocks.bytes(dablk)?);
        let forw = self.forw(dablk)?;
        if back.0 != 0 {
            self.ctx(back).eq("da.forw", dablk, self.forw(back)?)?;
        }
        self.chain(back, forw)
    }

    /// Returns the next block of the level, which must point back to this one.
    fn forw(&mut self, dablk: DaBlock) -> Result<DaBlock> {
        let (forw, _) = siblings(self.blocks.bytes(dablk)?);
        if forw.0 != 0 {
            let (_, back) = siblings(self.blocks.bytes(forw)?);
            self.ctx(forw).eq("da.back", dablk, back)?;
        }
        Ok(forw)
    }

    /// Makes `left` and `right` neighbours; 0 for none.
    fn chain(&mut self, left: DaBlock, right: DaBlock) -> Result<()> {
        let none = DaBlock(0);
        if left != none {
            da_edit::set_forw(&mut self.blocks.image(left)?, right);
        }
        if right != none {
            da_edit::set_back(&mut self.blocks.image(right)?, left);
        }
        Ok(())
    }

    /// Replaces the children in `range` of the node at `depth` of `path` by `children`.
    fn replace_children(
        &mut self,
        path: &mut Path,
        depth: usize,
        range: Range<usize>,
        children: &[NodeEntry],
    ) -> Result<()> {
        let (geo, fork, dablk) = (self.geo, self.fork, path.steps[depth].dablk);
        let (stay, come) = children.split_at(range.len().min(children.len()));
        let mut image = self.blocks.image(dablk)?;
        da_edit::splice_children(&mut image, geo, fork, range.start, range.len(), stay);
        drop(image);
        if !come.is_empty() {
            self.put::<Nodes>(path, depth, Some(range.end), come)
        } else if stay.len() < range.len() {
            self.taken_out::<Nodes>(path, depth)
        } else {
            self.update_hashes::<Nodes>(path, depth)
        }
    }

    // ---- the root ----------------------------------------------------------------------------

    /// Moves the root's contents to a new block, its only child. `path` follows. Returns the new
    /// depth of the former root.
    fn push_down(&mut self, path: &mut Path) -> Result<usize> {
        let (geo, fork, root) = (self.geo, self.fork, self.root());
        let content = self.blocks.bytes(root)?.to_vec();
        let level = level_of(&content, geo);
        if level >= LEVEL_MAX {
            return Err(Error::Full("the hash tree has as many levels as the format allows"));
        }
        let dablk = self.blocks.grow()?;
        let daddr = self.blocks.daddr(dablk)?;
        da_edit::copy(&mut self.blocks.image(dablk)?, &content, daddr);
        let id = Identity { owner: self.owner, daddr: self.blocks.daddr(root)? };
        let mut image = self.blocks.image(root)?;
        da_edit::init_node(&mut image, geo, id, level + 1);
        da_edit::splice_children(&mut image, geo, fork, 0, 0, &[da_edit::child(0, dablk)]);
        path.push_down(root, dablk);
        Ok(1)
    }

    /// Replaces the root by its only child, while it has only one.
    fn pull_up(&mut self) -> Result<()> {
        let root = self.root();
        while let [child] = *self.children(root)?.1 {
            let dablk = DaBlock(child.before.get());
            let content = self.blocks.bytes(dablk)?.to_vec();
            let daddr = self.blocks.daddr(root)?;
            da_edit::copy(&mut self.blocks.image(root)?, &content, daddr);
            self.blocks.shrink(dablk)?;
        }
        Ok(())
    }
}

/// Highest level of a root: Linux supports no deeper trees.
const LEVEL_MAX: u16 = da::MAX_LEVEL - 1;

/// Returns true if `block`, which is not the root, need not be rebalanced after an entry was
/// removed.
pub(crate) fn needs_no_help<L: Level>(block: &[u8], geo: &Geometry, fork: Fork) -> bool {
    plan::is_full_enough(L::used(block, geo), L::capacity(geo, fork))
}

/// Neighbours under one parent.
struct Window {
    /// The index of the first of them in the parent.
    start: usize,
    /// The index of the changed block among them.
    own: usize,
    blocks: Vec<DaBlock>,
    /// Bytes that the entries of each use.
    used: Vec<usize>,
}

impl Window {
    /// Returns the window as the plan needs it.
    fn neighbours<L: Level>(&self, geo: &Geometry, fork: Fork) -> Neighbours<'_> {
        let (capacity, whole_runs) = (L::capacity(geo, fork), L::WHOLE_RUNS);
        Neighbours { used: &self.used, own: self.own, capacity, whole_runs }
    }
}

/// Copies of the blocks of a window, as far as their entries were needed.
type Copies = [OnceCell<Vec<u8>>; plan::WINDOW];

/// Entries to be inserted into the changed block of a window: behind `at` entries of a node, by
/// their hash in a leaf.
struct New<'n, I> {
    at: Option<usize>,
    items: &'n [I],
}

/// The entries of a window's blocks, in copies of these: the blocks themselves are changed while
/// the entries are redistributed.
struct WindowItems<'w, 'c, 't, 'n, L: Level, B> {
    tree: &'w mut Tree<'t, B>,
    window: &'w Window,
    copies: &'c Copies,
    new: Option<New<'w, L::Item<'n>>>,
    items: [Vec<L::Item<'c>>; plan::WINDOW],
}

impl<'w, 'c, 't, 'n: 'c, L: Level, B: DaBlocks> WindowItems<'w, 'c, 't, 'n, L, B> {
    fn new(
        tree: &'w mut Tree<'t, B>,
        window: &'w Window,
        copies: &'c Copies,
        new: Option<New<'w, L::Item<'n>>>,
    ) -> Self {
        Self { tree, window, copies, new, items: Default::default() }
    }

    /// Returns the entries of `blocks`.
    fn into_items(self, blocks: &Range<usize>) -> Vec<L::Item<'c>> {
        self.items[blocks.clone()].concat()
    }
}

impl<'c, 'n: 'c, L: Level, B: DaBlocks> plan::Entries for WindowItems<'_, 'c, '_, 'n, L, B> {
    fn read(&mut self, block: usize) -> Result<()> {
        if self.copies[block].get().is_some() {
            return Ok(());
        }
        let bytes = self.tree.blocks.bytes(self.window.blocks[block])?;
        let copy = self.copies[block].get_or_init(|| bytes.to_vec());
        let own = &mut self.items[block];
        *own = L::items(copy, self.tree.geo);
        if let Some(New { at, items }) = self.new.take_if(|_| block == self.window.own) {
            let hash = items.first().map_or(0, |item| L::hash(*item));
            let at = at.unwrap_or_else(|| own.partition_point(|old| L::hash(*old) <= hash));
            own.splice(at..at, items.iter().map(|item| L::shorten(*item)));
        }
        Ok(())
    }

    fn of(&self, blocks: Range<usize>) -> impl Iterator<Item = (u32, usize)> {
        self.items[blocks].iter().flatten().map(|item| (L::hash(*item), L::len(*item)))
    }
}

/// Returns the node in `bytes`; `None` for a leaf.
fn node<'b>(bytes: &'b [u8], geo: &Geometry) -> Option<Node<'b>> {
    let is_node = da::magic(bytes) == Some(Layout::of(geo).da_node_magic);
    if is_node { Node::parse(bytes, geo) } else { None }
}

fn level_of(bytes: &[u8], geo: &Geometry) -> u16 {
    node(bytes, geo).map_or(0, |node| node.level)
}

/// Returns next and previous block of the level.
fn siblings(bytes: &[u8]) -> (DaBlock, DaBlock) {
    let info = BlkInfo::ref_from_prefix(bytes).ok();
    info.map_or_else(Default::default, |(info, _)| {
        (DaBlock(info.forw.get()), DaBlock(info.back.get()))
    })
}
