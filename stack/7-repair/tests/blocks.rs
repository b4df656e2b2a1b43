//! Blocks that are zeroed, swapped with each other, or those of another volume.

use std::collections::BTreeMap;

use xfskit_test_support::{Random, long};

use crate::common::{Block, Image};
use crate::survivors::{Before, Tally, with};

/// Kept images: with a rmapbt and shared blocks, without a rmapbt, with small blocks.
const IMAGES: [&str; 3] = ["v5", "v5-plain", "v5-1k"];
/// Blocks of each image that the short run damages in each way.
const SHORT: usize = 20;
/// `xfs_repair -n` and the kernel see every repaired volume of this number.
const VERIFIED: usize = 20;
/// The seed of the short run.
const SEED: u64 = 24;

/// Returns structures of an image: one of each kind, and others by chance; in the long run all.
fn chosen(image: &Image, random: &mut Random) -> Vec<Block> {
    let mut all = image.metadata();
    if long() {
        return all;
    }
    let mut kinds: BTreeMap<Vec<u8>, Block> = BTreeMap::new();
    for block in &all {
        let head = &image.bytes[block.offset..];
        let kind = if head.starts_with(b"X") || head.starts_with(b"IN") {
            head[..2].to_vec()
        } else {
            [&head[..4], &head[8..10]].concat()
        };
        kinds.insert(kind, *block);
    }
    let mut some: Vec<Block> = kinds.into_values().collect();
    while some.len() < SHORT && !all.is_empty() {
        some.push(all.swap_remove(random.below(all.len())));
    }
    some
}

fn run(what: &str, damage: impl Fn(&Image, &mut [u8], Block, &mut Random)) {
    let mut random = Random::of_test(SEED);
    let mut tally = Tally::default();
    for name in IMAGES {
        let before = Before::kept(name);
        for block in chosen(&before.image, &mut random) {
            let magic = String::from_utf8_lossy(&before.image.bytes[block.offset..][..4]);
            let case = format!("{what} {name} {magic:?} at {}", block.offset);
            let damaged =
                with(&before.image.bytes, |all| damage(&before.image, all, block, &mut random));
            let is_verified = tally.cases() % VERIFIED == 0;
            tally.add(&case, before.outcome(&damaged, &case, is_verified));
        }
    }
    tally.print(what);
    assert!(tally.cases() >= SHORT * IMAGES.len());
    assert!(tally.refused.is_empty(), "{} are refused", tally.refused.len());
}

#[test]
fn a_volume_with_a_block_of_zeroes_is_repaired() {
    run("zeroed", |_, all, block, _| all[block.offset..block.offset + block.len].fill(0));
}

#[test]
fn a_volume_with_a_block_of_garbage_is_repaired() {
    run("garbage", |_, all, block, random| {
        random.fill(&mut all[block.offset..block.offset + block.len]);
    });
}

#[test]
fn a_volume_with_two_blocks_swapped_is_repaired() {
    run("swapped", |image, all, block, random| {
        let others: Vec<Block> = image
            .metadata()
            .into_iter()
            .filter(|other| other.len == block.len && other.offset != block.offset)
            .collect();
        let other = random.pick(&others);
        let (one, two) = (block.offset..block.offset + block.len, other.offset);
        let kept = all[one.clone()].to_vec();
        all.copy_within(two..two + other.len, one.start);
        all[two..two + other.len].copy_from_slice(&kept);
    });
}

/// A write that went to another volume, or a device that was used before: the same block number,
/// another UUID, a right checksum.
#[test]
fn a_volume_with_a_block_of_another_volume_is_repaired() {
    run("foreign", |image, all, block, random| {
        let uuid = *image.geo.meta_uuid.as_bytes();
        let other = random.bytes(uuid.len());
        let bytes = &mut all[block.offset..block.offset + block.len];
        let places: Vec<usize> = bytes
            .windows(uuid.len())
            .enumerate()
            .filter(|(_, window)| *window == uuid)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "a block of version 5 names its volume");
        for at in places {
            bytes[at..at + other.len()].copy_from_slice(&other);
        }
        if let Some(crc) = block.crc {
            xfskit_crc::update(bytes, crc);
        }
    });
}
