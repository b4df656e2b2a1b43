//! What the kernel wrote and left clean has no findings.

mod common;

use common::{Image, judge};

#[test]
fn kept_images_are_clean_to_the_last_warning() {
    for name in ["v5", "v5-1k", "v5-plain", "v4", "v4-old"] {
        let (report, findings) = judge(&Image::kept(name).copy());
        assert!(findings.is_empty(), "{name}: {findings:#?}");
        assert!(report.clean() && report.log_clean);
        assert!(report.inodes > 60 && report.directories >= 5 && report.entries > 1500, "{name}");
    }
}

#[test]
fn a_dirty_journal_is_a_warning_and_counters_are_not_held_against_it() {
    for name in ["v5-dirty", "v4-dirty"] {
        let (report, findings) = judge(&Image::kept(name).copy());
        let ids: Vec<_> = findings.iter().map(|f| f.corruption.check.0).collect();
        assert_eq!(ids, ["log.dirty"], "{name}");
        assert!(report.clean() && !report.log_clean);
    }
}

#[test]
fn a_truncated_volume_is_judged_as_far_as_it_goes() {
    let image = Image::kept("v5");
    let dev = xfskit_block::MemDevice::new(xfskit_units::ByteLen(40 << 20));
    xfskit_block::BlockDevice::write_at(
        &dev,
        xfskit_units::ByteOffset(0),
        &image.bytes[..40 << 20],
    )
    .unwrap();
    let (report, findings) = judge(&dev);
    assert!(report.fatals > 0 && !report.clean());
    assert!(findings.iter().any(|f| f.corruption.check.0 == "sb.dblocks"), "{findings:#?}");
    assert!(report.inodes > 3, "the groups that are there are judged");
}
