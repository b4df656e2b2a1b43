//! One block of a per-AG ("short form") btree: bnobt, cntbt, inobt, finobt, rmapbt, refcountbt.
//!
//! ```text
//! leaf   header | record 0 | record 1 | …
//! node   header | key 0 | … | key max-1 | pointer 0 | … | pointer max-1
//! ```
//!
//! A node's pointers begin behind room for the *largest possible* number of keys, so their place
//! does not depend on `numrecs`. Key `i` is the key of the first record below pointer `i`; the
//! rmapbt, whose records may overlap, stores a low and a high key for each child. Siblings of one
//! level form a list in key order. The root is an ordinary block; an empty tree is an empty leaf.

use xfskit_units::{AgBlock, AgNumber, Geometry, Lsn};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ctx::Ctx;
use crate::fault::{Location, Verdict};
use crate::layout::Layout;
use crate::{alloc, inobt, refcount, rmap};

/// "No sibling".
pub const NULLAGBLOCK: u32 = u32::MAX;

/// The head of a block as far as both versions have it.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`Tree::magic`].
    pub magic: U32,
    /// 0 for a leaf.
    pub level: U16,
    /// Records of a leaf, children of a node.
    pub numrecs: U16,
    /// Left neighbour on this level (agbno), or [`NULLAGBLOCK`].
    pub leftsib: U32,
    /// Right neighbour on this level.
    pub rightsib: U32,
}

/// What version 5 adds to the head.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SelfDescription {
    /// Own address ([`xfskit_units::Daddr`]).
    pub bno: U64,
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// Number of the group.
    pub owner: U32,
    /// CRC32c of the block, little-endian.
    pub crc: [u8; 4],
}

/// Byte of the CRC field on version 5.
pub const CRC_OFFSET: usize = 52;
const _: () = assert!(size_of::<Header>() == 16 && size_of::<SelfDescription>() == 40);

/// The stable names of the checks that every tree has.
#[derive(Debug, PartialEq, Eq)]
pub struct Ids {
    /// The tree's name as the kernel spells it; reports call a block by it.
    pub tree: &'static str,
    crc: &'static str,
    magic: &'static str,
    uuid: &'static str,
    bno: &'static str,
    owner: &'static str,
    lsn: &'static str,
    level: &'static str,
    numrecs: &'static str,
    leftsib: &'static str,
    rightsib: &'static str,
    /// Ids for users of the block: records out of order.
    pub order: &'static str,
    /// A record with impossible content.
    pub rec: &'static str,
    /// A node's key that differs from its child's.
    pub key: &'static str,
    /// A node's pointer that leads nowhere.
    pub ptr: &'static str,
}

macro_rules! ids {
    ($tree:literal) => {
        Ids {
            tree: $tree,
            crc: concat!($tree, ".crc"),
            magic: concat!($tree, ".magic"),
            uuid: concat!($tree, ".uuid"),
            bno: concat!($tree, ".bno"),
            owner: concat!($tree, ".owner"),
            lsn: concat!($tree, ".lsn"),
            level: concat!($tree, ".level"),
            numrecs: concat!($tree, ".numrecs"),
            leftsib: concat!($tree, ".leftsib"),
            rightsib: concat!($tree, ".rightsib"),
            order: concat!($tree, ".order"),
            rec: concat!($tree, ".rec"),
            key: concat!($tree, ".key"),
            ptr: concat!($tree, ".ptr"),
        }
    };
}

/// Which of the six trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tree {
    /// Free space by block.
    Bno,
    /// Free space by size.
    Cnt,
    /// Inode chunks.
    Ino,
    /// Inode chunks with free inodes.
    Fino,
    /// Owners of every used block.
    Rmap,
    /// Shared extents and CoW staging.
    Refcount,
}

impl Tree {
    /// All six.
    pub const ALL: [Self; 6] =
        [Self::Bno, Self::Cnt, Self::Ino, Self::Fino, Self::Rmap, Self::Refcount];

    /// Name and check ids.
    pub fn ids(self) -> &'static Ids {
        match self {
            Self::Bno => const { &ids!("bnobt") },
            Self::Cnt => const { &ids!("cntbt") },
            Self::Ino => const { &ids!("inobt") },
            Self::Fino => const { &ids!("finobt") },
            Self::Rmap => const { &ids!("rmapbt") },
            Self::Refcount => const { &ids!("refcountbt") },
        }
    }

    /// The magic of this tree's blocks on the volume `geo`. The last two, and the finobt, exist on
    /// version 5 only.
    pub fn magic(self, geo: &Geometry) -> u32 {
        match (self, geo.v5()) {
            (Self::Bno, true) => 0x4142_3342,
            (Self::Bno, false) => 0x4142_5442,
            (Self::Cnt, true) => 0x4142_3343,
            (Self::Cnt, false) => 0x4142_5443,
            (Self::Ino, true) => 0x4941_4233,
            (Self::Ino, false) => 0x4941_4254,
            (Self::Fino, true) => 0x4649_4233,
            (Self::Fino, false) => 0x4649_4254,
            (Self::Rmap, _) => 0x524d_4233,
            (Self::Refcount, _) => 0x5233_4643,
        }
    }

    /// Bytes of one leaf record.
    pub const fn rec_len(self) -> usize {
        match self {
            Self::Bno | Self::Cnt => size_of::<alloc::Rec>(),
            Self::Ino | Self::Fino => size_of::<inobt::Rec>(),
            Self::Rmap => size_of::<rmap::Rec>(),
            Self::Refcount => size_of::<refcount::Rec>(),
        }
    }

    /// Bytes of the key area of one child: the rmapbt's holds a low and a high key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Bno | Self::Cnt => size_of::<alloc::Rec>(),
            Self::Ino | Self::Fino | Self::Refcount => size_of::<U32>(),
            Self::Rmap => size_of::<rmap::KeyPair>(),
        }
    }

    /// Most records of a leaf (`level` 0) or children of a node.
    pub fn maxrecs(self, geo: &Geometry, level: u16) -> usize {
        let room = geo.blocksize().saturating_sub(Layout::of(geo).short_header);
        let child = self.key_len().saturating_add(size_of::<U32>());
        room.checked_div(if level == 0 { self.rec_len() } else { child }).unwrap_or(0)
    }

    /// Fewest records of any block but the root.
    pub fn minrecs(self, geo: &Geometry, level: u16) -> usize {
        self.maxrecs(geo, level) / 2
    }

    /// Most levels the tree can have on this volume.
    pub fn max_levels(self, geo: &Geometry) -> u32 {
        match self {
            Self::Bno | Self::Cnt => alloc::max_levels(geo),
            Self::Ino | Self::Fino => inobt::max_levels(geo),
            Self::Rmap => rmap::max_levels(geo),
            Self::Refcount => refcount::max_levels(geo),
        }
    }

    /// True where volumes like `geo` have this tree.
    pub fn exists(self, geo: &Geometry) -> bool {
        match self {
            Self::Bno | Self::Cnt | Self::Ino => true,
            Self::Fino => geo.features.finobt(),
            Self::Rmap => geo.features.rmapbt(),
            Self::Refcount => geo.features.reflink(),
        }
    }

    /// Levels of a tree of `records` records when every block is as empty as it may be.
    pub fn levels_for(self, geo: &Geometry, records: u64) -> u32 {
        let leaf = self.minrecs(geo, 0).max(1) as u64;
        let node = self.minrecs(geo, 1).max(2) as u64;
        let mut blocks = records.div_ceil(leaf);
        let mut levels = 1u32;
        while blocks > 1 {
            blocks = blocks.div_ceil(node);
            levels = levels.saturating_add(1);
        }
        levels
    }

    /// Where block `agbno` of group `agno` lies, called by this tree's name.
    pub fn location(self, geo: &Geometry, agno: AgNumber, agbno: AgBlock) -> Location {
        let daddr = geo.agb_to_daddr(agno, agbno);
        Location::of(self.ids().tree).ag(agno).agb(agbno).daddr(daddr, geo.block_sectors())
    }
}

/// A verified block.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Which tree it belongs to.
    pub tree: Tree,
    /// 0 for a leaf.
    pub level: u16,
    /// Records or children, at most [`Tree::maxrecs`].
    pub numrecs: usize,
    /// Left neighbour.
    pub leftsib: Option<AgBlock>,
    /// Right neighbour.
    pub rightsib: Option<AgBlock>,
    /// Everything behind the head.
    body: &'a [u8],
    maxrecs: usize,
}

fn sibling(found: U32) -> Option<AgBlock> {
    (found.get() != NULLAGBLOCK).then_some(AgBlock(found.get()))
}

impl<'a> Block<'a> {
    /// Judges `block` (one filesystem block) as part of `tree` in group `agno`. Order of records
    /// and keys is the business of whoever walks the tree.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>, tree: Tree, agno: AgNumber) -> Verdict<Self> {
        let ids = tree.ids();
        ctx.crc(ids.crc, block, CRC_OFFSET)?;
        let Ok((head, rest)) = Header::ref_from_prefix(block) else {
            return Err(ctx.short(ids.magic, block.len()));
        };
        ctx.eq_hex(ids.magic, tree.magic(ctx.geo), head.magic.get())?;
        let mut body = rest;
        if ctx.geo.v5() {
            let Ok((own, rest)) = SelfDescription::ref_from_prefix(rest) else {
                return Err(ctx.short(ids.magic, block.len()));
            };
            body = rest;
            ctx.uuid(ids.uuid, own.uuid)?;
            ctx.blkno(ids.bno, own.bno.get())?;
            ctx.eq(ids.owner, agno.0, own.owner.get())?;
            ctx.lsn(ids.lsn, Lsn(own.lsn.get()))?;
        }
        let level = head.level.get();
        let top = tree.max_levels(ctx.geo).saturating_sub(1);
        ctx.at_most(ids.level, top, level.into())?;
        let maxrecs = tree.maxrecs(ctx.geo, level);
        let numrecs = usize::from(head.numrecs.get());
        ctx.at_most(ids.numrecs, maxrecs, numrecs)?;
        for (id, sib) in [(ids.leftsib, head.leftsib), (ids.rightsib, head.rightsib)] {
            let sib = sib.get();
            let itself = ctx.at.agbno == Some(AgBlock(sib));
            let valid = sib == NULLAGBLOCK || (!itself && ctx.geo.valid_agbno(agno, AgBlock(sib)));
            ctx.require(id, valid, "another block of the group, or none", sib)?;
        }
        let (leftsib, rightsib) = (sibling(head.leftsib), sibling(head.rightsib));
        Ok(Self { tree, level, numrecs, leftsib, rightsib, body, maxrecs })
    }

    /// True on level 0.
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// The records of a leaf; of a node, none. `R` is the tree's record type: [`alloc::Rec`],
    /// [`inobt::Rec`], [`rmap::Rec`] or [`refcount::Rec`].
    pub fn recs<R: FromBytes + KnownLayout + Immutable + Unaligned>(&self) -> &'a [R] {
        debug_assert_eq!(size_of::<R>(), self.tree.rec_len());
        let count = if self.is_leaf() { self.numrecs } else { 0 };
        <[R]>::ref_from_prefix_with_elems(self.body, count).map_or(&[], |(recs, _)| recs)
    }

    /// The keys of a node; of a leaf, none. `K` is [`alloc::Rec`], [`U32`] (inobt, finobt,
    /// refcountbt) or [`rmap::KeyPair`].
    pub fn keys<K: FromBytes + KnownLayout + Immutable + Unaligned>(&self) -> &'a [K] {
        debug_assert_eq!(size_of::<K>(), self.tree.key_len());
        let count = if self.is_leaf() { 0 } else { self.numrecs };
        <[K]>::ref_from_prefix_with_elems(self.body, count).map_or(&[], |(keys, _)| keys)
    }

    /// The children of a node (agbno each, unjudged); of a leaf, none.
    pub fn ptrs(&self) -> &'a [U32] {
        let count = if self.is_leaf() { 0 } else { self.numrecs };
        let ptrs = self.maxrecs.saturating_mul(self.tree.key_len());
        let area = self.body.get(ptrs..).unwrap_or(&[]);
        <[U32]>::ref_from_prefix_with_elems(area, count).map_or(&[], |(ptrs, _)| ptrs)
    }
}
