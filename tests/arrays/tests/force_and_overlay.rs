//! Assembly by force, and changes that go to an overlay file.

#![allow(missing_docs)]

use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_md::assemble::{Assembly, Error, Member, assemble, assemble_by_force};
use xfskit_target::Target;
use xfskit_test_arrays::{Fixture, NOW, content};
use xfskit_units::ByteOffset;

fn members(fixture: &Fixture) -> Vec<Member> {
    fixture.named().into_iter().map(|(name, device)| Member { name, device }).collect()
}

fn assembly(fixture: &Fixture) -> Assembly {
    assemble(members(fixture)).unwrap()
}

/// Returns an array in which one more member than it tolerates has failed, with nothing written in
/// between.
fn crashed(name: &str) -> (Fixture, Vec<u8>) {
    let fixture = Fixture::open(name);
    let array = assembly(&fixture).open_writable(NOW).unwrap();
    let expected = content(&array);
    array.fail(1).unwrap();
    if name.starts_with("raid6") {
        array.fail(3).unwrap();
    }
    array.close().unwrap();
    (fixture, expected)
}

#[test]
fn the_newest_stale_member_is_used_by_force_and_becomes_fresh() {
    for name in ["raid5-left-symmetric", "raid5-0.90", "raid6-left-symmetric", "raid10-n2-4"] {
        let (fixture, expected) = crashed(name);
        // A member that was present until the end is lost.
        let lost = if name == "raid10-n2-4" { 0 } else { 2 };
        let rest = || {
            let mut members = members(&fixture);
            members.remove(lost);
            members
        };
        assert!(matches!(assemble(rest()), Err(Error::TooManyMissing { .. })), "{name}");
        let forced = assemble_by_force(rest()).unwrap();
        let forced_count = forced.warnings.iter().filter(|w| w.contains("by force")).count();
        assert_eq!(forced_count, 1, "{name}: {:?}", forced.warnings);
        assert_eq!(forced.write_refusal(), None, "{name}");
        let array = forced.open_writable(NOW).unwrap();
        assert!(content(&array) == expected, "{name}");
        array.write_at(ByteOffset(0), &expected[..512]).unwrap();
        array.close().unwrap();
        // Force is no longer needed.
        let again = assemble(rest()).unwrap();
        assert!(!again.is_dirty() && again.is_degraded(), "{name}");
        assert!(content(&*again.open().unwrap()) == expected, "{name}");
    }
}

#[test]
fn untrusted_parity_is_used_by_force_only() {
    let fixture = Fixture::open("raid6-dirty-nobitmap");
    let fewer = || members(&fixture).split_off(1);
    let doubtful = assemble(fewer()).unwrap();
    assert!(doubtful.is_parity_untrusted() && doubtful.write_refusal().is_some());
    let forced = assemble_by_force(fewer()).unwrap();
    assert_eq!(forced.write_refusal(), None);
    let array = forced.open_writable(NOW).unwrap();
    array.write_at(ByteOffset(0), &[1; 512]).unwrap();
    array.close().unwrap();
    assert!(!assemble(fewer()).unwrap().is_dirty());
}

#[test]
fn force_uses_no_stale_member_if_there_are_enough_fresh_ones() {
    let fixture = Fixture::open("raid5-degraded");
    let forced = assemble_by_force(members(&fixture)).unwrap();
    assert_eq!(forced.missing(), assembly(&fixture).missing());
}

fn files(fixture: &Fixture, folder: &Path) -> Vec<Vec<u8>> {
    let all: Vec<Vec<u8>> = fixture.named().iter().map(|(_, device)| content(&**device)).collect();
    for (i, bytes) in all.iter().enumerate() {
        std::fs::write(folder.join(format!("m{i}.img")), bytes).unwrap();
    }
    all
}

#[test]
fn changes_go_to_the_overlay_and_persist() {
    let folder = tempfile::tempdir().unwrap();
    let before = files(&Fixture::open("raid6-left-symmetric"), folder.path());
    let path = folder.path().display().to_string();
    let open = |mode| -> Arc<dyn BlockDevice> {
        let name = format!("md:overlay={path}/changes:{path}/m*.img");
        xfskit_target::open_unchecked(&Target::parse(&name).unwrap(), mode).unwrap()
    };
    let mut expected = content(&*open(OpenMode::ReadOnly));
    assert!(!folder.path().join("changes").exists(), "reading makes no overlay");
    for round in 0..3u8 {
        let array = open(OpenMode::ReadWrite);
        assert!(content(&*array) == expected, "round {round}");
        let at = 30_000 * usize::from(round);
        expected[at..at + 50_000].fill(round + 1);
        array.write_at(ByteOffset(at as u64), &expected[at..at + 50_000]).unwrap();
        array.flush().unwrap();
    }
    assert!(content(&*open(OpenMode::ReadOnly)) == expected);
    for (i, bytes) in before.iter().enumerate() {
        assert!(std::fs::read(folder.path().join(format!("m{i}.img"))).unwrap() == *bytes, "m{i}");
    }
}
