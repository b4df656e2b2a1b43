//! The newtypes of units. The same unit in a different address space is a different type.
//!
//! Arithmetic on numbers from a disk is checked: these types have no operators, only `checked_add`
//! and the like, so an overflow cannot pass unnoticed. Positions and their lengths also have plain
//! arithmetic, [`ByteOffset::plus`] and its kin, for numbers that were checked before. It costs
//! what integers cost, and debug builds panic on overflow.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Defines one unit: a transparent newtype over an integer.
macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl $name {
            /// Zero of this unit.
            pub const ZERO: Self = Self(0);

            /// Returns the bare number.
            pub const fn get(self) -> $int {
                self.0
            }

            /// Returns this number plus `n` of the same unit; `None` on overflow.
            pub const fn checked_add(self, n: $int) -> Option<Self> {
                match self.0.checked_add(n) {
                    Some(v) => Some(Self(v)),
                    None => None,
                }
            }

            /// Returns this number less `n` of the same unit; `None` below zero.
            pub const fn checked_sub(self, n: $int) -> Option<Self> {
                match self.0.checked_sub(n) {
                    Some(v) => Some(Self(v)),
                    None => None,
                }
            }

            /// Returns this number plus `n`, or the largest number of the type.
            pub const fn saturating_add(self, n: $int) -> Self {
                Self(self.0.saturating_add(n))
            }

            /// Returns the distance from `start` to `self`; `None` if `self` lies before `start`.
            pub const fn since(self, start: Self) -> Option<$int> {
                self.0.checked_sub(start.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl From<$name> for $int {
            fn from(v: $name) -> $int {
                v.0
            }
        }
    };
}

unit! {
    /// An offset in bytes, on a device or in a file, as its use documents.
    ByteOffset(u64)
}
unit! {
    /// A length in bytes.
    ByteLen(u64)
}
unit! {
    /// An address in units of 512 bytes from the start of a device, whatever its sector size.
    Daddr(u64)
}
unit! {
    /// A count of 512-byte units.
    Sectors(u64)
}
unit! {
    /// The number of an allocation group, from 0.
    AgNumber(u32)
}
unit! {
    /// A filesystem block within one allocation group, from the group's start.
    AgBlock(u32)
}
unit! {
    /// A length in filesystem blocks within one allocation group.
    ExtLen(u32)
}
unit! {
    /// A filesystem block with the group number in the high bits (`xfs_fsblock_t`). Values have
    /// gaps between groups: this is an address, never a count.
    FsBlock(u64)
}
unit! {
    /// A filesystem block of the data device in one gapless sequence, or a count of such blocks.
    RfsBlock(u64)
}
unit! {
    /// A position within one file, in filesystem blocks.
    FileOff(u64)
}
unit! {
    /// A length within one file, in filesystem blocks.
    FilBlks(u64)
}
unit! {
    /// An inode number: group in the high bits, then block, then slot.
    Ino(u64)
}
unit! {
    /// An inode number within its allocation group.
    AgIno(u32)
}
unit! {
    /// A block in the address space of a directory or attribute fork, in filesystem blocks.
    DaBlock(u32)
}
unit! {
    /// A 512-byte block within the journal, from its start.
    LogBlock(u32)
}
unit! {
    /// An address in units of 512 bytes from the start of an md array.
    ArraySector(u64)
}
unit! {
    /// An address in units of 512 bytes on one member of an md array, from the member's
    /// `data_offset`.
    MemberSector(u64)
}

unit! {
    /// A byte of one member of an md array, from the member's `data_offset`.
    MemberByte(u64)
}
unit! {
    /// A byte of one stripe's data, chunk by chunk, from the stripe's start.
    StripeByte(u64)
}
unit! {
    /// A byte of a chunk, from the chunk's start. All chunks of a stripe have the same columns.
    Column(u64)
}
unit! {
    /// An address in units of 512 bytes in the data area of an md array's journal device.
    JournalSector(u64)
}
unit! {
    /// An address in units of 512 bytes in the space that a resync and the write-intent bitmap
    /// cover: a member's data, or on RAID10 the array's.
    SyncSector(u64)
}

/// Defines plain arithmetic of a length.
macro_rules! length {
    ($($name:ident)*) => { $(impl $name {
        /// Returns true for no length.
        #[inline]
        pub const fn is_zero(self) -> bool {
            self.0 == 0
        }

        /// Returns the sum. The caller knows that it exists.
        #[inline]
        pub const fn plus(self, more: Self) -> Self {
            Self(self.0 + more.0)
        }

        /// Returns the difference. `less` is not larger than `self`.
        #[inline]
        pub const fn minus(self, less: Self) -> Self {
            Self(self.0 - less.0)
        }

        /// Returns `n` times this length. The caller knows that it exists.
        #[inline]
        pub const fn times(self, n: u64) -> Self {
            Self(self.0 * n)
        }

        /// Returns the sum, or the longest length.
        #[inline]
        pub const fn saturating_plus(self, more: Self) -> Self {
            Self(self.0.saturating_add(more.0))
        }

        /// Returns the difference, or zero.
        #[inline]
        pub const fn saturating_minus(self, less: Self) -> Self {
            Self(self.0.saturating_sub(less.0))
        }

        /// Returns `n` times this length, or the longest length.
        #[inline]
        pub const fn saturating_times(self, n: u64) -> Self {
            Self(self.0.saturating_mul(n))
        }

        /// Returns how many whole `unit`s, not zero, this length has.
        #[inline]
        pub const fn whole(self, unit: Self) -> u64 {
            self.0 / unit.0
        }

        /// Returns how many `unit`s, not zero, this length touches.
        #[inline]
        pub const fn div_ceil(self, unit: Self) -> u64 {
            self.0.div_ceil(unit.0)
        }
    })* };
}

length! { ByteLen Sectors FilBlks }

/// A half-open range of positions in one space.
pub trait PositionRange {
    /// The type of a length in the same unit.
    type Length;

    /// Returns the length; zero for an empty range.
    fn length(&self) -> Self::Length;

    /// Returns true if some position is in both ranges, neither of which is empty.
    fn overlaps(&self, other: &Self) -> bool;

    /// Returns the positions that are in both ranges; an empty range if there is none.
    #[must_use]
    fn intersection(&self, other: &Self) -> Self;
}

/// Defines plain arithmetic of a position, with lengths in the same unit.
macro_rules! position {
    ($($name:ident: $len:ident),* $(,)?) => { $(
        impl $name {
            /// The largest number of the type: behind every position.
            pub const MAX: Self = Self(u64::MAX);

            /// Returns the position `len` further on. The caller knows that it exists.
            #[inline]
            pub const fn plus(self, len: $len) -> Self {
                Self(self.0 + len.0)
            }

            /// Returns the position `len` before, which is not before the start.
            #[inline]
            pub const fn minus(self, len: $len) -> Self {
                Self(self.0 - len.0)
            }

            /// Returns the position `len` further on; `None` on overflow.
            #[inline]
            pub const fn checked_plus(self, len: $len) -> Option<Self> {
                self.checked_add(len.0)
            }

            /// Returns the position `len` further on, or the largest number of the type.
            #[inline]
            pub const fn saturating_plus(self, len: $len) -> Self {
                Self(self.0.saturating_add(len.0))
            }

            /// Returns the distance from `start`, which is not behind `self`.
            #[inline]
            pub const fn distance_from(self, start: Self) -> $len {
                $len(self.0 - start.0)
            }

            /// Returns the distance from `start`, or zero if `self` lies before it.
            #[inline]
            pub const fn saturating_distance_from(self, start: Self) -> $len {
                $len(self.0.saturating_sub(start.0))
            }

            /// Returns the number of the `unit` that holds this position. `unit` is not zero.
            #[inline]
            pub const fn whole(self, unit: $len) -> u64 {
                self.0 / unit.0
            }

            /// Returns how many `unit`s, not zero, begin before this position.
            #[inline]
            pub const fn div_ceil(self, unit: $len) -> u64 {
                self.0.div_ceil(unit.0)
            }

            /// Returns the distance from the start of the `unit`, not zero, that holds this
            /// position.
            #[inline]
            pub const fn within(self, unit: $len) -> $len {
                $len(self.0 % unit.0)
            }

            /// Returns the start of the `unit`, not zero, that holds this position.
            #[inline]
            pub const fn round_down(self, unit: $len) -> Self {
                Self(self.0 - self.0 % unit.0)
            }

            /// Returns the first multiple of `unit`, not zero, from this position on. The caller
            /// knows that it exists.
            #[inline]
            pub const fn round_up(self, unit: $len) -> Self {
                Self(self.0.next_multiple_of(unit.0))
            }

            /// Returns the range of `len` from this position on. The caller knows that its end
            /// exists.
            #[inline]
            pub const fn range(self, len: $len) -> Range<Self> {
                self..self.plus(len)
            }
        }

        impl PositionRange for Range<$name> {
            type Length = $len;

            #[inline]
            fn length(&self) -> $len {
                self.end.saturating_distance_from(self.start)
            }

            #[inline]
            fn overlaps(&self, other: &Self) -> bool {
                self.start < other.end && other.start < self.end
            }

            #[inline]
            fn intersection(&self, other: &Self) -> Self {
                let start = self.start.max(other.start);
                start..self.end.min(other.end).max(start)
            }
        }
    )* };
}

position! {
    ByteOffset: ByteLen,
    Daddr: Sectors,
    FileOff: FilBlks,
    ArraySector: Sectors,
    MemberSector: Sectors,
    JournalSector: Sectors,
    SyncSector: Sectors,
    MemberByte: ByteLen,
    StripeByte: ByteLen,
    Column: ByteLen,
}

/// Size of the basic block in which [`Daddr`], [`Sectors`] and [`LogBlock`] count, in bytes.
pub const BASIC_BLOCK: u64 = 512;

impl Daddr {
    /// Returns the byte offset of this address on the device; saturates at the end of the address
    /// space.
    pub const fn byte_offset(self) -> ByteOffset {
        ByteOffset(self.0.saturating_mul(BASIC_BLOCK))
    }
}

impl Sectors {
    /// Returns this many 512-byte units in bytes; saturates.
    pub const fn byte_len(self) -> ByteLen {
        ByteLen(self.0.saturating_mul(BASIC_BLOCK))
    }
}

impl ByteLen {
    /// Returns the length of `bytes`.
    #[inline]
    pub const fn of(bytes: &[u8]) -> Self {
        Self(bytes.len() as u64)
    }

    /// Returns the length as that of a buffer. Lossless, because only 64-bit targets are built.
    #[inline]
    pub const fn index(self) -> usize {
        index(self.0)
    }

    /// Returns the length in whole 512-byte units, rounded down.
    pub const fn whole_sectors(self) -> Sectors {
        Sectors(self.0 / BASIC_BLOCK)
    }

    /// Returns the length in whole 512-byte units, rounded up.
    pub const fn sectors(self) -> Sectors {
        Sectors(self.0.div_ceil(BASIC_BLOCK))
    }
}

impl MemberSector {
    /// Returns the first byte of this sector; saturates.
    #[inline]
    pub const fn byte(self) -> MemberByte {
        MemberByte(self.0.saturating_mul(BASIC_BLOCK))
    }
}

impl MemberByte {
    /// Returns the sector that holds this byte.
    #[inline]
    pub const fn sector_floor(self) -> MemberSector {
        MemberSector(self.0 / BASIC_BLOCK)
    }

    /// Returns the first sector that begins at this byte or behind it.
    #[inline]
    pub const fn sector_ceil(self) -> MemberSector {
        MemberSector(self.0.div_ceil(BASIC_BLOCK))
    }
}

impl ArraySector {
    /// Returns the sector that holds byte `offset` of the array as a device.
    #[inline]
    pub const fn of_byte(offset: ByteOffset) -> Self {
        Self(offset.0 / BASIC_BLOCK)
    }

    /// Returns the offset of this sector on the array as a device; saturates.
    #[inline]
    pub const fn byte_offset(self) -> ByteOffset {
        ByteOffset(self.0.saturating_mul(BASIC_BLOCK))
    }
}

// The stack addresses bytes of devices and buffers alike with 64 bits.
const _: () = assert!(usize::BITS == 64, "xfskit needs a 64-bit target");

/// Returns a 64-bit count as an index. Lossless, because only 64-bit targets are built.
#[allow(clippy::cast_possible_truncation)] // asserted above
pub const fn index(n: u64) -> usize {
    n as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_lengths_are_measured_in_units() {
        let (at, chunk) = (ByteOffset(70), ByteLen(32));
        assert_eq!((at.whole(chunk), at.within(chunk), at.div_ceil(chunk)), (2, ByteLen(6), 3));
        assert_eq!((at.round_down(chunk), at.round_up(chunk)), (ByteOffset(64), ByteOffset(96)));
        assert_eq!(ByteOffset::MAX.checked_plus(ByteLen(1)), None);
        assert_eq!(ByteOffset::MAX.saturating_plus(chunk), ByteOffset::MAX);
        assert_eq!(ByteOffset(3).saturating_distance_from(at), ByteLen(0));
        assert_eq!((chunk.whole(ByteLen(5)), chunk.div_ceil(ByteLen(5))), (6, 7));
    }

    #[test]
    fn ranges_overlap_only_where_both_have_a_position() {
        let range = |start: u64, end: u64| FileOff(start)..FileOff(end);
        assert_eq!(range(3, 9).length(), FilBlks(6));
        assert_eq!(Range { start: FileOff(9), end: FileOff(3) }.length(), FilBlks(0));
        assert!(range(3, 9).overlaps(&range(8, 20)) && !range(3, 9).overlaps(&range(9, 20)));
        assert_eq!(range(3, 9).intersection(&range(5, 20)), range(5, 9));
        assert!(range(3, 9).intersection(&range(12, 20)).is_empty());
    }

    #[test]
    fn member_bytes_and_sectors_convert_in_a_named_direction() {
        assert_eq!(MemberSector(3).byte(), MemberByte(1536));
        assert_eq!(MemberSector(u64::MAX).byte(), MemberByte::MAX);
        assert_eq!(MemberByte(1537).sector_floor(), MemberSector(3));
        assert_eq!(MemberByte(1537).sector_ceil(), MemberSector(4));
    }
}
