//! A volume that xfskit left in the middle of its work, with unlinked files that were open, and
//! others that share and exchanged their blocks. The kernel and xfskit recover it alike.

use std::fs;
use std::sync::Arc;

use xfskit::raw::block::{FileDevice, OpenMode};
use xfskit::raw::core::{OpenOptions, Volume};
use xfskit::raw::units::Ino;
use xfskit::raw::vfs::{Clock, Fs, Handle, NewNode, Statfs, Timestamp};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, needs, ours, verify};

const LEN: usize = 300_000;

fn open(image: &Image) -> Fs {
    let device = FileDevice::open(image.path(), OpenMode::ReadWrite).expect("open the image");
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let volume = Volume::open(Arc::new(device), &options).expect("open the volume");
    Fs::new(volume, Clock::fixed(Timestamp { sec: 1_700_000_000, nsec: 5 }))
}

fn root(fs: &Fs) -> Ino {
    fs.volume().geo().rootino
}

fn file<'f>(fs: &'f Fs, name: &str, fill: u8) -> Handle<'f> {
    let ino = fs.make(root(fs), name.as_bytes(), &NewNode::file(0o644)).expect("make");
    let handle = fs.open(ino).expect("open");
    handle.write(0, &vec![fill; LEN]).expect("write");
    handle
}

fn verified(image: &Image) {
    for tools in Xfsprogs::all() {
        tools.repair_n(image, &[]).expect("xfs_repair");
    }
    verify::volume(image, &Scratch::new("orphans-verified")).expect("sound");
}

/// Returns the `statfs` of the volume after xfskit has opened it for writing.
fn recovered(image: &Image) -> Statfs {
    let fs = open(image);
    let statfs = fs.statfs();
    fs.close().expect("close");
    verified(image);
    statfs
}

#[test]
fn the_kernel_frees_unlinked_inodes_that_xfskit_left() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("orphans");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    ours::mkfs(&image, &["-m", "rmapbt=1"]).expect("mkfs");
    let fs = open(&image);
    file(&fs, "stays", b'a').close().expect("close");
    fs.sync().expect("sync");
    let before = fs.statfs();
    // On many unlinked lists, and several inodes on one list.
    for n in 0..200 {
        let handle = file(&fs, "goes", b'b');
        let ino = handle.ino();
        if n % 50 == 0 {
            let name = format!("user.{}", "x".repeat(100));
            let value = vec![1; 30_000];
            fs.set_xattr(ino, name.as_bytes(), &value, xfskit::raw::vfs::SetMode::Any)
                .expect("xattr");
        }
        handle.close().expect("close");
        std::mem::forget(fs.hold(ino));
        fs.unlink(root(&fs), b"goes").expect("unlink");
    }
    fs.sync().expect("sync");
    let (by_us, by_kernel) = (image.copy("us.img"), image.copy("kernel.img"));
    assert_eq!(recovered(&by_us).blocks_free, before.blocks_free);
    Mount::recover(&by_kernel, &scratch).expect("mount");
    verified(&by_kernel);
    // The kernel keeps some empty inode chunks.
    let free = recovered(&by_kernel).blocks_free;
    assert!(before.blocks_free - free < 200, "{free}, expected {}", before.blocks_free);
}

#[test]
fn the_kernel_reads_files_that_xfskit_shared_and_unshared() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("sharing");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    ours::mkfs(&image, &["-m", "rmapbt=1"]).expect("mkfs");
    let fs = open(&image);
    let (a, b) = (file(&fs, "a", b'a'), file(&fs, "b", b'b'));
    b.share(8192, &a, 0..65536).expect("share");
    b.unshare(16384..20480).expect("unshare");
    a.write(40000, b"changed").expect("write");
    a.copy_range(100_000, &b, 30_000..90_000).expect("copy");
    let mut expected = [vec![b'a'; LEN], vec![b'b'; LEN]];
    expected[1][8192..8192 + 65536].fill(b'a');
    expected[0][40000..40007].copy_from_slice(b"changed");
    let piece = expected[1][30_000..90_000].to_vec();
    expected[0][100_000..160_000].copy_from_slice(&piece);
    drop((a, b));
    fs.close().expect("close");
    verified(&image);
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    for (name, content) in ["a", "b"].into_iter().zip(expected) {
        assert!(fs::read(mount.path().join(name)).expect("read") == content, "{name}");
        fs::remove_file(mount.path().join(name)).expect("remove");
    }
    mount.unmount().expect("unmount");
    verified(&image);
}
