//! Arrays: made, managed and compared. mdadm reads what they are then.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::array::{examined, members};
use xfskit::ErrorKind;
use xfskit::md::{
    Array, ArrayOptions, BitmapOption, Create, Created, Freshness, Level, NewDevices, Rebuild,
    Role, Scrub, examine,
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

/// Verifies that `array` is as it is when its members are assembled anew.
fn is_current(array: &Array) {
    let members = |array: &Array| {
        let mut all: Vec<_> = array.members().iter().map(|member| format!("{member:?}")).collect();
        all.sort();
        all
    };
    let names: Vec<_> = array.members().into_iter().map(|member| member.name).collect();
    let anew = Array::open(format!("md:{}", names.join(","))).unwrap();
    assert_eq!(members(array), members(&anew));
    assert_eq!((array.state(), array.events()), (anew.state(), anew.events()));
    assert_eq!((array.missing(), array.needs_rebuild()), (anew.missing(), anew.needs_rebuild()));
    assert_eq!((array.is_degraded(), array.warnings()), (anew.is_degraded(), anew.warnings()));
}

fn freshness(array: &Array, member: &Path) -> Freshness {
    let name = member.display().to_string();
    array.members().into_iter().find(|member| member.name == name).unwrap().freshness
}

#[test]
fn members_are_those_of_now_after_every_change() {
    let dir = tempfile::tempdir().unwrap();
    let paths = members(dir.path(), 4);
    let [first, second, _, fourth] = &paths[..] else { unreachable!("four members") };
    let created = made(Level::Raid5, &paths[..3]);
    let mut array = to_write(&created);
    array.fail(first).unwrap();
    assert!(matches!(freshness(&array, first), Freshness::Stale { .. }));
    is_current(&array);
    assert_eq!(array.fail(first).unwrap_err().kind(), ErrorKind::Member, "it has failed already");
    array.remove(first).unwrap();
    assert_eq!(array.members().len(), 2);
    is_current(&array);

    assert!(!array.add(first, &NewDevices::new().force(true)).unwrap());
    assert_eq!(freshness(&array, first), Freshness::Spare);
    is_current(&array);
    assert_eq!(array.activate_spares().unwrap().len(), 1);
    assert!(matches!(freshness(&array, first), Freshness::Rebuilding { role: 0, .. }));
    is_current(&array);
    Rebuild::new().run(&mut array).unwrap();
    assert_eq!(freshness(&array, first), Freshness::InSync { role: 0 });
    is_current(&array);

    array.add(fourth, &NewDevices::new().create(MEMBER)).unwrap();
    array.replace(second, None).unwrap();
    assert_eq!(freshness(&array, fourth), Freshness::Replacement { role: 1 });
    is_current(&array);
    Rebuild::new().run(&mut array).unwrap();
    assert_eq!(freshness(&array, fourth), Freshness::InSync { role: 1 });
    assert!(matches!(freshness(&array, second), Freshness::Faulty | Freshness::Stale { .. }));
    is_current(&array);
    array.remove(second).unwrap();

    // A spare takes the role of a member that fails.
    array.add(second, &NewDevices::new().force(true)).unwrap();
    array.fail(first).unwrap();
    assert!(matches!(freshness(&array, second), Freshness::Rebuilding { role: 0, .. }));
    is_current(&array);
    Rebuild::new().run(&mut array).unwrap();
    array.mark_clean().unwrap();
    is_current(&array);
    array.close().unwrap();
    for member in &paths[1..] {
        let found = examined(member);
        assert!(found.contains("Array State : AAA "), "{found}");
        assert!(found.contains("State : clean"), "{found}");
    }
}

#[test]
fn a_member_that_comes_back_by_the_bitmap_is_current_in_the_same_array() {
    let dir = tempfile::tempdir().unwrap();
    let paths = members(dir.path(), 2);
    let devices = NewDevices::new().create(MEMBER);
    let create = Create::new(Level::Raid1).assume_clean(true).devices(devices);
    let created = create.bitmap(BitmapOption::Internal(None)).create(&paths).unwrap();
    let mut array = to_write(&created);
    array.fail(&paths[1]).unwrap();
    is_current(&array);
    assert!(array.add(&paths[1], &NewDevices::new()).unwrap(), "it comes back");
    assert!(matches!(freshness(&array, &paths[1]), Freshness::Rebuilding { role: 1, .. }));
    is_current(&array);
    Rebuild::new().run(&mut array).unwrap();
    assert_eq!(freshness(&array, &paths[1]), Freshness::InSync { role: 1 });
    is_current(&array);
    array.close().unwrap();
    for member in &paths {
        assert!(examined(member).contains("Array State : AA "), "{}", member.display());
    }
}

#[test]
fn a_member_that_fails_in_an_array_open_for_reading_is_out_of_that_array_only() {
    let dir = tempfile::tempdir().unwrap();
    let paths = members(dir.path(), 3);
    let created = made(Level::Raid5, &paths);
    let mut array = Array::open(&created.target).unwrap();
    array.fail(&paths[0]).unwrap();
    assert_eq!(freshness(&array, &paths[0]), Freshness::Faulty);
    assert_eq!((array.missing(), array.is_degraded()), (vec![0], true));
    assert!(Array::open(&created.target).unwrap().missing().is_empty());
    assert!(paths.iter().all(|member| examined(member).contains("Array State : AAA ")));
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
