//! The commands that read, on volumes that the kernel filled.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use crate::common::{Bench, expect, json, shown, xfskit};

/// Runs `test` on volumes with the same tree: version 5, with small blocks, without any optional
/// feature, and version 4.
fn on_all(test: impl Fn(&str)) {
    let bench = Bench::new();
    for name in ["v5", "v5-1k", "v5-plain", "v4"] {
        test(&shown(&bench.kept(name)));
    }
}

/// The time of the last change of `/sf/a`, to the nanosecond. (The guest that made version 4 has
/// another time.)
fn mtime_of_a(image: &str) -> (i64, i64) {
    if image.contains("v4") { (1_795_255_667, 443_999_889) } else { (-315_521_755, 123_456_789) }
}

#[test]
fn ls_lists_names_sorted() {
    on_all(|image| {
        let run = expect(0, &["ls", image, "/sf"]);
        assert_eq!(run.stdout, "a\nb\n");
        let all = expect(0, &["ls", image, "/node"]);
        assert_eq!(all.stdout.lines().count(), 1400);
        assert!(all.stdout.lines().is_sorted());
    });
}

#[test]
fn ls_long_reads_like_coreutils() {
    on_all(|image| {
        let run = expect(0, &["ls", "-l", image, "/"]);
        let line = |name: &str| {
            let line = run.stdout.lines().find(|l| l.split(' ').any(|word| word == name));
            line.unwrap_or_else(|| panic!("{name} in\n{}", run.stdout)).to_owned()
        };
        assert!(line("attr-sf").starts_with("-rwsr-xr-x"));
        assert!(line("char").starts_with("crw-r--r--") && line("char").contains(" 5, 300 "));
        assert!(line("block").starts_with("drwxr-xr-x 2 1000"));
        assert!(line("symlink").ends_with(" symlink -> short"));
        let old = expect(0, &["ls", "-l", "--full-time", image, "/sf/a"]).stdout;
        let then = format!(".{:09} +0000 /sf/a", mtime_of_a(image).1);
        assert!(old.trim_end().ends_with(&then), "{old}");
    });
}

#[test]
fn ls_recursive_is_one_object_per_file_with_json() {
    on_all(|image| {
        let lines = json(&["ls", "-lR", "--json", image]);
        let tree = json(&["tree", "--json", image]);
        assert_eq!(lines.len() + 1, tree.len(), "tree names the root, ls -R does not");
        let hole = lines.iter().find(|l| l["path"] == "/hole").unwrap();
        assert_eq!(hole["size"], (1 << 20) + 4);
        assert_eq!(hole["type"], "regular");
    });
}

#[test]
fn stat_prints_all_metadata_of_one_file() {
    on_all(|image| {
        let stat = &json(&["stat", "--json", "--extents", image, "/fragmented"])[0];
        let extents = stat["extents"].as_array().unwrap();
        assert_eq!(stat["nextents"], extents.len());
        assert!(extents.len() > 200);
        let link = &json(&["stat", "--json", image, "/symlink-remote"])[0];
        assert_eq!(link["target"].as_str().unwrap().len(), 900);
        let text = expect(0, &["stat", image, "/char"]).stdout;
        assert!(text.contains("character special file  Device: 5, 300"), "{text}");
        assert_eq!(expect(1, &["stat", image, "/sf/none"]).stdout, "");
    });
}

#[test]
fn cat_prints_content_with_holes_as_zeroes() {
    on_all(|image| {
        assert_eq!(expect(0, &["cat", image, "/sf/a"]).stdout, "hello\n");
        let hole = expect(0, &["cat", image, "/hole"]).bytes;
        assert_eq!(hole.len(), (1 << 20) + 4);
        assert!(hole.ends_with(b"\0end\n") && hole[..1 << 20].iter().all(|&b| b == 0));
        let tail = expect(0, &["cat", "--offset", "1M", "--length", "3", image, "/hole"]);
        assert_eq!(tail.stdout, "end");
        let piece = &json(&["cat", "--json", image, "/sf/b"])[0];
        assert_eq!(piece["data"], "d29ybGQK");
    });
}

#[test]
fn xattrs_have_the_names_that_programs_use() {
    on_all(|image| {
        let list = expect(0, &["xattr", "list", image, "/attr-sf"]).stdout;
        assert_eq!(list, "trusted.t=\"w\"\nuser.k=\"v\"\n");
        assert_eq!(json(&["xattr", "list", "--json", image, "/attr-node"]).len(), 300);
        let big = expect(0, &["xattr", "get", image, "/attr-remote", "user.big"]);
        assert_eq!(big.stdout, "r".repeat(10_000));
        let none = expect(1, &["xattr", "get", image, "/attr-sf", "user.none"]);
        assert!(none.stderr.contains("no attribute user.none"));
    });
}

#[test]
fn find_finds_by_every_condition() {
    on_all(|image| {
        let found = |args: &[&str]| {
            let mut lines: Vec<String> = expect(0, &[&["find", image], args].concat())
                .stdout
                .lines()
                .map(String::from)
                .collect();
            lines.sort();
            lines
        };
        assert_eq!(found(&["--name", "symlink*"]), ["/symlink", "/symlink-remote"]);
        assert_eq!(found(&["--type", "b,c,p"]), ["/block-device", "/char", "/fifo"]);
        assert!(found(&["--size", "+1M"]).contains(&"/fragmented".to_owned()));
        assert_eq!(found(&["--uid", "1000"]), ["/block"]);
        assert_eq!(found(&["--xattr", "trusted.*"]), ["/attr-sf"]);
        let old = !image.contains("v4");
        assert_eq!(found(&["--mtime", "+10000"]).contains(&"/sf/a".to_owned()), old);
        assert_eq!(found(&["--path-glob", "/sf/*"]), ["/sf/a", "/sf/b"]);
        assert_eq!(found(&[]).len(), json(&["tree", "--json", image]).len());
    });
}

#[test]
fn df_and_info_agree_with_the_counters() {
    on_all(|image| {
        let usage = &json(&["df", "--json", image])[0];
        let info = &json(&["info", "--json", image])[0];
        assert_eq!(usage, &info["usage"]);
        assert_eq!(info["journal"]["clean"], true);
        let text = expect(0, &["info", image]).stdout;
        assert!(text.starts_with("meta-data=") && text.contains("journal   clean"), "{text}");
        assert!(expect(0, &["df", "-h", image]).stdout.contains("Use%"));
        let stats = &json(&["stats", "--json", image])[0];
        assert_eq!(usage, &stats["volume"]);
        let of_groups = |field: &str| {
            let groups = stats["groups"].as_array().unwrap();
            groups.iter().map(|group| group[field].as_u64().unwrap()).sum::<u64>()
        };
        let used = of_groups("inodes") - of_groups("inodes_free");
        assert_eq!(used, usage["inodes_used"].as_u64().unwrap());
        assert!(of_groups("inodes") <= usage["inodes"].as_u64().unwrap());
        assert!(expect(0, &["stats", image]).stdout.contains("buffers"));
    });
}

#[test]
fn bulkstat_counts_what_the_superblock_counts() {
    on_all(|image| {
        let used = json(&["df", "--json", image])[0]["inodes_used"].as_u64().unwrap();
        assert_eq!(json(&["bulkstat", "--internal", "--json", image]).len() as u64, used);
        // Without the bitmap and the summary of realtime space, which no directory names.
        assert_eq!(json(&["bulkstat", "--json", image]).len() as u64, used - 2);
        let counts = json(&["bulkstat", "--internal", "--count", "--json", image]);
        let total: u64 = counts.iter().map(|c| c["count"]["inodes"].as_u64().unwrap()).sum();
        assert_eq!(total, used);
    });
}

#[test]
fn a_journal_is_recovered_or_with_dry_run_only_printed() {
    let bench = Bench::new();
    let path = bench.kept("intents-exchange");
    let image = shown(&path);
    let before = std::fs::read(&path).unwrap();
    let dry = expect(0, &["recover", "--dry-run", &image]).stdout;
    assert!(
        dry.contains("9 changes that were begun") && dry.contains("Nothing was written"),
        "{dry}"
    );
    assert!(std::fs::read(&path).unwrap() == before);
    let done = json(&["recover", "--json", &image]);
    assert_eq!(done[0]["written"], true);
    assert_eq!(done[0]["finished"], 9);
    expect(0, &["check", &image]);
    assert!(expect(0, &["recover", &image]).stdout.contains("nothing to recover"));
    assert_eq!(json(&["recover", "-n", "--json", &image])[0]["clean"], true);
}

#[test]
fn a_dirty_journal_is_replayed_in_memory_only() {
    let bench = Bench::new();
    let path = bench.kept("v5-dirty");
    let (before, image) = (fs::read(&path).unwrap(), shown(&path));
    assert_eq!(expect(0, &["cat", &image, "/sf/a"]).stdout, "hello\n");
    assert_eq!(json(&["info", "--json", &image])[0]["journal"]["clean"], false);
    assert!(expect(0, &["df", &image]).stderr.contains("note: the journal was replayed in memory"));
    // The blocks in place already differ from those in the journal.
    let bare = xfskit(&["ls", "--norecovery", &image, "/"]);
    assert_ne!(bare.stdout, expect(0, &["ls", &image, "/"]).stdout);
    assert!(fs::read(&path).unwrap() == before, "the image was written to");
}

/// Copies all of a volume out. A filesystem with smaller attributes than XFS cannot hold all of
/// them: the exit code is 1, and nothing else is reported.
fn get_all(image: &str, dest: &str) {
    let run = xfskit(&["get", image, "/", dest]);
    let left_out = |line: &str| line.contains("attributes (too large for the destination)");
    let only_that = run.stderr.lines().all(|line| left_out(line) || line.contains("note: "));
    assert!(run.code == 0 || (run.code == 1 && run.stderr.lines().any(left_out)), "{}", run.stderr);
    assert!(only_that, "{}", run.stderr);
}

#[test]
fn get_copies_a_tree_with_all_metadata() {
    on_all(|image| {
        let bench = Bench::new();
        let dest = bench.path("copy");
        get_all(image, &shown(&dest));
        let meta = |name: &str| fs::symlink_metadata(dest.join(name)).unwrap();
        assert_eq!(fs::read(dest.join("sf/a")).unwrap(), b"hello\n");
        assert_eq!((meta("sf/a").mtime(), meta("sf/a").mtime_nsec()), mtime_of_a(image));
        assert_eq!(meta("sf/a").ino(), meta("leaf/link-number-1").ino(), "a hard link");
        assert!(meta("hole").blocks() < 64, "a hole stays one: {} blocks", meta("hole").blocks());
        assert_eq!(fs::read(dest.join("fragmented")).unwrap().len(), 400 * 4096 + 4);
        assert_eq!(fs::read_link(dest.join("symlink")).unwrap().to_str(), Some("short"));
        assert_eq!(meta("attr-sf").mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(dest.join("node")).unwrap().count(), 1400);
        if rustix::process::geteuid().is_root() {
            assert_eq!((meta("block").uid(), meta("block").gid()), (1000, 100));
            assert_eq!(meta("attr-sf").mode() & 0o7777, 0o4755);
            assert_eq!(meta("char").rdev(), rustix::fs::makedev(5, 300));
        }
        // An existing destination is refused, and nothing is changed.
        let again = expect(2, &["get", image, "/", &shown(&dest)]);
        assert!(again.stderr.contains("not an empty directory"), "{}", again.stderr);
    });
}

#[test]
fn get_copies_one_file_and_fills_an_empty_directory() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    expect(0, &["get", "-q", &image, "/sf/b", &shown(&bench.path("b"))]);
    assert_eq!(fs::read(bench.path("b")).unwrap(), b"world\n");
    fs::create_dir(bench.path("empty")).unwrap();
    expect(0, &["get", "-q", &image, "/sf", &shown(&bench.path("empty"))]);
    assert_eq!(fs::read(bench.path("empty/a")).unwrap(), b"hello\n");
    // A symbolic link in the way is not followed.
    symlink(bench.path("b"), bench.path("link")).unwrap();
    expect(2, &["get", &image, "/sf/a", &shown(&bench.path("link"))]);
    assert_eq!(fs::read(bench.path("b")).unwrap(), b"world\n");
}

#[test]
fn get_as_tar_is_what_gnu_tar_unpacks_to_the_same_tree() {
    on_all(|image| {
        let bench = Bench::new();
        let (tree, unpacked) = (bench.path("tree"), bench.path("unpacked"));
        get_all(image, &shown(&tree));
        let archive = expect(0, &["get", image, "/", "-"]).bytes;
        let file = bench.file("all.tar", &archive);
        fs::create_dir(&unpacked).unwrap();
        let mut tar = std::process::Command::new("tar");
        tar.args(["--xattrs", "--xattrs-include=*", "-p", "-xf"])
            .arg(file)
            .arg("-C")
            .arg(&unpacked);
        let Ok(output) = tar.output() else { return eprintln!("skipped: no tar here") };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let diff = std::process::Command::new("diff")
            .args(["-r", "--no-dereference"])
            .args([&tree, &unpacked])
            .output()
            .unwrap();
        // diff cannot compare devices and pipes, and says so.
        let said = String::from_utf8_lossy(&diff.stdout).into_owned();
        let special =
            |line: &&str| ["/fifo ", "/char ", "/block-device "].iter().any(|s| line.contains(s));
        let different: Vec<&str> = said.lines().filter(|line| !special(line)).collect();
        assert!(different.is_empty(), "{different:#?}");
        let meta = |name: &str| fs::symlink_metadata(unpacked.join(name)).unwrap();
        assert_eq!(meta("sf/a").mtime_nsec(), mtime_of_a(image).1);
        assert_eq!(meta("sf/a").ino(), meta("leaf/link-number-1").ino());
        assert!(meta("hole").blocks() < 64);
    });
}

#[test]
fn completions_and_pages_come_from_the_grammar() {
    assert!(expect(0, &["completions", "bash"]).stdout.contains("bulkstat"));
    let bench = Bench::new();
    expect(0, &["man", &shown(&bench.path("man"))]);
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    let mut names: Vec<_> =
        fs::read_dir(bench.path("man")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    for name in &names {
        let fresh = fs::read_to_string(bench.path("man").join(name)).unwrap();
        let page = fs::read_to_string(kept.join(name)).unwrap_or_default();
        assert!(fresh == page, "docs/man/{} is old: run `xfskit man docs/man`", name.display());
    }
    assert_eq!(fs::read_dir(kept).unwrap().count(), names.len(), "docs/man has a page too many");
}

#[test]
fn targets_lists_the_volumes_of_an_image() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    assert_eq!(json(&["targets", "--json", &image])[0]["xfs"], true);
    let empty = shown(&bench.file("empty", &[0; 4096]));
    assert!(expect(1, &["targets", &empty]).stderr.contains("note: neither"));
}

#[test]
fn inspect_decodes_structures_with_the_names_of_xfs_db() {
    on_all(|image| {
        let text = expect(0, &["inspect", image, "agf", "1"]).stdout;
        assert!(text.contains("seqno = 1\n") && text.contains("flcount = "), "{text}");
        let sb = &json(&["inspect", "--json", image, "sb", "0"])[0];
        assert_eq!(sb["magicnum"], 0x5846_5342);
        let ino = json(&["stat", "--json", image, "/attr-sf"])[0]["ino"].to_string();
        let inode = expect(0, &["inspect", image, "inode", &ino]).stdout;
        assert!(inode.contains("core.mode = 0104755"), "{inode}");
        for wrong in [&["agf", "99"][..], &["agf"], &["nonsense", "1"]] {
            expect(2, &[&["inspect", image], wrong].concat());
        }
    });
}

#[test]
fn log_prints_the_journal() {
    let bench = Bench::new();
    let clean = shown(&bench.kept("v5"));
    assert!(expect(0, &["log", &clean]).stdout.contains("state clean"));
    let dirty = shown(&bench.kept("v5-dirty"));
    let text = expect(0, &["log", &dirty]).stdout;
    assert!(text.contains("state dirty") && text.lines().count() > 100, "{text}");
    let told: serde_json::Value =
        serde_json::from_str(&expect(0, &["log", "--json", &dirty]).stdout).unwrap();
    assert_eq!(told["log"]["state"], "dirty");
    for view in ["records", "operations", "transactions"] {
        expect(0, &["log", "--all", "--show", view, &clean]);
    }
    expect(2, &["log", "--show", "nothing", &clean]);
}

#[test]
fn info_compat_lists_readers_and_what_stops_the_others() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let readers = json(&["info", "--compat", "--json", &image]);
    let of = |target: &str| readers.iter().find(|v| v["target"] == target).unwrap();
    assert_eq!(of("linux-6.12")["access"], "read-write");
    assert_eq!(of("linux-5.4")["access"], "no");
    let text = expect(0, &["info", "--compat", &image]).stdout;
    assert!(text.contains("grub-2.06") && text.contains("nrext64: known since"), "{text}");
}
