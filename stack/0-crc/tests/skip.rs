//! Sums that are skipped. By itself, because the whole process skips them.

use xfskit_crc::{crc32c, selected, skip, update, verify};

#[test]
fn what_is_written_without_sums_is_found_right_without_them_and_only_then() {
    let (before, mut block) = (selected(), [7_u8; 512]);
    let right = crc32c(&block);
    let (first, second) = (skip(), skip());
    assert_eq!(crc32c(&block), crc32c(b"anything else"));
    update(&mut block, 100);
    assert!(verify(&block, 100));
    drop(first);
    assert!(verify(&block, 100), "somebody still holds it");
    drop(second);
    assert!(!verify(&block, 100));
    assert_eq!((selected(), crc32c(&[7; 512])), (before, right));
}
