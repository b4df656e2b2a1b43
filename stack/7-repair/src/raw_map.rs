//! The records of a damaged map, sound or not: all blocks of its btree that can be recognized.
//!
//! A block of the btree names its inode, its own place, the volume and its type: three of these
//! are enough. Pointers of the parents lead to it, or pointers of its neighbours; or nothing claims
//! it. So a damaged header, key, pointer or root hides no records.

use std::collections::BTreeMap;

use xfskit_format::bmbt::{self, Extent, inline_records, maxrecs, root_maxrecs};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Fork, Layout, bytes};
use xfskit_units::{FsBlock, Geometry, Ino};

use crate::error::Result;
use crate::view::View;

/// The records of a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawMap {
    /// In the order of the file.
    pub leaves: Vec<RawLeaf>,
    /// The blocks of its btree.
    pub btree: Vec<FsBlock>,
}

/// The records of one leaf, or those in the inode.
#[derive(Clone, Debug)]
pub(crate) struct RawLeaf {
    /// Where it begins, as its parent has it.
    pub key: Option<u64>,
    /// All that there is room for.
    pub slots: Vec<Extent>,
    /// How many of them are in use.
    pub count: usize,
}

impl RawLeaf {
    fn records(&self) -> &[Extent] {
        self.slots.get(..self.count).unwrap_or(&self.slots)
    }

    /// Returns a start by which leaves are ordered, even if one of the records is damaged: that in
    /// the middle of three.
    fn middle(&self) -> u64 {
        let start = |at: usize| self.slots.get(at).map_or(0, |extent| extent.startoff.0);
        let mut three = [self.count / 4, self.count / 2, self.count * 3 / 4].map(start);
        three.sort_unstable();
        three[1]
    }
}

impl RawMap {
    /// Returns all records.
    pub(crate) fn records(&self) -> Vec<Extent> {
        self.leaves.iter().flat_map(RawLeaf::records).copied().collect()
    }

    /// Returns the map with another number of records in one leaf.
    pub(crate) fn with_count(&self, leaf: usize, count: usize) -> Self {
        let mut other = self.clone();
        other.leaves.iter_mut().skip(leaf).take(1).for_each(|leaf| leaf.count = count);
        other
    }

    /// Returns the start that a parent has for the record of this number.
    pub(crate) fn key_of(&self, record: usize) -> Option<u64> {
        let mut first = 0;
        for leaf in &self.leaves {
            if first == record {
                return leaf.key;
            }
            first += leaf.records().len();
        }
        None
    }
}

/// Reads the records of a fork of inode `ino`, whose extents are in the inode or in a btree.
pub(crate) fn read(view: View<'_>, inode: &Dinode<'_>, ino: Ino, fork: Fork) -> Result<RawMap> {
    let room = inode.fork(fork).unwrap_or(&[]);
    match inode.fork_format(fork) {
        Some(Format::Extents) => {
            let slots = slots(room, inline_records(room.len()));
            let counted = usize::try_from(inode.fork_nextents(fork)).unwrap_or(usize::MAX);
            let count = counted.min(slots.len());
            let leaves = vec![RawLeaf { key: None, slots, count }];
            Ok(RawMap { leaves, btree: Vec::new() })
        }
        Some(Format::Btree) => {
            let reader = Reader { view, ino, leaves: BTreeMap::new() };
            reader.read(room, loose_blocks(view, inode, ino, fork))
        }
        _ => Ok(RawMap::default()),
    }
}

/// Returns the blocks of btrees that nothing claims and that name the inode: they do not tell the
/// fork, so there are none if the other fork may lack them, too.
fn loose_blocks(view: View<'_>, inode: &Dinode<'_>, ino: Ino, fork: Fork) -> Vec<FsBlock> {
    let other = if fork == Fork::Data { Fork::Attr } else { Fork::Data };
    let is_other_whole = view.map(inode, ino, other).whole;
    let is_clear = inode.fork_format(other) != Some(Format::Btree) || is_other_whole;
    let unclaimed = view.unclaimed.filter(|_| is_clear);
    unclaimed.map_or(Vec::new(), |unclaimed| unclaimed.maps_of(ino))
}

fn slots(area: &[u8], count: usize) -> Vec<Extent> {
    bmbt::records(area, count).iter().map(bmbt::Rec::decode).collect()
}

/// Reads a btree from its root on.
struct Reader<'r> {
    view: View<'r>,
    ino: Ino,
    /// The blocks that were found; nodes have no leaf.
    leaves: BTreeMap<FsBlock, Option<RawLeaf>>,
}

impl Reader<'_> {
    /// `loose`: blocks of the tree to which no pointer may lead.
    fn read(mut self, room: &[u8], loose: Vec<FsBlock>) -> Result<RawMap> {
        let max = root_maxrecs(room.len());
        let count = bytes::be16(room, 2).map_or(0, usize::from);
        let count = if (1..=max).contains(&count) { count } else { max };
        let mut keys = BTreeMap::new();
        let mut due = children(room, 4, max, count, &mut keys);
        due.extend(loose);
        // A block is entered once.
        while let Some(fsbno) = due.pop() {
            if self.leaves.contains_key(&fsbno) {
                continue;
            }
            let Some(block) = self.block(fsbno)? else { continue };
            due.extend([8, 16].iter().filter_map(|at| bytes::be64(&block, *at)).map(FsBlock));
            let leaf = self.leaf(&block);
            if leaf.is_none() {
                let (head, max) = (Layout::V5.long_header, maxrecs(self.view.geo));
                let count = bytes::be16(&block, 6).map_or(0, usize::from).min(max);
                due.extend(children(&block, head, max, count, &mut keys));
            }
            self.leaves.insert(fsbno, leaf);
        }
        let btree = self.leaves.keys().copied().collect();
        let with_key = |(fsbno, leaf): (FsBlock, Option<RawLeaf>)| {
            leaf.map(|leaf| RawLeaf { key: keys.get(&fsbno).copied(), ..leaf })
        };
        let mut leaves: Vec<_> = self.leaves.into_iter().filter_map(with_key).collect();
        leaves.sort_by_key(RawLeaf::middle);
        Ok(RawMap { leaves, btree })
    }

    /// Returns a block, if it is one of the tree's.
    fn block(&self, fsbno: FsBlock) -> Result<Option<Vec<u8>>> {
        let geo = self.view.geo;
        let Some(daddr) = geo.fsb_to_daddr(fsbno).filter(|_| geo.valid_fsbno(fsbno)) else {
            return Ok(None);
        };
        if self.view.is_free(fsbno) {
            return Ok(None);
        }
        let mut block = vec![0; geo.blocksize()];
        self.view.dev.read_at(daddr.byte_offset(), &mut block)?;
        let right = [
            bytes::be32(&block, 0) == Some(Layout::V5.bmap_magic),
            bytes::be64(&block, 24) == Some(daddr.0),
            bytes::array(&block, 40) == Some(*geo.meta_uuid.as_bytes()),
            bytes::be64(&block, 56) == Some(self.ino.0),
        ];
        let is_own = right.iter().filter(|right| **right).count() >= 3;
        Ok(Some(block).filter(|_| is_own))
    }

    /// Returns the records of a block; `None` if it is a node. Its level may be what is damaged:
    /// keys and pointers, taken for records, are no extents of the volume.
    fn leaf(&self, block: &[u8]) -> Option<RawLeaf> {
        let geo = self.view.geo;
        let slots = slots(block.get(Layout::V5.long_header..)?, maxrecs(geo));
        let counted = bytes::be16(block, 6).map_or(0, usize::from);
        let count = match counted {
            count if (1..=slots.len()).contains(&count) => count,
            _ => slots.iter().take_while(|extent| is_possible(geo, extent)).count(),
        };
        let possible = slots.iter().take(count).filter(|extent| is_possible(geo, extent)).count();
        (possible * 2 > count).then_some(RawLeaf { key: None, slots, count })
    }
}

/// Returns true if the volume has the blocks of an extent.
pub(crate) fn is_possible(geo: &Geometry, extent: &Extent) -> bool {
    geo.valid_fsb_extent(extent.startblock, extent.blockcount.0)
}

/// Returns the pointers of a node whose keys begin at byte `at`, with room for `max` children, and
/// notes the key of each.
fn children(
    node: &[u8],
    at: usize,
    max: usize,
    count: usize,
    keys: &mut BTreeMap<FsBlock, u64>,
) -> Vec<FsBlock> {
    let word = |index: usize| bytes::be64(node, at + 8 * index);
    let mut found = Vec::new();
    for index in 0..count {
        let (Some(key), Some(ptr)) = (word(index), word(max + index)) else { break };
        keys.insert(FsBlock(ptr), key);
        found.push(FsBlock(ptr));
    }
    found
}
