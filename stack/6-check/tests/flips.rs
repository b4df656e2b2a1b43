//! Flips bits of metadata blocks, with the checksum made right: never a panic, and mostly found.

use crate::common::{self, Block, Image, check_all};
use xfskit_test_support::Random;

/// Number of flips in each kept image: enough for every kind of block, few enough for every run.
const FLIPS: usize = 300;

fn is_free_inode(image: &Image, block: Block) -> bool {
    let bytes = &image.bytes[block.offset..];
    bytes.starts_with(b"IN\0\0")
}

/// Returns how many of `FLIPS` single flips the check finds, and the blocks of the others.
fn flip(name: &str) -> (usize, Vec<String>) {
    let image = Image::kept(name);
    let mut blocks = image.metadata();
    blocks.retain(|block| !is_free_inode(&image, *block));
    let mut random = Random::of_test(1);
    let (mut seen, mut unseen) = (0, Vec::new());
    for round in 0..FLIPS {
        let block = random.pick(&blocks);
        // Most zeroes are padding or unused space.
        let set = |byte: &usize| image.bytes[block.offset + byte] != 0;
        let meant: Vec<usize> = (0..block.len).filter(set).collect();
        let byte = random.pick(&meant);
        let bit = 1u8 << random.below(8);
        let dev = image.copy();
        common::damage(&dev, block, |bytes| bytes[byte] ^= bit);
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut count = 0;
            let options = xfskit_check::Options::default();
            match xfskit_check::check(&dev, None, &options, &mut |_| count += 1) {
                Ok(_) => count,
                Err(_) => 1,
            }
        }));
        let found = found.unwrap_or_else(|_| {
            panic!("{name}: panic at flip {round}: {block:?} byte {byte} bit {bit}")
        });
        if found > 0 {
            seen += 1;
        } else {
            let magic = String::from_utf8_lossy(&image.bytes[block.offset..block.offset + 4]);
            unseen.push(format!("{magic}+{byte}"));
        }
    }
    (seen, unseen)
}

fn image_has_checksums(name: &str) -> bool {
    name.starts_with("v5")
}

#[test]
fn a_flipped_bit_never_panics_and_is_mostly_found() {
    for name in ["v5", "v5-1k", "v5-plain", "v4", "v4-old"] {
        let (seen, unseen) = flip(name);
        println!("{name}: {seen} of {FLIPS} seen; not seen: {}", unseen.join(" "));
        // Times, owners, modes and values have no redundant copy, so their flips are not found.
        let expected = if image_has_checksums(name) { 50 } else { 40 };
        assert!(seen * 100 > FLIPS * expected, "{name}: only {seen} of {FLIPS}");
    }
}

#[test]
#[allow(clippy::case_sensitive_file_extension_comparisons)] // ids, not files
fn a_wrong_checksum_is_always_found_and_hides_nothing_behind_it() {
    let image = Image::kept("v5");
    let mut random = Random::of_test(2);
    let blocks = image.metadata();
    for _ in 0..150 {
        let block = random.pick(&blocks);
        let Some(crc) = block.crc else { continue };
        let mut block = block;
        block.crc = None;
        let dev = image.copy();
        common::damage(&dev, block, |bytes| bytes[crc] ^= 1);
        let (_, findings) = check_all(&dev);
        let ids: Vec<_> = findings.iter().map(|f| f.corruption.check.0).collect();
        assert!(ids.len() == 1 && ids[0].ends_with(".crc"), "{block:?}: {ids:?}");
    }
}
