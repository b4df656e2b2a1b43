//! The commit of a repair: its progress, and when it can be stopped.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use xfskit::{CancelToken, Check, ErrorKind, Repair, RepairPhase};
use xfskit_test_support::{kept, verify};

/// Unpacks a volume, and overwrites the headers of its first group.
fn damaged(dir: &std::path::Path) -> PathBuf {
    let image = kept::file("v5", dir);
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0xa5; 3 * 512], 512).unwrap();
    image
}

#[test]
fn a_commit_reports_the_undo_file_and_then_the_writes() {
    let dir = tempfile::tempdir().unwrap();
    let image = damaged(dir.path());
    let prepared = Repair::new().prepare(&image).unwrap();
    let mut undo = prepared.undo_file(dir.path().join("undo")).unwrap();
    let mut reports = Vec::new();
    prepared
        .commit_with(Some(&mut undo), &CancelToken::new(), |phase, at| reports.push((phase, at)))
        .unwrap();
    assert!(reports.is_sorted_by_key(|(phase, at)| (*phase == RepairPhase::Write, at.done)));
    for phase in [RepairPhase::Undo, RepairPhase::Write] {
        let last = reports.iter().rfind(|(of, _)| *of == phase).unwrap().1;
        assert!(last.done == last.total && last.total > 0, "{phase:?}: {last:?}");
    }
    drop(prepared);
    assert!(Check::new().run(&image).unwrap().is_clean());
    verify::file(&image).expect("a sound volume");
}

#[test]
fn a_commit_is_stopped_before_its_first_write_and_goes_on_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let undo_file = dir.path().join("undo");
    for phase in [RepairPhase::Undo, RepairPhase::Write] {
        let image = damaged(dir.path());
        let before = fs::read(&image).unwrap();
        let token = CancelToken::new();
        let prepared = Repair::new().cancel(&token).prepare(&image).unwrap();
        let mut undo = prepared.undo_file(&undo_file).unwrap();
        let stopped = prepared.commit_with(Some(&mut undo), &token, |at, progress| {
            if at == phase && (at == RepairPhase::Undo || progress.done > 0) {
                token.cancel();
            }
        });
        drop((undo, prepared));
        if phase == RepairPhase::Undo {
            assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
            assert!(fs::read(&image).unwrap() == before && !undo_file.exists());
        } else {
            stopped.expect("a whole repair");
            assert!(Check::new().run(&image).unwrap().is_clean() && undo_file.exists());
            verify::file(&image).expect("a sound volume");
        }
    }
}
