//! The newtypes of units. The same unit in a different address space is a different type.
//!
//! Arithmetic on numbers from a disk is checked: these types have no operators, only `checked_add`
//! and the like, so an overflow cannot pass unnoticed.

use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Returns the length in whole 512-byte units, rounded up.
    pub const fn sectors(self) -> Sectors {
        Sectors(self.0.div_ceil(BASIC_BLOCK))
    }
}

// The stack addresses bytes of devices and buffers alike with 64 bits.
const _: () = assert!(usize::BITS == 64, "xfskit needs a 64-bit target");

/// Returns a 64-bit count as an index. Lossless, because only 64-bit targets are built.
#[allow(clippy::cast_possible_truncation)] // asserted above
pub const fn index(n: u64) -> usize {
    n as usize
}
