//! The six btrees of a group: their record types and their roots.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::offset_of;

use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::agf::Agf;
use xfskit_format::agi::Agi;
use xfskit_format::btree_edit::{Shape, init_short};
use xfskit_format::bytes::be32;
use xfskit_format::{Ctx, Expected, Image, alloc, inobt, refcount, rmap};
use xfskit_trans::{BufMap, Handle};
use xfskit_units::{AgBlock, AgNumber, ExtLen};
use zerocopy::big_endian::U32;

use crate::btree::ops::{BlockRef, BtreeOps, Flaw, RecordOps, Root};
use crate::error::{Error, Result};
use crate::space::{AllocRequest, Owner, agfl};
use crate::tx::Tx;

/// A kind of tree that groups have.
pub trait AgKind: RecordOps {
    /// The tree's identity in the format.
    const TREE: Tree;
}

/// Free space by block.
#[derive(Clone, Copy, Debug)]
pub struct ByBlock;

impl RecordOps for ByBlock {
    type Rec = alloc::Rec;
    type Key = alloc::Rec;
    type Pos = u32;

    fn rec_pos(rec: &alloc::Rec) -> u32 {
        rec.startblock.get()
    }
    fn key_pos(key: &alloc::Rec) -> u32 {
        key.startblock.get()
    }
    fn key(rec: &alloc::Rec) -> alloc::Rec {
        *rec
    }
}

impl AgKind for ByBlock {
    const TREE: Tree = Tree::Bno;
}

/// Free space by size, then block.
#[derive(Clone, Copy, Debug)]
pub struct BySize;

impl RecordOps for BySize {
    type Rec = alloc::Rec;
    type Key = alloc::Rec;
    type Pos = (u32, u32);

    fn rec_pos(rec: &alloc::Rec) -> (u32, u32) {
        (rec.blockcount.get(), rec.startblock.get())
    }
    fn key_pos(key: &alloc::Rec) -> (u32, u32) {
        Self::rec_pos(key)
    }
    fn key(rec: &alloc::Rec) -> alloc::Rec {
        *rec
    }
}

impl AgKind for BySize {
    const TREE: Tree = Tree::Cnt;
}

/// Inode chunks, by first inode: all of them, or (`FREE`) those with free inodes.
#[derive(Clone, Copy, Debug)]
pub struct Chunks<const FREE: bool>;

impl<const FREE: bool> RecordOps for Chunks<FREE> {
    type Rec = inobt::Rec;
    type Key = U32;
    type Pos = u32;

    fn rec_pos(rec: &inobt::Rec) -> u32 {
        rec.startino.get()
    }
    fn key_pos(key: &U32) -> u32 {
        key.get()
    }
    fn key(rec: &inobt::Rec) -> U32 {
        rec.startino
    }
}

impl<const FREE: bool> AgKind for Chunks<FREE> {
    const TREE: Tree = if FREE { Tree::Fino } else { Tree::Ino };
}

/// Reverse mappings, which may overlap.
#[derive(Clone, Copy, Debug)]
pub struct Mappings;

impl RecordOps for Mappings {
    type Rec = rmap::Rec;
    type Key = rmap::KeyPair;
    type Pos = (u32, u64, u64);
    const OVERLAPS: bool = true;

    fn rec_pos(rec: &rmap::Rec) -> Self::Pos {
        rec.low_key().sort_key()
    }
    fn key_pos(key: &rmap::KeyPair) -> Self::Pos {
        key.low.sort_key()
    }
    fn key(rec: &rmap::Rec) -> rmap::KeyPair {
        rmap::KeyPair { low: rec.low_key(), high: rec.high_key() }
    }
    fn span(first: rmap::KeyPair, more: &rmap::KeyPair) -> rmap::KeyPair {
        let later = more.high.sort_key() > first.high.sort_key();
        rmap::KeyPair { low: first.low, high: if later { more.high } else { first.high } }
    }
    fn rec_end(rec: &rmap::Rec) -> Self::Pos {
        rec.high_key().sort_key()
    }
    fn key_end(key: &rmap::KeyPair) -> Self::Pos {
        key.high.sort_key()
    }
}

impl AgKind for Mappings {
    const TREE: Tree = Tree::Rmap;
}

/// Shared extents, and behind them (bit 31 of the block number) staging extents.
#[derive(Clone, Copy, Debug)]
pub struct Refcounts;

impl RecordOps for Refcounts {
    type Rec = refcount::Rec;
    type Key = U32;
    type Pos = u32;

    fn rec_pos(rec: &refcount::Rec) -> u32 {
        rec.startblock.get()
    }
    fn key_pos(key: &U32) -> u32 {
        key.get()
    }
    fn key(rec: &refcount::Rec) -> U32 {
        rec.startblock
    }
}

impl AgKind for Refcounts {
    const TREE: Tree = Tree::Refcount;
}

/// The bnobt of a group.
pub type BnoTree = AgTree<ByBlock>;
/// The cntbt of a group.
pub type CntTree = AgTree<BySize>;
/// The inobt of a group.
pub type InoTree = AgTree<Chunks<false>>;
/// The finobt of a group.
pub type FinoTree = AgTree<Chunks<true>>;
/// The rmapbt of a group.
pub type RmapTree = AgTree<Mappings>;
/// The refcountbt of a group.
pub type RefcountTree = AgTree<Refcounts>;

/// The fields of the AGF or AGI that describe a tree.
struct Fields {
    root: usize,
    level: usize,
    /// Counters of the tree's blocks.
    counters: &'static [usize],
}

impl Fields {
    fn of(tree: Tree) -> Self {
        let (root, level, counters): (usize, usize, &'static [usize]) = match tree {
            Tree::Bno => (
                offset_of!(Agf, bnoroot),
                offset_of!(Agf, bnolevel),
                const { &[offset_of!(Agf, btreeblks)] },
            ),
            Tree::Cnt => (
                offset_of!(Agf, cntroot),
                offset_of!(Agf, cntlevel),
                const { &[offset_of!(Agf, btreeblks)] },
            ),
            Tree::Rmap => (
                offset_of!(Agf, rmaproot),
                offset_of!(Agf, rmaplevel),
                const { &[offset_of!(Agf, btreeblks), offset_of!(Agf, rmapblocks)] },
            ),
            Tree::Refcount => (
                offset_of!(Agf, refcntroot),
                offset_of!(Agf, refcntlevel),
                const { &[offset_of!(Agf, refcntblocks)] },
            ),
            Tree::Ino => (
                offset_of!(Agi, root),
                offset_of!(Agi, level),
                const { &[offset_of!(Agi, ino_blocks)] },
            ),
            Tree::Fino => (
                offset_of!(Agi, free_root),
                offset_of!(Agi, free_level),
                const { &[offset_of!(Agi, fino_blocks)] },
            ),
        };
        Self { root, level, counters }
    }
}

/// One tree of one group, whose AGF (of inode trees: AGI) the transaction holds.
#[derive(Clone, Copy, Debug)]
pub struct AgTree<K> {
    agno: AgNumber,
    /// The AGF or AGI.
    header: Handle,
    kind: PhantomData<K>,
}

impl<K: AgKind> AgTree<K> {
    /// Opens the tree of group `agno`; locks the group's AGF or AGI.
    ///
    /// # Errors
    /// As [`Tx::agf`].
    pub fn new(tx: &mut Tx<'_>, agno: AgNumber) -> Result<Self> {
        let header = match K::TREE {
            Tree::Ino | Tree::Fino => tx.agi(agno)?,
            _ => tx.agf(agno)?,
        };
        Ok(Self::with(agno, header))
    }

    /// Opens the tree with the AGF or AGI that the transaction holds already.
    pub fn with(agno: AgNumber, header: Handle) -> Self {
        Self { agno, header, kind: PhantomData }
    }

    /// Returns the group.
    pub fn agno(&self) -> AgNumber {
        self.agno
    }

    /// Returns true if the tree's blocks come from the free list, and not from free space.
    fn from_agfl() -> bool {
        matches!(K::TREE, Tree::Bno | Tree::Cnt | Tree::Rmap)
    }

    fn owner() -> Owner {
        if K::TREE == Tree::Refcount { Owner::Refcount } else { Owner::Inobt }
    }

    fn count_blocks(&self, tx: &mut Tx<'_>, change: i32) {
        let inode_tree = matches!(K::TREE, Tree::Ino | Tree::Fino);
        if inode_tree && !tx.volume().geo().features.inobtcount() {
            return;
        }
        for &at in Fields::of(K::TREE).counters {
            tx.add_u32(self.header, at, change);
        }
    }

    fn map(&self, tx: &Tx<'_>, agbno: AgBlock) -> BufMap {
        let geo = tx.volume().geo();
        BufMap::single(geo.agb_to_daddr(self.agno, agbno), geo.block_sectors())
    }
}

fn agbno(block: BlockRef) -> AgBlock {
    AgBlock(u32::try_from(block).unwrap_or(u32::MAX))
}

impl<K: AgKind> BtreeOps for AgTree<K> {
    type RecordOps = K;

    fn shape(&self, tx: &Tx<'_>, level: u16) -> Shape {
        Shape::short(K::TREE, tx.volume().geo(), level)
    }

    fn root(&self, tx: &mut Tx<'_>) -> Result<Root> {
        let fields = Fields::of(K::TREE);
        let header = tx.bytes(self.header);
        let field = |at| be32(header, at).unwrap_or(0);
        let levels = u16::try_from(field(fields.level)).unwrap_or(0);
        Ok(Root::Block(field(fields.root).into(), levels))
    }

    fn set_root(&self, tx: &mut Tx<'_>, block: BlockRef, levels: u16) -> Result<()> {
        let fields = Fields::of(K::TREE);
        let mut header = tx.image(self.header);
        header.put(fields.root, &U32::new(agbno(block).0));
        header.put(fields.level, &U32::new(levels.into()));
        Ok(())
    }

    fn read(&self, tx: &mut Tx<'_>, block: BlockRef) -> Result<Handle> {
        let (agno, agbno) = (self.agno, agbno(block));
        let volume = tx.volume();
        let at = K::TREE.location(volume.geo(), agno, agbno);
        let valid = volume.geo().valid_agbno(agno, agbno);
        volume.ctx(at).require(K::TREE.ids().ptr, valid, "a block of the group", agbno)?;
        tx.read_buf(at, &|bytes: &[u8], ctx: &Ctx<'_>| {
            Block::verify(bytes, ctx, K::TREE, agno)?.verify_order(ctx)
        })
    }

    fn alloc(&self, tx: &mut Tx<'_>, near: BlockRef, level: u16) -> Result<(BlockRef, Handle)> {
        let agno = self.agno;
        let geo = tx.volume().geo();
        let new = if Self::from_agfl() {
            agfl::take(tx, agno)?
        } else {
            let near = geo.agb_to_fsb(agno, agbno(near));
            let request = AllocRequest::exactly(1, near, Self::owner()).in_this_group();
            let (start, _) = tx.alloc_extent(&AllocRequest { reserve: true, ..request })?;
            geo.fsb_split(start).map_or(AgBlock(0), |(_, agbno)| agbno)
        };
        self.count_blocks(tx, 1);
        let map = self.map(tx, new);
        let handle = tx.fresh(&map)?;
        init_short(&mut tx.image(handle), geo, K::TREE, level, agno, map.first().0);
        Ok((new.0.into(), handle))
    }

    fn free(&self, tx: &mut Tx<'_>, block: BlockRef, handle: Handle) -> Result<()> {
        tx.invalidate(handle);
        self.count_blocks(tx, -1);
        if Self::from_agfl() {
            return agfl::put(tx, self.agno, agbno(block));
        }
        let start = tx.volume().geo().agb_to_fsb(self.agno, agbno(block));
        tx.free_extent(start, ExtLen(1), Self::owner())
    }

    fn flaw(&self, tx: &Tx<'_>, block: Option<BlockRef>, flaw: Flaw) -> Error {
        let ids = K::TREE.ids();
        let at = agbno(block.unwrap_or(0));
        let volume = tx.volume();
        let ctx = volume.ctx(K::TREE.location(volume.geo(), self.agno, at));
        let (id, wanted) = match flaw {
            Flaw::Level => (ids.level, "one below the parent's"),
            Flaw::Numrecs => (ids.numrecs, "at least one"),
            Flaw::Order => (ids.order, "ascending records"),
            Flaw::Key => (ids.key, "between its parent's key and the next"),
        };
        ctx.corruption(id, Expected::Described(wanted.into()), "something else").into()
    }
}
