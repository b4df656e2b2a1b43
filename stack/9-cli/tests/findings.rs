//! The output of `check` for many findings: the first ones, a number for the others, and paths.

use std::fs;

use crate::common::{self, Bench, damage_inode, expect, objects, shown, xfskit};

/// Number of findings of one check that are printed.
const SHOWN: usize = 64;

#[test]
fn findings_that_repeat_are_folded_and_inodes_have_paths() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..SHOWN + 6 {
        fs::write(tree.join(number.to_string()), "").unwrap();
    }
    let image = bench.path("volume.img");
    expect(0, &["mkfs", "-q", "--from", &shown(&tree), &shown(&image)]);
    let inos: Vec<u64> =
        (0..SHOWN + 6).map(|number| damage_inode(&image, &format!("/{number}"))).collect();
    let lines = |run: &common::Run, end: &str| {
        run.stdout.lines().filter(|line| line.ends_with(end)).count()
    };

    let run = expect(1, &["check", "-t", "1", &shown(&image)]);
    assert_eq!(lines(&run, "[inode.crc]"), SHOWN, "{}", run.stdout);
    assert!(run.stdout.contains("and 6 more [inode.crc]: --all shows each\n"), "{}", run.stdout);
    assert!(run.stdout.contains(&format!("  inode {} is /0\n", inos[0])), "{}", run.stdout);

    let run = expect(1, &["check", "--all", &shown(&image)]);
    assert_eq!(lines(&run, "[inode.crc]"), inos.len());
    assert!(!run.stdout.contains(" more ["), "{}", run.stdout);

    let found = objects(&xfskit(&["check", "--json", &shown(&image)]));
    let with_path = |ino: u64, path: &str| {
        found.iter().any(|object| object["inode"] == ino && object["path"] == path)
    };
    assert!(inos.iter().enumerate().all(|(number, ino)| with_path(*ino, &format!("/{number}"))));
}

#[test]
fn blocks_with_two_owners_have_both_named() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), [7; 4096]).unwrap();
    let image = bench.path("volume.img");
    expect(0, &["mkfs", "-q", "--from", &shown(&tree), &shown(&image)]);
    let (ino, offset) = common::inode_at(&image, "/file");
    let start = usize::try_from(offset).unwrap();
    let mut inode = fs::read(&image).unwrap()[start..start + 512].to_vec();
    // The file's only extent becomes block 1 of the first group, the root of its bnobt.
    inode[176..192].copy_from_slice(&(1u128 << 21 | 1).to_be_bytes());
    xfskit_crc::update(&mut inode, 100);
    common::damage(&image, offset, &inode);
    let run = expect(1, &["check", &shown(&image)]);
    assert!(run.stdout.contains("[block.claimed-twice]"), "{}", run.stdout);
    assert!(run.stdout.contains("  block 0:1 is of bnobt\n"), "{}", run.stdout);
    let file = format!("  block 0:1 is of inode {ino} data 0 /file\n");
    assert!(run.stdout.contains(&file), "{}", run.stdout);
    let runs = objects(&expect(0, &["blocks", "--scan", "--json", &shown(&image), "0:1"]));
    assert_eq!(runs.len(), 2, "{runs:?}");
}
