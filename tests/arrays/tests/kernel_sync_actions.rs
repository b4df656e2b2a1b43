//! Linux's md continues where arrays were left here: new arrays that do not agree yet, rebuilds and
//! replacements that were stopped half-way, re-added members that lack what the bitmap names. It
//! finds no mismatches in what was finished here.

#![allow(missing_docs)]

use std::ops::ControlFlow;

use xfskit_block::BlockDevice;
use xfskit_md::Level;
use xfskit_md::array::Array;
use xfskit_md::array::sync_action::Completion;
use xfskit_md::create::{CreateOptions, NewMember};
use xfskit_test_arrays::member_set::{
    MIB, MemberSet, create_array, create_options, fill, layout, run_to_end,
};
use xfskit_test_arrays::{NOW, content, sha256};
use xfskit_test_support::guest::Guest;
use xfskit_units::{ByteOffset, Sectors};

/// The commands run on every array. `$1` is the directory of its members.
const QUESTIONS: &str = r#"
ask() {
    members=$(loops $1/m*)
    mdadm --assemble --run /dev/md0 $members 2>/dev/null || echo "$1 refused"
    sleep 0.3; idle md0
    echo "$1 state $(mdadm --detail /dev/md0 | sed -n 's/ *State : //p')"
    echo "$1 content $(sha256sum /dev/md0 | cut -d' ' -f1)"
    echo check > /sys/block/md0/md/sync_action; idle md0
    echo "$1 mismatches $(cat /sys/block/md0/md/mismatch_cnt)"
    mdadm --stop /dev/md0 2>/dev/null
    for m in $members; do losetup -d $m; done
}
"#;

/// Returns an array whose members held something before, created without `assume_clean`.
fn new(level: Level, members: usize) -> MemberSet {
    let set = MemberSet::new(members);
    for (i, (_, device)) in set.0.iter().enumerate() {
        let noise = vec![u8::try_from(i + 1).unwrap(); 3 << 20];
        device.write_at(ByteOffset(0), &noise).unwrap();
    }
    let roles: Vec<Option<NewMember>> = (0..members).map(|i| Some(set.new_member(i))).collect();
    let create_options = CreateOptions {
        assume_clean: false,
        ..create_options(layout(level, ""), level == Level::Raid6)
    };
    create_options.create(&roles, &[]).unwrap();
    set
}

/// Returns an array of 10 MiB from each of `members`, and a spare.
fn large(level: Level, name: &str, members: usize) -> MemberSet {
    let mut set = MemberSet::default();
    (0..=members).for_each(|_| set.put(13 * MIB));
    let roles: Vec<Option<NewMember>> = (0..members).map(|i| Some(set.new_member(i))).collect();
    let create_options = CreateOptions {
        size: Some(Sectors(10 << 11)),
        ..create_options(layout(level, name), false)
    };
    create_options.create(&roles, &[set.new_member(members)]).unwrap();
    set
}

/// Runs `work` on the array, and closes it. Returns the set and the array's content.
fn with(set: MemberSet, work: impl FnOnce(&Array)) -> (MemberSet, Vec<u8>) {
    let array = set.open();
    fill(&array, 11);
    work(&array);
    let expected = content(&array);
    array.close().unwrap();
    drop(array);
    (set, expected)
}

fn stopped(array: &Array) {
    assert_eq!(array.rebuild(|_| ControlFlow::Break(())).unwrap(), Completion::Stopped);
}

/// A RAID of members with a bitmap of which one was away; whether it is brought up to date here.
fn returned(finished: bool) -> (MemberSet, Vec<u8>) {
    let (set, _) = with(create_array(layout(Level::Raid6, ""), 4, 0, true), |array| {
        array.close().unwrap();
        array.fail(1).unwrap();
        array.write_at(ByteOffset(70_000), &[9; 5000]).unwrap();
    });
    let candidate = set.assembly().re_add_candidate("m1").unwrap();
    let array = set.assembly().open_writable(NOW).unwrap();
    array.re_add(&candidate).unwrap();
    if finished {
        array.rebuild(run_to_end).unwrap();
    }
    let expected = content(&array);
    drop(array);
    (set, expected)
}

#[test]
fn linux_continues_arrays_left_here_and_finds_no_mismatch() {
    if !xfskit_test_support::guest::available_or_skip() {
        return;
    }
    let rebuilt = |array: &Array| {
        array.fail(0).unwrap();
        array.rebuild(run_to_end).unwrap();
    };
    let cases = [
        ("new-raid1", with(new(Level::Raid1, 2), |_| ())),
        ("new-raid5", with(new(Level::Raid5, 3), |_| ())),
        ("new-raid6", with(new(Level::Raid6, 4), |_| ())),
        ("new-raid10", with(new(Level::Raid10, 4), |_| ())),
        ("rebuilt-raid5", with(create_array(layout(Level::Raid5, ""), 3, 1, true), rebuilt)),
        (
            "rebuilt-raid6",
            with(create_array(layout(Level::Raid6, "ddf-N-restart"), 5, 1, false), rebuilt),
        ),
        ("rebuilt-raid10", with(create_array(layout(Level::Raid10, "f2"), 3, 1, true), rebuilt)),
        (
            "replaced-raid1",
            with(create_array(layout(Level::Raid1, ""), 2, 1, true), |array| {
                array.replace(1, None).unwrap();
                array.rebuild(run_to_end).unwrap();
            }),
        ),
        (
            "half-rebuilt-raid6",
            with(large(Level::Raid6, "left-symmetric", 4), |array| {
                array.fail(2).unwrap();
                stopped(array);
            }),
        ),
        (
            "half-replaced-raid5",
            with(large(Level::Raid5, "left-symmetric", 3), |array| {
                array.replace(1, None).unwrap();
                stopped(array);
            }),
        ),
        ("returned-raid6", returned(true)),
        ("candidate-raid6", returned(false)),
    ];
    let mut guest = Guest::new();
    guest.script(QUESTIONS);
    for (name, (set, _)) in &cases {
        for (member, device) in &set.0 {
            guest.file(&format!("{name}/{member}"), content(&**device));
        }
        guest.script(&format!("ask {name}"));
    }
    let output = guest.run().unwrap();
    for (name, (_, expected)) in &cases {
        let content = sha256(expected);
        for (what, expected) in [("state", "clean"), ("content", &content), ("mismatches", "0")] {
            let start = format!("{name} {what} ");
            let found = output.text.lines().find_map(|line| line.strip_prefix(&start));
            let found = found.unwrap_or("nothing").trim();
            assert_eq!(found, expected, "{name}: {what}, of:\n{}", output.text);
        }
    }
}
