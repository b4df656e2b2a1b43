//! Assembles every array made by the kernel. Its content equals what the kernel read, for any order
//! of the members, and with as many members missing as the level tolerates.

#![allow(missing_docs)]

use std::sync::Arc;

use sha2::{Digest, Sha256};
use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::assemble::{Error, Freshness};
use xfskit_md::superblock::{self, Superblock};
use xfskit_md::{Assembly, Level, Member, assemble};
use xfskit_test_arrays::{Fixture, manifest};
use xfskit_units::{ByteLen, ByteOffset};

/// Hash of `raid6-scrub` as stored, with one data sector overwritten.
const SCRUB_AS_STORED: &str = "ba8c308400c0c45cd969f8ad15a99bcd89deab4841a820cd49fedb24ddec5f00";

fn members(fixture: &Fixture, which: impl IntoIterator<Item = usize>) -> Vec<Member> {
    let named = fixture.named();
    let member = |i: usize| Member { name: named[i].0.clone(), device: Arc::clone(&named[i].1) };
    which.into_iter().map(member).collect()
}

fn all(fixture: &Fixture) -> Vec<Member> {
    members(fixture, 0..fixture.members.len())
}

fn sha256(device: &dyn BlockDevice) -> String {
    let mut hash = Sha256::new();
    let (mut offset, end) = (0, device.size().0);
    let mut piece = vec![0; 1 << 20];
    while offset < end {
        let len = usize::try_from((end - offset).min(1 << 20)).unwrap();
        device.read_at(ByteOffset(offset), &mut piece[..len]).unwrap();
        hash.update(&piece[..len]);
        offset += len as u64;
    }
    hash.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Asserts that an array has the content that the kernel read.
fn assert_content(fixture: &Fixture, assembly: &Assembly, how: &str) {
    let name = &fixture.entry.name;
    let device = assembly.open().unwrap_or_else(|e| panic!("{name} {how}: {e}"));
    assert_eq!(device.size(), ByteLen(fixture.entry.bytes), "{name} {how}");
    let expected = if name == "raid6-scrub" { SCRUB_AS_STORED } else { &fixture.entry.sha256 };
    assert_eq!(sha256(&device), expected, "{name} {how}");
}

#[test]
fn every_array_holds_what_the_kernel_read() {
    for entry in manifest() {
        let fixture = Fixture::open(&entry.name);
        let assembly = assemble(all(&fixture)).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
        assert_content(&fixture, &assembly, "whole");
    }
}

#[test]
fn the_order_of_the_members_does_not_matter() {
    for name in
        ["raid6-left-symmetric", "raid5-rebuilding", "raid5-journal", "linear", "raid10-o2-3"]
    {
        let fixture = Fixture::open(name);
        let n = fixture.members.len();
        for turn in 0..n {
            let order = (0..n).map(|i| (i * (n - 1) + turn) % n);
            let assembly = assemble(members(&fixture, order)).unwrap();
            assert_content(&fixture, &assembly, &format!("turned by {turn}"));
        }
    }
}

/// Returns the members that hold all of their roles.
fn in_sync(assembly: &Assembly) -> Vec<usize> {
    let whole = |i: &usize| matches!(assembly.members[*i].freshness, Freshness::InSync { .. });
    (0..assembly.members.len()).filter(whole).collect()
}

#[test]
fn any_one_member_may_be_missing_if_the_level_tolerates_it() {
    let mut tried = 0;
    for entry in manifest() {
        // In these arrays the remaining members do not have the content of all members.
        const NOT: [&str; 3] = ["raid6-scrub", "raid6-dirty-bitmap-torn", "raid1-badblocks"];
        if NOT.contains(&entry.name.as_str()) {
            continue;
        }
        let fixture = Fixture::open(&entry.name);
        let whole = assemble(all(&fixture)).unwrap();
        let n = fixture.members.len();
        for removed in in_sync(&whole) {
            let how = format!("without m{removed}");
            match assemble(members(&fixture, (0..n).filter(|i| *i != removed))) {
                Ok(assembly) => {
                    assert!(assembly.is_degraded() && !assembly.missing().is_empty());
                    // A half-rebuilt member does not have the data of its other half.
                    if entry.name != "raid5-rebuilding" {
                        assert_content(&fixture, &assembly, &how);
                    }
                    tried += 1;
                }
                Err(Error::TooManyMissing { missing, .. }) => {
                    let tolerated = whole.geometry.tolerates() as usize;
                    assert!(missing.len() > tolerated, "{} {how}", entry.name);
                }
                Err(other) => panic!("{} {how}: {other}", entry.name),
            }
        }
    }
    assert!(tried > 120, "only {tried} arrays ran with a member missing");
}

#[test]
fn bad_blocks_are_read_from_the_other_member_only() {
    let fixture = Fixture::open("raid1-badblocks");
    let alone = assemble(members(&fixture, [1])).unwrap().open().unwrap();
    let mut sector = [0; 512];
    for (at, readable) in [(299, true), (300, false), (307, false), (308, true), (1010, false)] {
        let offset = ByteOffset(at * 512);
        assert_eq!(alone.read_at(offset, &mut sector).is_ok(), readable, "sector {at}");
    }
    let both = assemble(all(&fixture)).unwrap().open().unwrap();
    both.read_at(ByteOffset(300 * 512), &mut sector).unwrap();
    assert_eq!(sector, xfskit_test_arrays::pattern(1, 300));
}

#[test]
fn two_members_of_a_raid6_may_be_missing() {
    for entry in manifest().into_iter().filter(|entry| entry.name.starts_with("raid6-")) {
        if ["raid6-scrub", "raid6-dirty-bitmap-torn"].contains(&entry.name.as_str()) {
            continue;
        }
        let fixture = Fixture::open(&entry.name);
        let whole = assemble(all(&fixture)).unwrap();
        if whole.is_degraded() {
            continue;
        }
        let n = fixture.members.len();
        let roles = in_sync(&whole);
        // Two pairs of each array, one of large arrays: `reading.rs` tries all pairs.
        let pairs = roles.iter().flat_map(|a| roles.iter().map(move |b| (*a, *b)));
        let most = if entry.bytes > 64 << 20 { 1 } else { 2 };
        for (a, b) in pairs.filter(|(a, b)| a < b).take(most) {
            let left = (0..n).filter(|i| ![a, b].contains(i));
            let assembly = assemble(members(&fixture, left)).unwrap();
            assert_content(&fixture, &assembly, &format!("without m{a} and m{b}"));
        }
        let three = assemble(members(&fixture, (0..n).filter(|i| !roles[..3].contains(i))));
        assert!(matches!(three, Err(Error::TooManyMissing { .. })), "{}", entry.name);
    }
}

#[test]
fn stale_members_spares_and_journals_are_classified() {
    let all_freshness = |name: &str| -> Vec<Freshness> {
        let assembly = assemble(all(&Fixture::open(name))).unwrap();
        assembly.members.iter().map(|member| member.freshness).collect()
    };
    let sync = |role| Freshness::InSync { role };
    let stale = |events| Freshness::Stale { events };
    assert_eq!(
        all_freshness("raid6-xfs-degraded2"),
        [sync(0), stale(17), sync(2), sync(3), stale(21), sync(5)]
    );
    assert_eq!(all_freshness("raid6-xfs-clean")[6], Freshness::Spare);
    assert_eq!(all_freshness("raid5-journal")[3], Freshness::Journal);
    let rebuilding = all_freshness("raid5-rebuilding");
    assert!(matches!(rebuilding[2], Freshness::Stale { .. }), "{rebuilding:?}");
    let until = xfskit_units::MemberSector(1024);
    assert_eq!(rebuilding[4], Freshness::Rebuilding { role: 2, until });
}

#[test]
fn a_dirty_degraded_array_is_read_with_a_warning_and_not_written() {
    let fixture = Fixture::open("raid6-dirty-bitmap");
    let whole = assemble(all(&fixture)).unwrap();
    assert!(whole.is_dirty() && !whole.is_parity_untrusted());
    assert!(whole.warnings.is_empty(), "{:?}", whole.warnings);
    let degraded = assemble(members(&fixture, 1..6)).unwrap();
    assert!(degraded.is_parity_untrusted() && degraded.write_refusal().is_some());
    assert!(degraded.warnings[0].contains("4 of 64 regions"), "{:?}", degraded.warnings);
}

/// Changes a member's superblock and recomputes its checksum.
fn edit(member: &MemDevice, change: impl FnOnce(&mut superblock::SuperblockV1)) {
    let mut found = superblock::read(member).unwrap().unwrap().superblock;
    let Superblock::V1(sb) = &mut found else { panic!("not version 1") };
    change(sb);
    member.write_at(found.at().byte_offset(), &found.encode()).unwrap();
}

#[test]
fn members_that_make_no_array_are_refused_by_name() {
    let fixture = Fixture::open("raid5-left-symmetric");
    let other = Fixture::open("raid5-right-symmetric");
    let why = |members: Vec<Member>| match assemble(members) {
        Ok(_) => panic!("assembled"),
        Err(error) => error.to_string(),
    };
    let mut mixed = all(&fixture);
    mixed[2].device = Arc::clone(&other.named()[2].1);
    mixed[2].name = "other.img".into();
    let reported = why(mixed);
    assert!(reported.contains("other.img") && reported.contains("[md.set_uuid]"), "{reported}");

    let mut twice = all(&fixture);
    twice.push(Member { name: "copy.img".into(), device: Arc::clone(&twice[1].device) });
    assert_eq!(why(twice), "m1.img and copy.img are the same member [md.duplicate]");

    let mut empty = all(&fixture);
    empty[0].device = Arc::new(MemDevice::new(ByteLen(1 << 20)));
    assert_eq!(why(empty), "m0.img: no md superblock [md.superblock]");
    assert_eq!(why(Vec::new()), "no member was named [md.nothing]");
    let reported = why(members(&fixture, [0, 2]));
    assert_eq!(reported, "raid5 of 4 cannot run without roles 1, 3 [md.missing]");

    let mut cut = all(&fixture);
    cut[3].device = Arc::new(
        xfskit_block::WindowDevice::new(
            Arc::clone(&cut[3].device),
            ByteOffset(0),
            ByteLen(1 << 20),
        )
        .unwrap(),
    );
    let reported = assemble(cut).unwrap().open().unwrap_err().to_string();
    assert!(reported.contains("m3.img"), "{reported}");
}

#[test]
fn impossible_superblocks_are_refused_by_the_members_name() {
    let why = |change: &dyn Fn(&Fixture)| {
        let fixture = Fixture::open("raid5-left-symmetric");
        change(&fixture);
        assemble(all(&fixture)).map_or_else(|e| e.to_string(), |_| "assembled".to_owned())
    };
    let reported = why(&|f| f.members[1].write_at(ByteOffset(4096 + 0xc8), &[9]).unwrap());
    assert!(reported.starts_with("m1.img: superblock: sb_csum is "), "{reported}");
    let reported = why(&|f| edit(&f.members[2], |sb| sb.layout.set(3)));
    assert_eq!(reported, "m2.img and m0.img disagree about layout: 3 and 2 [md.disagree]");
    let reported = why(&|f| edit(&f.members[2], |sb| sb.feature_map.set(1 << 20)));
    assert!(reported.contains("[md1.feature_map]"), "{reported}");
    let all_members = |change: fn(&mut superblock::SuperblockV1)| {
        why(&|f| f.members.iter().for_each(|member| edit(member, change)))
    };
    assert!(all_members(|sb| sb.level.set(-4)).contains("level -4 is not supported"));
    assert!(all_members(|sb| sb.layout.set(9)).contains("has no layout 9"));
    assert!(all_members(|sb| sb.chunksize.set(24)).contains("chunks of 24 sectors"));
}

#[test]
fn members_one_event_behind_are_fresh_and_two_behind_are_not() {
    let fixture = Fixture::open("raid6-left-symmetric");
    edit(&fixture.members[1], |sb| sb.events.set(sb.events.get() - 1));
    edit(&fixture.members[3], |sb| sb.events.set(sb.events.get() - 2));
    let assembly = assemble(all(&fixture)).unwrap();
    assert_eq!(assembly.missing(), [3]);
    assert_content(&fixture, &assembly, "with one member two events behind");
}

#[test]
fn two_halves_that_were_run_separately_are_refused_together() {
    let fixture = Fixture::open("raid1-1.2");
    for (own, other) in [(0, 1), (1, 0)] {
        edit(&fixture.members[own], |sb| sb.dev_roles[other].set(0xfffe));
    }
    let error = assemble(all(&fixture)).unwrap_err();
    assert!(error.to_string().contains("each say that the other failed"), "{error}");
    let half = assemble(members(&fixture, [1])).unwrap();
    assert_eq!(half.layout().level(), Level::Raid1);
    assert_content(&fixture, &half, "one half");
}
