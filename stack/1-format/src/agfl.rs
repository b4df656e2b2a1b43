//! AGFL: the free list of one allocation group. Sector 3 of the group, `sectsize` bytes.
//!
//! A ring of blocks reserved so that the free-space btrees can always grow. The AGF names the
//! active slots: `flfirst` to `fllast`, wrapping, `flcount` of them. Other slots hold stale
//! numbers. Version 4 has no header: slots begin at byte 0.

use xfskit_units::{AgNumber, Geometry, Lsn};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::corruption::{Location, VerifyResult};
use crate::ctx::Ctx;
use crate::layout::Layout;

/// "XAFL".
pub const MAGIC: u32 = 0x5841_464c;
/// The value that mkfs writes into a slot that was never used.
pub const NULLAGBLOCK: u32 = u32::MAX;

/// The header of the sector on version 5; the slots follow.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AgflHeader {
    /// [`MAGIC`].
    pub magicnum: U32,
    /// Number of this group.
    pub seqno: U32,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// CRC32c of the sector, little-endian.
    pub crc: [u8; 4],
}

/// Byte of the CRC field.
pub const CRC_OFFSET: usize = std::mem::offset_of!(AgflHeader, crc);
const _: () = assert!(size_of::<AgflHeader>() == 36 && CRC_OFFSET == 32);

/// Bytes of one slot.
const SLOT: usize = size_of::<U32>();

/// Returns the number of slots of an AGFL: 119 with 512-byte sectors on version 5.
pub fn slots(geo: &Geometry) -> u32 {
    let room = geo.sectsize().saturating_sub(Layout::of(geo).agfl_first);
    u32::try_from(room / SLOT).unwrap_or(0)
}

/// Returns the location of the AGFL of group `agno`.
pub fn location(geo: &Geometry, agno: AgNumber) -> Location {
    Location::of("AGFL").ag(agno).daddr(geo.ag_header_daddr(agno, 3), geo.sect_sectors())
}

/// The free list of one group, verified.
#[derive(Clone, Copy, Debug)]
pub struct Agfl<'a> {
    /// Every slot, active or not.
    pub bno: &'a [U32],
}

impl<'a> Agfl<'a> {
    /// Verifies the sector `block` as the AGFL of group `agno`.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>, agno: AgNumber) -> VerifyResult<Self> {
        if ctx.geo.v5() {
            ctx.crc("agfl.crc", block, CRC_OFFSET)?;
            let Ok((head, _)) = AgflHeader::ref_from_prefix(block) else {
                return Err(ctx.short("agfl.magicnum", block.len()));
            };
            ctx.eq_hex("agfl.magicnum", MAGIC, head.magicnum.get())?;
            ctx.uuid("agfl.uuid", head.uuid)?;
            ctx.lsn("agfl.lsn", Lsn(head.lsn.get()))?;
            ctx.eq("agfl.seqno", agno.0, head.seqno.get())?;
        }
        let list = block.get(Layout::of(ctx.geo).agfl_first..).unwrap_or(&[]);
        let count = slots(ctx.geo) as usize;
        let Ok((bno, _)) = <[U32]>::ref_from_prefix_with_elems(list, count) else {
            return Err(ctx.short("agfl.bno", block.len()));
        };
        if ctx.geo.v5() {
            for (i, slot) in bno.iter().enumerate() {
                let valid = slot.get() == NULLAGBLOCK || slot.get() < ctx.geo.agblocks;
                ctx.entry(i).require("agfl.bno", valid, "a block of the group", slot.get())?;
            }
        }
        Ok(Self { bno })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agf::Agf;
    use crate::testing::{each_check_fails, geo_v4, geo_v5, golden};
    use xfskit_units::AgBlock;

    /// Returns AG 0 of 1 GiB, written by mkfs.xfs 6.13: blocks 7 to 12 in slots 1 to 6.
    fn agfl_0() -> Vec<u8> {
        let mut agfl = golden(
            512,
            "000: 5841464c 00000000 11111111 22223333
             010: 44445555 55555555 00000000 00000000
             020: 0a49ec11 ffffffff 00000007 00000008
             030: 00000009 0000000a 0000000b 0000000c",
        );
        agfl[0x40..].fill(0xff);
        agfl
    }

    fn agf(flfirst: u32, flcount: u32) -> Agf {
        let mut agf = Agf::read_from_bytes(&[0; 224]).unwrap();
        agf.flfirst = flfirst.into();
        agf.flcount = flcount.into();
        agf
    }

    #[test]
    fn the_active_window_wraps() {
        let geo = geo_v5();
        let ctx = Ctx::new(&geo, location(&geo, AgNumber(0)));
        let block = agfl_0();
        let agfl = Agfl::verify(&block, &ctx, AgNumber(0)).unwrap();
        let active: Vec<u32> = agfl.active(&agf(1, 6)).map(|b| b.0).collect();
        assert_eq!(active, [7, 8, 9, 10, 11, 12]);
        let wrapped: Vec<u32> = agfl.active(&agf(118, 3)).map(|b| b.0).collect();
        assert_eq!(wrapped, [NULLAGBLOCK, NULLAGBLOCK, 7]);
        assert_eq!(agfl.active(&agf(0, u32::MAX)).count(), 119, "bounded whatever the AGF says");
    }

    #[test]
    fn version_4_has_slots_from_the_first_byte() {
        let geo = geo_v4();
        let ctx = Ctx::new(&geo, location(&geo, AgNumber(0)));
        let block = golden(512, "000: ffffffff 00000004 00000005 00000006 00000007");
        let agfl = Agfl::verify(&block, &ctx, AgNumber(0)).unwrap();
        assert_eq!(agfl.bno.len(), 128);
        assert_eq!(agfl.active(&agf(1, 4)).last(), Some(AgBlock(7)));
    }

    #[test]
    fn each_field_is_checked() {
        let geo = geo_v5();
        let ctx = Ctx::new(&geo, location(&geo, AgNumber(0))).log_head(Some(Lsn(1 << 32)));
        let cases: &[(&str, usize, &[u8])] = &[
            ("agfl.magicnum", 0, b"XAGF"),
            ("agfl.seqno", 4, &[0, 0, 0, 1]),
            ("agfl.uuid", 8, &[0]),
            ("agfl.lsn", 24, &[0, 0, 0, 2]),
            ("agfl.bno", 500, &[0, 1, 0, 0]),
            ("agfl.crc", CRC_OFFSET, &[0; 4]),
        ];
        each_check_fails(&agfl_0(), Some(CRC_OFFSET), cases, |block| {
            Agfl::verify(block, &ctx, AgNumber(0)).map(|_| ())
        });
    }
}
