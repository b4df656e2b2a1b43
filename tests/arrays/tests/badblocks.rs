//! Members with bad sectors: data come from the other members, are rewritten, and bad blocks are
//! listed and cleared. A member with too many failures is failed.

#![allow(missing_docs)]

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};

use xfskit_block::{BlockDevice, Error, Result};
use xfskit_md::array::sync_action::{Completion, Progress};
use xfskit_md::array::{Array, MemberState};
use xfskit_md::assemble::Freshness;
use xfskit_md::{Level, bad_blocks, superblock};
use xfskit_test_arrays::member_set::{create_array, fill, layout};
use xfskit_test_arrays::{Fixture, NOW, assembly, content, is_consistent};
use xfskit_test_support::Random;
use xfskit_units::{ByteLen, ByteOffset, MemberSector, Sectors, index};

/// A disk with bad sectors.
#[derive(Debug)]
struct BadSectorDevice {
    base: Arc<dyn BlockDevice>,
    /// Bytes that cannot be read.
    bad: Mutex<Range<u64>>,
    /// They cannot be written either. Otherwise a write repairs them.
    stuck: bool,
}

impl BadSectorDevice {
    fn meets(&self, offset: ByteOffset, len: usize) -> bool {
        let bad = self.bad.lock().unwrap();
        offset.0 < bad.end && bad.start < offset.0 + len as u64
    }

    fn failed(op: &'static str, offset: ByteOffset, len: usize) -> Error {
        let source = io::Error::other("a bad sector");
        Error::Io { op, offset, len: ByteLen(len as u64), source }
    }
}

impl BlockDevice for BadSectorDevice {
    xfskit_block::plain!();
    fn size(&self) -> ByteLen {
        self.base.size()
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        if self.meets(offset, buf.len()) {
            return Err(Self::failed("read", offset, buf.len()));
        }
        self.base.read_at(offset, buf)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        if self.meets(offset, buf.len()) {
            if self.stuck {
                return Err(Self::failed("write", offset, buf.len()));
            }
            *self.bad.lock().unwrap() = 0..0;
        }
        self.base.write_at(offset, buf)
    }
    fn flush(&self) -> Result<()> {
        self.base.flush()
    }
}

/// Returns the members of an array. 8 KiB of the second member, 64 KiB behind its start, are bad.
fn with_bad_sectors(name: &str, stuck: bool) -> (Vec<Arc<dyn BlockDevice>>, Arc<BadSectorDevice>) {
    let mut devices = Fixture::open(name).devices();
    let start = assembly(&devices).members[1].superblock.data_offset().byte_len().0 + 65_536;
    let bad = Mutex::new(start..start + 8192);
    let second = Arc::new(BadSectorDevice { base: Arc::clone(&devices[1]), bad, stuck });
    devices[1] = second.clone();
    (devices, second)
}

fn listed(devices: &[Arc<dyn BlockDevice>]) -> Vec<Range<MemberSector>> {
    bad_blocks::read(&devices[1], &assembly(devices).members[1].superblock).unwrap()
}

const REDUNDANT: [&str; 4] =
    ["raid1-1.1-bitmap", "raid4", "raid5-right-symmetric", "raid6-left-asymmetric"];

#[test]
fn unreadable_sectors_are_read_from_other_members_and_rewritten() {
    for name in REDUNDANT.into_iter().chain(["raid10-n2-4"]) {
        let (devices, second) = with_bad_sectors(name, false);
        let plain = Fixture::open(name).devices();
        let expected = content(&assembly(&plain).open_array().unwrap());
        let array = assembly(&devices).open_writable(NOW).unwrap();
        assert!(content(&array) == expected, "{name}");
        // A resync reads parity and the copies that ordinary reads skip.
        for stripe in 0..array.scrub_stripes() {
            array.resync_stripe(stripe).unwrap();
        }
        assert!(array.read_errors(1) > 0 && second.bad.lock().unwrap().is_empty(), "{name}");
        assert!(content(&array) == expected, "{name}");
        assert_eq!(array.states()[1], MemberState::InSync, "{name}");
    }
}

#[test]
fn unwritable_sectors_are_bad_blocks_until_a_write_succeeds() {
    for name in REDUNDANT {
        let (devices, second) = with_bad_sectors(name, true);
        let array = assembly(&devices).open_writable(NOW).unwrap();
        let mut expected = vec![0; index(array.size().0)];
        Random::of_test(1).fill(&mut expected);
        array.write_at(ByteOffset(0), &expected).unwrap();
        assert!(array.states().iter().all(|state| *state == MemberState::InSync), "{name}");
        assert!(content(&array) == expected, "{name}");
        array.close().unwrap();
        let ranges = listed(&devices);
        assert!(!ranges.is_empty(), "{name}");
        assert!(
            ranges.iter().any(|range| range.start.0 <= 128 && 144 <= range.end.0),
            "{ranges:?}"
        );
        // The next opening of the array uses the list.
        let again = assembly(&devices);
        assert_eq!(again.write_refusal(), None, "{name}");
        let array: Array = again.open_writable(NOW).unwrap();
        assert!(content(&array) == expected, "{name}");
        *second.bad.lock().unwrap() = 0..0;
        array.write_at(ByteOffset(0), &expected).unwrap();
        array.close().unwrap();
        assert_eq!(listed(&devices), [], "{name}");
        for role in 0..devices.len() {
            let mut fewer = assembly(&devices);
            fewer.roles[role] = None;
            assert!(content(&fewer.open_array().unwrap()) == expected, "{name} without {role}");
        }
    }
}

#[test]
fn a_member_without_a_bad_block_log_fails_on_a_write_error() {
    for name in ["raid1-0.90", "raid5-0.90"] {
        let (devices, _) = with_bad_sectors(name, true);
        let array = assembly(&devices).open_writable(NOW).unwrap();
        let expected = vec![0x77; index(array.size().0)];
        array.write_at(ByteOffset(0), &expected).unwrap();
        assert_eq!(array.states()[1], MemberState::Faulty, "{name}");
        assert!(content(&array) == expected, "{name}");
        array.close().unwrap();
        let after = assembly(&devices);
        assert!(matches!(after.members[1].freshness, Freshness::Stale { .. }), "{name}");
    }
}

#[test]
fn a_member_with_too_many_read_errors_is_failed() {
    let (devices, second) = with_bad_sectors("raid5-left-symmetric", true);
    let array = assembly(&devices).open_writable(NOW).unwrap();
    *second.bad.lock().unwrap() = 65_536..u64::MAX;
    let _ = content(&array);
    assert_eq!(array.states()[1], MemberState::Faulty);
    drop(array);
    *second.bad.lock().unwrap() = 0..0;
    assert_eq!(assembly(&devices).missing(), [1]);
}

#[test]
fn the_kernels_bad_block_log_is_used_and_cleared_by_writes() {
    let devices = Fixture::open("raid1-badblocks").devices();
    assert_eq!(listed(&devices).len(), 2);
    let array = assembly(&devices).open_writable(NOW).unwrap();
    array.write_at(ByteOffset(300 * 512), &[9; 8 * 512]).unwrap();
    array.close().unwrap();
    assert_eq!(listed(&devices), [MemberSector(1000)..MemberSector(1024)]);
}

/// Lists sectors of a member as bad in its log, as md does.
fn list_as_bad(device: &Arc<dyn BlockDevice>, ranges: &[Range<MemberSector>]) {
    let mut found = superblock::read(device).unwrap().unwrap().superblock;
    found.set_has_bad_blocks(true);
    let log = found.bad_blocks().unwrap();
    let bytes = bad_blocks::encode(ranges, 0, index(log.len.byte_len().0)).unwrap();
    device.write_at(log.at.byte_offset(), &bytes).unwrap();
    device.write_at(found.at().byte_offset(), &found.own_bytes()).unwrap();
}

/// Reads each page; `None` if the read fails.
fn pages(array: &Array) -> Vec<Option<Vec<u8>>> {
    let page = |at: u64| {
        let mut page = vec![0; 4096];
        array.read_at(ByteOffset(at), &mut page).ok().map(|()| page)
    };
    (0..array.size().0 / 4096).map(|i| page(i * 4096)).collect()
}

#[test]
fn pages_that_no_member_has_become_bad_blocks_and_the_rebuild_continues() {
    let bad = [MemberSector(64)..MemberSector(72), MemberSector(400)..MemberSector(403)];
    for (level, members, removed, replaced) in [
        (Level::Raid1, 2, &[0][..], false),
        (Level::Raid5, 4, &[0], false),
        (Level::Raid6, 5, &[0, 3], false),
        (Level::Raid10, 4, &[0], false),
        (Level::Raid5, 4, &[0], true),
    ] {
        let what = format!("{level}, replaced {replaced}");
        let set = create_array(layout(level, ""), members, removed.len(), false);
        let array = set.open();
        let expected = fill(&array, 5);
        array.close().unwrap();
        drop(array);
        let mut devices: Vec<_> = set.0.iter().map(|(_, m)| Arc::clone(m) as _).collect();
        list_as_bad(&devices[1], &bad);
        if replaced {
            list_as_bad(&devices[0], &bad);
        }
        let array = assembly(&devices).open_writable(NOW).unwrap();
        for role in removed {
            if replaced {
                assert!(array.replace(*role, None).unwrap().is_some());
            } else {
                array.fail(*role).unwrap();
            }
        }
        let mut lost = Sectors(0);
        let mut watch = |step: Progress| {
            lost = step.bad;
            ControlFlow::Continue(())
        };
        assert_eq!(array.rebuild(&mut watch).unwrap(), Completion::Finished, "{what}");
        // Two pages of each rebuilt member.
        assert_eq!(lost, Sectors(16).times(removed.len() as u64), "{what}");
        let found = pages(&array);
        array.close().unwrap();
        drop(array);
        removed.iter().rev().for_each(|role| drop(devices.remove(*role)));
        let again = assembly(&devices);
        assert!(!again.is_degraded(), "{what}");
        let array = again.open_writable(NOW).unwrap();
        assert!(pages(&array) == found, "{what}: the same when opened again");
        let missing = found.iter().filter(|page| page.is_none()).count();
        assert!(missing > 0 && missing <= 2 * (removed.len() + 1), "{what}: {missing}");
        let right =
            |(page, right): (&Option<Vec<u8>>, &[u8])| page.as_ref().is_none_or(|p| p == right);
        assert!(found.iter().zip(expected.chunks(4096)).all(right), "{what}");
        // Pages that are written are readable again.
        array.write_at(ByteOffset(0), &expected).unwrap();
        array.close().unwrap();
        drop(array);
        let array = assembly(&devices).open_array().unwrap();
        assert!(content(&array) == expected && is_consistent(&array), "{what}");
    }
}
