//! Two ways to map a fork's blocks: from its whole map, or one by one from its tree.
//!
//! A reader of a whole fork uses the [`ExtentList`]. A look-up of one name in a directory of a
//! million needs only the few blocks on its path ([`OnDemand`]). Each costs the tree's height,
//! whatever the fork's size. While a directory does not change, the results are cached, so that the
//! next look-up does not pay that for each of its blocks.

use xfskit_format::bmbt::edit::Node;
use xfskit_format::bmbt::{self, BmdrRoot, Extent, ExtentRules};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Fork, Location, inode};
use xfskit_trans::BufMap;
use xfskit_units::{ByteLen, FileOff, FsBlock, Geometry, Ino, Sectors};

use super::ExtentList;
use super::node::{Due, verify_block};
use crate::error::Result;
use crate::inode::Inode;
use crate::volume::Volume;

/// Maps offsets of a fork to blocks.
pub(crate) trait Mapping {
    /// Returns the extent that covers `fileoff`.
    fn extent_at(&self, fileoff: FileOff) -> Result<Option<Extent>>;

    /// Returns true if the fork maps nothing.
    fn is_empty(&self) -> bool;

    /// Returns an upper bound of the mapped blocks, at most the size of the volume. It bounds
    /// walks.
    fn most_blocks(&self) -> u64;

    /// Returns the device ranges of `blocks` blocks from `start` on; `None` if there is a hole.
    fn buf_map(&self, geo: &Geometry, start: FileOff, blocks: u32) -> Result<Option<BufMap>> {
        buf_map(geo, start, blocks, |at| self.extent_at(at))
    }
}

/// Returns the device ranges of `blocks` blocks from `start` on; `extent_at` returns the extent
/// that covers a block.
pub(crate) fn buf_map(
    geo: &Geometry,
    start: FileOff,
    blocks: u32,
    extent_at: impl Fn(FileOff) -> Result<Option<Extent>>,
) -> Result<Option<BufMap>> {
    let end = start.saturating_add(blocks.into());
    let (mut at, mut pieces) = (start, Vec::new());
    while at < end {
        let found = extent_at(at)?.filter(|extent| !extent.unwritten);
        let part = found.map(|extent| extent.clip(at, end));
        let place = part.and_then(|part| Some((part, geo.fsb_to_daddr(part.startblock)?)));
        let Some((part, daddr)) = place else { return Ok(None) };
        let len = Sectors(geo.block_sectors().0 * part.blockcount.0);
        if at == start && part.end() == end {
            return Ok(Some(BufMap::single(daddr, len)));
        }
        pieces.push((daddr, len));
        at = part.end();
    }
    Ok(BufMap::pieces(pieces))
}

impl Mapping for ExtentList {
    fn extent_at(&self, fileoff: FileOff) -> Result<Option<Extent>> {
        Ok(self.lookup(fileoff).copied())
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn most_blocks(&self) -> u64 {
        self.blocks()
    }
}

/// A fork whose map is read as needed.
#[derive(Debug)]
pub(crate) enum OnDemand<'a> {
    /// A map without a tree: all of it is in the inode.
    Few(ExtentList),
    /// A map in a tree.
    Tree(Tree<'a>),
}

/// The tree of a fork.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    volume: &'a Volume,
    core: Dinode<'a>,
    ino: Ino,
    fork: Fork,
    /// True for a directory that does not change meanwhile: the locations of its blocks are cached.
    remembers: bool,
}

impl<'a> OnDemand<'a> {
    /// Opens the map of a fork. With `kept`, the caller guarantees that the fork does not change
    /// meanwhile.
    pub(crate) fn open(
        volume: &'a Volume,
        inode: &'a Inode,
        fork: Fork,
        kept: bool,
    ) -> Result<Self> {
        let (core, ino) = (inode.core(), inode.ino());
        if core.fork_format(fork) == Some(Format::Btree) {
            let remembers = kept && fork == Fork::Data && core.is_dir();
            return Ok(Self::Tree(Tree { volume, core, ino, fork, remembers }));
        }
        Ok(Self::Few(volume.extents(inode, fork)?))
    }
}

impl Mapping for OnDemand<'_> {
    fn extent_at(&self, fileoff: FileOff) -> Result<Option<Extent>> {
        match self {
            Self::Few(list) => list.extent_at(fileoff),
            Self::Tree(tree) => tree.extent_at(fileoff),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(list) => list.is_empty(),
            Self::Tree(_) => false,
        }
    }

    fn most_blocks(&self) -> u64 {
        match self {
            Self::Few(list) => list.most_blocks(),
            Self::Tree(tree) => tree.core.nblocks().0.min(tree.volume.geo().dblocks.0),
        }
    }

    fn buf_map(&self, geo: &Geometry, start: FileOff, blocks: u32) -> Result<Option<BufMap>> {
        let look = || buf_map(geo, start, blocks, |at| self.extent_at(at));
        let whole = blocks == geo.dirblkfsbs();
        match self {
            Self::Tree(tree) if tree.remembers && whole => tree.remembered(geo, start, look),
            _ => look(),
        }
    }
}

impl Tree<'_> {
    /// Returns the location of the directory block at `at`, from the cache or else from `look`.
    fn remembered(
        &self,
        geo: &Geometry,
        at: FileOff,
        look: impl FnOnce() -> Result<Option<BufMap>>,
    ) -> Result<Option<BufMap>> {
        let dir_cache = &self.volume.dir_cache;
        if let Some(daddr) = dir_cache.location(geo, self.ino, at) {
            return Ok(Some(BufMap::single(daddr, ByteLen(geo.dirblksize() as u64).sectors())));
        }
        let map = look()?;
        if let Some((daddr, _)) = map.as_ref().and_then(BufMap::as_single) {
            dir_cache.set_location(geo, self.ino, at, daddr);
        }
        Ok(map)
    }

    /// Descends to the leaf that may cover `fileoff`, each level one below the last.
    fn extent_at(&self, fileoff: FileOff) -> Result<Option<Extent>> {
        let (geo, at) = (self.volume.geo(), inode::location(self.volume.geo(), self.ino));
        let ctx = self.volume.ctx(at.fork(self.fork));
        let inline = self.core.fork(self.fork).unwrap_or(&[]);
        BmdrRoot::verify(inline, &ctx, self.fork)?;
        let mut due =
            Self::child_of(inline, &Node::of_root(inline, 0, inline.len()), fileoff, None);
        while let Some((block, said)) = due {
            let at = self.location(geo, block, said.first());
            let buf =
                self.volume.read_buf(at, &|bytes, ctx| verify_block(bytes, ctx, self.fork))?;
            let (node, ctx) = (Node::of_block(&buf, geo), self.volume.ctx(at));
            said.verify(&ctx, &buf, &node)?;
            if node.level == 0 {
                let slot = node.upto(&buf, fileoff).checked_sub(1);
                let Some(slot) = slot.and_then(|index| node.slot(&buf, index)) else { break };
                let extent = slot.extent();
                extent.verify(&ctx, ExtentRules::of(&self.core, self.fork))?;
                return Ok(Some(extent).filter(|extent| fileoff < extent.end()));
            }
            due = Self::child_of(&buf, &node, fileoff, Some(&said));
        }
        Ok(None)
    }

    /// Returns the child of `node` to descend to for `fileoff`, and what its parent states about
    /// it.
    fn child_of(
        bytes: &[u8],
        node: &Node,
        fileoff: FileOff,
        above: Option<&Due>,
    ) -> Option<(FsBlock, Due)> {
        let index = node.upto(bytes, fileoff).checked_sub(1)?;
        let end = above.map_or(FileOff(u64::MAX), Due::end);
        let due = Due::of_child(bytes, node, index, end)?;
        Some((node.slot(bytes, index)?.child(), due))
    }

    fn location(&self, geo: &Geometry, block: FsBlock, key: FileOff) -> Location {
        bmbt::location(geo, block).ino(self.ino).fork(self.fork).fileoff(key)
    }
}
