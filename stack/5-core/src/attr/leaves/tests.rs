//! The hash btree with attribute leaves, on blocks in memory, against a map.

use std::collections::BTreeMap;

use xfskit_format::attr::leaf::{Attr, AttrValue, Leaf};
use xfskit_format::attr::leaf_edit::{self, Item};
use xfskit_format::da_edit::Identity;
use xfskit_format::{Fork, attr, hash};
use xfskit_test_support::Random;
use xfskit_units::{DaBlock, Geometry, Ino};
use zerocopy::IntoBytes;

use crate::attr::leaves::AttrLeaves;
use crate::da::testing::Memory;
use crate::da::tree::{Path, Tree};
use xfskit_test_trees::attr::{self as testing, Found, INO, home};

/// Flags, name and value; of a parent pointer the value is part of the key.
type Key = (u8, Vec<u8>, Vec<u8>);

struct Fixture {
    geo: Geometry,
    blocks: Memory,
    model: BTreeMap<Key, Vec<u8>>,
    random: Random,
    /// Blocks that one change touched at most, and all changes together.
    most: usize,
    all: usize,
    changes: usize,
}

fn key(attr: &Attr<'_>) -> Key {
    let AttrValue::Local(value) = attr.value else { panic!("a remote value") };
    let own = if attr.flags & attr::PARENT != 0 { value.to_vec() } else { Vec::new() };
    (attr.flags & !attr::LOCAL, attr.name.to_vec(), own)
}

impl Fixture {
    fn new(blocklog: u8, seed: u64) -> Self {
        let geo = xfskit_test_trees::geo(blocklog);
        let mut root = vec![0; geo.blocksize()];
        leaf_edit::init(&mut root, &geo, Identity { owner: INO, daddr: home(DaBlock(0)) });
        let blocks = Memory::new(DaBlock(0), root);
        let model = BTreeMap::new();
        Self { geo, blocks, model, random: Random::new(seed), most: 0, all: 0, changes: 0 }
    }

    fn change<T>(&mut self, change: impl FnOnce(&Geometry, &mut Tree<'_, Memory>) -> T) -> T {
        self.blocks.touched.clear();
        let mut tree = Tree::new(&self.geo, Fork::Attr, INO, &mut self.blocks);
        let result = change(&self.geo, &mut tree);
        let touched = self.blocks.touched.len();
        self.most = self.most.max(touched);
        self.all += touched;
        self.changes += 1;
        result
    }

    fn insert(&mut self, flags: u8, name: &[u8], value: &[u8]) {
        let attr = Attr { flags, name, value: AttrValue::Local(value) };
        self.model.insert(key(&attr), value.to_vec());
        self.change(|geo, tree| {
            let item = Item::new(geo, &attr);
            let path = tree.find(item.hash).unwrap();
            tree.insert::<AttrLeaves>(path, item).unwrap();
        });
    }

    fn remove(&mut self, key: &Key) {
        let value = self.model.remove(key).unwrap();
        self.change(|geo, tree| {
            let attr = Attr { flags: key.0, name: &key.1, value: AttrValue::Local(&value) };
            let (path, at) = search(geo, tree, &attr).unwrap();
            let mut image = crate::da::tree::DaBlocks::image(tree.blocks, path.leaf()).unwrap();
            leaf_edit::remove(&mut image, geo, at);
            drop(image);
            tree.removed::<AttrLeaves>(path).unwrap();
        });
    }

    fn remove_any(&mut self) {
        let index = self.random.below(self.model.len());
        let key = self.model.keys().nth(index).unwrap().clone();
        self.remove(&key);
    }

    fn verify(&self) -> Found {
        let found = testing::verify(&self.geo, &|dablk| self.blocks.blocks[&dablk].clone());
        assert_eq!(found.blocks.len(), self.blocks.blocks.len(), "blocks out of the tree");
        let all: BTreeMap<Key, Vec<u8>> = found
            .attrs
            .iter()
            .map(|(flags, name, value)| {
                let value = value.as_ref().unwrap();
                let attr = Attr { flags: *flags, name, value: AttrValue::Local(value) };
                (key(&attr), value.clone())
            })
            .collect();
        assert_eq!(all.len(), found.attrs.len(), "an attribute twice");
        assert!(all == self.model, "{} attributes instead of {}", all.len(), self.model.len());
        found
    }

    /// Verifies the tree, and that leaves are two thirds full.
    fn verify_full(&self) -> Found {
        let found = self.verify();
        let capacity = leaf_edit::room(&self.geo);
        let least = found.used.iter().min().copied().unwrap_or(0);
        let full = found.used.len() < 4 || 3 * least >= 2 * capacity;
        assert!(full, "{least} of {capacity} bytes among {:?}", found.used);
        found
    }
}

fn search(geo: &Geometry, tree: &mut Tree<'_, Memory>, attr: &Attr<'_>) -> Option<(Path, usize)> {
    let mut path = tree.find(attr.hash(geo)).unwrap();
    loop {
        let block = tree.blocks.blocks[&path.leaf()].clone();
        let leaf = Leaf::parse(&block, geo).unwrap();
        if let Some(at) = leaf.attrs().position(|a| key(&a) == key(attr)) {
            return Some((path, at));
        }
        if !tree.advance(&mut path).unwrap() {
            return None;
        }
    }
}

/// Grows, churns and shrinks a tree of attributes of `len` bytes; returns the mean fill in percent
/// after growing and after churn.
fn workload(
    blocklog: u8,
    count: usize,
    every: usize,
    value: impl Fn(&mut Fixture) -> usize,
    name: impl Fn(&mut Fixture, usize) -> String,
) -> (Fixture, [usize; 2]) {
    let mut f = Fixture::new(blocklog, 7);
    let mut fills = [0; 2];
    let fill = |found: &Found, f: &Fixture| {
        100 * found.used.iter().sum::<usize>() / found.used.len() / leaf_edit::room(&f.geo)
    };
    for i in 0..count {
        let (name, value) = (name(&mut f, i), vec![b'v'; value(&mut f)]);
        if !f.model.contains_key(&(0, name.clone().into_bytes(), Vec::new())) {
            f.insert(0, name.as_bytes(), &value);
        }
        if i % every == 0 {
            f.verify_full();
        }
    }
    fills[0] = fill(&f.verify_full(), &f);
    for i in 0..count {
        if f.random.below(2) == 0 && !f.model.is_empty() {
            f.remove_any();
        } else {
            let (name, value) = (format!("churn-{i}"), vec![b'w'; value(&mut f)]);
            f.insert(0, name.as_bytes(), &value);
        }
        if i % every == 0 {
            f.verify_full();
        }
    }
    fills[1] = fill(&f.verify_full(), &f);
    while !f.model.is_empty() {
        f.remove_any();
        if f.model.len().is_multiple_of(every) {
            f.verify_full();
        }
    }
    assert_eq!(f.blocks.blocks.len(), 1, "the tree is a leaf again");
    (f, fills)
}

#[test]
fn leaves_stay_two_thirds_full_whatever_comes_and_goes() {
    let in_order = |_: &mut Fixture, i: usize| format!("name{i:06}");
    let at_random = |f: &mut Fixture, _: usize| format!("{:x}", f.random.below(1 << 30));
    let mixed = |f: &mut Fixture| f.random.below(280);
    for blocklog in [12, 16] {
        let (count, every) = if blocklog == 12 { (2000, 53) } else { (6000, 1009) };
        for (what, fills) in [
            ("40 bytes in order", workload(blocklog, count, every, |_| 20, in_order)),
            ("40 bytes at random", workload(blocklog, count, every, |_| 20, at_random)),
            ("300 bytes at random", workload(blocklog, count, every, |_| 277, at_random)),
            ("20 to 300 bytes in order", workload(blocklog, count, every, mixed, in_order)),
            ("20 to 300 bytes at random", workload(blocklog, count, every, mixed, at_random)),
        ] {
            let (f, fills) = fills;
            let mean = 100 * f.all / f.changes;
            println!(
                "{blocklog} {what}: fill {fills:?} %, at most {} blocks, {mean} % mean",
                f.most
            );
            assert!(f.most <= 12, "{what}: {} blocks in one change", f.most);
            assert!(fills[0] >= 75, "{what}: {fills:?}");
        }
    }
}

#[test]
fn blocks_of_1k_make_deep_trees() {
    let mut f = Fixture::new(10, 3);
    for i in 0..9000usize {
        f.insert(0, format!("deep-{i}").as_bytes(), &[b'v'; 60]);
        if i % 3000 == 0 {
            f.verify();
        }
    }
    let found = f.verify();
    assert!(found.kids.len() >= 9, "three levels: {:?}", found.kids);
    assert!(found.kids.iter().all(|kids| 3 * kids >= 120), "{:?}", found.kids);
    while f.model.len() > 3 {
        f.remove_any();
        if f.model.len().is_multiple_of(2999) {
            f.verify();
        }
    }
    f.verify();
    assert!(f.most <= 20, "{} blocks in one change", f.most);
}

#[test]
fn names_with_the_same_hash_are_distinguished() {
    for blocklog in [10, 12] {
        let mut f = Fixture::new(blocklog, 5);
        // Parents whose numbers mix to the same bits: one hash, 600 of them fill many leaves.
        let rec =
            |i: u64| attr::parent::Rec { p_ino: ((i << 32) | (i ^ 0x80)).into(), p_gen: 1.into() };
        let item = |i: u64| (attr::PARENT, b"f".to_vec(), rec(i).as_bytes().to_vec());
        let (flags, name, value) = item(9);
        let first = Attr { flags, name: &name, value: AttrValue::Local(&value) };
        assert_eq!(first.hash(&f.geo), hash::parent_hash(&f.geo, b"f", Ino(0x80)));
        for i in 0..600 {
            let (flags, name, value) = item(i);
            f.insert(flags, &name, &value);
            f.insert(0, format!("between{i}").as_bytes(), b"value");
            if i % 20 == 0 {
                f.verify();
            }
        }
        f.verify();
        for i in 0..600 {
            f.remove(&item((i * 7) % 600));
            if i % 20 == 0 {
                f.verify();
            }
        }
        assert_eq!(f.verify().torn_runs, 0);
    }
}

#[test]
fn short_runs_of_one_hash_stay_in_one_leaf() {
    let mut f = Fixture::new(12, 5);
    for i in 0..2000u64 {
        let ino = ((i % 10) << 32) | ((i % 10) ^ 0x80);
        let rec = attr::parent::Rec { p_ino: ino.into(), p_gen: 1.into() };
        f.insert(attr::PARENT, format!("link{}", i / 10).as_bytes(), rec.as_bytes());
        if i % 200 == 0 {
            assert_eq!(f.verify().torn_runs, 0);
        }
    }
    while !f.model.is_empty() {
        f.remove_any();
        if f.model.len().is_multiple_of(200) {
            assert_eq!(f.verify().torn_runs, 0);
        }
    }
}

#[test]
fn very_large_attributes_are_stored_all_the_same() {
    for blocklog in [10, 12, 16] {
        let mut f = Fixture::new(blocklog, 11);
        let most = f.geo.blocksize() / 4 * 3 - 30;
        for i in 0..400 {
            let len =
                if f.random.below(2) == 0 { f.random.below(most) } else { f.random.below(50) };
            f.insert(0, format!("large{i}").as_bytes(), &vec![b'v'; len]);
            if i % 4 == 0 {
                f.verify();
            }
        }
        while !f.model.is_empty() {
            f.remove_any();
            if f.model.len().is_multiple_of(4) {
                f.verify();
            }
        }
        assert_eq!(f.blocks.blocks.len(), 1);
    }
}
