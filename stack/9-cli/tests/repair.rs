//! `xfskit repair` and `xfskit undo`.

use std::fs;
use std::path::{Path, PathBuf};

use xfskit_test_support::verify;

use crate::common::{Bench, damage, expect, inode_at, json, objects, shown};

/// Overwrites AGF, AGI and AGFL of the first group.
fn lose_headers(image: &Path) {
    damage(image, 512, &[0x5a; 3 * 512]);
}

fn undo_file(image: &Path) -> PathBuf {
    PathBuf::from(format!("{}.undo", image.display()))
}

#[test]
fn a_volume_is_repaired_after_its_plan_and_the_repair_taken_back() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let (image, tree) = (shown(&path), expect(0, &["ls", "-lR", &shown(&path), "/"]).bytes);
    lose_headers(&path);
    let damaged = fs::read(&path).unwrap();
    assert!(expect(1, &["check", &image]).stdout.contains("agf.magicnum"));

    let plan = expect(1, &["repair", "-n", &image]).stdout;
    assert!(plan.contains("group.0: make the btrees") && plan.contains("lost: nothing"), "{plan}");
    assert!(plan.contains("nothing was written"), "{plan}");
    let step = expect(0, &["repair", "--explain", "group.0", &image]).stdout;
    assert!(step.contains("[agf.magicnum]") && step.contains("[agi.magicnum]"), "{step}");
    let unknown = expect(2, &["repair", "--explain", "group.7", &image]).stderr;
    assert!(unknown.contains("group.0"), "{unknown}");
    assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists());

    let done = expect(0, &["repair", &image]).stdout;
    assert!(done.contains("repaired") && done.contains("xfskit undo"), "{done}");
    expect(0, &["check", &image]);
    verify::file(&path).expect("a sound volume");
    assert!(expect(0, &["ls", "-lR", &image, "/"]).bytes == tree);
    let again = expect(0, &["repair", &image]).stdout;
    assert!(again.contains("clean, nothing to repair"), "{again}");

    let undo = shown(&undo_file(&path));
    let undone = &json(&["undo", "--json", &undo, &image])[0];
    assert!(undone["bytes"].as_u64().unwrap() > 4096, "{undone}");
    assert!(fs::read(&path).unwrap() == damaged, "as before");

    // A second repair has an undo file of its own, or none.
    expect(0, &["repair", "-q", &image]);
    assert!(PathBuf::from(format!("{undo}.1")).exists());
    expect(0, &["undo", &format!("{undo}.1"), &image]);
    expect(0, &["repair", "--no-undo", &image]);
    assert!(!PathBuf::from(format!("{undo}.2")).exists());
    expect(0, &["check", &image]);
    // Linux writes to it, and the old undo file would destroy that.
    expect(0, &["mkdir", &image, "/later"]);
    let refused = expect(2, &["undo", &undo, &image]);
    assert!(refused.stderr.contains("changed since"), "{}", refused.stderr);
    assert!(expect(0, &["ls", &image, "/"]).stdout.contains("later"));
}

#[test]
fn losses_are_written_only_where_they_are_accepted() {
    let bench = Bench::new();
    // A journal without records has no copy of the root directory.
    let (tree, path) = (bench.path("tree"), bench.path("built.img"));
    let image = shown(&path);
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/file"), "content").unwrap();
    expect(0, &["mkfs", "-q", "--size", "64M", "--from", &shown(&tree), &image]);
    let (_, offset) = inode_at(&path, "/");
    damage(&path, offset, &[0xa5; 256]);
    let damaged = fs::read(&path).unwrap();
    let run = expect(1, &["repair", &image]);
    assert!(run.stdout.contains("make an empty root directory"), "{}", run.stdout);
    assert!(run.stdout.contains("1 losses, which are not accepted"), "{}", run.stdout);
    assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists());
    let report = objects(&expect(1, &["repair", "--json", &image])).pop().unwrap();
    assert!(report["clean"] == true && report["losses"] == 1, "{report}");
    assert_eq!(report["written_bytes"], 0, "{report}");
    expect(0, &["repair", "--accept-loss", "1", &image]);
    verify::file(&path).expect("a sound volume");
    assert!(!expect(0, &["ls", &image, "/lost+found"]).stdout.is_empty());
    expect(0, &["undo", &shown(&undo_file(&path)), &image]);
    assert!(fs::read(&path).unwrap() == damaged);
}

#[test]
fn what_cannot_be_repaired_is_refused_by_name() {
    let bench = Bench::new();
    for (name, why) in [("v4", "version 4"), ("v5-metadir", "metadir"), ("v5-rt", "realtime")] {
        let image = shown(&bench.kept(name));
        let run = expect(2, &["repair", &image]);
        assert!(run.stderr.contains(why) && run.stderr.contains("xfs_repair"), "{}", run.stderr);
    }
    let missing = expect(2, &["repair", &shown(&bench.path("missing"))]);
    assert!(missing.stderr.contains("No such file"), "{}", missing.stderr);
    let junk = shown(&bench.file("junk", &[7; 4096]));
    let run = expect(2, &["repair", &junk]);
    assert!(run.stderr.contains("not an XFS volume"), "{}", run.stderr);
    let image = shown(&bench.kept("v5"));
    let run = expect(2, &["undo", &junk, &image]);
    assert!(run.stderr.contains("no undo file"), "{}", run.stderr);
    let taken = shown(&bench.path("taken"));
    fs::write(&taken, "mine").unwrap();
    lose_headers(Path::new(&image));
    let run = expect(2, &["repair", "--undo-file", &taken, &image]);
    assert!(run.stderr.contains("taken") && run.stderr.contains("--no-undo"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
    assert_eq!(expect(1, &["check", "-q", &image]).code, 1, "still damaged");
}

#[test]
fn a_dirty_journal_is_replayed_first() {
    let bench = Bench::new();
    let path = bench.kept("v5-dirty");
    let image = shown(&path);
    let plan = expect(1, &["repair", "-n", &image]).stdout;
    assert!(plan.contains("journal: replay the journal"), "{plan}");
    expect(0, &["repair", &image]);
    verify::file(&path).expect("a sound volume");
}
