//! Realtime superblock: block 0 of the realtime device of volumes with a metadata directory.
//!
//! It only identifies the volume of the device: label and UUIDs are copies of the superblock's.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::corruption::VerifyResult;
use crate::ctx::Ctx;
use xfskit_units::Uuid;

/// "Frog".
pub const MAGIC: u32 = 0x4672_6f67;
/// Byte of the CRC field.
pub const CRC_OFFSET: usize = 4;

/// The used part of the block; the rest is zero.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RtSuperblock {
    /// [`MAGIC`].
    pub magicnum: U32,
    /// CRC32c of the block, little-endian.
    pub crc: [u8; 4],
    /// Must be 0.
    pub pad: U32,
    /// Label, padded with NUL.
    pub fname: [u8; 12],
    /// User-visible UUID.
    pub uuid: [u8; 16],
    /// UUID of the volume's metadata.
    pub meta_uuid: [u8; 16],
}
const _: () = assert!(size_of::<RtSuperblock>() == 56);
const _: () = assert!(std::mem::offset_of!(RtSuperblock, crc) == CRC_OFFSET);

impl RtSuperblock {
    /// Verifies one block as realtime superblock.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify<'a>(block: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<&'a Self> {
        ctx.crc("rtsb.crc", block, CRC_OFFSET)?;
        let Ok((rtsb, rest)) = Self::ref_from_prefix(block) else {
            return Err(ctx.short("rtsb.magicnum", block.len()));
        };
        ctx.eq_hex("rtsb.magicnum", MAGIC, rtsb.magicnum.get())?;
        ctx.eq("rtsb.pad", 0, rtsb.pad.get())?;
        ctx.eq("rtsb.uuid", ctx.geo.uuid, Uuid::from_bytes(rtsb.uuid))?;
        ctx.uuid("rtsb.meta_uuid", rtsb.meta_uuid)?;
        let zero = rest.iter().all(|&byte| byte == 0);
        ctx.require("rtsb.rest", zero, "zeroes after the fields", zero)?;
        Ok(rtsb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::Location;
    use crate::testing::{each_check_fails, geo_v5, golden};

    #[test]
    fn each_broken_field_is_named() {
        let geo = geo_v5();
        let ctx = Ctx::new(&geo, Location::of("rt superblock"));
        each_check_fails(
            &golden(4096, include_str!("golden/rtsb.txt")),
            Some(CRC_OFFSET),
            &[
                ("rtsb.magicnum", 0, b"frog"),
                ("rtsb.pad", 11, &[1]),
                ("rtsb.uuid", 24, &[0]),
                ("rtsb.meta_uuid", 40, &[0]),
                ("rtsb.rest", 4095, &[1]),
                ("rtsb.crc", CRC_OFFSET, &[0; 4]),
            ],
            |block| RtSuperblock::verify(block, &ctx).map(drop),
        );
    }
}
