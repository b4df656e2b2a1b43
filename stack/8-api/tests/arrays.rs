//! Arrays: made, managed and compared. mdadm reads what they are then.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::common::array::{examined, members};
use xfskit::ErrorKind;
use xfskit::md::{
    Array, ArrayOptions, Create, Created, Freshness, Level, NewDevices, Rebuild, Role, Scrub,
    examine,
};

/// Bytes of a member.
const MEMBER: u64 = 16 << 20;

fn made(level: Level, members: &[PathBuf]) -> Created {
    let devices = NewDevices::new().create(MEMBER);
    Create::new(level).assume_clean(true).devices(devices).create(members).unwrap()
}

fn to_write(created: &Created) -> Array {
    ArrayOptions::new().write(true).open(&created.target).unwrap()
}

#[test]
fn a_member_fails_comes_back_and_is_filled() {
    let dir = tempfile::tempdir().unwrap();
    let members = members(dir.path(), 3);
    let created = made(Level::Raid5, &members);
    let mut array = to_write(&created);
    let unknown = array.fail("other.img").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Member, "{unknown}");
    assert!(unknown.hint().is_some());
    array.fail(&members[0]).unwrap();
    assert_eq!(array.missing(), [0]);
    let needed = array.fail(&members[1]).unwrap_err();
    assert_eq!(needed.kind(), ErrorKind::Member, "{needed}");
    array.close().unwrap();
    assert!(examined(&members[1]).contains("Array State : .AA"));

    let mut array = to_write(&created);
    assert!(array.is_degraded() && !array.warnings().is_empty());
    assert!(matches!(array.members()[0].freshness, Freshness::Stale { .. }));
    let came_back = array.add(&members[0], &NewDevices::new()).unwrap();
    assert!(!came_back, "there is no bitmap");
    let rebuilt = Rebuild::new().run(&mut array).unwrap();
    assert!(rebuilt.finished && rebuilt.bad_sectors == 0);
    assert!(array.missing().is_empty() && !array.needs_rebuild());
    array.close().unwrap();
    for member in &members {
        let said = examined(member);
        assert!(said.contains("Array State : AAA") && said.contains("State : clean"), "{said}");
    }
    for (role, examined) in (0..).zip(examine(&members).unwrap()) {
        let superblock = examined.superblock.unwrap().unwrap();
        assert_eq!(superblock.role, Role::Active(role));
        assert_eq!((superblock.level, superblock.array_state.as_str()), (5, "AAA"));
    }
}

#[test]
fn a_scrub_of_raid6_finds_and_repairs_the_member_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let members = members(dir.path(), 4);
    let created = made(Level::Raid6, &members);
    let data = Array::open(&created.target).unwrap().members()[2].data_offset.0 * 512;
    let file = std::fs::File::options().write(true).open(&members[2]).unwrap();
    file.write_all_at(b"not what it should be", data + 8192).unwrap();

    let found = Scrub::new().run(&mut Array::open(&created.target).unwrap()).unwrap();
    assert!(found.finished);
    assert_eq!((found.pages, found.repaired, found.mismatch_cnt), (1, 0, 8));
    let mut array = to_write(&created);
    let mut roles = Vec::new();
    let repaired = Scrub::new().repair(true).run_with(&mut array, |page| roles.push(page.role));
    assert_eq!(repaired.unwrap().repaired, 1);
    assert_eq!(roles, [Some(2)]);
    array.close().unwrap();
    let found = Scrub::new().run(&mut Array::open(&created.target).unwrap()).unwrap();
    assert_eq!(found.pages, 0);
    assert!(members.iter().all(|member| examined(member).contains("State : clean")));
}

#[test]
fn what_cannot_be_done_is_an_error_of_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let members = members(dir.path(), 2);
    let kind = |result: xfskit::Result<Array>| result.unwrap_err().kind();
    assert_eq!(kind(Array::open("disk.img")), ErrorKind::InvalidInput);
    assert_eq!(kind(Array::open(format!("md:{}", members[0].display()))), ErrorKind::NotFound);
    let created = made(Level::Raid0, &members);
    assert_eq!(created.size % 512, 0);
    let scrubbed = Scrub::new().run(&mut Array::open(&created.target).unwrap());
    assert_eq!(scrubbed.unwrap_err().kind(), ErrorKind::InvalidInput);
    let again = Create::new(Level::Raid1).create(&members);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let missing = Create::new(Level::Raid1).create([dir.path().join("x"), dir.path().join("y")]);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    let too_small = Create::new(Level::Raid1).devices(NewDevices::new().create(4096));
    let new = [dir.path().join("x"), dir.path().join("y")];
    assert_eq!(too_small.create(&new).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(!new[0].exists(), "the files that were made are gone");
}
