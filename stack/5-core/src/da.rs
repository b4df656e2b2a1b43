//! The hash btree of one fork: a directory's data fork, or an attribute fork.
//!
//! Every walk ends, whatever the blocks contain. Each level must be one below the last, and a walk
//! along siblings or over all leaves visits no more blocks than the fork has.

mod plan;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tree;

use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_format::da::{self, Node};
use xfskit_format::{Ctx, Expected, Fork, Layout, Location, Value, VerifyResult, attr, dir, inode};
use xfskit_trans::Buf;
use xfskit_units::{DaBlock, Daddr, FileOff, Geometry, Ino, Sectors};

use crate::bmap::{ExtentList, Mapping, OnDemand};
use crate::error::Result;
use crate::inode::Inode;
use crate::volume::Volume;

/// Number of blocks that are read ahead at once.
const READ_AHEAD: usize = 64;

/// A fork with a hash btree, and its extent map.
#[derive(Debug)]
pub(crate) struct DaFork<'a, M = ExtentList> {
    pub(crate) vol: &'a Volume,
    pub(crate) ino: Ino,
    pub(crate) fork: Fork,
    pub(crate) extents: M,
}

/// A block of the tree: its offset in the fork, and its verified bytes.
#[derive(Clone, Debug)]
pub(crate) struct DaBuf {
    pub(crate) dablk: DaBlock,
    pub(crate) buf: Arc<Buf>,
}

/// The callback of a walk over leaves: each leaf with the hash that its parent has for it, and each
/// part that cannot be read.
pub(crate) type EachLeaf<'e> = dyn FnMut(Result<(&DaBuf, Option<u32>)>) -> ControlFlow<()> + 'e;

/// Verifies a block of the tree, node or leaf.
pub(crate) fn verify_any(bytes: &[u8], ctx: &Ctx<'_>, fork: Fork) -> VerifyResult {
    if da::magic(bytes) == Some(Layout::of(ctx.geo).da_node_magic) {
        return Node::verify(bytes, ctx, fork).map(drop);
    }
    match fork {
        Fork::Data => dir::leaf::Leaf::verify(bytes, ctx, None).map(drop),
        Fork::Attr => attr::leaf::Leaf::verify(bytes, ctx).map(drop),
    }
}

impl<'a> DaFork<'a> {
    /// Opens the fork of `inode`, which must not map more blocks than the volume has. No walk over
    /// it thus takes longer than one over the device.
    pub(crate) fn open(vol: &'a Volume, inode: &Inode, fork: Fork) -> Result<Self> {
        let (ino, extents) = (inode.ino(), vol.extents(inode, fork)?);
        let ctx = vol.ctx(inode::location(vol.geo(), ino).fork(fork));
        ctx.at_most("da.blocks", vol.geo().dblocks.0, extents.blocks())?;
        Ok(Self { vol, ino, fork, extents })
    }

    /// Opens a damaged fork: blocks whose extents are lost are holes. Maps nothing if the fork maps
    /// more blocks than the volume has.
    pub(crate) fn salvage(vol: &'a Volume, inode: &Inode, fork: Fork) -> Self {
        let (extents, _) = vol.salvage_extents(inode, fork);
        let is_too_long = extents.blocks() > vol.geo().dblocks.0;
        let extents = if is_too_long { ExtentList::default() } else { extents };
        Self { vol, ino: inode.ino(), fork, extents }
    }
}

impl<'a> DaFork<'a, OnDemand<'a>> {
    /// Opens the fork of `inode` for a look-up or two: its map is read as needed. With `kept`, the
    /// caller guarantees that the fork does not change meanwhile.
    pub(crate) fn on_demand(
        vol: &'a Volume,
        inode: &'a Inode,
        fork: Fork,
        kept: bool,
    ) -> Result<Self> {
        Ok(Self { vol, ino: inode.ino(), fork, extents: OnDemand::open(vol, inode, fork, kept)? })
    }
}

impl<'a, M: Mapping> DaFork<'a, M> {
    pub(crate) fn geo(&self) -> &'a Geometry {
        self.vol.geo()
    }

    /// Returns the location of a block of this fork, called `what`, without its device address.
    pub(crate) fn at(&self, what: &'static str, fileoff: FileOff) -> Location {
        Location::of(what).ino(self.ino).fork(self.fork).fileoff(fileoff)
    }

    /// Returns the number of filesystem blocks in one block of the fork's tree.
    fn unit(&self) -> u32 {
        match self.fork {
            Fork::Data => self.geo().dirblkfsbs(),
            Fork::Attr => 1,
        }
    }

    /// Reads the block at `fileoff`, called `what`, and verifies it with `verify`.
    pub(crate) fn read(
        &self,
        what: &'static str,
        fileoff: FileOff,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Arc<Buf>> {
        let at = self.at(what, fileoff);
        let Some(map) = self.extents.buf_map(self.geo(), fileoff, self.unit())? else {
            let want = Expected::Described("a mapped block".into());
            return Err(self.vol.ctx(at).corruption("da.map", want, Value::Missing).into());
        };
        let (daddr, _) = map.first();
        let at = at.daddr(daddr, Sectors(map.byte_len() as u64 / 512));
        Ok(self.vol.cache().read(&map, &self.vol.ctx(at), verify)?)
    }

    /// Starts read-ahead of blocks of the fork.
    pub(crate) fn read_ahead(&self, blocks: impl Iterator<Item = FileOff>) {
        let single =
            |at| self.extents.buf_map(self.geo(), at, self.unit()).ok().flatten()?.as_single();
        let ranges: Vec<(Daddr, Sectors)> = blocks.filter_map(single).collect();
        if ranges.len() > 1 {
            self.vol.cache().read_ahead(&ranges);
        }
    }

    /// Reads node or leaf `dablk`.
    fn read_tree(&self, dablk: DaBlock) -> Result<DaBuf> {
        let what = match self.fork {
            Fork::Data => "directory tree",
            Fork::Attr => "attribute tree",
        };
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| verify_any(bytes, ctx, self.fork);
        let buf = self.read(what, FileOff(dablk.0.into()), &verify)?;
        Ok(DaBuf { dablk, buf })
    }

    /// Returns the node in `block`; `None` for a leaf.
    fn node<'b>(&self, block: &'b DaBuf) -> Option<Node<'b>> {
        let is_node = da::magic(&block.buf) == Some(Layout::of(self.geo()).da_node_magic);
        if is_node { Node::parse(&block.buf, self.geo()) } else { None }
    }

    /// Fails if `block` is not on `level`, one below its parent.
    fn expect_level(&self, block: &DaBuf, level: u16) -> Result<()> {
        let found = self.node(block).map_or(0, |node| node.level);
        let at = self.at("da node", FileOff(block.dablk.0.into()));
        Ok(self.vol.ctx(at).eq("da.node.level", level, found)?)
    }

    /// Returns the first leaf that may hold `hash`; `None` if all hashes are smaller.
    pub(crate) fn leaf_for(&self, hash: u32) -> Result<Option<DaBuf>> {
        let mut block = self.read_tree(da::root(self.geo(), self.fork))?;
        while let Some((child, level)) = self.node(&block).map(|n| (n.child(hash), n.level)) {
            let Some(child) = child else { return Ok(None) };
            block = self.read_tree(child)?;
            self.expect_level(&block, level.saturating_sub(1))?;
        }
        Ok(Some(block))
    }

    /// Returns the leaf that `forw` of the previous leaf points to.
    pub(crate) fn next_leaf(&self, forw: u32) -> Result<Option<DaBuf>> {
        if forw == 0 {
            return Ok(None);
        }
        let block = self.read_tree(DaBlock(forw))?;
        self.expect_level(&block, 0)?;
        Ok(Some(block))
    }

    /// Returns the maximum number of blocks that a walk may visit.
    pub(crate) fn budget(&self) -> u64 {
        self.extents.most_blocks()
    }

    /// Passes every leaf in hash order to `each`. A part that cannot be read is passed as an error,
    /// and the walk continues beside it.
    pub(crate) fn each_leaf(
        &self,
        each: &mut dyn FnMut(Result<&DaBuf>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.each_leaf_with_hash(&mut |leaf| each(leaf.map(|(leaf, _)| leaf)))
    }

    /// Passes every leaf to `each` as [`each_leaf`](Self::each_leaf) does, with the last hash that
    /// its parent has for it; `None` if it has no parent. Nodes whose last hash is not the one that
    /// their parent has are passed as errors.
    pub(crate) fn each_leaf_with_hash(&self, each: &mut EachLeaf<'_>) -> ControlFlow<()> {
        let root = match self.read_tree(da::root(self.geo(), self.fork)) {
            Ok(root) => root,
            Err(err) => return each(Err(err)),
        };
        let mut budget = self.budget();
        self.each_leaf_below((&root, None), &mut budget, each)
    }

    /// Passes the leaves below `block` to `each`. The depth of the recursion is the level of the
    /// root, which a verified node bounds.
    fn each_leaf_below(
        &self,
        (block, hash): (&DaBuf, Option<u32>),
        budget: &mut u64,
        each: &mut EachLeaf<'_>,
    ) -> ControlFlow<()> {
        let Some(node) = self.node(block) else { return each(Ok((block, hash))) };
        let last = node.btree.last().map(|child| child.hashval.get());
        if let (Some(expected), Some(last)) = (hash, last) {
            let at = self.at("da node", FileOff(block.dablk.0.into()));
            if let Err(fault) = self.vol.ctx(at).eq("da.node.hashval", expected, last) {
                each(Err(fault.into()))?;
            }
        }
        for group in node.btree.chunks(READ_AHEAD) {
            self.read_ahead(group.iter().map(|child| FileOff(child.before.get().into())));
            for child in group {
                let Some(left) = budget.checked_sub(1) else { return ControlFlow::Break(()) };
                *budget = left;
                let block = self.read_tree(DaBlock(child.before.get())).and_then(|block| {
                    self.expect_level(&block, node.level.saturating_sub(1))?;
                    Ok(block)
                });
                match block {
                    Ok(block) => {
                        let hash = Some(child.hashval.get());
                        self.each_leaf_below((&block, hash), budget, each)?;
                    }
                    Err(err) => each(Err(err))?,
                }
            }
        }
        ControlFlow::Continue(())
    }
}
