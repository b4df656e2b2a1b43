//! Members compared, and the volume on them asked which is wrong.

use std::path::Path;
use std::sync::Mutex;

use crate::common::array::{FILE, FilledArray, PAGE};
use xfskit::md::{Compare, Level, Resolved, SyncAction};
use xfskit::{CancelToken, Check, Checked, ErrorKind, Finding, Healing, VolumeOptions};

/// Bytes of a member that are used.
const MEMBER: u64 = 24 << 20;

/// Compares the members, checks the volume, and resolves the mismatches. Returns the findings of
/// the check, too.
fn compared(array: &FilledArray, repair: bool) -> (Checked, Vec<Finding>, Resolved) {
    let compared = Compare::new().repair(repair).run(&array.target).unwrap().expect("an array");
    let mut found = Vec::new();
    let checked = Check::new().run_compared(&compared, |finding| found.push(finding)).unwrap();
    let resolved = compared.resolve(checked.is_clean()).unwrap();
    (checked, found, resolved)
}

/// Returns the data of a member, without its superblock.
fn data(array: &FilledArray, role: usize, bytes: &[Vec<u8>]) -> Vec<u8> {
    bytes[role][usize::try_from(array.data_offset(role)).unwrap()..].to_vec()
}

#[test]
fn a_checksum_shows_the_wrong_member_of_a_raid5_and_a_repair_restores_it() {
    let array = FilledArray::new(Level::Raid5, 3, MEMBER, 20);
    let before = array.bytes();
    // The AGI of the first group, in the third sector of the first chunk.
    array.damage(0, array.data_offset(0) + 1024 + 16, b"not an AGI");
    let damaged = array.bytes();
    let (checked, found, resolved) = compared(&array, false);
    assert!(!checked.is_clean(), "one copy is damaged");
    assert!(found.iter().all(|finding| finding.healed == Some(Healing::Read)), "{found:?}");
    assert_eq!((resolved.pages, resolved.repaired, resolved.listed.len()), (1, 0, 1));
    assert!(array.bytes() == damaged, "nothing is written without repair");

    let (checked, found, resolved) = compared(&array, true);
    assert!(checked.is_clean(), "{found:?}");
    assert!(found.iter().any(|finding| finding.healed == Some(Healing::Rewritten)), "{found:?}");
    assert_eq!((resolved.pages, resolved.repaired), (1, 1));
    assert!(data(&array, 0, &array.bytes()) == data(&array, 0, &before), "it is as it was");
    let (_, found, resolved) = compared(&array, false);
    assert!(found.is_empty() && resolved.pages == 0, "{found:?}");
    array.verify();
}

#[test]
fn wrong_content_of_a_raid5_is_reported_with_its_file_and_kept() {
    let array = FilledArray::new(Level::Raid5, 3, MEMBER, 20);
    array.damage_page(40);
    let damaged = array.bytes();
    let (_, found, resolved) = compared(&array, true);
    assert!(found.is_empty(), "content has no checksums: {found:?}");
    assert_eq!((resolved.pages, resolved.repaired), (1, 0));
    let page = &resolved.listed[0];
    assert_eq!((page.role, page.repaired, page.array.as_deref()), (None, false, None));
    let files = page.files.as_ref().expect("the content is known");
    assert!(files.iter().any(|file| {
        file.path.as_deref() == Some(Path::new("/file"))
            && (file.offset..file.offset + file.len).contains(&(40 * PAGE))
    }));
    let now = array.bytes();
    for role in 0..now.len() {
        assert!(data(&array, role, &now) == data(&array, role, &damaged), "role {role} is kept");
    }
    array.verify();
}

#[test]
fn a_raid5_page_without_content_gets_new_parity() {
    let array = FilledArray::new(Level::Raid5, 3, MEMBER, 20);
    // The last blocks of the volume are free.
    array.damage(1, array.data_offset(1) + MEMBER - (1 << 19), b"not what was written");
    assert_eq!(compared(&array, false).2.pages, 1);
    let (_, _, resolved) = compared(&array, true);
    assert_eq!((resolved.pages, resolved.repaired), (1, 1));
    assert_eq!(compared(&array, false).2.pages, 0);
    array.verify();
}

#[test]
fn parity_shows_the_wrong_member_of_a_raid6_and_a_repair_restores_it() {
    let array = FilledArray::new(Level::Raid6, 4, MEMBER, 20);
    let before = array.bytes();
    let role = array.damage_page(40);
    let (_, _, resolved) = compared(&array, false);
    assert_eq!((resolved.pages, resolved.repaired), (1, 0));
    assert_eq!(resolved.listed[0].role, Some(role));
    let (_, _, resolved) = compared(&array, true);
    assert_eq!((resolved.pages, resolved.repaired), (1, 1));
    assert!(data(&array, role, &array.bytes()) == data(&array, role, &before), "it is as it was");
    array.verify();
}

#[test]
fn what_is_not_compared_says_why() {
    let array = FilledArray::new(Level::Raid5, 3, MEMBER, 20);
    assert!(Compare::new().run(array.dir.path().join("volume.img")).unwrap().is_none());
    // A member that is missing leaves nothing to compare with.
    let notes = Mutex::new(Vec::new());
    let note = |note: &str| notes.lock().unwrap().push(note.to_owned());
    let degraded = format!("md:{},{}", array.members[0].display(), array.members[1].display());
    let found = Compare::new().notes(note).run(&degraded).unwrap().expect("checksums remain");
    assert_eq!(found.resolve(true).unwrap().pages, 0);
    let notes = notes.into_inner().unwrap();
    assert!(notes.len() == 1 && notes[0].contains("a member is missing"), "{notes:?}");
    // A journal that waits for its replay.
    let volume = VolumeOptions::new().write(true).open(&array.target).unwrap();
    volume.write("/later", "content").unwrap();
    volume.sync().unwrap();
    volume.abandon();
    let dirty = Compare::new().repair(true).run(&array.target).unwrap_err();
    assert_eq!(dirty.kind(), ErrorKind::InvalidInput, "{dirty}");
    VolumeOptions::new().write(true).open(&array.target).unwrap().close().unwrap();
    array.verify();
}

#[test]
fn a_comparison_reports_its_progress_and_stops_when_cancelled() {
    let array = FilledArray::new(Level::Raid5, 3, MEMBER, 20);
    let last = Mutex::new(None);
    let report = |action, progress| *last.lock().unwrap() = Some((action, progress));
    let found = Compare::new().progress(report).run(&array.target).unwrap().expect("an array");
    let mut file = vec![0; usize::try_from(FILE).unwrap()];
    let volume = VolumeOptions::new().open_on(&found.device()).unwrap();
    volume.open_file("/file").unwrap().read_at(&mut file, 0).unwrap();
    assert!(file == array.file, "the volume is read through the comparison");
    let (action, progress) = last.into_inner().unwrap().expect("progress");
    assert_eq!(action, SyncAction::Check);
    assert_eq!((progress.done, progress.total), (MEMBER, MEMBER));
    let token = CancelToken::new();
    let cancel = |_, _| token.cancel();
    let stopped = Compare::new().progress(cancel).cancel(&token).run(&array.target);
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
}
