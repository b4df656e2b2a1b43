//! Shared extents: the records of the refcountbt.
//!
//! Bit 31 of the start block puts a record into the domain of copy-on-write staging extents, which
//! therefore sort after all shared ones. Blocks with a single owner have no record.

use xfskit_units::{AgBlock, ExtLen};
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bit 31 of `startblock`: a staging extent.
pub const COW_FLAG: u32 = 1 << 31;

/// A record, as it is on disk. A node's key is the first field alone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Rec {
    /// First block (agbno), with [`COW_FLAG`].
    pub startblock: U32,
    /// Length in blocks, at least 1.
    pub blockcount: U32,
    /// Number of mappings of the extent: at least 2 for shared extents, 1 for staging extents.
    pub refcount: U32,
}
const _: () = assert!(size_of::<Rec>() == 12);

impl Rec {
    /// Returns true for a staging extent of copy-on-write.
    pub fn is_cow(&self) -> bool {
        self.startblock.get() & COW_FLAG != 0
    }
    /// Returns the first block.
    pub fn start(&self) -> AgBlock {
        AgBlock(self.startblock.get() & !COW_FLAG)
    }
    /// Returns the length.
    pub fn len(&self) -> ExtLen {
        ExtLen(self.blockcount.get())
    }
    /// Returns true for the impossible record of no blocks.
    pub fn is_empty(&self) -> bool {
        self.blockcount.get() == 0
    }
}
