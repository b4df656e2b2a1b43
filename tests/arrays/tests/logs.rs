//! Journals and partial parity logs are replayed before members are trusted: in memory if members
//! are read-only, on the members if they are written.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_md::journal::{JournalReader, Kind};
use xfskit_md::layout::parity::StripeLayout;
use xfskit_md::superblock::{self, Superblock};
use xfskit_test_arrays::{Fixture, NOW, assembly, content, is_consistent, read_only_views, sha256};
use xfskit_units::{ArraySector, ByteOffset, MemberSector, index};

/// Returns the members of the array with a journal as if none of the journal's data had reached
/// them.
fn unwritten() -> (Fixture, Vec<Arc<dyn BlockDevice>>) {
    let fixture = Fixture::open("raid5-journal");
    let found = superblock::read(&fixture.members[3]).unwrap().unwrap();
    let Superblock::V1(sb) = &found.superblock else { panic!("not version 1") };
    let entries = JournalReader::new(&fixture.members[3], sb).unwrap().entries().unwrap();
    let data_offset =
        superblock::read(&fixture.members[0]).unwrap().unwrap().superblock.data_offset();
    let chunk = u64::from(sb.chunksize.get());
    let layout = assembly(&fixture.devices()).layout();
    let layout_of = |stripe| StripeLayout::new(layout, 3, stripe).unwrap();
    let mut missing = 0;
    for payload in entries.iter().flat_map(|entry| &entry.payloads) {
        let (role, sector) = match payload.kind {
            Kind::Data(ArraySector(location)) => {
                let (stripe, d) = (location / chunk / 2, index(location / chunk % 2));
                (layout_of(stripe).data_role(d), stripe * chunk + location % chunk)
            }
            Kind::Parity(MemberSector(at)) => (layout_of(at / chunk).p, at),
            Kind::Flush(_) => continue,
        };
        let at = ByteOffset((data_offset.0 + sector) * 512);
        fixture.members[role].write_at(at, &[0xee; 512]).unwrap();
        missing += 1;
    }
    assert!(missing > 100);
    let devices = fixture.devices();
    (fixture, devices)
}

#[test]
fn a_journal_is_replayed_in_memory_where_members_are_read_only() {
    let (fixture, devices) = unwritten();
    let read_only_views = read_only_views(&devices);
    let before: Vec<Vec<u8>> = devices.iter().map(|device| content(device)).collect();
    let array = assembly(&read_only_views).open_array().unwrap();
    assert!(is_consistent(&array));
    assert_eq!(sha256(&content(&array)), fixture.entry.sha256);
    let after: Vec<Vec<u8>> = devices.iter().map(|device| content(device)).collect();
    assert!(before == after, "members were changed");
    // With one member less, the log is still enough.
    for missing in 0..3 {
        let mut fewer = read_only_views.clone();
        fewer.remove(missing);
        let array = assembly(&fewer).open_array().unwrap();
        assert_eq!(sha256(&content(&array)), fixture.entry.sha256, "without {missing}");
    }
    // Without the journal there is a warning, and nothing is written.
    let without = assembly(&devices[..3]);
    assert!(without.warnings.iter().any(|warning| warning.contains("journal")));
    assert!(without.write_refusal().unwrap().contains("journal"));
}

#[test]
fn a_journal_is_replayed_on_members_that_are_written_and_only_once() {
    let (fixture, devices) = unwritten();
    let array = assembly(&devices).open_writable(NOW).unwrap();
    assert_eq!(sha256(&content(&array)), fixture.entry.sha256);
    let mut expected = content(&array);
    expected[9_000..700_000].fill(0x44);
    array.write_at(ByteOffset(9_000), &expected[9_000..700_000]).unwrap();
    array.close().unwrap();
    let again = assembly(&devices);
    assert!(!again.is_dirty() && !again.is_degraded());
    let array = again.open_writable(NOW).unwrap();
    assert!(content(&array) == expected && is_consistent(&array));
}

#[test]
fn a_partial_parity_log_is_replayed_in_memory_where_members_are_read_only() {
    let fixture = Fixture::open("raid5-ppl");
    let devices = read_only_views(&fixture.devices());
    let array = assembly(&devices).open_array().unwrap();
    assert!(is_consistent(&array));
    assert_eq!(sha256(&content(&array)), fixture.entry.sha256);
}
