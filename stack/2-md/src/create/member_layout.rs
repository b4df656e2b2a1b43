//! The layout of a new member: superblock, bitmap, bad-block log, data.
//!
//! ```text
//! 1.2   4 KiB  superblock  [bitmap, or space for one]  bad-block log   …headroom…   data
//! 1.1          superblock  [bitmap, or space for one]  bad-block log   …headroom…   data
//! 1.0   data   [space for a bitmap]  [bitmap]  bad-block log  superblock  end
//! ```
//!
//! A later reshape moves the data of 1.1 and 1.2 into the headroom before them. All numbers are
//! mdadm's. They were found by having mdadm create arrays of many sizes (docs/format/md.md).

use xfskit_units::{ByteLen, Daddr, Sectors};

use super::Error;
use crate::bitmap::HEAD_BYTES;
use crate::superblock::Version;

/// The size of a superblock, and of an empty bad-block log.
const UNIT: Sectors = Sectors(8);
/// The data of 1.1 and 1.2 begin at a multiple of this.
const ALIGN: Sectors = Sectors(2048);
/// The largest headroom: 128 MiB.
const HEADROOM: Sectors = Sectors(262_144);
/// Unit of reshapes and of rounding on levels without a chunk: 64 KiB.
const NO_CHUNK: Sectors = Sectors(128);
/// The default number of bytes that a bit of the bitmap covers.
pub const BITMAP_CHUNK: u32 = 64 << 20;
/// mdadm creates a bitmap by default if members have more than this: 100 GiB.
pub const BITMAP_FROM: Sectors = Sectors(100 << 21);

/// The layout of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberLayout {
    /// The superblock.
    pub superblock: Daddr,
    /// Sectors from the superblock to where a bitmap begins.
    pub bitmap_offset: i32,
    /// Sectors from the superblock to the bad-block log.
    pub bblog_offset: i32,
    /// First sector of data.
    pub data_offset: Sectors,
    /// Sectors of data there can be.
    pub data_size: Sectors,
}

/// The space reserved for a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapSpace {
    /// The level cannot have a bitmap.
    Never,
    /// There is no bitmap, but one may be added.
    Later,
    /// The bitmap takes this many sectors.
    Now(Sectors),
}

impl BitmapSpace {
    fn sectors(self, device: Sectors) -> Sectors {
        match self {
            Self::Never => Sectors(0),
            Self::Now(sectors) => sectors,
            Self::Later if device > Sectors((200 << 21) + 128) => Sectors(256),
            Self::Later if device > Sectors(8 << 21).plus(UNIT) => Sectors(128),
            Self::Later => UNIT,
        }
    }
}

impl MemberLayout {
    /// Computes the layout of a member of `size` bytes. `chunk` is 0 for levels without chunks;
    /// `data_offset` overrides mdadm's default for the start of the data.
    pub fn new(
        name: &str,
        size: ByteLen,
        version: Version,
        chunk: Sectors,
        bitmap: BitmapSpace,
        data_offset: Option<Sectors>,
    ) -> Result<Self, Error> {
        let sectors = size.whole_sectors();
        let small = || Error::Small { name: name.to_owned(), size };
        let superblock = version.superblock_sector(size).ok_or_else(small)?;
        let space = bitmap.sectors(sectors);
        let offset = |sectors: Sectors| i32::try_from(sectors.0).unwrap_or(i32::MAX);
        if version == Version::V1_0 {
            let taken = space.plus(UNIT);
            let behind = data_offset.unwrap_or(Sectors(0));
            let data_size = superblock.0.checked_sub(taken.plus(behind).0).ok_or_else(small)?;
            let bitmap_offset = match bitmap {
                BitmapSpace::Now(sectors) => -offset(sectors.plus(UNIT)),
                _ => 0,
            };
            let data_size = Sectors(data_size);
            let bblog_offset = -offset(UNIT);
            return Ok(Self {
                superblock,
                bitmap_offset,
                bblog_offset,
                data_offset: behind,
                data_size,
            });
        }
        let metadata = Sectors(superblock.0).plus(UNIT).plus(space).plus(UNIT);
        let data_offset = match data_offset {
            Some(at) if at < metadata => return Err(Error::DataOffset { at, least: metadata }),
            Some(at) => at,
            None => ALIGN.times(metadata.plus(headroom(sectors, chunk)).div_ceil(ALIGN)),
        };
        let data_size = sectors.checked_sub(data_offset.0).filter(|left| !left.is_zero());
        Ok(Self {
            superblock,
            bitmap_offset: offset(UNIT),
            bblog_offset: offset(UNIT.plus(space)),
            data_offset,
            data_size: data_size.ok_or_else(small)?,
        })
    }
}

/// Returns the sectors reserved before the data: about a thousandth of the member, at least two
/// chunks.
fn headroom(device: Sectors, chunk: Sectors) -> Sectors {
    let chunk = if chunk.is_zero() { NO_CHUNK } else { chunk };
    let mut headroom = HEADROOM;
    while headroom.times(1024) > device && headroom > chunk.times(2) {
        headroom = Sectors(headroom.0 / 2);
    }
    headroom
}

/// Returns the size that each member contributes: whole chunks of the smallest.
pub fn rounded(size: Sectors, chunk: Sectors) -> Sectors {
    let unit = if chunk.is_zero() { NO_CHUNK } else { chunk };
    unit.times(size.whole(unit))
}

/// Returns the sectors of a bitmap that covers so many sectors: head and bits, in whole pages.
pub fn bitmap_sectors(covered: Sectors, chunk: u32) -> Sectors {
    let bits = covered.byte_len().0.div_ceil(u64::from(chunk));
    UNIT.times((HEAD_BYTES as u64 + bits.div_ceil(8)).div_ceil(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    fn on(size: u64, version: Version, chunk: u64, bitmap: BitmapSpace) -> (u64, u64, i32, i32) {
        let layout =
            MemberLayout::new("m", ByteLen(size), version, Sectors(chunk), bitmap, None).unwrap();
        (layout.data_offset.0, layout.data_size.0, layout.bitmap_offset, layout.bblog_offset)
    }

    #[test]
    fn layouts_are_those_of_mdadm() {
        use BitmapSpace::{Later, Never};
        use Version::{V1_0, V1_1, V1_2};
        let now = |sectors| BitmapSpace::Now(Sectors(sectors));
        for (size, version, chunk, bitmap, expected) in [
            (3 * MIB, V1_2, 1024, Later, (4096, 2048, 8, 16)),
            (16 * MIB, V1_2, 1024, Later, (4096, 28672, 8, 16)),
            (16 * MIB, V1_2, 8192, Later, (18432, 14336, 8, 16)),
            (16 * MIB, V1_2, 8, Later, (2048, 30720, 8, 16)),
            (2 * MIB, V1_2, 0, Later, (2048, 2048, 8, 16)),
            (GIB, V1_2, 1024, Later, (4096, 2_093_056, 8, 16)),
            (4 * GIB, V1_2, 0, Later, (10240, 8_378_368, 8, 16)),
            (8 * GIB, V1_2, 1024, Later, (18432, 16_758_784, 8, 16)),
            (9 * GIB, V1_2, 1024, Later, (18432, 18_855_936, 8, 136)),
            (200 * GIB, V1_2, 1024, Later, (264_192, 419_166_208, 8, 136)),
            (1024 * GIB, V1_2, 1024, Later, (264_192, 2_147_219_456, 8, 264)),
            (9216 * GIB, V1_2, 1024, now(40), (264_192, 19_327_088_640, 8, 48)),
            (200 * GIB, V1_2, 1024, Never, (264_192, 419_166_208, 8, 8)),
            (16 * MIB, V1_1, 0, now(8), (2048, 30720, 8, 16)),
            (16 * MIB, V1_0, 1024, Later, (0, 32736, 0, -8)),
            (16 * MIB, V1_0, 0, now(8), (0, 32736, -16, -8)),
            (16 * MIB, V1_0, 1024, Never, (0, 32744, 0, -8)),
            (200 * GIB, V1_0, 0, Later, (0, 419_430_248, 0, -8)),
            (9216 * GIB, V1_0, 1024, now(40), (0, 19_327_352_768, -48, -8)),
        ] {
            assert_eq!(on(size, version, chunk, bitmap), expected, "{size} {version} {chunk}");
        }
        assert_eq!(bitmap_sectors(Sectors(2 * 9_663_544_320), BITMAP_CHUNK), Sectors(40));
        assert_eq!(bitmap_sectors(Sectors(2 * 14_495_316_480), BITMAP_CHUNK), Sectors(56));
        assert_eq!(bitmap_sectors(Sectors(100), BITMAP_CHUNK), Sectors(8));
    }

    #[test]
    fn members_that_are_too_small_are_refused() {
        for (size, version) in
            [(4096, Version::V1_2), (2 * MIB, Version::V1_2), (8192, Version::V1_0)]
        {
            let later = BitmapSpace::Later;
            let layout = MemberLayout::new("m", ByteLen(size), version, Sectors(1024), later, None);
            assert!(matches!(layout, Err(Error::Small { .. })), "{size}");
        }
        let at = Some(Sectors(20));
        let layout =
            MemberLayout::new("m", ByteLen(MIB), Version::V1_2, Sectors(0), BitmapSpace::Later, at);
        assert!(matches!(layout, Err(Error::DataOffset { least: Sectors(32), .. })));
    }
}
