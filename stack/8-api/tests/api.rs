//! The facade on a volume that the kernel filled.

use std::path::Path;
use std::sync::Arc;

use xfskit::block::{BlockDevice, MemDevice};
use xfskit::core::uuid::NewUuid;
use xfskit::units::{ByteLen, Uuid};
use xfskit::vfs::{FileType, Follow, NewNode, RenameMode, Seek, SetMode};
use xfskit_test_oracle::verify;

fn volume() -> (tempfile::TempDir, xfskit::Volume) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/images/v5.img.zst");
    let bytes = zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v5.img");
    std::fs::write(&path, bytes).unwrap();
    let volume = xfskit::open(path.to_str().unwrap()).unwrap();
    (dir, volume)
}

#[test]
fn a_volume_is_read_by_paths() {
    let (_dir, volume) = volume();
    assert_eq!(volume.read("/sf/a").unwrap(), b"hello\n");
    assert_eq!(volume.read_dir("/leaf").unwrap().len(), 200);
    assert_eq!(volume.stat("/symlink").unwrap().file_type, FileType::Symlink);
    assert_eq!(volume.read_link("/symlink").unwrap(), b"short");
    assert_eq!(volume.xattrs("/attr-node").unwrap().len(), 300);
    assert!(volume.walk("/").unwrap().all(|step| step.is_ok()));
}

#[test]
fn paths_mean_what_they_mean_to_the_kernel() {
    let (_dir, volume) = volume();
    let ino = |path: &str| volume.fs().resolve(path.as_bytes(), Follow::Yes).map(|i| i.ino());
    for same in ["//sf//a", "/sf/./a", "/sf/../sf/a", "/../../sf/a", "/node/../sf/a"] {
        assert_eq!(ino(same).unwrap(), ino("/sf/a").unwrap(), "{same}");
    }
    let errno = |path: &str| ino(path).unwrap_err().errno();
    assert_eq!(errno("/symlink"), 2, "it leads nowhere: ENOENT");
    assert_eq!(errno("/sf/a/.."), 20, "ENOTDIR");
    assert_eq!(errno("/sf/a/"), 20, "ENOTDIR");
    assert_eq!(errno(&format!("/{}", "n".repeat(256))), 36, "ENAMETOOLONG");
    assert_eq!(errno("sf"), 22, "EINVAL");
}

fn made() -> (Arc<dyn BlockDevice>, xfskit::Volume) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(300 << 20)));
    let mut options = xfskit::mkfs::Options::default();
    options.sub("-i", "exchange=1").unwrap();
    let volume = xfskit::make(Arc::clone(&device), &options).unwrap();
    (device, volume)
}

fn reopened(device: &Arc<dyn BlockDevice>) -> xfskit::Volume {
    let options = xfskit::OpenOptions { write: true, ..xfskit::OpenOptions::default() };
    verify::device(&**device).unwrap();
    options.open_device(Arc::clone(device), None).unwrap()
}

#[test]
fn paths_are_made_written_linked_renamed_and_removed() {
    let (device, volume) = made();
    volume.make_dirs("/a/b//c/").unwrap();
    volume.make_dirs("/a/b").unwrap();
    volume.write("/a/f", &vec![7; 100_000]).unwrap();
    volume.write("/a/f", b"short").unwrap();
    assert!(volume.write("/a/b", b"x").is_err() && volume.write("/none/f", b"x").is_err());
    assert!(volume.make_dirs("/a/f/g").is_err());
    volume.link("/a/f", "/a/b/g").unwrap();
    volume.write("/h", b"other").unwrap();
    assert!(volume.rename_as("/h", "/a/f", RenameMode::NoReplace).is_err());
    volume.rename_as("/h", "/a/f", RenameMode::Exchange).unwrap();
    assert_eq!(volume.read("/h").unwrap(), b"short");
    volume.rename("/h", "/a/f").unwrap();
    volume.remove("/a/b/c").unwrap();
    assert!(volume.remove("/a/b").is_err());
    volume.close().unwrap();
    let volume = reopened(&device);
    assert_eq!(volume.read("/a/b/g").unwrap(), b"short");
    assert_eq!(volume.stat("/a/f").unwrap().nlink, 2);
}

#[test]
fn content_is_shaped_shared_and_exchanged_through_handles() {
    const BLOCK: u64 = 4096;
    let (device, volume) = made();
    volume.write("/f", &[1; 3 * 4096]).unwrap();
    volume.write("/g", &[2; 3 * 4096]).unwrap();
    let (f, g) = (volume.file("/f").unwrap(), volume.file("/g").unwrap());
    f.write(BLOCK, &[3; 10]).unwrap();
    f.insert(0..BLOCK).unwrap();
    assert_eq!(f.seek(0, Seek::Data).unwrap(), Some(BLOCK));
    f.collapse(0..BLOCK).unwrap();
    f.punch(2 * BLOCK..3 * BLOCK).unwrap();
    f.zero(0..10, false).unwrap();
    f.preallocate(8 * BLOCK..9 * BLOCK, true).unwrap();
    g.share(0, &f, 0..BLOCK).unwrap();
    g.unshare(0..BLOCK).unwrap();
    assert_eq!(g.copy_range(3 * BLOCK, &f, 0..2 * BLOCK).unwrap(), 2 * BLOCK);
    f.exchange_range(BLOCK..2 * BLOCK, &g, BLOCK).unwrap();
    f.exchange(&g).unwrap();
    g.truncate(2 * BLOCK).unwrap();
    f.fsync().unwrap();
    // A file that has lost its name lives as long as somebody holds it.
    volume.remove("/f").unwrap();
    let mut buf = [0; 20];
    assert_eq!(f.read(4 * BLOCK, &mut buf).unwrap(), 20);
    assert_eq!((buf[9], buf[10]), (3, 1));
    f.close().unwrap();
    g.close().unwrap();
    volume.close().unwrap();
    let volume = reopened(&device);
    let g = volume.read("/g").unwrap();
    assert_eq!((g.len(), g[9], g[10], g[4096]), (8192, 0, 1, 2));
    assert_eq!(volume.read_dir("/").unwrap().len(), 1);
}

#[test]
fn threads_share_a_volume_and_cookies_outlive_changes() {
    let (device, volume) = made();
    let root = volume.stat("/").unwrap().ino;
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let volume = &volume;
            scope.spawn(move || {
                for n in 0..250 {
                    volume.write(format!("/{worker}-{n}"), &[worker; 100]).unwrap();
                }
            });
        }
    });
    let fs = volume.fs();
    let unnamed = fs.make_unnamed(root, &NewNode::file(0o600)).unwrap();
    fs.set_xattr(unnamed.ino(), b"user.k", b"v", SetMode::Create).unwrap();
    let dir = fs.inode(root).unwrap();
    let (mut cookie, mut names) = (Some(0), std::collections::BTreeSet::new());
    while let Some(from) = cookie {
        let portion = fs.read_dir_from(&dir, from, 7);
        for entry in portion.entries {
            volume.remove([b"/", &entry.name[..]].concat()).unwrap();
            assert!(names.insert(entry.name), "no name twice");
        }
        cookie = portion.next;
    }
    assert_eq!(names.len(), 1000, "and none left out");
    volume.sync().unwrap();
    drop(unnamed);
    volume.close().unwrap();
    assert!(reopened(&device).read_dir("/").unwrap().is_empty());
}

#[test]
fn a_volume_gets_another_uuid_and_its_own_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.img");
    let device = xfskit::block::FileDevice::create(&path, ByteLen(300 << 20)).unwrap();
    let volume = xfskit::make(Arc::new(device), &xfskit::mkfs::Options::default()).unwrap();
    volume.write("/f", b"content").unwrap();
    let original = volume.fs().volume().geo().uuid;
    volume.close().unwrap();
    let (name, options) = (path.to_str().unwrap(), xfskit::OpenOptions::default());
    let set = |uuid| options.set_uuid(name, uuid).unwrap();
    for uuid in [Uuid::new_v4(), Uuid::nil(), Uuid::new_v4()] {
        assert_eq!(set(NewUuid::Is(uuid)), (uuid, original));
        let volume = xfskit::open_for_writing(name).unwrap();
        let geo = volume.fs().volume().geo();
        assert_eq!((geo.uuid, geo.meta_uuid), (uuid, original));
        volume.write(format!("/{uuid}"), b"more").unwrap();
        volume.close().unwrap();
    }
    assert_eq!(set(NewUuid::Original), (original, original));
    let volume = xfskit::open(name).unwrap();
    assert!(!volume.fs().volume().geo().features.meta_uuid());
    assert_eq!(volume.read("/f").unwrap(), b"content");
    verify::device(&**volume.fs().volume().device()).unwrap();
}
