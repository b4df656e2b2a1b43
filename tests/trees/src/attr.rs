//! A checker for attribute trees in memory.

use std::collections::HashSet;

use xfskit_format::attr::leaf::{Attr, AttrValue, Leaf};
use xfskit_format::attr::leaf_edit;
use xfskit_format::da::{self, Node};
use xfskit_format::{Ctx, Fork, Layout, Location, da_edit};
use xfskit_units::{DaBlock, Daddr, FileOff, Geometry, Ino};

/// The inode whose fork tests build.
pub const INO: Ino = Ino(133);

/// Returns the address of block `dablk` in tests.
pub fn home(dablk: DaBlock) -> Daddr {
    Daddr(1000 + 8 * u64::from(dablk.0))
}

/// Flags, name, and local value, or block and length of a remote one.
pub type FoundAttr = (u8, Vec<u8>, Result<Vec<u8>, (DaBlock, u32)>);

/// The contents of a valid tree.
#[derive(Debug, Default)]
pub struct Found {
    /// Bytes used of each leaf, in hash order.
    pub used: Vec<usize>,
    /// Children of each node but the root.
    pub kids: Vec<usize>,
    /// The attributes, in hash order.
    pub attrs: Vec<FoundAttr>,
    /// Blocks of the tree.
    pub blocks: HashSet<DaBlock>,
    /// Number of hashes that are in more than one leaf.
    pub torn_runs: usize,
}

/// Verifies the attribute tree whose blocks `block` returns.
///
/// # Panics
/// If it is not valid.
pub fn verify(geo: &Geometry, block: &dyn Fn(DaBlock) -> Vec<u8>) -> Found {
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
