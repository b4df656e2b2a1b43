//! Reverse mappings: the records and keys of the rmapbt.
//!
//! Every used block of a group has an owner here: an inode and a place in its forks, or one of the
//! special owners below. Records of shared file data may overlap; therefore nodes carry a high key
//! for each child beside the low one.

use xfskit_units::{AgBlock, ExtLen, Ino};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Owners of extents, as 64-bit numbers on disk.
pub mod owner {
    /// AG headers.
    pub const FS: u64 = (-3i64).cast_unsigned();
    /// The internal log.
    pub const LOG: u64 = (-4i64).cast_unsigned();
    /// Blocks of bnobt, cntbt, rmapbt and the AGFL.
    pub const AG: u64 = (-5i64).cast_unsigned();
    /// Blocks of inobt and finobt.
    pub const INOBT: u64 = (-6i64).cast_unsigned();
    /// Inode chunks.
    pub const INODES: u64 = (-7i64).cast_unsigned();
    /// Blocks of the refcountbt.
    pub const REFC: u64 = (-8i64).cast_unsigned();
    /// Staging extents of copy-on-write.
    pub const COW: u64 = (-9i64).cast_unsigned();
}

/// Bit 63 of `offset`: the extent belongs to the attribute fork.
pub const OFF_ATTR_FORK: u64 = 1 << 63;
/// Bit 62 of `offset`: the extent is a block of a fork's btree.
pub const OFF_BMBT_BLOCK: u64 = 1 << 62;
/// Bit 61 of `offset`: the extent is unwritten. Not part of keys.
pub const OFF_UNWRITTEN: u64 = 1 << 61;
/// The file position in `offset`, in filesystem blocks.
pub const OFF_MASK: u64 = (1 << 54) - 1;

/// A record, as it is on disk.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Rec {
    /// First block (agbno).
    pub startblock: U32,
    /// Length in blocks, at least 1.
    pub blockcount: U32,
    /// Inode number, or one of [`owner`].
    pub owner: U64,
    /// File position in blocks, with the flags in the top bits.
    pub offset: U64,
}

/// A key. Ordered by block, owner, offset without the unwritten flag.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Key {
    /// Block (agbno).
    pub startblock: U32,
    /// Owner.
    pub owner: U64,
    /// Position and flags, without the unwritten flag.
    pub offset: U64,
}

/// The key that a node stores for each child.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct KeyPair {
    /// Key of the first record below.
    pub low: Key,
    /// Largest end of any record below.
    pub high: Key,
}
const _: () = assert!(size_of::<Rec>() == 24 && size_of::<KeyPair>() == 40);

impl Key {
    /// Returns the tuple by which keys are compared. Old kernels left the unwritten flag in node
    /// keys; it is masked.
    pub fn sort_key(&self) -> (u32, u64, u64) {
        (self.startblock.get(), self.owner.get(), self.offset.get() & !OFF_UNWRITTEN)
    }
}

impl Rec {
    /// Returns the first block.
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
    /// Returns the inode that owns the extent; `None` for the special owners.
    pub fn inode(&self) -> Option<Ino> {
        let owner = self.owner.get();
        (owner >> 63 == 0).then_some(Ino(owner))
    }

    /// Returns the record's low key.
    pub fn low_key(&self) -> Key {
        Key {
            startblock: self.startblock,
            owner: self.owner,
            offset: (self.offset.get() & !OFF_UNWRITTEN).into(),
        }
    }

    /// Returns the record's high key: its last block, and for file data its last file position.
    pub fn high_key(&self) -> Key {
        let last = self.blockcount.get().saturating_sub(1);
        let mut offset = self.offset.get() & !OFF_UNWRITTEN;
        if self.inode().is_some() && offset & OFF_BMBT_BLOCK == 0 {
            let position = (offset & OFF_MASK).saturating_add(last.into()) & OFF_MASK;
            offset = (offset & !OFF_MASK) | position;
        }
        Key {
            startblock: self.startblock.get().saturating_add(last).into(),
            owner: self.owner,
            offset: offset.into(),
        }
    }
}
