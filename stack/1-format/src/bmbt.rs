//! Extent maps, which map blocks of a file to blocks of the device.
//!
//! A fork maps file blocks to device blocks by *extents*, 128-bit records in ascending order.
//! Ranges without an extent are holes. A few extents fit into the inode itself. When they no longer
//! fit, the fork becomes a btree, the *bmbt*, whose root (without siblings and identity: the
//! *bmdr*) stays in the inode:
//!
//! ```text
//! record  1 bit unwritten | 54 bits startoff | 52 bits startblock | 21 bits blockcount
//! bmdr    level, numrecs  | keys[max]     | pointers[max]     max from the size of the fork
//! block   head            | keys[max]     | pointers[max]     max from the size of the block
//! leaf    head            | records
//! ```
//!
//! Keys are file blocks, pointers whole-volume block numbers, 8 bytes each: "long form". Blocks
//! name their inode as owner. The last of the root's pointers moves when the fork changes its size.

pub mod edit;

use xfskit_units::{FilBlks, FileOff, FsBlock, Geometry, Lsn};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::corruption::{Fork, Location, VerifyResult};
use crate::ctx::Ctx;
use crate::layout::Layout;

/// Bytes of one record.
pub const REC_LEN: usize = 16;
/// Longest extent, in blocks.
pub const MAX_BLOCKCOUNT: u64 = (1 << 21) - 1;
/// Largest file block that an extent can start at.
pub const MAX_STARTOFF: u64 = (1 << 54) - 1;
/// "No sibling".
pub const NULLFSBLOCK: u64 = u64::MAX;
/// Byte of the CRC field on version 5.
pub const CRC_OFFSET: usize = 64;

/// Bytes before the keys of the root in the inode.
const ROOT_HEAD: usize = 4;
/// Bytes of a key, and of a pointer.
const PTR_LEN: usize = 8;

/// A key (file block) or a pointer ([`FsBlock`]) in a node.
pub type Word = U64;

/// Returns the location of the bmbt block `fsbno`.
pub fn location(geo: &Geometry, fsbno: FsBlock) -> Location {
    let at = Location::of("bmbt block");
    let Some((agno, agbno)) = geo.fsb_split(fsbno) else { return at };
    at.ag(agno).agb(agbno).daddr(geo.agb_to_daddr(agno, agbno), geo.block_sectors())
}

/// Returns the number of extent records that fit into a fork of `room` bytes.
pub const fn inline_records(room: usize) -> usize {
    room / REC_LEN
}

// ---- records ---------------------------------------------------------------------------------

/// A record, as it is on disk.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Rec {
    /// State, `startoff`, and the high 9 bits of `startblock`.
    pub l0: U64,
    /// The low 43 bits of `startblock`, and `blockcount`.
    pub l1: U64,
}
const _: () = assert!(size_of::<Rec>() == REC_LEN);

/// Consecutive blocks of a file that are also consecutive on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First block within the file.
    pub startoff: FileOff,
    /// First block on the device; for realtime files on the realtime device.
    pub startblock: FsBlock,
    /// Length in blocks, at most [`MAX_BLOCKCOUNT`].
    pub blockcount: FilBlks,
    /// Allocated but never written: reads as zeroes.
    pub unwritten: bool,
}

impl Rec {
    /// Decodes the record.
    pub fn decode(&self) -> Extent {
        let (l0, l1) = (self.l0.get(), self.l1.get());
        Extent {
            startoff: FileOff((l0 >> 9) & MAX_STARTOFF),
            startblock: FsBlock(((l0 & 0x1ff) << 43) | (l1 >> 21)),
            blockcount: FilBlks(l1 & MAX_BLOCKCOUNT),
            unwritten: l0 >> 63 != 0,
        }
    }
}

/// The extents that a fork may have, besides being well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentRules {
    /// True if they lie on the realtime device.
    pub realtime: bool,
    /// True if they may be unwritten: data of regular files only.
    pub unwritten: bool,
}

impl Extent {
    /// Returns the first file block after the extent.
    pub fn end(&self) -> FileOff {
        self.startoff.saturating_add(self.blockcount.0)
    }

    /// Returns the device block that holds file block `fileoff`, where the extent covers it.
    pub fn block_at(&self, fileoff: FileOff) -> Option<FsBlock> {
        let ahead = fileoff.since(self.startoff)?;
        if ahead < self.blockcount.0 { self.startblock.checked_add(ahead) } else { None }
    }

    /// Returns the part of the extent that lies in `[start, end)`, which it overlaps.
    pub fn clip(&self, start: FileOff, end: FileOff) -> Self {
        let startoff = self.startoff.max(start);
        let ahead = startoff.since(self.startoff).unwrap_or(0);
        let blockcount = self.end().min(end).since(startoff).unwrap_or(0);
        Self {
            startoff,
            startblock: self.startblock.saturating_add(ahead),
            blockcount: FilBlks(blockcount),
            unwritten: self.unwritten,
        }
    }

    /// Encodes the extent. Numbers too large for their fields lose their high bits.
    pub fn encode(&self) -> Rec {
        let l0 = (u64::from(self.unwritten) << 63)
            | ((self.startoff.0 & MAX_STARTOFF) << 9)
            | ((self.startblock.0 >> 43) & 0x1ff);
        let l1 = (self.startblock.0 << 21) | (self.blockcount.0 & MAX_BLOCKCOUNT);
        Rec { l0: l0.into(), l1: l1.into() }
    }

    /// Verifies one extent. Any position in the file is valid. The order of two extents is checked
    /// by [`follows`](Self::follows).
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, ctx: &Ctx<'_>, rules: ExtentRules) -> VerifyResult {
        ctx.at_least("bmbt.rec.blockcount", 1, self.blockcount.0)?;
        let exists = if rules.realtime {
            let end = self.startblock.0.saturating_add(self.blockcount.0);
            // Realtime groups make addresses sparse; readers of realtime extents check them.
            ctx.geo.features.metadir() || end <= ctx.geo.rblocks.0
        } else {
            ctx.geo.valid_fsb_extent(self.startblock, self.blockcount.0)
        };
        let wanted = "blocks of one group, after its headers";
        ctx.require("bmbt.rec.startblock", exists, wanted, self.startblock)?;
        let state = rules.unwritten || !self.unwritten;
        ctx.require("bmbt.rec.state", state, "written, unless data of a regular file", "unwritten")
    }

    /// Fails if this extent ends behind the largest offset of a file, 2^63 bytes.
    ///
    /// # Errors
    /// `bmbt.rec.startoff`.
    pub fn verify_end(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let bits = 63u32.saturating_sub(ctx.geo.blocklog.into());
        let most = 1u64.checked_shl(bits).unwrap_or(u64::MAX);
        let last = most.saturating_sub(self.blockcount.0);
        ctx.at_most("bmbt.rec.startoff", last, self.startoff.0)
    }

    /// Fails if this extent starts before `before`, its predecessor's end.
    ///
    /// # Errors
    /// `bmbt.rec.order`.
    pub fn follows(&self, ctx: &Ctx<'_>, before: FileOff) -> VerifyResult {
        ctx.at_least("bmbt.rec.order", before, self.startoff)
    }
}

/// Fails if `recs` do not ascend, or overlap.
///
/// # Errors
/// `bmbt.rec.order`.
pub fn verify_order(ctx: &Ctx<'_>, recs: &[Rec]) -> VerifyResult {
    let mut before = FileOff::ZERO;
    for (index, extent) in recs.iter().map(Rec::decode).enumerate() {
        extent.follows(&ctx.entry(index), before)?;
        before = extent.end();
    }
    Ok(())
}

/// Returns the first `count` records of `bytes`, or as many as there are.
pub fn records(bytes: &[u8], count: usize) -> &[Rec] {
    let count = count.min(inline_records(bytes.len()));
    <[Rec]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(recs, _)| recs)
}

/// Returns `count` keys or pointers from byte `at` of `bytes`; none if they do not fit.
fn words(bytes: &[u8], at: usize, count: usize) -> &[Word] {
    let area = bytes.get(at..).unwrap_or(&[]);
    <[Word]>::ref_from_prefix_with_elems(area, count).map_or(&[], |(words, _)| words)
}

// ---- limits ----------------------------------------------------------------------------------

/// Returns the most records of a leaf, or children of a node: both take 16 bytes.
pub fn maxrecs(geo: &Geometry) -> usize {
    geo.blocksize().saturating_sub(Layout::of(geo).long_header) / REC_LEN
}

/// Returns the fewest records or children of a block, unless it is the only child of the root.
pub fn minrecs(geo: &Geometry) -> usize {
    maxrecs(geo) / 2
}

/// Returns the most children of a root in a fork of `room` bytes.
pub const fn root_maxrecs(room: usize) -> usize {
    room.saturating_sub(ROOT_HEAD) / (2 * PTR_LEN)
}

/// Returns the most levels of a fork's tree, the root in the inode included.
pub fn max_levels(geo: &Geometry, fork: Fork) -> u16 {
    let most_extents: u64 = match (geo.features.nrext64(), fork) {
        (true, Fork::Data) => (1 << 48) - 1,
        (true, Fork::Attr) => u32::MAX.into(),
        (false, Fork::Data) => i32::MAX.unsigned_abs().into(),
        (false, Fork::Attr) => i16::MAX.unsigned_abs().into(),
    };
    let fill = minrecs(geo).max(2) as u64;
    let (mut blocks, mut levels) = (most_extents.div_ceil(fill), 2u16);
    while blocks > 1 {
        blocks = blocks.div_ceil(fill);
        levels = levels.saturating_add(1);
    }
    levels
}

// ---- the root in the inode -------------------------------------------------------------------

/// The root of a tree, as the inode holds it.
#[derive(Clone, Copy, Debug)]
pub struct BmdrRoot<'a> {
    /// Levels below it, at least 1.
    pub level: u16,
    /// First file block below each child.
    pub keys: &'a [Word],
    /// The children ([`FsBlock`]).
    pub ptrs: &'a [Word],
}

impl<'a> BmdrRoot<'a> {
    /// Verifies one fork's part of the inode as the root of a tree. `ctx.at` names inode and fork.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(room: &'a [u8], ctx: &Ctx<'_>, fork: Fork) -> VerifyResult<Self> {
        let Ok((head, _)) = <[U16; 2]>::ref_from_prefix(room) else {
            return Err(ctx.short("bmdr.level", room.len()));
        };
        let [level, numrecs] = head.map(U16::get);
        let top = max_levels(ctx.geo, fork).saturating_sub(1);
        ctx.within("bmdr.level", 1..=top, level)?;
        let maxrecs = root_maxrecs(room.len());
        let numrecs = usize::from(numrecs);
        ctx.within("bmdr.numrecs", 1..=maxrecs, numrecs)?;
        let ptrs_at = ROOT_HEAD.saturating_add(maxrecs.saturating_mul(PTR_LEN));
        let keys = words(room, ROOT_HEAD, numrecs);
        let ptrs = words(room, ptrs_at, numrecs);
        verify_children(ctx, ("bmdr.keys", "bmdr.ptrs"), keys, ptrs)?;
        Ok(Self { level, keys, ptrs })
    }
}

/// Fails if keys do not ascend, or pointers lead to invalid blocks.
fn verify_children(
    ctx: &Ctx<'_>,
    (key_id, ptr_id): (&'static str, &'static str),
    keys: &[Word],
    ptrs: &[Word],
) -> VerifyResult {
    for (index, pair) in keys.windows(2).enumerate() {
        if let [left, right] = pair {
            let least = left.get().saturating_add(1);
            ctx.entry(index.saturating_add(1)).at_least(key_id, least, right.get())?;
        }
    }
    for (index, ptr) in ptrs.iter().enumerate() {
        let exists = ctx.geo.valid_fsbno(FsBlock(ptr.get()));
        let wanted = "a block after the group headers";
        ctx.entry(index).require(ptr_id, exists, wanted, ptr.get())?;
    }
    Ok(())
}

// ---- blocks ----------------------------------------------------------------------------------

/// The part of a block's header that both versions have.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// "BMA3", or "BMAP" on version 4.
    pub magic: U32,
    /// 0 for a leaf.
    pub level: U16,
    /// Records or children.
    pub numrecs: U16,
    /// Left neighbour on this level ([`FsBlock`]), or [`NULLFSBLOCK`].
    pub leftsib: U64,
    /// Right neighbour.
    pub rightsib: U64,
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
    /// The inode ([`xfskit_units::Ino`]).
    pub owner: U64,
    /// CRC32c of the block, little-endian.
    pub crc: [u8; 4],
    /// Must be 0.
    pub pad: U32,
}
const _: () = assert!(size_of::<Header>() == 24 && size_of::<SelfDescription>() == 48);
const _: () = assert!(24 + std::mem::offset_of!(SelfDescription, crc) == CRC_OFFSET);

/// A verified block of a tree.
#[derive(Clone, Copy, Debug)]
pub struct BmbtBlock<'a> {
    /// 0 for a leaf.
    pub level: u16,
    /// Records or children, at most [`maxrecs`].
    pub numrecs: usize,
    /// Left neighbour.
    pub leftsib: Option<FsBlock>,
    /// Right neighbour.
    pub rightsib: Option<FsBlock>,
    /// The bytes after the header.
    body: &'a [u8],
    maxrecs: usize,
}

fn sibling(found: U64) -> Option<FsBlock> {
    (found.get() != NULLFSBLOCK).then_some(FsBlock(found.get()))
}

impl<'a> BmbtBlock<'a> {
    /// Verifies `block` (one filesystem block) as part of the tree of `fork` of inode `ctx.at.ino`.
    /// Its records are verified by their readers, with [`Extent::verify`].
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>, fork: Fork) -> VerifyResult<Self> {
        let layout = Layout::of(ctx.geo);
        ctx.crc("bmbt.crc", block, CRC_OFFSET)?;
        let Ok((head, rest)) = Header::ref_from_prefix(block) else {
            return Err(ctx.short("bmbt.magic", block.len()));
        };
        ctx.eq_hex("bmbt.magic", layout.bmap_magic, head.magic.get())?;
        if ctx.geo.v5() {
            let Ok((own, _)) = SelfDescription::ref_from_prefix(rest) else {
                return Err(ctx.short("bmbt.magic", block.len()));
            };
            ctx.uuid("bmbt.uuid", own.uuid)?;
            ctx.blkno("bmbt.bno", own.bno.get())?;
            if let Some(ino) = ctx.at.ino {
                ctx.eq("bmbt.owner", ino.0, own.owner.get())?;
            }
            ctx.lsn("bmbt.lsn", Lsn(own.lsn.get()))?;
        }
        let level = head.level.get();
        // The highest level of all is the root in the inode.
        ctx.at_most("bmbt.level", max_levels(ctx.geo, fork).saturating_sub(2), level)?;
        let (maxrecs, numrecs) = (maxrecs(ctx.geo), usize::from(head.numrecs.get()));
        ctx.within("bmbt.numrecs", 1..=maxrecs, numrecs)?;
        for (id, sib) in [("bmbt.leftsib", head.leftsib), ("bmbt.rightsib", head.rightsib)] {
            let fsbno = FsBlock(sib.get());
            let daddr = ctx.geo.fsb_to_daddr(fsbno);
            let itself = daddr.is_some() && daddr == ctx.at.daddr;
            let valid = sib.get() == NULLFSBLOCK || (!itself && ctx.geo.valid_fsbno(fsbno));
            ctx.require(id, valid, "another block, or none", fsbno)?;
        }
        let body = block.get(layout.long_header..).unwrap_or(&[]);
        let (leftsib, rightsib) = (sibling(head.leftsib), sibling(head.rightsib));
        let block = Self { level, numrecs, leftsib, rightsib, body, maxrecs };
        verify_children(ctx, ("bmbt.keys", "bmbt.ptrs"), block.keys(), block.ptrs())?;
        Ok(block)
    }

    /// Returns true on level 0.
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Fails if the extents of a leaf do not ascend, or overlap. Every search relies on this. A
    /// verified node's keys ascend.
    ///
    /// # Errors
    /// `bmbt.rec.order`.
    pub fn verify_order(&self, ctx: &Ctx<'_>) -> VerifyResult {
        verify_order(ctx, self.recs())
    }

    /// Returns the first file block of the block: its first key, or the start of its first extent.
    pub fn first(&self) -> Option<FileOff> {
        match self.recs().first() {
            Some(rec) => Some(rec.decode().startoff),
            None => self.keys().first().map(|key| FileOff(key.get())),
        }
    }

    /// Returns the records of a leaf; of a node, none.
    pub fn recs(&self) -> &'a [Rec] {
        if self.is_leaf() { records(self.body, self.numrecs) } else { &[] }
    }

    /// Returns the first file block below each child of a node; of a leaf, none.
    pub fn keys(&self) -> &'a [Word] {
        if self.is_leaf() { &[] } else { words(self.body, 0, self.numrecs) }
    }

    /// Returns the children of a node ([`FsBlock`]); of a leaf, none.
    pub fn ptrs(&self) -> &'a [Word] {
        let ptrs_at = self.maxrecs.saturating_mul(PTR_LEN);
        if self.is_leaf() { &[] } else { words(self.body, ptrs_at, self.numrecs) }
    }
}

#[cfg(test)]
mod tests;
