//! Edits one node of an extent map: an array of *slots*, whatever kind of node it is.
//!
//! For an editor the three storages of a map are the same, a [`Node`]:
//!
//! ```text
//! fork in extents form   level 0, no head          | l0 l1 | l0 l1 | …
//! leaf block             level 0, head of a block  | l0 l1 | l0 l1 | …
//! root in a fork         level 1…, 4 bytes of head | key key … | ptr ptr …
//! node block             level 1…, head of a block | key key … | ptr ptr …
//! ```
//!
//! A slot is two numbers: both halves of a record, or a key and its pointer. A fork in extents form
//! is thus a tree whose root is its only leaf; it becomes a btree of the format when it grows a
//! level.

use xfskit_units::{Daddr, FileOff, FsBlock, Geometry, Ino};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U64};

use super::{
    Extent, Header, MAX_STARTOFF, NULLFSBLOCK, PTR_LEN, REC_LEN, ROOT_HEAD, Rec, SelfDescription,
    inline_records, maxrecs, root_maxrecs,
};
use crate::bytes;
use crate::image::Image;
use crate::layout::Layout;

/// Byte of `level` in a block; `numrecs` follows.
const BLOCK_LEVEL: usize = 4;
/// Byte of the siblings in a block.
const LEFTSIB: usize = 8;
const RIGHTSIB: usize = 16;

/// A record's two halves, or a key and its pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u64, pub u64);

impl Slot {
    /// Makes the slot of a leaf for this extent.
    pub fn of_extent(extent: &Extent) -> Self {
        let rec = extent.encode();
        Self(rec.l0.get(), rec.l1.get())
    }

    /// Makes the slot of a node whose child `block` begins with `key`.
    pub fn of_child(key: FileOff, block: FsBlock) -> Self {
        Self(key.0, block.0)
    }

    /// Decodes the slot of a leaf.
    pub fn extent(self) -> Extent {
        Rec { l0: self.0.into(), l1: self.1.into() }.decode()
    }

    /// Returns the block of a node's child.
    pub fn child(self) -> FsBlock {
        FsBlock(self.1)
    }
}

/// The layout of one node, and its number of slots. Valid until the node is changed by other means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// 0 for a leaf.
    pub level: u16,
    /// Slots in use.
    pub numrecs: usize,
    /// Most slots.
    pub maxrecs: usize,
    /// Byte of the first slot.
    body: usize,
    /// Byte of the field with their number; a fork in extents form has none.
    count_at: Option<usize>,
}

impl Node {
    /// Reads the layout of a block of the tree.
    pub fn of_block(block: &[u8], geo: &Geometry) -> Self {
        Self {
            level: bytes::be16(block, BLOCK_LEVEL).unwrap_or(0),
            numrecs: bytes::be16(block, BLOCK_LEVEL.saturating_add(2)).unwrap_or(0).into(),
            maxrecs: maxrecs(geo),
            body: Layout::of(geo).long_header,
            count_at: Some(BLOCK_LEVEL.saturating_add(2)),
        }
    }

    /// Makes the layout of a fork in extents form: `room` bytes from byte `at` of its inode, with
    /// `numrecs` extents.
    pub fn of_extents(at: usize, room: usize, numrecs: usize) -> Self {
        Self { level: 0, numrecs, maxrecs: inline_records(room), body: at, count_at: None }
    }

    /// Reads the layout of the root of a tree: `room` bytes from byte `at` of its `inode`.
    pub fn of_root(inode: &[u8], at: usize, room: usize) -> Self {
        let count_at = at.saturating_add(2);
        Self {
            level: bytes::be16(inode, at).unwrap_or(0),
            numrecs: bytes::be16(inode, count_at).unwrap_or(0).into(),
            maxrecs: root_maxrecs(room),
            body: at.saturating_add(ROOT_HEAD),
            count_at: Some(count_at),
        }
    }

    /// Lays out a root of `level` without children in the `room` bytes from byte `at` of an inode.
    pub fn make_root(inode: &mut impl Image, at: usize, room: usize, level: u16) -> Self {
        inode.zero(at..at.saturating_add(room));
        inode.put(at, &U16::new(level));
        Self::of_root(inode.bytes(), at, room)
    }

    /// Returns true if no further slot fits.
    pub fn is_full(&self) -> bool {
        self.numrecs >= self.maxrecs
    }

    /// Returns the offsets of the two halves of slot `index`.
    fn halves(&self, index: usize) -> (usize, usize) {
        if self.level == 0 {
            let first = self.body.saturating_add(index.saturating_mul(REC_LEN));
            return (first, first.saturating_add(PTR_LEN));
        }
        let key = self.body.saturating_add(index.saturating_mul(PTR_LEN));
        (key, key.saturating_add(self.maxrecs.saturating_mul(PTR_LEN)))
    }

    /// Returns slot `index`, if it is in use.
    pub fn slot(&self, image: &[u8], index: usize) -> Option<Slot> {
        let (first, second) = self.halves(index);
        let slot = Slot(bytes::be64(image, first)?, bytes::be64(image, second)?);
        (index < self.numrecs).then_some(slot)
    }

    /// Returns the slots `from..` in order.
    pub fn slots(&self, image: &[u8], from: usize) -> Vec<Slot> {
        (from..self.numrecs).map_while(|index| self.slot(image, index)).collect()
    }

    /// Returns the records of a node of level 0.
    pub fn recs<'a>(&self, image: &'a [u8]) -> &'a [Rec] {
        super::records(image.get(self.body..).unwrap_or(&[]), self.numrecs)
    }

    /// Returns the first file block below slot `index`, where it is in use.
    pub fn key(&self, image: &[u8], index: usize) -> Option<FileOff> {
        let Slot(first, _) = self.slot(image, index)?;
        Some(FileOff(if self.level == 0 { (first >> 9) & MAX_STARTOFF } else { first }))
    }

    /// Returns the first file block after the last slot: of a node, after that child's key.
    pub fn end(&self, image: &[u8]) -> Option<FileOff> {
        let last = self.numrecs.checked_sub(1)?;
        if self.level > 0 {
            return Some(self.key(image, last)?.saturating_add(1));
        }
        Some(self.slot(image, last)?.extent().end())
    }

    /// Returns the number of slots that begin at or before `fileoff`: the last of them is the one
    /// to search.
    pub fn upto(&self, image: &[u8], fileoff: FileOff) -> usize {
        let (mut low, mut high) = (0, self.numrecs);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(image, middle).is_some_and(|key| key <= fileoff) {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        low
    }

    /// Replaces slot `index`.
    pub fn put(&self, image: &mut impl Image, index: usize, slot: Slot) {
        let (first, second) = self.halves(index);
        image.put(first, &U64::new(slot.0));
        image.put(second, &U64::new(slot.1));
    }

    /// Changes the key of slot `index` of a node.
    pub fn put_key(&self, image: &mut impl Image, index: usize, key: FileOff) {
        image.put(self.halves(index).0, &U64::new(key.0));
    }

    /// Inserts `slots` before slot `index`. There must be space for them.
    pub fn insert(&mut self, image: &mut impl Image, index: usize, slots: &[Slot]) {
        self.shift(image, index, index.saturating_add(slots.len()));
        for (index, slot) in (index..).zip(slots) {
            self.put(image, index, *slot);
        }
        self.set_numrecs(image, self.numrecs.saturating_add(slots.len()));
    }

    /// Removes `count` slots from slot `index` on.
    pub fn remove(&mut self, image: &mut impl Image, index: usize, count: usize) {
        self.shift(image, index.saturating_add(count), index);
        self.set_numrecs(image, self.numrecs.saturating_sub(count));
    }

    /// Moves the slots `from..` so that the first of them becomes slot `to`.
    fn shift(&self, image: &mut impl Image, from: usize, to: usize) {
        let (first, second) = self.halves(from);
        let (to_first, to_second) = self.halves(to);
        let (end, end_second) = self.halves(self.numrecs);
        image.shift(first..end.max(first), to_first);
        if self.level > 0 {
            image.shift(second..end_second.max(second), to_second);
        }
    }

    fn set_numrecs(&mut self, image: &mut impl Image, numrecs: usize) {
        self.numrecs = numrecs;
        if let Some(at) = self.count_at {
            image.put(at, &U16::new(u16::try_from(numrecs).unwrap_or(u16::MAX)));
        }
    }
}

/// The identity of a block.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Own address.
    pub daddr: Daddr,
    /// The inode.
    pub owner: Ino,
    /// Left neighbour on its level.
    pub leftsib: Option<FsBlock>,
    /// Right neighbour on its level.
    pub rightsib: Option<FsBlock>,
}

/// Lays out an empty block of `level` over `block`, which is zeroed, on version 5.
pub fn make_block(block: &mut impl Image, geo: &Geometry, level: u16, id: &Identity) -> Node {
    let sibling = |sib: Option<FsBlock>| U64::new(sib.map_or(NULLFSBLOCK, |sib| sib.0));
    let head = Header {
        magic: Layout::V5.bmap_magic.into(),
        level: level.into(),
        numrecs: 0.into(),
        leftsib: sibling(id.leftsib),
        rightsib: sibling(id.rightsib),
    };
    let own = SelfDescription {
        bno: id.daddr.0.into(),
        lsn: 0.into(),
        uuid: *geo.meta_uuid.as_bytes(),
        owner: id.owner.0.into(),
        crc: [0; 4],
        pad: 0.into(),
    };
    block.put(0, &head);
    block.put(head.as_bytes().len(), &own);
    Node::of_block(block.bytes(), geo)
}

/// Returns the left and the right neighbour of a block.
pub fn siblings(block: &[u8]) -> (Option<FsBlock>, Option<FsBlock>) {
    let sibling = |at| bytes::be64(block, at).filter(|&sib| sib != NULLFSBLOCK).map(FsBlock);
    (sibling(LEFTSIB), sibling(RIGHTSIB))
}

/// Changes the left neighbour of a block.
pub fn set_leftsib(block: &mut impl Image, sib: Option<FsBlock>) {
    block.put(LEFTSIB, &U64::new(sib.map_or(NULLFSBLOCK, |sib| sib.0)));
}

/// Changes the right neighbour of a block.
pub fn set_rightsib(block: &mut impl Image, sib: Option<FsBlock>) {
    block.put(RIGHTSIB, &U64::new(sib.map_or(NULLFSBLOCK, |sib| sib.0)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmbt::{BmbtBlock, BmdrRoot};
    use crate::corruption::{Fork, Location};
    use crate::testing::geo_v5;
    use crate::{Ctx, bmbt};
    use xfskit_units::{FilBlks, Sectors};

    fn extent(startoff: u64) -> Extent {
        let (startoff, startblock) = (FileOff(startoff), FsBlock(1000 + startoff));
        Extent { startoff, startblock, blockcount: FilBlks(2), unwritten: startoff.0 % 3 == 0 }
    }

    fn keys(node: &Node, image: &[u8]) -> Vec<u64> {
        (0..node.numrecs).map(|index| node.key(image, index).unwrap().0).collect()
    }

    #[test]
    fn slots_are_inserted_found_and_taken_out_in_leaves_and_nodes() {
        let geo = geo_v5();
        for level in [0, 1] {
            let slot = |key: u64| match level {
                0 => Slot::of_extent(&extent(key)),
                _ => Slot::of_child(FileOff(key), FsBlock(1000 + key)),
            };
            let mut block = vec![0; 4096];
            let at = Location::of("bmbt block").ino(Ino(131)).daddr(Daddr(800), Sectors(8));
            let id = Identity { daddr: Daddr(800), owner: Ino(131), leftsib: None, rightsib: None };
            let mut node = make_block(&mut block, &geo, level, &id);
            for key in [40, 10, 30, 20] {
                let index = node.upto(&block, FileOff(key));
                node.insert(&mut block, index, &[slot(key)]);
            }
            assert_eq!(keys(&node, &block), [10, 20, 30, 40]);
            assert_eq!([9, 10, 39, 99].map(|key| node.upto(&block, FileOff(key))), [0, 1, 3, 4]);
            node.insert(&mut block, 2, &[slot(22), slot(24)]);
            node.remove(&mut block, 0, 1);
            assert_eq!(keys(&node, &block), [20, 22, 24, 30, 40]);
            assert_eq!(node.slots(&block, 3), [slot(30), slot(40)]);
            assert_eq!(node, Node::of_block(&block, &geo));
            xfskit_crc::update(&mut block, bmbt::CRC_OFFSET);
            let read = BmbtBlock::verify(&block, &Ctx::new(&geo, at), Fork::Data).unwrap();
            assert_eq!((read.level, read.numrecs, read.first()), (level, 5, Some(FileOff(20))));
        }
    }

    #[test]
    fn a_root_in_a_fork_reads_back() {
        let geo = geo_v5();
        let mut inode = vec![0xff; 512];
        let mut root = Node::make_root(&mut inode, 176, 192, 1);
        root.insert(&mut inode, 0, &[Slot(0, 100), Slot(50, 200)]);
        let ctx = Ctx::new(&geo, Location::of("inode"));
        let read = BmdrRoot::verify(&inode[176..368], &ctx, Fork::Data).unwrap();
        assert_eq!(
            (read.keys, read.ptrs),
            (&[0.into(), 50.into()][..], &[100.into(), 200.into()][..])
        );
        assert_eq!(inode[368], 0xff);
    }
}
