//! Hash leaves, which map a name's hash to its position in the data space.
//!
//! ```text
//! leaf1   head | count stale | entry | entry | …        … | bests[] | bestcount
//! leafn   head | count stale | entry | entry | …
//! ```
//!
//! A directory of the leaf form has one, *leaf1*, which also lists the longest unused space of
//! every data block. A larger directory has many, *leafn*, below [nodes](crate::da::Node), and
//! keeps that list in the [free index](crate::dir::free). Entries are sorted by hash; those of
//! removed names remain as *stale* ones with address 0.

use std::ops::Range;

use xfskit_units::Geometry;
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes;
use crate::corruption::{Fork, VerifyResult};
use crate::ctx::Ctx;
use crate::da::{self, BlkInfo, ChainIds, ids};
use crate::dir::DataPtr;
use crate::layout::Layout;

/// One hash, and the position of its name.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LeafEntry {
    /// The name's [hash](crate::hash::dir_hash).
    pub hashval: U32,
    /// The entry's [`DataPtr`]; 0 for a stale one.
    pub address: U32,
}

impl LeafEntry {
    /// Returns the position of the name; `None` for a stale entry.
    pub fn dataptr(&self) -> Option<DataPtr> {
        (self.address.get() != 0).then_some(DataPtr(self.address.get()))
    }
}

/// Returns the entries of `sorted` that carry `hash`.
pub fn run(sorted: &[LeafEntry], hash: u32) -> &[LeafEntry] {
    sorted.get(run_range(sorted, hash)).unwrap_or(&[])
}

/// Returns the range of the entries that carry `hash`: mostly none or one.
pub fn run_range(sorted: &[LeafEntry], hash: u32) -> Range<usize> {
    let start = sorted.partition_point(|e| e.hashval.get() < hash);
    let rest = sorted.get(start..).unwrap_or(&[]);
    let len = rest.iter().take_while(|e| e.hashval.get() == hash).count();
    start..start.saturating_add(len)
}

/// Fails if hashes descend, or where `stale` is not the number of stale entries.
pub(crate) fn verify_order(
    entries: &[LeafEntry],
    stale: u32,
    ctx: &Ctx<'_>,
    order_id: &'static str,
    stale_id: &'static str,
) -> VerifyResult {
    let (mut last, mut empty) = (0, 0u32);
    for (i, entry) in entries.iter().enumerate() {
        let hash = entry.hashval.get();
        if hash < last {
            ctx.entry(i).at_least(order_id, last, hash)?;
        }
        last = hash;
        empty = empty.saturating_add(u32::from(entry.address.get() == 0));
    }
    ctx.eq(stale_id, empty, stale)
}

/// The two kinds of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The only leaf, with `bests`.
    Leaf1,
    /// One of a tree.
    LeafN,
}

/// A verified leaf.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// The header.
    pub info: &'a BlkInfo,
    /// The kind.
    pub kind: Kind,
    /// Number of stale entries.
    pub stale: u16,
    /// The entries, stale ones too, in hash order.
    pub lents: &'a [LeafEntry],
    /// leaf1: the longest unused space of each data block, in bytes;
    /// [`NULLDATAOFF`](crate::dir::NULLDATAOFF) where there is no block.
    pub lbests: &'a [U16],
}

/// Returns the table of free space at the end of a leaf1.
fn bests(block: &[u8]) -> Option<&[U16]> {
    let tail = block.len().checked_sub(size_of::<U32>())?;
    let count = xfskit_units::index(bytes::be32(block, tail)?.into());
    let start = tail.checked_sub(count.checked_mul(size_of::<U16>())?)?;
    da::table(block, start, count)
}

/// Returns the most entries of one leaf.
pub fn leaf_max(geo: &Geometry) -> usize {
    da::entries_in::<LeafEntry>(geo.dirblksize().saturating_sub(Layout::of(geo).dir_leaf_header))
}

impl<'a> Leaf<'a> {
    /// Verifies `block`, one directory block, as leaf; of `kind`, if it is given.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>, kind: Option<Kind>) -> VerifyResult<Self> {
        const IDS: ChainIds =
            ChainIds { own: ids!("dir.leaf"), forw: "dir.leaf.forw", back: "dir.leaf.back" };
        let layout = Layout::of(ctx.geo);
        let magics = [layout.dir_leafn_magic, layout.dir_leaf1_magic];
        let magics = match kind {
            None => &magics,
            Some(Kind::LeafN) => &magics[..1],
            Some(Kind::Leaf1) => &magics[1..],
        };
        da::verify_info(block, ctx, Fork::Data, &IDS, magics)?;
        let count = usize::from(bytes::be16(block, layout.da_count).unwrap_or(0));
        ctx.at_most("dir.leaf.count", leaf_max(ctx.geo), count)?;
        let Some(leaf) = Self::parse(block, ctx.geo) else {
            return Err(ctx.short("dir.leaf.count", block.len()));
        };
        let (order, stale) = ("dir.leaf.order", "dir.leaf.stale");
        verify_order(leaf.lents, leaf.stale.into(), ctx, order, stale)?;
        if leaf.kind == Kind::Leaf1 {
            leaf.verify_single(block, ctx)?;
        }
        Ok(leaf)
    }

    /// Parses a leaf that was verified before, or as much as possible of a damaged one. `None` if
    /// its entries do not fit into the block.
    pub fn parse(block: &'a [u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        let (info, _) = BlkInfo::ref_from_prefix(block).ok()?;
        let single = info.magic.get() == layout.dir_leaf1_magic;
        let kind = if single { Kind::Leaf1 } else { Kind::LeafN };
        let count = usize::from(bytes::be16(block, layout.da_count)?);
        let stale = bytes::be16(block, layout.da_count.saturating_add(2))?;
        let lents = da::table::<LeafEntry>(block, layout.dir_leaf_header, count)?;
        let lbests = if single { bests(block).unwrap_or(&[]) } else { &[] };
        Some(Self { info, kind, stale, lents, lbests })
    }

    /// Verifies the parts that only a leaf1 has: no siblings, `bests`, and addresses within the
    /// blocks listed there.
    fn verify_single(&self, block: &[u8], ctx: &Ctx<'_>) -> VerifyResult {
        ctx.eq("dir.leaf.forw", 0, self.info.forw.get())?;
        ctx.eq("dir.leaf.back", 0, self.info.back.get())?;
        let tail = block.len().saturating_sub(size_of::<U32>());
        let bestcount = bytes::be32(block, tail).unwrap_or(0);
        let entries = size_of_val(self.lents);
        let end = Layout::of(ctx.geo).dir_leaf_header.saturating_add(entries);
        let room = u32::try_from(da::entries_in::<U16>(tail.saturating_sub(end))).unwrap_or(0);
        ctx.at_most("dir.leaf.bestcount", room, bestcount)?;
        for (i, entry) in self.lents.iter().enumerate() {
            let known = entry.dataptr().is_none_or(|ptr| ptr.db(ctx.geo) < bestcount);
            if !known {
                let want = "an address in a data block of the directory";
                ctx.entry(i).require("dir.leaf.address", false, want, entry.address.get())?;
            }
        }
        Ok(())
    }

    /// Returns the entries that carry `hash`.
    pub fn run(&self, hash: u32) -> &'a [LeafEntry] {
        run(self.lents, hash)
    }

    /// Returns the range of the entries that carry `hash`: mostly none or one.
    pub fn run_range(&self, hash: u32) -> Range<usize> {
        run_range(self.lents, hash)
    }

    /// Returns the last entry's hash, which the parent repeats; `None` for an empty leaf.
    pub fn last_hash(&self) -> Option<u32> {
        self.lents.last().map(|entry| entry.hashval.get())
    }
}
