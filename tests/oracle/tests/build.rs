//! A volume that xfskit builds from a tree: the kernel shows that tree; `xfs_repair -n` and `xfskit
//! check` have no findings before and after the kernel has worked in it; and repeated builds give
//! the same bytes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xfskit::raw::block::{BlockDevice, FileDevice, OpenMode};
use xfskit::raw::copy::build::{self, Blueprint, BuildError, Free, WriteOptions};
use xfskit::raw::copy::source::{Source, SourceOptions, Tree, read_tree};
use xfskit::raw::format::timestamp::Timestamp;
use xfskit::raw::mkfs::{self, DeviceFacts, Options, Stamp};
use xfskit_test_support::manifest::Extra;
use xfskit_test_support::trees::{self, Shape};
use xfskit_test_support::{
    Image, Manifest, Mount, Need, Scratch, Xfsprogs, bytes, kernel, long, needs, note, ours, verify,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn read(from: &Path) -> Tree {
    read_until(from, None)
}

fn read_until(from: &Path, epoch: Option<Timestamp>) -> Tree {
    let on = |_| ControlFlow::Continue(());
    let options = SourceOptions { epoch, ..SourceOptions::default() };
    read_tree(&[Source::Dir(from.into())], &options, &on).expect("read the tree")
}

fn options(words: &str) -> Options {
    let mut options = Options::default();
    options.force = true;
    for pair in words.split_whitespace().collect::<Vec<_>>().chunks(2) {
        options.sub(pair[0], pair[1]).expect("an option");
    }
    options
}

fn stamp() -> Stamp {
    Stamp {
        uuid: "0b0c0d0e-0102-4304-8506-070809aabbcc".parse().expect("a UUID"),
        seconds: 1_700_000_000,
        nanoseconds: 5,
        generation: 77,
    }
}

/// Builds a volume from `tree` on `image` with `threads` threads.
fn make(tree: &Tree, image: &Image, words: &str, threads: usize) -> Result<(), BuildError> {
    let open = |path: &Path| FileDevice::open(path, OpenMode::ReadWrite).expect("open the image");
    let device = open(image.path());
    let log = image.log().map(open);
    let log = log.as_ref().map(|log| log as &dyn BlockDevice);
    let plan = mkfs::plan(&options(words), &DeviceFacts::of(&device, log), stamp())?;
    let blueprint = Blueprint::new(tree, &plan)?;
    let how = WriteOptions { threads: NonZero::new(threads) };
    build::write(&device, log, &blueprint, how, &|_| ControlFlow::Continue(()))
}

/// Returns the attributes that a copy carries. It excludes the location on disk, the times of the
/// copying itself, and the values that only an ioctl shows.
fn carried(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        (entry.ino, entry.blocks) = (0, 0);
        (entry.ctime, entry.btime) = ((0, 0), (0, 0));
        entry.extra = None::<Extra>;
        if entry.mode & 0o170_000 == 0o040_000 {
            entry.size = 0;
        }
    }
    manifest
}

/// Returns the tree that Linux shows of a volume that has not been read yet.
fn shown(image: &Image, scratch: &Scratch) -> Manifest {
    let mount = Mount::read_only(image, scratch).expect("mount");
    let manifest = carried(kernel::manifest(mount.path()));
    mount.unmount().expect("unmount");
    manifest
}

/// Limits times to the range from 1901 to 2038. As in Linux, the nearest time to one beyond has no
/// nanoseconds.
fn in_legacy_times(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        for time in [&mut entry.atime, &mut entry.mtime] {
            let nearest = time.0.clamp(-0x8000_0000, 0x7fff_ffff);
            if nearest != time.0 {
                *time = (nearest, 0);
            }
        }
    }
    manifest
}

/// Panics unless all tools verify `image` without a finding.
fn verified(image: &Image, words: &str, when: &str) {
    let repair_tools = if words.contains("parent") {
        Xfsprogs::newer().into_iter().collect()
    } else {
        Xfsprogs::all()
    };
    for tools in repair_tools {
        tools.repair_n(image, &[]).unwrap_or_else(|why| panic!("`{words}`, {when}: {why}"));
    }
    let report = ours::check(image);
    assert!(report.is_clean(), "`{words}`, {when}: check: {report:#?}");
}

/// Lets the kernel create, change and remove files everywhere.
fn work(root: &Path, shape: &Shape) -> std::io::Result<()> {
    trees::tall_groups(&trees::fresh(root, "work")?, shape)?;
    let mut dirs = vec![root.to_path_buf()];
    let mut count = 0_u64;
    while let Some(dir) = dirs.pop() {
        // Paths may be longer than a system call accepts.
        let Ok(listing) = fs::read_dir(&dir) else { continue };
        for entry in listing {
            let path = entry?.path();
            let Ok(kind) = path.symlink_metadata().map(|meta| meta.file_type()) else { continue };
            count += 1;
            if kind.is_dir() {
                dirs.push(path);
            } else if count.is_multiple_of(3) {
                // Files with flags that forbid removal stay.
                let _ = fs::remove_file(path);
            } else if count % 3 == 1 && kind.is_file() {
                let name = path.file_name().map_or(&b"x"[..], OsStrExt::as_bytes);
                let _ = fs::write(dir.join(format!("new-{count}")), name.repeat(50));
            }
        }
    }
    trees::empty(&root.join("work/many-inodes"))
}

/// Tests one set of options with the corner cases of every form.
fn try_options(tree: &Tree, linux: &Manifest, words: &str, shape: &Shape, log: u64) {
    let scratch = Scratch::new("built");
    let mut image = Image::sparse(&scratch, "built.img", GIB);
    if log > 0 {
        image = image.with_external_log(log);
    }
    make(tree, &image, words, 2).unwrap_or_else(|why| panic!("`{words}`: {why}"));
    verified(&image, words, "made");
    let mount = match Mount::read_only(&image, &scratch) {
        Ok(mount) => mount,
        Err(why) if shape.block > 4096 => return note(&why),
        Err(why) => panic!("`{words}`: {why}"),
    };
    let made = carried(kernel::manifest(mount.path()));
    mount.unmount().expect("unmount");
    let mut linux = linux.clone();
    if words.contains("bigtime=0") {
        linux = in_legacy_times(linux);
    }
    if shape.block <= 4096 {
        linux.assert_same(&made, words);
    }
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    work(mount.path(), shape).unwrap_or_else(|why| panic!("`{words}`: {why}"));
    mount.unmount().expect("unmount");
    verified(&image, words, "after the kernel's work");
}

#[test]
fn the_kernel_shows_and_changes_a_built_tree_with_all_options() {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("build");
    let source = Image::sparse(&scratch, "source.img", GIB);
    Xfsprogs::newer().expect("needed").mkfs(&source, &[]).expect("mkfs");
    let mount = Mount::read_write(&source, &scratch).expect("mount");
    trees::corners(mount.path(), &Shape::DEFAULT).expect("corners");
    mount.unmount().expect("unmount");
    let linux = shown(&source, &scratch);
    // Unwritten extents count as holes only until they are read. The other volumes are therefore
    // built from this one, which has none.
    let first = Image::sparse(&scratch, "first.img", GIB);
    let mount = Mount::read_only(&source, &scratch).expect("mount");
    make(&read(mount.path()), &first, "", 2).expect("make");
    mount.unmount().expect("unmount");
    linux.assert_same(&shown(&first, &scratch), "the first copy");
    let mount = Mount::read_only(&first, &scratch).expect("mount");
    let tree = read(mount.path());
    let plain = Shape::DEFAULT;
    let cases = [
        ("", plain, 0),
        ("-b size=1024", Shape { block: 1024, ..plain }, 0),
        ("-b size=16384", Shape { block: 16384, dir_block: 16384, ..plain }, 0),
        ("-i size=2048 -s size=4096", plain, 0),
        ("-i size=1024 -n size=65536", Shape { dir_block: 65536, ..plain }, 0),
        ("-m rmapbt=0,reflink=0", Shape { reflink: false, ..plain }, 0),
        ("-m finobt=0,inobtcount=0,bigtime=0 -i sparse=0,nrext64=0", plain, 0),
        ("-d su=64k,sw=4", plain, 0),
        ("-n parent=1", plain, 0),
        ("-n parent=1 -b size=1024", Shape { block: 1024, ..plain }, 0),
        ("-d agcount=20 -l size=32m", plain, 0),
        ("-l logdev=beside", plain, 64 * MIB),
    ];
    for (words, shape, log) in cases {
        try_options(&tree, &linux, words, &shape, log);
    }
}

/// Creates files, names and directories that do not need root.
fn small_tree(root: &Path) {
    for dir in 0..30 {
        let dir = trees::fresh(root, &format!("dir{dir}")).expect("directory");
        for file in 0..100_usize {
            let contents = trees::bytes(file as u64, file * 117);
            fs::write(dir.join(format!("file-{file}")), contents).expect("write");
        }
    }
    fs::write(root.join("large"), trees::bytes(1, 30 << 20)).expect("write");
    fs::hard_link(root.join("large"), root.join("dir3/again")).expect("link");
    std::os::unix::fs::symlink("t".repeat(500), root.join("link")).expect("symlink");
    let sparse = File::create(root.join("sparse")).expect("create");
    sparse.set_len(100 << 20).expect("length");
}

#[test]
fn the_same_tree_gives_the_same_bytes_on_any_number_of_threads() {
    let scratch = Scratch::new("same-bytes");
    let root = trees::fresh(scratch.path(), "tree").expect("directory");
    small_tree(&root);
    let image = |name: &str| Image::sparse(&scratch, name, 400 * MIB);
    // Reading changes access times, unless an epoch is given.
    let read = |root: &Path| read_until(root, Some(Timestamp { sec: 1_800_000_000, nsec: 0 }));
    let first = image("first.img");
    make(&read(&root), &first, "-n parent=1", 1).expect("make");
    verify::volume(&first, &scratch).expect("sound");
    for threads in [1, 3, 8] {
        let again = image("again.img");
        make(&read(&root), &again, "-n parent=1", threads).expect("make");
        let differing = bytes::differences(first.path(), again.path(), &[], 4);
        assert!(differing.is_empty(), "{threads} threads: {}", differing.join("\n"));
    }
}

#[test]
fn a_volume_without_a_given_size_fits_its_tree() {
    if !needs(&[Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("fit");
    let root = trees::fresh(scratch.path(), "tree").expect("directory");
    small_tree(&root);
    let tree = read(&root);
    let facts = DeviceFacts::file(xfskit::raw::units::ByteLen(0));
    for free in [Free::Bytes(0), Free::Percent(10), Free::Percent(60), Free::Bytes(500 * MIB)] {
        let plan = build::fit(&tree, &options(""), &facts, stamp(), free).expect("fit");
        let size = plan.geometry.data_bytes().0;
        let blueprint = Blueprint::new(&tree, &plan).expect("plan");
        let wanted = match free {
            Free::Percent(percent) => size / 100 * u64::from(percent),
            Free::Bytes(bytes) => bytes,
        };
        let found = blueprint.free_bytes();
        assert!(found >= wanted, "{free:?}: {found} of {size}");
        assert!(found - wanted <= size / 20 + 8 * MIB, "{free:?}: {found} of {size}");
        let image = Image::sparse(&scratch, "fit.img", size);
        make(&tree, &image, "", 2).expect("make");
        verify::volume(&image, &scratch).expect("sound");
    }
}

#[test]
fn a_tree_that_does_not_fit_fails_before_the_first_write() {
    let scratch = Scratch::new("too-small");
    let root = trees::fresh(scratch.path(), "tree").expect("directory");
    fs::write(root.join("large"), trees::bytes(1, 60 << 20)).expect("write");
    let image = Image::sparse(&scratch, "small.img", 64 * MIB);
    let refused = make(&read(&root), &image, "", 1);
    assert!(matches!(refused, Err(BuildError::NoSpace { more }) if more > MIB), "{refused:?}");
    let mut head = [1; 512];
    let device = FileDevice::open(image.path(), OpenMode::ReadOnly).expect("open");
    device.read_at(xfskit::raw::units::ByteOffset(0), &mut head).expect("read");
    assert_eq!(head, [0; 512]);
}

#[test]
fn a_volume_built_from_usr_shows_the_same_tree() {
    if !long() || !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::on_disk("usr");
    let tree = read(Path::new("/usr"));
    let facts = DeviceFacts::file(xfskit::raw::units::ByteLen(0));
    let plan = build::fit(&tree, &options(""), &facts, stamp(), Free::Percent(20)).expect("fit");
    let image = Image::sparse(&scratch, "usr.img", plan.geometry.data_bytes().0);
    make(&tree, &image, "", 2).expect("make");
    verified(&image, "", "made");
    let mount = Mount::read_only(&image, &scratch).expect("mount");
    let quiet = |mut manifest: Manifest| {
        let mut names = HashMap::<u64, u32>::new();
        for entry in manifest.entries.values() {
            *names.entry(entry.ino).or_default() += 1;
        }
        for entry in manifest.entries.values_mut() {
            // Reading the source changes its access times, and some of its files have links
            // elsewhere, too.
            entry.atime = (0, 0);
            if entry.mode & 0o170_000 != 0o040_000 {
                entry.nlink = names[&entry.ino];
            }
        }
        carried(manifest)
    };
    let made = quiet(kernel::manifest(mount.path()));
    mount.unmount().expect("unmount");
    quiet(kernel::manifest(Path::new("/usr"))).assert_same(&made, "/usr");
}

#[test]
fn a_file_with_more_attributes_than_linux_lists_is_copied_without_them_and_reported() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("attributes");
    let tree = scratch.path().join("tree");
    fs::create_dir(&tree).expect("mkdir");
    fs::write(tree.join("many"), b"content").expect("write");
    let image = Image::sparse(&scratch, "many.img", GIB);
    make(&read(&tree), &image, "", 1).expect("made");
    let mount = Mount::read_write(&image, &scratch).expect("a sound volume");
    let many = mount.path().join("many");
    let set = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(&many, name, value, rustix::fs::XattrFlags::empty()).expect("set");
    };
    // user::rw-, user:1000:r--, group::---, mask::r--, other::---
    let acl = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xe8\x03\0\0\
        \x04\0\0\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    set("system.posix_acl_access", acl);
    (0..300).for_each(|n| set(&format!("user.{n:0240}"), b"x"));
    assert!(rustix::fs::listxattr(&many, &mut vec![0; 1 << 20][..]).is_err());
    let from = [Source::Dir(mount.path().into())];
    let on = |_| ControlFlow::Continue(());
    let copied = read_tree(&from, &SourceOptions::default(), &on).expect("the rest");
    let notes = copied.notes();
    assert!(notes.left_out[0].to_string().contains("many: its attributes"), "{notes:?}");
    let skipped = notes.skipped();
    assert_eq!((skipped[0].count, skipped[0].usual, notes.left_out.len()), (1, false, 1));
    let built = Image::sparse(&scratch, "built.img", GIB);
    make(&copied, &built, "", 1).expect("made");
    let strict = SourceOptions { strict: true, ..SourceOptions::default() };
    let refused = read_tree(&from, &strict, &on).map(|_| ()).expect_err("strict");
    assert!(refused.to_string().contains("65536"), "{refused}");
    drop(copied);
    mount.unmount().expect("unmounted");
    verified(&built, "", "without its attributes");
    // The access control list is copied.
    let mount = Mount::read_only(&built, &scratch).expect("a sound volume");
    let mut value = [0; 100];
    let path = mount.path().join("many");
    let len = rustix::fs::getxattr(&path, "system.posix_acl_access", &mut value[..]).expect("ACL");
    assert_eq!(value[..len], acl[..]);
    mount.unmount().expect("unmounted");
}
