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
