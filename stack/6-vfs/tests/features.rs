//! A volume is written only where every feature bit is on the list of those that the code writes.

use crate::common;

use std::mem::offset_of;
use std::sync::Arc;

use common::{make, snapshot};
use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::{Error, OpenOptions, Volume};
use xfskit_format::sb::Superblock;
use xfskit_units::ByteOffset;

/// A feature word: where it lies in the superblock, its bytes, and the bits that may be written.
const WORDS: [(&str, usize, usize, u32); 5] = [
    ("versionnum", offset_of!(Superblock, versionnum), 2, 0xfdf0),
    ("features2", offset_of!(Superblock, features2), 4, 0x38a),
    ("ro_compat", offset_of!(Superblock, features_ro_compat), 4, 0xf),
    ("incompat", offset_of!(Superblock, features_incompat), 4, 0xef),
    ("log_incompat", offset_of!(Superblock, features_log_incompat), 4, 0x1),
];

const SECTOR: usize = 512;

/// Sets `bit` of a feature word in the primary superblock, and its checksum.
///
/// Returns false if the bit was set before.
fn set(dev: &MemDevice, (_, offset, width, _): (&str, usize, usize, u32), bit: u32) -> bool {
    let mut sector = [0; SECTOR];
    dev.read_at(ByteOffset(0), &mut sector).unwrap();
    let byte = offset + width - 1 - bit as usize / 8;
    let mask = 1 << (bit % 8);
    let was_set = sector[byte] & mask != 0;
    sector[byte] |= mask;
    let crc = offset_of!(Superblock, crc);
    sector[crc..crc + 4].fill(0);
    let sum = xfskit_crc::crc32c(&sector);
    sector[crc..crc + 4].copy_from_slice(&sum.to_le_bytes());
    dev.write_at(ByteOffset(0), &sector).unwrap();
    !was_set
}

fn content(dev: &MemDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(common::SIZE).unwrap()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}

fn open(dev: &Arc<MemDevice>) -> xfskit_core::Result<Volume> {
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    Volume::open(Arc::clone(dev) as Arc<dyn BlockDevice>, &options)
}

#[test]
fn a_bit_that_is_not_on_the_list_keeps_a_volume_from_being_written() {
    let base = make(&[]);
    let before = content(&base);
    let (mut refused, mut tried) = (0, 0);
    for word in WORDS {
        let (name, _, width, writable) = word;
        // The low nibble of `versionnum` is the version itself.
        let first = if width == 2 { 4 } else { 0 };
        for bit in first..u32::try_from(width).unwrap() * 8 {
            let may_be_written = writable & (1 << bit) != 0;
            let dev = if may_be_written { snapshot(&base) } else { Arc::clone(&base) };
            if !set(&dev, word, bit) {
                continue;
            }
            tried += 1;
            let opened = open(&dev);
            if !may_be_written {
                let error = opened.map(drop).expect_err(&format!("{name} bit {bit} is written"));
                assert!(!matches!(error, Error::ReadOnly), "{name} bit {bit}: {error}");
                dev.write_at(ByteOffset(0), &before[..SECTOR]).unwrap();
                refused += 1;
            } else if let Err(error) = opened {
                // Some bits need fields that this volume does not have: that is corruption.
                assert!(!matches!(error, Error::Unsupported(_)), "{name} bit {bit}: {error}");
            }
        }
    }
    assert!(content(&base) == before, "a refused volume was changed");
    assert!(refused > 90 && tried > refused, "{refused} of {tried} bits were refused");
}
