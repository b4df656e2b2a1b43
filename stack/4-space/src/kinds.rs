//! The records and keys of the six btrees of a group.

use xfskit_format::{alloc, inobt, refcount, rmap};
use zerocopy::big_endian::U32;

use crate::btree::RecordOps;

/// Free space by block.
#[derive(Clone, Copy, Debug)]
pub struct ByBlock;

impl RecordOps for ByBlock {
    type Rec = alloc::Rec;
    type Key = alloc::Rec;
    type Pos = u32;

    fn rec_pos(rec: &alloc::Rec) -> u32 {
        rec.startblock.get()
    }
    fn key_pos(key: &alloc::Rec) -> u32 {
        key.startblock.get()
    }
    fn key(rec: &alloc::Rec) -> alloc::Rec {
        *rec
    }
}

/// Free space by size, then block.
#[derive(Clone, Copy, Debug)]
pub struct BySize;

impl RecordOps for BySize {
    type Rec = alloc::Rec;
    type Key = alloc::Rec;
    type Pos = (u32, u32);

    fn rec_pos(rec: &alloc::Rec) -> (u32, u32) {
        (rec.blockcount.get(), rec.startblock.get())
    }
    fn key_pos(key: &alloc::Rec) -> (u32, u32) {
        Self::rec_pos(key)
    }
    fn key(rec: &alloc::Rec) -> alloc::Rec {
        *rec
    }
}

/// Inode chunks, by first inode: all of them, or (`FREE`) those with free inodes.
#[derive(Clone, Copy, Debug)]
pub struct Chunks<const FREE: bool>;

impl<const FREE: bool> RecordOps for Chunks<FREE> {
    type Rec = inobt::Rec;
    type Key = U32;
    type Pos = u32;

    fn rec_pos(rec: &inobt::Rec) -> u32 {
        rec.startino.get()
    }
    fn key_pos(key: &U32) -> u32 {
        key.get()
    }
    fn key(rec: &inobt::Rec) -> U32 {
        rec.startino
    }
}

/// Reverse mappings, which may overlap.
#[derive(Clone, Copy, Debug)]
pub struct Mappings;

impl RecordOps for Mappings {
    type Rec = rmap::Rec;
    type Key = rmap::KeyPair;
    type Pos = (u32, u64, u64);
    const OVERLAPS: bool = true;

    fn rec_pos(rec: &rmap::Rec) -> Self::Pos {
        rec.low_key().sort_key()
    }
    fn key_pos(key: &rmap::KeyPair) -> Self::Pos {
        key.low.sort_key()
    }
    fn key(rec: &rmap::Rec) -> rmap::KeyPair {
        rmap::KeyPair { low: rec.low_key(), high: rec.high_key() }
    }
    fn span(first: rmap::KeyPair, more: &rmap::KeyPair) -> rmap::KeyPair {
        let later = more.high.sort_key() > first.high.sort_key();
        rmap::KeyPair { low: first.low, high: if later { more.high } else { first.high } }
    }
    fn rec_end(rec: &rmap::Rec) -> Self::Pos {
        rec.high_key().sort_key()
    }
    fn key_end(key: &rmap::KeyPair) -> Self::Pos {
        key.high.sort_key()
    }
}

/// Shared extents, and behind them (bit 31 of the block number) staging extents.
#[derive(Clone, Copy, Debug)]
pub struct Refcounts;

impl RecordOps for Refcounts {
    type Rec = refcount::Rec;
    type Key = U32;
    type Pos = u32;

    fn rec_pos(rec: &refcount::Rec) -> u32 {
        rec.startblock.get()
    }
    fn key_pos(key: &U32) -> u32 {
        key.get()
    }
    fn key(rec: &refcount::Rec) -> U32 {
        rec.startblock
    }
}
