use super::*;
use xfskit_test_trees::dir::{self as testing, Blocks, Found, INO, Names, PARENT, home};

fn names(list: &[Vec<u8>]) -> Vec<NewEntry<'_>> {
    let ino = |i: usize| Ino(4096 + i as u64 % 50_000);
    let ftype = FileType::Regular;
    list.iter().enumerate().map(|(i, name)| NewEntry { name, ino: ino(i), ftype }).collect()
}

fn wanted(entries: &[NewEntry<'_>]) -> Names {
    entries.iter().map(|e| (e.name.to_vec(), (e.ino, e.ftype.ftype()))).collect()
}

fn numbered(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| format!("name{:01$}", i, i % 19 + 1).into_bytes()).collect()
}

fn build(geo: &Geometry, list: &[Vec<u8>]) -> Found {
    let entries = names(list);
    let plan = DirPlan::new(geo, INO, PARENT, entries.clone(), 336).unwrap();
    let found = match plan {
        DirPlan::Short(bytes) => testing::verify_sf(geo, &bytes),
        DirPlan::Blocks(dir) => {
            let mut blocks = Blocks::new();
            for space in dir.spaces() {
                for k in (0..space.blocks).step_by(geo.dirblkfsbs() as usize) {
                    let at = FileOff(space.start.0 + u64::from(k));
                    let block = dir.fill(at, home(at));
                    assert_eq!(block, dir.fill(at, home(at)));
                    blocks.insert(at, block);
                }
            }
            testing::verify(geo, &blocks, dir.size().0)
        }
    };
    assert_eq!(found.parent, Some(PARENT));
    assert!(found.names == wanted(&entries), "the names are those that were given");
    found
}

#[test]
fn every_form_holds_what_was_given() {
    let geo = testing::geo(12, 0);
    let forms: Vec<_> = [0, 15, 100, 400, 1000, 40_000]
        .map(|n| {
            let found = build(&geo, &numbered(n));
            (found.blocks, found.leaves.len())
        })
        .to_vec();
    assert_eq!(forms[0], ([0, 0, 0], 0));
    assert_eq!(forms[1], ([0, 0, 0], 0));
    assert_eq!(forms[2], ([1, 0, 0], 0));
    assert_eq!(forms[3].0[1..], [1, 0], "a leaf");
    assert_eq!(forms[4].0[1..], [3, 1], "a root over two leaves");
    assert_eq!(forms[5].0[1..], [81, 1], "a root over 80 leaves");
}

#[test]
fn forms_change_exactly_where_they_are_full() {
    for (blocklog, dirblklog) in [(10, 0), (10, 2), (12, 0)] {
        let geo = testing::geo(blocklog, dirblklog);
        let list = numbered(700);
        for count in 0..list.len() {
            build(&geo, &list[..count]);
        }
    }
}

#[test]
fn directory_blocks_of_all_sizes_and_deep_trees() {
    for (blocklog, dirblklog) in [(10, 0), (10, 6), (12, 4), (13, 1), (16, 0)] {
        let geo = testing::geo(blocklog, dirblklog);
        for count in [10, 3000, 30_000] {
            build(&geo, &numbered(count));
        }
    }
    let found = build(&testing::geo(10, 0), &numbered(100_000));
    assert_eq!(found.leaves.len(), 834);
    assert_eq!(found.blocks[1], 834 + 7 + 1, "three levels");
    assert!(found.blocks[2] > 5, "several blocks of the free index");
}

#[test]
fn names_of_one_hash_fill_several_leaves() {
    let list: Vec<_> = testing::colliding(3000).collect();
    let found = build(&testing::geo(12, 0), &list);
    assert_eq!(found.leaves.len(), 6);
}

#[test]
fn wide_inode_numbers_leave_the_short_form_earlier() {
    let geo = testing::geo(12, 0);
    let list = numbered(15);
    let mut entries = names(&list);
    let short = |entries: &[NewEntry<'_>]| {
        let plan = DirPlan::new(&geo, INO, PARENT, entries.to_vec(), 336).unwrap();
        matches!(plan, DirPlan::Short(_))
    };
    assert!(short(&entries));
    entries[3].ino = testing::wide_ino(&geo);
    assert!(!short(&entries));
}

#[test]
fn bad_names_are_refused() {
    let geo = testing::geo(12, 0);
    let refuse = |list: &[&[u8]]| {
        let list: Vec<Vec<u8>> = list.iter().map(|name| name.to_vec()).collect();
        DirPlan::new(&geo, INO, PARENT, names(&list), 336).err()
    };
    assert_eq!(refuse(&[b"a", b""]), Some(PlanError::Name(1)));
    assert_eq!(refuse(&[b"."]), Some(PlanError::Name(0)));
    assert_eq!(refuse(&[b"a/b"]), Some(PlanError::Name(0)));
    assert_eq!(refuse(&[&[b'x'; 256]]), Some(PlanError::Name(0)));
    assert_eq!(refuse(&[b"x", b"a", b"y", b"a"]), Some(PlanError::Duplicate(1, 3)));
    let twins: Vec<_> = testing::colliding(2).collect();
    assert_eq!(refuse(&[&twins[0], &twins[1]]), None, "one hash, two names");
}
