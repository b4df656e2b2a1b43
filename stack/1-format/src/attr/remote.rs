//! Blocks of a value that is too large for its leaf.
//!
//! They are consecutive in the attribute fork. On version 5 each begins with a header that names
//! its part of the value; on version 4 they are the bare value. They are not logged: their LSN is
//! all ones, and a value is durable before its entry becomes visible.

use xfskit_units::Geometry;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::attr::VALUE_MAX;
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;
use crate::da::{Ids, ids};
use crate::layout::Layout;

/// "XARM".
pub const MAGIC: u32 = 0x5841_524d;
/// The LSN of blocks that are never logged.
pub const NULL_LSN: u64 = u64::MAX;

/// The header on version 5.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Hdr {
    /// [`MAGIC`].
    pub magic: U32,
    /// Offset of this block in the value, in bytes.
    pub offset: U32,
    /// Bytes of the value in this block.
    pub bytes: U32,
    /// CRC32c of the block, little-endian.
    pub crc: [u8; 4],
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// The inode.
    pub owner: U64,
    /// Own address ([`xfskit_units::Daddr`]).
    pub bno: U64,
    /// [`NULL_LSN`].
    pub lsn: U64,
}

/// Byte of the CRC field on version 5.
pub const CRC_OFFSET: usize = 12;
const _: () = assert!(size_of::<Hdr>() == 56 && std::mem::offset_of!(Hdr, crc) == CRC_OFFSET);

/// Returns the bytes of a value that one block holds.
pub fn payload_max(geo: &Geometry) -> usize {
    geo.blocksize().saturating_sub(Layout::of(geo).attr_remote_header)
}

/// Returns the number of blocks that a value of `valuelen` bytes takes.
pub fn blocks(geo: &Geometry, valuelen: u32) -> u32 {
    let payload = u32::try_from(payload_max(geo)).unwrap_or(1).max(1);
    valuelen.div_ceil(payload)
}

/// Verifies `block` as the block at `offset` of a value of `valuelen` bytes, and returns its part
/// of the value.
///
/// # Errors
/// The first check that fails.
pub fn verify<'a>(
    block: &'a [u8],
    ctx: &Ctx<'_>,
    offset: u32,
    valuelen: u32,
) -> VerifyResult<&'a [u8]> {
    let part = verify_part(block, ctx, offset, valuelen)?;
    if let Ok((hdr, _)) = Hdr::ref_from_prefix(block)
        && ctx.geo.v5()
    {
        ctx.eq_hex("attr.remote.lsn", NULL_LSN, hdr.lsn.get())?;
    }
    Ok(part)
}

/// Does what [`verify`] does, whatever the LSN is: it says nothing of the part of the value.
///
/// # Errors
/// The first check that fails.
pub fn verify_part<'a>(
    block: &'a [u8],
    ctx: &Ctx<'_>,
    offset: u32,
    valuelen: u32,
) -> VerifyResult<&'a [u8]> {
    const IDS: Ids = ids!("attr.remote");
    if block.len() != ctx.geo.blocksize() {
        return Err(ctx.short(IDS.magic, block.len()));
    }
    let payload = u32::try_from(payload_max(ctx.geo)).unwrap_or(0);
    let want = valuelen.saturating_sub(offset).min(payload);
    let mut content = block;
    if ctx.geo.v5() {
        ctx.crc(IDS.crc, block, CRC_OFFSET)?;
        let Ok((hdr, rest)) = Hdr::ref_from_prefix(block) else {
            return Err(ctx.short(IDS.magic, block.len()));
        };
        content = rest;
        ctx.eq_hex(IDS.magic, MAGIC, hdr.magic.get())?;
        // The LSN is no position here, and is not compared with the journal's head.
        IDS.identity(ctx, hdr.uuid, hdr.bno, hdr.owner, U64::ZERO)?;
        ctx.at_most("attr.remote.offset", VALUE_MAX, hdr.offset.get())?;
        ctx.eq("attr.remote.offset", offset, hdr.offset.get())?;
        ctx.eq("attr.remote.bytes", want, hdr.bytes.get())?;
    }
    let len = xfskit_units::index(want.into());
    content.get(..len).ok_or_else(|| ctx.short("attr.remote.bytes", block.len()))
}
