//! `xfskit get` and its archives restore, on a mounted volume, the tree they were taken from.

use std::fs::{self, File};
use std::io::BufWriter;
use std::process::Command;
use std::sync::Mutex;

use xfskit::raw::VolumeExt as _;
use xfskit::raw::copy::{Event, GetOptions, archive, get};
use xfskit_test_support::manifest::Extra;
use xfskit_test_support::tools::run;
use xfskit_test_support::trees::{self, Shape};
use xfskit_test_support::{Image, Manifest, Mount, Need, Scratch, Xfsprogs, kernel, needs, verify};

/// Returns a volume with all corner cases but `without`, and the tree that Linux shows of it.
fn source<'a>(scratch: &'a Scratch, without: &[&str]) -> (Image<'a>, Manifest) {
    let image = Image::sparse(scratch, "source.img", 1 << 30);
    Xfsprogs::installed().expect("needed").mkfs(&image, &[]).expect("mkfs");
    let mount = Mount::read_write(&image, scratch).expect("mount");
    trees::corners(mount.path(), &Shape::DEFAULT).expect("corners");
    for path in without {
        fs::remove_dir_all(mount.path().join(path)).expect("remove");
    }
    mount.unmount().expect("unmount");
    let mount = Mount::read_only(&image, scratch).expect("mount");
    let linux = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    (image, linux)
}

/// Returns an empty volume to copy to.
fn destination(scratch: &Scratch) -> Image<'_> {
    let image = Image::sparse(scratch, "destination.img", 1 << 30);
    Xfsprogs::installed().expect("needed").mkfs(&image, &[]).expect("mkfs");
    image
}

/// Returns the attributes that a copy carries. It excludes the location on disk, the times of the
/// copying itself, and the values that only an ioctl shows.
pub(crate) fn carried(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        (entry.ino, entry.blocks) = (0, 0);
        (entry.ctime, entry.btime) = ((0, 0), (0, 0));
        entry.extra = None::<Extra>;
        if entry.mode & 0o170_000 == 0o040_000 {
            // A directory's size depends on its history, and reading it changes its atime.
            (entry.size, entry.atime) = (0, (0, 0));
        }
    }
    manifest
}

/// Returns the message of an event that reports anything but success.
fn complaint(event: &Event<'_>) -> Option<String> {
    (!matches!(event, Event::Done { .. } | Event::Found(_))).then(|| format!("{event:?}"))
}

#[test]
fn get_restores_the_same_tree_on_another_volume() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("get");
    let (image, linux) = source(&scratch, &[]);
    let target = destination(&scratch);
    let mount = Mount::read_write(&target, &scratch).expect("mount");
    let volume = xfskit::Volume::open(image.path()).expect("open");
    let root = volume.fs().root().expect("the root directory");
    let complaints = Mutex::new(Vec::new());
    let report = get(volume.fs(), b"/", root, mount.path(), GetOptions::default(), &|event| {
        complaints.lock().expect("alive").extend(complaint(&event));
    })
    .expect("get");
    let complaints = complaints.into_inner().expect("alive");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(report.skipped.is_empty(), "{report:?}");
    mount.unmount().expect("unmount");
    let mount = Mount::read_only(&target, &scratch).expect("mount");
    let copied = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    carried(linux).assert_same(&carried(copied), "the copy");
    verify::volume(&target, &scratch).expect("sound");
}

#[test]
fn gnu_tar_restores_the_same_tree_from_an_archive() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("tar");
    // GNU tar does not handle paths longer than PATH_MAX.
    let (image, mut linux) = source(&scratch, &["directories/nested"]);
    let volume = xfskit::Volume::open(image.path()).expect("open");
    let root = volume.fs().root().expect("the root directory");
    let tar = scratch.path().join("tree.tar");
    let complaints = Mutex::new(Vec::new());
    let out = BufWriter::new(File::create(&tar).expect("tar file"));
    archive(volume.fs(), b"/", root, out, &|event| {
        complaints.lock().expect("alive").extend(complaint(&event));
    })
    .expect("archive");
    // Tar cannot store sockets and reports them.
    let complaints = complaints.into_inner().expect("alive");
    assert!(complaints.iter().all(|line| line.contains("socket")), "{complaints:?}");
    let target = destination(&scratch);
    let mount = Mount::read_write(&target, &scratch).expect("mount");
    run(Command::new("tar")
        .args(["--xattrs", "--xattrs-include=*", "--acls", "--numeric-owner", "-xpf"])
        .arg(&tar)
        .arg("-C")
        .arg(mount.path()))
    .expect("tar unpacks it");
    fs::remove_file(&tar).expect("tar file");
    mount.unmount().expect("unmount");
    let mount = Mount::read_only(&target, &scratch).expect("mount");
    let mut unpacked = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    linux.entries.retain(|_, entry| entry.mode & 0o170_000 != 0o140_000);
    // GNU tar keeps access times only if the archive was packed so, and punches holes by its own
    // map.
    for manifest in [&mut linux, &mut unpacked] {
        for entry in manifest.entries.values_mut() {
            entry.atime = (0, 0);
        }
    }
    carried(linux).assert_same(&carried(unpacked), "the unpacked archive");
}
