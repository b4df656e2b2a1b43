//! AGI: inodes of one allocation group. Sector 2 of the group, `sectsize` bytes.
//!
//! It holds the roots of the inode btree and the free-inode btree, the group's inode counters, and
//! 64 lists of inodes that are open though no name leads to them any more. Version 4 ends behind
//! `unlinked`.

use xfskit_units::{AgIno, AgNumber, Geometry, Lsn};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes;
use crate::ctx::Ctx;
use crate::fault::{Location, Verdict};
use crate::inobt;

/// "XAGI".
pub const MAGIC: u32 = 0x5841_4749;
/// Lists of unlinked inodes; an inode is on list `agino % UNLINKED_BUCKETS`.
pub const UNLINKED_BUCKETS: usize = 64;
/// "No inode": an empty list, the end of one, a hint that is not set.
pub const NULLAGINO: u32 = u32::MAX;

/// The header, as it stands on disk.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Agi {
    /// [`MAGIC`].
    pub magicnum: U32,
    /// Always 1.
    pub versionnum: U32,
    /// Number of this group.
    pub seqno: U32,
    /// Size of this group, in filesystem blocks.
    pub length: U32,
    /// Inodes present in this group; holes of sparse chunks are not counted.
    pub count: U32,
    /// Root of the inode btree (agbno).
    pub root: U32,
    /// Levels of the inobt; 1 when the root is a leaf.
    pub level: U32,
    /// Free inodes of this group.
    pub freecount: U32,
    /// First inode of the chunk allocated last: a hint, may be [`NULLAGINO`].
    pub newino: U32,
    /// Unused; [`NULLAGINO`].
    pub dirino: U32,
    /// Heads of the unlinked lists (agino); [`NULLAGINO`] when empty.
    pub unlinked: [U32; UNLINKED_BUCKETS],
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// CRC32c of the sector, little-endian.
    pub crc: [u8; 4],
    /// Zero.
    pub pad32: U32,
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// Root of the free-inode btree (agbno); 0 without FINOBT.
    pub free_root: U32,
    /// Levels of the finobt; 0 without FINOBT.
    pub free_level: U32,
    /// Blocks of the inobt with its root; 0 without INOBTCNT.
    pub ino_blocks: U32,
    /// Blocks of the finobt with its root; 0 without INOBTCNT.
    pub fino_blocks: U32,
}

/// Byte of the CRC field.
pub const CRC_OFFSET: usize = std::mem::offset_of!(Agi, crc);
const _: () = assert!(size_of::<Agi>() == 344 && CRC_OFFSET == 312);

/// Where the AGI of group `agno` lies.
pub fn location(geo: &Geometry, agno: AgNumber) -> Location {
    Location::of("AGI").ag(agno).daddr(geo.ag_header_daddr(agno, 2), geo.sect_sectors())
}

impl Agi {
    /// Judges the sector `block` as the AGI of group `agno`.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify<'a>(block: &'a [u8], ctx: &Ctx<'_>, agno: AgNumber) -> Verdict<&'a Self> {
        ctx.crc("agi.crc", block, CRC_OFFSET)?;
        let Ok((agi, _)) = Self::ref_from_prefix(block) else {
            return Err(ctx.short("agi.magicnum", block.len()));
        };
        ctx.eq_hex("agi.magicnum", MAGIC, agi.magicnum.get())?;
        ctx.uuid("agi.uuid", agi.uuid)?;
        ctx.lsn("agi.lsn", Lsn(agi.lsn.get()))?;
        ctx.eq("agi.versionnum", 1, agi.versionnum.get())?;
        ctx.eq("agi.seqno", agno.0, agi.seqno.get())?;
        ctx.eq("agi.length", ctx.geo.ag_length(agno), agi.length.get())?;
        agi.verify_roots(ctx, agno)?;
        ctx.at_most("agi.freecount", agi.count.get(), agi.freecount.get())?;
        for (bucket, head) in agi.unlinked.iter().enumerate() {
            let head = head.get();
            let valid = head == NULLAGINO || ctx.geo.valid_agino(agno, AgIno(head));
            ctx.entry(bucket).require("agi.unlinked", valid, "a valid inode or none", head)?;
        }
        Ok(agi)
    }

    fn verify_roots(&self, ctx: &Ctx<'_>, agno: AgNumber) -> Verdict {
        let max_levels = inobt::max_levels(ctx.geo);
        ctx.agbno("agi.root", agno, self.root.get())?;
        ctx.within("agi.level", 1..=max_levels, self.level.get())?;
        if ctx.geo.features.finobt() {
            ctx.agbno("agi.free_root", agno, self.free_root.get())?;
            ctx.within("agi.free_level", 1..=max_levels, self.free_level.get())?;
        }
        Ok(())
    }
}

/// True where `block` starts with the AGI's magic.
pub fn is_agi(block: &[u8]) -> bool {
    bytes::be32(block, 0) == Some(MAGIC)
}
