//! Walks a per-AG btree from its root and checks what only the whole tree shows: levels, keys,
//! order across blocks, siblings, fill.
//!
//! 1. A block is entered once. A pointer to a block that was entered before is a finding, so no
//!    shape of pointers makes the walk longer than the group has blocks.
//! 2. A child is one level below its parent, so the walk is no deeper than the root's level.
//! 3. Leaves are passed on from left to right.

use std::collections::HashSet;

use xfskit_format::agbtree::{Block, CRC_OFFSET, Ids, Tree};
use xfskit_format::{Ctx, Expected, alloc, inobt, refcount, rmap};
use xfskit_units::{AgBlock, AgNumber};
use zerocopy::big_endian::U32;

use crate::volume::Volume;

/// Key of records and nodes. Trees with shorter keys leave the rest 0.
type Key = (u64, u64, u64);

/// The result of walking one tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walked {
    /// Blocks of the tree, its root included.
    pub blocks: Vec<u32>,
    /// False if a part of the tree could not be read or was not entered.
    pub complete: bool,
}

impl Walked {
    /// Returns the number of blocks of the tree.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }
}

/// The block that the walk visited last on one level.
#[derive(Clone, Copy, Default)]
enum Neighbour {
    /// None yet: the next block is the leftmost.
    #[default]
    Start,
    /// A block, and its right sibling as it records it.
    At(AgBlock, Option<AgBlock>),
    /// A block that could not be read.
    Unknown,
}

/// Lowest key and highest end below a block.
struct Span {
    low: Key,
    high: Key,
}

/// One walk.
struct Walk<'w, 'v> {
    vol: &'w Volume<'v>,
    agno: AgNumber,
    tree: Tree,
    ids: &'static Ids,
    entered: &'w mut HashSet<u32>,
    /// Indexed by level.
    neighbours: Vec<Neighbour>,
    buffers: Vec<Vec<u8>>,
    last_key: Option<Key>,
    walked: Walked,
    leaf: &'w mut dyn FnMut(&Block<'_>, &Ctx<'_>),
}

/// Walks the tree that starts at `root` and has `levels` levels. `entered` holds the blocks of this
/// group that other trees were found to use. Passes each sound leaf to `leaf`.
pub(crate) fn walk(
    vol: &Volume<'_>,
    agno: AgNumber,
    tree: Tree,
    (root, levels): (u32, u32),
    entered: &mut HashSet<u32>,
    leaf: &mut dyn FnMut(&Block<'_>, &Ctx<'_>),
) -> Walked {
    let depth = levels.min(tree.max_levels(&vol.geo)) as usize;
    let mut walk = Walk {
        vol,
        agno,
        tree,
        ids: tree.ids(),
        entered,
        neighbours: vec![Neighbour::Start; depth],
        buffers: vec![vec![0; vol.geo.blocksize()]; depth],
        last_key: None,
        walked: Walked { blocks: Vec::new(), complete: true },
        leaf,
    };
    match depth.checked_sub(1) {
        Some(top) => {
            walk.visit(AgBlock(root), top, true);
            walk.check_right_ends();
        }
        None => walk.walked.complete = false,
    }
    walk.walked
}

impl Walk<'_, '_> {
    /// Checks the block `agbno`, which must be on `level`, and all blocks below it.
    fn visit(&mut self, agbno: AgBlock, level: usize, is_root: bool) -> Option<Span> {
        let vol = self.vol;
        let ctx = vol.ctx(self.tree.location(&vol.geo, self.agno, agbno));
        let span = if self.enter(&ctx, agbno) {
            let mut buf = std::mem::take(&mut self.buffers[level]);
            let tree = self.tree;
            let span = vol.verify(ctx.at, &mut buf, CRC_OFFSET, |bytes| {
                let block = Block::verify(bytes, &ctx, tree, self.agno)?;
                ctx.eq(self.ids.level, level as u64, block.level.into())?;
                Ok(self.check_block(&block, &ctx, agbno, is_root))
            });
            self.buffers[level] = buf;
            span
        } else {
            None
        };
        if span.is_none() {
            self.neighbours[level] = Neighbour::Unknown;
            self.walked.complete = false;
        }
        span.flatten()
    }

    /// Marks `agbno` as part of this tree. Returns false if it is not a block of the group or was
    /// entered before (invariant 1).
    fn enter(&mut self, ctx: &Ctx<'_>, agbno: AgBlock) -> bool {
        let vol = self.vol;
        if !vol.sink.error(ctx.agbno(self.ids.ptr, self.agno, agbno.0)) {
            return false;
        }
        let fresh = self.entered.insert(agbno.0);
        if fresh {
            self.walked.blocks.push(agbno.0);
        }
        let alone = "a block of no other tree, and of this one only once";
        vol.sink.error(ctx.require("block.claimed-twice", fresh, alone, agbno))
    }

    /// Checks a verified block. Returns `None` if it has no records, as only an empty root may.
    fn check_block(
        &mut self,
        block: &Block<'_>,
        ctx: &Ctx<'_>,
        agbno: AgBlock,
        is_root: bool,
    ) -> Option<Span> {
        self.check_fill(block, ctx, is_root);
        self.check_siblings(block, ctx, agbno);
        if block.is_leaf() {
            let mut block = *block;
            block.numrecs = stale_from(&block).unwrap_or(block.numrecs);
            let span = self.check_records(&block, ctx);
            (self.leaf)(&block, ctx);
            return span;
        }
        self.check_children(block, ctx)
    }

    /// Checks that every block but the root is at least half full, and that a root above the leaves
    /// has two children.
    fn check_fill(&self, block: &Block<'_>, ctx: &Ctx<'_>, is_root: bool) {
        if let Some(numrecs) = stale_from(block) {
            self.vol.sink.error(ctx.eq(self.ids.numrecs, numrecs, block.numrecs));
            return;
        }
        let min = match (is_root, block.is_leaf()) {
            (false, _) => self.tree.minrecs(&self.vol.geo, block.level),
            (true, false) => 1,
            (true, true) => 0,
        };
        self.vol.sink.error(ctx.at_least(self.ids.numrecs, min, block.numrecs));
        if is_root && !block.is_leaf() && block.numrecs == 1 {
            self.vol.sink.warning(ctx.at_least(self.ids.numrecs, 2, block.numrecs));
        }
    }

    /// Checks the sibling pointers, which link the blocks of one level in both directions.
    fn check_siblings(&mut self, block: &Block<'_>, ctx: &Ctx<'_>, agbno: AgBlock) {
        let geo = &self.vol.geo;
        let level = usize::from(block.level);
        let none = |b: Option<AgBlock>| b.map_or(u32::MAX, |b| b.0);
        let (left, rightsib_of_left) = match self.neighbours[level] {
            Neighbour::Start => (Some(None), None),
            Neighbour::At(left, right) => (Some(Some(left)), Some((left, right))),
            Neighbour::Unknown => (None, None),
        };
        if let Some(left) = left {
            self.vol.sink.error(ctx.eq(self.ids.leftsib, none(left), none(block.leftsib)));
        }
        if let Some((left, right)) = rightsib_of_left {
            let ctx = ctx.at(self.tree.location(geo, self.agno, left));
            self.vol.sink.error(ctx.eq(self.ids.rightsib, agbno.0, none(right)));
        }
        self.neighbours[level] = Neighbour::At(agbno, block.rightsib);
    }

    /// Checks that the last block of each level has no right sibling.
    fn check_right_ends(&self) {
        for neighbour in &self.neighbours {
            if let Neighbour::At(agbno, right) = *neighbour {
                let ctx = self.vol.ctx(self.tree.location(&self.vol.geo, self.agno, agbno));
                let right = right.map_or(u32::MAX, |b| b.0);
                self.vol.sink.error(ctx.eq(self.ids.rightsib, u32::MAX, right));
            }
        }
    }

    /// Checks that records rise strictly, across blocks too.
    fn check_records(&mut self, block: &Block<'_>, ctx: &Ctx<'_>) -> Option<Span> {
        let mut span: Option<Span> = None;
        for index in 0..block.numrecs {
            let (low, high) = record_keys(block, index)?;
            let rises = self.last_key.is_none_or(|last| last < low);
            if !rises {
                let found = format!("{low:?}");
                let corruption = ctx.entry(index).corruption(
                    self.ids.order,
                    Expected::Described("a record behind the one before it".into()),
                    found,
                );
                self.vol.sink.error(Err(corruption));
            }
            self.last_key = Some(low);
            span = Some(match span {
                None => Span { low, high },
                Some(span) => Span { low: span.low, high: span.high.max(high) },
            });
        }
        span
    }

    /// Checks that each key of a node equals the first key below its child, and that the rmapbt's
    /// high key equals the last.
    fn check_children(&mut self, block: &Block<'_>, ctx: &Ctx<'_>) -> Option<Span> {
        let below = usize::from(block.level).checked_sub(1)?;
        let mut span: Option<Span> = None;
        for (index, ptr) in block.ptrs().iter().enumerate() {
            let child = self.visit(AgBlock(ptr.get()), below, false);
            let (Some(child), Some((low, high))) = (child, node_keys(block, index)) else {
                continue;
            };
            self.check_key(&ctx.entry(index), (low, high), &child);
            span = Some(match span {
                None => child,
                Some(span) => Span { low: span.low, high: span.high.max(child.high) },
            });
        }
        span
    }

    fn check_key(&self, ctx: &Ctx<'_>, (low, high): (Key, Key), child: &Span) {
        let sink = &self.vol.sink;
        let describe = |key: Key| Expected::Described(format!("{key:?}").into());
        if self.tree == Tree::Bno && low.0 == child.low.0 && low != child.low {
            // No other tool compares the length in a key of this tree.
            sink.warning(Err(ctx.corruption(
                self.ids.key,
                describe(child.low),
                format!("{low:?}"),
            )));
        } else if low != child.low {
            sink.error(Err(ctx.corruption(self.ids.key, describe(child.low), format!("{low:?}"))));
        }
        if self.tree == Tree::Rmap && high != child.high {
            let id = "rmapbt.high_key";
            sink.error(Err(ctx.corruption(id, describe(child.high), format!("{high:?}"))));
        }
    }
}

/// Returns the number of records of a leaf before its last ones, if all of these are blank or
/// repeat a record before them. Such bytes lie behind the records of a leaf, so `numrecs` is wrong.
fn stale_from(block: &Block<'_>) -> Option<usize> {
    if !block.is_leaf() {
        return None;
    }
    let key = |index| record_keys(block, index).map(|(low, _)| low);
    let falls = |index: &usize| key(index - 1) >= key(*index);
    let first = (1..block.numrecs).find(falls)?;
    let stale =
        |index| key(index) == Some((0, 0, 0)) || (0..first).any(|before| key(before) == key(index));
    (first..block.numrecs).all(stale).then_some(first)
}

fn alloc_key(tree: Tree, rec: alloc::Rec) -> Key {
    let (start, len) = (rec.startblock.get().into(), rec.blockcount.get().into());
    if tree == Tree::Cnt { (len, start, 0) } else { (start, len, 0) }
}

fn rmap_key(key: &rmap::Key) -> Key {
    let (start, owner, offset) = key.sort_key();
    (start.into(), owner, offset)
}

/// Returns the low and the high key of record `index`.
fn record_keys(block: &Block<'_>, index: usize) -> Option<(Key, Key)> {
    let single = |n: U32| ((n.get().into(), 0, 0), (n.get().into(), 0, 0));
    match block.tree {
        Tree::Bno | Tree::Cnt => {
            let key = alloc_key(block.tree, *block.recs::<alloc::Rec>().get(index)?);
            Some((key, key))
        }
        Tree::Ino | Tree::Fino => Some(single(block.recs::<inobt::Rec>().get(index)?.startino)),
        Tree::Refcount => Some(single(block.recs::<refcount::Rec>().get(index)?.startblock)),
        Tree::Rmap => {
            let rec = block.recs::<rmap::Rec>().get(index)?;
            Some((rmap_key(&rec.low_key()), rmap_key(&rec.high_key())))
        }
    }
}

/// Returns the low and the high key that a node stores for child `index`.
fn node_keys(block: &Block<'_>, index: usize) -> Option<(Key, Key)> {
    match block.tree {
        Tree::Bno | Tree::Cnt => {
            let key = alloc_key(block.tree, *block.keys::<alloc::Rec>().get(index)?);
            Some((key, key))
        }
        Tree::Ino | Tree::Fino | Tree::Refcount => {
            let key = (block.keys::<U32>().get(index)?.get().into(), 0, 0);
            Some((key, key))
        }
        Tree::Rmap => {
            let pair = block.keys::<rmap::KeyPair>().get(index)?;
            Some((rmap_key(&pair.low), rmap_key(&pair.high)))
        }
    }
}
