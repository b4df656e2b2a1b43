//! A btree of a group: its root in the AGF or AGI, and its blocks.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::offset_of;

use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::agf::Agf;
use xfskit_format::agi::Agi;
use xfskit_format::btree_edit::{Shape, init_short};
use xfskit_format::bytes::be32;
use xfskit_format::{Ctx, Expected, Image};
use xfskit_trans::{BufMap, Handle};
use xfskit_units::{AgBlock, AgNumber};
use zerocopy::big_endian::U32;

use crate::btree::{BlockRef, BtreeOps, Flaw, RecordOps, Root};
use crate::error::{Error, Result};
use crate::tx::SpaceTx;

/// A kind of tree that groups have.
pub trait AgKind: RecordOps {
    /// The tree's identity in the format.
    const TREE: Tree;

    /// Takes a block for the tree, near `near` where there is a choice.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::BusyExtents`].
    fn take_block(tx: &mut SpaceTx<'_>, agno: AgNumber, near: AgBlock) -> Result<AgBlock>;

    /// Gives a block of the tree back.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    fn give_block(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock) -> Result<()>;
}

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
    /// As [`SpaceTx::agf`].
    pub fn new(tx: &mut SpaceTx<'_>, agno: AgNumber) -> Result<Self> {
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

    fn count_blocks(&self, tx: &mut SpaceTx<'_>, change: i32) {
        let inode_tree = matches!(K::TREE, Tree::Ino | Tree::Fino);
        if inode_tree && !tx.space().geo().features.inobtcount() {
            return;
        }
        for &at in Fields::of(K::TREE).counters {
            tx.add_u32(self.header, at, change);
        }
    }

    fn map(&self, tx: &SpaceTx<'_>, agbno: AgBlock) -> BufMap {
        let geo = tx.space().geo();
        BufMap::single(geo.agb_to_daddr(self.agno, agbno), geo.block_sectors())
    }
}

fn agbno(block: BlockRef) -> AgBlock {
    AgBlock(u32::try_from(block).unwrap_or(u32::MAX))
}

impl<K: AgKind> BtreeOps for AgTree<K> {
    type RecordOps = K;

    fn shape(&self, tx: &SpaceTx<'_>, level: u16) -> Shape {
        Shape::short(K::TREE, tx.space().geo(), level)
    }

    fn root(&self, tx: &mut SpaceTx<'_>) -> Result<Root> {
        let fields = Fields::of(K::TREE);
        let header = tx.bytes(self.header);
        let field = |at| be32(header, at).unwrap_or(0);
        let levels = u16::try_from(field(fields.level)).unwrap_or(0);
        Ok(Root::Block(field(fields.root).into(), levels))
    }

    fn set_root(&self, tx: &mut SpaceTx<'_>, block: BlockRef, levels: u16) -> Result<()> {
        let fields = Fields::of(K::TREE);
        let mut header = tx.image(self.header);
        header.put(fields.root, &U32::new(agbno(block).0));
        header.put(fields.level, &U32::new(levels.into()));
        Ok(())
    }

    fn read(&self, tx: &mut SpaceTx<'_>, block: BlockRef) -> Result<Handle> {
        let (agno, agbno) = (self.agno, agbno(block));
        let space = tx.space();
        let at = K::TREE.location(space.geo(), agno, agbno);
        let valid = space.geo().valid_agbno(agno, agbno);
        space.ctx(at).require(K::TREE.ids().ptr, valid, "a block of the group", agbno)?;
        tx.read_buf(at, &|bytes: &[u8], ctx: &Ctx<'_>| {
            Block::verify(bytes, ctx, K::TREE, agno)?.verify_order(ctx)
        })
    }

    fn alloc(
        &self,
        tx: &mut SpaceTx<'_>,
        near: BlockRef,
        level: u16,
    ) -> Result<(BlockRef, Handle)> {
        let agno = self.agno;
        let geo = tx.space().geo();
        let new = K::take_block(tx, agno, agbno(near))?;
        self.count_blocks(tx, 1);
        let map = self.map(tx, new);
        let handle = tx.fresh(&map)?;
        init_short(&mut tx.image(handle), geo, K::TREE, level, agno, map.first().0);
        Ok((new.0.into(), handle))
    }

    fn free(&self, tx: &mut SpaceTx<'_>, block: BlockRef, handle: Handle) -> Result<()> {
        tx.invalidate(handle);
        self.count_blocks(tx, -1);
        K::give_block(tx, self.agno, agbno(block))
    }

    fn flaw(&self, tx: &SpaceTx<'_>, block: Option<BlockRef>, flaw: Flaw) -> Error {
        let ids = K::TREE.ids();
        let at = agbno(block.unwrap_or(0));
        let space = tx.space();
        let ctx = space.ctx(K::TREE.location(space.geo(), self.agno, at));
        let (id, wanted) = match flaw {
            Flaw::Level => (ids.level, "one below the parent's"),
            Flaw::Numrecs => (ids.numrecs, "at least one"),
            Flaw::Order => (ids.order, "ascending records"),
            Flaw::Key => (ids.key, "between its parent's key and the next"),
        };
        ctx.corruption(id, Expected::Described(wanted.into()), "something else").into()
    }
}
