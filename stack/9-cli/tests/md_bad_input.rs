//! Members that form no array, or one that cannot be written: every command names the member and
//! what to do, and writes nothing, even if it was to write.

use std::fs;
use std::path::Path;

use crate::common::{Bench, damage, shown, xfskit};
use xfskit::raw::block::{BlockDevice, FileDevice, OpenMode};
use xfskit::raw::md::superblock::v1::SuperblockV1;
use xfskit::raw::md::superblock::{self, Superblock};
use xfskit_test_arrays::Fixture;

/// The members of an array as files.
fn unpack(bench: &Bench, prefix: &str, name: &str) -> Vec<String> {
    let fixture = Fixture::open(name);
    let member = |(i, device)| {
        let path = bench.file(&format!("{prefix}{i}.img"), &xfskit_test_arrays::content(device));
        shown(&path)
    };
    fixture.devices().iter().map(|device| &**device).enumerate().map(member).collect()
}

/// Changes a member's superblock, and corrects its checksum.
fn edit(member: &str, change: impl FnOnce(&mut SuperblockV1)) {
    let device = FileDevice::open(Path::new(member), OpenMode::ReadWrite).unwrap();
    let mut found = superblock::read(&device).unwrap().unwrap().superblock;
    let Superblock::V1(sb) = &mut found else { panic!("not version 1") };
    change(sb);
    device.write_at(found.at().byte_offset(), &found.encode()).unwrap();
}

fn target(members: &[String]) -> String {
    format!("md:{}", members.join(","))
}

/// Runs every command that would read or change the array of these members. Each is refused with
/// all of `says`, and no member changes.
fn refused(members: &[String], commands: &[&[&str]], says: &[&str]) {
    let before: Vec<Vec<u8>> = members.iter().map(|member| fs::read(member).unwrap()).collect();
    let target = target(members);
    for command in commands {
        let words: Vec<&str> =
            command.iter().map(|word| if *word == "TARGET" { &*target } else { *word }).collect();
        let run = xfskit(&words);
        assert_eq!(run.code, 2, "{words:?}: {}", run.stderr);
        for what in says {
            assert!(run.stderr.contains(what), "{words:?} does not say {what}: {}", run.stderr);
        }
        let after = members.iter().map(|member| fs::read(member).unwrap());
        assert!(after.zip(&before).all(|(after, before)| after == *before), "{words:?} wrote");
    }
}

const READING: [&[&str]; 3] =
    [&["md", "dump", "TARGET"], &["ls", "TARGET", "/"], &["check", "TARGET"]];

const WRITING: [&[&str]; 4] = [
    &["md", "load", "--write", "TARGET", "/dev/null"],
    &["md", "rebuild", "TARGET"],
    &["md", "scrub", "--repair", "TARGET"],
    &["mkdir", "TARGET", "/new"],
];

fn all() -> Vec<&'static [&'static str]> {
    READING.into_iter().chain(WRITING).collect()
}

const RAID5: &str = "raid5-left-symmetric";

#[test]
fn members_of_different_arrays_are_refused_by_name() {
    let bench = Bench::new();
    let mut members = unpack(&bench, "m", RAID5);
    members[2] = unpack(&bench, "other", "raid5-right-symmetric").swap_remove(2);
    refused(&members, &all(), &["other2.img", "[md.set_uuid]", "Name the members of one array"]);
}

#[test]
fn a_member_given_twice_is_named_with_its_copy() {
    let bench = Bench::new();
    let mut members = unpack(&bench, "m", RAID5);
    members.push(shown(&bench.file("copy.img", &fs::read(&members[1]).unwrap())));
    refused(&members, &all(), &["m1.img and ", "copy.img", "[md.duplicate]", "one of the two"]);
}

#[test]
fn stale_members_are_not_used_if_others_are_missing() {
    let bench = Bench::new();
    let mut members = unpack(&bench, "m", "raid5-degraded");
    let assembly = xfskit_test_arrays::assembly(&Fixture::open("raid5-degraded").devices());
    members.remove(assembly.roles.into_iter().flatten().next().unwrap());
    refused(&members, &all(), &["[md.missing]", "left out: ", "Name the missing members"]);
}

#[test]
fn too_many_missing_members_are_listed_by_role() {
    let bench = Bench::new();
    let raid5 = unpack(&bench, "m", RAID5);
    refused(&raid5[..2], &all(), &["raid5 of 4", "roles 2, 3", "Name the missing members"]);
    let raid6 = unpack(&bench, "n", "raid6-left-symmetric");
    refused(&raid6[2..4], &all(), &["raid6 of 5", "roles 0, 1, 4", "Name the missing members"]);
    let raid0 = unpack(&bench, "o", "raid0-equal");
    refused(&raid0[1..], &all()[..2], &["raid0 of 3", "role 0", "Name the missing members"]);
}

#[test]
fn superblocks_with_bad_checksums_are_named_by_their_member() {
    let bench = Bench::new();
    let members = unpack(&bench, "m", RAID5);
    damage(members[1].as_ref(), 4096 + 0xc8, &[9]);
    refused(&members, &all(), &["m1.img", "[md1.sb_csum]", "Leave this member out"]);
}

#[test]
fn sizes_that_disagree_are_named_by_their_member() {
    let bench = Bench::new();
    let members = unpack(&bench, "m", RAID5);
    edit(&members[2], |sb| sb.size.set(sb.size.get() / 2));
    refused(&members, &all(), &["m2.img", "disagree about size", "leave it out"]);
    let cut = unpack(&bench, "cut", RAID5);
    fs::OpenOptions::new().write(true).open(&cut[3]).unwrap().set_len(1 << 20).unwrap();
    refused(&cut, &all(), &["cut3.img", "Leave it out"]);
}

#[test]
fn an_unfinished_reshape_is_read_and_not_written() {
    let bench = Bench::new();
    let members = unpack(&bench, "m", "raid5-reshape");
    let run = xfskit(&["md", "dump", &target(&members)]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("at sector 3072 of the array"), "{}", run.stderr);
    refused(&members, &WRITING[..3], &["reshape", "3072", "let md finish it"]);
}
