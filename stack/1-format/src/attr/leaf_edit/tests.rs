use std::collections::BTreeMap;

use super::*;
use crate::testing::{geo_v5, geo_v5_1k};
use crate::{Ctx, Fork, Location, attr};
use xfskit_test_support::Random;
use xfskit_units::{DaBlock, Daddr, Ino};

const ID: Identity = Identity { owner: Ino(74), daddr: Daddr(62) };

fn ctx(geo: &Geometry) -> Ctx<'_> {
    let at = Location::of("test").ino(ID.owner).fork(Fork::Attr);
    Ctx::new(geo, Location { daddr: Some(ID.daddr), ..at })
}

fn verify_block<'a>(block: &'a [u8], geo: &Geometry) -> Leaf<'a> {
    let mut stamped = block.to_vec();
    da_edit::stamp(&mut stamped);
    let leaf = Leaf::verify(&stamped, &ctx(geo)).unwrap();
    leaf.verify_space(&ctx(geo)).unwrap();
    let first = leaf.entries.iter().map(|e| usize::from(e.nameidx.get())).min();
    assert_eq!(leaf.firstused, first.unwrap_or(geo.blocksize()));
    if !leaf.holes {
        let listed: usize = leaf.freemap.iter().map(|f| usize::from(f.size.get())).sum();
        assert_eq!(listed, room(geo) - used(&leaf), "all that is free is listed");
    }
    Leaf::parse(block, geo).unwrap()
}

fn local<'a>(name: &'a [u8], value: &'a [u8]) -> Attr<'a> {
    Attr { flags: attr::SECURE, name, value: AttrValue::Local(value) }
}

#[test]
fn a_leaf_holds_what_a_map_holds() {
    let large = Geometry { blocklog: 16, ..geo_v5() };
    for (geo, steps, seed) in [(geo_v5_1k(), 3000, 1), (geo_v5(), 3000, 2), (large, 600, 3)] {
        let mut random = Random::of_test(seed);
        let mut block = vec![0xff; geo.blocksize()];
        init(&mut block, &geo, ID);
        verify_block(&block, &geo);
        let mut model: BTreeMap<(u32, Vec<u8>), Vec<u8>> = BTreeMap::new();
        let mut refused = 0;
        for _ in 0..steps {
            let name = format!("n{}", random.below(60)).into_bytes();
            let value = vec![b'v'; random.below(geo.blocksize() / 12)];
            let hash = crate::hash::name_hash(&name);
            let leaf = Leaf::parse(&block, &geo).unwrap();
            let at = leaf.attrs().position(|a| a.name == name);
            match at {
                Some(at) if random.one_in(3) => {
                    if replace(&mut block, &geo, at, Item::new(&geo, &local(&name, &value))) {
                        model.insert((hash, name), value);
                    }
                }
                Some(at) => {
                    remove(&mut block, &geo, at);
                    model.remove(&(hash, name));
                }
                None => {
                    let attr = local(&name, &value);
                    let item = Item::new(&geo, &attr);
                    let fits = used(&leaf) + item.space() <= room(&geo);
                    assert_eq!(insert(&mut block, &geo, item), fits);
                    if fits {
                        model.insert((hash, name), value);
                    } else {
                        refused += 1;
                    }
                }
            }
            let leaf = verify_block(&block, &geo);
            let found: Vec<_> = leaf
                .attrs()
                .map(|attr| match attr.value {
                    AttrValue::Local(v) => ((attr.hash(&geo), attr.name.to_vec()), v.to_vec()),
                    AttrValue::Remote { .. } => panic!("remote"),
                })
                .collect();
            let sizes: Vec<_> = items(&leaf).map(|item| (item.hash, item.size)).collect();
            assert!(leaf.attrs().map(|attr| (attr.hash(&geo), attr.size())).eq(sizes));
            assert!(found.iter().map(|(key, v)| (key, v)).eq(model.iter()));
        }
        assert!(refused > 0, "the leaf was full at times");
    }
}

#[test]
fn remote_and_local_values_replace_each_other() {
    let geo = geo_v5_1k();
    let mut block = vec![0; 1024];
    init(&mut block, &geo, ID);
    let place = AttrValue::Remote { valueblk: DaBlock(9), valuelen: 5000 };
    let remote = Attr { flags: LOCAL, name: b"big", value: place };
    assert!(insert(&mut block, &geo, Item::new(&geo, &remote)));
    let found = verify_block(&block, &geo).attrs().next().unwrap();
    assert_eq!((found.flags, found.value), (0, place));
    let short = Attr { flags: 0, name: b"big", value: AttrValue::Local(b"8 bytes!") };
    assert!(replace(&mut block, &geo, 0, Item::new(&geo, &short)), "both take 16 bytes");
    let found = verify_block(&block, &geo).attrs().next().unwrap();
    assert_eq!((found.flags, found.value), (LOCAL, AttrValue::Local(b"8 bytes!")));
    let empty = Attr { value: AttrValue::Local(b""), ..short };
    assert!(!replace(&mut block, &geo, 0, Item::new(&geo, &empty)));
}

#[test]
fn values_of_three_quarters_of_a_leaf_are_remote() {
    let geo = geo_v5();
    assert!(!is_remote(&geo, 3, 3062));
    assert!(is_remote(&geo, 3, 3063));
}

#[test]
fn a_leaf_of_linux_with_holes_is_packed_when_needed() {
    let geo = geo_v5_1k();
    let golden = crate::testing::golden(1024, include_str!("../golden/leaf-v5.hex"));
    let mut block = golden.clone();
    let before: Vec<_> = Leaf::parse(&golden, &geo).unwrap().attrs().collect();
    remove(&mut block, &geo, 5);
    let mut more = 0u8;
    while insert(&mut block, &geo, Item::new(&geo, &local(&[b'x', more + 1], b"value"))) {
        more += 1;
    }
    let leaf = verify_block(&block, &geo);
    assert!(more > 5 && room(&geo) - used(&leaf) < 20, "filled to the last hole");
    for (i, attr) in before.iter().enumerate().filter(|(i, _)| *i != 5) {
        assert!(leaf.attrs().any(|a| a == *attr), "{i}");
    }
}

#[test]
fn a_hostile_remote_attribute_at_the_end_of_a_leaf_is_moved_with_the_bytes_it_has() {
    let geo = geo_v5_1k();
    let mut block = vec![0; 1024];
    init(&mut block, &geo, ID);
    let place = AttrValue::Remote { valueblk: DaBlock(9), valuelen: 5000 };
    let remote = Attr { flags: 0, name: b"abc", value: place };
    assert!(insert(&mut block, &geo, Item::new(&geo, &remote)));
    // 12 bytes without the two that a remote attribute takes more than it fills.
    let (first, end) = (1024 - remote.size(), 1024 - 12);
    block.copy_within(first..first + 12, end);
    let entry = Item::new(&geo, &remote).entry(end);
    block.put(table_end(0), &entry);
    let leaf = Leaf::parse(&block, &geo).unwrap();
    let moved: Vec<_> = items(&leaf).collect();
    assert_eq!(moved[0].size, 16);
    let mut other = vec![0; 1024];
    init(&mut other, &geo, ID);
    assert!(pack(&mut other, &geo, moved));
    let found = verify_block(&other, &geo).attrs().next().unwrap();
    assert_eq!((found.name, found.value), (&b"abc"[..], place));
}
