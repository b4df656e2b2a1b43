//! `get --verify` and `cat --verify` from an array with a member that has wrong file content.

#![allow(missing_docs)]

mod common;

use std::fs;

use common::{Bench, damage, expect, objects, shown, xfskit};

/// A megabyte without repetition: several stripes of each array.
fn content() -> Vec<u8> {
    (0..250_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()).collect()
}

/// Makes an array of this level with a volume that has `/file`. Returns its members too.
fn array(bench: &Bench, level: &str, count: usize) -> (String, Vec<String>) {
    let members: Vec<String> = (0..count).map(|i| shown(&bench.path(&format!("m{i}")))).collect();
    let mut words = vec!["md", "create", "--assume-clean", "--level", level];
    words.extend(["--member-size", "310M", "--chunk", "64K"]);
    words.extend(members.iter().map(String::as_str));
    expect(0, &words);
    let target = format!("md:{}", members.join(","));
    expect(0, &["mkfs", &target]);
    let file = bench.file("file", &content());
    expect(0, &["put", &target, &shown(&file), "/file"]);
    (target, members)
}

/// Damages this part of the file on the first member that has it. Returns the member's name.
fn lie(members: &[String], at: usize) -> &str {
    let wanted = &content()[at..at + 4096];
    for member in members {
        let bytes = fs::read(member).unwrap();
        if let Some(page) = bytes.chunks(4096).position(|page| page == wanted) {
            damage(member.as_ref(), page as u64 * 4096 + 7, b"not what was written");
            return member;
        }
    }
    panic!("no member holds it");
}

#[test]
fn a_wrong_raid6_member_is_corrected_and_named() {
    let bench = Bench::new();
    let (target, members) = array(&bench, "6", 5);
    let liar = lie(&members, 500_000 / 4096 * 4096);
    let (plain, verified) = (shown(&bench.path("plain")), shown(&bench.path("verified")));
    expect(0, &["get", &target, "/file", &plain]);
    assert!(fs::read(&plain).unwrap() != content(), "nothing but --verify notices");
    let run = expect(0, &["get", "--verify", &target, "/file", &verified]);
    assert!(fs::read(&verified).unwrap() == content());
    assert!(run.stderr.contains(liar) && run.stderr.contains("corrected"), "{}", run.stderr);
    assert!(expect(0, &["cat", "--verify", &target, "/file"]).bytes == content());
    let json = objects(&expect(0, &["cat", "--verify", "--json", &target, "/file"]));
    let summary = &json.last().unwrap()["verify"][0];
    assert_eq!(summary["corrected"][0]["member"], *liar);
    assert_eq!(summary["undecided_pages"], 0);
}

#[test]
fn a_mismatch_on_raid5_names_the_file_and_the_range_and_exits_1() {
    let bench = Bench::new();
    let (target, members) = array(&bench, "5", 3);
    lie(&members, 500_000 / 4096 * 4096);
    let dest = shown(&bench.path("dest"));
    let run = expect(1, &["get", "--verify", &target, "/file", &dest]);
    assert!(run.stderr.contains("/file: "), "{}", run.stderr);
    assert!(run.stderr.contains("disagree at bytes"), "{}", run.stderr);
}

#[test]
fn targets_that_cannot_be_verified_are_refused() {
    let bench = Bench::new();
    let (_, members) = array(&bench, "5", 3);
    let degraded = format!("md:{},{}", members[0], members[1]);
    let dest = shown(&bench.path("dest"));
    for target in [degraded, shown(&bench.kept("v5"))] {
        let run = xfskit(&["get", "--verify", &target, "/", &dest]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("compare") && !bench.path("dest").exists(), "{}", run.stderr);
    }
}
