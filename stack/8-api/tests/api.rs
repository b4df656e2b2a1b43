//! Paths: what the kernel wrote is read, and what std::fs does is done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{kept, made, reopened};
use xfskit::raw::core::uuid::NewUuid;
use xfskit::raw::units::{ByteLen, Uuid};
use xfskit::raw::vfs::{NewNode, SetMode};
use xfskit::raw::{VolumeExt as _, VolumeOptionsExt as _};
use xfskit::{
    Acl, AclEntry, AclTag, ErrorKind, FileTimes, FileType, Permissions, RenameMode, SetXattrMode,
    Volume, VolumeOptions,
};
use xfskit_test_support::verify;

fn kind<T: std::fmt::Debug>(result: xfskit::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_volume_is_read_by_paths() {
    let (_dir, volume) = kept();
    assert_eq!(volume.read("/sf/a").unwrap(), b"hello\n");
    assert_eq!(volume.read_to_string("sf/a").unwrap(), "hello\n");
    assert_eq!(volume.read_dir("/leaf").unwrap().map(Result::unwrap).count(), 200);
    assert!(volume.symlink_metadata("/symlink").unwrap().is_symlink());
    assert_eq!(volume.read_link("/symlink").unwrap(), Path::new("short"));
    assert_eq!(volume.list_xattrs("/attr-node").unwrap().map(Result::unwrap).count(), 300);
    assert_eq!(volume.get_xattr("/attr-sf", "user.k").unwrap().unwrap(), b"v");
    assert_eq!(volume.get_xattr("/attr-sf", "user.none").unwrap(), None);
    assert!(volume.walk_dir("/").unwrap().all(|entry| entry.is_ok()));
    let device = volume.symlink_metadata("/char").unwrap();
    assert_eq!((device.file_type(), device.rdev()), (FileType::CharDevice, Some((5, 300))));
    assert_eq!(volume.metadata("/block").unwrap().uid(), 1000);
}

#[test]
fn paths_mean_what_they_mean_to_the_kernel() {
    let (_dir, volume) = kept();
    let ino = |path: &str| volume.metadata(path).map(|metadata| metadata.ino());
    let same = ["//sf//a", "/sf/./a", "/sf/../sf/a", "/../../sf/a", "/node/../sf/a", "sf/a"];
    for path in same {
        assert_eq!(ino(path).unwrap(), ino("/sf/a").unwrap(), "{path}");
        assert_eq!(volume.canonicalize(path).unwrap(), Path::new("/sf/a"), "{path}");
    }
    let failed = |path: &str| {
        let error = ino(path).unwrap_err();
        (error.errno(), error.kind())
    };
    assert_eq!(failed("/symlink"), (2, ErrorKind::NotFound), "it leads nowhere");
    assert_eq!(failed("/sf/a/.."), (20, ErrorKind::NotADirectory));
    assert_eq!(failed("/sf/a/"), (20, ErrorKind::NotADirectory));
    assert_eq!(failed(&format!("/{}", "n".repeat(256))), (36, ErrorKind::InvalidFilename));
    assert_eq!(failed(""), (2, ErrorKind::NotFound));
    assert!(volume.exists("/sf/a") && !volume.exists("/symlink"));
    assert!(volume.try_exists("/sf/a").unwrap() && !volume.try_exists("/sf/none").unwrap());
}

#[test]
fn a_volume_that_is_open_for_reading_refuses_every_change() {
    let (_dir, volume) = kept();
    let refusals = [
        volume.write("/sf/a", "x"),
        volume.create("/sf/a").map(drop),
        volume.create_dir("/d"),
        volume.mknod("/n", 0o010_600, None),
        volume.symlink("a", "/l"),
        volume.hard_link("/sf/a", "/l"),
        volume.rename("/sf/a", "/b"),
        volume.remove_file("/sf/a"),
        volume.remove_dir("/sf"),
        volume.remove_dir_all("/sf"),
        volume.set_permissions("/sf/a", Permissions::from_mode(0o600)),
        volume.chown("/sf/a", Some(1), None),
        volume.set_times("/sf/a", FileTimes::new().set_modified(UNIX_EPOCH)),
        volume.set_xattr("/sf/a", "user.k", "v"),
        volume.remove_xattr("/attr-sf", "user.k"),
        volume.open_file("/sf/a").unwrap().set_permissions(Permissions::from_mode(0o600)),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        let error = refusal.unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::ReadOnly, 30), "{n}: {error}");
    }
    volume.close().unwrap();
}

#[test]
fn paths_are_created_written_linked_renamed_and_removed() {
    let (device, volume) = made();
    volume.create_dir_all("/a/b//c/").unwrap();
    volume.create_dir_all("a/b").unwrap();
    volume.write("/a/f", vec![7; 100_000]).unwrap();
    volume.write("/a/f", "short").unwrap();
    assert_eq!(kind(volume.write("/a/b", "x")), ErrorKind::IsADirectory);
    assert_eq!(kind(volume.write("/none/f", "x")), ErrorKind::NotFound);
    assert_eq!(kind(volume.create_dir("/a")), ErrorKind::AlreadyExists);
    assert_eq!(kind(volume.create_dir_all("/a/f/g")), ErrorKind::NotADirectory);
    volume.hard_link("/a/f", "/a/b/g").unwrap();
    volume.write("/h", "other").unwrap();
    let kept = volume.rename_with("/h", "/a/f", RenameMode::NoReplace);
    assert_eq!(kind(kept), ErrorKind::AlreadyExists);
    volume.rename_with("/h", "/a/f", RenameMode::Exchange).unwrap();
    assert_eq!(volume.read("/h").unwrap(), b"short");
    volume.rename("/h", "/a/f").unwrap();
    volume.remove_dir("/a/b/c").unwrap();
    assert_eq!(kind(volume.remove_dir("/a/b")), ErrorKind::DirectoryNotEmpty);
    volume.symlink("b/g", "/a/link").unwrap();
    volume.symlink("nowhere", "/a/dangling").unwrap();
    assert_eq!(volume.canonicalize("/a/link").unwrap(), Path::new("/a/b/g"));
    // Bytes that are no UTF-8 are a name like any other.
    let odd = Path::new(OsStr::from_bytes(b"/a/\xff\xfe"));
    volume.write(odd, "odd").unwrap();
    volume.mknod("/a/null", 0o020_666, Some((1, 3))).unwrap();
    volume.close().unwrap();
    let volume = reopened(&device);
    assert_eq!(volume.read("/a/b/g").unwrap(), b"short");
    assert_eq!(volume.metadata("/a/f").unwrap().nlink(), 2);
    assert_eq!(volume.read(odd).unwrap(), b"odd");
    assert_eq!(volume.metadata("/a/null").unwrap().rdev(), Some((1, 3)));
    let names: Vec<PathBuf> =
        volume.read_dir("/a").unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(names.contains(&odd.to_owned()), "{names:?}");
}

#[test]
fn a_tree_is_removed_with_everything_below_it_and_links_are_not_followed() {
    let (device, volume) = made();
    volume.create_dir_all("/kept").unwrap();
    volume.write("/kept/f", "x").unwrap();
    for n in 0..40 {
        volume.create_dir_all(format!("/t/{n}/deep/er")).unwrap();
        for m in 0..60 {
            volume.write(format!("/t/{n}/{m}"), "content").unwrap();
        }
    }
    for n in 0..2500 {
        volume.write(format!("/t/{n:08}"), "").unwrap();
    }
    volume.symlink("/kept", "/t/link").unwrap();
    let open = volume.open_file("/t/7/7").unwrap();
    assert_eq!(kind(volume.remove_dir_all("/t/7/7")), ErrorKind::NotADirectory);
    assert_eq!(kind(volume.remove_dir_all("/t/link")), ErrorKind::NotADirectory);
    volume.remove_dir_all("/t").unwrap();
    assert!(!volume.exists("/t") && volume.exists("/kept/f"));
    let mut buf = [0; 8];
    assert_eq!(open.read_at(&mut buf, 0).unwrap(), 7, "it outlives its name");
    drop(open);
    volume.close().unwrap();
    assert_eq!(reopened(&device).walk_dir("/").unwrap().count(), 3);
}

#[test]
fn a_copy_shares_the_blocks_and_has_the_content_and_the_permissions() {
    let (device, volume) = made();
    let content: Vec<u8> = (0..1_000_001_u32).map(|n| (n % 251) as u8).collect();
    volume.write("/f", &content).unwrap();
    volume.set_permissions("/f", Permissions::from_mode(0o4751)).unwrap();
    volume.write("/larger", vec![1; 2_000_000]).unwrap();
    volume.sync().unwrap();
    let free = volume.statfs().unwrap().blocks_free;
    assert_eq!(volume.copy("/f", "/g").unwrap(), content.len() as u64);
    assert!(free - volume.statfs().unwrap().blocks_free < 10, "the blocks are shared");
    volume.copy("/f", "/larger").unwrap();
    assert_eq!(kind(volume.copy("/f", "/f")), ErrorKind::InvalidInput);
    volume.close().unwrap();
    let volume = reopened(&device);
    for path in ["/f", "/g", "/larger"] {
        assert!(volume.read(path).unwrap() == content, "{path}");
        assert_eq!(volume.metadata(path).unwrap().permissions().mode(), 0o4751, "{path}");
    }
}

#[test]
fn owners_times_and_attributes_are_set_with_and_without_following_links() {
    let (device, volume) = made();
    volume.write("/f", "x").unwrap();
    volume.symlink("f", "/l").unwrap();
    let time = |secs| UNIX_EPOCH + Duration::new(secs, 123_456_789);
    let before = UNIX_EPOCH - Duration::new(1000, 250);
    volume.chown("/l", Some(7), None).unwrap();
    volume.lchown("/l", None, Some(8)).unwrap();
    volume.set_times("/l", FileTimes::new().set_modified(time(5)).set_accessed(before)).unwrap();
    volume.set_times_nofollow("/l", FileTimes::new().set_modified(time(6))).unwrap();
    volume.set_xattr("/l", "user.k", "v").unwrap();
    volume.set_xattr_nofollow("/l", "trusted.k", "of the link").unwrap();
    let again = volume.set_xattr_with("/l", "user.k", "w", SetXattrMode::Create);
    assert_eq!(kind(again), ErrorKind::AlreadyExists);
    let missing = volume.set_xattr_with("/l", "user.x", "w", SetXattrMode::Replace);
    assert_eq!(kind(missing), ErrorKind::NoAttribute);
    assert_eq!(kind(volume.set_xattr("/f", "nonsense", "v")), ErrorKind::Unsupported);
    volume.close().unwrap();
    let volume = reopened(&device);
    let (file, link) = (volume.metadata("/l").unwrap(), volume.symlink_metadata("/l").unwrap());
    assert_eq!((file.uid(), file.gid(), link.uid(), link.gid()), (7, 0, 0, 8));
    assert_eq!((file.modified(), file.accessed()), (time(5), before));
    assert_eq!(link.modified(), time(6));
    let names = |xattrs: xfskit::Xattrs| -> Vec<_> {
        xattrs.map(|xattr| xattr.unwrap().name().to_owned()).collect()
    };
    assert_eq!(names(volume.list_xattrs("/l").unwrap()), ["user.k"]);
    assert_eq!(names(volume.list_xattrs_nofollow("/l").unwrap()), ["trusted.k"]);
    let of_link = volume.get_xattr_nofollow("/l", "trusted.k").unwrap();
    assert_eq!(of_link.unwrap(), b"of the link");
    volume.remove_xattr("/l", "user.k").unwrap();
    assert_eq!(kind(volume.remove_xattr("/f", "user.k")), ErrorKind::NoAttribute);
    volume.remove_xattr_nofollow("/l", "trusted.k").unwrap();
}

#[test]
fn acls_are_typed_and_the_permissions_follow_them() {
    let (_device, volume) = made();
    volume.create_dir("/d").unwrap();
    let entry = |tag, perm| AclEntry { tag, perm };
    let acl = Acl::new([
        entry(AclTag::Other, 0),
        entry(AclTag::Mask, 7),
        entry(AclTag::User(1000), 5),
        entry(AclTag::UserObj, 7),
        entry(AclTag::GroupObj, 4),
    ]);
    volume.set_default_acl("/d", Some(&acl)).unwrap();
    volume.create_dir("/d/e").unwrap();
    assert_eq!(volume.default_acl("/d/e").unwrap().as_ref(), Some(&acl));
    let inherited = volume.acl("/d/e").unwrap().unwrap();
    assert_eq!(inherited.entries()[1], entry(AclTag::User(1000), 5));
    volume.write("/f", "x").unwrap();
    assert_eq!(volume.acl("/f").unwrap(), None);
    volume.set_acl("/f", Some(&acl)).unwrap();
    assert_eq!(volume.acl("/f").unwrap().unwrap(), acl);
    assert_eq!(volume.metadata("/f").unwrap().permissions().mode(), 0o770);
    let incomplete = Acl::new([entry(AclTag::User(1), 4)]);
    assert_eq!(kind(volume.set_acl("/f", Some(&incomplete))), ErrorKind::InvalidInput);
    volume.set_acl("/f", None).unwrap();
    assert_eq!(volume.acl("/f").unwrap(), None);
    assert_eq!(kind(volume.set_default_acl("/f", Some(&acl))), ErrorKind::InvalidInput);
}

#[test]
fn threads_share_a_volume_and_cookies_outlive_changes() {
    let (device, volume) = made();
    let root = xfskit::raw::units::Ino(volume.metadata("/").unwrap().ino());
    let workers = (0..4).map(|worker| {
        let volume = volume.clone();
        std::thread::spawn(move || {
            for n in 0..250 {
                volume.write(format!("/{worker}-{n}"), [worker; 100]).unwrap();
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.join().unwrap();
    }
    let fs = volume.fs();
    let unnamed = fs.make_unnamed(root, &NewNode::file(0o600)).unwrap();
    fs.set_xattr(unnamed.ino(), b"user.k", b"v", SetMode::Create).unwrap();
    let dir = fs.inode(root).unwrap();
    let (mut cookie, mut names) = (Some(0), std::collections::BTreeSet::new());
    while let Some(from) = cookie {
        let portion = fs.read_dir_from(&dir, from, 7);
        for entry in portion.entries {
            volume.remove_file(OsStr::from_bytes(&entry.name)).unwrap();
            assert!(names.insert(entry.name), "no name twice");
        }
        cookie = portion.next;
    }
    assert_eq!(names.len(), 1000, "and none left out");
    volume.sync().unwrap();
    drop(unnamed);
    volume.close().unwrap();
    assert!(reopened(&device).read_dir("/").unwrap().next().is_none());
}

#[test]
fn a_volume_gets_another_uuid_and_its_own_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.img");
    let device = xfskit::raw::block::FileDevice::create(&path, ByteLen(300 << 20)).unwrap();
    let volume =
        xfskit::raw::make(Arc::new(device), &xfskit::raw::mkfs::Options::default()).unwrap();
    volume.write("/f", "content").unwrap();
    let original = volume.fs().volume().geo().uuid;
    volume.close().unwrap();
    let set = |uuid| VolumeOptions::new().set_uuid(&path, uuid).unwrap();
    for uuid in [Uuid::new_v4(), Uuid::nil(), Uuid::new_v4()] {
        assert_eq!(set(NewUuid::Is(uuid)), (uuid, original));
        let volume = VolumeOptions::new().write(true).open(&path).unwrap();
        let geo = volume.fs().volume().geo();
        assert_eq!((geo.uuid, geo.meta_uuid), (uuid, original));
        volume.write(format!("/{uuid}"), "more").unwrap();
        volume.close().unwrap();
    }
    assert_eq!(set(NewUuid::Original), (original, original));
    let volume = Volume::open(&path).unwrap();
    assert!(!volume.fs().volume().geo().features.meta_uuid());
    assert_eq!(volume.read("/f").unwrap(), b"content");
    verify::device(&**volume.fs().volume().device()).unwrap();
}

#[test]
fn damage_in_a_directory_is_an_item_and_the_rest_is_listed() {
    let (device, volume) = made();
    volume.create_dir("/d").unwrap();
    for n in 0..1000 {
        volume.write(format!("/d/{n:0100}"), "").unwrap();
    }
    volume.close().unwrap();
    let open = || VolumeOptions::new().open_device(Arc::clone(&device), None).unwrap();
    let volume = open();
    let fs = volume.fs();
    let dir = fs.inode(xfskit::raw::units::Ino(volume.metadata("/d").unwrap().ino())).unwrap();
    let extents = fs.volume().extents(&dir, xfskit::raw::format::Fork::Data).unwrap();
    let block = fs.volume().geo().fsb_to_byte(extents.as_slice()[0].startblock).unwrap();
    device.write_at(block, &[0; 4096]).unwrap();
    let volume = open();
    let (names, damage): (Vec<_>, Vec<_>) = volume.read_dir("/d").unwrap().partition(Result::is_ok);
    assert!((900..1000).contains(&names.len()), "{} names", names.len());
    let damage: Vec<_> = damage.into_iter().map(Result::unwrap_err).collect();
    assert!(!damage.is_empty());
    for error in damage {
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Corrupt, 117), "{error}");
        assert_eq!(error.path(), Some(Path::new("/d")));
        assert!(error.corruption().is_some_and(|found| found.at.ino == Some(dir.ino())), "{error}");
    }
    let walked = volume.walk_dir("/").unwrap();
    let (files, damage): (Vec<_>, Vec<_>) = walked.partition(Result::is_ok);
    assert_eq!(files.len(), names.len() + 2);
    assert!(!damage.is_empty());
}

#[test]
fn an_entry_of_a_walk_changes_the_file_that_was_found_and_no_other() {
    let (device, volume) = made();
    volume.write("/stays", b"a").unwrap();
    volume.write("/goes", b"b").unwrap();
    let found: Vec<_> = volume.walk_dir("/").unwrap().map(Result::unwrap).collect();
    let entry = |name: &str| found.iter().find(|entry| entry.file_name() == name).unwrap();
    volume.rename("/stays", "/renamed").unwrap();
    volume.remove_file("/goes").unwrap();
    volume.write("/new", b"c").unwrap();
    let new = volume.metadata("/new").unwrap();
    assert_eq!(new.ino(), entry("goes").metadata().ino(), "the number is another file's");

    entry("stays").set_permissions(Permissions::from_mode(0o640)).unwrap();
    entry("stays").chown(Some(7), None).unwrap();
    let renamed = volume.metadata("/renamed").unwrap();
    assert_eq!((renamed.permissions().mode() & 0o7777, renamed.uid()), (0o640, 7));
    let goes = entry("goes");
    assert_eq!(kind(goes.set_permissions(Permissions::from_mode(0))), ErrorKind::StaleHandle);
    assert_eq!(kind(goes.chown(Some(7), None)), ErrorKind::StaleHandle);
    let after = volume.metadata("/new").unwrap();
    assert_eq!((after.permissions(), after.uid()), (new.permissions(), new.uid()));
    volume.close().unwrap();
    reopened(&device);
}
