//! Volumes with a realtime device, and with metadata directories: content is right byte for byte,
//! or refused by name before anything is touched.
//!
//! Linux 7.2 made the images in a guest (`tests/images/realtime.sh`). Each file holds its own path,
//! line after line.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{Bench, Run, damage, expect, json, shown, xfskit};

/// Files, and their lengths.
const FILES: [(&str, usize); 3] = [("/a", 5000), ("/sub/b", 100_000), ("/sub/deep/c", 70_001)];
/// Removed files, and their lengths.
const REMOVED: [(&str, usize); 2] = [("/gone", 40_000), ("/sub/gone-too", 5000)];
/// A file of `v5-rt-tree` with its content on the data device.
const ON_DATA: (&str, usize) = ("/on-data", 30_000);
/// The images with such files.
const TREES: [&str; 3] = ["v5-metadir-tree", "v5-rt-tree", "v5-rtgroups"];

/// Returns what Linux wrote to a file.
fn written((path, len): (&str, usize)) -> Vec<u8> {
    format!("{path}\n").into_bytes().into_iter().cycle().take(len).collect()
}

/// Returns true if the copy of `file` below `dir` has its content.
fn is_copied(dir: &Path, file: (&str, usize)) -> bool {
    fs::read(dir.join(&file.0[1..])).is_ok_and(|copy| copy == written(file))
}

/// Expects a refusal that names its reason.
fn refused(args: &[&str], why: &str) -> Run {
    let run = expect(2, args);
    assert!(run.stderr.contains(why), "{}: {}", args.join(" "), run.stderr);
    run
}

#[test]
fn sound_volumes_are_clean() {
    let bench = Bench::new();
    for name in TREES.into_iter().chain(["v5-metadir-quota"]) {
        let path = bench.kept(name);
        let before = fs::read(&path).unwrap();
        let image = shown(&path);
        let run = expect(0, &["check", &image]);
        assert!(run.stdout.contains(": clean\n"), "{}", run.stdout);
        let plan = expect(0, &["repair", "--dry-run", &image]).stdout;
        assert!(plan.contains("clean, nothing to repair"), "{plan}");
        assert!(fs::read(&path).unwrap() == before, "{name}: written");
    }
}

#[test]
fn a_damaged_btree_of_a_realtime_group_is_found() {
    let bench = Bench::new();
    let path = bench.kept("v5-rtgroups");
    let bytes = fs::read(&path).unwrap();
    let blocks = bytes.chunks(4096).enumerate().filter(|(_, block)| block.starts_with(b"MAPR"));
    // One for each group; the journal has older copies behind its headers.
    let offsets: Vec<u64> = blocks.map(|(block, _)| block as u64 * 4096).collect();
    let (&first, &last) = (offsets.first().unwrap(), offsets.last().unwrap());
    assert_ne!(first, last);
    for (offset, byte, id) in
        [(first + 3, b'x', "bmbt.magic"), (first + 63, 0, "bmbt.owner"), (last + 8, 0, "bmbt.crc")]
    {
        let path = bench.kept("v5-rtgroups");
        damage(&path, offset, &[byte]);
        let run = expect(1, &["check", &shown(&path)]);
        assert!(run.stdout.contains("[bmbt."), "{id}: {}", run.stdout);
        let plan = expect(1, &["repair", "--dry-run", &shown(&path)]).stdout;
        assert!(plan.contains("not written yet"), "{id}: {plan}");
    }
}

#[test]
fn content_is_read_or_refused_by_name() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5-metadir-tree"));
    for file in FILES {
        assert!(expect(0, &["cat", &image, file.0]).bytes == written(file), "{}", file.0);
    }
    for name in ["v5-rt-tree", "v5-rtgroups"] {
        let image = shown(&bench.kept(name));
        for (path, _) in FILES {
            let run = refused(&["cat", &image, path], "content on a realtime device");
            assert!(run.bytes.is_empty(), "{name}: {path}");
        }
    }
    let image = shown(&bench.path("v5-rt-tree.img"));
    assert!(expect(0, &["cat", &image, ON_DATA.0]).bytes == written(ON_DATA));
}

#[test]
fn salvage_copies_content_and_names_what_is_elsewhere() {
    let bench = Bench::new();
    for name in TREES {
        let (image, to) = (shown(&bench.kept(name)), bench.path(&format!("{name}-saved")));
        let is_elsewhere = name != "v5-metadir-tree";
        let run = xfskit(&["repair", "--salvage", &shown(&to), &image]);
        assert_eq!(run.code, i32::from(is_elsewhere), "{name}: {}{}", run.stdout, run.stderr);
        for file in FILES {
            let said = format!("damaged: {} (inode ", file.0);
            assert_eq!(run.stdout.contains(&said), is_elsewhere, "{name}: {}", run.stdout);
            assert_eq!(is_copied(&to, file), !is_elsewhere, "{name}: {}", file.0);
        }
    }
    assert!(is_copied(&bench.path("v5-rt-tree-saved"), ON_DATA));
}

#[test]
fn removed_files_are_copied_from_the_device_that_has_them() {
    let bench = Bench::new();
    let metadir = shown(&bench.kept("v5-metadir-tree"));
    let to = bench.path("metadir");
    expect(0, &["undelete", &metadir, "--to", &shown(&to)]);
    assert!(REMOVED.iter().all(|file| is_copied(&to, *file)));

    let (plain, device) = (bench.kept("v5-rt-tree"), bench.kept("v5-rt-tree-device"));
    let to = bench.path("plain");
    let args = ["undelete", &shown(&plain), "--rtdev", &shown(&device), "--to", &shown(&to)];
    expect(0, &args);
    assert!(REMOVED.iter().all(|file| is_copied(&to, *file)));
    let without = expect(1, &["undelete", &shown(&plain), "--to", &shown(&bench.path("none"))]);
    assert!(without.stderr.contains("realtime device without its name"), "{}", without.stderr);

    // In the second group a block's number is not its place.
    let (groups, device) = (bench.kept("v5-rtgroups"), bench.kept("v5-rtgroups-device"));
    let to = bench.path("groups");
    let args = ["undelete", &shown(&groups), "--rtdev", &shown(&device), "--to", &shown(&to)];
    let run = expect(1, &args);
    assert!(run.stderr.contains("free space of realtime groups"), "{}", run.stderr);
    let removed = ["1", "2", "3", "4", "5", "6"].map(|name| format!("/removed/{name}"));
    let removed = removed.iter().map(|path| (&**path, 9000)).chain(REMOVED);
    removed.for_each(|file| assert!(is_copied(&to, file), "{}", file.0));
}

#[test]
fn another_device_is_not_taken_for_the_realtime_device() {
    let bench = Bench::new();
    let (plain, groups) = (bench.kept("v5-rt-tree"), bench.kept("v5-rtgroups"));
    let to = bench.path("to");
    let short = bench.file("short", &[0; 4096]);
    for (image, device, why) in [
        (&plain, &short, "4096 bytes"),
        (&plain, &plain, "superblock of a volume"),
        (&groups, &bench.kept("v5-rt-tree-device"), "bytes, and that has"),
        (&groups, &groups, "bytes, and that has"),
        (&groups, &bench.file("zeroes", &vec![0; 65 << 20]), "rtsb."),
        (&groups, &bench.path("nothing"), "cannot open"),
    ] {
        let (image, device) = (shown(image), shown(device));
        refused(&["undelete", &image, "--rtdev", &device, "--to", &shown(&to)], why);
        assert!(!to.exists(), "{image} {device}");
    }
}

#[test]
fn a_file_that_cannot_be_copied_whole_leaves_no_part_of_it() {
    let bench = Bench::new();
    let (plain, device) = (bench.kept("v5-rt-tree"), bench.kept("v5-rt-tree-device"));
    // Limited to files of 32 KiB, the longer one of two removed files does not fit.
    let to = bench.path("to");
    let script = format!(
        "trap '' XFSZ; ulimit -f 32; exec '{}' undelete '{}' --rtdev '{}' --to '{}'",
        env!("CARGO_BIN_EXE_xfskit"),
        shown(&plain),
        shown(&device),
        shown(&to)
    );
    let run = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains("/gone: File too large"), "{said}");
    assert!(!to.join("gone").exists() && is_copied(&to, REMOVED[1]), "{said}");
}

#[test]
fn a_change_is_refused_before_anything_is_touched() {
    let bench = Bench::new();
    let (mount, file) = (bench.path("mount"), bench.file("file", b"content"));
    fs::create_dir(&mount).unwrap();
    for name in TREES {
        let path = bench.kept(name);
        let before = fs::read(&path).unwrap();
        let (image, file) = (shown(&path), shown(&file));
        let why = if name == "v5-rt-tree" { "realtime device" } else { "metadir" };
        refused(&["repair", &image], why);
        refused(&["repair", "--accept-loss", "all", "--zero-log", &image], why);
        refused(&["undelete", &image, "--in-place"], why);
        refused(&["mkdir", &image, "/new"], why);
        refused(&["put", &image, &file, "/a"], why);
        refused(&["rm", &image, "/a"], why);
        refused(&["label", &image, "new"], why);
        refused(&["recover", &image], why);
        if Path::new("/dev/fuse").exists() {
            refused(&["mount", &image, &shown(&mount)], why);
        }
        assert!(fs::read(&path).unwrap() == before, "{name}: written");
        assert!(!bench.path(&format!("{name}.img.undo")).exists(), "{name}");
    }
}

#[test]
fn metadata_is_dumped_and_restored_or_refused_by_name() {
    let bench = Bench::new();
    for name in ["v5-metadir-tree", "v5-rt-tree"] {
        let image = shown(&bench.kept(name));
        let (dump, copy) =
            (shown(&bench.path("dump")), shown(&bench.path(&format!("{name}-copy"))));
        expect(0, &["metadump", "--force", "--no-obfuscate", &image, &dump]);
        expect(0, &["restore", &dump, &copy]);
        expect(0, &["check", &copy]);
        let list = |image: &str| expect(0, &["ls", "-lR", image, "/"]).bytes;
        assert!(list(&image) == list(&copy), "{name}");
        // Threads print groups in any order.
        let bulk = |image: &str| {
            let run = expect(0, &["bulkstat", "--internal", image]);
            run.stdout.lines().map(str::to_owned).collect::<BTreeSet<_>>()
        };
        assert_eq!(bulk(&image), bulk(&copy), "{name}");
    }
    let (image, dump) = (shown(&bench.kept("v5-rtgroups")), bench.path("none"));
    refused(&["metadump", &image, &shown(&dump)], "realtime groups");
    assert!(!dump.exists());
}

#[test]
fn owners_of_blocks_and_paths_of_inodes_are_found() {
    let bench = Bench::new();
    for name in TREES {
        let image = shown(&bench.kept(name));
        for (path, _) in FILES {
            let ino = json(&["stat", "--json", &image, path])[0]["ino"].as_u64().unwrap();
            let found = expect(0, &["path", &image, &ino.to_string()]).stdout;
            assert_eq!(found, format!("{ino} {path}\n"), "{name}");
        }
        // Each block of the data device has an owner, by a scan and by the rmapbt.
        for args in [&["blocks", "--scan"][..], &["blocks"][..]] {
            let run = expect(0, &[args, &[&image, "0:0-4095", "2:0-4095"]].concat());
            let by_path = run.stdout.contains("data 0-24 /sub/b");
            assert_eq!(by_path, name == "v5-metadir-tree", "{name}: {}", run.stdout);
        }
    }
}

#[test]
fn extents_on_a_realtime_device_are_those_of_xfs_bmap() {
    let bench = Bench::new();
    let list = |name: &str, path: &str| {
        let text = expect(0, &["extents", &shown(&bench.kept(name)), path]).stdout;
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    // What xfs_bmap -vp of xfsprogs 7.2 prints, on a mount of Linux 7.2.
    let plain = [
        " EXT: FILE-OFFSET      RT-BLOCK-RANGE     TOTAL FLAGS",
        "   0: [0..199]:        128..327             200 000000",
        "   1: [200..255]:      328..383              56 010000",
    ];
    assert_eq!(list("v5-rt-tree", "/sub/b"), plain);
    let in_second_group = [
        " EXT: FILE-OFFSET      RT-BLOCK-RANGE   RG RG-OFFSET        TOTAL FLAGS",
        "   0: [0..199]:        66560..66759      1 (0..199)           200 000000",
    ];
    assert_eq!(list("v5-rtgroups", "/sub/b"), in_second_group);
    let on_data = [
        " EXT: FILE-OFFSET      BLOCK-RANGE      AG AG-OFFSET        TOTAL FLAGS",
        "   0: [0..63]:         192..255          0 (192..255)          64 000000",
    ];
    assert_eq!(list("v5-rt-tree", "/on-data"), on_data);
}
