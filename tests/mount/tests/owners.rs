//! Other owners than those of the volume: a mount with a map is what an idmapped mount of Linux is.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::io::Errno;
use xfskit_test_mount::calls::Calls;
use xfskit_test_mount::pair::{Served, empty, possible, same_with};
use xfskit_test_mount::users::acting;
use xfskit_test_support::image::{Image, Mount, Scratch};
use xfskit_test_support::skip;

/// Root of the volume is user and group 1000.
const MAP: &str = "b:0:1000:1";

/// The access ACL as programs name it.
const ACL: &str = "system.posix_acl_access";
/// No id.
const NONE: u32 = u32::MAX;

/// Makes files of several owners with a mount by Linux.
fn filled<'scratch>(scratch: &'scratch Scratch, name: &str) -> Image<'scratch> {
    let image = empty(scratch, name, &[]);
    let mount = Mount::read_write(&image, scratch).expect("a mount by Linux");
    let root = mount.path();
    fs::set_permissions(root, Permissions::from_mode(0o777)).expect("permissions");
    for (name, uid, gid) in [
        ("root", 0, 0),
        ("other", 5, 5),
        ("group", 0, 5),
        ("same", 1000, 1000),
        ("none", 65534, 65534),
    ] {
        fs::write(root.join(name), "text").expect("a file");
        chown(root.join(name), Some(uid), Some(gid)).expect("an owner");
        fs::set_permissions(root.join(name), Permissions::from_mode(0o666)).expect("permissions");
    }
    fs::create_dir(root.join("dir")).expect("a directory");
    chown(root.join("dir"), Some(5), Some(5)).expect("an owner");
    fs::set_permissions(root.join("dir"), Permissions::from_mode(0o777)).expect("permissions");
    mount.unmount().expect("an unmount");
    image
}

/// Returns how a call ended.
fn shown<T>(result: std::io::Result<T>) -> String {
    let Err(error) = result else { return "done".into() };
    let name = match Errno::from_io_error(&error) {
        Some(Errno::ACCESS) => "EACCES",
        Some(Errno::PERM) => "EPERM",
        Some(Errno::INVAL) => "EINVAL",
        Some(Errno::OVERFLOW) => "EOVERFLOW",
        _ => return error.to_string(),
    };
    name.into()
}

fn to_write(path: &Path) -> std::io::Result<fs::File> {
    OpenOptions::new().write(true).open(path)
}

/// Uses the files as root, as user 1000, and as user 65534. Returns what each call did.
fn used(root: &Path) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    let mut call = |what: &str, result: String| calls.push((what.to_owned(), result));
    let at = |name: &str| root.join(name);
    for name in ["root", "other", "group", "same", "none", "dir"] {
        let metadata = fs::symlink_metadata(at(name)).expect("metadata");
        call(name, format!("{} {}", metadata.uid(), metadata.gid()));
    }
    // Making files takes a user and a group of the map, root's too.
    call("root makes", shown(fs::write(at("by-root"), "")));
    call("1000 makes", acting(1000, 1000, || shown(fs::write(at("file"), "text"))));
    call("1000 makes a directory", acting(1000, 1000, || shown(fs::create_dir(at("made")))));
    call("1000 makes a link", acting(1000, 1000, || shown(symlink("file", at("link")))));
    let fifo = || rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0);
    call("1000 makes a fifo", acting(1000, 1000, || shown(fifo().map_err(Into::into))));
    call("1000 with group 7 makes", acting(1000, 7, || shown(fs::write(at("by-7"), ""))));
    call("1000 makes in dir", acting(1000, 1000, || shown(fs::write(at("dir/file"), ""))));
    // A file with an owner outside of the map can be read, by permissions, and not changed.
    for name in ["root", "other", "group", "none"] {
        call(&format!("root writes {name}"), shown(to_write(&at(name))));
        let (path, nobody) = (at(name), at(name));
        call(&format!("1000 writes {name}"), acting(1000, 1000, || shown(to_write(&path))));
        call(&format!("nobody writes {name}"), acting(65534, 65534, || shown(to_write(&nobody))));
        call(&format!("nobody reads {name}"), acting(65534, 65534, || shown(fs::read(&nobody))));
        let private = Permissions::from_mode(0o640);
        call(
            &format!("root changes {name}"),
            shown(fs::set_permissions(at(name), private.clone())),
        );
        let changed = acting(65534, 65534, || shown(fs::set_permissions(&nobody, private)));
        call(&format!("nobody changes {name}"), changed);
    }
    call("root truncates other", shown(fs::write(at("other"), "")));
    call("root removes other", shown(fs::remove_file(at("other"))));
    call("1000 renames none", acting(1000, 1000, || shown(fs::rename(at("none"), at("new")))));
    // Owners are given by ids of the map.
    call("to 5", shown(chown(at("root"), Some(5), None)));
    call("to 0", shown(chown(at("root"), Some(0), None)));
    call("to group 5", shown(chown(at("root"), None, Some(5))));
    call("to 1000", shown(chown(at("root"), Some(1000), Some(1000))));
    call("the user of other", shown(chown(at("other"), Some(1000), None)));
    call("user and group of other", shown(chown(at("other"), Some(1000), Some(1000))));
    // Only root sees and sets trusted attributes, whatever its id is in the volume.
    let set = |path: &Path, name| rustix::fs::setxattr(path, name, b"v", XattrFlags::empty());
    let tried = |path: PathBuf, name| shown(set(&path, name).map_err(Into::into));
    call("1000 sets trusted.a", acting(1000, 1000, || tried(at("file"), "trusted.a")));
    call("1000 sets user.a", acting(1000, 1000, || tried(at("file"), "user.a")));
    call("root sets user.a of none", tried(at("none"), "user.a"));
    call("root sets trusted.a", tried(at("file"), "trusted.a"));
    let named = |uid: u32| [(1, 6, NONE), (2, 4, uid), (4, 4, NONE), (16, 4, NONE), (32, 4, NONE)];
    let acl = |name, uid| {
        let set = rustix::fs::setxattr(at(name), ACL, &acl(&named(uid)), XattrFlags::empty());
        shown(set.map_err(Into::into))
    };
    call("an ACL with 5", acl("file", 5));
    call("an ACL with 0", acl("file", 0));
    call("an ACL with 1000", acl("file", 1000));
    call("an ACL of group", acl("group", 1000));
    calls
}

/// Returns an ACL with these tags, permissions and ids.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut acl = vec![2, 0, 0, 0];
    for (tag, perm, id) in entries {
        acl.extend([tag.to_le_bytes(), perm.to_le_bytes()].as_flattened());
        acl.extend(id.to_le_bytes());
    }
    acl
}

/// What Linux 6.18 does on an idmapped mount of XFS with that map, where it is not "done".
const LINUX: &[(&str, &str)] = &[
    ("root", "1000 1000"),
    ("other", "65534 65534"),
    ("group", "1000 65534"),
    ("same", "65534 65534"),
    ("none", "65534 65534"),
    ("dir", "65534 65534"),
    ("root makes", "EOVERFLOW"),
    ("1000 with group 7 makes", "EOVERFLOW"),
    ("1000 makes in dir", "EACCES"),
    ("nobody changes root", "EPERM"),
    ("root writes other", "EACCES"),
    ("1000 writes other", "EACCES"),
    ("nobody writes other", "EACCES"),
    ("root changes other", "EOVERFLOW"),
    ("nobody changes other", "EOVERFLOW"),
    ("root writes group", "EACCES"),
    ("1000 writes group", "EACCES"),
    ("nobody writes group", "EACCES"),
    ("root changes group", "EOVERFLOW"),
    ("nobody changes group", "EOVERFLOW"),
    ("root writes none", "EACCES"),
    ("1000 writes none", "EACCES"),
    ("nobody writes none", "EACCES"),
    ("root changes none", "EOVERFLOW"),
    ("nobody changes none", "EOVERFLOW"),
    ("root truncates other", "EACCES"),
    ("root removes other", "EOVERFLOW"),
    ("1000 renames none", "EOVERFLOW"),
    ("to 5", "EOVERFLOW"),
    ("to 0", "EOVERFLOW"),
    ("to group 5", "EOVERFLOW"),
    ("the user of other", "EOVERFLOW"),
    ("1000 sets trusted.a", "EPERM"),
    ("root sets user.a of none", "EPERM"),
    ("an ACL with 5", "EINVAL"),
    ("an ACL with 0", "EINVAL"),
    ("an ACL of group", "EPERM"),
];

fn compare(calls: &[(String, String)]) {
    for (what, did) in calls {
        let expected = LINUX.iter().find(|(name, _)| name == what).map_or("done", |(_, did)| did);
        assert_eq!((what.as_str(), did.as_str()), (what.as_str(), expected));
    }
}

#[test]
fn a_map_does_what_an_idmapped_mount_of_linux_does() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-owners");
    let served =
        Served::new(filled(&scratch, "ours.img"), &scratch, &format!("allow_other,idmap={MAP}"));
    compare(&used(served.path()));
    let image = served.end();
    let mount = Mount::read_only(&image, &scratch).expect("a mount by Linux");
    for name in ["root", "file", "made", "link", "fifo", "other"] {
        let metadata = fs::symlink_metadata(mount.path().join(name)).expect("metadata");
        assert_eq!((name, metadata.uid(), metadata.gid()), (name, 0, 0));
    }
    let mut value = [0; 64];
    let len = rustix::fs::getxattr(mount.path().join("file"), ACL, &mut value).expect("an ACL");
    let expected = [(1, 6, NONE), (2, 4, 0), (4, 4, NONE), (16, 4, NONE), (32, 4, NONE)];
    assert_eq!(value[..len], acl(&expected));
    mount.unmount().expect("an unmount");
}

#[test]
fn random_system_calls_do_the_same_where_owners_are_mapped_both_ways() {
    if !possible() {
        return;
    }
    let swapped = ["0:0:1", "1:4:1", "2:3:1", "3:2:1", "4:1:1", "5:5:4294967290"];
    let map = swapped.map(|range| format!("idmap={range}")).join(",");
    same_with(&[], &format!("allow_other,dev,suid,{map}"), |root| {
        Calls::new(root, 7).make(7, 4000)
    });
}

/// Needs a mount(8) that makes idmapped mounts (util-linux 2.39).
#[test]
fn an_idmapped_mount_of_linux_does_what_the_table_says() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-owners-linux");
    let image = filled(&scratch, "linux.img");
    let mount = Mount::read_write(&image, &scratch).expect("a mount by Linux");
    let dir = scratch.path().join("mapped");
    fs::create_dir(&dir).expect("a directory");
    let mut command = std::process::Command::new("mount");
    command.args(["--bind", "-o", &format!("X-mount.idmap={MAP}")]).arg(mount.path()).arg(&dir);
    let done = command.status().is_ok_and(|status| status.success());
    if !done || fs::metadata(&dir).expect("metadata").uid() != 1000 {
        let _ = rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::empty());
        skip::note("mount(8) makes no idmapped mounts");
        return;
    }
    let calls = used(&dir);
    rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::empty()).expect("an unmount");
    compare(&calls);
    mount.unmount().expect("an unmount");
}

#[test]
fn entries_of_an_acl_that_a_map_hides_stay() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-owners-acl");
    let image = filled(&scratch, "ours.img");
    let before = [(1, 6, NONE), (2, 4, 0), (2, 6, 5), (4, 4, NONE), (16, 6, NONE), (32, 4, NONE)];
    let mount = Mount::read_write(&image, &scratch).expect("a mount by Linux");
    let file = mount.path().join("root");
    rustix::fs::setxattr(&file, ACL, &acl(&before), XattrFlags::empty()).expect("an ACL");
    mount.unmount().expect("an unmount");
    let served = Served::new(image, &scratch, &format!("allow_other,idmap={MAP}"));
    let file = served.path().join("root");
    let mut value = [0; 64];
    let len = rustix::fs::getxattr(&file, ACL, &mut value).expect("an ACL");
    let hidden = [(1, 6, NONE), (2, 4, 1000), (4, 4, NONE), (16, 6, NONE), (32, 4, NONE)];
    assert_eq!(value[..len], acl(&hidden));
    let set = [(1, 6, NONE), (2, 7, 1000), (4, 4, NONE), (16, 7, NONE), (32, 4, NONE)];
    rustix::fs::setxattr(&file, ACL, &acl(&set), XattrFlags::empty()).expect("an ACL");
    let image = served.end();
    let mount = Mount::read_only(&image, &scratch).expect("a mount by Linux");
    let len = rustix::fs::getxattr(mount.path().join("root"), ACL, &mut value).expect("an ACL");
    let after = [(1, 6, NONE), (2, 7, 0), (2, 6, 5), (4, 4, NONE), (16, 7, NONE), (32, 4, NONE)];
    assert_eq!(value[..len], acl(&after));
    mount.unmount().expect("an unmount");
}

#[test]
fn a_program_of_root_in_the_volume_gets_no_capabilities_here() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-owners-caps");
    let image = filled(&scratch, "ours.img");
    // Version 2 of the capability of binding low ports: for root of the volume.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mount = Mount::read_write(&image, &scratch).expect("a mount by Linux");
    let (file, name) = (mount.path().join("root"), "security.capability");
    rustix::fs::setxattr(&file, name, &capability, XattrFlags::empty()).expect("set");
    mount.unmount().expect("an unmount");
    let served = Served::new(image, &scratch, &format!("allow_other,suid,idmap={MAP}"));
    let mut value = [0; 64];
    let len = rustix::fs::getxattr(served.path().join("root"), name, &mut value).expect("a value");
    assert_eq!((len, value[3], &value[20..24]), (24, 3, &1000_u32.to_le_bytes()[..]));
    served.end();
}
