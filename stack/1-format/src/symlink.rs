//! Remote symlinks: targets too long for the inode.
//!
//! A target of up to 1023 bytes lies in the data fork's extents. On version 5 each *extent* (not
//! each block) begins with a header, and its CRC covers the whole extent; with blocks of 2 KiB or
//! more there is exactly one. Version 4 has the bare bytes.

use xfskit_units::{ByteLen, Daddr, FilBlks, FsBlock, Geometry, Ino, Lsn, Sectors};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::corruption::{Location, VerifyResult};
use crate::ctx::Ctx;
use crate::image::Image;
use crate::layout::Layout;

/// "XSLM".
pub const MAGIC: u32 = 0x5853_4c4d;
/// Byte of the CRC field.
pub const CRC_OFFSET: usize = 12;
/// Longest target, in bytes.
pub const MAX_LEN: u32 = 1023;

/// The header of an extent of a remote target, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: U32,
    /// Offset of this part in the target, in bytes.
    pub offset: U32,
    /// Length of this part of the target, in bytes.
    pub bytes: U32,
    /// CRC32c of the extent, little-endian.
    pub crc: [u8; 4],
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// The inode ([`xfskit_units::Ino`]).
    pub owner: U64,
    /// Own address ([`xfskit_units::Daddr`]).
    pub bno: U64,
    /// [`Lsn`] of the last write.
    pub lsn: U64,
}
const _: () = assert!(size_of::<Header>() == 56);
const _: () = assert!(std::mem::offset_of!(Header, crc) == CRC_OFFSET);

/// Returns the location of the extent of `blocks` blocks from `start`, named as a symlink.
pub fn location(geo: &Geometry, start: FsBlock, blocks: FilBlks) -> Location {
    let at = Location::of("symlink target");
    let Some((agno, agbno)) = geo.fsb_split(start) else { return at };
    let sectors = Sectors(geo.block_sectors().0.saturating_mul(blocks.0));
    at.ag(agno).agb(agbno).daddr(geo.agb_to_daddr(agno, agbno), sectors)
}

/// Verifies one whole extent of the remote target of inode `ctx.at.ino`, and returns its part of
/// the target: from byte `offset` on, of the `remaining` bytes.
///
/// # Errors
/// The first check that fails.
pub fn verify<'a>(
    extent: &'a [u8],
    ctx: &Ctx<'_>,
    offset: u32,
    remaining: ByteLen,
) -> VerifyResult<&'a [u8]> {
    let payload = extent.get(Layout::of(ctx.geo).symlink_header..).unwrap_or(&[]);
    let len = payload.len().min(usize::try_from(remaining.0).unwrap_or(usize::MAX));
    if ctx.geo.v5() {
        ctx.crc("symlink.crc", extent, CRC_OFFSET)?;
        let Ok((head, _)) = Header::ref_from_prefix(extent) else {
            return Err(ctx.short("symlink.magic", extent.len()));
        };
        ctx.eq_hex("symlink.magic", MAGIC, head.magic.get())?;
        ctx.uuid("symlink.uuid", head.uuid)?;
        ctx.blkno("symlink.bno", head.bno.get())?;
        if let Some(ino) = ctx.at.ino {
            ctx.eq("symlink.owner", ino.0, head.owner.get())?;
        }
        ctx.lsn("symlink.lsn", Lsn(head.lsn.get()))?;
        ctx.eq("symlink.offset", offset, head.offset.get())?;
        ctx.eq("symlink.bytes", len as u64, head.bytes.get().into())?;
        ctx.at_most("symlink.length", MAX_LEN, offset.saturating_add(head.bytes.get()))?;
    }
    payload.get(..len).ok_or_else(|| ctx.short("symlink.bytes", extent.len()))
}

/// Fills a zeroed `extent` of version 5 at `daddr` with the part of a target of inode `owner` that
/// begins at byte `offset`. Returns how much of the rest of `target` fits.
pub fn make(
    extent: &mut impl Image,
    geo: &Geometry,
    (daddr, owner): (Daddr, Ino),
    offset: usize,
    target: &[u8],
) -> usize {
    let head_len = Layout::V5.symlink_header;
    let rest = target.get(offset..).unwrap_or(&[]);
    let room = extent.bytes().len().saturating_sub(head_len);
    let part = rest.get(..room).unwrap_or(rest);
    let number = |n: usize| U32::new(u32::try_from(n).unwrap_or(u32::MAX));
    let head = Header {
        magic: MAGIC.into(),
        offset: number(offset),
        bytes: number(part.len()),
        crc: [0; 4],
        uuid: *geo.meta_uuid.as_bytes(),
        owner: owner.0.into(),
        bno: daddr.0.into(),
        lsn: 0.into(),
    };
    extent.put(0, &head);
    extent.put(head_len, part);
    part.len()
}

/// Writes the CRC of a finished extent of version 5.
///
/// # Panics
/// If `extent` is no longer than a header, which is the caller's mistake.
pub fn stamp(extent: &mut [u8]) {
    xfskit_crc::update(extent, CRC_OFFSET);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{broken, each_check_fails, geo_v4, geo_v5, golden};

    fn at() -> Location {
        Location::of("symlink").ino(Ino(133)).daddr(Daddr(120), Sectors(8))
    }

    #[test]
    fn each_broken_field_is_named() {
        let geo = geo_v5();
        let ctx = Ctx::new(&geo, at()).log_head(Some(Lsn(0x1_0000_0010)));
        let block = golden(4096, include_str!("golden/symlink.txt"));
        each_check_fails(
            &block,
            Some(CRC_OFFSET),
            &[
                ("symlink.magic", 0, b"XSLN"),
                ("symlink.offset", 4, &[0, 0, 0, 1]),
                ("symlink.bytes", 8, &[0, 0, 0, 4]),
                ("symlink.uuid", 16, &[0]),
                ("symlink.owner", 32, &[1]),
                ("symlink.bno", 40, &[1]),
                ("symlink.lsn", 48, &[0, 0, 0, 2]),
                ("symlink.crc", CRC_OFFSET, &[0; 4]),
            ],
            |block| verify(block, &ctx, 0, ByteLen(400)).map(drop),
        );
        assert_eq!(verify(&block, &ctx, 0, ByteLen(400)).unwrap(), [b'a'; 400]);
        // A size that is invalid in an inode.
        let long = broken(&block, 8, &[0, 0, 4, 0], Some(CRC_OFFSET));
        let fault = verify(&long, &ctx, 0, ByteLen(1024)).unwrap_err();
        assert_eq!(fault.check.0, "symlink.length");
    }

    #[test]
    fn a_target_in_two_extents_reads_back() {
        let geo = geo_v5();
        let target: Vec<u8> = (0..1000u32).map(|n| b'a' + (n % 26) as u8).collect();
        let mut extent = vec![0; 512];
        let first = make(&mut extent, &geo, (Daddr(120), Ino(133)), 0, &target);
        xfskit_crc::update(&mut extent, CRC_OFFSET);
        let ctx = Ctx::new(&geo, at());
        assert_eq!(verify(&extent, &ctx, 0, ByteLen(1000)).unwrap(), &target[..first]);
        let mut extent = vec![0; 1024];
        assert_eq!(make(&mut extent, &geo, (Daddr(120), Ino(133)), first, &target), 1000 - first);
        xfskit_crc::update(&mut extent, CRC_OFFSET);
        let rest = ByteLen(1000 - first as u64);
        assert_eq!(
            verify(&extent, &ctx, u32::try_from(first).unwrap(), rest).unwrap(),
            &target[first..]
        );
    }

    #[test]
    fn version_4_targets_are_bare() {
        let geo = geo_v4();
        let block = [b'x'; 4096];
        let target = verify(&block, &Ctx::new(&geo, at()), 0, ByteLen(900)).unwrap();
        assert_eq!(target, &block[..900]);
    }
}
