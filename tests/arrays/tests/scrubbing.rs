//! Silent errors are found where the kernel finds them, located by P and Q, and repaired.

#![allow(missing_docs)]

use xfskit_block::BlockDevice;
use xfskit_md::array::Array;
use xfskit_md::array::scrub::Mismatch;
use xfskit_md::assemble::{Member, assemble};
use xfskit_test_arrays::{Fixture, content, manifest, sha256};
use xfskit_units::{ByteOffset, MemberSector, Sectors};

fn open(fixture: &Fixture) -> Array {
    let members = fixture.named().into_iter().map(|(name, device)| Member { name, device });
    assemble(members.collect()).unwrap().open_array().unwrap()
}

fn scrub(array: &Array, repair: bool) -> Vec<Mismatch> {
    (0..array.scrub_stripes())
        .flat_map(|stripe| array.scrub_stripe(stripe, repair).unwrap())
        .collect()
}

#[test]
fn wrong_data_and_wrong_parity_are_located_and_repaired() {
    let fixture = Fixture::open("raid6-scrub");
    let array = open(&fixture);
    let found = scrub(&array, false);
    // The kernel counted 16 sectors: two pages.
    let wrong = |sector: u64, role| Mismatch {
        stripe: sector / array.geometry().chunk().0,
        sectors: MemberSector(sector / 8 * 8)..MemberSector(sector / 8 * 8 + 8),
        role: Some(role),
        repaired: false,
        counted: Sectors(8),
    };
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], wrong(99, 0));
    assert_eq!(found[1].role, Some(2));
    assert_ne!(sha256(&content(&array)), fixture.entry.sha256);
    assert!(scrub(&array, true).iter().all(|mismatch| mismatch.repaired));
    assert_eq!(scrub(&array, false), []);
    assert_eq!(sha256(&content(&array)), fixture.entry.sha256);
}

#[test]
fn complete_arrays_of_the_kernel_have_no_mismatches() {
    let torn = ["raid6-scrub", "raid6-dirty-bitmap-torn", "raid5-reshape", "raid6-xfs-clean"];
    let mut scrubbed = 0;
    for entry in manifest() {
        if torn.contains(&entry.name.as_str()) {
            continue;
        }
        let array = open(&Fixture::open(&entry.name));
        if array.states().iter().all(|state| *state == xfskit_md::array::MemberState::InSync) {
            let stripes = (0..array.scrub_stripes())
                .filter_map(|stripe| array.scrub_stripe(stripe, false).ok());
            assert_eq!(stripes.flatten().collect::<Vec<_>>(), [], "{}", entry.name);
            scrubbed += 1;
        }
    }
    assert!(scrubbed > 30, "{scrubbed}");
}

#[test]
fn raid5_and_mirrors_detect_a_wrong_page_but_do_not_locate_it() {
    for name in ["raid5-left-symmetric", "raid1-1.2"] {
        let fixture = Fixture::open(name);
        let array = open(&fixture);
        assert_eq!(scrub(&array, false), [], "{name}");
        let device = &fixture.members[0];
        let data = device.size().0 - 64 * 1024; // within the data of these small members
        device.write_at(ByteOffset(data), &[0xa5; 3]).unwrap();
        let found = scrub(&array, true);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!((found[0].role, found[0].repaired), (None, false), "{name}");
    }
}

/// Opens an array without one of its members.
fn without(fixture: &Fixture, removed: usize) -> Array {
    let mut members = fixture.named();
    members.remove(removed);
    let members = members.into_iter().map(|(name, device)| Member { name, device });
    assemble(members.collect()).unwrap().open_array().unwrap()
}

#[test]
fn a_raid6_without_one_member_is_compared_by_its_remaining_parity() {
    for name in ["raid6-left-symmetric", "raid6-ddf-N-restart", "raid6-right-asymmetric-6"] {
        let fixture = Fixture::open(name);
        let whole = open(&fixture);
        assert_eq!(scrub(&whole, false), [], "{name}");
        for removed in 0..fixture.members.len() {
            let array = without(&fixture, removed);
            assert!(array.can_be_scrubbed() && scrub(&array, false).is_empty(), "{name} {removed}");
        }
        // One wrong byte of one member is detected whichever member is missing, but not located.
        let device = &fixture.members[2];
        let data = device.size().0 - 64 * 1024;
        device.write_at(ByteOffset(data), &[0xa5; 3]).unwrap();
        let detected = scrub(&whole, false);
        assert_eq!(detected.len(), 1, "{name}");
        for removed in [0, 1, 3] {
            let found = scrub(&without(&fixture, removed), true);
            assert_eq!(found.len(), 1, "{name} without {removed}");
            assert_eq!(
                (found[0].role, found[0].repaired),
                (None, false),
                "{name} without {removed}"
            );
            assert_eq!(found[0].sectors, detected[0].sectors, "{name} without {removed}");
        }
    }
}

#[test]
fn without_redundancy_nothing_is_compared() {
    for name in ["raid5-left-symmetric", "raid1-1.2", "raid4"] {
        let array = without(&Fixture::open(name), 0);
        assert!(!array.can_be_scrubbed() && array.scrub_stripe(0, false).is_err(), "{name}");
        let compared = array.compare_stripe(0, false).unwrap();
        assert!(compared.mismatches.is_empty() && !compared.unchecked.is_zero(), "{name}");
    }
}
