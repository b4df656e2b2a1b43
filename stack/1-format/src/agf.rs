//! AGF: free space of one allocation group. Sector 1 of the group, `sectsize` bytes.
//!
//! It holds the roots of the free-space btrees (and of the reverse-mapping and reference-count
//! btrees), the window of the free list in the AGFL, and the group's free-space counters. Version
//! 4 ends after `btreeblks`.

use xfskit_units::{AgBlock, AgNumber, Geometry, Lsn};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::agbtree::Tree;
use crate::agfl::{self, Agfl};
use crate::bytes;
use crate::corruption::{Location, VerifyResult};
use crate::ctx::Ctx;

/// "XAGF".
pub const MAGIC: u32 = 0x5841_4746;

/// The header, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Agf {
    /// [`MAGIC`].
    pub magicnum: U32,
    /// Always 1.
    pub versionnum: U32,
    /// Number of this group.
    pub seqno: U32,
    /// Size of this group, in filesystem blocks. The last group may be short.
    pub length: U32,
    /// Root of the by-block free-space btree (agbno).
    pub bnoroot: U32,
    /// Root of the by-size free-space btree (agbno).
    pub cntroot: U32,
    /// Root of the reverse-mapping btree (agbno); 0 without RMAPBT.
    pub rmaproot: U32,
    /// Levels of the bnobt; 1 when the root is a leaf.
    pub bnolevel: U32,
    /// Levels of the cntbt.
    pub cntlevel: U32,
    /// Levels of the rmapbt; 0 without RMAPBT.
    pub rmaplevel: U32,
    /// First active slot of the AGFL.
    pub flfirst: U32,
    /// Last active slot of the AGFL.
    pub fllast: U32,
    /// Active slots of the AGFL.
    pub flcount: U32,
    /// Free blocks in the btrees; the AGFL's are not counted.
    pub freeblks: U32,
    /// Longest free extent, in blocks.
    pub longest: U32,
    /// Blocks of bnobt, cntbt and rmapbt without their roots.
    pub btreeblks: U32,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// Blocks of the rmapbt with its root.
    pub rmapblocks: U32,
    /// Blocks of the refcountbt with its root.
    pub refcntblocks: U32,
    /// Root of the reference-count btree (agbno); 0 without REFLINK.
    pub refcntroot: U32,
    /// Levels of the refcountbt; 0 without REFLINK.
    pub refcntlevel: U32,
    /// Zero; kept as found.
    pub spare64: [U64; 14],
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// CRC32c of the sector, little-endian.
    pub crc: [u8; 4],
    /// Zero.
    pub spare2: U32,
}

/// Byte of the CRC field.
pub const CRC_OFFSET: usize = std::mem::offset_of!(Agf, crc);
const _: () = assert!(size_of::<Agf>() == 224 && CRC_OFFSET == 216);

/// Returns the location of the AGF of group `agno`.
pub fn location(geo: &Geometry, agno: AgNumber) -> Location {
    Location::of("AGF").ag(agno).daddr(geo.ag_header_daddr(agno, 1), geo.sect_sectors())
}

impl Agf {
    /// Verifies the sector `block` as the AGF of group `agno`.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify<'a>(block: &'a [u8], ctx: &Ctx<'_>, agno: AgNumber) -> VerifyResult<&'a Self> {
        ctx.crc("agf.crc", block, CRC_OFFSET)?;
        let (Ok((agf, _)), true) =
            (Self::ref_from_prefix(block), block.len() == ctx.geo.sectsize())
        else {
            return Err(ctx.short("agf.magicnum", block.len()));
        };
        ctx.eq_hex("agf.magicnum", MAGIC, agf.magicnum.get())?;
        ctx.uuid("agf.uuid", agf.uuid)?;
        ctx.lsn("agf.lsn", Lsn(agf.lsn.get()))?;
        ctx.eq("agf.versionnum", 1, agf.versionnum.get())?;
        ctx.eq("agf.seqno", agno.0, agf.seqno.get())?;
        ctx.eq("agf.length", ctx.geo.ag_length(agno), agf.length.get())?;
        agf.verify_free_list(ctx)?;
        agf.verify_counters(ctx)?;
        agf.verify_roots(ctx, agno)?;
        Ok(agf)
    }

    fn verify_free_list(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let slots = agfl::slots(ctx.geo);
        ctx.at_most("agf.flfirst", slots.saturating_sub(1), self.flfirst.get())?;
        ctx.at_most("agf.fllast", slots.saturating_sub(1), self.fllast.get())?;
        ctx.at_most("agf.flcount", slots, self.flcount.get())
    }

    fn verify_counters(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let length = self.length.get();
        ctx.at_most("agf.freeblks", length, self.freeblks.get())?;
        ctx.at_most("agf.longest", self.freeblks.get(), self.longest.get())?;
        ctx.at_most("agf.btreeblks", length, self.btreeblks.get())?;
        if ctx.geo.features.rmapbt() {
            ctx.at_most("agf.rmapblocks", length, self.rmapblocks.get())?;
        }
        if ctx.geo.features.reflink() {
            ctx.at_most("agf.refcntblocks", length, self.refcntblocks.get())?;
        }
        Ok(())
    }

    fn verify_roots(&self, ctx: &Ctx<'_>, agno: AgNumber) -> VerifyResult {
        let geo = ctx.geo;
        ctx.agbno("agf.bnoroot", agno, self.bnoroot.get())?;
        ctx.agbno("agf.cntroot", agno, self.cntroot.get())?;
        ctx.within("agf.bnolevel", 1..=Tree::Bno.max_levels(geo), self.bnolevel.get())?;
        ctx.within("agf.cntlevel", 1..=Tree::Cnt.max_levels(geo), self.cntlevel.get())?;
        if geo.features.rmapbt() {
            ctx.agbno("agf.rmaproot", agno, self.rmaproot.get())?;
            ctx.within("agf.rmaplevel", 1..=Tree::Rmap.max_levels(geo), self.rmaplevel.get())?;
        }
        if geo.features.reflink() {
            ctx.agbno("agf.refcntroot", agno, self.refcntroot.get())?;
            ctx.within(
                "agf.refcntlevel",
                1..=Tree::Refcount.max_levels(geo),
                self.refcntlevel.get(),
            )?;
        }
        Ok(())
    }
}

/// Returns true if `block` starts with the AGF's magic.
pub fn is_agf(block: &[u8]) -> bool {
    bytes::be32(block, 0) == Some(MAGIC)
}

impl<'a> Agfl<'a> {
    /// Returns the active blocks in the order of their use. At most as many as there are slots,
    /// whatever `agf` states.
    pub fn active(&self, agf: &Agf) -> impl Iterator<Item = AgBlock> + use<'a> {
        let bno = self.bno;
        let first = agf.flfirst.get() as usize;
        let count = (agf.flcount.get() as usize).min(bno.len());
        bno.iter().cycle().skip(first).take(count).map(|slot| AgBlock(slot.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{each_check_fails, geo_v4_old, geo_v5, golden};

    /// AG 0 of 1 GiB, written by mkfs.xfs 6.13.
    const AGF_0: &str = "
        000: 58414746 00000001 00000000 00010000
        010: 00000001 00000002 00000005 00000001
        020: 00000001 00000001 00000001 00000006
        030: 00000006 0000ffeb 0000ffe8 00000000
        040: 11111111 22223333 44445555 55555555
        050: 00000001 00000001 00000006 00000001
        0d0: 00000000 00000000 68170a6a 00000000";

    #[test]
    fn each_field_is_checked() {
        let geo = geo_v5();
        let ctx = Ctx::new(&geo, location(&geo, AgNumber(0))).log_head(Some(Lsn(1 << 32)));
        let cases: &[(&str, usize, &[u8])] = &[
            ("agf.magicnum", 0, b"XAGI"),
            ("agf.versionnum", 4, &[0, 0, 0, 2]),
            ("agf.seqno", 8, &[0, 0, 0, 1]),
            ("agf.length", 12, &[0, 0, 0xff, 0xff]),
            ("agf.bnoroot", 16, &[0; 4]),
            ("agf.cntroot", 20, &[0, 1, 0, 0]),
            ("agf.rmaproot", 24, &[0; 4]),
            ("agf.bnolevel", 28, &[0; 4]),
            ("agf.cntlevel", 32, &[0, 0, 0, 9]),
            ("agf.rmaplevel", 36, &[0; 4]),
            ("agf.flfirst", 40, &[0, 0, 0, 119]),
            ("agf.fllast", 44, &[0, 0, 0, 119]),
            ("agf.flcount", 48, &[0, 0, 0, 120]),
            ("agf.freeblks", 52, &[0, 1, 0, 1]),
            ("agf.longest", 56, &[0, 0, 0xff, 0xec]),
            ("agf.btreeblks", 60, &[0, 1, 0, 1]),
            ("agf.uuid", 64, &[0]),
            ("agf.rmapblocks", 80, &[0, 1, 0, 1]),
            ("agf.refcntblocks", 84, &[0, 1, 0, 1]),
            ("agf.refcntroot", 88, &[0; 4]),
            ("agf.refcntlevel", 92, &[0; 4]),
            ("agf.crc", CRC_OFFSET, &[0; 4]),
            ("agf.lsn", 208, &[0, 0, 0, 2]),
        ];
        each_check_fails(&golden(512, AGF_0), Some(CRC_OFFSET), cases, |block| {
            Agf::verify(block, &ctx, AgNumber(0)).map(|_| ())
        });
    }

    #[test]
    fn each_field_of_version_4_is_checked() {
        let agf = "
            000: 58414746 00000001 00000000 00004000
            010: 00000002 00000003 00000000 00000001
            020: 00000001 00000000 00000001 00000004
            030: 00000004 0000389f 000036a0 00000000";
        let geo = geo_v4_old();
        let ctx = Ctx::new(&geo, location(&geo, AgNumber(0))).log_head(Some(Lsn(1 << 32)));
        let cases: &[(&str, usize, &[u8])] = &[
            ("agf.magicnum", 0, b"XAGI"),
            ("agf.versionnum", 4, &[0, 0, 0, 2]),
            ("agf.seqno", 8, &[0, 0, 0, 1]),
            ("agf.length", 12, &[0, 0, 0x3f, 0xff]),
            ("agf.bnoroot", 16, &[0; 4]),
            ("agf.cntroot", 20, &[0, 0, 0x40, 0]),
            ("agf.bnolevel", 28, &[0; 4]),
            ("agf.cntlevel", 32, &[0, 0, 0, 9]),
            ("agf.flfirst", 40, &[0, 0, 0, 128]),
            ("agf.fllast", 44, &[0, 0, 0, 128]),
            ("agf.flcount", 48, &[0, 0, 0, 129]),
            ("agf.freeblks", 52, &[0, 0, 0x40, 1]),
            ("agf.longest", 56, &[0, 0, 0x38, 0xa0]),
        ];
        each_check_fails(&golden(512, agf), None, cases, |block| {
            Agf::verify(block, &ctx, AgNumber(0)).map(|_| ())
        });
    }
}
