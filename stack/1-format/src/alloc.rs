//! Free space: the records of bnobt and cntbt.
//!
//! Both trees hold the same extents, the first by block, the second by size and then block. Free
//! extents never touch: neighbours are always merged.

use xfskit_units::{AgBlock, ExtLen};
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A free extent. A node's key has the same layout.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Rec {
    /// First free block (agbno).
    pub startblock: U32,
    /// Length in blocks, at least 1.
    pub blockcount: U32,
}
const _: () = assert!(size_of::<Rec>() == 8);

impl Rec {
    /// Makes the record of this extent.
    pub fn new(start: AgBlock, len: ExtLen) -> Self {
        Self { startblock: start.0.into(), blockcount: len.0.into() }
    }
    /// Returns the first free block.
    pub fn start(&self) -> AgBlock {
        AgBlock(self.startblock.get())
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
