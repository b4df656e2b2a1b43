//! Tests of directories in memory against a map, through all forms in both directions.

use std::collections::BTreeSet;

use xfskit_format::inode::FileType;
use xfskit_test_support::seeds;
use xfskit_units::{DaBlock, FileOff, Ino};

use crate::dir::names::{Form, Names};
use crate::dir::testing::Fixture;
use crate::dir_cache::FreeSpaceIndex;
use crate::error::Error;
use xfskit_bulk::dir::{DirPlan, NewEntry};
use xfskit_test_trees::dir::{self as testing, INO, PARENT, home};

/// Names of 1 to about 60 bytes; one in five has many others of its hash.
fn name(n: usize) -> Vec<u8> {
    if n.is_multiple_of(5) {
        return testing::colliding(512).nth(n / 5 % 512).unwrap();
    }
    format!("{:01$}", n, n % 60 + 1).into_bytes()
}

#[test]
fn all_forms_hold_what_a_map_holds_while_they_grow_and_shrink() {
    for (blocklog, dirblklog, target, seed) in
        [(10, 0, 600, 1), (10, 2, 1200, 2), (12, 0, 1200, 3), (13, 3, 3000, 4), (16, 0, 3000, 5)]
    {
        let mut f = Fixture::new(blocklog, dirblklog, seed);
        for turn in 0..2 {
            for step in 0.. {
                f.step(8, name);
                if f.model.len() >= target {
                    break;
                }
                if f.model.len() < 60 || step % 61 == turn {
                    f.verify();
                }
            }
            for step in 0.. {
                f.step(1, name);
                if f.model.len() < 60 || step % 61 == turn {
                    f.verify();
                }
                if f.model.is_empty() {
                    break;
                }
            }
            assert_eq!(f.form(), Form::Short);
        }
        let most = if blocklog + dirblklog == 16 { 3 } else { 4 };
        assert_eq!(f.forms.len(), most, "forms of blocks of 2^{blocklog} * 2^{dirblklog}");
    }
}

#[test]
fn every_step_of_a_small_directory_is_sound() {
    for seed in seeds(0..6) {
        let mut f = Fixture::new(10, 0, seed);
        for turn in 0..8 {
            for _ in 0..60 {
                f.step(if turn % 2 == 0 { 8 } else { 2 }, |n| name(n % 1000));
                f.verify();
            }
        }
    }
}

#[test]
fn deep_trees_grow_and_shrink() {
    let mut f = Fixture::new(10, 0, 9);
    for n in 0..30_000 {
        f.create(format!("file{n}").as_bytes()).unwrap();
    }
    let found = f.verify();
    assert!(found.blocks[1] > 250 && found.blocks[2] > 1, "{:?}", found.blocks);
    let mean = found.leaves.iter().sum::<usize>() / found.leaves.len();
    assert!(mean >= 80, "leaves are two thirds full: {mean} of 120");
    assert!(f.most <= 25, "{} blocks touched by one change", f.most);
    for n in 0..30_000 {
        let n = n * 7919 % 30_000;
        f.remove(format!("file{n}").as_bytes()).unwrap();
        if n % 3000 < 1 {
            f.verify();
        }
    }
    assert!(f.most <= 25, "{} blocks touched by one change", f.most);
    assert_eq!(f.form(), Form::Short);
}

#[test]
fn one_hash_for_all_names_works_in_every_form() {
    let mut f = Fixture::new(10, 0, 10);
    let all: Vec<_> = testing::colliding(1024).collect();
    for name in &all {
        f.create(name).unwrap();
    }
    f.verify();
    for name in &all {
        assert!(matches!(f.create(name), Err(Error::Exists)));
    }
    for (n, name) in all.iter().enumerate() {
        f.remove(name).unwrap();
        if n.is_multiple_of(50) {
            f.verify();
        }
    }
    assert_eq!(f.form(), Form::Short);
}

#[test]
fn data_blocks_that_emptied_are_used_again() {
    let mut f = Fixture::new(12, 0, 11);
    let names: Vec<_> = (0..4000).map(|n| format!("{n:0100}").into_bytes()).collect();
    for name in &names {
        f.create(name).unwrap();
    }
    let size = f.fork.size;
    for name in &names[400..3000] {
        f.remove(name).unwrap();
    }
    let holes = f.verify();
    assert_eq!(f.fork.size, size, "the last block stays where it is");
    for name in &names[400..3000] {
        f.create(name).unwrap();
    }
    let full = f.verify();
    assert!(holes.blocks[0] < full.blocks[0] / 2, "{:?} {:?}", holes.blocks, full.blocks);
    assert_eq!(f.fork.size, size);
    for name in names[400..].iter().rev() {
        f.remove(name).unwrap();
    }
    f.verify();
    assert!(f.fork.size < size / 3, "{} of {size}", f.fork.size);
}

#[test]
fn a_name_keeps_its_place_through_all_forms() {
    let mut f = Fixture::new(12, 0, 12);
    f.create(b"first").unwrap();
    f.create(b"second").unwrap();
    for n in 0..3000 {
        f.create(format!("{n}").as_bytes()).unwrap();
    }
    let place = |f: &Fixture| f.fork.blocks[&FileOff(0)][0x60 + 9..0x60 + 14].to_vec();
    assert_eq!((f.form(), place(&f)), (Form::Node, b"first".to_vec()));
    f.remove(b"first").unwrap();
    for n in 0..3000 {
        f.remove(format!("{n}").as_bytes()).unwrap();
    }
    let short = f.fork.short.as_ref().expect("the short form");
    assert_eq!(&short[7..9], 0x78_u16.to_be_bytes(), "where it was born");
}

#[test]
fn dotdot_changes_in_every_form() {
    let mut f = Fixture::new(12, 0, 13);
    let mut n = 0;
    for (form, until) in [(Form::Short, 5), (Form::Block, 60), (Form::Leaf, 300), (Form::Node, 900)]
    {
        while n < until {
            f.create(format!("name{n}").as_bytes()).unwrap();
            n += 1;
        }
        assert_eq!(f.form(), form);
        for parent in [Ino(6000 + n), testing::wide_ino(&f.geo), PARENT] {
            f.names().replace(b"..", (parent, FileType::Directory)).unwrap();
            assert_eq!(f.verify().parent, Some(parent));
            assert_eq!(f.names().lookup(b"..").unwrap(), Some((parent, FileType::Directory)));
        }
        assert_eq!(f.names().lookup(b".").unwrap(), Some((INO, FileType::Directory)));
    }
}

#[test]
fn what_no_directory_can_hold_is_refused() {
    let mut f = Fixture::new(12, 0, 14);
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
        assert!(matches!(f.create(name), Err(Error::Limit(_))), "{name:?}");
        assert!(matches!(f.remove(name), Err(Error::Limit(_))), "{name:?}");
    }
    assert!(matches!(f.create(&[b'x'; 256]), Err(Error::NameTooLong(_))));
    assert!(matches!(f.remove(&[b'x'; 256]), Err(Error::NameTooLong(_))));
    f.create(&[b'x'; 255]).unwrap();
    f.verify();
}

#[test]
fn a_full_volume_is_an_error_at_every_step() {
    let mut f = Fixture::new(10, 0, 15);
    let mut refused = BTreeSet::new();
    for n in 0..20_000 {
        let name = name(n);
        let (before, space) = (f.fork.clone(), f.fork.blocks.len());
        f.fork.space = space + usize::from(n.is_multiple_of(3));
        match f.create(&name) {
            Ok(()) | Err(Error::Exists) => {}
            Err(Error::NoSpace(_)) => {
                refused.insert(n);
                // An undone transaction restores the fork.
                f.fork = before;
                f.fork.space = usize::MAX;
                if refused.len().is_multiple_of(3) {
                    f.verify();
                }
                f.create(&name).unwrap();
            }
            Err(err) => panic!("{err}"),
        }
        if f.model.len() > 1500 {
            break;
        }
    }
    assert!(refused.len() > 50);
    f.verify();
}

#[test]
fn what_was_built_in_one_go_changes_like_any_other() {
    for (blocklog, dirblklog, count) in [(12, 0, 100), (12, 0, 300), (12, 0, 5000), (10, 0, 20_000)]
    {
        let mut f = Fixture::new(blocklog, dirblklog, 16);
        let names: Vec<_> = (0..count).map(|n| format!("name{n}").into_bytes()).collect();
        let entry = |name| NewEntry { name, ino: Ino(5001), ftype: FileType::Regular };
        let entries: Vec<_> = names.iter().map(|name| entry(&name[..])).collect();
        let geo = f.geo.clone();
        let plan = DirPlan::new(&geo, INO, PARENT, entries, 336).unwrap();
        let DirPlan::Blocks(dir) = plan else { panic!("too many names for the inode") };
        f.fork.leave_inode_for(dir.size().0);
        for space in dir.spaces() {
            for k in (0..space.blocks).step_by(geo.dirblkfsbs() as usize) {
                let at = space.start.saturating_add(k.into());
                f.fork.blocks.insert(at, dir.fill(at, home(at)));
            }
        }
        f.model = names.iter().map(|name| (name.clone(), (Ino(5001), 1))).collect();
        f.verify();
        for n in 0..count / 2 {
            f.create(format!("other{n}").as_bytes()).unwrap();
            f.remove(&names[n * 2]).unwrap();
        }
        f.verify();
        assert!(f.free_index.tree_from == DaBlock(0) || count > 1000);
    }
}

#[test]
fn damage_that_no_verifier_sees_is_an_error_at_worst() {
    let mut errors = 0;
    for (count, rounds) in [(60, 200), (200, 300), (1500, 300)] {
        let mut sound = Fixture::new(10, 0, 17);
        let names: Vec<_> = (0..count).map(|n| format!("name{n}").into_bytes()).collect();
        for name in &names {
            sound.create(name).unwrap();
        }
        let places: Vec<_> = sound.fork.blocks.keys().copied().collect();
        for _ in 0..rounds {
            let mut fork = sound.fork.clone();
            for _ in 0..4 {
                let at = places[sound.random.below(places.len())];
                let block = fork.blocks.get_mut(&at).unwrap();
                let (byte, value) =
                    (56 + sound.random.below(block.len() - 56), sound.random.below(256));
                let old = block[byte];
                block[byte] = u8::try_from(value).unwrap();
                if !testing::passes(&sound.geo, at, block) {
                    block[byte] = old;
                }
            }
            let mut free_index = FreeSpaceIndex::default();
            for n in 0..200 {
                let name = &names[sound.random.below(names.len())];
                let target = (Ino(5001), FileType::Regular);
                let (geo, before) = (&sound.geo, fork.clone());
                let mut dir = Names { geo, ino: INO, fork: &mut fork, free_index: &mut free_index };
                let result = match n % 3 {
                    0 => dir.create(format!("more{n}").as_bytes(), target),
                    1 => dir.remove(name).map(drop),
                    _ => dir.replace(name, target).map(drop),
                };
                if result.is_err() {
                    fork = before;
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 100, "{errors} errors");
}
