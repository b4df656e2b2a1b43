//! Metadata that a written array leaves, as read here after assembly, and by mdadm.

#![allow(missing_docs)]

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_md::assemble::{Assembly, Freshness, Member, assemble};
use xfskit_md::bitmap::Bitmap;
use xfskit_test_arrays::{Fixture, NOW, content};
use xfskit_units::ByteOffset;

fn assembly(fixture: &Fixture) -> Assembly {
    let members = fixture.named().into_iter().map(|(name, device)| Member { name, device });
    assemble(members.collect()).unwrap()
}

fn events(fixture: &Fixture) -> Vec<u64> {
    assembly(fixture).members.iter().map(|member| member.superblock.events()).collect()
}

/// Arrays that may be written: clean and complete, of every level, with and without a bitmap.
const WRITABLE: [&str; 11] = [
    "raid1-0.90",
    "raid5-0.90",
    "raid1-1.0-bitmap",
    "raid1-1.1-bitmap",
    "raid1-1.2",
    "raid4",
    "raid5-left-symmetric",
    "raid6-ddf-N-restart",
    "raid10-n2-bitmap",
    "raid10-f2-4",
    "raid0-equal",
];

/// Overwrites parts of the device, and of `content` in the same way.
fn change(device: &dyn BlockDevice, content: &mut [u8]) {
    for (at, len) in [(4_000, 9_000), (200_000, 40_000), (content.len() - 5_000, 5_000)] {
        let at = at.min(content.len() - len);
        content[at..at + len].fill(0x5a);
        device.write_at(ByteOffset(at as u64), &content[at..at + len]).unwrap();
    }
}

#[test]
fn an_array_is_active_while_it_is_written_and_clean_again_when_closed() {
    for name in WRITABLE {
        let fixture = Fixture::open(name);
        let before = assembly(&fixture);
        assert_eq!(before.write_refusal(), None, "{name}");
        let had = events(&fixture);
        let redundant = name != "raid0-equal";
        let array = before.open_writable(NOW).unwrap();
        let mut expected = content(&array);
        change(&array, &mut expected);
        // The state that a crash would leave.
        let now = assembly(&fixture);
        assert_eq!(now.is_dirty(), redundant, "{name}");
        assert!(!redundant || events(&fixture).iter().all(|now| *now == had[0] + 1), "{name}");
        if name.ends_with("bitmap") {
            let bitmap = now.bitmap.as_ref().expect("a bitmap that can be believed");
            assert!(bitmap.dirty() > 0, "{name}");
        }
        assert!(content(&*now.open().unwrap()) == expected, "{name}");
        array.close().unwrap();
        let after = assembly(&fixture);
        assert!(!after.is_dirty(), "{name}");
        assert_eq!(events(&fixture), had, "{name}");
        assert_eq!(after.bitmap.as_ref().map_or(0, Bitmap::dirty), 0, "{name}");
        assert!(content(&*after.open().unwrap()) == expected, "{name}");
        // Parity and copies are right: the content is the same without any one member.
        for role in (0..after.roles.len()).filter(|_| redundant) {
            let mut one_less = after.clone();
            one_less.roles[role] = None;
            assert!(content(&*one_less.open().unwrap()) == expected, "{name} without {role}");
        }
    }
}

#[test]
fn bits_of_idle_regions_are_cleared_some_flushes_later() {
    let fixture = Fixture::open("raid1-1.1-bitmap");
    let array = assembly(&fixture).open_writable(NOW).unwrap();
    array.write_at(ByteOffset(0), &[1; 4096]).unwrap();
    let dirty = || assembly(&fixture).bitmap.expect("a bitmap").dirty();
    for expected in [1, 1, 1, 0] {
        assert_eq!(dirty(), expected);
        array.flush().unwrap();
    }
}

#[test]
fn a_failed_member_is_stale_from_then_on() {
    for name in ["raid6-left-symmetric", "raid5-left-symmetric", "raid1-1.1-bitmap", "raid10-n2-4"]
    {
        let fixture = Fixture::open(name);
        let array = assembly(&fixture).open_writable(NOW).unwrap();
        let mut expected = content(&array);
        array.fail(1).unwrap();
        change(&array, &mut expected);
        drop(array); // closes
        let after = assembly(&fixture);
        assert!(!after.is_dirty() && after.is_degraded(), "{name}");
        assert_eq!(after.missing(), [1], "{name}");
        assert!(matches!(after.members[1].freshness, Freshness::Stale { .. }), "{name}");
        assert!(content(&*after.open().unwrap()) == expected, "{name}");
        if let Some(bitmap) = &after.bitmap {
            assert!(bitmap.dirty() > 0, "{name}: what the member missed");
        }
    }
}

#[test]
fn unsupported_arrays_are_refused_for_writing_by_name() {
    let refused = assembly(&Fixture::open("raid5-reshape")).write_refusal().unwrap();
    assert!(refused.contains("reshape"), "{refused}");
}

#[test]
fn mdadm_reads_superblocks_written_here() {
    if Command::new("mdadm").arg("--version").output().is_err() {
        println!("skipped: mdadm is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let examine = |device: &Arc<dyn BlockDevice>| {
        let path = folder.path().join("member.img");
        File::create(&path).unwrap().write_all(&content(&**device)).unwrap();
        let output = Command::new("mdadm").arg("--examine").arg(&path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let fixture = Fixture::open("raid10-n2-bitmap");
    let reported = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(key));
        line.and_then(|line| line.split_once(" : ")).map_or_else(String::new, |(_, v)| v.into())
    };
    let array = assembly(&fixture).open_writable(NOW).unwrap();
    let mut expected = content(&array);
    change(&array, &mut expected);
    for state in ["active", "clean"] {
        for (name, device) in fixture.named() {
            let text = examine(&device);
            assert_eq!(reported(&text, "State"), state, "{name}: {text}");
            assert!(reported(&text, "Checksum").ends_with("correct"), "{name}: {text}");
            assert_eq!(reported(&text, "Events"), events(&fixture)[0].to_string(), "{name}");
        }
        array.close().unwrap();
    }
}
