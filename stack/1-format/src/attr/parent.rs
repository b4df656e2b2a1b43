//! Parent pointers. Each directory entry that names an inode has an attribute of that inode: its
//! name is the entry's name, its value identifies the directory.

use xfskit_units::Ino;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The value of a parent pointer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Rec {
    /// The directory.
    pub p_ino: U64,
    /// Its generation.
    pub p_gen: U32,
}
const _: () = assert!(size_of::<Rec>() == 12);

impl Rec {
    /// Parses the pointer in `value`; `None` if it has another length.
    pub fn parse(value: &[u8]) -> Option<Self> {
        Self::read_from_bytes(value).ok()
    }

    /// Returns the directory.
    pub fn ino(&self) -> Ino {
        Ino(self.p_ino.get())
    }
}
