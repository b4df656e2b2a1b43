//! Reads that compare members before they deliver.

use std::path::Path;

use crate::common::array::{FILE, FilledArray, PAGE};
use xfskit::md::{Array, Level, Scrub, VerifiedArray};
use xfskit::{Check, ErrorKind, OpenOptions, Volume, VolumeOptions};

/// Bytes of a member that are used.
const MEMBER: u64 = 24 << 20;

#[test]
fn a_read_of_a_raid6_delivers_what_was_written_and_names_the_wrong_member() {
    let array = FilledArray::new(Level::Raid6, 4, MEMBER, 20);
    let role = array.damage_page(40);
    let plain = Volume::open(&array.target).unwrap().read("/file").unwrap();
    assert!(plain != array.file, "a plain read does not notice");
    let verified = VerifiedArray::open(&array.target).unwrap();
    assert!(verified.unverified().is_empty());
    let volume = VolumeOptions::new().open_on(&verified.device()).unwrap();
    assert!(volume.read("/file").unwrap() == array.file);
    drop(volume);
    let report = verified.report();
    assert_eq!(report.len(), 1, "{report:?}");
    let [corrected] = &report[0].corrected[..] else { panic!("{report:?}") };
    let member = array.members[role].display().to_string();
    assert_eq!((corrected.role, corrected.pages), (role, 1));
    assert_eq!(corrected.member.as_ref(), Some(&member));
    assert_eq!((report[0].undecided_pages, report[0].pages_not_listed), (0, 0));
    assert!(!report[0].unchecked);
    let doubtful = verified.doubtful_content(&Check::new()).unwrap();
    assert!(doubtful.known.is_empty() && doubtful.unknown_pages == 0, "{doubtful:?}");
}

#[test]
fn a_page_of_a_raid5_that_disagrees_is_doubtful_content_of_its_file() {
    let array = FilledArray::new(Level::Raid5, 3, MEMBER, 20);
    array.damage_page(40);
    let verified = VerifiedArray::open(&array.target).unwrap();
    let volume = VolumeOptions::new().open_on(&verified.device()).unwrap();
    volume.read("/file").unwrap();
    let ino = volume.metadata("/file").unwrap().ino();
    drop(volume);
    let report = verified.report();
    assert!(report[0].corrected.is_empty(), "which member is wrong is not known: {report:?}");
    assert_eq!(report[0].undecided_pages, 1);
    let doubtful = verified.doubtful_content(&Check::new()).unwrap();
    assert_eq!(doubtful.unknown_pages, 0);
    let holds = doubtful.known.iter().find(|place| place.offset == 40 * PAGE);
    let place = holds.unwrap_or_else(|| panic!("{doubtful:?}"));
    assert_eq!((place.ino, place.len), (ino, PAGE));
    assert_eq!(place.path.as_deref(), Some(Path::new("/file")));
}

#[test]
fn a_partial_write_does_not_hide_the_wrong_member() {
    let array = FilledArray::new(Level::Raid6, 4, MEMBER, 20);
    let role = array.damage_page(40);
    // The page after it: the new parity depends on the rest of its stripe.
    let page = [b'n'; 4096];
    let verified = VerifiedArray::open_writable(&array.target).unwrap();
    let volume = VolumeOptions::new().write(true).open_on(&verified.device()).unwrap();
    let file = volume.open_with("/file", OpenOptions::new().write(true)).unwrap();
    file.write_at(&page, 41 * PAGE).unwrap();
    drop(file);
    volume.close().unwrap();
    drop(verified);
    let mut expected = array.file.clone();
    expected[usize::try_from(41 * PAGE).unwrap()..][..page.len()].copy_from_slice(&page);
    // The others give the content without the wrong member.
    let names = array.members.iter().enumerate().map(|(i, member)| {
        if i == role { "missing".to_owned() } else { member.display().to_string() }
    });
    let degraded = format!("md:{}", names.collect::<Vec<_>>().join(","));
    assert!(Volume::open(&degraded).unwrap().read("/file").unwrap() == expected);
    let mut roles = Vec::new();
    let mut opened = xfskit::md::ArrayOptions::new().write(true).open(&array.target).unwrap();
    let scrubbed = Scrub::new().repair(true).run_with(&mut opened, |page| roles.push(page.role));
    assert_eq!((scrubbed.unwrap().repaired, roles), (1, vec![Some(role)]));
    opened.close().unwrap();
    assert!(Volume::open(&array.target).unwrap().read("/file").unwrap() == expected);
    array.verify();
}

#[test]
fn targets_without_redundancy_are_refused() {
    let array = FilledArray::new(Level::Raid5, 3, MEMBER, 20);
    let kind = |target: &str| VerifiedArray::open(target).unwrap_err().kind();
    let image = array.dir.path().join("volume.img").display().to_string();
    assert_eq!(kind(&image), ErrorKind::InvalidInput);
    let degraded = format!("md:{},{}", array.members[0].display(), array.members[1].display());
    assert!(Array::open(&degraded).unwrap().is_degraded());
    assert_eq!(kind(&degraded), ErrorKind::InvalidInput);
    let verified = VerifiedArray::open(&array.target).unwrap();
    let whole = verified.device();
    let mut buf = vec![0; usize::try_from(FILE).unwrap()];
    whole.read_exact_at(&mut buf, 0).unwrap();
    let report = verified.report();
    assert!(report[0].corrected.is_empty() && report[0].undecided_pages == 0, "{report:?}");
}
