//! Builds a whole per-group btree.
//!
//! [`Shape`] computes the number of blocks. [`load`] makes them once each has a location.

use xfskit_format::agbtree::{CRC_OFFSET, Header, NULLAGBLOCK, SelfDescription, Tree};
use xfskit_format::{alloc, inobt, refcount, rmap};
use xfskit_units::{AgBlock, AgNumber, Geometry};
use zerocopy::big_endian::U32;
use zerocopy::{Immutable, IntoBytes};

use super::level::Level;

/// A record of one of the trees, and the key for it in a node.
pub trait Record: IntoBytes + Immutable + Sized {
    /// The key area of one child.
    type Key: IntoBytes + Immutable + Copy;
    /// Returns the key of a leaf with `records`; there is at least one.
    fn leaf_key(records: &[Self]) -> Self::Key;
    /// Returns the key of a node with `children`; there is at least one.
    fn node_key(children: &[Self::Key]) -> Self::Key {
        children[0]
    }
}

impl Record for alloc::Rec {
    type Key = Self;
    fn leaf_key(records: &[Self]) -> Self {
        records[0]
    }
}

impl Record for inobt::Rec {
    type Key = U32;
    fn leaf_key(records: &[Self]) -> U32 {
        records[0].startino
    }
}

impl Record for refcount::Rec {
    type Key = U32;
    fn leaf_key(records: &[Self]) -> U32 {
        records[0].startblock
    }
}

impl Record for rmap::Rec {
    type Key = rmap::KeyPair;
    fn leaf_key(records: &[Self]) -> rmap::KeyPair {
        let high = highest(records.iter().map(Self::high_key));
        rmap::KeyPair { low: records[0].low_key(), high: high.unwrap_or(records[0].high_key()) }
    }
    fn node_key(children: &[rmap::KeyPair]) -> rmap::KeyPair {
        let high = highest(children.iter().map(|child| child.high));
        rmap::KeyPair { low: children[0].low, high: high.unwrap_or(children[0].high) }
    }
}

fn highest(keys: impl Iterator<Item = rmap::Key>) -> Option<rmap::Key> {
    keys.max_by_key(rmap::Key::sort_key)
}

/// The number of blocks on each level of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    tree: Tree,
    /// Leaves first. The last level has one block, the root.
    levels: Vec<Level>,
}

impl Shape {
    /// Plans `tree` for `records` records.
    pub fn new(geo: &Geometry, tree: Tree, records: usize) -> Self {
        let mut levels = vec![Level::new(records, tree.maxrecs(geo, 0))];
        while let Some(last) = levels.last().filter(|level| level.blocks > 1) {
            levels.push(Level::new(last.blocks, tree.maxrecs(geo, 1)));
        }
        Self { tree, levels }
    }

    /// Returns the tree.
    pub fn tree(&self) -> Tree {
        self.tree
    }

    /// Returns the number of levels, 1 for a tree that is a single leaf.
    pub fn levels(&self) -> u32 {
        u32::try_from(self.levels.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of blocks, the root among them.
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.levels.iter().map(|level| level.blocks).sum::<usize>())
            .unwrap_or(u32::MAX)
    }

    /// Returns the index of the location of block `index` of `level`: the root has the first, the
    /// others follow from the leaves up.
    fn place(&self, level: usize, index: usize) -> usize {
        if level + 1 == self.levels.len() {
            return 0;
        }
        1 + self.levels[..level].iter().map(|level| level.blocks).sum::<usize>() + index
    }
}

/// Returns the finished blocks of a tree of `shape` over `records`, which are in the tree's order.
/// `places` has [`Shape::blocks`] of group `agno`, the root's first.
///
/// # Panics
/// If there are fewer records or places than the shape was made for.
pub fn load<R: Record>(
    geo: &Geometry,
    agno: AgNumber,
    shape: &Shape,
    records: &[R],
    places: &[AgBlock],
) -> Vec<(AgBlock, Vec<u8>)> {
    let mut blocks = Vec::with_capacity(places.len());
    let mut below: Vec<R::Key> = Vec::new();
    for (level, row) in shape.levels.iter().enumerate() {
        let at = |index: usize| places[shape.place(level, index)];
        let mut keys = Vec::with_capacity(row.blocks);
        for (index, range) in row.ranges().enumerate() {
            let sibling = |index: Option<usize>| {
                index.filter(|&index| index < row.blocks).map_or(NULLAGBLOCK, |index| at(index).0)
            };
            let mut block = vec![0; geo.blocksize()];
            let header = Header {
                magic: shape.tree.magic(geo).into(),
                level: u16::try_from(level).unwrap_or(u16::MAX).into(),
                numrecs: u16::try_from(range.len()).unwrap_or(u16::MAX).into(),
                leftsib: sibling(index.checked_sub(1)).into(),
                rightsib: sibling(Some(index + 1)).into(),
            };
            let own = SelfDescription {
                bno: geo.agb_to_daddr(agno, at(index)).0.into(),
                lsn: 0.into(),
                uuid: *geo.meta_uuid.as_bytes(),
                owner: agno.0.into(),
                crc: [0; 4],
            };
            let mut put = |offset: usize, bytes: &[u8]| {
                block[offset..offset + bytes.len()].copy_from_slice(bytes);
                offset + bytes.len()
            };
            let head = put(0, header.as_bytes());
            let body = put(head, own.as_bytes());
            if level == 0 {
                let records = &records[range];
                put(body, records.as_bytes());
                if !records.is_empty() {
                    keys.push(R::leaf_key(records));
                }
            } else {
                let children = &below[range.clone()];
                put(body, children.as_bytes());
                let ptrs: Vec<U32> =
                    range.map(|child| places[shape.place(level - 1, child)].0.into()).collect();
                let room = shape.tree.maxrecs(geo, 1) * shape.tree.key_len();
                put(body + room, ptrs.as_bytes());
                keys.push(R::node_key(children));
            }
            xfskit_crc::update(&mut block, CRC_OFFSET);
            blocks.push((at(index), block));
        }
        below = keys;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use xfskit_format::Ctx;
    use xfskit_format::agbtree::Block;
    use xfskit_units::{Ino, Lsn};

    use super::*;
    use xfskit_test_trees::geo;

    /// A block between its siblings.
    type Chained = (Option<AgBlock>, AgBlock, Option<AgBlock>);

    /// Verifies everything below `agbno`, left to right, with keys and siblings.
    fn walk<R: Record + zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Unaligned + Copy>(
        geo: &Geometry,
        tree: Tree,
        blocks: &HashMap<AgBlock, Vec<u8>>,
        agbno: AgBlock,
        levels: &mut [Vec<Chained>],
    ) -> (Vec<R>, R::Key)
    where
        R::Key: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Unaligned,
    {
        let ctx = Ctx::new(geo, tree.location(geo, AgNumber(1), agbno)).log_head(Some(Lsn(1)));
        let block = Block::verify(&blocks[&agbno], &ctx, tree, AgNumber(1)).unwrap();
        levels[usize::from(block.level)].push((block.leftsib, agbno, block.rightsib));
        if block.is_leaf() {
            let records = block.recs::<R>().to_vec();
            let key = R::leaf_key(&records);
            return (records, key);
        }
        let mut all = Vec::new();
        let mut keys = Vec::new();
        for (key, ptr) in block.keys::<R::Key>().iter().zip(block.ptrs()) {
            let (records, found) = walk::<R>(geo, tree, blocks, AgBlock(ptr.get()), levels);
            assert_eq!(found.as_bytes(), key.as_bytes());
            all.extend(records);
            keys.push(found);
        }
        (all, R::node_key(&keys))
    }

    fn round_trip<R>(geo: &Geometry, tree: Tree, records: &[R])
    where
        R: Record + zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Unaligned + Copy,
        R::Key: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Unaligned,
    {
        let shape = Shape::new(geo, tree, records.len());
        let places: Vec<_> = (0..shape.blocks()).map(|n| AgBlock(100 + 3 * n)).collect();
        let blocks: HashMap<_, _> =
            load(geo, AgNumber(1), &shape, records, &places).into_iter().collect();
        assert_eq!(blocks.len(), places.len());
        let mut levels = vec![Vec::new(); shape.levels() as usize];
        let (found, _) = walk::<R>(geo, tree, &blocks, places[0], &mut levels);
        assert_eq!(found.as_bytes(), records.as_bytes());
        for row in levels {
            assert!(row[0].0.is_none() && row[row.len() - 1].2.is_none());
            for pair in row.windows(2) {
                assert_eq!((pair[0].2, pair[1].0), (Some(pair[1].1), Some(pair[0].1)));
            }
        }
    }

    #[test]
    fn trees_of_every_height_read_back() {
        for blocklog in [10, 12] {
            let geo = geo(blocklog);
            for count in [1u32, 40, 41, 168, 169, 600, 5000, 20_000] {
                let rmaps: Vec<_> = (0..count)
                    .map(|n| rmap::Rec {
                        startblock: (n * 2).into(),
                        blockcount: if n % 7 == 0 { 9.into() } else { 1.into() },
                        owner: Ino(u64::from(1000 - n % 100)).0.into(),
                        offset: 0.into(),
                    })
                    .collect();
                round_trip(&geo, Tree::Rmap, &rmaps);
                let free: Vec<_> = (0..count)
                    .map(|n| alloc::Rec { startblock: (n * 2).into(), blockcount: 1.into() })
                    .collect();
                round_trip(&geo, Tree::Bno, &free);
            }
        }
    }

    #[test]
    fn an_empty_tree_is_an_empty_leaf() {
        let geo = geo(12);
        let shape = Shape::new(&geo, Tree::Refcount, 0);
        assert_eq!((shape.levels(), shape.blocks()), (1, 1));
        let blocks = load::<refcount::Rec>(&geo, AgNumber(0), &shape, &[], &[AgBlock(6)]);
        let ctx = Ctx::new(&geo, Tree::Refcount.location(&geo, AgNumber(0), AgBlock(6)));
        let block = Block::verify(&blocks[0].1, &ctx, Tree::Refcount, AgNumber(0)).unwrap();
        assert_eq!((block.level, block.numrecs), (0, 0));
    }
}
