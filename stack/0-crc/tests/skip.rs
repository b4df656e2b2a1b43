//! Skipped checksums. A test binary of its own, because the whole process skips them.

use xfskit_crc::{crc32c, selected, skip, update, verify};

#[test]
fn blocks_written_without_checksums_verify_only_while_checksums_are_skipped() {
    let (before, mut block) = (selected(), [7_u8; 512]);
    let right = crc32c(&block);
    let (first, second) = (skip(), skip());
    assert_eq!(crc32c(&block), crc32c(b"anything else"));
    update(&mut block, 100);
    assert!(verify(&block, 100));
    drop(first);
    assert!(verify(&block, 100), "another holder still exists");
    drop(second);
    assert!(!verify(&block, 100));
    assert_eq!((selected(), crc32c(&[7; 512])), (before, right));
}
