//! Crashes at any point while an array is written: it opens, is resynced, its parity is right, and
//! synced data are present.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_md::Level;
use xfskit_md::array::Array;
use xfskit_md::assemble::{AssembledMember, Error, Freshness};
use xfskit_md::journal::{JournalWriter, StripePage};
use xfskit_md::superblock::Superblock;
use xfskit_test_arrays::member_set::{create_array, journaled, layout, run_to_end};
use xfskit_test_arrays::recording::random_writes;
use xfskit_test_arrays::{
    Crash, Fixture, NOW, Recording, WriteHistory, assembly, content, is_consistent, read_only_views,
};
use xfskit_test_support::Random;
use xfskit_units::{ArraySector, MemberSector, index};

fn open(devices: &[Arc<dyn BlockDevice>]) -> Array {
    let assembly = assembly(devices);
    assert_eq!(assembly.write_refusal(), None);
    let array = assembly.open_writable(NOW).unwrap();
    assert!(array.resync(|_, _| true).unwrap());
    array
}

/// Writes the array, and crashes it at this many points.
fn crashes(name: &str, seed: u64, cuts: usize) {
    let mut random = Random::of_test(seed);
    let before = Fixture::open(name).devices();
    let recording = Recording::new(before);
    let array = open(&recording.devices());
    let mut history = WriteHistory::new(content(&array));
    // It becomes clean when it is idle, and active again.
    for _ in 0..3 {
        random_writes(&mut history, &recording, &array, &mut random, 20);
        array.mark_clean_if_idle().unwrap();
        array.mark_clean_if_idle().unwrap();
    }
    array.close().unwrap();
    for _ in 0..cuts {
        let cut = random.below(recording.len() + 1);
        let power = random.below(2) == 0;
        let after = if power {
            recording.crash(cut, Crash::Power(&mut random))
        } else {
            recording.crash(cut, Crash::Process)
        };
        let what =
            format!("{name}, seed {seed}, cut at {cut} of {}, power {power}", recording.len());
        let dirty = assembly(&after);
        let read_only = dirty.open_array().unwrap();
        let found = content(&read_only);
        assert_eq!(history.check(cut, power, &found), Ok(()), "{what}");
        assert!(dirty.is_dirty() || is_consistent(&read_only), "{what}");
        // The resync is interrupted itself, and started again.
        let again = Recording::new(after);
        drop(open(&again.devices()));
        let second = random.below(again.len() + 1);
        let after = again.crash(second, Crash::Power(&mut random));
        let array = open(&after);
        assert!(content(&array) == found, "{what}, then at {second}");
        assert!(is_consistent(&array), "{what}, then at {second}");
        array.close().unwrap();
        assert!(!assembly(&after).is_dirty(), "{what}");
    }
}

#[test]
fn arrays_with_a_bitmap_recover_from_a_crash_at_any_point() {
    for (seed, name) in
        ["raid1-1.0-bitmap", "raid1-1.1-bitmap", "raid10-n2-bitmap", "raid6-dirty-bitmap"]
            .into_iter()
            .enumerate()
    {
        crashes(name, seed as u64, 60);
    }
}

#[test]
fn arrays_without_a_bitmap_recover_from_a_crash_at_any_point() {
    for (seed, name) in [
        "raid1-1.2",
        "raid1-0.90",
        "raid4",
        "raid5-0.90",
        "raid5-left-symmetric",
        "raid6-ddf-N-restart",
        "raid10-o2-3",
    ]
    .into_iter()
    .enumerate()
    {
        crashes(name, 100 + seed as u64, 40);
    }
}

/// Without a member, sectors of writes in flight at the crash do not count: the log keeps parity
/// right, but not the data being written.
#[test]
fn a_partial_parity_log_closes_the_write_hole() {
    let mut random = Random::of_test(7);
    let before = Fixture::open("raid5-ppl").devices();
    let recording = Recording::new(before);
    let array = open(&recording.devices());
    let mut history = WriteHistory::new(content(&array));
    random_writes(&mut history, &recording, &array, &mut random, 60);
    // Parts of pages are logged as whole pages.
    history.write(&recording, &array, 512 * 77, vec![0x33; 512]);
    array.close().unwrap();
    let mut replayed = 0;
    for _ in 0..60 {
        let cut = random.below(recording.len() + 1);
        let power = random.below(2) == 0;
        let mut after = if power {
            recording.crash(cut, Crash::Power(&mut random))
        } else {
            recording.crash(cut, Crash::Process)
        };
        let what = format!("cut at {cut} of {}, power {power}", recording.len());
        let whole = assembly(&after).open_array().unwrap();
        assert_eq!(history.check(cut, power, &content(&whole)), Ok(()), "{what}");
        assert!(is_consistent(&whole), "{what}");
        replayed += usize::from(assembly(&after).is_dirty());
        let lost = random.below(after.len());
        after.remove(lost);
        let degraded = assembly(&after);
        assert!(!degraded.is_parity_untrusted() && degraded.write_refusal().is_none(), "{what}");
        let mut found = content(&degraded.open_array().unwrap());
        history.forget_under_way(cut, power, &mut found);
        assert_eq!(history.check(cut, power, &found), Ok(()), "{what} without {lost}");
    }
    assert!(replayed > 40, "{replayed}");
}

/// Writes an array with a journal, without one member if given, and crashes it at many points. All
/// data are present, also with members missing, and nothing needs a resync.
fn journal_crashes(before: Vec<Arc<dyn BlockDevice>>, data: usize, removed: Option<usize>) {
    let mut random = Random::of_test(data as u64);
    let mut before = before;
    removed.map(|removed| before.remove(removed));
    let recording = Recording::new(before);
    let array = open(&recording.devices());
    let mut history = WriteHistory::new(content(&array));
    for _ in 0..3 {
        random_writes(&mut history, &recording, &array, &mut random, 20);
        array.mark_clean_if_idle().unwrap();
        array.mark_clean_if_idle().unwrap();
    }
    history.write(&recording, &array, 512 * 77, vec![0x33; 512]);
    array.close().unwrap();
    drop(array);
    for _ in 0..50 {
        let cut = random.below(recording.len() + 1);
        let power = random.below(2) == 0;
        let after = if power {
            recording.crash(cut, Crash::Power(&mut random))
        } else {
            recording.crash(cut, Crash::Process)
        };
        let what =
            format!("cut at {cut} of {}, power {power}, without {removed:?}", recording.len());
        let whole = assembly(&after);
        assert!(!whole.is_dirty() && !whole.is_parity_untrusted(), "{what}");
        let found = content(&whole.open_array().unwrap());
        assert_eq!(history.check(cut, power, &found), Ok(()), "{what}");
        // Removes one more member if the level tolerates it, and interrupts the replay itself.
        let mut fewer = after.clone();
        if removed.is_none() {
            fewer.remove(random.below(data));
        }
        let again = Recording::new(fewer);
        drop(open(&again.devices()));
        let second = random.below(again.len() + 1);
        let fewer = again.crash(second, Crash::Power(&mut random));
        let array = open(&fewer);
        assert!(content(&array) == found, "{what}, replay cut at {second}");
        array.write_at(xfskit_units::ByteOffset(4096), &[1; 4096]).unwrap();
        array.close().unwrap();
        drop(array);
        if removed.is_none() {
            let array = open(&after);
            assert!(is_consistent(&array) && content(&array) == found, "{what}");
        }
    }
}

#[test]
fn a_journal_closes_the_write_hole() {
    journal_crashes(Fixture::open("raid5-journal").devices(), 3, None);
    journal_crashes(Fixture::open("raid5-journal").devices(), 3, Some(1));
    journal_crashes(raid6_with_journal(), 4, None);
    journal_crashes(raid6_with_journal(), 4, Some(2));
}

/// Returns a RAID6 of four members with a small journal that wraps many times.
fn raid6_with_journal() -> Vec<Arc<dyn BlockDevice>> {
    let layout = layout(Level::Raid6, "");
    journaled(&create_array(layout, 4, 1, false))
        .0
        .iter()
        .map(|(_, m)| Arc::clone(m) as _)
        .collect()
}

/// When the journal is full, its entries are already on the members: small writes wrap around many
/// times.
#[test]
fn a_full_journal_is_emptied() {
    let devices = raid6_with_journal();
    let array = open(&devices);
    let mut expected = content(&array);
    let mut random = Random::of_test(1);
    for i in 0..3000 {
        let at = index(random.below(expected.len() as u64 / 4096)) * 4096;
        expected[at..at + 4096].fill(u8::try_from(i % 251).unwrap());
        array.write_at(xfskit_units::ByteOffset(at as u64), &expected[at..at + 4096]).unwrap();
    }
    assert!(content(&array) == expected && is_consistent(&array));
    drop(array);
    assert!(content(&assembly(&devices).open_array().unwrap()) == expected);
}

/// Writes data without parity to the journal, as Linux leaves them in write-back mode: as many as
/// fit, minus the space of their parity if `kept_free`. Returns the array's content with them.
fn data_that_wait(devices: &[Arc<dyn BlockDevice>], kept_free: bool) -> Vec<u8> {
    let array = open(devices);
    let seed: Vec<u8> = (0..array.size().0).map(|i| (i % 249).to_le_bytes()[0]).collect();
    array.write_at(xfskit_units::ByteOffset(0), &seed).unwrap();
    array.close().unwrap();
    drop(array);
    let whole = assembly(devices);
    let journal = whole.members.iter().find(|m| m.freshness == Freshness::Journal).unwrap();
    let Superblock::V1(sb) = &journal.superblock else { panic!("version 1") };
    let mut ring = JournalWriter::new(&journal.device, sb, 0).unwrap().unwrap();
    let (mut random, mut expected) = (Random::of_test(7), seed);
    let page = [0; 4096];
    let parity =
        || StripePage { data: vec![], member_sector: MemberSector(0), parity: vec![&page, &page] };
    for rows in 1.. {
        let at = index(random.below(expected.len() as u64 / 4096)) * 4096;
        let new = vec![random.byte(); 4096];
        let data = vec![(ArraySector(at as u64 / 512), new.as_slice())];
        let columns = [StripePage { data, member_sector: MemberSector(0), parity: vec![] }];
        let mut left = ring.clone();
        let parities = if kept_free { rows } else { 0 };
        if !left.simulate_append(&columns)
            || !(0..parities).all(|_| left.simulate_append(&[parity()]))
        {
            break;
        }
        assert!(ring.append(&columns).unwrap());
        expected[at..at + 4096].copy_from_slice(&new);
    }
    expected
}

#[test]
fn data_without_parity_in_a_full_journal_survive_crashes_of_their_replay() {
    for removed in [None, Some(1), Some(2)] {
        let mut devices = raid6_with_journal();
        let expected = data_that_wait(&devices, true);
        removed.map(|removed| devices.remove(removed));
        let recording = Recording::new(devices);
        drop(open(&recording.devices()));
        let mut random = Random::of_test(3);
        for _ in 0..60 {
            let cut = random.below(recording.len() + 1);
            let after = recording.crash(cut, Crash::Power(&mut random));
            let again = Recording::new(after);
            let found =
                content(&assembly(&read_only_views(&again.devices())).open_array().unwrap());
            assert!(
                found == expected,
                "read, cut at {cut} of {}, without {removed:?}",
                recording.len()
            );
            drop(open(&again.devices()));
            let second = random.below(again.len() + 1);
            let array = open(&again.crash(second, Crash::Power(&mut random)));
            assert!(content(&array) == expected, "cut at {cut} and {second}, without {removed:?}");
            assert!(removed.is_some() || is_consistent(&array));
        }
    }
}

/// Without space for the parity of one stripe, nothing is started that a crash could turn into a
/// loss.
#[test]
fn a_degraded_array_whose_journal_has_no_space_is_readable_but_not_writable() {
    let whole = raid6_with_journal();
    let expected = data_that_wait(&whole, false);
    let all = assembly(&whole).open_writable(NOW).unwrap();
    assert!(content(&all) == expected && is_consistent(&all));
    let mut devices = raid6_with_journal();
    let expected = data_that_wait(&devices, false);
    devices.remove(1);
    let recording = Recording::new(devices);
    let refused = assembly(&recording.devices()).open_writable(NOW);
    assert!(matches!(refused, Err(Error::JournalFull)), "{refused:?}");
    assert!(recording.is_empty(), "something was written");
    assert!(
        content(&assembly(&read_only_views(&recording.devices())).open_array().unwrap())
            == expected
    );
}

/// A member that missed a change of the role table before the crash gets the new table when the
/// array is opened.
#[test]
fn a_crash_while_the_role_table_changes_leaves_one_table() {
    let set = create_array(layout(Level::Raid6, ""), 4, 2, false);
    let recording =
        Recording::new(set.0.iter().map(|(_, device)| Arc::clone(device) as _).collect());
    let array = open(&recording.devices());
    array.fail(1).unwrap(); // a spare takes over
    array.rebuild(run_to_end).unwrap();
    array.fail(0).unwrap();
    array.close().unwrap();
    drop(array);
    for cut in 0..=recording.len() {
        let after = recording.crash(cut, Crash::Process);
        let array = assembly(&after).open_writable(NOW);
        // Parity is untrusted if the crash came while a member was missing: writing is refused
        // then.
        let Ok(array) = array else { continue };
        array.write_at(xfskit_units::ByteOffset(0), &[1; 512]).unwrap();
        array.close().unwrap();
        drop(array);
        let again = assembly(&after);
        let serves = |member: &&AssembledMember| {
            matches!(member.freshness, Freshness::InSync { .. } | Freshness::Rebuilding { .. })
        };
        let table = |sb: &Superblock| (0..8).map(|number| sb.role_of(number)).collect::<Vec<_>>();
        let newest = table(again.superblock());
        for member in again.members.iter().filter(serves) {
            assert_eq!(table(&member.superblock), newest, "cut at {cut}: {}", member.name);
        }
    }
}
