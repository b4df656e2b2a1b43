//! Array members with wrong data: XFS's checksums show which, on every level.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::process::Command;

use crate::common::{Bench, Run, damage, expect, objects, shown};
use serde_json::Value;

/// An array with a volume on it.
struct Volume {
    bench: Bench,
    level: String,
    /// A sector that is on several members.
    mirrored: bool,
    target: String,
    members: Vec<String>,
    /// Its bytes.
    content: Vec<u8>,
}

/// Arrays with a member that may be wrong: level, members, and whether the first one fails before.
const ARRAYS: [(&str, usize, bool); 6] = [
    ("1", 2, false),
    ("1", 3, false),
    ("5", 4, false),
    ("6", 5, false),
    ("6", 5, true),
    ("10", 4, false),
];

/// Arrays of arrays: level, level of the members, and number of members of each.
const NESTED: [(&str, &str, usize, usize); 6] = [
    ("0", "5", 3, 2),
    ("0", "6", 5, 2),
    ("0", "1", 2, 2),
    ("10", "1", 2, 4),
    ("1", "5", 3, 2),
    ("5", "5", 3, 3),
];

/// Returns the number of chunks of data that this many members hold.
fn data_members(level: &str, count: usize) -> usize {
    match level {
        "0" => count,
        "1" => 1,
        "5" => count - 1,
        "6" => count - 2,
        _ => count / 2,
    }
}

/// Makes an array of this size, and returns its target.
fn create(level: &str, members: &[String], bytes: usize) -> String {
    let size = format!("{}M", bytes / data_members(level, members.len()) / (1 << 20) + 6);
    let mut words = vec!["md", "create", "--member-size", &size, "--level", level];
    if level != "0" {
        words.push("--assume-clean");
    }
    if level != "1" {
        words.extend(["--chunk", "128K"]); // none of what rots is in one row with another
    }
    words.extend(members.iter().map(String::as_str));
    expect(0, &words);
    format!("md:{}", members.join(","))
}

impl Volume {
    fn new(level: &str, count: usize, degraded: bool) -> Self {
        Self::of("v5", level, count, degraded)
    }

    /// Makes an array of `legs` arrays of `count` members each.
    fn nested((level, inner, count, legs): (&str, &str, usize, usize)) -> Self {
        let bench = Bench::new();
        let image = bench.kept("v5");
        let content = fs::read(&image).unwrap();
        let bytes = content.len() / data_members(level, legs) + (8 << 20);
        let leaf = |leg, i| shown(&bench.path(&format!("m{leg}{i}.img")));
        let leaves = |leg| (0..count).map(|i| leaf(leg, i)).collect::<Vec<_>>();
        let members: Vec<String> = (0..legs).flat_map(leaves).collect();
        let below: Vec<String> =
            (0..legs).map(|leg| format!("[{}]", create(inner, &leaves(leg), bytes))).collect();
        let target = create(level, &below, content.len());
        expect(0, &["md", "load", "--write", &target, &shown(&image)]);
        let mirrored = [level, inner].iter().any(|level| level.starts_with('1'));
        let level = format!("{level} of {inner}");
        Self { bench, level, mirrored, target, members, content }
    }

    fn of(image: &str, level: &str, count: usize, degraded: bool) -> Self {
        let bench = Bench::new();
        let image = bench.kept(image);
        let content = fs::read(&image).unwrap();
        let members: Vec<String> =
            (0..count).map(|i| shown(&bench.path(&format!("m{i}.img")))).collect();
        let target = create(level, &members, content.len());
        expect(0, &["md", "load", "--write", &target, &shown(&image)]);
        let (level, mirrored) = (level.to_owned(), level.starts_with('1'));
        let mut this = Self { bench, level, mirrored, target, members, content };
        if degraded {
            expect(0, &["md", "fail", &this.target, &this.members[0]]);
            this.members.remove(0);
            this.target = format!("md:{}", this.members.join(","));
        }
        this
    }

    /// Returns the byte of the first block with this magic in the volume.
    fn magic(&self, magic: &[u8]) -> usize {
        let sectors = self.content.chunks(512);
        512 * sectors.clone().position(|sector| sector.starts_with(magic)).unwrap()
    }

    /// Flips bits of the sector at byte `at`, on the member with its data: no other parity looks
    /// the same. (For copies, on the first.)
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
            if self.mirrored || expect(0, &words).bytes != sector {
                return;
            }
            damage(member.as_ref(), place, &sector[100..110]);
        }
    }

    /// Damages its first blocks of these kinds.
    fn rot_metadata(&self) {
        for magic in [&b"XFSB"[..], b"XAGI", b"IAB3", b"XDD3", b"AB3B", b"IN\x41\xed"] {
            self.rot(self.magic(magic));
        }
    }

    /// Bytes of the journal, in the volume.
    fn journal(&self) -> Range<usize> {
        let number = |at: usize, len: usize| {
            self.content[at..at + len].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let (block, agblklog) = (number(4, 4), self.content[124]);
        let start = number(48, 8);
        let start = (start >> agblklog) * number(84, 4) + (start & ((1 << agblklog) - 1));
        start * block..(start + number(96, 4)) * block
    }

    /// One member returns garbage for the journal.
    fn garble_journal(&self, member: usize) {
        let journal = &self.content[self.journal()];
        let theirs: HashSet<&[u8]> =
            journal.chunks(512).filter(|sector| sector.iter().any(|byte| *byte != 0)).collect();
        let member = &self.members[member];
        let bytes = fs::read(member).unwrap();
        for (sector, _) in bytes.chunks(512).enumerate().filter(|(_, here)| theirs.contains(here)) {
            let noise: Vec<u8> =
                (0..512).map(|i| u8::try_from((i * 7 + sector * 13) % 256).unwrap()).collect();
            damage(member.as_ref(), 512 * sector as u64, &noise);
        }
    }

    fn dump(&self) -> Vec<u8> {
        let mut all = expect(0, &["md", "dump", &self.target]).bytes;
        all.truncate(self.content.len());
        all
    }

    /// Makes a file whose first block is unique. Returns its byte in the volume.
    fn file_with_content(&self) -> (String, usize) {
        let all = expect(0, &["find", "--json", &self.target, "/", "--type", "f"]);
        let paths = objects(&all);
        let mut paths = paths.iter().filter_map(|line| line["path"].as_str());
        let first = |path: &str| {
            let bytes = expect(0, &["cat", &self.target, path]).bytes;
            let unique = bytes.len() >= 512 && bytes[..512].iter().any(|byte| *byte != bytes[0]);
            unique.then(|| (path.to_owned(), bytes[..512].to_vec()))
        };
        let (path, content) = paths.find_map(first).expect("a file with content");
        let at = self.content.chunks(512).position(|sector| sector == content).unwrap();
        (path, at * 512)
    }

    /// Fails if xfs_repair is installed and finds anything.
    fn is_sound(&self) {
        let copy = self.bench.file("copy.img", &self.dump());
        match Command::new("xfs_repair").arg("-n").arg(&copy).output() {
            Ok(said) => assert!(said.status.success(), "RAID{}: {said:?}", self.level),
            Err(why) => eprintln!("skipped: xfs_repair ({why})"),
        }
        expect(0, &["check", &shown(&copy)]);
    }
}

/// The lines of a run, in any order.
fn sorted(run: &Run) -> Vec<&str> {
    let mut lines: Vec<&str> = run.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

/// Returns what a run reports as healed: the failed checks, and whether all of it was rewritten.
fn healed(run: &Run) -> (Vec<String>, bool) {
    let lines: Vec<Value> =
        objects(run).into_iter().filter(|line| line["healed"].is_object()).collect();
    let check = |line: &Value| line["healed"]["check"].as_str().unwrap().to_owned();
    (lines.iter().map(check).collect(), lines.iter().all(|line| line["rewritten"] == true))
}

#[test]
fn reads_return_the_data_of_the_other_members_and_report_it() {
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
        // On mirrors other copies than the first are read, too.
        assert!(read >= 3, "RAID{level}: {findings:#?}");
        let wrong = |line: &&Value| line["severity"] != Value::Null && line["healed"] != "read";
        let wrong: Vec<_> = findings.iter().filter(wrong).collect();
        assert!(wrong.is_empty(), "RAID{level}: nothing else is wrong: {wrong:#?}");
    }
}

#[test]
fn check_scrub_repair_rewrites_the_wrong_members() {
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
fn wrong_members_within_arrays_of_arrays_are_found_and_repaired() {
    for shape in NESTED {
        let volume = Volume::nested(shape);
        let (level, target) = (&volume.level, volume.target.as_str());
        let plain = expect(0, &["find", target, "/"]);
        volume.rot_metadata();
        // Free space, or its parity, on the last member too.
        let member = volume.members.last().unwrap();
        let end = fs::metadata(member).unwrap().len() - (9 << 20);
        damage(member.as_ref(), end, &[0x5a; 700]);
        let found = expect(0, &["find", target, "/"]);
        assert_eq!(sorted(&found), sorted(&plain), "RAID{level}");
        let said = expect(1, &["check", "--scrub", target]);
        assert!(said.stdout.contains("did not agree, 0 repaired"), "RAID{level}: {}", said.stdout);
        let said = expect(0, &["check", "--scrub", "--repair", target]);
        assert!(said.stdout.contains("repaired"), "RAID{level}: {}", said.stdout);
        let said = expect(0, &["check", "--scrub", target]);
        assert!(!said.stdout.contains("agree"), "RAID{level}: {}", said.stdout);
        volume.is_sound();
    }
}

#[test]
fn an_array_of_arrays_names_the_file_with_doubtful_content() {
    let volume = Volume::nested(("0", "5", 3, 2));
    let (path, at) = volume.file_with_content();
    volume.rot(at);
    let run = expect(1, &["check", "--scrub", "--repair", "--json", &volume.target]);
    let said = objects(&run);
    let named = said.iter().find(|line| line["mismatch"].is_object()).expect("a page");
    let files = named["mismatch"]["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["path"] == path && file["offset"] == 0), "{named:#}");
    assert!(named["mismatch"]["array"].as_str().unwrap().starts_with("md:"), "{named:#}");
    // If the outer array has a copy, that copy decides.
    let volume = Volume::nested(("1", "5", 3, 2));
    volume.rot(volume.file_with_content().1);
    expect(0, &["check", "--scrub", "--repair", &volume.target]);
    expect(0, &["check", "--scrub", &volume.target]);
    assert_eq!(volume.dump()[at..at + 512], volume.content[at..at + 512]);
}

#[test]
fn a_journal_that_one_member_garbles_is_replayed_from_the_others() {
    for (level, count, degraded) in ARRAYS {
        // A member without a replayed block is never read: tries the next.
        let mut told = false;
        for member in 0..count - usize::from(degraded) {
            if told {
                break;
            }
            let volume = Volume::of("v5-dirty", level, count, degraded);
            let target = volume.target.as_str();
            let plain = expect(0, &["find", target, "/"]);
            let recovered = expect(0, &["log", target]);
            volume.garble_journal(member);
            let found = expect(0, &["find", target, "/"]);
            assert_eq!(sorted(&found), sorted(&plain), "RAID{level}");
            let again = expect(0, &["log", target]);
            assert_eq!(again.stdout, recovered.stdout, "RAID{level}");
            let (checks, _) = healed(&expect(0, &["ls", "--json", target, "/"]));
            told |= checks.iter().any(|check| check.starts_with("log."));
            // Opened for writing, the journal is replayed, and then right on every member.
            expect(0, &["check", "--scrub", "--repair", target]);
            let found = expect(0, &["find", target, "/"]);
            assert_eq!(sorted(&found), sorted(&plain), "RAID{level}");
            expect(0, &["check", "--scrub", target]);
            volume.is_sound();
        }
        assert!(told, "RAID{level}");
    }
}

#[test]
fn a_writable_volume_has_damaged_blocks_rewritten() {
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
fn mismatching_file_content_is_named_with_its_file() {
    let volume = Volume::new("5", 4, false);
    let target = volume.target.as_str();
    let (path, at) = volume.file_with_content();
    volume.rot(at);
    let run = expect(1, &["check", "--scrub", "--repair", "--json", target]);
    let said = objects(&run);
    let named = said.iter().find(|line| line["mismatch"].is_object()).expect("a page");
    let files = named["mismatch"]["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["path"] == path && file["offset"] == 0), "{named:#}");
    assert_eq!(named["mismatch"]["repaired"], false);
}

#[test]
fn a_lost_write_is_found_by_its_lsn() {
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
fn mismatching_free_space_is_rewritten() {
    for (level, count) in [("5", 4), ("1", 2)] {
        let volume = Volume::new(level, count, false);
        // The end of the last member: free space, or its parity.
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
