//! The two file formats of `xfs_metadump`. All numbers are big-endian.
//!
//! ```text
//! v1   { "XFSM"  count(2)  blocklog(1)  info(1)  daddr(8)[…]  |  count blocks } …
//! v2   "XMD2"  version(4) = 2  incompat(4)  compat(4)  reserved(8)
//!      { addr(8)  sectors(4)  |  sectors * 512 bytes } …
//! ```
//!
//! Version 1 is a sequence of groups. Each begins with an index of `1 << blocklog` bytes, always
//! 512, which has room for 63 addresses, and continues with `count` blocks of that length. A group
//! whose index is not full is the last. Version 2 is a sequence of extents, to the end of the file.
//! Its addresses name a device too. In both the first block is the primary superblock.

use xfskit_units::Daddr;

/// "XFSM".
pub const MAGIC_V1: u32 = 0x5846_534d;
/// "XMD2".
pub const MAGIC_V2: u32 = 0x584d_4432;

/// Bytes of an index before its addresses.
pub const INDEX_HEADER: usize = 8;
/// log2 of the block length that version 1 is written with.
pub const BLOCKLOG: u8 = 9;
/// The largest log2 of a block length that is read: XFS has no larger blocks.
pub const BLOCKLOG_MAX: u8 = 16;
/// Bytes of a sector, the unit of addresses.
pub const SECTOR: usize = 512;

/// Bytes of the header of version 2.
pub const HEADER_V2: usize = 24;
/// Bytes before the content of an extent of version 2.
pub const EXTENT_HEADER: usize = 12;
/// Bits of an address of version 2 below the number of the device.
pub const DEVICE_SHIFT: u32 = 54;

/// The version of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum FileFormat {
    /// Version 1, which every `xfs_mdrestore` reads.
    #[default]
    V1,
    /// Version 2, which xfsprogs 6.13 reads and 6.1 does not. It can hold an external journal.
    V2,
}

/// What the flags of a file say about its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Content {
    /// Names are obfuscated, and values of attributes zero.
    pub obfuscated: bool,
    /// Stale parts of blocks were copied.
    pub full_blocks: bool,
    /// The journal has changes that must be replayed.
    pub dirty_log: bool,
    /// Version 2: an external journal is in the file.
    pub external_log: bool,
    /// Version 2: superblocks of realtime groups are in the file.
    pub realtime: bool,
}

impl Content {
    /// Set in `info` of version 1 by programs that set the other bits.
    const V1_KNOWN: u8 = 1;

    /// Returns `info` of version 1.
    pub fn to_info(self) -> u8 {
        Self::V1_KNOWN
            | u8::from(self.obfuscated) << 1
            | u8::from(self.full_blocks) << 2
            | u8::from(self.dirty_log) << 3
    }

    /// Returns what `info` of version 1 says; `None` if it says nothing.
    pub fn from_info(info: u8) -> Option<Self> {
        let bit = |n: u8| info & (1 << n) != 0;
        let content =
            Self { obfuscated: bit(1), full_blocks: bit(2), dirty_log: bit(3), ..Self::default() };
        bit(0).then_some(content)
    }

    /// Returns `incompat` of version 2.
    pub fn to_incompat(self) -> u32 {
        u32::from(self.obfuscated)
            | u32::from(self.full_blocks) << 1
            | u32::from(self.dirty_log) << 2
            | u32::from(self.external_log) << 3
    }

    /// Returns `compat` of version 2.
    pub fn to_compat(self) -> u32 {
        u32::from(self.realtime)
    }

    /// Returns what `incompat` and `compat` of version 2 say. Unknown bits of `compat` are ignored.
    ///
    /// # Errors
    /// The bits of `incompat` that are not known.
    pub fn from_words(incompat: u32, compat: u32) -> Result<Self, u32> {
        let bit = |n: u32| incompat & (1 << n) != 0;
        let unknown = incompat & !0xf;
        if unknown != 0 {
            return Err(unknown);
        }
        Ok(Self {
            obfuscated: bit(0),
            full_blocks: bit(1),
            dirty_log: bit(2),
            external_log: bit(3),
            realtime: compat & 1 != 0,
        })
    }
}

/// The device that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The data device.
    Data,
    /// The device of an external journal.
    Log,
    /// The realtime device.
    Realtime,
}

impl Part {
    /// Returns the address of version 2 of sector `daddr`.
    pub fn address(self, daddr: Daddr) -> u64 {
        let device = match self {
            Self::Data => 0u64,
            Self::Log => 1,
            Self::Realtime => 2,
        };
        device << DEVICE_SHIFT | daddr.0
    }

    /// Returns device and sector of an address of version 2; `None` if there is no such device.
    pub fn of_address(address: u64) -> Option<(Self, Daddr)> {
        let part = match address >> DEVICE_SHIFT {
            0 => Self::Data,
            1 => Self::Log,
            2 => Self::Realtime,
            _ => return None,
        };
        Some((part, Daddr(address & ((1 << DEVICE_SHIFT) - 1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_that_xfs_metadump_writes() {
        let obfuscated = Content { obfuscated: true, ..Content::default() };
        let dirty = Content { dirty_log: true, ..obfuscated };
        assert_eq!((obfuscated.to_info(), dirty.to_info()), (3, 11));
        assert_eq!(Content { full_blocks: true, ..Content::default() }.to_info(), 5);
        assert_eq!(Content { external_log: true, ..obfuscated }.to_incompat(), 9);
        assert_eq!(Content::from_words(5, 0), Ok(dirty));
        assert_eq!(Content::from_words(5, 0x81), Ok(Content { realtime: true, ..dirty }));
        assert_eq!(Content::from_words(0x29, 0), Err(0x20));
        assert_eq!(Content::from_info(11), Some(dirty));
        assert_eq!(Content::from_info(0), None, "files of old programs say nothing");
    }

    #[test]
    fn addresses_carry_their_device() {
        assert_eq!(Part::Log.address(Daddr(0)), 1 << 54);
        assert_eq!(Part::of_address(1 << 54 | 8), Some((Part::Log, Daddr(8))));
        assert_eq!(Part::of_address(3 << 54), None);
    }
}
