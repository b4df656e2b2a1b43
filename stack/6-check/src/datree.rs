//! The hash btree of a directory or an attribute fork: reads its blocks through the fork's map and
//! walks it from the root.
//!
//! 1. A block is entered once, so no shape of pointers makes a walk endless.
//! 2. A node's child is a node one level lower, or below level 1 a leaf.
//! 3. Leaves are passed on in hash order.

use std::collections::HashSet;

use xfskit_format::bmbt::Extent;
use xfskit_format::da::{self, BlkInfo, Node};
use xfskit_format::{Ctx, Fork, Layout, Location, VerifyResult};
use xfskit_units::{Daddr, FileOff, Ino, Sectors};

use crate::volume::Volume;

/// One fork of one inode, with its map.
#[derive(Clone, Copy)]
pub(crate) struct MappedFork<'a, 'v> {
    pub vol: &'a Volume<'v>,
    pub ino: Ino,
    pub fork: Fork,
    /// The map, in file order.
    pub map: &'a [Extent],
}

impl MappedFork<'_, '_> {
    /// Returns the location of file block `fileoff`, and how many blocks follow it there.
    fn lookup(&self, fileoff: u64) -> Option<(Daddr, u64)> {
        let behind = self.map.partition_point(|e| e.startoff.0 <= fileoff);
        let extent = self.map.get(behind.checked_sub(1)?)?;
        let block = extent.block_at(FileOff(fileoff))?;
        let daddr = self.vol.geo.fsb_to_daddr(block)?;
        Some((daddr, extent.end().0.saturating_sub(fileoff)))
    }

    /// Returns the location of file block `fileoff`, named `what`.
    pub(crate) fn location(&self, what: &'static str, fileoff: u64) -> Location {
        let at = Location::of(what).ino(self.ino).fork(self.fork).fileoff(FileOff(fileoff));
        match self.lookup(fileoff) {
            Some((daddr, _)) => at.daddr(daddr, Sectors(0)),
            None => at,
        }
    }

    /// Reads `buf.len()` bytes from file block `fileoff`, from however many extents. Returns `None`
    /// if a part is a hole, which is reported, or cannot be read.
    pub(crate) fn read(&self, at: Location, buf: &mut [u8]) -> Option<()> {
        let mut fileoff = at.fileoff?.0;
        let mut rest = buf;
        while !rest.is_empty() {
            let Some((daddr, blocks)) = self.lookup(fileoff) else {
                let ctx = self.vol.ctx(Location { fileoff: Some(FileOff(fileoff)), ..at });
                let mapped = "a block that the fork's map covers";
                self.vol.sink.error(ctx.require("da.hole", false, mapped, fileoff));
                return None;
            };
            let bytes = usize::try_from(blocks << self.vol.geo.blocklog).unwrap_or(usize::MAX);
            let (part, behind) = rest.split_at_mut(bytes.min(rest.len()));
            let sectors = Sectors(part.len() as u64 / 512);
            if !self.vol.read(at.daddr(daddr, sectors), part) {
                return None;
            }
            fileoff = fileoff.saturating_add(part.len() as u64 >> self.vol.geo.blocklog);
            rest = behind;
        }
        Some(())
    }

    /// Returns the number of blocks that the map covers in `[from, to)`.
    pub(crate) fn mapped(&self, from: u64, to: u64) -> u64 {
        let inside = |e: &Extent| e.end().0.min(to).saturating_sub(e.startoff.0.max(from));
        self.map.iter().map(inside).sum()
    }
}

/// The head of a leaf, which its tree must agree with.
pub(crate) struct LeafHead {
    pub forw: u32,
    pub back: u32,
    /// Hashes of the first and the last entry; `None` for a leaf without entries.
    pub hashes: Option<(u32, u32)>,
}

impl LeafHead {
    pub(crate) fn new(info: &BlkInfo, hashes: Option<(u32, u32)>) -> Self {
        Self { forw: info.forw.get(), back: info.back.get(), hashes }
    }
}

/// Buffers that are reused from walk to walk.
#[derive(Default)]
pub(crate) struct Scratch {
    buffers: Vec<Vec<u8>>,
    entered: HashSet<u32>,
}

/// Verifies a leaf and uses it. The last argument is true if the leaf is the whole tree.
type Leaf<'l> = dyn FnMut(&[u8], &Ctx<'_>, bool) -> VerifyResult<LeafHead> + 'l;

/// What a node records about a block below it.
#[derive(Clone, Copy)]
struct Parent {
    /// The level of the block below.
    level: u16,
    /// Its last hash.
    hashval: u32,
    /// Location of the node's entry.
    at: Location,
}

struct Walk<'w, 'v> {
    fork: MappedFork<'w, 'v>,
    scratch: &'w mut Scratch,
    /// For each level the block visited last, and its right sibling as it records it.
    neighbours: Vec<Option<(u32, u32)>>,
    last_hash: u32,
    sound: bool,
    leaf: &'w mut Leaf<'w>,
}

/// Walks the tree of `fork`. Returns the blocks entered, or `None` if a part could not be read.
pub(crate) fn walk<'w>(
    fork: MappedFork<'w, '_>,
    scratch: &'w mut Scratch,
    leaf: &'w mut Leaf<'w>,
) -> Option<u64> {
    scratch.entered.clear();
    scratch.buffers.resize_with(usize::from(da::MAX_LEVEL) + 1, Vec::new);
    let neighbours = vec![None; usize::from(da::MAX_LEVEL) + 1];
    let mut walk = Walk { fork, scratch, neighbours, last_hash: 0, sound: true, leaf };
    let root = da::root(&fork.vol.geo, fork.fork).0;
    walk.visit(root, None);
    walk.check_right_ends();
    let entered = walk.scratch.entered.len() as u64;
    walk.sound.then_some(entered)
}

impl Walk<'_, '_> {
    /// Checks the block `dablk`, below `parent` if it is not the root.
    fn visit(&mut self, dablk: u32, parent: Option<Parent>) {
        let vol = self.fork.vol;
        let what = if self.fork.fork == Fork::Data { "dir block" } else { "attr block" };
        let ctx = vol.ctx(self.fork.location(what, dablk.into()));
        let alone = "a block entered only once";
        let fresh = self.scratch.entered.insert(dablk);
        if !vol.sink.error(ctx.require("da.node.before", fresh, alone, dablk)) {
            self.sound = false;
            return;
        }
        if ctx.at.daddr.is_none() {
            let mapped = "a block that the fork's map covers";
            self.sound = vol.sink.error(ctx.require("da.hole", false, mapped, dablk));
            return;
        }
        let slot = parent.map_or(da::MAX_LEVEL, |parent| parent.level);
        let slot = usize::from(slot.min(da::MAX_LEVEL));
        let mut buf = std::mem::take(&mut self.scratch.buffers[slot]);
        buf.resize(da::block_len(&vol.geo, self.fork.fork), 0);
        let verified = self.fork.read(ctx.at, &mut buf).and_then(|()| {
            vol.verify_in(ctx.at, &mut buf, da::CRC_OFFSET, |bytes| {
                self.check_block(bytes, &ctx, dablk, parent)
            })
        });
        self.scratch.buffers[slot] = buf;
        if verified.is_none() {
            self.sound = false;
        }
    }

    fn check_block(
        &mut self,
        bytes: &[u8],
        ctx: &Ctx<'_>,
        dablk: u32,
        parent: Option<Parent>,
    ) -> VerifyResult {
        let is_node = da::magic(bytes) == Some(Layout::of(ctx.geo).da_node_magic);
        let wants_node = parent.map_or(is_node, |parent| parent.level > 0);
        if wants_node {
            let node = Node::verify(bytes, ctx, self.fork.fork)?;
            let mut level = node.level;
            match parent {
                Some(parent) => ctx.eq("da.node.level", parent.level, level)?,
                // A wrong level of the root would be found again in each child.
                None => level = self.level_by_children(&node).unwrap_or(level),
            }
            self.fork.vol.sink.error(ctx.eq("da.node.level", level, node.level));
            self.check_parent_hash(parent, node.btree.last().map(|child| child.hashval.get()));
            let siblings = (node.info.forw.get(), node.info.back.get());
            self.check_siblings(ctx, ("da.node.forw", "da.node.back"), level, dablk, siblings);
            for (index, child) in node.btree.iter().enumerate() {
                let (level, hashval, at) = (level - 1, child.hashval.get(), ctx.at.index(index));
                self.visit(child.before.get(), Some(Parent { level, hashval, at }));
            }
            return Ok(());
        }
        let head = (self.leaf)(bytes, ctx, parent.is_none())?;
        if let Some((first, last)) = head.hashes {
            let sink = &self.fork.vol.sink;
            sink.error(ctx.at_least("da.leaf.order", self.last_hash, first));
            self.last_hash = last;
        }
        self.check_parent_hash(parent, head.hashes.map(|(_, last)| last));
        let ids = match self.fork.fork {
            Fork::Data => ("dir.leaf.forw", "dir.leaf.back"),
            Fork::Attr => ("attr.leaf.forw", "attr.leaf.back"),
        };
        self.check_siblings(ctx, ids, 0, dablk, (head.forw, head.back));
        Ok(())
    }

    /// Returns the level of a node by those of its first two children, if they agree.
    fn level_by_children(&self, node: &Node<'_>) -> Option<u16> {
        let mut levels = node.btree.iter().take(2).map(|child| self.level_of(child.before.get()));
        let first = levels.next()??;
        (levels.next()?? == first && first < da::MAX_LEVEL).then_some(first + 1)
    }

    /// Returns the level in the header of block `dablk`, 0 for a leaf.
    fn level_of(&self, dablk: u32) -> Option<u16> {
        let (geo, fork) = (&self.fork.vol.geo, self.fork.fork);
        let ctx = self.fork.vol.ctx(self.fork.location("dir block", dablk.into()));
        ctx.at.daddr?;
        let mut block = vec![0; da::block_len(geo, fork)];
        self.fork.read(ctx.at, &mut block)?;
        let layout = Layout::of(geo);
        let magic = da::magic(&block)?;
        if magic == layout.dir_leafn_magic || magic == layout.attr_leaf_magic {
            return Some(0);
        }
        Node::verify(&block, &ctx, fork).ok().map(|node| node.level)
    }

    /// Checks that the parent's hash is that of the last entry below. The hashes of a leaf are
    /// compared with its names, so the parent's is wrong.
    fn check_parent_hash(&self, parent: Option<Parent>, last: Option<u32>) {
        if let (Some(parent), Some(last)) = (parent, last) {
            let ctx = self.fork.vol.ctx(parent.at);
            self.fork.vol.sink.error(ctx.eq_hex("da.node.hashval", last, parent.hashval));
        }
    }

    /// Checks the sibling pointers, which link the blocks of one level in both directions.
    fn check_siblings(
        &mut self,
        ctx: &Ctx<'_>,
        (forw_id, back_id): (&'static str, &'static str),
        level: u16,
        dablk: u32,
        (forw, back): (u32, u32),
    ) {
        let sink = &self.fork.vol.sink;
        let slot = usize::from(level.min(da::MAX_LEVEL));
        match self.neighbours[slot] {
            Some((left, next)) => {
                sink.error(ctx.eq(back_id, left, back));
                sink.error(ctx.eq(forw_id, dablk, next));
            }
            None if self.sound => {
                sink.error(ctx.eq(back_id, 0, back));
            }
            None => {}
        }
        self.neighbours[slot] = Some((dablk, forw));
    }

    fn check_right_ends(&self) {
        for (left, next) in self.neighbours.iter().flatten().filter(|_| self.sound) {
            let ctx = self.fork.vol.ctx(self.fork.location("da block", (*left).into()));
            self.fork.vol.sink.error(ctx.eq("da.forw", 0, *next));
        }
    }
}
