//! Gives every command input that it cannot use: the message says what is wrong and what to do, the
//! exit code is right, and nothing panics.

use std::fs;

use xfskit_test_support::loops::Loop;

use crate::common::{self, Bench, damage, damage_inode, expect, objects, shown, xfskit};

/// Each command that reads a volume, with arguments that would work on a sound one.
const READERS: &[(&str, &[&str])] = &[
    ("info", &[]),
    ("ls", &[]),
    ("tree", &[]),
    ("stat", &["/"]),
    ("cat", &["/sf/a"]),
    ("find", &[]),
    ("df", &[]),
    ("stats", &[]),
    ("bulkstat", &[]),
    ("du", &[]),
    ("log", &[]),
    ("check", &[]),
    ("check", &["--scrub"]),
    ("get", &["/", "/nonexistent/dest"]),
];

#[test]
fn commands_that_change_refuse_a_read_only_device() {
    if !xfskit_test_support::needs(&[xfskit_test_support::Need::Mount]) {
        return;
    }
    let bench = Bench::new();
    let image = bench.path("volume");
    expect(0, &["mkfs", "-q", "--size", "64M", &shown(&image)]);
    let before = fs::read(&image).unwrap();
    let looped = Loop::attach(&image, &["--read-only"]).unwrap();
    let device = shown(looped.path());
    let run = xfskit(&["mkdir", &device, "/dir"]);
    let read = xfskit(&["ls", &device]);
    drop(looped);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("the device is read-only"), "{}", run.stderr);
    assert_eq!(read.code, 0, "{}", read.stderr);
    assert!(before == fs::read(&image).unwrap());
}

#[test]
fn every_command_refuses_a_device_without_a_volume() {
    let bench = Bench::new();
    let text = shown(&bench.file("text", &b"not a filesystem at all".repeat(1000)));
    let short = shown(&bench.file("short", b"XFSB"));
    for target in ["/nonexistent/image", "mem:lots", "mem:16M", &text, &short] {
        for (command, more) in READERS {
            let run = expect(2, &[&[*command, target], *more].concat());
            assert!(run.stdout.is_empty() && run.stderr.starts_with("xfskit: "), "{}", run.stderr);
            let json = expect(2, &[&[*command, "--json", target], *more].concat());
            assert_eq!(objects(&json)[0]["error"]["exit"], 2, "{command} {target}");
        }
    }
}

#[test]
fn the_rest_of_a_truncated_image_is_readable() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(20 << 20).unwrap();
    let run = expect(1, &["ls", &shown(&path)]);
    assert!(run.stderr.contains("sb.device-size"), "{}", run.stderr);
    let helps = format!("`xfskit repair -n {}` says what else helps", shown(&path));
    assert!(run.stderr.contains("missing at its end") && run.stderr.contains(&helps));
    assert!(run.stdout.contains("attr-leaf"), "{}", run.stdout);
}

#[test]
fn a_truncated_image_is_not_changed_and_the_refusal_has_what_is_missing() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let size = fs::metadata(&path).unwrap().len();
    let (image, dir) = (shown(&path), shown(bench.path("x").parent().unwrap()));
    // Behind the journal, inside of it, and before it.
    for left in [size - 4096, size / 2 + (1 << 20), 20 << 20] {
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
        let before = fs::read(&path).unwrap();
        for args in [&["mkdir", &image, "/new"][..], &["label", &image, "x"]] {
            let said = expect(2, args).stderr;
            let short = format!("it has {left} of {size} bytes, {} are missing", size - left);
            assert!(said.contains(&short) && said.contains("--salvage"), "{said}");
        }
        if std::path::Path::new("/dev/fuse").exists() {
            let said = expect(2, &["mount", &image, &dir]).stderr;
            assert!(said.contains("shorter than the filesystem"), "{said}");
        }
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn what_is_no_volume_is_named_with_what_it_is() {
    let bench = Bench::new();
    let mut ext4 = vec![0; 1 << 20];
    ext4[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    let mut table = vec![0; 1 << 20];
    table[510..512].copy_from_slice(&[0x55, 0xaa]);
    let (ext4, table) = (bench.file("ext4", &ext4), bench.file("table", &table));
    let fifo = bench.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (target, says) in [
        (&ext4, "It holds an ext2/ext3/ext4 filesystem."),
        (&table, "It holds a partition table: `xfskit targets"),
        (&fifo, "Name an image or a device."),
        (&"/dev/null".into(), "Name an image or a device."),
    ] {
        let target = shown(target);
        for (command, more) in READERS.iter().filter(|(command, _)| *command != "log") {
            let said = expect(2, &[&[*command, &target], *more].concat()).stderr;
            assert!(said.contains(says), "{command} {target}: {said}");
        }
        let said = expect(2, &["mkdir", &target, "/new"]).stderr;
        assert!(said.contains(says), "{target}: {said}");
    }
}

#[test]
fn a_device_that_a_volume_does_not_need_is_refused() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let log = shown(&bench.file("log", &[0; 4096]));
    let readers = ["info", "ls", "tree", "find", "df", "bulkstat", "du", "log", "check", "recover"];
    let writers = [&["mkdir", &*image, "/new"][..], &["label", &image, "x"], &["uuid", &image]];
    let others = [&["undelete", &*image][..], &["metadump", &image, "-"]];
    let readers = readers.map(|command| vec![command, &*image]);
    let all = readers.into_iter().chain(writers.iter().chain(&others).map(|args| args.to_vec()));
    for args in all {
        let said = expect(2, &[&args[..], &["--logdev", &log]].concat()).stderr;
        assert!(said.contains("the journal is inside of this volume"), "{args:?}: {said}");
        assert!(said.contains("Leave out --logdev."), "{args:?}: {said}");
    }
    let (dump, restored) = (shown(&bench.path("dump")), bench.path("restored"));
    expect(0, &["metadump", &image, &dump]);
    for (option, says) in [("-l", "no external journal"), ("-r", "no metadata of a realtime")] {
        let device = shown(&bench.path("device"));
        let said = expect(2, &["restore", option, &device, &dump, &shown(&restored)]).stderr;
        assert!(said.contains(says) && said.contains("Leave out --"), "{said}");
        assert!(!restored.exists() && !bench.path("device").exists());
    }
    let to = bench.path("to");
    let said = expect(2, &["undelete", &image, "--rtdev", &log, "--to", &shown(&to)]).stderr;
    assert!(said.contains("no realtime device of its own") && !to.exists(), "{said}");
}

#[test]
fn an_unknown_incompat_bit_is_refused_by_name() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    damage(&path, 216, &[0x80]);
    let run = expect(2, &["ls", &shown(&path)]);
    assert!(run.stderr.contains("0x8000"), "{}", run.stderr);
}

#[test]
fn paths_that_name_nothing_exit_with_1() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    for args in [
        ["ls", &image, "/none"],
        ["tree", &image, "/sf/none"],
        ["stat", &image, "/sf/a/b"],
        ["cat", &image, "/sf"],
        ["cat", &image, "/char"],
        ["find", &image, "/none"],
    ] {
        let run = expect(1, &args);
        assert!(run.stderr.starts_with("xfskit: "), "{}", run.stderr);
    }
    expect(1, &["get", &image, "/none", &shown(&bench.path("dest"))]);
    assert!(!bench.path("dest").exists());
    assert!(expect(2, &["ls", &image, "etc"]).stderr.contains("begin with /"));
}

#[test]
fn invalid_options_are_refused() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    for args in [
        vec!["find", "--size", "big", &image],
        vec!["find", "--name", "[", &image],
        vec!["find", "--mtime", "soon", &image],
        vec!["cat", "--offset", "x", &image, "/sf/a"],
        vec!["frobnicate", &image],
        vec!["ls"],
        vec!["completions", "tcl"],
        vec!["get", "--json", &image, "/", "-"],
        vec!["mkfs", "-b", "size=3000", "--size", "1G", "new.img"],
        vec!["mkfs", "/nonexistent/new.img"],
        vec!["mkfs", "--size", "1G", "/nonexistent/new.img"],
        vec!["mkfs", &image],
        vec!["xattr", "list", &image],
        vec!["targets", "/nonexistent"],
        vec!["man", "/dev/null/x"],
    ] {
        let run = expect(2, &args);
        assert!(!run.stderr.is_empty() || run.stdout.contains("error"), "{args:?}");
    }
}

#[test]
fn a_damaged_inode_hides_only_itself() {
    let bench = Bench::new();
    for name in ["v5", "v4"] {
        let path = bench.kept(name);
        let image = shown(&path);
        let names = expect(0, &["ls", &image]).stdout;
        damage_inode(&path, "/attr-leaf");
        let find = expect(1, &["find", "--size", "+0", &image]);
        assert!(find.stderr.contains("/attr-leaf: "), "{}", find.stderr);
        assert!(find.stdout.contains("/attr-node") && !find.stdout.contains("/attr-leaf"));
        let long = expect(1, &["ls", "-l", &image]);
        assert_eq!(long.stdout.lines().count(), names.lines().count(), "total, less one file");
        let dest = bench.path(&format!("{name}.copy"));
        let get = expect(1, &["get", &image, "/", &shown(&dest)]);
        assert!(get.stderr.contains("/attr-leaf: "), "{}", get.stderr);
        assert!(dest.join("attr-node").exists() && !dest.join("attr-leaf").exists());
        assert!(expect(1, &["get", &image, "/", "-"]).bytes.len() > 100_000);
        let faults = objects(&expect(1, &["tree", "--json", &image]));
        assert!(faults.iter().any(|line| line["fault"]["path"] == "/attr-leaf"));
        assert!(expect(1, &["cat", &image, "/attr-leaf"]).stderr.contains("inode"));
        assert!(expect(1, &["check", &image]).stdout.contains("inode"));
        expect(1, &["bulkstat", &image]);
    }
}

#[test]
fn a_damaged_directory_hides_only_its_contents() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let image = shown(&path);
    let all = expect(0, &["find", &image]).stdout.lines().count();
    damage_inode(&path, "/leaf");
    let rest = expect(1, &["find", &image]);
    assert!(rest.stderr.contains("/leaf: "), "{}", rest.stderr);
    assert_eq!(rest.stdout.lines().count(), all - 201, "the directory and its 200 names");
}

/// Replaces the inode number of the entry `/sf` by `ino`, on a volume without checksums.
fn redirect_sf(image: &std::path::Path, ino: u64) {
    let number =
        |path: &str| common::json(&["stat", "--json", &shown(image), path])[0]["ino"].as_u64();
    let mut entry = number("/sf").unwrap().to_be_bytes().to_vec();
    entry.extend_from_slice(b"\x02sf");
    let bytes = fs::read(image).unwrap();
    let at = bytes.windows(entry.len()).position(|window| window == entry).unwrap();
    damage(image, at as u64, &ino.to_be_bytes());
}

#[test]
fn a_directory_that_leads_back_to_itself_is_entered_once() {
    let bench = Bench::new();
    let path = bench.kept("v4");
    let image = shown(&path);
    let root = common::json(&["stat", "--json", &image, "/"])[0]["ino"].as_u64().unwrap();
    redirect_sf(&path, root);
    for command in [&["find"][..], &["tree"], &["ls", "-lR"]] {
        let run = expect(1, &[command, &[image.as_str()]].concat());
        assert!(run.stderr.contains("[dir.twice]"), "{}", run.stderr);
    }
    let run = expect(1, &["get", &image, "/", &shown(&bench.path("dest"))]);
    assert!(run.stderr.contains("[dir.twice]") && bench.path("dest/node").exists());
    expect(1, &["get", &image, "/", "-"]);
    // In a path it is only a detour.
    expect(0, &["ls", &image, "/sf/sf/sf/node"]);
}

#[test]
fn an_entry_of_a_free_inode_hides_only_itself() {
    let bench = Bench::new();
    let path = bench.kept("v4");
    let image = shown(&path);
    redirect_sf(&path, 0x00ff_ffff_ffff);
    assert!(expect(1, &["ls", "-l", &image]).stdout.contains(" node"));
    assert!(expect(1, &["find", &image]).stdout.contains("/node/"));
    expect(1, &["get", &image, "/", &shown(&bench.path("dest"))]);
    assert!(bench.path("dest/node").exists() && !bench.path("dest/sf").exists());
}

#[test]
fn a_name_with_a_slash_is_not_followed() {
    let bench = Bench::new();
    let path = bench.kept("v4");
    let image = shown(&path);
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|window| window == b"\x04hole").unwrap();
    damage(&path, at as u64 + 1, b"../x");
    let run = expect(1, &["get", &image, "/", &shown(&bench.path("dest"))]);
    assert!(run.stderr.contains("dir"), "{}", run.stderr);
    assert!(bench.path("dest/node").exists() && !bench.path("x").exists());
    let names = expect(1, &["ls", &image]).stdout;
    assert!(names.contains("node\n") && !names.contains("../x"), "{names}");
}

#[test]
fn faults_are_objects_with_the_failed_check() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    damage_inode(&path, "/attr-leaf");
    let lines = objects(&expect(1, &["find", "--json", &shown(&path)]));
    let fault = lines.iter().find_map(|line| line.get("fault")).unwrap();
    assert_eq!(fault["path"], "/attr-leaf");
    assert!(fault["corruption"]["check"].as_str().unwrap().starts_with("inode."), "{fault}");
}

#[test]
fn a_missing_structure_exits_with_1() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5-plain"));
    for what in [["agf", "9"], ["rmapbt", "0"], ["inode", "99999999999"], ["block", "9/1"]] {
        let run = expect(2, &["inspect", &image, what[0], what[1]]);
        assert!(run.stderr.contains("this volume has no "), "{what:?}: {}", run.stderr);
    }
}

#[test]
fn an_empty_file_is_told_as_such() {
    let bench = Bench::new();
    let empty = shown(&bench.file("empty", b""));
    for (command, more) in READERS {
        let said = expect(2, &[&[*command, &empty], *more].concat()).stderr;
        assert!(said.contains("not an XFS volume") || *command == "log", "{command}: {said}");
        assert!(said.contains("The file is empty") || *command == "log", "{command}: {said}");
    }
    for args in [&["repair", &empty][..], &["undelete", &empty, "--in-place"]] {
        let said = expect(2, args).stderr;
        assert!(said.contains("The file is empty"), "{said}");
    }
}

#[test]
fn a_directory_without_a_mount_is_told_as_such() {
    let bench = Bench::new();
    let dir = shown(bench.path("dir").parent().unwrap());
    for (command, more) in READERS.iter().filter(|(command, _)| *command != "log") {
        let said = expect(2, &[&[*command, &dir], *more].concat()).stderr;
        assert!(said.contains("xfskit has mounted no volume there"), "{command}: {said}");
    }
    let said = expect(2, &["repair", "--dry-run", &dir]).stderr;
    assert!(said.contains("xfskit has mounted no volume there"), "{said}");
}

#[test]
fn help_is_a_command_and_numbers_are_plain_words() {
    for (asked, meant) in [(&["help"][..], "--help"), (&["help", "repair"], "--zero-log")] {
        let help = expect(0, asked).stdout;
        assert!(help.contains("Usage: xfskit") && help.contains(meant), "{help}");
    }
    let said = expect(2, &["repair", "--memory", "-1", "a.img"]).stderr;
    assert!(said.contains("Numbers and sizes are not negative."), "{said}");
    let said = expect(2, &["check", "-t", "x", "a.img"]).stderr;
    assert!(said.contains("not a number") && said.ends_with("options.\n"), "{said:?}");
    let said = expect(2, &["blocks", "a.img", "-1"]).stderr;
    assert!(said.contains("not negative"), "{said}");
}

#[test]
fn a_mount_point_that_cannot_be_one_is_told_before_the_volume_is_opened() {
    let bench = Bench::new();
    let image = shown(&bench.path("nothing.img"));
    for dir in ["/", "/dev", "/proc"] {
        let said = expect(2, &["mount", &image, dir]).stderr;
        assert!(said.contains("needs what is there"), "{said}");
    }
    let missing = shown(&bench.path("missing"));
    let said = expect(2, &["mount", &image, &missing]).stderr;
    assert!(said.contains(&format!("`mkdir {missing}` makes it")), "{said}");
}

#[test]
fn removed_files_are_not_copied_where_no_directory_can_be_made() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5-metadir-tree"));
    let to = shown(&bench.file("file", b"").join("below"));
    let said = expect(2, &["undelete", &image, "--to", &to]).stderr;
    assert!(said.contains(&format!("{to}: Not a directory")), "{said}");
}
