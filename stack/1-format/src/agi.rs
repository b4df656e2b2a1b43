//! AGI: inodes of one allocation group. Sector 2 of the group, `sectsize` bytes.
//!
//! It holds the roots of the inode btree and the free-inode btree, the group's inode counters, and
//! 64 lists of inodes that are still open but have no name any more. Version 4 ends after
//! `unlinked`.

use xfskit_units::{AgIno, AgNumber, Geometry, Lsn};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::agbtree::Tree;
use crate::bytes;
use crate::corruption::{Location, VerifyResult};
use crate::ctx::Ctx;

/// "XAGI".
pub const MAGIC: u32 = 0x5841_4749;
/// Lists of unlinked inodes; an inode is on list `agino % UNLINKED_BUCKETS`.
pub const UNLINKED_BUCKETS: usize = 64;
/// "No inode": an empty list, the end of one, a hint that is not set.
pub const NULLAGINO: u32 = u32::MAX;

/// The header, as it is on disk.
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

/// Returns the location of the AGI of group `agno`.
pub fn location(geo: &Geometry, agno: AgNumber) -> Location {
    Location::of("AGI").ag(agno).daddr(geo.ag_header_daddr(agno, 2), geo.sect_sectors())
}

impl Agi {
    /// Verifies the sector `block` as the AGI of group `agno`.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify<'a>(block: &'a [u8], ctx: &Ctx<'_>, agno: AgNumber) -> VerifyResult<&'a Self> {
        ctx.crc("agi.crc", block, CRC_OFFSET)?;
        let (Ok((agi, _)), true) =
            (Self::ref_from_prefix(block), block.len() == ctx.geo.sectsize())
        else {
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

    fn verify_roots(&self, ctx: &Ctx<'_>, agno: AgNumber) -> VerifyResult {
        let max_levels = Tree::Ino.max_levels(ctx.geo);
        ctx.agbno("agi.root", agno, self.root.get())?;
        ctx.within("agi.level", 1..=max_levels, self.level.get())?;
        if ctx.geo.features.finobt() {
            ctx.agbno("agi.free_root", agno, self.free_root.get())?;
            ctx.within("agi.free_level", 1..=max_levels, self.free_level.get())?;
        }
        Ok(())
    }
}

/// Returns true if `block` starts with the AGI's magic.
pub fn is_agi(block: &[u8]) -> bool {
    bytes::be32(block, 0) == Some(MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{each_check_fails, geo_v4_old, geo_v5, golden};

    /// AG 0 of 1 GiB, written by mkfs.xfs 6.13.
    fn agi_0() -> Vec<u8> {
        let mut agi = golden(
            512,
            "000: 58414749 00000001 00000000 00010000
             010: 00000040 00000003 00000001 0000003d
             020: 00000080 ffffffff
             120: ffffffff ffffffff 11111111 22223333
             130: 44445555 55555555 ecfa8df4 00000000
             140: 00000000 00000000 00000004 00000001
             150: 00000001 00000001",
        );
        agi[0x28..0x128].fill(0xff);
        agi
    }

    #[test]
    fn each_field_is_checked() {
        let geo = geo_v5();
        let ctx = Ctx::new(&geo, location(&geo, AgNumber(0))).log_head(Some(Lsn(1 << 32)));
        let cases: &[(&str, usize, &[u8])] = &[
            ("agi.magicnum", 0, b"XAGF"),
            ("agi.versionnum", 4, &[0, 0, 0, 2]),
            ("agi.seqno", 8, &[0, 0, 0, 1]),
            ("agi.length", 12, &[0, 0, 0xff, 0xff]),
            ("agi.root", 20, &[0; 4]),
            ("agi.level", 24, &[0; 4]),
            ("agi.freecount", 28, &[0, 0, 0, 65]),
            ("agi.unlinked", 40, &[0; 4]),
            ("agi.unlinked", 292, &[0xff, 0, 0, 0]),
            ("agi.uuid", 296, &[0]),
            ("agi.lsn", 320, &[0, 0, 0, 2]),
            ("agi.free_root", 328, &[0; 4]),
            ("agi.free_level", 332, &[0; 4]),
            ("agi.crc", CRC_OFFSET, &[0; 4]),
        ];
        each_check_fails(&agi_0(), Some(CRC_OFFSET), cases, |block| {
            Agi::verify(block, &ctx, AgNumber(0)).map(|_| ())
        });
    }

    #[test]
    fn each_field_of_version_4_is_checked() {
        let mut agi = golden(
            512,
            "000: 58414749 00000001 00000000 00004000
             010: 00000040 00000004 00000001 0000002e
             020: 00000040",
        );
        agi[0x24..0x128].fill(0xff);
        let geo = geo_v4_old();
        let ctx = Ctx::new(&geo, location(&geo, AgNumber(0))).log_head(Some(Lsn(1 << 32)));
        let cases: &[(&str, usize, &[u8])] = &[
            ("agi.magicnum", 0, b"XAGF"),
            ("agi.versionnum", 4, &[0, 0, 0, 2]),
            ("agi.seqno", 8, &[0, 0, 0, 1]),
            ("agi.length", 12, &[0, 0, 0x3f, 0xff]),
            ("agi.root", 20, &[0; 4]),
            ("agi.level", 24, &[0; 4]),
            ("agi.freecount", 28, &[0, 0, 0, 65]),
            ("agi.unlinked", 40, &[0; 4]),
        ];
        each_check_fails(&agi, None, cases, |block| {
            Agi::verify(block, &ctx, AgNumber(0)).map(|_| ())
        });
    }
}
