//! Members of an array that lie: XFS's checksums tell which, whatever the level.

#![allow(missing_docs)]

mod common;

use std::fs;
use std::process::Command;

use common::{Bench, Run, damage, expect, objects, shown};
use serde_json::Value;

/// An array with a volume on it.
struct Volume {
    bench: Bench,
    level: &'static str,
    target: String,
    members: Vec<String>,
    /// What it holds.
    content: Vec<u8>,
}

/// Arrays on which a member may lie: level, members, and whether the first of them fails before.
const ARRAYS: [(&str, usize, bool); 6] = [
    ("1", 2, false),
    ("1", 3, false),
    ("5", 4, false),
    ("6", 5, false),
    ("6", 5, true),
    ("10", 4, false),
];

impl Volume {
    fn new(level: &'static str, count: usize, degraded: bool) -> Self {
        let bench = Bench::new();
        let image = bench.kept("v5");
        let content = fs::read(&image).unwrap();
        let data = match level {
            "1" => 1,
            "5" => count - 1,
            "6" => count - 2,
            _ => count / 2,
        };
        let size = format!("{}M", content.len() / data / (1 << 20) + 6);
        let members: Vec<String> =
            (0..count).map(|i| shown(&bench.path(&format!("m{i}.img")))).collect();
        let mut words = vec!["md", "create", "--assume-clean", "--member-size", &size];
        words.extend(["--level", level]);
        if level != "1" {
            words.extend(["--chunk", "128K"]); // none of what rots is in one row with another
        }
        words.extend(members.iter().map(String::as_str));
        expect(0, &words);
        let target = format!("md:{}", members.join(","));
        expect(0, &["md", "load", "--write", &target, &shown(&image)]);
        let mut this = Self { bench, level, target, members, content };
        if degraded {
            expect(0, &["md", "fail", &this.target, &this.members[0]]);
            this.members.remove(0);
            this.target = format!("md:{}", this.members.join(","));
        }
        this
    }

    /// Where in the volume the first block with this magic is.
    fn magic(&self, magic: &[u8]) -> usize {
        let sectors = self.content.chunks(512);
        512 * sectors.clone().position(|sector| sector.starts_with(magic)).unwrap()
    }

    /// Flips bits of the sector at byte `at`, on the member whose data it is: parity of nothing else looks
    /// the same. (Of copies, on the first.)
    fn rot(&self, at: usize) {
        let sector = &self.content[at..at + 512];
        let flipped: Vec<u8> = sector[100..110].iter().map(|byte| !byte).collect();
        for member in &self.members {
            let bytes = fs::read(member).unwrap();
            let Some(place) = bytes.chunks(512).position(|here| here == sector) else { continue };
            let place = (place * 512 + 100) as u64;
            damage(member.as_ref(), place, &flipped);
            let at = at.to_string();
            let words = ["md", "dump", "--offset", &at, "--length", "512", &self.target];
            if matches!(self.level, "1" | "10") || expect(0, &words).bytes != sector {
                return;
            }
            damage(member.as_ref(), place, &sector[100..110]);
        }
    }

    /// Its first blocks of these kinds rot.
    fn rot_metadata(&self) {
        for magic in [&b"XFSB"[..], b"XAGI", b"IAB3", b"XDD3", b"AB3B", b"IN\x41\xed"] {
            self.rot(self.magic(magic));
        }
    }

    fn dump(&self) -> Vec<u8> {
        let mut all = expect(0, &["md", "dump", &self.target]).bytes;
        all.truncate(self.content.len());
        all
    }

    /// xfs_repair finds nothing, where it is installed.
    fn is_sound(&self) {
        let copy = self.bench.file("copy.img", &self.dump());
        match Command::new("xfs_repair").arg("-n").arg(&copy).output() {
            Ok(said) => assert!(said.status.success(), "RAID{}: {said:?}", self.level),
            Err(why) => eprintln!("skipped: xfs_repair ({why})"),
        }
        expect(0, &["check", &shown(&copy)]);
    }
}

/// The lines of a run, which come in any order.
fn sorted(run: &Run) -> Vec<&str> {
    let mut lines: Vec<&str> = run.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

/// What a run says healed: the checks that failed, and whether all of it was rewritten.
fn healed(run: &Run) -> (Vec<String>, bool) {
    let lines: Vec<Value> =
        objects(run).into_iter().filter(|line| line["healed"].is_object()).collect();
    let check = |line: &Value| line["healed"]["check"].as_str().unwrap().to_owned();
    (lines.iter().map(check).collect(), lines.iter().all(|line| line["rewritten"] == true))
}

#[test]
fn whoever_reads_gets_what_the_other_members_have_and_hears_of_it() {
    for (level, count, degraded) in ARRAYS {
        let volume = Volume::new(level, count, degraded);
        let plain = expect(0, &["find", &volume.target, "/"]);
        volume.rot_metadata();
        let target = volume.target.as_str();
        let found = expect(0, &["find", target, "/"]);
        assert_eq!(sorted(&found), sorted(&plain), "RAID{level}");
        assert!(found.stderr.contains("healed: "), "RAID{level}: {}", found.stderr);
        let (checks, _) = healed(&expect(0, &["ls", "--json", target, "/"]));
        assert!(checks.iter().any(|check| check.starts_with("sb.")), "RAID{level}: {checks:?}");
        expect(0, &["info", target]);
        let file = found.stdout.lines().find(|path| path.starts_with("/block/")).unwrap();
        expect(0, &["cat", target, file]);

        let checked = expect(1, &["check", "--json", target]);
        let findings = objects(&checked);
        let read = findings.iter().filter(|line| line["healed"] == "read").count();
        // Of mirrors others than the first are asked, too.
        assert!(read >= 3, "RAID{level}: {findings:#?}");
        let wrong = |line: &&Value| line["severity"] != Value::Null && line["healed"] != "read";
        let wrong: Vec<_> = findings.iter().filter(wrong).collect();
        assert!(wrong.is_empty(), "RAID{level}: nothing else is wrong: {wrong:#?}");
    }
}

#[test]
fn check_scrub_repair_rewrites_the_members_that_lied() {
    for (level, count, degraded) in ARRAYS {
        let volume = Volume::new(level, count, degraded);
        volume.rot_metadata();
        let target = volume.target.as_str();
        expect(1, &["check", "--scrub", target]);
        let run = expect(0, &["check", "--scrub", "--repair", "--json", target]);
        let said = objects(&run);
        assert!(said.iter().any(|line| line["healed"] == "rewritten"), "RAID{level}: {said:#?}");
        expect(0, &["check", "--scrub", target]);
        if !degraded {
            let scrub = expect(0, &["md", "scrub", target]);
            assert!(scrub.stdout.starts_with("mismatch_cnt 0"), "RAID{level}: {}", scrub.stdout);
        }
        volume.is_sound();
    }
}

#[test]
fn a_volume_that_is_written_has_what_it_reads_rewritten() {
    let volume = Volume::new("5", 4, false);
    volume.rot_metadata();
    let run = expect(0, &["mkdir", "--json", &volume.target, "/healed-by-writing"]);
    let (checks, rewritten) = healed(&run);
    assert!(rewritten && !checks.is_empty(), "{checks:?}");
    expect(0, &["check", "--scrub", "--repair", &volume.target]);
    let scrub = expect(0, &["md", "scrub", &volume.target]);
    assert!(scrub.stdout.starts_with("mismatch_cnt 0"), "{}", scrub.stdout);
    volume.is_sound();
}

#[test]
fn content_that_no_checksum_covers_is_named_with_its_file() {
    let volume = Volume::new("5", 4, false);
    let target = volume.target.as_str();
    let all = expect(0, &["find", "--json", target, "/", "--type", "f"]);
    // A file whose first block is like nothing else.
    let path = objects(&all)
        .iter()
        .filter_map(|line| line["path"].as_str().map(str::to_owned))
        .find(|path| {
            let bytes = expect(0, &["cat", target, path]).bytes;
            bytes.len() >= 512 && bytes[..512].iter().any(|byte| *byte != bytes[0])
        });
    let path = path.expect("a file with content");
    let content = expect(0, &["cat", target, &path]).bytes;
    let at = volume.content.chunks(512).position(|sector| sector == &content[..512]).unwrap();
    volume.rot(at * 512);
    let run = expect(1, &["check", "--scrub", "--repair", "--json", target]);
    let said = objects(&run);
    let named = said.iter().find(|line| line["mismatch"].is_object()).expect("a page");
    let files = named["mismatch"]["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["path"] == path && file["offset"] == 0), "{named:#}");
    assert_eq!(named["mismatch"]["mended"], false);
}

#[test]
fn a_write_that_a_member_lost_is_found_by_its_age() {
    for (level, count) in [("1", 2), ("5", 4), ("10", 4)] {
        for lost in [0, count - 1] {
            let volume = Volume::new(level, count, false);
            let member = &volume.members[lost];
            let before = fs::read(member).unwrap();
            expect(0, &["mkdir", &volume.target, "/written-by-all-but-one"]);
            let now = fs::read(member).unwrap();
            let pairs = before.chunks(512).zip(now.chunks(512)).enumerate();
            let inodes = pairs.filter(|(_, (old, new))| old != new && new.starts_with(b"IN"));
            for (sector, (old, _)) in inodes {
                damage(member.as_ref(), 512 * sector as u64, old);
            }
            expect(0, &["check", "--scrub", "--repair", &volume.target]);
            expect(0, &["ls", &volume.target, "/written-by-all-but-one"]);
            expect(0, &["md", "scrub", &volume.target]);
            expect(0, &["check", &volume.target]);
        }
    }
}

#[test]
fn free_space_that_does_not_agree_is_made_to() {
    for (level, count) in [("5", 4), ("1", 2)] {
        let volume = Volume::new(level, count, false);
        // The end of the last member: free space, or the parity of it.
        let member = volume.members.last().unwrap();
        let size = fs::metadata(member).unwrap().len();
        let end = size - (6 << 20);
        damage(member.as_ref(), end, &[0x5a; 700]);
        let run = expect(1, &["check", "--scrub", &volume.target]);
        assert!(run.stdout.contains("no file has content there"), "RAID{level}: {}", run.stdout);
        expect(0, &["check", "--scrub", "--repair", &volume.target]);
        expect(0, &["check", "--scrub", &volume.target]);
        expect(0, &["md", "scrub", &volume.target]);
    }
}
