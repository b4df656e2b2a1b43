//! Healing: a caller that knows the right data makes the array return them by every alternative.

#![allow(missing_docs)]

use xfskit_block::BlockDevice;
use xfskit_md::Level;
use xfskit_md::array::Array;
use xfskit_md::array::scrub::Mismatch;
use xfskit_test_arrays::content;
use xfskit_test_arrays::member_set::{MemberSet, create_array, fill, layout};
use xfskit_units::{ByteLen, ByteOffset, index};

/// Every level with redundancy: layout, members.
const ARRAYS: [(Level, &str, usize); 8] = [
    (Level::Raid1, "", 2),
    (Level::Raid1, "", 3),
    (Level::Raid4, "", 3),
    (Level::Raid5, "left-symmetric", 4),
    (Level::Raid6, "left-symmetric", 5),
    (Level::Raid6, "ddf-N-continue", 6),
    (Level::Raid10, "near=2", 4),
    (Level::Raid10, "offset=2", 3),
];

/// Where the data begin on a member.
const DATA: u64 = 2048 * 512;

fn scrub(array: &Array, repair: bool) -> Vec<Mismatch> {
    (0..array.scrub_stripes())
        .flat_map(|stripe| array.scrub_stripe(stripe, repair).unwrap())
        .collect()
}

/// Inverts a page of a member, bypassing the array.
fn flip_page(set: &MemberSet, member: usize, page: u64) {
    let device = &set.0[member].1;
    let mut bytes = vec![0; 4096];
    let at = ByteOffset(DATA + page * 4096);
    device.read_at(at, &mut bytes).unwrap();
    for byte in &mut bytes {
        *byte ^= 0xff;
    }
    device.write_at(at, &bytes).unwrap();
}

/// Reads all pages, as a caller that knows their right content, and heals. Returns how many were
/// healed.
fn heal(array: &Array, wanted: &[u8]) -> usize {
    let mut healed = 0;
    for (at, page) in (0..).step_by(4096).zip(wanted.chunks(4096)) {
        let (at, mut buf) = (ByteOffset(at), vec![0; page.len()]);
        array.read_at(at, &mut buf).unwrap();
        if buf == page {
            continue;
        }
        let ways = array.alternatives(at, ByteLen(page.len() as u64));
        let good =
            (0..ways).find(|k| array.read_alternative(at, &mut buf, *k).is_ok() && buf == page);
        assert!(array.heal(at, page, good.expect("a way that is right")).unwrap());
        array.read_at(at, &mut buf).unwrap();
        assert!(buf == page);
        healed += 1;
    }
    healed
}

#[test]
fn wrong_data_of_a_member_are_rewritten_on_every_level() {
    for (level, name, members) in ARRAYS {
        let set = create_array(layout(level, name), members, 0, true);
        let array = set.open();
        let wanted = fill(&array, 7);
        array.flush().unwrap();
        for member in 0..members {
            let page = member as u64 * 5;
            flip_page(&set, member, page);
            heal(&array, &wanted);
            // Parity and second copies, which ordinary reads skip, are found by a scrub only; the
            // data are right.
            for mismatch in scrub(&array, false) {
                assert!(array.resync_page(&mismatch).unwrap(), "{level:?} {name}");
            }
            assert_eq!(scrub(&array, false), [], "{level:?} {name}, member {member}");
            assert!(content(&array) == wanted, "{level:?} {name}, member {member}");
        }
        array.close().unwrap();
    }
}

#[test]
fn with_a_member_missing_raid6_heals_a_wrong_member() {
    let set = create_array(layout(Level::Raid6, "left-symmetric"), 5, 0, false);
    let array = set.open();
    let wanted = fill(&array, 9);
    array.flush().unwrap();
    array.fail(1).unwrap();
    for page in [0, 4, 9, 13, 21] {
        flip_page(&set, 3, page);
        // The missing member's data are computed from member 3, too.
        heal(&array, &wanted);
    }
    assert!(content(&array) == wanted);
    array.close().unwrap();
}

#[test]
fn healing_ignores_data_that_changed_and_arrays_due_for_a_resync() {
    let set = create_array(layout(Level::Raid5, "left-symmetric"), 4, 0, false);
    let array = set.open();
    let wanted = fill(&array, 11);
    let old = &wanted[..4096];
    array.write_at(ByteOffset(0), &[1; 4096]).unwrap();
    assert!(!array.heal(ByteOffset(0), old, 1).unwrap());
    assert_eq!(content(&array)[..4096], [1; 4096]);
    // Not shut down cleanly: parity may legitimately be old.
    std::mem::forget(array);
    let array = set.open();
    let at = ByteOffset(0);
    let mut good = vec![0; 4096];
    array.read_at(at, &mut good).unwrap();
    assert!(!array.heal(at, &good, 1).unwrap());
    assert!(array.resync(|_, _| true).unwrap());
    assert_eq!(scrub(&array, false), []);
}

#[test]
fn the_ranges_of_a_mismatch_contain_the_changed_bytes() {
    for (level, name, members) in ARRAYS {
        let set = create_array(layout(level, name), members, 0, false);
        let array = set.open();
        let wanted = fill(&array, 13);
        array.flush().unwrap();
        flip_page(&set, members - 1, 9);
        let found = scrub(&array, false);
        assert_eq!(found.len(), 1, "{level:?} {name}");
        let ranges = array.mismatch_ranges(&found[0]);
        let data = array.geometry().data_disks() as usize;
        let parity = matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6);
        assert_eq!(ranges.len(), if parity { data } else { 1 });
        let now = content(&array);
        let other = (0..wanted.len()).filter(|i| now[*i] != wanted[*i]);
        for byte in other {
            let inside = |range: &std::ops::Range<ByteOffset>| {
                (index(range.start.0)..index(range.end.0)).contains(&byte)
            };
            assert!(ranges.iter().any(inside), "{level:?} {name}: byte {byte} of {ranges:?}");
        }
    }
}
