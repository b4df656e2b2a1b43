//! Tests of cached leaf positions, right and wrong.

use std::collections::BTreeSet;

use xfskit_format::dir::leaf::Leaf;
use xfskit_format::{Layout, da, hash};
use xfskit_test_trees::dir as testing;
use xfskit_units::{DaBlock, FileOff};

use crate::dir::names::Form;
use crate::dir::testing::Fixture;
use crate::dir_cache::{LEAVES_MAX, Leaves};
use crate::error::Error;

fn block(n: u32) -> DaBlock {
    DaBlock(n)
}

fn names(range: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    range.map(|n| format!("file{:06}", n * 7919 % 1_000_000).into_bytes()).collect()
}

/// A directory with these names, which is verified.
fn fixture(names: &[Vec<u8>]) -> Fixture {
    let mut f = Fixture::new(10, 0, 20);
    create(&mut f, names);
    f.verify();
    f
}

fn create(f: &mut Fixture, names: &[Vec<u8>]) {
    for name in names {
        f.create(name).unwrap();
    }
}

/// First and last hash, and block, of each leaf.
fn leaves(f: &Fixture) -> Vec<(u32, u32, FileOff)> {
    let is_leaf = |bytes: &[u8]| da::magic(bytes) == Some(Layout::V5.dir_leafn_magic);
    let all = f.fork.blocks.range(FileOff(f.geo.dir_leafblk().0.into())..);
    let leaves = all.filter(|(_, bytes)| is_leaf(bytes)).map(|(at, bytes)| {
        let leaf = Leaf::parse(bytes, &f.geo).unwrap();
        (leaf.lents.first().unwrap().hashval.get(), leaf.last_hash().unwrap(), *at)
    });
    let mut leaves: Vec<_> = leaves.collect();
    leaves.sort_unstable();
    leaves
}

#[test]
fn a_guess_is_the_last_leaf_that_begins_below() {
    let mut leaves = Leaves::default();
    assert_eq!(leaves.guess(u32::MAX), None);
    leaves.note((100, 120), block(3));
    leaves.note((50, 60), block(1));
    leaves.note((70, 100), block(2));
    let guesses = |leaves: &Leaves| [50, 51, 70, 71, 100, 101].map(|hash| leaves.guess(hash));
    let [one, two, three, four] = [1, 2, 3, 4].map(|n| Some(block(n)));
    assert_eq!(guesses(&leaves), [None, one, one, two, two, three]);
    // The leaf has grown on both sides: cached leaves that began there are dropped.
    leaves.note((60, 101), block(2));
    assert_eq!(guesses(&leaves), [None, one, two, two, two, two]);
    leaves.note((60, 60), block(4));
    assert_eq!(guesses(&leaves), [None, one, four, four, four, four]);
    leaves.note((0, u32::MAX), block(3));
    assert_eq!(guesses(&leaves), [three; 6]);
    for n in 0..2 * u32::try_from(LEAVES_MAX).unwrap() {
        leaves.note((n, n), block(n));
        assert!(leaves.0.len() <= LEAVES_MAX);
    }
}

#[test]
fn a_leaf_is_found_straight_for_hashes_strictly_inside_and_no_others() {
    let all = names(0..3000);
    let mut f = fixture(&all[..2000]);
    for name in &all[..2000] {
        f.names().lookup(name).unwrap();
    }
    let leaves = leaves(&f);
    assert!(leaves.len() > 10 && f.verify().leaves.len() == leaves.len());
    let (mut inside, mut outside) = (0, 0);
    for name in &all {
        let hash = hash::dir_hash(&f.geo, name);
        let around = leaves.iter().find(|(first, last, _)| *first < hash && hash < *last);
        f.names().lookup(name).unwrap();
        let direct = f.names().direct(name).unwrap();
        assert_eq!(direct.as_ref().map(|direct| direct.leaf), around.map(|(.., at)| *at));
        assert!(f.fork.touched.len() <= 1);
        *if direct.is_some() { &mut inside } else { &mut outside } += 1;
    }
    assert!(inside > 2500 && outside >= leaves.len(), "{inside} {outside}");
}

#[test]
fn what_is_done_straight_looks_at_three_blocks() {
    let all = names(0..4000);
    let mut f = fixture(&all[..3000]);
    let mut few = [0; 2];
    for name in &all[3000..] {
        f.create(name).unwrap();
        few[0] += usize::from(f.fork.touched.len() <= 3);
    }
    f.verify();
    for name in &all[3000..] {
        f.remove(name).unwrap();
        few[1] += usize::from(f.fork.touched.len() <= 3);
    }
    f.verify();
    assert!(few[0] > 900 && few[1] > 800, "{few:?} of 1000");
}

#[test]
fn guesses_that_were_never_right_do_no_harm() {
    let all = names(0..3000);
    let mut f = fixture(&all[..1500]);
    let start = f.geo.dir_leafblk();
    for (n, name) in all[1500..].iter().enumerate() {
        // The root, nodes, leaves and holes.
        let hash = hash::dir_hash(&f.geo, name);
        let leaf = start.saturating_add(u32::try_from(n % 60).unwrap());
        f.free_index.leaves.note((hash - 1, hash), leaf);
        assert_eq!(f.names().lookup(name).unwrap(), None);
        f.free_index.leaves.note((hash - 1, hash), leaf);
        f.create(name).unwrap();
        f.free_index.leaves.note((hash - 1, hash), leaf);
        assert!(matches!(f.create(name), Err(Error::Exists)));
        let old = &all[n];
        let hash = hash::dir_hash(&f.geo, old);
        f.free_index.leaves.note((hash - 1, hash), leaf);
        f.remove(old).unwrap();
        if n % 50 == 0 {
            f.verify();
        }
    }
    f.verify();
}

#[test]
fn a_last_entry_that_is_stale_is_not_reused_straight() {
    let all = names(0..6000);
    let mut f = fixture(&all[..1500]);
    let last: BTreeSet<u32> = leaves(&f).iter().map(|(_, last, _)| *last).collect();
    let is_last = |f: &Fixture, name: &[u8]| last.contains(&hash::dir_hash(&f.geo, name));
    let gone: Vec<_> = all[..1500].iter().filter(|name| is_last(&f, name)).collect();
    for name in &gone {
        f.remove(name).unwrap();
    }
    f.verify();
    assert!(gone.len() > 10);
    for name in &all[1500..] {
        f.create(name).unwrap();
        f.verify();
        if f.model.len() > 1900 {
            break;
        }
    }
}

#[test]
fn equal_hashes_over_several_leaves_are_found_and_taken_out() {
    let same: Vec<_> = testing::colliding(512).take(400).collect();
    let others = names(0..1200);
    let mut f = fixture(&others[..600]);
    create(&mut f, &same[..300]);
    create(&mut f, &others[600..]);
    create(&mut f, &same[300..]);
    f.verify();
    let hash = hash::dir_hash(&f.geo, &same[0]);
    let ends = leaves(&f).iter().filter(|(first, last, _)| *first == hash || *last == hash).count();
    assert!(ends > 2, "{ends} leaves begin or end with it");
    for (n, name) in same.iter().enumerate() {
        assert!(matches!(f.create(name), Err(Error::Exists)));
        assert!(f.names().lookup(name).unwrap().is_some());
        f.replace(name);
        f.remove(name).unwrap();
        assert!(matches!(f.remove(name), Err(Error::NoEntry)));
        f.remove(&others[n]).unwrap();
        if n % 20 == 0 {
            f.verify();
        }
    }
}

#[test]
fn a_transaction_that_split_and_freed_leaves_is_undone() {
    let all = names(0..4000);
    let mut f = fixture(&all[..1500]);
    for round in 0..6 {
        let (before, model) = (f.fork.clone(), f.model.clone());
        if round % 2 == 0 {
            create(&mut f, &all[1500..3000]);
        } else {
            for name in &all[round * 100..round * 100 + 900] {
                f.remove(name).unwrap();
            }
        }
        assert_ne!(leaves(&f).len(), 0);
        (f.fork, f.model) = (before, model);
        for name in &all[3000 + round * 100..][..100] {
            f.create(name).unwrap();
        }
        for name in &all[round * 100..][..100] {
            f.remove(name).unwrap();
        }
        f.verify();
    }
}

#[test]
fn a_directory_that_is_of_the_node_form_no_more_is_not_taken_for_one() {
    let all = names(0..2000);
    for (form, count) in [(Form::Short, 4), (Form::Block, 20), (Form::Leaf, 80)] {
        let mut f = fixture(&all[..count]);
        assert_eq!(f.form(), form);
        let (before, model) = (f.fork.clone(), f.model.clone());
        create(&mut f, &all[count..1000]);
        assert_eq!(f.form(), Form::Node);
        // The transaction was undone, and the cache was not updated.
        (f.fork, f.model) = (before, model);
        for name in &all[..count] {
            assert!(matches!(f.create(name), Err(Error::Exists)));
        }
        create(&mut f, &all[1000..1005]);
        for name in &all[..count] {
            f.replace(name);
            f.remove(name).unwrap();
        }
        f.verify();
        create(&mut f, &all[1005..]);
        f.verify();
        // Once more, by removals.
        for name in &all[1000..] {
            f.remove(name).unwrap();
        }
        assert_eq!(f.form(), Form::Short);
        create(&mut f, &all[..count]);
        f.verify();
    }
}
