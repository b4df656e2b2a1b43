//! The structures that directories and attribute forks share: the header of their blocks, and the
//! hash btree.
//!
//! Both keep names in a btree of their own kind, in the address space of one fork. The leaves hold
//! entries sorted by [hash](crate::hash). A *node* holds for each child the largest hash below it
//! and the child's address. The root has a fixed address (a directory's at 32 GiB of its data fork,
//! an attribute fork's at block 0); a single leaf lies there itself. All blocks of one level are
//! chained in hash order.
//!
//! ```text
//! version 5   forw back magic pad crc bno lsn uuid owner | count level pad | entries
//! version 4   forw back magic pad                        | count level     | entries
//! ```

use xfskit_units::{DaBlock, Geometry, Lsn};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes;
use crate::corruption::{Fork, VerifyResult};
use crate::ctx::Ctx;
use crate::layout::Layout;

/// Deepest tree: levels of nodes above the leaves.
pub const MAX_LEVEL: u16 = 5;

/// The part of a block's header that both versions have.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BlkInfo {
    /// Next block of this level (dablk), 0 for none.
    pub forw: U32,
    /// Previous block of this level, 0 for none.
    pub back: U32,
    /// Type of the block.
    pub magic: U16,
    /// Zero.
    pub pad: U16,
}

/// The part of the header that version 5 adds.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SelfDescription {
    /// CRC32c of the block, little-endian.
    pub crc: [u8; 4],
    /// Own address ([`xfskit_units::Daddr`]).
    pub bno: U64,
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// The inode.
    pub owner: U64,
}

/// Byte of the CRC field on version 5.
pub const CRC_OFFSET: usize = 12;
const _: () = assert!(size_of::<BlkInfo>() == CRC_OFFSET && size_of::<SelfDescription>() == 44);

/// The stable names of the checks that every self-describing block of a fork has.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) crc: &'static str,
    pub(crate) magic: &'static str,
    pub(crate) uuid: &'static str,
    pub(crate) bno: &'static str,
    pub(crate) owner: &'static str,
    pub(crate) lsn: &'static str,
}

/// The stable names of the checks of a block that is chained to its siblings.
#[derive(Debug)]
pub(crate) struct ChainIds {
    pub(crate) own: Ids,
    pub(crate) forw: &'static str,
    pub(crate) back: &'static str,
}

macro_rules! ids {
    ($kind:literal) => {
        $crate::da::Ids {
            crc: concat!($kind, ".crc"),
            magic: concat!($kind, ".magic"),
            uuid: concat!($kind, ".uuid"),
            bno: concat!($kind, ".bno"),
            owner: concat!($kind, ".owner"),
            lsn: concat!($kind, ".lsn"),
        }
    };
}
pub(crate) use ids;

impl Ids {
    /// Verifies the identity in version 5 blocks.
    pub(crate) fn identity(
        &self,
        ctx: &Ctx<'_>,
        uuid: [u8; 16],
        bno: U64,
        owner: U64,
        lsn: U64,
    ) -> VerifyResult {
        ctx.uuid(self.uuid, uuid)?;
        ctx.blkno(self.bno, bno.get())?;
        match ctx.at.ino {
            Some(ino) => ctx.eq(self.owner, ino.0, owner.get())?,
            None => ctx.at_least(self.owner, 1, owner.get())?,
        }
        ctx.lsn(self.lsn, Lsn(lsn.get()))
    }
}

/// Returns the size of a block of this fork's tree in bytes: a directory block, or a filesystem
/// block.
pub fn block_len(geo: &Geometry, fork: Fork) -> usize {
    match fork {
        Fork::Data => geo.dirblksize(),
        Fork::Attr => geo.blocksize(),
    }
}

/// Returns the address of the root of this fork's tree.
pub fn root(geo: &Geometry, fork: Fork) -> DaBlock {
    match fork {
        Fork::Data => geo.dir_leafblk(),
        Fork::Attr => DaBlock(0),
    }
}

/// Returns true if `dablk` can be a block of this fork's tree.
pub fn valid_dablk(geo: &Geometry, fork: Fork, dablk: u32) -> bool {
    match fork {
        Fork::Data => {
            (geo.dir_leafblk().0..geo.dir_freeblk().0).contains(&dablk)
                && dablk.is_multiple_of(geo.dirblkfsbs())
        }
        Fork::Attr => true,
    }
}

/// Returns the magic of a block of a hash btree, or of one of its leaves.
pub fn magic(block: &[u8]) -> Option<u16> {
    bytes::be16(block, 8)
}

/// Verifies the header that da nodes and all leaves share. `magics` are the valid magics.
pub(crate) fn verify_info<'a>(
    block: &'a [u8],
    ctx: &Ctx<'_>,
    fork: Fork,
    chain: &ChainIds,
    magics: &[u16],
) -> VerifyResult<&'a BlkInfo> {
    let ids = &chain.own;
    if block.len() != block_len(ctx.geo, fork) {
        return Err(ctx.short(ids.magic, block.len()));
    }
    ctx.crc(ids.crc, block, CRC_OFFSET)?;
    let Ok((info, rest)) = BlkInfo::ref_from_prefix(block) else {
        return Err(ctx.short(ids.magic, block.len()));
    };
    let found = info.magic.get();
    if !magics.contains(&found) {
        ctx.eq_hex(ids.magic, magics.first().copied().unwrap_or(0), found)?;
    }
    if ctx.geo.v5() {
        let Ok((own, _)) = SelfDescription::ref_from_prefix(rest) else {
            return Err(ctx.short(ids.magic, block.len()));
        };
        ids.identity(ctx, own.uuid, own.bno, own.owner, own.lsn)?;
    }
    for (id, sibling) in [(chain.forw, info.forw.get()), (chain.back, info.back.get())] {
        let itself = ctx.at.fileoff.is_some_and(|at| at.0 == u64::from(sibling));
        let valid = sibling == 0 || (!itself && valid_dablk(ctx.geo, fork, sibling));
        ctx.require(id, valid, "another block of the tree, or none", sibling)?;
    }
    Ok(info)
}

/// Returns the number of entries of type `T` that fit into `len` bytes.
pub(crate) fn entries_in<T>(len: usize) -> usize {
    len.checked_div(size_of::<T>()).unwrap_or(0)
}

/// Returns the entries of type `T` from byte `offset` of `block` on.
pub(crate) fn table<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    block: &[u8],
    offset: usize,
    count: usize,
) -> Option<&[T]> {
    let area = block.get(offset..)?;
    <[T]>::ref_from_prefix_with_elems(area, count).ok().map(|(rows, _)| rows)
}

/// One child of a node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NodeEntry {
    /// Largest hash below the child: that of its last entry.
    pub hashval: U32,
    /// Address of the child (dablk).
    pub before: U32,
}

/// A verified node.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The header.
    pub info: &'a BlkInfo,
    /// 1 above leaves, at most [`MAX_LEVEL`].
    pub level: u16,
    /// The children in hash order, at least one.
    pub btree: &'a [NodeEntry],
}

/// Returns the most children of a node of this fork's tree.
pub fn node_max(geo: &Geometry, fork: Fork) -> usize {
    entries_in::<NodeEntry>(block_len(geo, fork).saturating_sub(Layout::of(geo).da_node_header))
}

impl<'a> Node<'a> {
    /// Verifies `block` as a node of this fork's tree. A walk of the tree checks that its children
    /// agree with its entries.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>, fork: Fork) -> VerifyResult<Self> {
        const IDS: ChainIds =
            ChainIds { own: ids!("da.node"), forw: "da.node.forw", back: "da.node.back" };
        let layout = Layout::of(ctx.geo);
        verify_info(block, ctx, fork, &IDS, &[layout.da_node_magic])?;
        let count = bytes::be16(block, layout.da_count).unwrap_or(0);
        ctx.within("da.node.count", 1..=node_max(ctx.geo, fork), usize::from(count))?;
        let Some(node) = Self::parse(block, ctx.geo) else {
            return Err(ctx.short("da.node.count", block.len()));
        };
        ctx.within("da.node.level", 1..=MAX_LEVEL, node.level)?;
        let root = root(ctx.geo, fork).0;
        let mut last = 0;
        for (i, child) in node.btree.iter().enumerate() {
            let (hash, before) = (child.hashval.get(), child.before.get());
            if hash < last {
                ctx.entry(i).at_least("da.node.order", last, hash)?;
            }
            let valid = before != root && valid_dablk(ctx.geo, fork, before);
            ctx.entry(i).require("da.node.before", valid, "a block below the root", before)?;
            last = hash;
        }
        Ok(node)
    }

    /// Parses a node that was verified before, or as much as possible of a damaged one. `None` if
    /// its entries do not fit into the block.
    pub fn parse(block: &'a [u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        let (info, _) = BlkInfo::ref_from_prefix(block).ok()?;
        let count = bytes::be16(block, layout.da_count)?;
        let level = bytes::be16(block, layout.da_count.saturating_add(2))?;
        let btree = table::<NodeEntry>(block, layout.da_node_header, count.into())?;
        Some(Self { info, level, btree })
    }

    /// Returns the first child that may hold `hash`; `None` if all are smaller.
    pub fn child(&self, hash: u32) -> Option<DaBlock> {
        let at = self.btree.partition_point(|child| child.hashval.get() < hash);
        self.btree.get(at).map(|child| DaBlock(child.before.get()))
    }
}
