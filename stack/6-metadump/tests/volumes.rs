//! Volumes that the kernel filled, dumped and restored.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_metadump::{Dump, Error, FileFormat, Handling, JournalMode};
use xfskit_test_support::kept;

use crate::common::{KEY, content, dump, findings, restored};

/// Volumes with a clean journal.
const CLEAN: [&str; 8] =
    ["v5", "v5-1k", "v5-plain", "v5-tall", "v5-rt", "v5-metadir", "v4", "v4-old"];
/// Volumes with a dirty journal.
const DIRTY: [&str; 6] =
    ["v5-dirty", "v4-dirty", "small-dirty", "intents-1k", "intents-parent", "intents-exchange"];

fn plain() -> Dump {
    Dump { threads: 2, ..Dump::default() }
}

fn obfuscated() -> Dump {
    Dump { obfuscate: Some(KEY), ..plain() }
}

#[test]
fn a_restored_volume_has_no_findings() {
    for name in CLEAN {
        let device = kept::device(name);
        let before = findings(&*device);
        for format in [FileFormat::V1, FileFormat::V2] {
            for options in [plain(), obfuscated()] {
                let options = Dump { format: Some(format), ..options };
                let (file, report) = dump(&device, &options);
                assert!(report.is_clean(), "{name}: {report:#?}");
                assert_eq!(report.journal, Some(Handling::Cleared), "{name}");
                assert_eq!(report.file_bytes, file.len() as u64);
                let (copy, restored) = restored(&file);
                assert_eq!(restored.metadata_bytes, report.metadata_bytes, "{name}");
                let kind = (format, options.obfuscate.is_some());
                assert_eq!(findings(&*copy), before, "{name} {kind:?}");
            }
        }
    }
}

#[test]
fn a_full_copy_has_the_bytes_of_the_volume() {
    for name in CLEAN.iter().chain(&DIRTY) {
        let device = kept::device(name);
        let options = Dump { zero_stale: false, journal: JournalMode::Copy, ..plain() };
        let (file, report) = dump(&device, &options);
        let (copy, _) = restored(&file);
        let (old, new) = (content(&*device), content(&*copy));
        let mut copied = 0;
        for (sector, (old, new)) in old.chunks(512).zip(new.chunks(512)).enumerate() {
            if new.iter().any(|byte| *byte != 0) {
                assert!(old == new, "{name}: sector {sector} differs");
                copied += 1;
            }
        }
        assert!(copied > 0 && copied * 512 <= report.metadata_bytes, "{name}");
    }
}

#[test]
fn both_formats_hold_the_same() {
    for name in CLEAN {
        let device = kept::device(name);
        let of = |format| {
            let (file, _) = dump(&device, &Dump { format: Some(format), ..obfuscated() });
            content(&*restored(&file).0)
        };
        assert!(of(FileFormat::V1) == of(FileFormat::V2), "{name}");
    }
}

#[test]
fn a_dump_does_not_depend_on_the_number_of_threads() {
    let device = kept::device("v5");
    let of = |threads| dump(&device, &Dump { threads, ..obfuscated() }).0;
    let one = of(1);
    assert!([2, 3, 8].into_iter().all(|threads| of(threads) == one));
}

#[test]
fn a_dirty_journal_is_replayed_for_obfuscation_and_copied_without() {
    for name in DIRTY {
        let device = kept::device(name);
        let (file, report) = dump(&device, &plain());
        assert_eq!(report.journal, Some(Handling::Copied), "{name}");
        assert!(report.content.dirty_log, "{name}");
        assert_eq!(findings(&*restored(&file).0), findings(&*device), "{name}");

        let (file, report) = dump(&device, &obfuscated());
        assert_eq!(report.journal, Some(Handling::Replayed), "{name}");
        assert!(!report.content.dirty_log, "{name}");
        assert_eq!(findings(&*restored(&file).0), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_journal_that_cannot_be_replayed_is_refused_for_obfuscation_only() {
    let device = kept::device("v5-dirty");
    let geo = {
        let (file, _) = dump(&device, &plain());
        xfskit_metadump::Reader::open(&file[..]).unwrap().superblock().geometry()
    };
    // Every record header of the journal is damaged.
    let start = geo.log_daddr().unwrap().byte_offset();
    let mut log = vec![0; geo.log_bbs() as usize * 512];
    device.read_at(start, &mut log).unwrap();
    for block in log.chunks_mut(512).filter(|block| block.starts_with(&[0xfe, 0xed, 0xba, 0xbe])) {
        block[8..40].fill(0xff);
    }
    device.write_at(start, &log).unwrap();
    let refused = obfuscated().prepare(Arc::clone(&device), None).err().unwrap();
    assert!(matches!(refused, Error::Journal(_)), "{refused}");
    assert!(refused.hint().unwrap().contains("--journal copy"));
    let (_, report) = dump(&device, &plain());
    assert_eq!(report.journal, Some(Handling::Copied));
    let (_, report) = dump(&device, &Dump { journal: JournalMode::Copy, ..obfuscated() });
    assert_eq!(report.journal, Some(Handling::Copied));
    assert!(report.is_clean() && report.warnings.len() == 1, "{:?}", report.warnings);
}
