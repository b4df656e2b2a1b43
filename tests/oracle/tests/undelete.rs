//! Files that the kernel removed: found again by name, with the bytes that they had; given back in
//! place, as Linux shows and `xfs_repair -n` accepts it; and not called good once their blocks hold
//! something else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use xfskit::{Confidence, FileType, RemovedFile, RestoredFile, Undelete, VolumeOptions};
use xfskit_test_support::{
    Image, Manifest, Mount, Need, Scratch, kernel, matrix, needs, note, verify,
};

/// Files of the directories in block form, and in leaf and node form.
const FEW: usize = 25;
const MANY: usize = 300;
/// `FS_XFLAG_HASATTR`.
const HAS_ATTR: u32 = 1 << 31;

volumes! {
    removed_files_come_back_from_default: "default",
    removed_files_come_back_from_block_1k: "block-1k",
    removed_files_come_back_from_parent: "parent",
    removed_files_come_back_from_nrext64: "nrext64",
}

/// The content of files by path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn verify_volume(name: &str) {
    let case = matrix::named(name);
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("undelete");
    let Some(image) = case.make(&scratch) else { return };
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    let files = fill(mount.path());
    let before = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    for path in files.keys() {
        fs::remove_file(mount.path().join(path.strip_prefix("/").unwrap())).unwrap();
    }
    mount.unmount().expect("unmount");

    let (found, dir) = undelete(&image, &scratch, "at-once");
    let good = count_intact(&files, &found, &dir);
    let named = files.keys().filter(|path| found.contains_key(*path)).count();
    note(&format!("{name}: {named} of {} by path, {good} good", files.len()));
    assert_eq!(named, files.len(), "every name was there a moment ago");
    assert_eq!(good, files.len(), "and all content");
    let restored = image.copy("in-place.img");
    for file in restore(&restored) {
        assert!(file.error.is_none(), "{file:?}");
    }
    verify::volume(&restored, &scratch).expect("a sound volume");
    assert_same(&before, &restored, &scratch);
    verify_overwritten(&image, &scratch, &files);
}

/// Gives all good files back in place, and returns what became of them.
fn restore(image: &Image<'_>) -> Vec<RestoredFile> {
    let options = || image.log().into_iter().fold(VolumeOptions::new(), VolumeOptions::log);
    let volume = options().open(image.path()).expect("open");
    let mut found = Undelete::new(&volume).run().expect("undelete").files;
    drop(volume);
    found.retain(|file| file.confidence == Confidence::Good);
    let volume = options().write(true).open(image.path()).expect("open");
    let restored = Undelete::new(&volume).restore(&found).expect("restored");
    assert_eq!(restored.len(), found.len());
    assert!(volume.close().expect("closed").is_clean());
    restored
}

/// Fails if Linux does not show the tree `before` on `image`, but for the times that giving back
/// changes, and for the numbers of inodes whose chunks were freed.
fn assert_same(before: &Manifest, image: &Image<'_>, scratch: &Scratch) {
    let mount = Mount::read_only(image, scratch).expect("mount");
    let mut after = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    let mut before = before.clone().without_blocks();
    after = after.without_blocks();
    for manifest in [&mut before, &mut after] {
        for entry in manifest.entries.values_mut() {
            // Reading the tree changes the time of access, and Linux shows where an inode has room
            // for attributes.
            (entry.ctime, entry.atime, entry.ino) = (entry.btime, entry.btime, 0);
            entry.extra.iter_mut().for_each(|extra| extra.xflags &= !HAS_ATTR);
            if entry.mode & 0o170_000 == 0o040_000 {
                (entry.mtime, entry.size) = (entry.btime, 0);
            }
        }
    }
    before.assert_same(&after, "given back");
}

/// A tree of every kind of file, with attributes.
fn tree(root: &Path) {
    let dir = root.join("top/middle/low");
    fs::create_dir_all(&dir).unwrap();
    for n in 0..70 {
        fs::write(dir.join(format!("file{n}")), bytes(n * 501)).unwrap();
    }
    symlink("file1", dir.join("short")).unwrap();
    symlink("x/".repeat(400), dir.join("long")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("pipe"), fifo, 0o640.into(), 0).unwrap();
    let path = root.join("top/middle/attributes");
    fs::write(&path, bytes(9000)).unwrap();
    let flags = rustix::fs::XattrFlags::empty;
    rustix::fs::setxattr(&path, "user.note", b"kept", flags()).unwrap();
    // In a leaf, in several leaves, and with blocks of its own.
    for (file, count, len) in [("file2", 8, 200), ("file3", 200, 90), ("file4", 2, 9000)] {
        for n in 0..count {
            let name = format!("user.attribute{n}");
            rustix::fs::setxattr(dir.join(file), name, &bytes(len + n), flags()).unwrap();
        }
    }
    for link in ["top/link", "top/middle/another", "top/middle/low/third"] {
        fs::hard_link(dir.join("file5"), root.join(link)).unwrap();
    }
    chown(&path, Some(12), Some(34)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
}

/// A tree that `rm -r` removed comes back with directories, links, pipes and attributes; and a name
/// that was taken since is not replaced.
#[test]
fn a_removed_tree_comes_back_in_place() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for name in ["default", "parent", "block-1k"] {
        let case = matrix::named(name);
        let scratch = Scratch::new("undelete-tree");
        let Some(image) = case.make(&scratch) else { continue };
        let in_mount = |work: &dyn Fn(&Path)| {
            let mount = Mount::read_write(&image, &scratch).expect("mount");
            work(mount.path());
            mount.unmount().expect("unmount");
        };
        in_mount(&|root| {
            tree(root);
            fs::write(root.join("taken"), bytes(5000)).unwrap();
        });
        let mount = Mount::read_only(&image, &scratch).expect("mount");
        let before = kernel::manifest(mount.path());
        let ino = fs::metadata(mount.path().join("taken")).unwrap().ino();
        mount.unmount().expect("unmount");
        in_mount(&|root| {
            fs::remove_dir_all(root.join("top")).unwrap();
            fs::remove_file(root.join("taken")).unwrap();
        });
        in_mount(&|root| fs::create_dir(root.join("taken")).unwrap());
        let refused: Vec<_> = restore(&image)
            .into_iter()
            .filter(|file| file.error.is_some() || file.lost_attributes)
            .collect();
        assert!(refused.is_empty(), "{name}: {refused:?}");
        let (again, _) = undelete(&image, &scratch, "again");
        assert!(again.is_empty(), "{name}: {again:?}");
        verify::volume(&image, &scratch).unwrap_or_else(|why| panic!("{name}: {why}"));
        let mount = Mount::read_only(&image, &scratch).expect("mount");
        let after = kernel::manifest(mount.path());
        let told = mount.path().join(format!("lost+found/inode-{ino}-taken"));
        assert!(fs::read(&told).expect("its new name") == bytes(5000), "{name}");
        mount.unmount().expect("unmount");
        for (path, was) in &before.entries {
            let shown = String::from_utf8_lossy(path);
            let Some(is) = after.entries.get(path) else { panic!("{name}: no {shown}") };
            if !shown.trim_start_matches('/').starts_with("top/") {
                continue;
            }
            let what = |entry: &xfskit_test_support::Entry| {
                (entry.mode, entry.uid, entry.gid, entry.nlink, entry.target.clone())
            };
            assert_eq!(what(is), what(was), "{name}: {shown}");
            assert_eq!((&is.digest, &is.xattrs), (&was.digest, &was.xattrs), "{name}: {shown}");
            if was.mode & 0o170_000 == 0o100_000 {
                assert_eq!(
                    (is.size, is.mtime, is.btime),
                    (was.size, was.mtime, was.btime),
                    "{shown}"
                );
            }
        }
    }
}

/// Fails if a file is called good whose blocks new files took.
fn verify_overwritten(image: &Image<'_>, scratch: &Scratch, files: &Files) {
    let mount = Mount::read_write(image, scratch).expect("mount");
    for n in 0..40 {
        fs::write(mount.path().join(format!("new{n}")), vec![0xee; 300_000]).unwrap();
    }
    mount.unmount().expect("unmount");
    let (found, dir) = undelete(image, scratch, "later");
    let good = count_intact(files, &found, &dir);
    let lost = |file: &RemovedFile| file.confidence == Confidence::Partial && !file.lost.is_empty();
    assert!(found.values().any(lost), "some blocks were taken");
    assert!(good < files.len());
}

/// Fails if a good file has other bytes than it had. Returns the number of good ones.
fn count_intact(files: &Files, found: &BTreeMap<PathBuf, RemovedFile>, dir: &Path) -> usize {
    let good = files.iter().filter(|(path, content)| {
        let Some(file) = found.get(*path).filter(|file| file.confidence == Confidence::Good) else {
            return false;
        };
        assert_eq!(file.file_type, Some(FileType::File), "{}", path.display());
        let copy = fs::read(dir.join(path.strip_prefix("/").unwrap())).expect("its copy");
        assert!(copy == **content, "{}: other bytes", path.display());
        true
    });
    good.count()
}

/// Finds the removed files with a path, and copies them into a directory.
fn undelete(
    image: &Image<'_>,
    scratch: &Scratch,
    to: &str,
) -> (BTreeMap<PathBuf, RemovedFile>, PathBuf) {
    let options = image.log().into_iter().fold(VolumeOptions::new(), VolumeOptions::log);
    let volume = options.open(image.path()).expect("open");
    let search = Undelete::new(&volume);
    let found = search.run().expect("undelete");
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let dir = scratch.path().join(to);
    let copied = search.copy_to(&dir, &found.files).expect("copy");
    assert_eq!(copied.len(), found.files.len());
    let by_path = |file: RemovedFile| Some((file.path.clone()?, file));
    (found.files.into_iter().filter_map(by_path).collect(), dir)
}

/// Fills the volume with files of many kinds in directories of all forms. Returns their content.
fn fill(root: &Path) -> Files {
    let mut files = Files::new();
    let mut add = |path: String, content: Vec<u8>| {
        let place = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, &content).unwrap();
        files.insert(path.into(), content);
    };
    for (name, len) in [("empty", 0), ("a", 1), ("block", 4096), ("odd", 4097), ("mb", 1 << 20)] {
        add(format!("/short/{name}"), bytes(len));
    }
    for n in 0..FEW {
        add(format!("/block/a file with a name {n}"), bytes(n * 100 + 1));
    }
    for n in 0..MANY {
        add(format!("/leaf/another file with a longer name {n}"), bytes(n % 50 + 1));
    }
    add("/extents/many".into(), Vec::new());
    // Every second block of a file is written, so that its extents need a btree.
    let path = root.join("extents/many");
    let file = fs::File::options().write(true).open(path).unwrap();
    let mut content = vec![0; 400 * 8192];
    for (n, part) in content.chunks_mut(8192).enumerate() {
        part[..4096].copy_from_slice(&bytes(4096 + n)[n..]);
        file.write_all_at(&part[..4096], n as u64 * 8192).unwrap();
        file.sync_data().unwrap();
    }
    file.set_len(content.len() as u64).unwrap();
    files.insert("/extents/many".into(), content);
    files
}

/// Returns bytes that tell their place, by a number of their own.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from((n * 31 + n / 251 + len) % 256).unwrap()).collect()
}
