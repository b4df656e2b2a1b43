//! Verified reads: a wrong member is corrected if it can be located, and reported otherwise.

#![allow(missing_docs)]

use xfskit_block::BlockDevice;
use xfskit_md::array::Array;
use xfskit_md::assemble::{Member, assemble};
use xfskit_test_arrays::{Fixture, content, sha256};
use xfskit_test_support::Random;
use xfskit_units::{ByteOffset, index};

fn open(fixture: &Fixture, removed: Option<usize>) -> Array {
    let mut members = fixture.named();
    if let Some(removed) = removed {
        members.remove(removed);
    }
    let members = members.into_iter().map(|(name, device)| Member { name, device });
    let array = assemble(members.collect()).unwrap().open_array().unwrap();
    array.verify_reads();
    array
}

/// Changes the member near its end, where these small members have data.
fn corrupt(fixture: &Fixture, member: usize) {
    let device = &fixture.members[member];
    let at = device.size().0 - 64 * 1024;
    device.write_at(ByteOffset(at), &[0xa5; 3]).unwrap();
}

/// Reads the whole array by reads of many lengths.
fn in_pieces(array: &Array, seed: u64) -> Vec<u8> {
    let mut random = Random::of_test(seed);
    let size = array.size().0;
    let mut all = vec![0; index(size)];
    let mut at = 0;
    while at < size {
        let len = [1, 511, 4096, 5000, 65536, 200_000, 1 << 20][random.below(7)];
        let end = (at + len).min(size);
        array.read_at(ByteOffset(at), &mut all[index(at)..index(end)]).unwrap();
        at = end;
    }
    all
}

#[test]
fn a_wrong_member_of_a_raid6_is_corrected_in_full_and_partial_reads() {
    for name in ["raid6-left-symmetric", "raid6-right-asymmetric-6", "raid6-ddf-zero-restart"] {
        for member in 0..4 {
            let fixture = Fixture::open(name);
            corrupt(&fixture, member);
            let array = open(&fixture, None);
            assert_eq!(sha256(&content(&array)), fixture.entry.sha256, "{name} {member}");
            let found = array.verify_report();
            assert_eq!(found.pages.len(), 1, "{name} {member}: {found:?}");
            assert!(found.pages[0].role.is_some() && !found.unchecked, "{name} {member}");
            let array = open(&fixture, None);
            assert_eq!(sha256(&in_pieces(&array, 7)), fixture.entry.sha256, "{name} {member}");
            assert_eq!(array.verify_report().pages, found.pages, "{name} {member}");
        }
    }
}

#[test]
fn consistent_arrays_read_the_same_without_findings() {
    for name in ["raid1-1.2", "raid10-o2-3", "raid10-f2-4", "raid4", "raid5-left-symmetric"] {
        let fixture = Fixture::open(name);
        let array = open(&fixture, None);
        assert_eq!(sha256(&in_pieces(&array, 3)), fixture.entry.sha256, "{name}");
        let found = array.verify_report();
        assert!(found.pages.is_empty() && !found.unchecked, "{name}: {found:?}");
    }
}

#[test]
fn a_mismatch_that_is_not_located_has_no_role() {
    for (name, removed) in
        [("raid5-left-symmetric", None), ("raid1-1.2", None), ("raid6-left-symmetric", Some(0))]
    {
        let fixture = Fixture::open(name);
        corrupt(&fixture, 1);
        let array = open(&fixture, removed);
        in_pieces(&array, 5);
        let found = array.verify_report();
        assert_eq!(found.pages.len(), 1, "{name}: {found:?}");
        assert_eq!(found.pages[0].role, None, "{name}");
        // Another read of the same page is the same finding.
        in_pieces(&array, 6);
        assert_eq!(array.verify_report().pages.len(), 1, "{name}");
    }
}

#[test]
fn of_three_copies_the_one_that_differs_is_wrong() {
    let fixture = Fixture::open("raid10-n3-4");
    corrupt(&fixture, 1);
    let array = open(&fixture, None);
    assert_eq!(sha256(&in_pieces(&array, 9)), fixture.entry.sha256);
    let found = array.verify_report();
    assert_eq!(found.pages.len(), 1, "{found:?}");
    assert!(found.pages[0].role.is_some());
}

#[test]
fn without_redundancy_content_is_reported_as_unchecked() {
    for name in ["raid5-left-symmetric", "raid1-1.2"] {
        let fixture = Fixture::open(name);
        let array = open(&fixture, Some(0));
        assert_eq!(sha256(&in_pieces(&array, 1)), fixture.entry.sha256, "{name}");
        assert!(array.verify_report().unchecked, "{name}");
    }
}
