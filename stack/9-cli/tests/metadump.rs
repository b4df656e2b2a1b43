//! `metadump` and `restore`: files, streams, and refusals that say what to do next.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{Bench, damage, expect, json, shown};

/// Returns the names in the root directory.
fn names(image: &str) -> Vec<String> {
    let listed = expect(0, &["ls", image, "/"]).stdout;
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn a_file_becomes_an_image_with_other_names() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let (file, copy) = (shown(&bench.path("a.metadump")), shown(&bench.path("copy.img")));
    let report = json(&["metadump", "--json", &image, &file]).pop().unwrap();
    assert_eq!(report["content"]["obfuscated"], true);
    assert_eq!(report["journal"], "cleared");
    assert_eq!(report["warnings"].as_array().unwrap().len(), 0);
    let info = json(&["restore", "--json", "--info", &file]).pop().unwrap();
    assert_eq!(info["content"], report["content"]);
    expect(0, &["restore", &file, &copy]);
    expect(0, &["check", &copy]);
    let (before, after) = (names(&image), names(&copy));
    assert_eq!(before.len(), after.len());
    assert_ne!(before, after);

    // Nothing that exists is overwritten unasked.
    assert!(expect(2, &["metadump", &image, &file]).stderr.contains("--force"));
    assert!(expect(2, &["restore", &file, &copy]).stderr.contains("--force"));
    expect(0, &["metadump", "--force", "--no-obfuscate", &image, &file]);
    expect(0, &["restore", "--force", &file, &copy]);
    assert_eq!(names(&copy), before);
}

#[test]
fn a_stream_is_restored_as_it_comes() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v4"));
    let copy = shown(&bench.path("copy.img"));
    let mut dump = Command::new(env!("CARGO_BIN_EXE_xfskit"))
        .args(["metadump", "-o", &image, "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let restored = Command::new(env!("CARGO_BIN_EXE_xfskit"))
        .args(["restore", "-", &copy])
        .stdin(dump.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(dump.wait().unwrap().success() && restored.success());
    expect(0, &["check", &copy]);
    assert_eq!(names(&image), names(&copy));
    let refused = expect(2, &["metadump", "--json", &image, "-"]);
    assert!((refused.stderr + &refused.stdout).contains("standard output"));
    assert!(expect(2, &["restore", &image, "-"]).stderr.contains("cannot be a stream"));
}

#[test]
fn a_dirty_journal_is_replayed_and_the_volume_stays() {
    let bench = Bench::new();
    let path = bench.kept("v5-dirty");
    let image = shown(&path);
    let before = fs::read(&path).unwrap();
    let (file, copy) = (shown(&bench.path("a.metadump")), shown(&bench.path("copy.img")));
    assert!(expect(0, &["metadump", &image, &file]).stdout.contains("replayed in memory"));
    expect(0, &["restore", &file, &copy]);
    assert!(!expect(0, &["check", &copy]).stdout.contains("replay"));
    let run = expect(0, &["metadump", "--force", "--journal", "copy", &image, &file]);
    assert!(run.stderr.contains("clear names"), "{}", run.stderr);
    expect(0, &["restore", "--force", &file, &copy]);
    assert!(expect(0, &["check", "--norecovery", &copy]).stdout.contains("log.dirty"));
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_lost_superblock_does_not_hinder_a_copy() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    damage(&path, 0, &[0; 512]);
    let (file, copy) = (shown(&bench.path("a.metadump")), shown(&bench.path("copy.img")));
    let run = expect(0, &["metadump", &shown(&path), &file]);
    assert!(run.stderr.contains("stands in its place"), "{}", run.stderr);
    expect(0, &["restore", &file, &copy]);
    expect(0, &["ls", &copy, "/"]);
}

#[test]
fn refusals_leave_no_file() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let (file, copy) = (bench.path("a.metadump"), bench.path("copy.img"));
    let text = shown(&bench.file("text", b"this is no volume, and no metadump either"));
    expect(2, &["metadump", &text, &shown(&file)]);
    assert!(!file.exists());
    let run = expect(2, &["metadump", "--journal", "omit", &image, &shown(&file)]);
    assert!(run.stderr.contains("not supported") && !file.exists(), "{}", run.stderr);
    assert!(expect(2, &["restore", &text, &shown(&copy)]).stderr.contains("no metadump"));
    assert!(!copy.exists());
    expect(0, &["metadump", &image, &shown(&file)]);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let run = expect(2, &["restore", &shown(&file), &shown(&copy)]);
    assert!(run.stderr.contains("--partial") && !copy.exists(), "{}", run.stderr);
    expect(1, &["restore", "--partial", &shown(&file), &shown(&copy)]);
    assert!(copy.exists());
}

#[test]
fn a_volume_or_a_file_is_not_overwritten_by_its_own_copy() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let (image, before) = (shown(&path), fs::read(&path).unwrap());
    let link = shown(&bench.path("link.img"));
    fs::hard_link(&path, &link).unwrap();
    for file in [&image, &link] {
        let refused = expect(2, &["metadump", "--force", &image, file]).stderr;
        assert!(refused.contains("is on it"), "{refused}");
    }
    let file = shown(&bench.path("copy.metadump"));
    expect(0, &["metadump", &image, &file]);
    let copy = fs::read(&file).unwrap();
    let refused = expect(2, &["restore", "--force", &file, &file]).stderr;
    assert!(refused.contains("is on it"), "{refused}");
    assert!(fs::read(&path).unwrap() == before && fs::read(&file).unwrap() == copy);
}
