//! `xfskit md` commands that make and manage arrays; mdadm checks the superblocks.

use std::process::Command;

use crate::common::{self, Bench, begin, damage, ended, expect, interrupt, json, objects, shown};

/// Returns the output of mdadm for a member; `None`, with a note, if mdadm is not installed.
fn mdadm(name: &str) -> Option<String> {
    match Command::new("mdadm").args(["--examine", name]).env("TZ", "UTC").output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(why) => {
            eprintln!("skipped: what mdadm says of {name} ({why})");
            None
        }
    }
}

/// Returns the value of a line of mdadm's.
fn says(text: &str, key: &str) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{key} :")));
    line.and_then(|line| line.split_once(" : ")).map_or_else(String::new, |(_, v)| v.into())
}

/// Returns names of members that do not exist yet.
fn names(bench: &Bench, count: usize) -> Vec<String> {
    (0..count).map(|i| shown(&bench.path(&format!("m{i}.img")))).collect()
}

fn create(words: &[&str], members: &[String]) {
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    expect(0, &[&["md", "create", "--member-size", "8M"], words, &members].concat());
}

#[test]
fn new_arrays_of_every_level_and_layout_are_the_same_as_mdadms() {
    for (words, count, size, state, offset) in [
        ("--level linear", 3, 18_432, "clean", "2048"),
        ("--level 0 --chunk 64K", 3, 18_432, "clean", "2048"),
        ("--level 1", 2, 7_168, "active", "2048"),
        ("--level 4 --chunk 512K", 3, 12_288, "clean", "4096"),
        ("--level 5 --layout right-asymmetric -e 1.1", 3, 12_288, "clean", "4096"),
        ("--level 6 -e 1.0 --bitmap internal", 5, 23_040, "active", "0"),
        ("--level 6 --layout ddf-N-restart --assume-clean", 4, 12_288, "clean", "4096"),
        ("--level 6 --layout left-symmetric-6 --chunk 4K", 5, 21_504, "active", "2048"),
        ("--level 10 --layout f2 --bitmap internal", 3, 9_216, "active", "4096"),
        ("--level 10 --layout o3 --size 4M", 4, 4_096, "active", "4096"),
    ] {
        let bench = Bench::new();
        let names = names(&bench, count);
        create(&words.split(' ').collect::<Vec<_>>(), &names);
        let target = format!("md:{}", names.join(","));
        let detail = &json(&["md", "detail", "--json", &target])[0];
        if !words.contains("linear") && !words.contains("level 0") {
            assert_eq!(detail["size_bytes"], size * 1024, "{words}");
        }
        for name in &names {
            let Some(theirs) = mdadm(name) else { return };
            assert_eq!(expect(0, &["md", "examine", name]).stdout, theirs, "{words}");
            assert_eq!(says(&theirs, "State"), state, "{words}: {theirs}");
            assert!(says(&theirs, "Checksum").ends_with("correct"), "{words}: {theirs}");
            let found = says(&theirs, "Data Offset");
            let found = found.split(' ').next().unwrap_or("");
            assert!(found == offset || (offset == "0" && found.is_empty()), "{words}: {theirs}");
        }
    }
}

#[test]
fn a_new_raid5_rebuilds_its_last_member_and_keeps_its_spare() {
    let bench = Bench::new();
    let names = names(&bench, 4);
    create(&["--level", "5", "--spare-devices", "1", "--bitmap", "internal"], &names);
    let detail = &json(&["md", "detail", "--json", &format!("md:{}", names.join(","))])[0];
    assert_eq!(detail["members"][2]["freshness"]["rebuilding"]["until"], 0);
    assert_eq!(detail["members"][3]["freshness"], "spare");
    // The target as printed includes the spare.
    let target = format!("md:{}", names.join(","));
    assert_eq!(detail["target"], *target);
    let Some(theirs) = mdadm(&names[2]) else { return };
    assert_eq!(says(&theirs, "Recovery Offset"), "0 sectors");
    assert_eq!(says(&theirs, "Internal Bitmap"), "8 sectors from superblock");
}

#[test]
fn invalid_arrays_are_refused_and_members_left_unchanged() {
    let bench = Bench::new();
    let names = names(&bench, 4);
    let refused = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let members: Vec<&str> = names.iter().map(String::as_str).collect();
        expect(2, &[&["md", "create"], &words[..], &members[..]].concat()).stderr
    };
    let new = |words: &str| refused(&format!("--member-size 8M {words}"));
    assert!(refused("--level 5").contains("no such file"));
    assert!(new("--level 7").contains("no such level"));
    assert!(new("--level 5 --layout near").contains("no such layout"));
    assert!(new("--level 5 --members 5").contains("4 targets are named"));
    assert!(new("--level 5 --chunk 6K").contains("[md.chunk]"));
    assert!(new("--level 0 --bitmap internal").contains("[md.create.level]"));
    assert!(new("--level 5 --size 1G").contains("[md.create.size]"));
    assert!(new("--level 5 --uuid x").contains("--uuid"));
    assert!(names.iter().all(|name| !std::path::Path::new(name).exists()));
    create(&["--level", "6"], &names);
    let before = std::fs::read(&names[1]).unwrap();
    let why = refused("--level 6");
    assert!(why.contains("holds an md array member") && why.contains("--force"), "{why}");
    assert!(std::fs::read(&names[1]).unwrap() == before);
    let uuid = "00112233:44556677:8899aabb:ccddeeff";
    create(&["--force", "--level", "6", "--uuid", uuid, "--name", "box:data"], &names);
    let target = format!("md:{}", names.join(","));
    let detail = &json(&["md", "detail", "--json", &target])[0];
    assert_eq!((&detail["set_uuid"], &detail["set_name"]), (&uuid.into(), &"box:data".into()));
}

#[test]
fn missing_members_are_added_later() {
    let bench = Bench::new();
    let mut names = names(&bench, 4);
    names[1] = "missing".into();
    create(&["--level", "6"], &names);
    names.remove(1);
    let detail = &json(&["md", "detail", "--json", &format!("md:{}", names.join(","))])[0];
    assert_eq!(detail["missing"], serde_json::json!([1]));
    assert_eq!(detail["members"][2]["freshness"]["rebuilding"]["role"], 3);
}

/// Makes an array of whole members with contents. Returns its members and its target.
fn filled(bench: &Bench, words: &[&str], count: usize) -> (Vec<String>, Vec<u8>) {
    let names = names(bench, count);
    create(words, &names);
    let content: Vec<u8> =
        (0..500_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let file = shown(&bench.file("content", &content));
    let target = format!("md:{}", names.join(","));
    expect(0, &["md", "load", "--write", "--offset", "100K", &target, &file]);
    (names, content)
}

fn holds(target: &str, content: &[u8]) {
    let length = content.len().to_string();
    let run = expect(0, &["md", "dump", "--offset", "100K", "--length", &length, target]);
    assert!(run.bytes == content, "{target}: the content differs");
}

#[test]
fn a_spare_takes_over_for_a_failed_member_and_is_rebuilt() {
    let bench = Bench::new();
    let words = ["--level", "6", "--spare-devices", "1", "--assume-clean", "--bitmap", "internal"];
    let (names, content) = filled(&bench, &words, 6);
    let target = format!("md:{}", names.join(","));
    let run = expect(0, &["md", "fail", &target, &names[1]]);
    assert!(
        run.stderr.contains("takes role 1") || run.stderr.contains("out of use"),
        "{}",
        run.stderr
    );
    let detail = &json(&["md", "detail", "--json", &target])[0];
    assert_eq!((&detail["degraded"], &detail["clean"]), (&false.into(), &true.into()));
    assert_eq!(detail["members"][5]["freshness"]["in_sync"]["role"], 1);
    holds(&target, &content);
    expect(1, &["md", "remove", &target, &names[0]]);
    expect(0, &["md", "remove", &target, &names[1]]);
    // The new member with the fewest others.
    holds(&format!("md:{},{},{}", names[5], names[2], names[3]), &content);
    let Some(theirs) = mdadm(&names[5]) else { return };
    assert_eq!(says(&theirs, "Device Role"), "Active device 1");
    assert_eq!(says(&theirs, "State"), "clean");
    assert!(says(&theirs, "Array State").starts_with("AAAAA "), "{theirs}");
    assert_eq!(expect(0, &["md", "examine", &names[5]]).stdout, theirs);
}

#[test]
fn members_are_added_replaced_and_re_added() {
    let bench = Bench::new();
    let words = ["--level", "5", "--assume-clean", "--bitmap-chunk", "64K"];
    let (mut names, content) = filled(&bench, &words, 4);
    let target = |names: &[String]| format!("md:{}", names.join(","));
    // It was removed during a write, and is re-added.
    let without = [&names[..1], &names[2..]].concat();
    expect(0, &["md", "fail", "--later", &target(&names), &names[1]]);
    let motd = shown(&bench.file("motd", b"while one was away"));
    expect(0, &["md", "load", "--write", "--offset", "9M", &target(&without), &motd]);
    let run = expect(0, &["md", "add", &target(&without), &names[1]]);
    assert!(run.stderr.contains("was re-added"), "{}", run.stderr);
    holds(&target(&names[1..]), &content);
    let tail = expect(0, &["md", "dump", "--offset", "9M", "--length", "18", &target(&names[1..])]);
    assert_eq!(tail.bytes, b"while one was away");
    // A new file is added as a spare, and replaces one.
    let new = shown(&bench.path("new.img"));
    let run = expect(2, &["md", "add", &target(&names), &new]);
    assert!(run.stderr.contains("--member-size"), "{}", run.stderr);
    expect(1, &["md", "replace", &target(&names), &names[3]]);
    expect(0, &["md", "add", "--member-size", "8M", &target(&names), &new]);
    let all = [names.clone(), vec![new.clone()]].concat();
    expect(0, &["md", "replace", "--later", &target(&all), &names[3]]);
    let detail = &json(&["md", "detail", "--json", &target(&all)])[0];
    assert_eq!(detail["members"][4]["freshness"]["replacement"]["role"], 3);
    if let Some(theirs) = mdadm(&new) {
        assert_eq!(says(&theirs, "Device Role"), "Replacement device 3");
        assert!(says(&theirs, "Array State").starts_with("AAAR "), "{theirs}");
    }
    expect(0, &["md", "rebuild", &target(&all)]);
    names[3] = new;
    expect(0, &["md", "scrub", &target(&names)]);
    holds(&target(&names[1..]), &content);
    // No spare is left.
    expect(0, &["md", "fail", &target(&names), &names[0]]);
    expect(1, &["md", "rebuild", &target(&names[1..])]);
    let run = expect(1, &["md", "fail", &target(&names[1..]), &names[2]]);
    assert!(run.stderr.contains("cannot work without it"), "{}", run.stderr);
    let run = expect(2, &["md", "scrub", &target(&names[1..])]);
    assert!(run.stderr.contains("missing or not complete"), "{}", run.stderr);
}

#[test]
fn a_new_array_is_resynced() {
    for level in ["1", "5", "6", "10"] {
        let bench = Bench::new();
        let (names, content) = filled(&bench, &["--level", level], 4);
        let target = format!("md:{}", names.join(","));
        expect(0, &["md", "rebuild", &target]);
        let detail = &json(&["md", "detail", "--json", &target])[0];
        assert_eq!((&detail["degraded"], &detail["clean"]), (&false.into(), &true.into()));
        expect(0, &["md", "scrub", &target]);
        holds(&format!("md:{}", names[1..].join(",")), &content);
    }
}

#[test]
fn a_scrub_counts_as_md_does_and_names_and_repairs_the_wrong_member() {
    // The counts of Linux 6.12 for these errors.
    for (level, chunk, members, count, repaired) in [
        ("1", "512K", 3, 384, 1), // of three copies one differs; where two do, none can be named
        ("5", "512K", 4, 16, 0),
        ("6", "512K", 4, 16, 2),
        ("10", "512K", 4, 384, 0),
    ] {
        let bench = Bench::new();
        let names = names(&bench, members);
        create(&["--level", level, "--chunk", chunk, "--assume-clean"], &names);
        let target = format!("md:{}", names.join(","));
        let detail = &json(&["md", "detail", "--json", &target])[0];
        let offset = detail["members"][0]["data_offset"].as_u64().unwrap();
        for (member, sector) in [(1, 100), (1, 5000), (2, 5004)] {
            if level == "6" && member == 2 {
                continue; // two wrong in one page cannot be named
            }
            common::damage(names[member].as_ref(), (offset + sector) * 512, b"A");
        }
        let lines = common::objects(&expect(1, &["md", "scrub", "--json", &target]));
        let last = lines.last().unwrap();
        assert_eq!(last["mismatch_cnt"], count, "{level}: {last}");
        let all = level == "6";
        let code = i32::from(!all);
        let lines = common::objects(&expect(code, &["md", "scrub", "--json", "--repair", &target]));
        assert_eq!(lines.last().unwrap()["repaired"], repaired, "{level}");
        if repaired > 0 {
            assert_eq!(lines[0]["member"], names[1]);
        }
        if all {
            expect(0, &["md", "scrub", &target]);
            // Without one member there is still redundancy to compare; without two there is none.
            expect(0, &["md", "scrub", &format!("md:{}", names[1..].join(","))]);
            expect(2, &["md", "scrub", &format!("md:{}", names[2..].join(","))]);
        }
    }
}

#[test]
fn stopped_or_killed_actions_continue() {
    let bench = Bench::new();
    let names = names(&bench, 5);
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let words = ["md", "create", "--member-size", "100M", "--level", "6", "-x", "1"];
    expect(0, &[&words[..], &["--assume-clean"], &members].concat());
    let target = format!("md:{}", names.join(","));
    let content: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let file = shown(&bench.file("content", &content));
    expect(0, &["md", "load", "--write", "--offset", "100K", &target, &file]);
    expect(0, &["md", "fail", "--later", &target, &names[1]]);
    // Slow enough that the signal comes first: 97 MiB at 8 MiB a second.
    let rebuild = ["md", "rebuild", "--rate", "8M", &target];
    assert_eq!(until(&target), 0);
    let mut child = begin(&rebuild);
    first_sign(&mut child);
    interrupt(&child);
    ended(130, child, &rebuild);
    let stopped = until(&target);
    assert!(stopped > 0, "{stopped}");
    let mut child = begin(&rebuild);
    first_sign(&mut child);
    while until(&target) <= stopped {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = until(&target);
    assert!(killed > stopped, "{killed} {stopped}");
    holds(&target, &content);
    expect(0, &["md", "rebuild", &target]);
    let scrub = ["md", "scrub", "--rate", "8M", &target];
    let mut child = begin(&scrub);
    first_sign(&mut child);
    interrupt(&child);
    let said = ended(130, child, &scrub);
    let row = said.split("--from ").nth(1).and_then(|rest| rest.split(' ').next()).expect("where");
    assert!(row.parse::<u64>().unwrap() > 0, "{said}");
    expect(0, &["md", "scrub", "--from", row, &target]);
    holds(&format!("md:{},{},{}", names[4], names[2], names[3]), &content);
}

/// Waits until a job prints its progress.
fn first_sign(child: &mut std::process::Child) {
    use std::io::Read;
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"iB\n") && !said.ends_with(b" s left\n") {
        child.stderr.as_mut().unwrap().read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
}

/// Returns the number of rebuilt sectors of the last member.
fn until(target: &str) -> u64 {
    let detail = &json(&["md", "detail", "--json", target])[0];
    let freshness = &detail["members"][4]["freshness"];
    freshness["rebuilding"]["until"].as_u64().expect("a member that is being rebuilt")
}

/// A RAID6 of five, one of whose members holds something else in one page.
fn with_a_wrong_member(bench: &Bench) -> (Vec<String>, Vec<u8>) {
    let words = ["--level", "6", "--assume-clean", "--chunk", "64K", "--data-offset", "1M"];
    let (names, content) = filled(bench, &words, 5);
    // In stripe 3, where all members hold something.
    let at = (1 << 20) + 3 * (64 << 10) + 8192;
    damage(names[1].as_ref(), at, b"not what it should be");
    (names, content)
}

#[test]
fn a_rebuild_from_members_that_disagree_fails_and_names_the_stripes() {
    let bench = Bench::new();
    let (names, _) = with_a_wrong_member(&bench);
    expect(0, &["md", "fail", "--later", &format!("md:{}", names.join(",")), &names[2]]);
    let left = [&names[..2], &names[3..]].concat();
    let new = shown(&bench.path("new.img"));
    let target = format!("md:{}", left.join(","));
    let run = expect(1, &["md", "add", "--json", "--member-size", "9M", &target, &new]);
    let answer = &objects(&run)[0];
    assert_eq!(answer["undecided_pages"], 1, "{}", run.stdout);
    assert_eq!(answer["undecided_stripes"], serde_json::json!([3]), "{}", run.stdout);
    assert!(answer["undecided_bytes"].as_array().is_some_and(|bytes| !bytes.is_empty()));
    assert!(
        run.stdout.contains("which of them is wrong is not known: stripes 3"),
        "{}",
        run.stdout
    );
    // The array is whole all the same.
    assert_eq!(answer["missing"], serde_json::json!([]));
    assert_eq!(answer["undecided_unlisted_sectors"], 0, "{}", run.stdout);
}

/// Returns the bad blocks that mdadm finds on a member: first sector and count of each range.
fn bad_blocks(name: &str) -> Option<Vec<(u64, u64)>> {
    let Ok(output) = Command::new("mdadm").args(["--examine-badblocks", name]).output() else {
        eprintln!("skipped: the bad blocks that mdadm finds on {name} (there is no mdadm)");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let range = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, _, count) = (words.next()?, words.next()?, words.next()?);
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    Some(text.lines().filter_map(range).collect())
}

#[test]
fn a_scrub_after_a_rebuild_does_not_take_the_wrong_member_for_right() {
    for (level, chunk) in [("6", 64u64 << 10), ("1", 0)] {
        let bench = Bench::new();
        let chunks = format!("{}K", chunk >> 10);
        let mut words = vec!["--level", level, "--assume-clean", "--data-offset", "1M"];
        words.extend(if chunk > 0 { vec!["--chunk", &*chunks] } else { vec![] });
        let (names, content) = filled(&bench, &words, if chunk > 0 { 5 } else { 3 });
        // In every stripe: roles rotate, so parity is rebuilt from the wrong data, too.
        for stripe in 0..8 {
            let at = (1 << 20) + stripe * (64 << 10) + 8192;
            damage(names[1].as_ref(), at, b"not what it should be");
        }
        expect(0, &["md", "fail", "--later", &format!("md:{}", names.join(",")), &names[2]]);
        let left = [&names[..2], &names[3..]].concat();
        let new = shown(&bench.path("new.img"));
        let target = format!("md:{}", left.join(","));
        let run = expect(1, &["md", "add", "--member-size", "9M", &target, &new]);
        assert!(
            run.stderr.contains("they are bad blocks of the rebuilt members"),
            "{}",
            run.stderr
        );
        let listed = bad_blocks(&new);
        let pages: Vec<(u64, u64)> = (0..8).map(|stripe| (stripe * 128 + 16, 8)).collect();
        assert!(listed.is_none_or(|listed| listed == pages), "{level}: {:?}", bad_blocks(&new));

        let target = format!("{target},{new}");
        let run = expect(1, &["md", "scrub", "--repair", "--json", &target]);
        assert_eq!(objects(&run).last().unwrap()["repaired"], 0, "{}", run.stdout);
        // Without the wrong member, the others still have what was written.
        let others = [&left[..1], &left[2..], &[new.clone()][..]].concat();
        let others = if chunk > 0 { others } else { left[..1].to_vec() };
        holds(&format!("md:{}", others.join(",")), &content);
    }
}

#[test]
fn a_replacement_gets_what_the_others_show_to_be_right() {
    let bench = Bench::new();
    let (mut names, content) = with_a_wrong_member(&bench);
    let new = shown(&bench.path("new.img"));
    let target = format!("md:{}", names.join(","));
    expect(0, &["md", "add", "--later", "--member-size", "9M", &target, &new]);
    let target = format!("{target},{new}");
    let run = expect(0, &["md", "replace", &target, &names[1]]);
    assert!(run.stderr.contains("1 pages of") && run.stderr.contains("m1.img"), "{}", run.stderr);
    names[1] = new;
    let target = format!("md:{}", names.join(","));
    holds(&target, &content);
    expect(0, &["md", "scrub", &target]);
}

#[test]
fn a_rebuild_that_leaves_a_role_empty_says_why_even_quietly() {
    let bench = Bench::new();
    let (names, _) = filled(&bench, &["--level", "5", "--assume-clean", "--bitmap", "none"], 4);
    let target = format!("md:{}", names.join(","));
    expect(0, &["md", "fail", "--later", &target, &names[1]]);
    let run = expect(1, &["md", "rebuild", "-q", &target]);
    assert!(run.stderr.contains("roles [1] have no member; left out: "), "{}", run.stderr);
    assert!(run.stderr.contains("m1.img") && run.stderr.contains("md add"), "{}", run.stderr);
}

#[test]
fn a_member_that_is_named_twice_is_named_as_the_repeat() {
    let bench = Bench::new();
    let (names, _) = filled(&bench, &["--level", "5", "--assume-clean"], 3);
    let alias = bench.path("alias.img");
    std::os::unix::fs::symlink(&names[0], &alias).unwrap();
    for other in [&names[0], &shown(&alias)] {
        let target = format!("md:{},{},{other}", names[0], names[1]);
        let motd = shown(&bench.file("motd", b"twice"));
        let run = expect(2, &["md", "load", "--write", &target, &motd]);
        let said = format!("{} and {other} are the same member [md.duplicate]", names[0]);
        assert!(run.stderr.contains(&said), "{}", run.stderr);
    }
}
