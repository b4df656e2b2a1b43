//! `xfskit md`, and every other command on `md:` targets, on arrays that the kernel made.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{Bench, damage, expect, json, objects, shown};
use xfskit::raw::units::ByteOffset;
use xfskit_test_arrays::{Fixture, manifest};
use xfskit_test_support::verify;

/// The members of an array as files with holes.
fn unpack(bench: &Bench, fixture: &Fixture) -> Vec<String> {
    const PIECE: usize = 256 * 1024;
    let mut names = Vec::new();
    for (name, device) in fixture.named() {
        let path: PathBuf = bench.path(&name);
        let file = fs::File::create(&path).unwrap();
        let size = device.size().0;
        file.set_len(size).unwrap();
        let mut piece = vec![0; PIECE];
        for at in (0..size).step_by(PIECE) {
            let part = &mut piece[..usize::try_from(size - at).unwrap().min(PIECE)];
            device.read_at(ByteOffset(at), part).unwrap();
            if part.iter().any(|byte| *byte != 0) {
                file.write_all_at(part, at).unwrap();
            }
        }
        names.push(shown(&path));
    }
    names
}

/// Returns the output of mdadm, without what only it knows: the names of devices in tables of 0.90.
fn comparable(text: &str) -> String {
    let line =
        |line: &str| line.split("   /dev/").next().unwrap_or("").trim_end().to_owned() + "\n";
    text.lines().skip(1).map(line).collect()
}

#[test]
fn members_are_examined_as_mdadm_does() {
    for entry in manifest() {
        // The large ones show nothing new.
        if entry.bytes > 64 << 20 {
            continue;
        }
        let (bench, fixture) = (Bench::new(), Fixture::open(&entry.name));
        let names = unpack(&bench, &fixture);
        for (i, name) in names.iter().enumerate() {
            let Some(theirs) = fixture.text(&format!("m{i}.examine")) else { continue };
            let ours = expect(0, &["md", "examine", name]).stdout;
            assert_eq!(comparable(&ours), comparable(theirs), "{} m{i}", entry.name);
        }
    }
}

#[test]
fn a_device_without_md_superblock_exits_with_1() {
    let bench = Bench::new();
    let empty = shown(&bench.file("empty.img", &vec![0; 65536]));
    let run = expect(1, &["md", "examine", &empty]);
    assert!(run.stdout.contains("no md superblock"), "{}", run.stdout);
    let names = unpack(&bench, &Fixture::open("raid1-1.2"));
    damage(names[0].as_ref(), 4096 + 0xc8, &[7]);
    let run = expect(1, &["md", "examine", &names[0], &names[1]]);
    assert!(run.stdout.contains(" - expected "), "{}", run.stdout);
    assert!(run.stderr.contains("[md1.sb_csum]"), "{}", run.stderr);
    let objects = objects(&expect(1, &["md", "examine", "--json", &names[0], &names[1]]));
    assert_eq!(objects[0]["corruption"]["check"], "md1.sb_csum");
    assert_eq!(objects[1]["role"]["active"], 1);
}

#[test]
fn assemble_prints_roles_and_the_target_to_use() {
    let bench = Bench::new();
    let names = unpack(&bench, &Fixture::open("raid5-degraded"));
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let run = expect(0, &[&["md", "assemble"], words.as_slice()].concat());
    assert!(run.stdout.contains("stale, at 18 events"), "{}", run.stdout);
    assert!(run.stdout.contains("clean, degraded"), "{}", run.stdout);
    let target = run.stdout.lines().last().unwrap();
    assert!(target.starts_with("md:") && target.contains("missing"), "{target}");
    let detail = expect(0, &["md", "detail", target]);
    assert!(detail.stdout.contains("Layout : left-symmetric"), "{}", detail.stdout);
    let object = &json(&["md", "detail", "--json", target])[0];
    assert_eq!(object["degraded"], true);
    assert_eq!(object["target"], target);
    let dump = expect(0, &["md", "dump", target]);
    assert_eq!(dump.bytes.len(), 3_145_728);
}

#[test]
fn members_that_form_no_array_are_refused_with_a_hint() {
    let bench = Bench::new();
    let names = unpack(&bench, &Fixture::open("raid5-left-symmetric"));
    let run = expect(2, &["md", "assemble", &names[0], &names[1]]);
    assert!(run.stderr.contains("cannot run without roles 2, 3 [md.missing]"), "{}", run.stderr);
    assert!(run.stderr.contains("Name the missing members"), "{}", run.stderr);
    let run = expect(2, &["md", "dump", &format!("md:{},{}", names[0], names[0])]);
    assert!(run.stderr.contains("are the same member"), "{}", run.stderr);
    let run = expect(2, &["md", "detail", "mem:1M"]);
    assert!(run.stderr.contains("is not an array"), "{}", run.stderr);
    let run = expect(2, &["md", "load", &format!("md:{},{}", names[0], names[1])]);
    assert!(run.stderr.contains("--write"), "{}", run.stderr);
    let run = expect(2, &["md", "assemble", "/nonexistent/a", "/nonexistent/b"]);
    assert!(
        run.stderr.contains("Check the name") && !run.stderr.contains("mkfs"),
        "{}",
        run.stderr
    );
    let run = expect(2, &["info", "md:nothing-*.img"]);
    assert!(run.stderr.contains("matches no file"), "{}", run.stderr);
}

#[test]
fn parts_of_an_arrays_content_are_dumped() {
    let bench = Bench::new();
    let fixture = Fixture::open("raid10-n2-4");
    let target = format!("md:{}", unpack(&bench, &fixture).join(","));
    let run = expect(0, &["md", "dump", "--offset", "512", "--length", "1K", &target]);
    let expected = [1, 2].map(|sector| xfskit_test_arrays::pattern(1, sector)).concat();
    assert_eq!(run.bytes, expected);
    let pattern = format!("md:{}", shown(&bench.path("m*.img")));
    assert_eq!(expect(0, &["md", "dump", &pattern]).bytes.len() as u64, fixture.entry.bytes);
    let none = expect(0, &["md", "dump", "--offset", "1T", &target]);
    assert!(none.bytes.is_empty());
}

#[test]
fn arrays_without_superblocks_are_read_with_a_given_geometry() {
    let bench = Bench::new();
    let fixture = Fixture::open("raid6-left-symmetric");
    let names = unpack(&bench, &fixture);
    let whole = expect(0, &["md", "dump", &format!("md:{}", names.join(","))]).bytes;
    for name in &names {
        damage(name.as_ref(), 4096, &[0; 4096]);
    }
    let numbers = "level=6,layout=ls,chunk=16K,offset=128K,size=1M";
    let members = names.join(",").replace(&names[1], "missing");
    let said = expect(0, &["md", "dump", &format!("md:{numbers}:{members}")]).bytes;
    assert!(said == whole, "the content differs");
}

#[test]
fn a_filesystem_on_a_degraded_array_is_read_by_every_command() {
    let bench = Bench::new();
    let fixture = Fixture::open("raid6-xfs-degraded2");
    let names = unpack(&bench, &fixture);
    let target = format!("md:{}", names.join(","));
    let run = expect(0, &["info", &target]);
    assert!(run.stderr.contains("stale, left out"), "{}", run.stderr);
    expect(0, &["check", &target]);
    let list = expect(0, &["find", &target, "--type", "f"]);
    assert!(list.stdout.lines().count() >= 12, "{}", list.stdout);
}

#[test]
fn a_guess_is_a_target_that_opens_the_volume() {
    let bench = Bench::new();
    let mut names = unpack(&bench, &Fixture::open("raid6-xfs-clean"));
    names.pop();
    for name in &names {
        damage(name.as_ref(), 4096, &[0; 4096]);
    }
    names.reverse();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let guesses = json(&[&["md", "guess", "--json"], words.as_slice()].concat());
    // Empty records of the journal, whose sums in P look like others, speak against nothing.
    assert_eq!((guesses.len(), &guesses[0]["confidence"]), (1, &"certain".into()), "{guesses:?}");
    let target = guesses[0]["target"].as_str().unwrap();
    assert!(target.starts_with("md:level=raid6,layout=left-symmetric,chunk=512K,offset=2048K:"));
    expect(0, &["check", target]);
    let empty = shown(&bench.file("empty.img", &vec![0; 65536]));
    let other = shown(&bench.file("other.img", &vec![0; 65536]));
    expect(1, &["md", "guess", &empty, "missing", &other]);
}

#[test]
fn loaded_content_is_dumped_and_mdadm_finds_the_members_clean() {
    let bench = Bench::new();
    let names = unpack(&bench, &Fixture::open("raid5-left-symmetric"));
    let target = format!("md:{}", names.join(","));
    let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    let file = shown(&bench.file("content", &content));
    let run = expect(0, &["md", "load", "--write", "--offset", "12K", &target, &file]);
    assert!(run.stderr.contains("400000 bytes written"), "{}", run.stderr);
    for members in [names.clone(), names[1..].to_vec()] {
        let target = format!("md:{}", members.join(","));
        let run = expect(0, &["md", "dump", "--offset", "12K", "--length", "400000", &target]);
        assert!(run.bytes == content, "the content differs");
    }
    for name in &names {
        let Ok(theirs) = Command::new("mdadm").args(["--examine", name]).env("TZ", "UTC").output()
        else {
            eprintln!("skipped: what mdadm says of the members (there is no mdadm)");
            return;
        };
        let theirs = String::from_utf8_lossy(&theirs.stdout).into_owned();
        assert!(theirs.contains("State : clean"), "{theirs}");
        assert!(theirs.contains(" - correct"), "{theirs}");
        assert_eq!(comparable(&expect(0, &["md", "examine", name]).stdout), comparable(&theirs));
    }
}

#[test]
fn a_filesystem_on_an_array_is_changed_by_every_command() {
    let bench = Bench::new();
    let mut names = unpack(&bench, &Fixture::open("raid6-xfs-clean"));
    let target = format!("md:{}", names.join(","));
    let file = shown(&bench.file("motd", b"written through parity"));
    expect(0, &["put", &target, &file, "/motd"]);
    expect(0, &["check", &target]);
    verify::file(&bench.file("whole.img", &expect(0, &["md", "dump", &target]).bytes)).unwrap();
    // Again with two members fewer.
    names.drain(1..3);
    let degraded = format!("md:{}", names.join(","));
    assert_eq!(expect(0, &["cat", &degraded, "/motd"]).bytes, b"written through parity");
    expect(0, &["check", &degraded]);
    verify::file(&bench.file("degraded.img", &expect(0, &["md", "dump", &degraded]).bytes))
        .unwrap();
}

#[test]
fn mkfs_takes_the_stripe_from_the_array() {
    let bench = Bench::new();
    let members: Vec<String> =
        ["a", "b", "c"].iter().map(|name| shown(&bench.path(&format!("{name}.img")))).collect();
    let words: Vec<&str> = members.iter().map(String::as_str).collect();
    let wanted = ["md", "create", "--level", "5", "--chunk", "64K", "--member-size", "640M"];
    expect(0, &[&wanted, words.as_slice()].concat());
    let target = format!("md:{}", members.join(","));
    let made = json(&["mkfs", "--json", &target]);
    assert_eq!(
        (&made[0]["geometry"]["unit"], &made[0]["geometry"]["width"]),
        (&16.into(), &32.into())
    );
    expect(0, &["check", &target]);
    let made = json(&["mkfs", "--json", "-f", "-d", "noalign", &target]);
    assert_eq!(made[0]["geometry"]["unit"], 0);
}

#[test]
fn every_parity_routine_is_timed_and_one_is_marked() {
    let words = ["md", "bench", "--members", "3", "--block", "512"];
    let text = expect(0, &words).stdout;
    assert!(text.contains("portable") && text.contains("using "), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("* ")).count(), 1, "{text}");
    let answer = &json(&[&words[..], &["--json"]].concat())[0];
    let routines = answer["routines"].as_array().unwrap();
    assert!(routines.iter().all(|r| r["passed"] == true && r["mb_per_s"]["D+D"].is_u64()));
    assert_eq!(routines.last().unwrap()["name"], "portable");
}

#[test]
fn writes_go_to_the_overlay_for_every_kind_of_target() {
    let bench = Bench::new();
    let member = |i: usize| shown(&bench.path(&format!("m{i}")));
    let names: Vec<String> = (0..3).map(member).collect();
    let words = "md create --level 5 --chunk 64K --member-size 160M".split(' ');
    let create: Vec<&str> = words.chain(names.iter().map(String::as_str)).collect();
    expect(0, &create);
    let image = shown(&bench.path("image"));
    expect(0, &["mkfs", "--size", "310M", &image]);
    let array = format!("md:{}", names.join(","));
    expect(0, &["mkfs", &array]);
    let file = shown(&bench.file("hello", b"hello"));
    for (target, below) in [(&array, names.as_slice()), (&image, std::slice::from_ref(&image))] {
        let changes = shown(&bench.path(&format!("changes{}", below.len())));
        let aside = ["--overlay", changes.as_str(), target.as_str()];
        let with = |word: &'static str, more: &[&'static str]| [&[word], &aside[..], more].concat();
        let bytes = || below.iter().map(|name| fs::read(name).unwrap()).collect::<Vec<_>>();
        let before = bytes();
        // A reading command makes no file.
        expect(0, &with("ls", &["/"]));
        assert!(!std::path::Path::new(&changes).exists());
        expect(0, &[&["put"], &aside[..], &[&file, "/hello"]].concat());
        assert_eq!(expect(0, &with("cat", &["/hello"])).stdout, "hello");
        expect(0, &with("rm", &["/hello"]));
        expect(0, &with("check", &[]));
        expect(1, &["cat", target, "/hello"]);
        assert!(bytes() == before, "{target} was written");
    }
    let why = expect(2, &["ls", "--force", &image, "/"]).stderr;
    assert!(why.contains("arrays only"), "{why}");
}

#[test]
fn an_overlay_detects_a_changed_target() {
    let bench = Bench::new();
    let image = |name: &str| {
        let image = shown(&bench.path(name));
        expect(0, &["mkfs", "--size", "310M", &image]);
        image
    };
    let (one, other) = (image("one"), image("other"));
    let file = shown(&bench.file("hello", b"hello"));
    let changes = shown(&bench.path("changes"));
    expect(0, &["put", "--overlay", &changes, &one, &file, "/hello"]);
    let sound = expect(0, &["cat", "--overlay", &changes, &one, "/hello"]);
    assert!(sound.stdout == "hello" && sound.stderr.is_empty(), "{}", sound.stderr);
    // Another volume of the same size.
    for words in
        [["ls", "--overlay", &changes, &other, "/"], ["mkdir", "--overlay", &changes, &other, "/x"]]
    {
        let refused = expect(2, &words).stderr;
        assert!(refused.contains("the overlay was made on XFS volume"), "{refused}");
        assert!(!refused.contains("0 bytes") && refused.contains("another FILE"), "{refused}");
    }
    // The same volume, changed without the overlay.
    expect(0, &["mkdir", &one, "/since"]);
    let changed = expect(0, &["cat", "--overlay", &changes, &one, "/hello"]).stderr;
    assert!(changed.contains("has changed since the overlay was made"), "{changed}");
    // Not an overlay at all.
    let refused = expect(2, &["ls", "--overlay", &file, &one, "/"]).stderr;
    assert!(refused.contains("no overlay"), "{refused}");
}

#[test]
fn every_command_uses_a_stale_member_with_force() {
    let bench = Bench::new();
    let names: Vec<String> = (0..3).map(|i| shown(&bench.path(&format!("m{i}")))).collect();
    let words = "md create --level 5 --chunk 64K --assume-clean --member-size 160M".split(' ');
    let create: Vec<&str> = words.chain(names.iter().map(String::as_str)).collect();
    expect(0, &create);
    let array = format!("md:{}", names.join(","));
    expect(0, &["mkfs", &array]);
    expect(0, &["md", "fail", &array, &names[2]]);
    let stale = format!("md:{},{}", names[1], names[2]);
    let refused = expect(2, &["ls", &stale, "/"]).stderr;
    assert!(refused.contains("cannot run without"), "{refused}");
    expect(0, &["ls", "--force", &stale, "/"]);
    expect(0, &["check", "--force", &stale]);
    expect(0, &["md", "detail", "--force", &stale]);
    let file = shown(&bench.file("hello", b"hello"));
    expect(0, &["put", "--force", &stale, &file, "/hello"]);
    expect(1, &["rm", "--force-array", &stale, "/nothing"]);
    expect(0, &["rm", &stale, "/hello"]);
}
