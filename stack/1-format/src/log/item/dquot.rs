//! DQUOT and QUOTAOFF. A reader without quota support parses and skips them.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::exactly;
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;

/// The first region of a DQUOT item.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DquotFormat {
    /// [`kind::DQUOT`](super::kind::DQUOT).
    pub r#type: U16,
    /// 2.
    pub size: U16,
    /// User, group or project.
    pub id: U32,
    /// Address of the buffer.
    pub blkno: U64,
    /// Length of the buffer in filesystem blocks.
    pub len: U32,
    /// Byte of the record in the buffer.
    pub boffset: U32,
}
const _: () = assert!(size_of::<DquotFormat>() == 24);

/// A DQUOT item.
#[derive(Clone, Copy, Debug)]
pub struct Dquot<'a> {
    /// The first region.
    pub format: &'a DquotFormat,
    /// The record as it is on disk, without its CRC.
    pub record: &'a [u8],
}

impl<'a> Dquot<'a> {
    pub(super) fn decode(regions: &'a [&'a [u8]], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        ctx.eq("log.dquot.size", 2, regions.len())?;
        let format = exactly(regions.first().copied().unwrap_or_default(), "log.dquot.len", ctx)?;
        Ok(Self { format, record: regions.get(1).copied().unwrap_or_default() })
    }
}

/// A QUOTAOFF item, written by old kernels.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Quotaoff {
    /// [`kind::QUOTAOFF`](super::kind::QUOTAOFF).
    pub r#type: U16,
    /// 1.
    pub size: U16,
    /// Kinds of quota that were turned off: 1 user, 8 project, 0x40 group.
    pub flags: U32,
    /// Zero.
    pub pad: [u8; 12],
}
const _: () = assert!(size_of::<Quotaoff>() == 20);
