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
