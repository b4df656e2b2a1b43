//! Reads the kernel's arrays from their members, in every combination of missing members, bad
//! blocks and wrong data.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, FaultDevice, FaultPlan};
use xfskit_md::array::{Array, MemberState};
use xfskit_md::superblock::{self, Role, Superblock};
use xfskit_md::{Geometry, Layout, Level, Slot, bad_blocks};
use xfskit_test_arrays::{Fixture, manifest, pattern, sha256};
use xfskit_units::{ByteLen, ByteOffset, MemberByte, MemberSector, Sectors, index};

/// Returns geometry and freshest members of an array without the rules of assembly.
fn assemble(fixture: &Fixture) -> (Geometry, Vec<Slot>) {
    let members: Vec<(String, Arc<dyn BlockDevice>, Superblock)> = fixture
        .named()
        .into_iter()
        .map(|(name, device)| {
            let sb = superblock::read(&*device).unwrap().expect("a superblock").superblock;
            (name, device, sb)
        })
        .collect();
    let events = members.iter().map(|(_, _, sb)| sb.events()).max().unwrap();
    let best = &members.iter().find(|(_, _, sb)| sb.events() == events).unwrap().2;
    let mut slots = vec![Slot::missing(); index(u64::from(best.raid_disks()))];
    for (name, device, sb) in &members {
        let Role::Active(role) = best.role_of(sb.dev_number()) else { continue };
        if sb.events() < events {
            continue;
        }
        let slot = &mut slots[index(u64::from(role))];
        *slot = Slot::new(Arc::clone(device), name, sb.data_offset(), sb.data_size());
        if let Some(offset) = sb.recovery_offset() {
            slot.readable_until = offset;
        }
        slot.bad_blocks = bad_blocks::read(&**device, sb).unwrap();
        slot.write_mostly = sb.write_mostly();
    }
    let sizes: Vec<Sectors> = slots.iter().map(|slot| slot.data_size).collect();
    let layout = Layout::from_numbers(best.level(), best.layout()).unwrap();
    let (chunk, disks) = (best.chunk(), best.raid_disks());
    (Geometry::new(layout, chunk, disks, best.size(), &sizes).unwrap(), slots)
}

/// Reads the whole array in pieces of `step` bytes.
fn content(array: &Array, step: usize) -> Vec<u8> {
    let mut all = vec![0xee; index(array.size().0)];
    let mut at = 0;
    for piece in all.chunks_mut(step) {
        array.read_at(ByteOffset(at), piece).unwrap_or_else(|e| panic!("at {at}: {e}"));
        at += piece.len() as u64;
    }
    all
}

/// Returns the arrays that this test can open: those without a reshape.
fn fixtures() -> impl Iterator<Item = Fixture> {
    let names = manifest().into_iter().map(|entry| entry.name);
    names.filter(|name| name != "raid5-reshape").map(|name| Fixture::open(&name))
}

fn without(slots: &[Slot], missing: &[usize]) -> Vec<Slot> {
    let mut slots = slots.to_vec();
    for role in missing {
        slots[*role] = Slot::missing();
    }
    slots
}

/// Returns every set of at most `most` of `n` roles.
fn subsets(n: usize, most: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    for _ in 0..most {
        let longer: Vec<Vec<usize>> = sets
            .iter()
            .flat_map(|set: &Vec<usize>| {
                let from = set.last().map_or(0, |last| last + 1);
                (from..n).map(|role| [set.as_slice(), &[role]].concat())
            })
            .collect();
        sets.extend(longer);
        sets.sort();
        sets.dedup();
    }
    sets
}

#[test]
fn all_content_is_there_whichever_members_are_missing() {
    let mut tried = 0;
    for fixture in fixtures() {
        let name = &fixture.entry.name;
        let (geometry, slots) = assemble(&fixture);
        let whole = slots
            .iter()
            .all(|slot| slot.device.is_some() && slot.readable_until == Slot::ALL_READABLE);
        let special = ["raid6-scrub", "raid6-dirty-bitmap-torn", "raid1-badblocks"];
        let large = fixture.entry.bytes > 32 << 20;
        if !whole || large || special.contains(&name.as_str()) {
            continue;
        }
        for missing in subsets(slots.len(), geometry.tolerates() as usize) {
            let array = Array::open(geometry.clone(), without(&slots, &missing)).unwrap();
            for step in [16 << 20, 50_000] {
                let hash = sha256(&content(&array, step));
                assert_eq!(hash, fixture.entry.sha256, "{name} without {missing:?} by {step}");
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "only {tried} combinations");
}

#[test]
fn more_missing_members_than_the_level_tolerates_are_refused() {
    for (name, missing) in [
        ("raid5-left-symmetric", vec![0, 2]),
        ("raid6-left-symmetric", vec![0, 1, 2]),
        ("raid10-n2-4", vec![0, 1]),
        ("raid10-f2-3", vec![0, 1]),
        ("raid1-1.2", vec![0, 1]),
        ("linear", vec![1]),
    ] {
        let (geometry, slots) = assemble(&Fixture::open(name));
        let error = Array::open(geometry, without(&slots, &missing)).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("roles {missing:?} are missing")),
            "{error}"
        );
    }
    // Each pair of mirrors may lose one.
    let (geometry, slots) = assemble(&Fixture::open("raid10-n2-4"));
    assert!(Array::open(geometry, without(&slots, &[0, 3])).is_ok());
}

#[test]
fn one_wrong_member_leaves_a_right_alternative() {
    for name in ["raid6-left-asymmetric", "raid6-ddf-N-restart", "raid5-left-symmetric", "raid4"] {
        for degraded in [false, true] {
            let (geometry, mut slots) = assemble(&Fixture::open(name));
            if degraded && geometry.level() != Level::Raid6 {
                continue;
            }
            let rot = FaultPlan { seed: 3, rot_one_in: 1, ..FaultPlan::default() };
            let liar = slots[1].device.take().unwrap();
            slots[1].device = Some(Arc::new(FaultDevice::new(liar, rot)));
            if degraded {
                slots[3] = Slot::missing();
            }
            let array = Array::open(geometry, slots).unwrap();
            for sector in 0..array.size().0 / 512 {
                let at = ByteOffset(sector * 512);
                let mut buf = [0; 512];
                let ways = array.alternatives(at, ByteLen(512));
                let right = (0..ways).any(|k| {
                    array.read_alternative(at, &mut buf, k).unwrap();
                    buf == pattern(1, sector)
                });
                assert!(right, "{name}, degraded {degraded}, sector {sector}, {ways} ways");
                assert!(array.read_alternative(at, &mut buf, ways).is_err());
            }
        }
    }
}

#[test]
fn bad_blocks_are_read_from_other_members() {
    let (geometry, mut slots) = assemble(&Fixture::open("raid6-left-symmetric"));
    let bad = |range: std::ops::Range<u64>| MemberSector(range.start)..MemberSector(range.end);
    let size = geometry.component_size().0;
    // Three members with bad blocks, never three at one offset.
    slots[0].bad_blocks = vec![bad(0..8), bad(100..160), bad(size - 8..size)];
    slots[1].bad_blocks = vec![bad(0..40), bad(168..300)];
    slots[2].readable_until = MemberSector(160);
    for step in [16 << 20, 20_000] {
        let array = Array::open(geometry.clone(), slots.clone()).unwrap();
        let all = content(&array, step);
        for (sector, bytes) in (0..).zip(all.chunks(512)) {
            assert_eq!(bytes, pattern(1, sector), "sector {sector} by {step}");
        }
        assert_eq!(array.states()[2], MemberState::Recovering(MemberByte(160 * 512)));
    }
}
