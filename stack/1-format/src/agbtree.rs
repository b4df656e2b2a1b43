//! One block of a per-AG ("short form") btree: bnobt, cntbt, inobt, finobt, rmapbt, refcountbt.
//!
//! ```text
//! leaf   header | record 0 | record 1 | …
//! node   header | key 0 | … | key max-1 | pointer 0 | … | pointer max-1
//! ```
//!
//! A node's pointers begin after the space of the *largest possible* number of keys, so their
//! offset does not depend on `numrecs`. Key `i` is the key of the first record below pointer `i`.
//! The rmapbt, whose records may overlap, stores a low and a high key for each child. Siblings of
//! one level form a list in key order. The root is an ordinary block; an empty tree is an empty
//! leaf.

use xfskit_units::{AgBlock, AgNumber, Geometry, Lsn};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::corruption::{Location, VerifyResult};
use crate::ctx::Ctx;
use crate::layout::Layout;
use crate::{alloc, inobt, refcount, rmap};

/// "No sibling".
pub const NULLAGBLOCK: u32 = u32::MAX;

/// The part of a block's header that both versions have.
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

/// The part of the header that version 5 adds.
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
    /// The tree's name as the kernel spells it; reports use it for its blocks.
    pub tree: &'static str,
    crc: &'static str,
    magic: &'static str,
    uuid: &'static str,
    bno: &'static str,
    owner: &'static str,
    lsn: &'static str,
    /// Level: above the tree's maximum, or not one below the parent's.
    pub level: &'static str,
    /// Number of records: too many for a block, or too few.
    pub numrecs: &'static str,
    /// Left sibling: no block, or not the left neighbour.
    pub leftsib: &'static str,
    /// Right sibling: no block, or not the right neighbour.
    pub rightsib: &'static str,
    /// Records out of order; for callers that walk the tree.
    pub order: &'static str,
    /// A record with impossible content.
    pub rec: &'static str,
    /// A node's key that differs from its child's.
    pub key: &'static str,
    /// A node's pointer to an invalid block.
    pub ptr: &'static str,
}

macro_rules! tree_ids {
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

/// The six btrees of an allocation group.
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

    /// Returns the name and the check ids.
    pub fn ids(self) -> &'static Ids {
        match self {
            Self::Bno => const { &tree_ids!("bnobt") },
            Self::Cnt => const { &tree_ids!("cntbt") },
            Self::Ino => const { &tree_ids!("inobt") },
            Self::Fino => const { &tree_ids!("finobt") },
            Self::Rmap => const { &tree_ids!("rmapbt") },
            Self::Refcount => const { &tree_ids!("refcountbt") },
        }
    }

    /// Returns the magic of this tree's blocks on the volume `geo`. The last two, and the finobt,
    /// exist on version 5 only.
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

    /// Returns the length of a leaf record, in bytes.
    pub const fn rec_len(self) -> usize {
        match self {
            Self::Bno | Self::Cnt => size_of::<alloc::Rec>(),
            Self::Ino | Self::Fino => size_of::<inobt::Rec>(),
            Self::Rmap => size_of::<rmap::Rec>(),
            Self::Refcount => size_of::<refcount::Rec>(),
        }
    }

    /// Returns the length of the key of one child, in bytes. The rmapbt's holds a low and a high
    /// key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Bno | Self::Cnt => size_of::<alloc::Rec>(),
            Self::Ino | Self::Fino | Self::Refcount => size_of::<U32>(),
            Self::Rmap => size_of::<rmap::KeyPair>(),
        }
    }

    /// Returns the most records of a leaf (`level` 0) or children of a node.
    pub fn maxrecs(self, geo: &Geometry, level: u16) -> usize {
        let room = geo.blocksize().saturating_sub(Layout::of(geo).short_header);
        let child = self.key_len().saturating_add(size_of::<U32>());
        room.checked_div(if level == 0 { self.rec_len() } else { child }).unwrap_or(0)
    }

    /// Returns the fewest records of any block but the root.
    pub fn minrecs(self, geo: &Geometry, level: u16) -> usize {
        self.maxrecs(geo, level) / 2
    }

    /// Returns the most levels the tree can have on this volume.
    pub fn max_levels(self, geo: &Geometry) -> u32 {
        match self {
            Self::Bno | Self::Cnt => free_space_levels(geo),
            Self::Ino | Self::Fino => inode_levels(geo),
            Self::Rmap => rmap_levels(geo),
            Self::Refcount => refcount_levels(geo),
        }
    }

    /// Returns true if volumes like `geo` have this tree.
    pub fn exists(self, geo: &Geometry) -> bool {
        match self {
            Self::Bno | Self::Cnt | Self::Ino => true,
            Self::Fino => geo.features.finobt(),
            Self::Rmap => geo.features.rmapbt(),
            Self::Refcount => geo.features.reflink(),
        }
    }

    /// Returns the levels of a tree of `records` records whose blocks are as empty as allowed.
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

    /// Returns the location of block `agbno` of group `agno`, named after this tree.
    pub fn location(self, geo: &Geometry, agno: AgNumber, agbno: AgBlock) -> Location {
        let daddr = geo.agb_to_daddr(agno, agbno);
        Location::of(self.ids().tree).ag(agno).agb(agbno).daddr(daddr, geo.block_sectors())
    }
}

/// Returns the most levels of bnobt and cntbt: every second block free, every btree block half
/// full.
fn free_space_levels(geo: &Geometry) -> u32 {
    Tree::Bno.levels_for(geo, u64::from(geo.agblocks).saturating_add(1) / 2)
}

/// Returns the most levels of inobt and finobt: a record for every 64 inode numbers a group has.
fn inode_levels(geo: &Geometry) -> u32 {
    let bits = u32::from(geo.agblklog).saturating_add(geo.inopblog.into());
    let inodes = 1u64.checked_shl(bits).unwrap_or(u64::MAX);
    Tree::Ino.levels_for(geo, inodes >> inobt::INODES_PER_CHUNK.ilog2())
}

/// Returns the most levels of the refcountbt.
fn refcount_levels(geo: &Geometry) -> u32 {
    Tree::Refcount.levels_for(geo, geo.agblocks.into())
}

/// Returns the most levels of the rmapbt. With reflink there may be more records than blocks, and
/// the bound is a minimally filled tree that takes up the whole group.
fn rmap_levels(geo: &Geometry) -> u32 {
    if !geo.features.reflink() {
        return Tree::Rmap.levels_for(geo, geo.agblocks.into());
    }
    let fan_out = Tree::Rmap.minrecs(geo, 1).max(2) as u64;
    let (mut levels, mut level_blocks) = (1u32, 2u64);
    let mut left = u64::from(geo.agblocks).saturating_sub(1);
    while level_blocks < left {
        left = left.saturating_sub(level_blocks);
        level_blocks = level_blocks.saturating_mul(fan_out);
        levels = levels.saturating_add(1);
    }
    levels
}

/// A verified block.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The tree of the block.
    pub tree: Tree,
    /// 0 for a leaf.
    pub level: u16,
    /// Records or children, at most [`Tree::maxrecs`].
    pub numrecs: usize,
    /// Left neighbour.
    pub leftsib: Option<AgBlock>,
    /// Right neighbour.
    pub rightsib: Option<AgBlock>,
    /// The bytes after the header.
    body: &'a [u8],
    maxrecs: usize,
}

fn sibling(found: U32) -> Option<AgBlock> {
    (found.get() != NULLAGBLOCK).then_some(AgBlock(found.get()))
}

impl<'a> Block<'a> {
    /// Verifies `block` (one filesystem block) as part of `tree` in group `agno`. The order of its
    /// entries is left to [`verify_order`](Self::verify_order), because a check of a volume reports
    /// each record out of order.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(
        block: &'a [u8],
        ctx: &Ctx<'_>,
        tree: Tree,
        agno: AgNumber,
    ) -> VerifyResult<Self> {
        let ids = tree.ids();
        ctx.crc(ids.crc, block, CRC_OFFSET)?;
        let (Ok((head, rest)), true) =
            (Header::ref_from_prefix(block), block.len() == ctx.geo.blocksize())
        else {
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

    /// Returns true on level 0.
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Fails if the records of a leaf or the keys of a node do not ascend, or if records overlap
    /// that must not. Every search relies on this. The order between two blocks is checked by the
    /// walk that reads both.
    ///
    /// # Errors
    /// [`Ids::order`].
    pub fn verify_order(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let size = |rec: &alloc::Rec| (rec.blockcount.get(), rec.startblock.get());
        let end = |start: U32, len: U32| u64::from(start.get()).saturating_add(len.get().into());
        let before = |left: U32, len: U32, right: U32| end(left, len) <= right.get().into();
        let low = |keys: &rmap::KeyPair| keys.low.sort_key();
        let chunk = U32::new(inobt::INODES_PER_CHUNK);
        match (self.tree, self.is_leaf()) {
            (Tree::Bno, true) => self.ascend::<alloc::Rec>(ctx, self.recs(), |left, right| {
                before(left.startblock, left.blockcount, right.startblock)
            }),
            (Tree::Bno, false) => self.ascend::<alloc::Rec>(ctx, self.keys(), |left, right| {
                left.startblock.get() < right.startblock.get()
            }),
            (Tree::Cnt, true) => {
                self.ascend::<alloc::Rec>(ctx, self.recs(), |left, right| size(left) < size(right))
            }
            (Tree::Cnt, false) => {
                self.ascend::<alloc::Rec>(ctx, self.keys(), |left, right| size(left) < size(right))
            }
            (Tree::Ino | Tree::Fino, true) => {
                self.ascend::<inobt::Rec>(ctx, self.recs(), |left, right| {
                    before(left.startino, chunk, right.startino)
                })
            }
            (Tree::Refcount, true) => {
                self.ascend::<refcount::Rec>(ctx, self.recs(), |left, right| {
                    before(left.startblock, left.blockcount, right.startblock)
                })
            }
            (Tree::Ino | Tree::Fino | Tree::Refcount, false) => {
                self.ascend::<U32>(ctx, self.keys(), |left, right| left.get() < right.get())
            }
            (Tree::Rmap, true) => self.ascend::<rmap::Rec>(ctx, self.recs(), |left, right| {
                left.low_key().sort_key() < right.low_key().sort_key()
            }),
            (Tree::Rmap, false) => {
                self.ascend::<rmap::KeyPair>(ctx, self.keys(), |left, right| low(left) < low(right))
            }
        }
    }

    /// Fails if one of `items` may not precede the next.
    fn ascend<T>(&self, ctx: &Ctx<'_>, items: &[T], may: impl Fn(&T, &T) -> bool) -> VerifyResult {
        for (index, pair) in items.windows(2).enumerate() {
            if let [left, right] = pair {
                let index = index.saturating_add(1);
                let ordered = may(left, right);
                let wanted = "ascending entries that do not overlap";
                ctx.entry(index).require(
                    self.tree.ids().order,
                    ordered,
                    wanted,
                    "another order",
                )?;
            }
        }
        Ok(())
    }

    /// Returns the records of a leaf; of a node, none. `R` is the tree's record type:
    /// [`alloc::Rec`], [`inobt::Rec`], [`rmap::Rec`] or [`refcount::Rec`].
    pub fn recs<R: FromBytes + KnownLayout + Immutable + Unaligned>(&self) -> &'a [R] {
        debug_assert_eq!(size_of::<R>(), self.tree.rec_len());
        let count = if self.is_leaf() { self.numrecs } else { 0 };
        <[R]>::ref_from_prefix_with_elems(self.body, count).map_or(&[], |(recs, _)| recs)
    }

    /// Returns the keys of a node; of a leaf, none. `K` is [`alloc::Rec`], [`U32`] (inobt, finobt,
    /// refcountbt) or [`rmap::KeyPair`].
    pub fn keys<K: FromBytes + KnownLayout + Immutable + Unaligned>(&self) -> &'a [K] {
        debug_assert_eq!(size_of::<K>(), self.tree.key_len());
        let count = if self.is_leaf() { 0 } else { self.numrecs };
        <[K]>::ref_from_prefix_with_elems(self.body, count).map_or(&[], |(keys, _)| keys)
    }

    /// Returns the children of a node (unverified agbno); of a leaf, none.
    pub fn ptrs(&self) -> &'a [U32] {
        let count = if self.is_leaf() { 0 } else { self.numrecs };
        let ptrs = self.maxrecs.saturating_mul(self.tree.key_len());
        let area = self.body.get(ptrs..).unwrap_or(&[]);
        <[U32]>::ref_from_prefix_with_elems(area, count).map_or(&[], |(ptrs, _)| ptrs)
    }
}

#[cfg(test)]
mod tests;
