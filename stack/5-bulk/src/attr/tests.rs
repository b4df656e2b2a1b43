use std::collections::HashSet;

use super::*;
use xfskit_format::{Ctx, Location};
use xfskit_test_trees::attr::{self as testing, Found, FoundAttr, INO, home};
use xfskit_test_trees::geo;

fn user(name: String, value: Vec<u8>) -> NewAttr<'static> {
    NewAttr { namespace: Namespace::User, name: name.into_bytes().into(), value: value.into() }
}

fn blocks<'a>(geo: &'a Geometry, attrs: Vec<NewAttr<'a>>) -> AttrBlocks<'a> {
    let plan = AttrPlan::new(geo, INO, attrs, DataNeed::Inline(16)).unwrap();
    assert_eq!(plan.forkoff, 24);
    let AttrForm::Blocks(blocks) = plan.form else { panic!("blocks were due") };
    *blocks
}

/// Verifies the fork, reads every value back, and returns what the tree is like.
fn verify(geo: &Geometry, fork: &AttrBlocks<'_>, attrs: &[NewAttr<'_>]) -> Found {
    let found = testing::verify(geo, &|dablk| fork.fill(dablk, home(dablk)));
    let mut used = found.blocks.clone();
    let read = |(flags, name, value): &FoundAttr| {
        let value = match value {
            Ok(value) => value.clone(),
            Err((valueblk, valuelen)) => {
                let mut value = Vec::new();
                for k in 0..remote::blocks(geo, *valuelen) {
                    let dablk = DaBlock(valueblk.0 + k);
                    assert!(used.insert(dablk), "block {dablk} twice");
                    let block = fork.fill(dablk, home(dablk));
                    let at = Location::of("test").ino(INO);
                    let ctx = Ctx::new(geo, Location { daddr: Some(home(dablk)), ..at });
                    let offset = u32::try_from(value.len()).unwrap();
                    value.extend(remote::verify(&block, &ctx, offset, *valuelen).unwrap());
                }
                value
            }
        };
        (*flags, name.clone(), value)
    };
    let all: HashSet<_> = found.attrs.iter().map(read).collect();
    let wanted: HashSet<_> =
        attrs.iter().map(|a| (a.namespace.flags(), a.name.to_vec(), a.value.to_vec())).collect();
    assert!(all == wanted, "{} attributes instead of {}", all.len(), wanted.len());
    assert_eq!(used.len(), fork.blocks() as usize, "no block without use");
    found
}

#[test]
fn few_attributes_stand_in_the_inode() {
    let geo = geo(12);
    let none = AttrPlan::new(&geo, INO, Vec::new(), DataNeed::Inline(336)).unwrap();
    assert!(none.forkoff == 0 && matches!(none.form, AttrForm::None));
    let short = |len: usize, need| {
        let plan = AttrPlan::new(&geo, INO, vec![user("n".into(), vec![b'v'; len])], need).unwrap();
        (plan.forkoff, matches!(plan.form, AttrForm::Short(_)))
    };
    // Results of Linux with one attribute that takes this much and 8 bytes more.
    assert_eq!(short(10, DataNeed::Inline(16)), (24, true));
    assert_eq!(short(136, DataNeed::Inline(16)), (24, true));
    assert_eq!(short(139, DataNeed::Inline(16)), (23, true));
    assert_eq!(short(216, DataNeed::Inline(16)), (14, true));
    assert_eq!(short(216, DataNeed::Inline(112)), (14, true));
    assert_eq!(short(216, DataNeed::Inline(113)), (24, false));
    assert_eq!(short(255, DataNeed::Inline(16)), (9, true));
    assert_eq!(short(256, DataNeed::Inline(16)), (24, false));
    assert_eq!(short(10, DataNeed::Inline(290)), (37, true));
    assert_eq!(short(100, DataNeed::Inline(290)), (37, false));
    assert_eq!(short(255, DataNeed::Device), (1, true));
    assert_eq!(short(400, DataNeed::Device), (1, false));
    assert_eq!(short(139, DataNeed::Btree), (24, false));
    let attr = vec![user("n".into(), vec![b'v'])];
    let err = AttrPlan::new(&geo, INO, attr, DataNeed::Inline(300)).unwrap_err();
    assert_eq!(err, PlanError::DataFork { data_max: 296 });
}

#[test]
fn what_cannot_be_stored_is_refused_by_name() {
    let geo = geo(12);
    let plan = |attrs| AttrPlan::new(&geo, INO, attrs, DataNeed::Btree).map(drop);
    let value = Vec::new;
    assert_eq!(plan(vec![user(String::new(), value())]), Err(PlanError::Name));
    assert_eq!(plan(vec![user("n".repeat(256), value())]), Err(PlanError::Name));
    assert_eq!(plan(vec![user("a\0".into(), value())]), Err(PlanError::Name));
    assert_eq!(plan(vec![user("a".into(), vec![0; 65537])]), Err(PlanError::Value));
    let twice = vec![user("a".into(), value()), user("a".into(), vec![1])];
    assert_eq!(plan(twice), Err(PlanError::Duplicate));
    let parents =
        vec![NewAttr::parent(Ino(128), 1, &b"f"[..]), NewAttr::parent(Ino(131), 1, &b"f"[..])];
    assert_eq!(plan(parents), Ok(()));
}

#[test]
fn trees_of_every_size_are_full_and_read_back() {
    for (blocklog, counts) in [
        (10, &[15usize, 20, 60, 3000, 20_000][..]),
        (12, &[20, 90, 110, 400, 10_000, 100_000]),
        (16, &[300, 1500, 40_000]),
    ] {
        let geo = geo(blocklog);
        for &count in counts {
            let value = |i: usize| vec![b'v'; 10 + i * 7 % 40];
            let attrs: Vec<_> = (0..count).map(|i| user(format!("attr-{i}"), value(i))).collect();
            let mut shuffled = attrs.clone();
            shuffled.reverse();
            let fork = blocks(&geo, attrs.clone());
            let found = verify(&geo, &fork, &attrs);
            assert_eq!(found.torn_runs, 0);
            let capacity = leaf_edit::room(&geo);
            if found.used.len() >= 4 {
                let least = *found.used.iter().min().unwrap();
                assert!(3 * least >= 2 * capacity, "{count}: {least} of {capacity}");
            }
            if found.used.len() >= 20 {
                let all: usize = found.used.iter().sum();
                assert!(all * 100 >= capacity * found.used.len() * 90, "{count}: {all}");
            }
            let again = blocks(&geo, shuffled);
            let last = DaBlock(fork.blocks() - 1);
            for dablk in [DaBlock(0), DaBlock(1).min(last), last] {
                assert!(fork.fill(dablk, home(dablk)) == again.fill(dablk, home(dablk)));
            }
        }
    }
}

#[test]
fn large_values_have_blocks_of_their_own() {
    for blocklog in [10, 12, 16] {
        let geo = geo(blocklog);
        let lens = [0, 1, 255, 256, 700, 760, 3000, 3062, 3063, 4096, 49_000, 60_000, 65_536];
        let attrs: Vec<_> = lens
            .iter()
            .cycle()
            .take(100)
            .enumerate()
            .map(|(i, &len)| user(format!("large-{i}"), vec![u8::try_from(i).unwrap(); len]))
            .collect();
        verify(&geo, &blocks(&geo, attrs.clone()), &attrs);
    }
}

#[test]
fn links_become_parent_pointers_and_runs_of_one_hash_stay_together() {
    let geo = geo(12);
    // The same name in directories whose numbers mix to the same bits: one hash for all.
    let same = (0..20u64).map(|i| NewAttr::parent(Ino((i << 32) | (i ^ 0x80)), 7, &b"f"[..]));
    let others = (0..3000u64).map(|i| NewAttr::parent(Ino(128), 7, format!("f{i}").into_bytes()));
    let attrs: Vec<_> = same.chain(others).collect();
    let found = verify(&geo, &blocks(&geo, attrs.clone()), &attrs);
    assert_eq!(found.torn_runs, 0);
    // More than a leaf holds: they continue in the next.
    let attrs: Vec<_> =
        (0..1000u64).map(|i| NewAttr::parent(Ino((i << 32) | (i ^ 0x80)), 7, &b"f"[..])).collect();
    let found = verify(&geo, &blocks(&geo, attrs.clone()), &attrs);
    assert_eq!(found.torn_runs + 1, found.used.len());
}
