//! Dquot: usage and limits of one user, group or project. Slots of 136 bytes in the blocks of a
//! quota file; slot `n` of block `b` belongs to id `b * per_block + n`.
//!
//! Every allocated block has all its slots laid out; holes mean "nothing used, no limits". Id 0
//! holds the default limits.

use xfskit_units::{Geometry, Lsn};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::corruption::VerifyResult;
use crate::ctx::Ctx;

/// "DQ".
pub const MAGIC: u16 = 0x4451;
/// Byte of the CRC field of a slot, version 5.
pub const CRC_OFFSET: usize = 108;
/// Bit of `type`: timers count in units of four seconds.
pub const TYPE_BIGTIME: u8 = 0x80;

/// The kind of owner of a dquot: `type` without [`TYPE_BIGTIME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A user.
    User = 1,
    /// A project.
    Project = 2,
    /// A group.
    Group = 4,
}

/// One slot, as it is on disk. The last 32 bytes are zero on version 4.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Dqblk {
    /// [`MAGIC`].
    pub magic: U16,
    /// Always 1.
    pub version: u8,
    /// [`Kind`], and [`TYPE_BIGTIME`].
    pub r#type: u8,
    /// User, group or project.
    pub id: U32,
    /// Hard limit of blocks; 0 for none.
    pub blk_hardlimit: U64,
    /// Soft limit of blocks, which usage may exceed for some time only.
    pub blk_softlimit: U64,
    /// The corresponding limit of inodes.
    pub ino_hardlimit: U64,
    /// The corresponding limit of inodes.
    pub ino_softlimit: U64,
    /// Blocks in use.
    pub bcount: U64,
    /// Inodes in use.
    pub icount: U64,
    /// Time when the inode soft limit becomes hard.
    pub itimer: U32,
    /// Time when the block soft limit becomes hard.
    pub btimer: U32,
    /// Warnings, no longer counted.
    pub iwarns: U16,
    /// Warnings, no longer counted.
    pub bwarns: U16,
    /// Padding.
    pub pad0: U32,
    /// The corresponding limit of realtime blocks.
    pub rtb_hardlimit: U64,
    /// The corresponding limit of realtime blocks.
    pub rtb_softlimit: U64,
    /// Realtime blocks in use.
    pub rtbcount: U64,
    /// Time when the realtime soft limit becomes hard.
    pub rtbtimer: U32,
    /// Warnings, no longer counted.
    pub rtbwarns: U16,
    /// Padding.
    pub pad: U16,
    /// Padding before the fields of version 5.
    pub fill: [u8; 4],
    /// CRC32c of the slot, little-endian.
    pub crc: [u8; 4],
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
}
const _: () = assert!(size_of::<Dqblk>() == 136);
const _: () = assert!(std::mem::offset_of!(Dqblk, crc) == CRC_OFFSET);

/// Returns the number of slots of one block.
pub fn per_block(geo: &Geometry) -> usize {
    geo.blocksize().checked_div(size_of::<Dqblk>()).unwrap_or(0)
}

impl Dqblk {
    /// Verifies the first 136 bytes of `slot` as the dquot of `id` in the quota file of `kind`.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify<'a>(
        slot: &'a [u8],
        ctx: &Ctx<'_>,
        kind: Kind,
        id: u32,
    ) -> VerifyResult<&'a Self> {
        let Some((dquot, whole)) = slot
            .get(..size_of::<Self>())
            .and_then(|slot| Some((Self::ref_from_bytes(slot).ok()?, slot)))
        else {
            return Err(ctx.short("dquot.magic", slot.len()));
        };
        ctx.crc("dquot.crc", whole, CRC_OFFSET)?;
        ctx.eq_hex("dquot.magic", MAGIC, dquot.magic.get())?;
        ctx.uuid("dquot.uuid", dquot.uuid)?;
        ctx.lsn("dquot.lsn", Lsn(dquot.lsn.get()))?;
        ctx.eq("dquot.version", 1, dquot.version)?;
        ctx.eq_hex("dquot.type", kind as u8, dquot.r#type & !TYPE_BIGTIME)?;
        let known = dquot.r#type & TYPE_BIGTIME == 0 || ctx.geo.features.bigtime();
        ctx.require("dquot.type.bigtime", known, "a volume with bigtime", dquot.r#type)?;
        ctx.eq("dquot.id", id, dquot.id.get())?;
        Ok(dquot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::Location;
    use crate::testing::{each_check_fails, geo_v5, golden};

    /// Group 1000 with limits, written by Linux 6.12.
    const SLOT: &str = "
        00: 44510184 000003e8 00000000 00000200
        10: 00000000 00000100 00000000 00000014
        20: 00000000 0000000a 00000000 00000003
        30: 00000000 00000004 00000000 00000000
        60: 00000000 00000000 00000000 d7316928
        70: 00000000 00000000 11111111 22223333
        80: 44445555 55555555";

    #[test]
    fn each_broken_field_is_named() {
        let (geo, slot) = (geo_v5(), golden(136, SLOT));
        let ctx = Ctx::new(&geo, Location::of("dquot")).log_head(Some(Lsn(0x1_0000_0010)));
        each_check_fails(
            &slot,
            Some(CRC_OFFSET),
            &[
                ("dquot.magic", 0, b"DR"),
                ("dquot.version", 2, &[2]),
                ("dquot.type", 3, &[2]),
                ("dquot.id", 7, &[0]),
                ("dquot.lsn", 112, &[0, 0, 0, 2]),
                ("dquot.uuid", 120, &[0]),
                ("dquot.crc", CRC_OFFSET, &[0; 4]),
            ],
            |slot| Dqblk::verify(slot, &ctx, Kind::Group, 1000).map(drop),
        );
        let mut old = geo.clone();
        old.features.incompat -= xfskit_units::features::Incompat::BIGTIME;
        let ctx = Ctx::new(&old, ctx.at);
        let fault = Dqblk::verify(&slot, &ctx, Kind::Group, 1000).unwrap_err();
        assert_eq!(fault.check.0, "dquot.type.bigtime");
    }
}
