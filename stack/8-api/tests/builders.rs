//! What the builders make, find and copy, and how they report, fail and stop.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{kept, unpacked};
use xfskit::{
    Build, CancelToken, Check, CopyTree, ErrorKind, Extract, Mkfs, Volume, VolumeOptions,
};
use xfskit_test_support::verify;

/// A small tree on this machine.
fn tree(root: &Path) {
    std::fs::create_dir_all(root.join("etc/deep")).unwrap();
    std::fs::write(root.join("etc/fstab"), "none\n").unwrap();
    std::os::unix::fs::symlink("fstab", root.join("etc/link")).unwrap();
    for n in 0..200 {
        std::fs::write(root.join(format!("etc/deep/{n}")), vec![b'x'; n * 100]).unwrap();
    }
}

#[test]
fn mkfs_makes_what_it_is_told_and_refuses_what_it_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("new.img");
    let missing = Mkfs::new().create(&image).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "no size and no file: {missing}");
    let mkfs = Mkfs::new().size(400 << 20).label("scratch").block_size(1024);
    let volume = mkfs.clone().option("-i", "size=512").unwrap().create(&image).unwrap();
    volume.write("/f", "content").unwrap();
    assert_eq!(volume.statfs().unwrap().blocksize, 1024);
    volume.close().unwrap();
    verify::file(&image).unwrap();
    assert_eq!(mkfs.create(&image).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let again = mkfs.clone().force(true).create(&image).unwrap();
    assert_eq!(again.read_dir("/").unwrap().count(), 0);
    drop(again);
    assert_eq!(mkfs.option("-i", "size=7").unwrap_err().kind(), ErrorKind::InvalidInput);
    let small = Mkfs::new().size(1 << 20).create(dir.path().join("small.img"));
    assert_eq!(small.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(!dir.path().join("small.img").exists(), "refused before anything was made");
}

#[test]
fn a_tree_goes_into_a_new_volume_and_comes_out_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (root, image, out) =
        (dir.path().join("root"), dir.path().join("root.img"), dir.path().join("out"));
    tree(&root);
    let seen = AtomicU64::new(0);
    let count = |_| {
        seen.fetch_add(1, Ordering::Relaxed);
    };
    let built = Build::new().dir(&root).owner(7, 8).progress(count).create(&image).unwrap();
    assert_eq!(built.inodes, 205, "{built:?}");
    assert!(built.problems.is_empty() && built.skipped.is_empty());
    assert!(seen.load(Ordering::Relaxed) > 0, "no progress");
    verify::file(&image).unwrap();
    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.metadata("/etc/fstab").unwrap().uid(), 7);
    seen.store(0, Ordering::Relaxed);
    let copied = Extract::new(&volume, "/etc").progress(count).to_dir(&out).unwrap();
    assert!(copied.problems.is_empty() && copied.files >= 203, "{copied:?}");
    assert!(seen.load(Ordering::Relaxed) > 0, "no progress");
    assert_eq!(std::fs::read_to_string(out.join("link")).unwrap(), "none\n");
    assert_eq!(std::fs::read(out.join("deep/199")).unwrap(), vec![b'x'; 19_900]);
    let taken = Extract::new(&volume, "/etc").to_dir(&root).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    let none = Extract::new(&volume, "/none").to_tar(std::io::sink()).unwrap_err();
    assert_eq!((none.kind(), none.path()), (ErrorKind::NotFound, Some(Path::new("/none"))));
    // As an archive, and back.
    let archive = dir.path().join("etc.tar");
    let file = std::fs::File::create(&archive).unwrap();
    Extract::new(&volume, "/etc").to_tar(file).unwrap();
    let second = dir.path().join("second.img");
    Build::new().tar(&archive).mkfs(Mkfs::new().size(400 << 20)).create(&second).unwrap();
    verify::file(&second).unwrap();
    let second = Volume::open(&second).unwrap();
    assert_eq!(second.read_to_string("/link").unwrap(), "none\n");
}

#[test]
fn what_is_cancelled_says_so_and_leaves_no_new_image() {
    let dir = tempfile::tempdir().unwrap();
    let (root, image) = (dir.path().join("root"), dir.path().join("root.img"));
    tree(&root);
    let token = CancelToken::new();
    let cancel = |_| token.cancel();
    let built = Build::new().dir(&root).progress(cancel).cancel(&token).create(&image);
    assert_eq!(built.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(!image.exists());
    let (_kept, volume) = kept();
    let out = dir.path().join("out");
    let copied = Extract::new(&volume, "/").cancel(&token).to_dir(&out);
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::Cancelled);
    let archived = Extract::new(&volume, "/").cancel(&token).to_tar(std::io::sink());
    assert_eq!(archived.unwrap_err().kind(), ErrorKind::Cancelled);
    let image = unpacked("v5", dir.path());
    let checked = Check::new().cancel(&token).run(&image);
    assert_eq!(checked.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_check_replays_the_journal_in_memory_and_counts_what_it_sees() {
    let dir = tempfile::tempdir().unwrap();
    let image = unpacked("v5-dirty", dir.path());
    let before = std::fs::read(&image).unwrap();
    let steps = AtomicU64::new(0);
    let count = |_| {
        steps.fetch_add(1, Ordering::Relaxed);
    };
    let checked = Check::new().progress(count).run(&image).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
    assert!(checked.report.inodes > 50 && checked.report.directories > 3, "{checked:?}");
    assert!(steps.into_inner() > 0, "no progress");
    let as_it_lies = Check::new().recovery(false).run(&image).unwrap();
    assert!(as_it_lies.report.inodes < checked.report.inodes);
    assert!(std::fs::read(&image).unwrap() == before);
    let empty = dir.path().join("empty");
    std::fs::write(&empty, vec![0; 1 << 20]).unwrap();
    assert_eq!(Check::new().run(&empty).unwrap_err().kind(), ErrorKind::NotXfs);
}

/// A caller can stop while a file of any size is written.
#[test]
fn progress_is_reported_within_a_large_file() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("large"), vec![7; 64 << 20]).unwrap();
    let calls = AtomicU64::new(0);
    let count = |_| {
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let image = dir.path().join("large.img");
    Build::new()
        .mkfs(Mkfs::new().size(400 << 20))
        .dir(&root)
        .progress(count)
        .create(&image)
        .unwrap();
    assert!(calls.swap(0, Ordering::Relaxed) >= 32, "{calls:?}");
    let volume = VolumeOptions::new().write(true).open(&image).unwrap();
    CopyTree::new(&volume, "/large").progress(count).to("/copy").unwrap();
    assert!(calls.load(Ordering::Relaxed) >= 32, "{calls:?}");
    let token = CancelToken::new();
    let cancel = |_| token.cancel();
    let copied = CopyTree::new(&volume, "/large").progress(cancel).cancel(&token).to("/cut");
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(!volume.exists("/cut"));
    volume.close().unwrap();
}
