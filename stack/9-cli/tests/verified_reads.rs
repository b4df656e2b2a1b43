//! `get`, `cat` and `put` with `--verify` on an array with a member that lies about content.

use std::fs;

use crate::common::{self, Bench, damage, expect, feed, objects, shown, xfskit};

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

/// Returns the member that holds this page of the file, and the place of the page there.
fn place(members: &[String], at: usize) -> (String, u64) {
    let wanted = &content()[at..at + 4096];
    let find = |member: &&String| {
        let page = fs::read(member).unwrap().chunks(4096).position(|page| page == wanted)?;
        Some(((*member).clone(), page as u64 * 4096))
    };
    members.iter().find_map(|member| find(&member)).expect("a member holds it")
}

/// Small files, each with its own content.
fn small_files(bench: &Bench) -> String {
    let dir = bench.path("small");
    fs::create_dir(&dir).unwrap();
    for i in 0..100_u8 {
        fs::write(dir.join(format!("{i}")), [i; 3000]).unwrap();
    }
    // Into the root directory, so that they lie behind the file.
    format!("{}/.", shown(&dir))
}

#[test]
fn put_verify_computes_parity_without_the_wrong_data_of_a_raid6_member() {
    let bench = Bench::new();
    let (target, members) = array(&bench, "6", 5);
    let (liar, offset) = place(&members, 0);
    damage(liar.as_ref(), offset + (400 << 10), &content().repeat(8));
    let small = small_files(&bench);
    let run = expect(0, &["put", "--verify", &target, &small, "/"]);
    assert!(run.stderr.contains(&liar) && run.stderr.contains("corrected"), "{}", run.stderr);
    let (copy, other) = (shown(&bench.path("copy")), shown(&bench.path("other")));
    expect(0, &["get", "--verify", &target, "/", &copy]);
    let others: Vec<&str> =
        members.iter().map(|m| if *m == liar { "missing" } else { m.as_str() }).collect();
    expect(0, &["get", &format!("md:{}", others.join(",")), "/", &other]);
    for i in 0..100_u8 {
        let name = i.to_string();
        let read = |dir: &str| fs::read(bench.path(dir).join(&name)).unwrap();
        assert!(read("copy") == [i; 3000], "{name}, compared");
        assert!(read("other") == [i; 3000], "{name}, without the liar");
    }
}

#[test]
fn put_verify_says_where_a_raid5_is_in_doubt_and_leaves_it_visible() {
    let bench = Bench::new();
    let (target, members) = array(&bench, "5", 3);
    let (liar, offset) = place(&members, 0);
    damage(liar.as_ref(), offset + (400 << 10), &content().repeat(8));
    let small = small_files(&bench);
    let run = expect(1, &["put", "--verify", &target, &small, "/"]);
    assert!(run.stderr.contains("members disagree"), "{}", run.stderr);
    // The summary is followed by the faults that it led to.
    let pages = |run: &common::Run| {
        objects(run).iter().find_map(|object| object["verify"][0]["undecided_pages"].as_u64())
    };
    let again = xfskit(&["get", "--json", "--verify", &target, "/", &shown(&bench.path("copy"))]);
    assert!(pages(&again).unwrap() > 0, "{}", again.stdout);
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
        let file = shown(&bench.file("some", b"some"));
        let run = xfskit(&["put", "--verify", &target, &file, "/"]);
        assert!(run.code == 2 && run.stderr.contains("compare"), "{}", run.stderr);
    }
}

#[test]
fn in_the_shell_nothing_is_put_unverified_that_was_to_be_verified() {
    let bench = Bench::new();
    let (target, _) = array(&bench, "5", 3);
    let file = shown(&bench.file("some", b"some"));
    feed(1, &["shell", &target], format!("put --verify {file} /\n").as_bytes());
    assert_eq!(expect(0, &["ls", &target]).stdout, "file\n");
}
