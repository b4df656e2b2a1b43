//! Edits one block of a btree of any kind, whose layout a [`Shape`] describes.
//!
//! ```text
//! short form   magic level numrecs leftsib rightsib (4 bytes each)   self-description   entries
//! long form    magic level numrecs leftsib rightsib (8 bytes each)   self-description   entries
//! in an inode        level numrecs                                                      entries
//! ```
//!
//! The entries of a leaf are records. Those of a node are keys and, after the space of the most
//! keys, pointers. Here they are counted, moved and compared as bytes, without their meaning.
//! Everything is version 5, the only version that is written.

use std::mem::offset_of;
use std::ops::Range;

use xfskit_units::{AgNumber, Daddr, Geometry, Ino};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::agbtree::{self, Tree};
use crate::bmbt;
use crate::bytes::{be16, be32, be64, slice};
use crate::image::Image;
use crate::layout::Layout;

/// "No sibling", in either form.
const NONE_32: u32 = agbtree::NULLAGBLOCK;
const NONE_64: u64 = bmbt::NULLFSBLOCK;

/// The layout of a block, or of the part of an inode that is a root. All offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The level, 2 bytes; the number of entries follows.
    level_at: usize,
    /// The left sibling; the right one follows. A root in an inode has none.
    siblings_at: Option<usize>,
    /// The first record or key.
    body: usize,
    /// Length of a record, or of a key.
    entry_len: usize,
    /// The first pointer; `None` in a leaf.
    ptrs_at: Option<usize>,
    /// Length of a pointer: 4 in short form, 8 in long form.
    ptr_len: usize,
    /// Most entries.
    max: usize,
}

impl Shape {
    /// Returns the shape of a block of a per-AG tree, on version 5.
    pub fn short(tree: Tree, geo: &Geometry, level: u16) -> Self {
        let body = Layout::V5.short_header;
        let max = tree.maxrecs(geo, level);
        let entry_len = if level == 0 { tree.rec_len() } else { tree.key_len() };
        Self {
            level_at: offset_of!(agbtree::Header, level),
            siblings_at: Some(offset_of!(agbtree::Header, leftsib)),
            body,
            entry_len,
            ptrs_at: (level > 0).then(|| body.saturating_add(max.saturating_mul(entry_len))),
            ptr_len: size_of::<U32>(),
            max,
        }
    }

    /// Returns the shape of a block of a fork's tree, on version 5.
    pub fn long(geo: &Geometry, level: u16) -> Self {
        let body = Layout::V5.long_header;
        let max = bmbt::maxrecs(geo);
        let entry_len = if level == 0 { bmbt::REC_LEN } else { size_of::<U64>() };
        Self {
            level_at: offset_of!(bmbt::Header, level),
            siblings_at: Some(offset_of!(bmbt::Header, leftsib)),
            body,
            entry_len,
            ptrs_at: (level > 0).then(|| body.saturating_add(max.saturating_mul(entry_len))),
            ptr_len: size_of::<U64>(),
            max,
        }
    }

    /// Returns the shape of the root of a fork's tree: the part `fork` of its inode.
    pub fn root_in_inode(fork: &Range<usize>) -> Self {
        let max = bmbt::root_maxrecs(fork.len());
        let body = fork.start.saturating_add(size_of::<[U16; 2]>());
        let entry_len = size_of::<U64>();
        Self {
            level_at: fork.start,
            siblings_at: None,
            body,
            entry_len,
            ptrs_at: Some(body.saturating_add(max.saturating_mul(entry_len))),
            ptr_len: size_of::<U64>(),
            max,
        }
    }

    /// Returns the most entries.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the fewest entries of a block that is not the root.
    pub fn min(&self) -> usize {
        self.max / 2
    }

    // ---- reading -----------------------------------------------------------------------------

    /// Returns the level: 0 for a leaf.
    pub fn level(&self, bytes: &[u8]) -> u16 {
        be16(bytes, self.level_at).unwrap_or(0)
    }

    /// Returns the number of entries, at most [`max`](Self::max).
    pub fn count(&self, bytes: &[u8]) -> usize {
        let found = be16(bytes, self.level_at.saturating_add(size_of::<U16>()));
        usize::from(found.unwrap_or(0)).min(self.max)
    }

    /// Returns the left neighbour.
    pub fn left(&self, bytes: &[u8]) -> Option<u64> {
        self.ptr_at(bytes, self.siblings_at?)
    }

    /// Returns the right neighbour.
    pub fn right(&self, bytes: &[u8]) -> Option<u64> {
        self.ptr_at(bytes, self.siblings_at?.saturating_add(self.ptr_len))
    }

    /// Returns record or key `index`. `T` must have its length.
    pub fn entry<T>(&self, bytes: &[u8], index: usize) -> Option<T>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned + Copy,
    {
        debug_assert_eq!(size_of::<T>(), self.entry_len);
        T::ref_from_bytes(slice(bytes, self.entry_at(index), self.entry_len)?).ok().copied()
    }

    /// Returns all records or keys.
    pub fn entries<'a, T>(&self, bytes: &'a [u8]) -> &'a [T]
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        debug_assert_eq!(size_of::<T>(), self.entry_len);
        let body = bytes.get(self.body..).unwrap_or(&[]);
        <[T]>::ref_from_prefix_with_elems(body, self.count(bytes)).map_or(&[], |(all, _)| all)
    }

    /// Returns pointer `index` of a node.
    pub fn ptr(&self, bytes: &[u8], index: usize) -> Option<u64> {
        self.ptr_at(bytes, self.ptr_place(index)?)
    }

    fn ptr_at(&self, bytes: &[u8], at: usize) -> Option<u64> {
        if self.ptr_len == size_of::<U32>() {
            be32(bytes, at).filter(|&ptr| ptr != NONE_32).map(u64::from)
        } else {
            be64(bytes, at).filter(|&ptr| ptr != NONE_64)
        }
    }

    // ---- changing ----------------------------------------------------------------------------

    /// Sets level and number of entries.
    pub fn set_level(&self, image: &mut impl Image, level: u16, count: usize) {
        image.put(self.level_at, &[U16::new(level), count_word(count)]);
    }

    fn set_count(&self, image: &mut impl Image, count: usize) {
        image.put(self.level_at.saturating_add(size_of::<U16>()), &count_word(count));
    }

    /// Sets the left neighbour.
    pub fn set_left(&self, image: &mut impl Image, block: Option<u64>) {
        if let Some(at) = self.siblings_at {
            self.put_ptr(image, at, block);
        }
    }

    /// Sets the right neighbour.
    pub fn set_right(&self, image: &mut impl Image, block: Option<u64>) {
        if let Some(at) = self.siblings_at {
            self.put_ptr(image, at.saturating_add(self.ptr_len), block);
        }
    }

    /// Replaces record or key `index`.
    pub fn set_entry(
        &self,
        image: &mut impl Image,
        index: usize,
        entry: &(impl IntoBytes + Immutable),
    ) {
        image.put(self.entry_at(index), entry);
    }

    /// Replaces pointer `index`.
    pub fn set_ptr(&self, image: &mut impl Image, index: usize, block: u64) {
        if let Some(at) = self.ptr_place(index) {
            self.put_ptr(image, at, Some(block));
        }
    }

    fn put_ptr(&self, image: &mut impl Image, at: usize, block: Option<u64>) {
        if self.ptr_len == size_of::<U32>() {
            let short = block.and_then(|block| u32::try_from(block).ok());
            image.put(at, &U32::new(short.unwrap_or(NONE_32)));
        } else {
            image.put(at, &U64::new(block.unwrap_or(NONE_64)));
        }
    }

    /// Opens a gap for `more` entries at `index`, whose content is undefined until they are set.
    /// There must be space for them.
    pub fn open(&self, image: &mut impl Image, index: usize, more: usize) {
        let count = self.count(image.bytes());
        let to = index.saturating_add(more);
        self.shift(image, index..count, to);
        self.set_count(image, count.saturating_add(more));
    }

    /// Removes `gone` entries from `index` on.
    pub fn close(&self, image: &mut impl Image, index: usize, gone: usize) {
        let count = self.count(image.bytes());
        self.shift(image, index.saturating_add(gone)..count, index);
        self.set_count(image, count.saturating_sub(gone));
    }

    /// Moves some entries within the block.
    fn shift(&self, image: &mut impl Image, from: Range<usize>, to: usize) {
        image.shift(self.entries_at(&from), self.entry_at(to));
        if let (Some(ptrs), Some(to)) = (self.ptrs_of(&from), self.ptr_place(to)) {
            image.shift(ptrs, to);
        }
    }

    /// Copies the entries `from` of another block, of shape `other`, over those from `index` on.
    /// Their gap was [opened](Self::open) before.
    pub fn copy(
        &self,
        image: &mut impl Image,
        index: usize,
        other: &Self,
        bytes: &[u8],
        from: &Range<usize>,
    ) {
        if let Some(entries) = bytes.get(other.entries_at(from)) {
            image.put(self.entry_at(index), entries);
        }
        let ptrs = other.ptrs_of(from).and_then(|range| bytes.get(range));
        if let (Some(ptrs), Some(at)) = (ptrs, self.ptr_place(index)) {
            image.put(at, ptrs);
        }
    }

    fn entry_at(&self, index: usize) -> usize {
        self.body.saturating_add(index.saturating_mul(self.entry_len))
    }

    fn entries_at(&self, range: &Range<usize>) -> Range<usize> {
        self.entry_at(range.start)..self.entry_at(range.end)
    }

    fn ptr_place(&self, index: usize) -> Option<usize> {
        Some(self.ptrs_at?.saturating_add(index.saturating_mul(self.ptr_len)))
    }

    fn ptrs_of(&self, range: &Range<usize>) -> Option<Range<usize>> {
        Some(self.ptr_place(range.start)?..self.ptr_place(range.end)?)
    }
}

fn count_word(count: usize) -> U16 {
    U16::new(u16::try_from(count).unwrap_or(u16::MAX))
}

/// Writes the header of a new block of a per-AG tree: empty, without siblings; LSN and CRC are 0.
pub fn init_short(
    image: &mut impl Image,
    geo: &Geometry,
    tree: Tree,
    level: u16,
    agno: AgNumber,
    daddr: Daddr,
) {
    let head = agbtree::Header {
        magic: tree.magic(geo).into(),
        level: level.into(),
        numrecs: U16::ZERO,
        leftsib: NONE_32.into(),
        rightsib: NONE_32.into(),
    };
    let own = agbtree::SelfDescription {
        bno: daddr.0.into(),
        lsn: U64::ZERO,
        uuid: *geo.meta_uuid.as_bytes(),
        owner: agno.0.into(),
        crc: [0; 4],
    };
    image.put(0, &head);
    image.put(size_of::<agbtree::Header>(), &own);
}

/// Writes the header of a new block of the tree of a fork of `ino`: empty, without siblings; LSN
/// and CRC are 0.
pub fn init_long(image: &mut impl Image, geo: &Geometry, level: u16, ino: Ino, daddr: Daddr) {
    let head = bmbt::Header {
        magic: Layout::V5.bmap_magic.into(),
        level: level.into(),
        numrecs: U16::ZERO,
        leftsib: NONE_64.into(),
        rightsib: NONE_64.into(),
    };
    let own = bmbt::SelfDescription {
        bno: daddr.0.into(),
        lsn: U64::ZERO,
        uuid: *geo.meta_uuid.as_bytes(),
        owner: ino.0.into(),
        crc: [0; 4],
        pad: U32::ZERO,
    };
    image.put(0, &head);
    image.put(size_of::<bmbt::Header>(), &own);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::Rec;
    use crate::ctx::Ctx;
    use crate::testing::geo_v5_1k;
    use xfskit_units::{AgBlock, ExtLen};

    fn rec(n: u32) -> Rec {
        Rec::new(AgBlock(n), ExtLen(n))
    }

    fn new_block(geo: &Geometry, level: u16, agbno: u32) -> Vec<u8> {
        let mut block = vec![0; geo.blocksize()];
        let daddr = geo.agb_to_daddr(AgNumber(0), AgBlock(agbno));
        init_short(&mut block, geo, Tree::Bno, level, AgNumber(0), daddr);
        block
    }

    #[test]
    fn a_new_block_passes_its_verifier() {
        let geo = geo_v5_1k();
        let block = new_block(&geo, 1, 40);
        let at = Tree::Bno.location(&geo, AgNumber(0), AgBlock(40));
        let ctx = Ctx::new(&geo, at).crc_known();
        let read = agbtree::Block::verify(&block, &ctx, Tree::Bno, AgNumber(0)).unwrap();
        assert_eq!((read.level, read.numrecs, read.leftsib, read.rightsib), (1, 0, None, None));
    }

    #[test]
    fn entries_open_close_and_move_with_their_pointers() {
        let geo = geo_v5_1k();
        let shape = Shape::short(Tree::Bno, &geo, 1);
        let mut block = new_block(&geo, 1, 40);
        for n in 0..10 {
            shape.open(&mut block, 0, 1);
            shape.set_entry(&mut block, 0, &rec(100 - n));
            shape.set_ptr(&mut block, 0, u64::from(n));
        }
        shape.close(&mut block, 2, 3);
        let all = |block: &[u8]| -> Vec<(u32, u64)> {
            let keys = shape.entries::<Rec>(block).iter().map(|key| key.start().0);
            keys.enumerate().map(|(i, key)| (key, shape.ptr(block, i).unwrap())).collect()
        };
        let left = [(91, 9), (92, 8), (96, 4), (97, 3), (98, 2), (99, 1), (100, 0)];
        assert_eq!(all(&block), left);

        let mut other = new_block(&geo, 1, 41);
        shape.open(&mut other, 0, 3);
        shape.copy(&mut other, 0, &shape, &block, &(4..7));
        assert_eq!(all(&other), left[4..]);
        shape.set_left(&mut other, Some(40));
        assert_eq!((shape.left(&other), shape.right(&other)), (Some(40), None));
    }

    #[test]
    fn a_full_block_is_filled_to_its_end() {
        let geo = geo_v5_1k();
        for level in [0, 1] {
            let shape = Shape::short(Tree::Rmap, &geo, level);
            let end = shape.ptr_place(shape.max).unwrap_or(shape.entry_at(shape.max));
            let spare = geo.blocksize() - end;
            assert!(spare < 44, "{spare} bytes left over on level {level}");
        }
        let root = Shape::root_in_inode(&(176..512));
        assert_eq!((root.max(), root.ptr_place(root.max)), (20, Some(180 + 2 * 20 * 8)));
    }
}
