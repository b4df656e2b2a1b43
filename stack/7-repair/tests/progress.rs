//! The progress of a commit, and commits that end before their first write.

use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_repair::{CommitPhase, Error, Prepared, Repair, UndoFile};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::{kept, verify};
use xfskit_units::ByteOffset;

use crate::common::Image;

/// Returns a device whose group headers are lost, and its repair.
fn prepared() -> (Arc<MemDevice>, Prepared) {
    let image = Image::kept("v5");
    let mut bytes = image.bytes.clone();
    for sector in 1..=3 {
        let header = image.header(0, sector);
        bytes[header.offset..header.offset + header.len].fill(0xa5);
    }
    let dev = Arc::new(kept::memory(&bytes));
    let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
    (dev, prepared)
}

fn content(dev: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(dev.size().0).unwrap()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}

#[test]
fn a_commit_reports_each_phase_up_to_all_of_its_bytes() {
    let scratch = Scratch::new("repair-progress");
    let (dev, prepared) = prepared();
    let mut file =
        UndoFile::create(&scratch.path().join("undo"), prepared.uuid(), dev.size()).unwrap();
    let mut reports = Vec::new();
    let mut note = |phase, done, total| {
        reports.push((phase, done, total));
        ControlFlow::Continue(())
    };
    prepared.commit_with(&*dev, Some(&mut file), &mut note).unwrap();
    for phase in [CommitPhase::Undo, CommitPhase::Write] {
        let of_phase: Vec<_> = reports.iter().filter(|report| report.0 == phase).collect();
        assert!(of_phase.len() > 2, "{reports:?}");
        assert!(of_phase.iter().all(|(_, done, total)| done <= total), "{reports:?}");
        assert!(of_phase.is_sorted_by_key(|report| report.1), "{reports:?}");
        assert_eq!(of_phase[0].1, 0, "{reports:?}");
    }
    let &(phase, done, total) = reports.last().unwrap();
    assert_eq!((phase, done), (CommitPhase::Write, total), "{reports:?}");
    assert_eq!(total, prepared.bytes());
    assert!(reports.is_sorted_by_key(|(phase, ..)| *phase == CommitPhase::Write), "{reports:?}");
}

#[test]
fn a_commit_that_is_stopped_before_its_first_write_leaves_nothing_behind() {
    let scratch = Scratch::new("repair-stopped");
    let path = scratch.path().join("undo");
    for at in [CommitPhase::Undo, CommitPhase::Write] {
        let (dev, prepared) = prepared();
        let before = content(&*dev);
        let mut file = UndoFile::create(&path, prepared.uuid(), dev.size()).unwrap();
        let mut stop = |phase, _, _| {
            if phase == at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let stopped = prepared.commit_with(&*dev, Some(&mut file), &mut stop);
        assert!(matches!(stopped, Err(Error::Stopped)), "{at:?}: {stopped:?}");
        assert!(content(&*dev) == before, "{at:?}: written");
        drop(file);
        assert!(!path.exists(), "{at:?}: the undo file of no repair");
    }
}

#[test]
fn a_commit_that_has_begun_to_write_is_not_stopped() {
    let (dev, prepared) = prepared();
    let mut stop =
        |_, done, _| if done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let written = prepared.commit_with(&*dev, None, &mut stop).unwrap();
    assert!(written.bytes >= prepared.bytes(), "{written:?}");
    let (report, findings) = crate::common::check_all(&*dev);
    assert!(report.clean(), "{findings:?}");
    verify::device(&*dev).expect("a sound volume");
}
