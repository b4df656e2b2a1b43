//! A checker for attribute trees in memory, for tests.

use std::collections::{HashMap, HashSet};

use xfskit_format::Image;
use xfskit_format::attr::leaf::{Attr, AttrValue, Leaf};
use xfskit_format::attr::leaf_edit;
use xfskit_format::da::{self, Node};
use xfskit_format::{Ctx, Fork, Layout, Location, da_edit};
use xfskit_units::{DaBlock, Daddr, Features, FileOff, Geometry, Ino, example};

use crate::da::tree::DaBlocks;
use crate::error::Result;

/// A volume with parent pointers and blocks of `1 << blocklog` bytes.
pub(crate) fn geo(blocklog: u8) -> Geometry {
    let example = example::geometry();
    let features = Features { incompat: 0xeb, ..example.features };
    Geometry { features, blocklog, inopblog: blocklog - 9, ..example }
}

/// The inode whose fork tests build.
pub(crate) const INO: Ino = Ino(133);

/// Returns the address of block `dablk` in tests.
pub(crate) fn home(dablk: DaBlock) -> Daddr {
    Daddr(1000 + 8 * u64::from(dablk.0))
}

/// Flags, name, and local value, or block and length of a remote one.
pub(crate) type FoundAttr = (u8, Vec<u8>, std::result::Result<Vec<u8>, (DaBlock, u32)>);

/// A fork in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) blocks: HashMap<DaBlock, Vec<u8>>,
    len: usize,
    free: Vec<DaBlock>,
    /// Blocks that were accessed since the last check.
    pub(crate) touched: HashSet<DaBlock>,
}

impl Memory {
    /// A fork with one block, `root`.
    pub(crate) fn new(at: DaBlock, root: Vec<u8>) -> Self {
        let len = root.len();
        Self { blocks: HashMap::from([(at, root)]), len, free: Vec::new(), touched: HashSet::new() }
    }
}

impl DaBlocks for Memory {
    fn bytes(&mut self, dablk: DaBlock) -> Result<&[u8]> {
        self.touched.insert(dablk);
        Ok(&self.blocks[&dablk])
    }
    fn image(&mut self, dablk: DaBlock) -> Result<impl Image + '_> {
        self.touched.insert(dablk);
        Ok(self.blocks.get_mut(&dablk).expect("a block of the fork").as_mut_slice())
    }
    fn daddr(&mut self, dablk: DaBlock) -> Result<Daddr> {
        Ok(home(dablk))
    }
    fn grow(&mut self) -> Result<DaBlock> {
        let free = self.free.pop().unwrap_or_else(|| {
            let above = self.blocks.keys().max().map_or(0, |last| last.0 + 1);
            DaBlock(above)
        });
        self.blocks.insert(free, vec![0xee; self.len]);
        Ok(free)
    }
    fn shrink(&mut self, dablk: DaBlock) -> Result<()> {
        self.blocks.remove(&dablk).expect("a block of the fork");
        self.free.push(dablk);
        Ok(())
    }
}

/// The contents of a valid tree.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Bytes used of each leaf, in hash order.
    pub(crate) used: Vec<usize>,
    /// Children of each node but the root.
    pub(crate) kids: Vec<usize>,
    /// The attributes, in hash order.
    pub(crate) attrs: Vec<FoundAttr>,
    /// Blocks of the tree.
    pub(crate) blocks: HashSet<DaBlock>,
    /// Number of hashes that are in more than one leaf.
    pub(crate) torn_runs: usize,
}

/// Verifies the attribute tree whose blocks `block` returns.
pub(crate) fn verify(geo: &Geometry, block: &dyn Fn(DaBlock) -> Vec<u8>) -> Found {
    let mut walk = Walk { geo, block, found: Found::default(), chain: Vec::new(), last: None };
    walk.visit(DaBlock(0), None);
    for (_, forw) in &walk.chain {
        assert_eq!(*forw, 0, "the last of a level has none behind it");
    }
    walk.found
}

struct Walk<'w> {
    geo: &'w Geometry,
    block: &'w dyn Fn(DaBlock) -> Vec<u8>,
    found: Found,
    /// For each level the last block and its `forw`.
    chain: Vec<(u32, u32)>,
    last: Option<u32>,
}

impl Walk<'_> {
    fn visit(&mut self, dablk: DaBlock, expected: Option<(u16, u32)>) {
        assert!(self.found.blocks.insert(dablk), "block {dablk} twice");
        let mut bytes = (self.block)(dablk);
        da_edit::stamp(&mut bytes);
        let at = Location::of("test").ino(INO).fork(Fork::Attr);
        let at = at.fileoff(FileOff(dablk.0.into()));
        let ctx = Ctx::new(self.geo, Location { daddr: Some(home(dablk)), ..at });
        if da::magic(&bytes) == Some(Layout::V5.da_node_magic) {
            let node = Node::verify(&bytes, &ctx, Fork::Attr).unwrap();
            let last = node.btree.last().map(|kid| kid.hashval.get());
            if let Some(expected) = expected {
                assert_eq!((node.level, last), (expected.0, Some(expected.1)), "node {dablk}");
                self.found.kids.push(node.btree.len());
            } else {
                assert!(node.btree.len() > 1, "a root with one child");
            }
            let siblings = (node.info.forw.get(), node.info.back.get());
            self.verify_siblings(node.level.into(), dablk, siblings);
            for kid in node.btree {
                self.visit(DaBlock(kid.before.get()), Some((node.level - 1, kid.hashval.get())));
            }
            return;
        }
        let leaf = Leaf::verify(&bytes, &ctx).unwrap();
        leaf.verify_space(&ctx).unwrap();
        if let Some((level, hash)) = expected {
            assert_eq!((level, Some(hash)), (0, leaf.last_hash()), "leaf {dablk}");
        }
        self.verify_siblings(0, dablk, (leaf.info.forw.get(), leaf.info.back.get()));
        let first = leaf.entries.first().map(|e| e.hashval.get());
        assert!(self.last <= first || first.is_none(), "hashes descend between leaves");
        self.found.torn_runs += usize::from(self.last == first && first.is_some());
        self.last = leaf.last_hash();
        self.found.used.push(leaf_edit::used(&leaf));
        let own = |attr: Attr<'_>| {
            let value = match attr.value {
                AttrValue::Local(value) => Ok(value.to_vec()),
                AttrValue::Remote { valueblk, valuelen } => Err((valueblk, valuelen)),
            };
            (attr.flags & !xfskit_format::attr::LOCAL, attr.name.to_vec(), value)
        };
        self.found.attrs.extend(leaf.attrs().map(own));
    }

    fn verify_siblings(&mut self, level: usize, dablk: DaBlock, (forw, back): (u32, u32)) {
        if self.chain.len() <= level {
            self.chain.resize(level + 1, (0, dablk.0));
        }
        // The first of a level follows nothing, and nothing names it.
        let (before, next) = self.chain[level];
        assert_eq!((before, next), (back, if before == 0 { next } else { dablk.0 }));
        self.chain[level] = (dablk.0, forw);
    }
}
