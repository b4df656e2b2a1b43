//! xfskit withholds the same free space as Linux: `statfs` returns the same numbers, and a volume
//! that xfskit filled leaves Linux its reserved blocks.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::statvfs;
use xfskit::raw::block::{FileDevice, OpenMode};
use xfskit::raw::copy::build::{self, Blueprint, Free, WriteOptions};
use xfskit::raw::copy::source::{Source, SourceOptions, read_tree};
use xfskit::raw::core::{OpenOptions, Volume};
use xfskit::raw::mkfs::{DeviceFacts, Options, Stamp};
use xfskit::raw::units::ByteLen;
use xfskit::raw::vfs::{Clock, Fs, NewNode, Statfs};
use xfskit_test_support::{Image, Mount, Need, Scratch, long, needs, ours, verify};

const MIB: u64 = 1 << 20;

/// With and without the trees that have per-AG reservations.
const FEATURES: [&str; 4] =
    ["", "-m rmapbt=0", "-m reflink=0,rmapbt=0", "-m finobt=0,inobtcount=0,reflink=0,rmapbt=0"];
const SHAPES: [&str; 6] =
    ["", "-b size=1024", "-d agcount=19", "-i size=1024", "-b size=2048", "-i maxpct=0"];
const SIZES: [u64; 6] = [300 * MIB, 777 * MIB, 3072 * MIB, 10_241 * MIB, 1 << 40, 100 << 40];

/// Returns the statfs numbers that Linux shows.
fn linux(path: &Path) -> [u64; 4] {
    let output = statvfs(path).expect("statfs");
    assert_eq!(output.f_bfree, output.f_bavail);
    [output.f_blocks, output.f_bfree, output.f_files, output.f_ffree]
}

/// Returns the statfs numbers that xfskit shows.
fn here(image: &Image<'_>) -> [u64; 4] {
    let Statfs { blocks, blocks_free, inodes, inodes_free, .. } =
        Fs::new(ours::open(image), Clock::system()).statfs();
    [blocks, blocks_free, inodes, inodes_free]
}

fn words(options: &str) -> Vec<&str> {
    options.split_whitespace().collect()
}

#[test]
fn statfs_of_a_new_volume_matches_linux() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let (sizes, shapes) =
        if long() { (&SIZES[..], &SHAPES[..]) } else { (&SIZES[..2], &SHAPES[..3]) };
    let (mut compared, mut differ) = (0, Vec::new());
    for features in FEATURES {
        for shape in shapes {
            for &size in sizes {
                let scratch = Scratch::new("statfs");
                let image = Image::sparse(&scratch, "volume.img", size);
                let options = format!("{features} {shape}");
                // Some sizes are too small for some options.
                if ours::mkfs(&image, &words(&options)).is_err() {
                    continue;
                }
                let ours = here(&image);
                let mount = Mount::read_write(&image, &scratch).expect("mount");
                let linux = linux(mount.path());
                mount.unmount().expect("unmount");
                compared += 1;
                if ours != linux {
                    differ.push(format!("{options} {size}: {ours:?}, Linux {linux:?}"));
                }
            }
        }
    }
    println!("{compared} geometries");
    assert!(compared >= FEATURES.len() * shapes.len() * sizes.len() * 3 / 4, "{compared}");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn statfs_of_a_used_volume_matches_linux() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("statfs-used");
    let image = Image::sparse(&scratch, "volume.img", 320 * MIB);
    ours::mkfs(&image, &[]).expect("mkfs");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    // Many free inodes, and many free extents.
    let name = |n: u32| mount.path().join(format!("a-file-{n}"));
    for n in 0..3000 {
        std::fs::write(name(n), [0; 5000]).expect("write");
    }
    for n in (0..3000).step_by(2) {
        std::fs::remove_file(name(n)).expect("remove");
    }
    mount.unmount().expect("unmount");
    let ours = here(&image);
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    assert_eq!(ours, linux(mount.path()));
    mount.unmount().expect("unmount");
}

/// Writes files until the volume is full.
fn fill(image: &Image<'_>) {
    let dev = FileDevice::open(image.path(), OpenMode::ReadWrite).expect("open");
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let fs = Fs::new(Volume::open(Arc::new(dev), &options).expect("open"), Clock::system());
    let root = fs.volume().geo().rootino;
    let piece = vec![7; 1 << 20];
    'full: for n in 0.. {
        let name = format!("file-{n}");
        let Ok(ino) = fs.make(root, name.as_bytes(), &NewNode::file(0o644)) else { break };
        let file = fs.open(ino).expect("open");
        for at in 0..16 {
            if file.write(at << 20, &piece).is_err() {
                break 'full;
            }
        }
        if file.close().is_err() {
            break;
        }
    }
    fs.close().expect("close");
}

#[test]
fn a_volume_filled_by_xfskit_leaves_linux_its_reserved_blocks() {
    if !needs(&[Need::Mount]) {
        return;
    }
    for options in ["", "-d agcount=8", "-b size=1024"] {
        let scratch = Scratch::new("filled");
        let image = Image::sparse(&scratch, "volume.img", 320 * MIB);
        ours::mkfs(&image, &words(options)).expect("mkfs");
        fill(&image);
        // `check` would warn for each group whose reservation is short.
        verify::volume(&image, &scratch).expect("sound");
        let [blocks, free, ..] = here(&image);
        assert!(free < blocks / 20, "`{options}`: {free} of {blocks} blocks are left");
    }
}

/// Makes directories with files in them until there is no room for more, by several threads.
fn fill_with_names(image: &Image<'_>) {
    let dev = FileDevice::open(image.path(), OpenMode::ReadWrite).expect("open");
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let fs = Fs::new(Volume::open(Arc::new(dev), &options).expect("open"), Clock::system());
    let root = fs.volume().geo().rootino;
    let make = |thread: usize| -> xfskit::raw::vfs::Result<()> {
        for n in 0.. {
            let dir =
                fs.make(root, format!("{thread}-{n}").as_bytes(), &NewNode::directory(0o755))?;
            for file in 0..300 {
                let name = format!("{file}{}", "-a-long-name".repeat(20 * (file % 2)));
                fs.make(dir, name.as_bytes(), &NewNode::file(0o644))?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|thread| scope.spawn(move || make(thread)));
        for thread in threads {
            let full = thread.join().expect("no panic").expect_err("no room");
            assert_eq!(full.errno(), 28, "ENOSPC: {full}");
        }
    });
    fs.close().expect("close");
}

#[test]
fn a_volume_filled_with_names_leaves_linux_what_it_holds_back() {
    if !needs(&[Need::Mount]) {
        return;
    }
    for options in ["-i maxpct=0", "-b size=1024 -i maxpct=0", "-m rmapbt=0,reflink=0 -i maxpct=0"]
    {
        let scratch = Scratch::new("names");
        let image = Image::sparse(&scratch, "volume.img", 320 * MIB);
        ours::mkfs(&image, &words(options)).expect("mkfs");
        fill(&image);
        fill_with_names(&image);
        let ours = here(&image);
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        // Where Linux cannot hold back all that it wants, it tells more.
        let linux = linux(mount.path());
        mount.unmount().expect("unmount");
        assert_eq!(ours, linux, "`{options}`");
        verify::volume(&image, &scratch).expect("sound");
    }
}

#[test]
fn a_full_volume_can_be_emptied() {
    let scratch = Scratch::new("emptied");
    let image = Image::sparse(&scratch, "volume.img", 320 * MIB);
    ours::mkfs(&image, &words("-b size=1024 -i maxpct=0")).expect("mkfs");
    let [_, free, ..] = here(&image);
    fill(&image);
    fill_with_names(&image);
    let dev = FileDevice::open(image.path(), OpenMode::ReadWrite).expect("open");
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let fs = Fs::new(Volume::open(Arc::new(dev), &options).expect("open"), Clock::system());
    let root = fs.volume().geo().rootino;
    let names = |ino| {
        let mut entries = fs.read_dir(&fs.inode(ino).expect("inode")).entries;
        entries.retain(|entry| !matches!(&entry.name[..], b"." | b".."));
        entries
    };
    for entry in names(root) {
        if fs.unlink(root, &entry.name).is_ok() {
            continue;
        }
        for file in names(entry.ino) {
            fs.unlink(entry.ino, &file.name).expect("unlink");
        }
        fs.rmdir(root, &entry.name).expect("rmdir");
    }
    fs.close().expect("close");
    verify::volume(&image, &scratch).expect("sound");
    assert_eq!(here(&image)[1], free);
}

#[test]
fn a_volume_built_with_free_space_gives_linux_that_space() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("right-size");
    let root = xfskit_test_support::trees::fresh(scratch.path(), "tree").expect("directory");
    std::fs::write(root.join("large"), vec![1; 30 << 20]).expect("write");
    let on = |_| std::ops::ControlFlow::Continue(());
    let tree = read_tree(&[Source::Dir(root)], &SourceOptions::default(), &on).expect("read");
    let stamp = Stamp {
        uuid: "0b0c0d0e-0102-4304-8506-070809aabbcc".parse().expect("a UUID"),
        seconds: 1_700_000_000,
        nanoseconds: 5,
        generation: 77,
    };
    for free in [Free::Bytes(20 * MIB), Free::Bytes(0), Free::Percent(10), Free::Percent(1)] {
        let facts = DeviceFacts::file(ByteLen(0));
        let plan = build::fit(&tree, &Options::default(), &facts, stamp, free).expect("fit");
        let size = plan.geometry.data_bytes().0;
        let image = Image::sparse(&scratch, "right.img", size);
        let blueprint = Blueprint::new(&tree, &plan).expect("plan");
        let dev = FileDevice::open(image.path(), OpenMode::ReadWrite).expect("open");
        build::write(&dev, None, &blueprint, WriteOptions::default(), &on_progress).expect("write");
        let wanted = match free {
            Free::Percent(percent) => size / 100 * u64::from(percent),
            Free::Bytes(bytes) => bytes,
        };
        let [_, blocks, ..] = here(&image);
        assert!(blocks << 12 >= wanted, "{free:?}: {blocks} blocks of {size} bytes");
        assert_eq!(blueprint.free_bytes(), blocks << 12, "{free:?}");
        // A file that does not fit is not missing as a whole.
        assert!(blocks << 12 <= wanted + size / 64 + 2 * MIB, "{free:?}: {blocks} of {size} bytes");
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        assert_eq!(linux(mount.path())[1], blocks, "{free:?}");
        mount.unmount().expect("unmount");
    }
}

fn on_progress(_: build::Progress) -> std::ops::ControlFlow<()> {
    std::ops::ControlFlow::Continue(())
}
