//! BUF: changed parts of a buffer.
//!
//! A bitmap marks the 128-byte chunks that changed, counted from the buffer's start. Each run of
//! set bits is one region (older kernels split a run at page boundaries). The bytes are the
//! metadata as it is on disk, except for its CRC and LSN, which are stale and must be stamped again
//! when the recovered buffer is written.

use xfskit_units::{Daddr, Sectors};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::prefix;
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;

/// Bytes that one bit of the map covers.
pub const CHUNK: usize = 128;
/// Longest buffer, in 512-byte units: a block, an inode cluster, a directory block.
pub const LEN_MAX: u16 = 128;

xfskit_units::flag_word! {
    /// The low 5 bits of a buffer item's `flags`. The high 5 are a [`BufType`].
    pub struct BufFlags: u16 {
        /// An inode cluster of which only the unlinked pointers count.
        INODE_BUF = 1 << 0, "INODE_BUF";
        /// The buffer was freed; earlier items for it must not be replayed.
        CANCEL = 1 << 1, "CANCEL";
        /// User quota records.
        UDQUOT_BUF = 1 << 2, "UDQUOT_BUF";
        /// Project quota records.
        PDQUOT_BUF = 1 << 3, "PDQUOT_BUF";
        /// Group quota records.
        GDQUOT_BUF = 1 << 4, "GDQUOT_BUF";
    }
}

/// The fixed part of an item's first region; the map follows.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BufFormat {
    /// [`kind::BUF`](super::kind::BUF).
    pub r#type: U16,
    /// Regions of the item.
    pub size: U16,
    /// [`BufFlags`] in the low 5 bits, [`BufType`] in the high 5.
    pub flags: U16,
    /// Length of the buffer in 512-byte units.
    pub len: U16,
    /// Address of the buffer on the data device ([`Daddr`]).
    pub blkno: U64,
    /// 32-bit words of the map.
    pub map_size: U32,
}
const _: () = assert!(size_of::<BufFormat>() == 20);

/// The type of a buffer, as its writer recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the explanation
pub enum BufType {
    Unknown,
    UserDquot,
    ProjectDquot,
    GroupDquot,
    Btree,
    Agf,
    Agfl,
    Agi,
    Inode,
    Symlink,
    DirBlock,
    DirData,
    DirFree,
    DirLeaf1,
    DirLeafn,
    DaNode,
    AttrLeaf,
    AttrRemote,
    Superblock,
    RtBitmap,
    RtSummary,
    /// A number that is not defined.
    Other(u8),
}

impl BufType {
    /// All defined types, in the order of their numbers.
    const ALL: [Self; 21] = [
        Self::Unknown,
        Self::UserDquot,
        Self::ProjectDquot,
        Self::GroupDquot,
        Self::Btree,
        Self::Agf,
        Self::Agfl,
        Self::Agi,
        Self::Inode,
        Self::Symlink,
        Self::DirBlock,
        Self::DirData,
        Self::DirFree,
        Self::DirLeaf1,
        Self::DirLeafn,
        Self::DaNode,
        Self::AttrLeaf,
        Self::AttrRemote,
        Self::Superblock,
        Self::RtBitmap,
        Self::RtSummary,
    ];

    /// Returns the type whose number `flags` carries.
    pub fn of(flags: u16) -> Self {
        let number = (flags >> 11).to_le_bytes()[0];
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Other(number))
    }

    /// Returns the bits of `flags` for this type.
    pub fn flags(self) -> u16 {
        let defined = || Self::ALL.iter().position(|&it| it == self);
        let number = match self {
            Self::Other(number) => number.into(),
            _ => defined().and_then(|n| u16::try_from(n).ok()).unwrap_or(0),
        };
        number << 11
    }

    /// Returns true for every block of a directory: such blocks may consist of several pieces.
    pub fn is_dir(self) -> bool {
        matches!(
            self,
            Self::DirBlock
                | Self::DirData
                | Self::DirFree
                | Self::DirLeaf1
                | Self::DirLeafn
                | Self::DaNode
        )
    }
}

/// A buffer item, whose first region and map were verified against its data.
#[derive(Clone, Copy, Debug)]
pub struct Buf<'a> {
    /// The fixed part.
    pub format: &'a BufFormat,
    /// The map, lowest bit of the first word first.
    pub map: &'a [U32],
    /// The changed bytes, in order of the map.
    pub regions: &'a [&'a [u8]],
}

/// Changed bytes and their offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Byte of the buffer.
    pub offset: usize,
    /// The new bytes.
    pub bytes: &'a [u8],
}

impl<'a> Buf<'a> {
    pub(super) fn decode(regions: &'a [&'a [u8]], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        let (&first, data) = regions.split_first().unwrap_or((&&[][..], &[]));
        let (format, rest) = prefix::<BufFormat>(first, "log.buf.format", ctx)?;
        let words = <[U32]>::ref_from_prefix_with_elems(rest, format.map_size.get() as usize);
        let Ok((map, _)) = words else {
            return Err(ctx.short("log.buf.map_size", rest.len()));
        };
        let buf = Self { format, map, regions: data };
        if buf.is_cancel() {
            ctx.at_least("log.buf.len", 1, format.len.get())?;
            return Ok(buf);
        }
        ctx.within("log.buf.len", 1..=LEN_MAX, format.len.get())?;
        buf.verify_map(ctx)?;
        Ok(buf)
    }

    /// Checks that every region fills whole chunks of one run, and that every set bit lies in the
    /// buffer and has its bytes.
    fn verify_map(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let end = self.byte_len() / CHUNK;
        let mut next = 0usize;
        for (i, region) in self.regions.iter().enumerate() {
            let ctx = ctx.entry(i);
            let chunks = region.len() / CHUNK;
            let whole = chunks > 0 && region.len().checked_rem(CHUNK) == Some(0);
            ctx.require("log.buf.region", whole, "whole chunks of 128 bytes", region.len())?;
            let start = self.next_set(next);
            next = start.saturating_add(chunks);
            ctx.at_most("log.buf.map", end, next)?;
            let run = (start..next).all(|bit| self.bit(bit));
            ctx.require("log.buf.map", run, "a bit for every chunk of the region", chunks)?;
        }
        let rest = self.next_set(next);
        ctx.require("log.buf.map", rest == self.bits(), "a region for every run of bits", rest)
    }

    /// Returns the number of bits of the map.
    fn bits(&self) -> usize {
        self.map.len().saturating_mul(32)
    }

    fn bit(&self, n: usize) -> bool {
        self.map.get(n / 32).is_some_and(|word| word.get() >> (n % 32) & 1 != 0)
    }

    /// Returns the first set bit from `n` on, or [`Self::bits`].
    fn next_set(&self, n: usize) -> usize {
        (n..self.bits()).find(|&bit| self.bit(bit)).unwrap_or(self.bits())
    }

    /// Returns the changes, from the buffer's start to its end.
    pub fn changes(&self) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let this = *self;
        let mut next = 0;
        this.regions.iter().map(move |bytes| {
            let start = this.next_set(next);
            next = start.saturating_add(bytes.len() / CHUNK);
            Change { offset: start.saturating_mul(CHUNK), bytes }
        })
    }

    /// Returns the address of the buffer.
    pub fn daddr(&self) -> Daddr {
        Daddr(self.format.blkno.get())
    }

    /// Returns the length of the buffer.
    pub fn sectors(&self) -> Sectors {
        Sectors(self.format.len.get().into())
    }

    /// Returns the length of the buffer in bytes.
    pub fn byte_len(&self) -> usize {
        usize::from(self.format.len.get()).saturating_mul(512)
    }

    /// Returns the type of the buffer.
    pub fn buf_type(&self) -> BufType {
        BufType::of(self.format.flags.get())
    }

    fn flags(&self) -> BufFlags {
        BufFlags::from_bits_retain(self.format.flags.get())
    }

    /// Returns true if the item cancels the buffer.
    pub fn is_cancel(&self) -> bool {
        self.flags().contains(BufFlags::CANCEL)
    }

    /// Returns true if only the unlinked pointers of an inode cluster count.
    pub fn is_unlinked(&self) -> bool {
        self.flags().contains(BufFlags::INODE_BUF)
    }

    /// Returns true for quota records.
    pub fn is_dquot(&self) -> bool {
        let dquots = BufFlags::UDQUOT_BUF | BufFlags::PDQUOT_BUF | BufFlags::GDQUOT_BUF;
        self.flags().intersects(dquots)
    }
}
