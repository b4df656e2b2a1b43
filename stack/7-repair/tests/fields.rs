//! Fields of the primary superblock that its copies tell.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_repair::Repair;
use xfskit_test_support::{kept, verify};
use xfskit_units::ByteOffset;

use crate::common::Image;

/// Fields that mkfs sets once: name, byte and length.
const FIXED: [(&str, usize, usize); 9] = [
    ("logstart", 48, 8),
    ("rootino", 56, 8),
    ("rbmino", 64, 8),
    ("rsumino", 72, 8),
    ("rextsize", 80, 4),
    ("logblocks", 96, 4),
    ("inoalignmt", 180, 4),
    ("features_compat", 208, 4),
    ("spino_align", 228, 4),
];

#[test]
fn fields_that_mkfs_sets_once_are_taken_from_the_copies() {
    let image = Image::kept("v5");
    for (name, at, len) in FIXED {
        let mut bytes = image.bytes.clone();
        bytes[at + len - 1] ^= 0x40;
        xfskit_crc::update(&mut bytes[..512], 224);
        let dev: Arc<MemDevice> = Arc::new(kept::memory(&bytes));
        let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
        assert!(prepared.is_clean(), "{name}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
        prepared.commit(&*dev, None).unwrap();
        let mut sector = [0; 512];
        dev.read_at(ByteOffset(0), &mut sector).unwrap();
        assert_eq!(sector[at..at + len], image.bytes[at..at + len], "{name}");
        verify::device(&*dev).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}
