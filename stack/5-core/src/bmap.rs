//! Extent maps: from an offset in a fork to a location on the device.
//!
//! An [`ExtentList`] is a fork's whole map in memory, 32 bytes for each extent. Making one verifies
//! that every extent is in range, and that extents ascend and do not overlap. A fork in btree form
//! is read level by level, with read-ahead for the blocks of a level. The walk ends whatever the
//! blocks contain. Every level must be one below the last, and every block must start where its
//! parent states, so no block can be visited twice.

mod blocks;
mod change;
mod cursor;
mod forkoff;
mod map;
mod mapping;
mod node;
mod salvage;

use std::ops::Range;

use xfskit_format::bmbt::{self, BmbtBlock, BmdrRoot, Extent, ExtentRules, Rec};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Ctx, Fork, Location, VerifyResult, inode};
use xfskit_trans::BufMap;
use xfskit_units::{Daddr, FilBlks, FileOff, FsBlock, Geometry, Ino, Sectors};

use crate::error::Result;
use crate::inode::Inode;
use crate::volume::Volume;

pub use salvage::LostBlocks;

pub(crate) use mapping::{Mapping, OnDemand, buf_map};

/// Number of blocks of a level that are read ahead at once.
const READ_AHEAD: usize = 64;

/// Maximum number of extents that one transaction should unmap. Freeing each of them changes
/// several blocks.
pub const BUNMAP_MAX: usize = 32;

/// All blocks of a fork.
pub(crate) const WHOLE: Range<FileOff> = FileOff::ZERO..FileOff(u64::MAX);

/// The blocks behind a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A hole: reads as zeroes.
    Hole,
    /// Blocks that were never written: reads as zeroes.
    Unwritten(FsBlock),
    /// Written blocks.
    Written(FsBlock),
}

/// A contiguous part of a file, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first block.
    pub startoff: FileOff,
    /// The length in blocks.
    pub blockcount: FilBlks,
    /// The blocks behind it.
    pub backing: Backing,
}

/// A part of the blocks that a fork uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkPart {
    /// An extent of its content.
    Extent(Extent),
    /// A block of its extent tree.
    TreeBlock(FsBlock),
}

/// The extents of one fork, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentList {
    extents: Vec<Extent>,
}

impl ExtentList {
    /// Returns all extents, in order.
    pub fn as_slice(&self) -> &[Extent] {
        &self.extents
    }

    /// Returns the number of extents.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Returns true if the fork maps nothing.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns the number of mapped blocks.
    pub fn blocks(&self) -> u64 {
        self.extents.iter().map(|extent| extent.blockcount.0).sum()
    }

    /// Returns the first block behind the last extent.
    pub fn end(&self) -> FileOff {
        self.extents.last().map_or(FileOff::ZERO, Extent::end)
    }

    /// Returns the extent that covers `fileoff`.
    pub fn lookup(&self, fileoff: FileOff) -> Option<&Extent> {
        self.extents[self.first_behind(fileoff)..].first().filter(|next| next.startoff <= fileoff)
    }

    /// Returns the index of the first extent that ends behind `fileoff`.
    fn first_behind(&self, fileoff: FileOff) -> usize {
        self.extents.partition_point(|extent| extent.end() <= fileoff)
    }

    /// Returns the blocks `[start, end)` as segments without gaps, holes included.
    pub fn segments(&self, start: FileOff, end: FileOff) -> Segments<'_> {
        Segments { rest: &self.extents[self.first_behind(start)..], at: start, end }
    }

    /// Returns the device ranges of `blocks` blocks from `start` on, or `None` if there is a hole.
    /// This serves metadata (directories) whose blocks consist of several filesystem blocks.
    pub fn map_blocks(&self, geo: &Geometry, start: FileOff, blocks: u32) -> Option<BufMap> {
        let end = start.checked_add(blocks.into())?;
        let piece = |segment: Segment| match segment.backing {
            Backing::Written(block) => {
                let len = geo.block_sectors().0.checked_mul(segment.blockcount.0)?;
                Some((geo.fsb_to_daddr(block)?, Sectors(len)))
            }
            Backing::Hole | Backing::Unwritten(_) => None,
        };
        BufMap::pieces(self.segments(start, end).map(piece).collect::<Option<_>>()?)
    }

    /// Returns the device ranges of the directory block that begins at block `dabno` of its fork.
    pub fn map_dir_block(&self, geo: &Geometry, dabno: FileOff) -> Option<BufMap> {
        self.map_blocks(geo, dabno, geo.dirblkfsbs())
    }
}

/// Iterator over the segments of a range: [`ExtentList::segments`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    /// Extents that end behind `at`.
    rest: &'a [Extent],
    at: FileOff,
    end: FileOff,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let startoff = self.at;
        if startoff >= self.end {
            return None;
        }
        let (stop, backing) = match self.rest.split_first() {
            Some((extent, rest)) if extent.startoff <= startoff => {
                self.rest = rest;
                let block = extent.block_at(startoff)?;
                let state = if extent.unwritten { Backing::Unwritten } else { Backing::Written };
                (extent.end(), state(block))
            }
            Some((extent, _)) => (extent.startoff, Backing::Hole),
            None => (self.end, Backing::Hole),
        };
        self.at = stop.min(self.end);
        let blockcount = FilBlks(self.at.since(startoff)?);
        Some(Segment { startoff, blockcount, backing })
    }
}

impl Volume {
    /// Returns the extents of one fork of `inode`, all of them verified. A fork that is stored in
    /// the inode, or does not exist, has none.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn extents(&self, inode: &Inode, fork: Fork) -> Result<ExtentList> {
        self.extents_of(&inode.core(), inode.ino(), fork)
    }

    /// Returns the extents of one fork of an inode that the caller has verified.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn extents_of(&self, core: &Dinode<'_>, ino: Ino, fork: Fork) -> Result<ExtentList> {
        let mut extents = Vec::new();
        self.each_part(core, (ino, fork), &WHOLE, &mut |part| {
            if let ForkPart::Extent(extent) = part {
                extents.push(extent);
            }
        })?;
        Ok(ExtentList { extents })
    }

    /// Passes all blocks that one fork of an inode uses to `each`: its extents, in order, and the
    /// blocks of its extent tree. The caller has verified the inode.
    ///
    /// # Errors
    /// As [`extents_of`](Self::extents_of). The parts before the corruption were passed.
    pub fn each_fork_part(
        &self,
        core: &Dinode<'_>,
        ino: Ino,
        fork: Fork,
        each: &mut dyn FnMut(ForkPart),
    ) -> Result<()> {
        self.each_part(core, (ino, fork), &WHOLE, each)
    }

    /// Verifies the map of one fork of inode `ino` as [`extents`](Self::extents) does, for `blocks`
    /// only, and keeps nothing of it. An operation in several transactions calls this first, so
    /// that damage stops it before anything changes.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub(crate) fn verify_map(&self, ino: Ino, fork: Fork, blocks: &Range<FileOff>) -> Result<()> {
        let _kept = self.share(ino)?;
        let inode = self.iget(ino)?;
        self.each_part(&inode.core(), (ino, fork), blocks, &mut |_| ())
    }

    /// Passes the verified extents of a fork that overlap `blocks`, and perhaps some beside them,
    /// to `each`, with the blocks of the tree that lead to them.
    fn each_part(
        &self,
        core: &Dinode<'_>,
        (ino, fork): (Ino, Fork),
        blocks: &Range<FileOff>,
        each: &mut dyn FnMut(ForkPart),
    ) -> Result<()> {
        let ctx = self.ctx(inode::location(self.geo(), ino).fork(fork));
        let (rules, most) = (ExtentRules::of(core, fork), core.fork_nextents(fork));
        let mut seen = Seen { ctx, rules, most, count: 0, end: FileOff::ZERO, each };
        let inline = core.fork(fork).unwrap_or(&[]);
        match core.fork_format(fork) {
            Some(Format::Extents) => {
                seen.add(bmbt::records(inline, usize::try_from(most).unwrap_or(usize::MAX)))?;
            }
            Some(Format::Btree) => {
                let root = BmdrRoot::verify(inline, &ctx, fork)?;
                self.walk_tree(&root, (ino, fork), blocks, &mut seen)?;
            }
            Some(Format::MetaBtree) if fork == Fork::Data => {
                return self.each_meta_block(core, &ctx, &mut |block| {
                    (seen.each)(ForkPart::TreeBlock(block));
                });
            }
            _ => return Ok(()),
        }
        if *blocks == WHOLE {
            ctx.eq(seen.count_id(), most, seen.count)?;
        }
        Ok(())
    }

    /// Reads the tree below `root`, level by level, for `blocks` only.
    fn walk_tree(
        &self,
        root: &BmdrRoot<'_>,
        (ino, fork): (Ino, Fork),
        blocks: &Range<FileOff>,
        seen: &mut Seen<'_>,
    ) -> Result<()> {
        let mut children: Vec<Child> = Child::list(root.keys, root.ptrs).collect();
        for level in (0..root.level).rev() {
            let before = children.iter().skip(1).take_while(|next| next.key <= blocks.start);
            children.drain(..before.count());
            children.truncate(children.partition_point(|child| child.key < blocks.end).max(1));
            let mut below = Vec::new();
            // The block before, and the right sibling that it names.
            let mut before: Option<(Location, Option<FsBlock>)> = None;
            for group in children.chunks(READ_AHEAD) {
                let ranges: Vec<_> =
                    group.iter().filter_map(|child| self.range_of(child)).collect();
                self.cache().read_ahead(&ranges);
                for child in group {
                    let at = self.child_location(child, ino, fork);
                    (seen.each)(ForkPart::TreeBlock(child.block));
                    self.read_child(child, level, (at, fork), &mut |block| {
                        if level == 0 {
                            self.check_right(before.take(), Some(child.block))?;
                            before = Some((at, block.rightsib));
                        }
                        below.extend(Child::list(block.keys(), block.ptrs()));
                        seen.add(block.recs())
                    })?;
                }
            }
            if *blocks == WHOLE {
                self.check_right(before, None)?;
            }
            children = below;
        }
        Ok(())
    }

    /// Fails if the right sibling of the leaf `before` is not `next`. Linux reads the leaves along
    /// their siblings, and refuses a map that is another than the tree's.
    fn check_right(
        &self,
        before: Option<(Location, Option<FsBlock>)>,
        next: Option<FsBlock>,
    ) -> VerifyResult {
        let Some((at, right)) = before else { return Ok(()) };
        let number = |block: Option<FsBlock>| block.map_or(bmbt::NULLFSBLOCK, |block| block.0);
        self.ctx(at).eq("bmbt.rightsib", number(next), number(right))
    }

    fn child_location(&self, child: &Child, ino: Ino, fork: Fork) -> Location {
        bmbt::location(self.geo(), child.block).ino(ino).fork(fork).fileoff(child.key)
    }

    fn range_of(&self, child: &Child) -> Option<(Daddr, Sectors)> {
        Some((self.geo().fsb_to_daddr(child.block)?, self.geo().block_sectors()))
    }

    /// Reads the block at `at`, which must be of `level` and begin with the key in its parent.
    fn read_child(
        &self,
        child: &Child,
        level: u16,
        (at, fork): (Location, Fork),
        use_block: &mut dyn FnMut(&BmbtBlock<'_>) -> VerifyResult,
    ) -> Result<()> {
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| node::verify_block(bytes, ctx, fork);
        let buf = self.read_buf(at, &verify)?;
        let ctx = self.ctx(at).crc_known();
        let block = BmbtBlock::verify(&buf, &ctx, fork)?;
        ctx.eq("bmbt.level", level, block.level)?;
        if let Some(first) = block.first() {
            ctx.eq("bmbt.keys", child.key, first)?;
        }
        Ok(use_block(&block)?)
    }
}

/// A child of a node: its first file block, and its location.
#[derive(Clone, Copy, Debug)]
struct Child {
    key: FileOff,
    block: FsBlock,
}

impl Child {
    fn list<'a>(keys: &'a [bmbt::Word], ptrs: &'a [bmbt::Word]) -> impl Iterator<Item = Self> + 'a {
        let child = |(key, ptr): (&bmbt::Word, &bmbt::Word)| Self {
            key: FileOff(key.get()),
            block: FsBlock(ptr.get()),
        };
        keys.iter().zip(ptrs).map(child)
    }
}

/// Verifies the extents of a fork one by one.
struct Seen<'a> {
    ctx: Ctx<'a>,
    rules: ExtentRules,
    /// The inode's count of extents.
    most: u64,
    /// Number of extents so far.
    count: u64,
    /// End of the last one.
    end: FileOff,
    each: &'a mut dyn FnMut(ForkPart),
}

impl Seen<'_> {
    fn add(&mut self, recs: &[Rec]) -> VerifyResult {
        for extent in recs.iter().map(Rec::decode) {
            let ctx = self.ctx.entry(xfskit_units::index(self.count));
            extent.verify(&ctx, self.rules)?;
            extent.follows(&ctx, self.end)?;
            (self.count, self.end) = (self.count + 1, extent.end());
            (self.each)(ForkPart::Extent(extent));
        }
        self.ctx.at_most(self.count_id(), self.most, self.count)
    }

    fn count_id(&self) -> &'static str {
        match self.ctx.at.fork {
            Some(Fork::Attr) => "inode.naextents.count",
            _ => "inode.nextents.count",
        }
    }
}

#[cfg(test)]
mod tests;
