//! Members with damaged metadata are refused or read, and never cause a panic.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_md::superblock::{self, Superblock};
use xfskit_md::{Member, assemble};
use xfskit_test_arrays::Fixture;
use xfskit_test_support::Random;
use xfskit_units::ByteOffset;

/// Values at the ends of ranges, which most checks compare with.
const EDGES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xff, 0xfe];

/// Changes a few bytes of the superblock, and recomputes its checksum if it has one.
fn damage(device: &dyn BlockDevice, random: &mut Random) {
    let found = superblock::read(device).unwrap().unwrap();
    let at = found.superblock.at();
    let mut bytes = found.superblock.encode();
    for _ in 0..=random.below(4) {
        // Behind the magic; half of them where the array is described.
        let end = if random.below(2) == 0 { 0x110 } else { bytes.len() };
        let offset = 8 + random.below(end - 8);
        bytes[offset] = random.pick(&EDGES);
    }
    let bytes = Superblock::decode(found.version, &bytes, at).map_or(bytes, |sb| sb.encode());
    device.write_at(at.byte_offset(), &bytes).unwrap();
}

/// Changes a few bytes near the superblock: bitmap, bad blocks, logs.
fn damage_around(device: &dyn BlockDevice, random: &mut Random) {
    let at = superblock::read(device).unwrap().unwrap().superblock.at().byte_offset().0;
    for _ in 0..8 {
        let offset = at.saturating_sub(8192) + random.below(64 * 1024);
        if offset < device.size().0 && !(at..at + 4096).contains(&offset) {
            device.write_at(ByteOffset(offset), &[random.pick(&EDGES)]).unwrap();
        }
    }
}

#[test]
fn damaged_metadata_never_cause_a_panic() {
    let names = [
        "raid5-reshape",
        "raid6-dirty-bitmap",
        "raid1-badblocks",
        "raid5-ppl",
        "raid5-journal",
        "raid5-0.90",
        "raid10-f2-3",
        "raid0-zones-original",
        "linear",
        "raid1-1.0-bitmap",
    ];
    let (mut ran, mut refused) = (0, 0);
    for (seed, name) in (1u64..).zip(names) {
        let fixture = Fixture::open(name);
        let mut random = Random::of_test(seed);
        for round in 0..60 {
            let fresh =
                |(name, device)| Member { name, device: Arc::new(OverlayDevice::new(device)) };
            let members: Vec<Member> = fixture.named().into_iter().map(fresh).collect();
            // Every other round damages all members alike: then they agree, and their superblocks
            // are used.
            let state = random.clone();
            for member in &members {
                if round % 2 == 0 {
                    random = state.clone();
                }
                damage_around(&member.device, &mut random);
                damage(&member.device, &mut random);
            }
            let Ok(assembly) = assemble(members) else {
                refused += 1;
                continue;
            };
            let Ok(device) = assembly.open() else {
                refused += 1;
                continue;
            };
            ran += 1;
            let (size, mut piece) = (device.size().0, vec![0; 65536]);
            for _ in 0..4 {
                let at = random.below(size.max(1));
                let len = usize::try_from((size - at).min(65536)).unwrap();
                // An error is a valid result.
                let _ = device.read_at(ByteOffset(at), &mut piece[..len]);
            }
        }
    }
    assert!(ran > 50 && refused > 50, "{ran} ran, {refused} were refused");
}
