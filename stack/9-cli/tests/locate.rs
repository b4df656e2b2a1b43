//! `path`, `blocks` and `extents`: what inodes and blocks belong to.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfskit_test_support::image::Scratch;
use xfskit_test_support::{Mount, Need, matrix, needs};

use crate::common::{Bench, begin, damage, damage_inode, expect, json, objects, shown, xfskit};

/// Runs `test` on volumes with the same tree: with an rmapbt, with small blocks, without any
/// optional feature, and version 4.
fn on_all(test: impl Fn(&str)) {
    let bench = Bench::new();
    for name in ["v5", "v5-1k", "v5-plain", "v4"] {
        test(&shown(&bench.kept(name)));
    }
}

fn ino(image: &str, path: &str) -> u64 {
    json(&["stat", "--json", image, path])[0]["ino"].as_u64().unwrap()
}

// ---- path --------------------------------------------------------------------------------------

#[test]
fn path_prints_all_names_of_inodes() {
    on_all(|image| {
        let (hole, linked) = (ino(image, "/hole"), ino(image, "/sf/a"));
        let run = expect(0, &["path", image, &hole.to_string(), &format!("{linked:#x}")]);
        assert!(run.stdout.contains(&format!("{hole} /hole\n")), "{}", run.stdout);
        assert!(run.stdout.contains(&format!("{linked} /sf/a\n")), "{}", run.stdout);
        let links = json(&["stat", "--json", image, "/sf/a"])[0]["nlink"].as_u64().unwrap();
        assert_eq!(run.stdout.lines().count() as u64, links + 1);
        let some = expect(0, &["path", "-n", "2", image, &linked.to_string()]);
        assert_eq!(some.stdout.lines().count(), 2);
        assert!(some.stderr.contains(&format!("{} more names", links - 2)), "{}", some.stderr);
        let root = ino(image, "/");
        assert_eq!(expect(0, &["path", "-0", image, &root.to_string()]).bytes, b"/\0");
        let object = &json(&["path", "--json", image, &hole.to_string()])[0];
        assert_eq!((&object["inode"], &object["path"]), (&hole.into(), &"/hole".into()));
    });
}

#[test]
fn path_reads_numbers_from_standard_input() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let numbers = ["/hole", "/char"].map(|path| ino(&image, path).to_string());
    let mut child = begin(&["path", &image, "-"]);
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, numbers.join("\n").as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" /hole\n") && text.contains(" /char\n"), "{text}");
}

#[test]
fn path_names_what_a_number_without_a_path_is() {
    on_all(|image| {
        let geometry = &json(&["info", "--json", image])[0]["geometry"];
        let bitmap = geometry["rbmino"].as_u64().unwrap();
        let cases = [
            (0, "cannot have an inode"),
            (u64::MAX, "cannot have an inode"),
            (bitmap, "the realtime bitmap"),
            (ino(image, "/") + 60, "it is free"),
        ];
        for (number, text) in cases {
            let run = expect(1, &["path", image, &number.to_string()]);
            assert!(run.stderr.contains(text), "{}", run.stderr);
            assert!(run.stderr.contains(&format!("inode {number}: ")) && run.stdout.is_empty());
        }
        for word in ["x", "0xg", "-1", "+1", "99999999999999999999", ""] {
            expect(2, &["path", image, "--", word]);
        }
        expect(2, &["path", image]);
        expect(2, &["path", "-n", "0", image, "1"]);
        let run = expect(1, &["path", "--json", image, "0"]);
        assert_eq!(objects(&run)[0]["fault"]["path"], "inode 0");
    });
}

#[test]
fn path_of_a_damaged_inode_is_found_by_its_name() {
    let bench = Bench::new();
    let image = bench.kept("v5");
    let number = damage_inode(&image, "/fragmented");
    let run = expect(1, &["path", &shown(&image), &number.to_string()]);
    assert_eq!(run.stdout, format!("{number} /fragmented\n"));
    assert!(run.stderr.contains("[inode.crc]"), "{}", run.stderr);
}

// ---- blocks ------------------------------------------------------------------------------------

#[test]
fn blocks_prints_the_owner_of_each_block() {
    on_all(|image| {
        let stat = &json(&["stat", "--json", "--extents", image, "/fragmented"])[0];
        let (number, extent) = (&stat["ino"], &stat["extents"][5]);
        let start = extent["startblock"].as_u64().unwrap();
        let run = &json(&["blocks", "--json", image, &start.to_string()])[0];
        assert_eq!((&run["owner"], &run["inode"]), (&"extent".into(), number));
        assert_eq!((&run["startoff"], &run["path"]), (&extent["startoff"], &"/fragmented".into()));
        // The same block, named in other ways.
        let by = |option: &str, word: String| json(&["blocks", "--json", option, image, &word]);
        let offset = run["offset"].as_u64().unwrap();
        let group = format!("{}:{}", run["agno"], run["agbno"]);
        for same in [
            by("--bytes", offset.to_string()),
            by("--daddr", format!("{:#x}", offset / 512)),
            by("--scan", group.replace(':', "/")),
            json(&["blocks", "--json", image, &group]),
        ] {
            assert_eq!(&same[0], run);
        }
        let text = expect(0, &["blocks", image, &group]).stdout;
        assert!(text.lines().nth(1).unwrap().ends_with(" /fragmented"), "{text}");
        let first = expect(0, &["blocks", "-q", image, "0"]).stdout;
        assert_eq!(
            first.split_whitespace().collect::<Vec<_>>(),
            ["0", "0:0", "1", "group", "headers"]
        );
        let bare = expect(0, &["blocks", "--no-paths", image, &group]).stdout;
        assert!(!bare.contains("/fragmented") && bare.contains(&number.to_string()), "{bare}");
    });
}

#[test]
fn blocks_of_a_whole_volume_have_one_owner_each() {
    on_all(|image| {
        let geometry = &json(&["info", "--json", image])[0]["geometry"];
        let field = |name: &str| geometry[name].as_u64().unwrap();
        let last = field("dblocks") - 1;
        let (agno, agbno) = (last / field("agblocks"), last % field("agblocks"));
        let all = format!("0-{}", agno << field("agblklog") | agbno);
        let runs = json(&["blocks", "--json", image, &all]);
        let mut owned = std::collections::BTreeMap::new();
        for run in &runs {
            let start = run["offset"].as_u64().unwrap() >> field("blocklog");
            for block in start..start + run["blockcount"].as_u64().unwrap() {
                owned.entry(block).or_insert_with(Vec::new).push(run);
            }
        }
        assert_eq!(owned.len() as u64, last + 1);
        for (block, runs) in owned {
            let is_shared = runs.iter().all(|run| run["shared"] == true);
            assert!(runs.len() == 1 || is_shared, "{block}: {runs:?}");
        }
        assert_eq!(runs, json(&["blocks", "--json", "--scan", image, &all]));
    });
}

#[test]
fn a_shared_block_has_all_its_owners() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let stat = &json(&["extents", "--json", &image, "/clone"])[0];
    let shared = stat["extents"].as_array().unwrap().iter().find(|it| it["shared"] == true);
    let start = shared.unwrap()["startblock"].to_string();
    let runs = json(&["blocks", "--json", &image, &start]);
    assert!(runs.len() > 1 && runs.iter().all(|run| run["shared"] == true), "{runs:?}");
    assert!(runs.iter().any(|run| run["path"] == "/clone"), "{runs:?}");
}

#[test]
fn blocks_that_do_not_exist_are_named() {
    on_all(|image| {
        for block in ["99999999", "9:0", "0:99999999", "0:0-99999999"] {
            let run = expect(1, &["blocks", image, block]);
            assert!(run.stderr.contains(&format!("block {block}: ")), "{}", run.stderr);
        }
        // The others are printed.
        let run = expect(1, &["blocks", image, "99999999", "0:0"]);
        assert!(run.stdout.contains("group headers"), "{}", run.stdout);
        for word in ["x", "5-3", "1:", ":1", "1:2:3", "-", "1-", "0:4294967296"] {
            expect(2, &["blocks", image, "--", word]);
        }
        expect(2, &["blocks", "--bytes", "--daddr", image, "1"]);
        expect(2, &["blocks", image]);
    });
}

#[test]
fn blocks_of_a_damaged_volume_are_found_as_far_as_possible() {
    let bench = Bench::new();
    let image = bench.kept("v4");
    let name = shown(&image);
    let stat = &json(&["stat", "--json", "--extents", &name, "/fragmented"])[0];
    let lost = stat["extents"][0]["startblock"].to_string();
    let hole = &json(&["stat", "--json", "--extents", &name, "/hole"])[0];
    let kept = hole["extents"][0]["startblock"].to_string();
    damage_inode(&image, "/fragmented");
    let run = expect(1, &["blocks", &name, &lost, &kept]);
    assert!(run.stdout.contains(" /hole\n") && run.stdout.contains("unknown"), "{}", run.stdout);
    assert!(run.stderr.contains("[inode.magic]"), "{}", run.stderr);
    // A damaged rmapbt.
    let image = bench.kept("v5");
    let name = shown(&image);
    let text = expect(0, &["inspect", &name, "agf", "0"]).stdout;
    let root = text.lines().find_map(|line| line.strip_prefix("rmaproot = ")).unwrap();
    damage(&image, root.parse::<u64>().unwrap() * 4096 + 64, b"XX");
    let run = expect(1, &["blocks", &name, "0:24"]);
    assert!(run.stdout.contains(" /unwritten\n"), "{}", run.stdout);
    assert!(run.stderr.contains("[rmapbt.crc]"), "{}", run.stderr);
}

// ---- extents -----------------------------------------------------------------------------------

/// Files of this length and more are not compared: xfs_bmap cuts their ranges to 31 characters.
const LEN_MAX: u64 = 1 << 50;
/// Number of files of each volume that are compared, about.
const FILES: usize = 200;

/// Returns the plainly named files and directories below `dir` with content or attributes on disk.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in dir.read_dir().unwrap() {
        let path = entry.unwrap().path();
        // Some directories are too deep for a path.
        if path.as_os_str().len() > 1000 {
            continue;
        }
        let metadata = path.symlink_metadata().unwrap();
        let is_plain = path.to_str().is_some_and(|path| {
            path.chars().all(|c| c.is_ascii_graphic() && !r#"\'""#.contains(c))
        });
        if !is_plain || !(metadata.is_file() || metadata.is_dir()) {
            continue;
        }
        if metadata.is_dir() {
            files(&path, found);
        }
        found.push(path);
    }
}

#[test]
fn extents_of_every_file_are_those_of_xfs_bmap() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for name in ["rmapbt", "stripe", "block-1k"] {
        let scratch = Scratch::new("extents");
        let Some(image) = matrix::named(name).filled(&scratch) else { continue };
        let Ok(mount) = Mount::read_only(&image, &scratch) else { continue };
        let mut paths = Vec::new();
        files(mount.path(), &mut paths);
        // Most files are empty.
        let step = (paths.len() / FILES).max(1);
        let mut count = 0;
        paths.retain(|path| {
            count += 1;
            let metadata = path.metadata().unwrap();
            metadata.len() < LEN_MAX && (count % step == 0 || metadata.blocks() > 8)
        });
        paths.truncate(4 * FILES);
        let volume = shown(image.path());
        let (mut compared, mut lines) = (0, 0);
        for some in paths.chunks(500) {
            for (option, bmap) in [(None, "-vp"), (Some("-a"), "-avp")] {
                let mut command = Command::new("xfs_bmap");
                let output = command.arg(bmap).args(some).output().unwrap();
                assert!(output.status.success(), "{output:?}");
                let root = mount.path().to_str().unwrap();
                let linux = String::from_utf8(output.stdout).unwrap().replace(root, "");
                let inside = some.iter().map(|path| path.strip_prefix(root).unwrap());
                let inside: Vec<PathBuf> = inside.map(|path| Path::new("/").join(path)).collect();
                let mut args: Vec<&OsStr> = vec!["extents".as_ref()];
                args.extend(option.map(OsStr::new));
                args.push(volume.as_ref());
                args.extend(inside.iter().map(|path| path.as_os_str()));
                let run = xfskit(&args);
                assert_eq!(run.code, 0, "{}", run.stderr);
                for (ours, linux) in run.stdout.lines().zip(linux.lines()) {
                    assert_eq!(ours, linux, "{name}");
                }
                assert_eq!(run.stdout.lines().count(), linux.lines().count(), "{name}");
                lines += linux.lines().count();
            }
            compared += some.len();
        }
        assert!(compared > 100 && lines > 2 * compared, "{name}: {compared} files, {lines} lines");
        mount.unmount().unwrap();
    }
}

#[test]
fn extents_end_where_xfs_bmap_ends_them() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("extents-end");
    let Some(image) = matrix::named("rmapbt").make(&scratch) else { return };
    let mount = Mount::read_write(&image, &scratch).unwrap();
    // The name of a file, and the commands of xfs_io that make it.
    let cases: [(&str, &[&str]); 9] = [
        ("hole", &["truncate 1m"]),
        ("hole-behind", &["pwrite 0 4k", "truncate 20001"]),
        ("hole-before", &["pwrite 1m 64k"]),
        ("preallocated", &["pwrite 0 5000", "falloc -k 8k 64k"]),
        ("preallocated-only", &["falloc -k 0 64k"]),
        ("preallocated-far", &["pwrite 0 100", "falloc -k 256k 64k"]),
        ("cut", &["falloc -k 256k 64k", "truncate 300k"]),
        ("unwritten", &["falloc 0 1m", "pwrite 64k 64k"]),
        ("hint", &["extsize 64k", "pwrite 0 4k", "truncate 1m"]),
    ];
    for (name, commands) in cases {
        let mut xfs_io = Command::new("xfs_io");
        xfs_io.arg("-f");
        for command in commands {
            xfs_io.args(["-c", command]);
        }
        assert!(xfs_io.arg(mount.path().join(name)).output().unwrap().status.success(), "{name}");
    }
    mount.unmount().unwrap();
    let mount = Mount::read_only(&image, &scratch).unwrap();
    let volume = shown(image.path());
    for (name, _) in cases {
        let output = Command::new("xfs_bmap").arg("-vp").arg(mount.path().join(name)).output();
        let linux = String::from_utf8(output.unwrap().stdout).unwrap();
        let linux = linux.replace(mount.path().to_str().unwrap(), "");
        assert_eq!(expect(0, &["extents", &volume, &format!("/{name}")]).stdout, linux);
    }
    mount.unmount().unwrap();
    xfskit_test_support::verify::volume(&image, &scratch).unwrap();
}

// ---- shell -------------------------------------------------------------------------------------

#[test]
fn the_shell_finds_what_it_just_made() {
    let bench = Bench::new();
    let image = shown(&bench.path("volume.img"));
    expect(0, &["mkfs", "-q", "--size", "300M", &image]);
    let content = shown(&bench.file("content", &vec![7; 40_000]));
    let commands = format!("put {content} /file\nmkdir /dir\nblocks 0:0 0:5000\n");
    let script = shown(&bench.file("script", commands.as_bytes()));
    let run = expect(0, &["shell", "-q", "--file", &script, &image]);
    assert!(run.stdout.contains("group headers") && run.stdout.contains("free space"));
    let number = ino(&image, "/file");
    let start =
        json(&["extents", "--json", &image, "/file"])[0]["extents"][0]["startblock"].clone();
    let commands = format!("mv /file /dir/moved\npath {number} {}\nblocks {start}\n", number + 60);
    let script = shown(&bench.file("script", commands.as_bytes()));
    let run = expect(1, &["shell", "-q", "--file", &script, &image]);
    assert!(run.stdout.contains(&format!("{number} /dir/moved\n")), "{}", run.stdout);
    assert!(run.stdout.contains(&format!("inode {number} data 0 /dir/moved\n")), "{}", run.stdout);
    xfskit_test_support::verify::file(&bench.path("volume.img")).unwrap();
}
