//! Volumes that the kernel wrote and left clean have no findings.

use xfskit_check::{Memory, Options, Report, check};
use xfskit_units::ByteLen;

use crate::common::{Image, check_all};

#[test]
fn kept_images_have_no_findings() {
    for name in ["v5", "v5-1k", "v5-plain", "v4", "v4-old"] {
        let (report, findings) = check_all(&Image::kept(name).copy());
        assert!(findings.is_empty(), "{name}: {findings:#?}");
        assert!(report.clean() && report.log_clean);
        assert!(report.inodes > 60 && report.directories >= 5 && report.entries > 1500, "{name}");
    }
}

#[test]
fn extents_that_do_not_stay_in_memory_are_checked_too() {
    let dir = std::env::temp_dir();
    let mut saved = 0;
    for name in ["v5", "v5-1k", "v5-plain", "v5-tall", "v4"] {
        let dev = Image::kept(name).copy();
        let (in_memory, _) = check_all(&dev);
        let memory = Some(Memory { bytes: ByteLen(0), dir: &dir });
        let options = Options { threads: 2, memory, ..Options::default() };
        let mut findings = Vec::new();
        let report = check(&dev, None, &options, &mut |finding| findings.push(finding)).unwrap();
        assert!(findings.is_empty(), "{name}: {findings:#?}");
        let counts = |report: &Report| (report.extents, report.blocks_free, report.blocks_shared);
        assert_eq!(counts(&report), counts(&in_memory), "{name}");
        saved += in_memory.memory_peak - report.memory_peak;
    }
    assert!(saved > 0, "no image has enough extents");
}

#[test]
fn a_dirty_journal_is_a_warning_and_counters_are_not_checked() {
    for name in ["v5-dirty", "v4-dirty"] {
        let (report, findings) = check_all(&Image::kept(name).copy());
        let ids: Vec<_> = findings.iter().map(|f| f.corruption.check.0).collect();
        assert_eq!(ids, ["log.dirty"], "{name}");
        assert!(report.clean() && !report.log_clean);
    }
}

#[test]
fn a_truncated_volume_is_checked_up_to_its_end() {
    let image = Image::kept("v5");
    let dev = xfskit_block::MemDevice::new(xfskit_units::ByteLen(40 << 20));
    xfskit_block::BlockDevice::write_at(
        &dev,
        xfskit_units::ByteOffset(0),
        &image.bytes[..40 << 20],
    )
    .unwrap();
    let (report, findings) = check_all(&dev);
    assert!(report.fatals > 0 && !report.clean());
    assert!(findings.iter().any(|f| f.corruption.check.0 == "sb.dblocks"), "{findings:#?}");
    assert!(report.inodes > 3, "the groups that are there are checked");
}
