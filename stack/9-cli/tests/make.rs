//! `mkfs`, checked by `check`, `xfs_repair -n` and the kernel.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::common::{Bench, begin, ended, expect, feed, json, shown, signal};
use xfskit_test_support::{Image, Scratch, verify};

#[test]
fn a_new_image_is_made_when_its_size_is_given() {
    let bench = Bench::new();
    for (name, args) in [
        ("plain.img", &["--size", "300M"][..]),
        ("option.img", &["-d", "size=1g", "-L", "data"]),
        ("small.img", &["--size", "16M"]),
        ("blocks.img", &["--size", "400M", "-b", "size=1k", "-n", "size=8k", "-i", "size=512"]),
    ] {
        let path = bench.path(name);
        let image = shown(&path);
        let made = expect(0, &[&["mkfs"], args, &[image.as_str()]].concat());
        assert!(made.stdout.starts_with("meta-data="), "{}", made.stdout);
        expect(0, &["check", &image]);
        verify::file(&path).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(expect(0, &["ls", &image]).stdout, "");
        // Existing contents are not overwritten without --force.
        assert!(expect(2, &["mkfs", &image]).stderr.contains("use -f"));
        expect(0, &["mkfs", "-q", "-f", &image]);
    }
    assert_eq!(json(&["mkfs", "-f", "--json", &shown(&bench.path("plain.img"))]).len(), 1);
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = Bench::new();
    let path = bench.path("none.img");
    let run = expect(0, &["mkfs", "-N", "--size", "500T", &shown(&path)]);
    assert!(run.stdout.contains("agcount=500") && !path.exists());
    let there = bench.file("there.img", &vec![7; 64 << 20]);
    expect(0, &["mkfs", "-N", &shown(&there)]);
    assert!(fs::read(&there).unwrap().iter().all(|&b| b == 7));
}

#[test]
fn the_same_uuid_gives_volumes_that_differ_only_in_time() {
    let bench = Bench::new();
    let make = |name: &str| {
        let path = bench.path(name);
        let image = shown(&path);
        let uuid = "uuid=e7b49a86-7a1b-4c5f-9a53-0a5fbe0e1c1f";
        expect(0, &["mkfs", "-q", "-m", uuid, "--size", "300M", &image]);
        verify::file(&path).unwrap();
        json(&["inspect", "--json", &image, "sb", "0"])
    };
    assert_eq!(make("a.img"), make("b.img"));
}

#[test]
fn features_that_a_target_does_not_support_are_left_out_and_named() {
    let bench = Bench::new();
    let path = bench.path("boot.img");
    let image = shown(&path);
    let run = expect(0, &["mkfs", "--target", "linux-5.4,grub-2.04", "--size", "300M", &image]);
    assert!(run.stderr.contains("bigtime is left out for linux-5.4"), "{}", run.stderr);
    verify::file(&path).unwrap();
    let readers = json(&["info", "--compat", "--json", &image]);
    let access =
        |target: &str| readers.iter().find(|v| v["target"] == target).unwrap()["access"].clone();
    assert_eq!(
        (access("linux-5.4"), access("grub-2.04")),
        ("read-write".into(), "read-only".into())
    );
    let unknown = expect(2, &["mkfs", "--target", "linux-9", "--size", "300M", "x.img"]);
    assert!(unknown.stderr.contains("linux-6.18"), "{}", unknown.stderr);
}

#[test]
fn memory_holds_a_volume_of_any_size() {
    expect(0, &["mkfs", "-q", "mem:500T"]);
    expect(0, &["mkfs", "-q", "--size", "100T", "mem:500T"]);
    expect(2, &["mkfs", "-q", "mem:1M"]);
}

#[test]
fn an_external_log_is_made_and_read() {
    let scratch = Scratch::new("external");
    let both = Image::sparse(&scratch, "data.img", 0).with_external_log(64 << 20);
    let (data, log) = (shown(both.path()), shown(both.log().unwrap()));
    expect(0, &["mkfs", "-q", "-f", "-l", &format!("logdev={log}"), "--size", "300M", &data]);
    expect(0, &["ls", "--logdev", &log, &data]);
    expect(0, &["check", "--logdev", &log, &data]);
    assert_eq!(json(&["info", "--json", "--logdev", &log, &data])[0]["journal"]["clean"], true);
    assert!(expect(2, &["log", &data]).stderr.contains("--logdev"));
    expect(0, &["log", "--logdev", &log, &data]);
    verify::volume(&both, &scratch).unwrap();
}

#[test]
fn a_tree_becomes_an_image_as_large_as_necessary() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir_all(tree.join("etc/deep")).unwrap();
    fs::write(tree.join("etc/fstab"), "nothing\n").unwrap();
    fs::write(tree.join("etc/deep/large"), vec![b'x'; 20 << 20]).unwrap();
    fs::hard_link(tree.join("etc/fstab"), tree.join("again")).unwrap();
    std::os::unix::fs::symlink("etc/fstab", tree.join("link")).unwrap();
    let path = bench.path("root.img");
    let (from, image) = (shown(&tree), shown(&path));
    expect(0, &["mkfs", "-N", "--from", &from, &image]);
    assert!(!path.exists());
    for size in [&["--size", "auto", "--free", "30M"][..], &["-f", "--size", "1G"], &["-f"]] {
        let run = json(&[&["mkfs", "--json", "--from", &from], size, &[&image]].concat());
        assert_eq!(run[0]["inodes"], 6);
        assert!(run[0]["free_bytes"].as_u64().unwrap() >= 30 << 20);
        expect(0, &["check", &image]);
        verify::file(&path).unwrap();
        assert_eq!(expect(0, &["cat", &image, "/again"]).stdout, "nothing\n");
        assert_eq!(json(&["stat", "--json", &image, "/etc/fstab"])[0]["nlink"], 2);
    }
    let small = shown(&bench.path("small.img"));
    let refused = expect(2, &["mkfs", "--from", &from, "--size", "33M", &small]);
    assert!(refused.stderr.contains("--size auto"), "{}", refused.stderr);
    assert!(!bench.path("small.img").exists());
}

/// Runs `tar`. Returns false, and prints a note, if it is not installed.
fn tar(args: &[&str]) -> bool {
    let done = Command::new("tar").args(args).status().is_ok_and(|status| status.success());
    if !done {
        eprintln!("skipped: tar {} did not work here", args[0]);
    }
    done
}

/// Makes a directory with all kinds of files that need no privilege.
fn tree(bench: &Bench, name: &str) -> String {
    let tree = bench.path(name);
    fs::create_dir_all(tree.join("etc/deep/deeper")).unwrap();
    for n in 0..300 {
        fs::write(tree.join(format!("etc/file-{n}")), vec![7; n * 100]).unwrap();
    }
    fs::hard_link(tree.join("etc/file-7"), tree.join("again")).unwrap();
    std::os::unix::fs::symlink("etc/file-1", tree.join("link")).unwrap();
    shown(&tree)
}

const UUID: &str = "0b0c0d0e-0102-4304-8506-070809aabbcc";

#[test]
fn a_tree_gives_the_same_bytes_from_every_archive_and_on_any_number_of_threads() {
    let bench = Bench::new();
    let from = tree(&bench, "tree");
    let path = bench.path("v.img");
    let image = shown(&path);
    let make = |args: &[&str], input: &[u8]| {
        let all = ["mkfs", "-q", "-f", "--uuid", UUID, "--size", "300M", &image];
        feed(0, &[&all, args].concat(), input);
        fs::read(&path).unwrap()
    };
    let first = make(&["--from", &from, "--threads", "1"], b"");
    expect(0, &["check", "-q", &image]);
    verify::file(&path).unwrap();
    assert!(make(&["--from", &from, "--threads", "8"], b"") == first, "8 threads");
    for packing in ["", "--gzip", "--zstd", "--xz"] {
        let archive = shown(&bench.path(&format!("a.tar{packing}")));
        let pack = ["-cf", &archive, "--format=pax", "-C", &from, ".", packing];
        let pack = &pack[..if packing.is_empty() { 6 } else { 7 }];
        if !tar(pack) {
            continue;
        }
        assert!(make(&["--from", &archive], b"") == first, "tar {packing}");
        assert!(make(&["--from", "-"], &fs::read(&archive).unwrap()) == first, "standard input");
    }
}

#[test]
fn later_archives_replace_files_and_whiteouts_apply_on_request() {
    let bench = Bench::new();
    let (lower, upper) = (tree(&bench, "lower"), bench.path("upper"));
    fs::create_dir_all(upper.join("etc/deep")).unwrap();
    fs::write(upper.join("etc/file-2"), "new").unwrap();
    for whiteout in ["etc/.wh.file-3", ".wh.link", "etc/deep/.wh..wh..opq"] {
        fs::write(upper.join(whiteout), "").unwrap();
    }
    let archive = shown(&bench.path("upper.tar.gz"));
    if !tar(&["-czf", &archive, "-C", &shown(&upper), "."]) {
        return;
    }
    let image = shown(&bench.path("v.img"));
    let make = ["mkfs", "-q", "-f", "--from", &lower, "--from", &archive, &image];
    expect(0, &make);
    assert_eq!(expect(0, &["ls", &image]).stdout, "again\netc\nlink\n");
    expect(0, &["stat", &image, "/etc/.wh.file-3"]);
    expect(0, &["stat", &image, "/etc/deep/deeper"]);
    expect(0, &[&make[..], &["--whiteouts"]].concat());
    assert_eq!(expect(0, &["ls", &image]).stdout, "again\netc\n");
    expect(1, &["stat", &image, "/etc/file-3"]);
    expect(1, &["stat", &image, "/etc/deep/deeper"]);
    assert_eq!(expect(0, &["cat", &image, "/etc/file-2"]).stdout, "new");
    verify::file(image.as_ref()).unwrap();
}

#[test]
fn owners_and_labels_come_from_files_of_rules() {
    let bench = Bench::new();
    let from = tree(&bench, "tree");
    let owner = fs::metadata(&from).unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&owner);
    let map = bench.file("map", format!("uid {uid} 1000\npath /etc/deep/** 7 8\n").as_bytes());
    let contexts = bench.file("contexts", b"/.* u:object_r:all_t:s0\n/etc/file-1 -- <<none>>\n");
    let image = shown(&bench.path("v.img"));
    let (map, contexts) = (shown(&map), shown(&contexts));
    let rules = ["--owner-map", &map, "--selinux-contexts", &contexts];
    expect(0, &[&["mkfs", "-q", "--from", &from, &image], &rules[..]].concat());
    let uid = |path: &str| json(&["stat", "--json", &image, path])[0]["uid"].clone();
    assert_eq!((uid("/etc/file-1"), uid("/etc/deep/deeper")), (1000.into(), 7.into()));
    verify::file(image.as_ref()).unwrap();
    let label =
        |code, path: &str| expect(code, &["xattr", "get", &image, path, "security.selinux"]);
    assert!(label(0, "/again").stdout.starts_with("u:object_r:all_t:s0"));
    label(1, "/etc/file-1");
    let bad = shown(&bench.file("bad", b"nonsense\n"));
    for option in ["--owner-map", "--selinux-contexts"] {
        let refused = expect(2, &["mkfs", "-f", "--from", &from, option, &bad, &image]);
        assert!(refused.stderr.contains("line 1"), "{}", refused.stderr);
    }
}

#[test]
fn an_unreadable_tree_makes_no_volume() {
    let bench = Bench::new();
    let image = shown(&bench.path("v.img"));
    let junk = shown(&bench.file("junk", &[7; 5000]));
    for args in [["--from", "/nonexistent"], ["--from", &junk], ["--size", "auto"]] {
        expect(2, &[&["mkfs", &image], &args[..]].concat());
    }
    feed(2, &["mkfs", "--from", "-", &image], b"");
    feed(2, &["mkfs", "--from", "-", &image], &[7; 5000]);
    let twice = expect(2, &["mkfs", "--from", "-", "--from", "-", &image]);
    assert!(twice.stderr.contains("once"), "{}", twice.stderr);
    assert!(!bench.path("v.img").exists());
}

#[test]
fn free_is_refused_unless_the_tree_decides_the_size() {
    let bench = Bench::new();
    let tree = tree(&bench, "tree");
    let there = bench.file("there.img", &vec![7; 64 << 20]);
    let (missing, there_name) = (bench.path("missing.img"), shown(&there));
    let missing_name = shown(&missing);
    for args in [
        &["--size", "1G", &missing_name][..],
        &["-d", "agsize=64m", &missing_name],
        &["-f", &there_name],
    ] {
        let run = expect(2, &[&["mkfs", "--from", &tree, "--free", "30M"], args].concat());
        let said = run.stderr.contains("--free 30M: the size of the volume is given");
        assert!(said && run.stderr.contains("--size auto"), "{}", run.stderr);
    }
    assert!(!missing.exists() && fs::read(&there).unwrap().iter().all(|&b| b == 7));
    // A missing image without a size is as large as the tree needs.
    expect(0, &["mkfs", "-q", "--from", &tree, "--free", "30M", &missing_name]);
    verify::file(&missing).unwrap();
}

#[test]
fn signals_remove_an_unfinished_image() {
    let bench = Bench::new();
    let image = shown(&bench.path("v.img"));
    let archive = shown(&bench.path("a.tar"));
    if !tar(&["-cf", &archive, "-C", &tree(&bench, "tree"), "."]) {
        return;
    }
    let args = ["mkfs", "--from", "-", &image];
    for name in ["INT", "TERM", "HUP", "QUIT"] {
        let mut child = begin(&args);
        let mut input = child.stdin.take().unwrap();
        // More than the pipe holds, so the command has read when this is written.
        input.write_all(&fs::read(&archive).unwrap()[..1 << 20]).unwrap();
        signal(&child, name);
        // The writer at the other end need neither write more nor close the pipe.
        assert!(ended(130, child, &args).contains("stopped"));
        drop(input);
        assert!(!bench.path("v.img").exists(), "{name}");
    }
}

#[test]
fn an_unfinished_image_is_removed_unless_keep_is_given() {
    // Files there are shorter than their size.
    let source = "/sys/kernel/mm/transparent_hugepage";
    if !Path::new(source).exists() {
        eprintln!("skipped: no {source}");
        return;
    }
    let bench = Bench::new();
    let path = bench.path("half.img");
    let image = shown(&path);
    let failed = expect(2, &["mkfs", "--strict", "--from", source, "--size", "300M", &image]);
    assert!(failed.stderr.contains("changed") && !path.exists(), "{}", failed.stderr);
    expect(2, &["mkfs", "--strict", "--keep", "--from", source, "--size", "300M", &image]);
    let refused = expect(2, &["ls", &image]);
    assert!(path.exists() && refused.stderr.contains("inprogress"), "{}", refused.stderr);
    // An image that existed before stays, marked as unfinished.
    expect(2, &["mkfs", "-f", "--strict", "--from", source, &image]);
    assert!(path.exists());
}
