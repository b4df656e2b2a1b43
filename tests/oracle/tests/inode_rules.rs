//! xfskit calls an inode corrupt by the kernel's rules. Single fields of sound inodes are changed,
//! with valid checksums, and the results of both are compared.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::Fork;
use xfskit_format::inode::{CoreV3, InodeFlags, InodeFlags2, InodeMut, stamp};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, needs};
use xfskit_units::{ByteOffset, Ino};

/// A file, the name of the change, and the change.
type Case = (&'static str, &'static str, fn(&mut CoreV3));

const EUCLEAN: i32 = 117;
/// Flags of every new inode on the test's volume.
const NEW: InodeFlags2 = InodeFlags2::BIGTIME.union(InodeFlags2::NREXT64);

#[rustfmt::skip] // a table
const CASES: &[Case] = &[
    ("file", "nothing", |_| ()),
    ("file", "onlink 1", |i| i.core.onlink = 1.into()),
    ("file", "no links", |i| i.core.nlinkv2 = 0.into()),
    ("file", "2^31 links", |i| i.core.nlinkv2 = (1 << 31).into()),
    ("file", "no blocks", |i| i.core.nblocks = 0.into()),
    ("file", "no extents", |i| i.core.big_nextents = 0.into()),
    ("file", "neither", |i| { i.core.big_nextents = 0.into(); i.core.nblocks = 0.into(); }),
    ("file", "size 2^63", |i| i.core.size = (1 << 63).into()),
    ("file", "size 2^62", |i| i.core.size = (1 << 62).into()),
    ("file", "flag 15", |i| i.core.flags = 0x8000.into()),
    ("file", "realtime", |i| i.core.flags = InodeFlags::REALTIME.bits().into()),
    ("file", "extsize unflagged", |i| i.core.extsize = 4.into()),
    ("file", "extsize 0", |i| i.core.flags = InodeFlags::EXTSIZE.bits().into()),
    ("file", "extsize", |i| { i.core.flags = InodeFlags::EXTSIZE.bits().into(); i.core.extsize = 4.into(); }),
    ("file", "extsize large", |i| { i.core.flags = InodeFlags::EXTSIZE.bits().into(); i.core.extsize = 40000.into(); }),
    ("file", "extszinherit", |i| { i.core.flags = InodeFlags::EXTSZINHERIT.bits().into(); i.core.extsize = 4.into(); }),
    ("file", "reflink", |i| i.flags2 = (NEW | InodeFlags2::REFLINK).bits().into()),
    ("file", "dax", |i| i.flags2 = (NEW | InodeFlags2::DAX).bits().into()),
    ("file", "flags2 bit 7", |i| i.flags2 = (NEW.bits() | 1 << 7).into()),
    ("file", "metadata", |i| i.flags2 = (NEW | InodeFlags2::METADATA).bits().into()),
    ("file", "cowextsize 0", |i| i.flags2 = (NEW | InodeFlags2::COWEXTSIZE).bits().into()),
    ("file", "cowextsize unflagged", |i| i.cowextsize = 4.into()),
    ("file", "cowextsize", |i| { i.flags2 = (NEW | InodeFlags2::COWEXTSIZE).bits().into(); i.cowextsize = 4.into(); }),
    ("file", "cowextsize large", |i| { i.flags2 = (NEW | InodeFlags2::COWEXTSIZE).bits().into(); i.cowextsize = 40000.into(); }),
    ("file", "pad2", |i| i.pad2 = [1; 12]),
    ("file", "lsn", |i| i.lsn = (1 << 60).into()),
    ("file", "next_unlinked 0", |i| i.core.next_unlinked = 0.into()),
    ("file", "next_unlinked 5", |i| i.core.next_unlinked = 5.into()),
    ("file", "nrext64_pad", |i| i.core.naextents = 1.into()),
    ("file", "old counters", |i| { i.flags2 = InodeFlags2::BIGTIME.bits().into(); i.core.nextents = 1.into(); i.core.big_nextents = 0.into(); }),
    ("file", "v3_pad", |i| i.flags2 = InodeFlags2::BIGTIME.bits().into()),
    ("file", "forkoff 42", |i| i.core.forkoff = 42),
    ("file", "forkoff 1", |i| i.core.forkoff = 1),
    ("file", "forkoff 0", |i| i.core.forkoff = 0),
    ("file", "no attribute fork", |i| { i.core.forkoff = 0; i.core.aformat = 2; }),
    ("file", "aformat dev", |i| i.core.aformat = 0),
    ("file", "aformat extents", |i| i.core.aformat = 2),
    ("file", "aformat btree", |i| i.core.aformat = 3),
    ("file", "aformat 9", |i| i.core.aformat = 9),
    ("file", "extents of local attributes", |i| { i.core.nextents = 1.into(); i.core.nblocks = 2.into(); }),
    ("file", "format dev", |i| i.core.format = 0),
    ("file", "format local", |i| i.core.format = 1),
    ("file", "format btree", |i| i.core.format = 3),
    ("file", "format meta btree", |i| i.core.format = 5),
    ("file", "mode of no type", |i| i.core.mode = 0o644.into()),
    ("file", "mode of an unknown type", |i| i.core.mode = 0o160_644.into()),
    ("file", "times beyond the end", |i| i.core.atime = u64::MAX.into()),
    ("symlink", "empty", |i| i.core.size = 0.into()),
    ("symlink", "longer than the fork", |i| i.core.size = 400.into()),
    ("symlink", "reflink", |i| i.flags2 = (NEW | InodeFlags2::REFLINK).bits().into()),
    ("symlink", "extsize", |i| { i.core.flags = InodeFlags::EXTSIZE.bits().into(); i.core.extsize = 4.into(); }),
    ("remote", "empty", |i| i.core.size = 0.into()),
    ("remote", "local", |i| i.core.format = 1),
    ("remote", "btree", |i| i.core.format = 3),
    ("fifo", "a size", |i| i.core.size = 5.into()),
    ("fifo", "forkoff 2", |i| i.core.forkoff = 2),
    ("fifo", "format extents", |i| i.core.format = 2),
    ("fifo", "blocks", |i| i.core.nblocks = 1.into()),
    ("fifo", "extents", |i| { i.core.big_nextents = 1.into(); i.core.nblocks = 1.into(); }),
    ("dir", "empty", |i| i.core.size = 0.into()),
    ("dir", "longer than the fork", |i| i.core.size = 400.into()),
    ("dir", "short and not local", |i| i.core.format = 2),
    ("dir", "long and not local", |i| { i.core.format = 2; i.core.size = 4096.into(); }),
    ("dir", "too many extents", |i| { i.core.big_nextents = (1 << 40).into(); i.core.nblocks = (1 << 40).into(); }),
    ("dir", "extszinherit", |i| { i.core.flags = InodeFlags::EXTSZINHERIT.bits().into(); i.core.extsize = 4.into(); }),
    ("dir", "extszinherit 0", |i| i.core.flags = InodeFlags::EXTSZINHERIT.bits().into()),
    ("dir", "extsize", |i| { i.core.flags = InodeFlags::EXTSIZE.bits().into(); i.core.extsize = 4.into(); }),
    ("dir", "reflink", |i| i.flags2 = (NEW | InodeFlags2::REFLINK).bits().into()),
    ("dir", "cowextsize", |i| { i.flags2 = (NEW | InodeFlags2::COWEXTSIZE).bits().into(); i.cowextsize = 4.into(); }),
    ("btree", "few extents", |i| i.core.big_nextents = 12.into()),
    ("btree", "few blocks", |i| i.core.nblocks = 20.into()),
];

fn fill(root: &Path) {
    fs::write(root.join("file"), "content").unwrap();
    let setfattr = ["-n", "user.a", "-v", "b"];
    let status = Command::new("setfattr").args(setfattr).arg(root.join("file")).status();
    assert!(status.is_ok_and(|status| status.success()), "setfattr");
    symlink("short", root.join("symlink")).unwrap();
    symlink("a".repeat(400), root.join("remote")).unwrap();
    let fifo = Command::new("mkfifo").arg(root.join("fifo")).status();
    assert!(fifo.is_ok_and(|status| status.success()), "mkfifo");
    fs::create_dir(root.join("dir")).unwrap();
    let sparse = File::create(root.join("btree")).unwrap();
    for block in 0..100 {
        sparse.write_all_at(b"x", block * 8192).unwrap();
    }
}

/// Returns whether the kernel accepts the inode. If it refuses the whole cluster, even the mount
/// may fail.
fn kernel_accepts(image: &Image, scratch: &Scratch, name: &str) -> bool {
    let Ok(mount) = Mount::read_only(image, scratch) else { return false };
    match fs::symlink_metadata(mount.path().join(name)) {
        Ok(_) => true,
        Err(err) if err.raw_os_error() == Some(EUCLEAN) => false,
        Err(err) => panic!("{name}: {err}"),
    }
}

/// Returns whether xfskit accepts the inode, or why not.
fn xfskit_accepts(image: &Image, ino: Ino) -> Result<(), String> {
    let dev = FileDevice::open(image.path(), OpenMode::ReadOnly).unwrap();
    let vol = Volume::open(Arc::new(dev), &OpenOptions::default()).unwrap();
    let result = vol.iget(ino).and_then(|inode| {
        vol.extents(&inode, Fork::Data)?;
        vol.extents(&inode, Fork::Attr)
    });
    result.map(drop).map_err(|err| err.to_string())
}

#[test]
fn xfskit_and_the_kernel_reject_the_same_inodes() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("inode-rules");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    let options = ["-m", "reflink=1,bigtime=1", "-i", "nrext64=1"];
    Xfsprogs::installed().expect("needed").mkfs(&image, &options).unwrap();
    let mount = Mount::read_write(&image, &scratch).unwrap();
    fill(mount.path());
    let names = ["file", "symlink", "remote", "fifo", "dir", "btree"];
    let numbers: Vec<(&str, Ino)> = names
        .map(|name| (name, Ino(fs::symlink_metadata(mount.path().join(name)).unwrap().ino())))
        .into();
    mount.unmount().unwrap();

    let file = File::options().read(true).write(true).open(image.path()).unwrap();
    let dev = FileDevice::open(image.path(), OpenMode::ReadOnly).unwrap();
    let vol = Volume::open(Arc::new(dev), &OpenOptions::default()).unwrap();
    let mut wrong = Vec::new();
    for (name, what, change) in CASES {
        let ino = numbers.iter().find(|(known, _)| known == name).unwrap().1;
        let ByteOffset(at) = vol.geo().ino_to_byte(ino).unwrap();
        let mut sound = vec![0; vol.geo().inodesize()];
        file.read_exact_at(&mut sound, at).unwrap();
        let mut changed = sound.clone();
        change(InodeMut::new(&mut changed).unwrap().core);
        stamp(&mut changed);
        file.write_all_at(&changed, at).unwrap();
        let (kernel, ours) = (kernel_accepts(&image, &scratch, name), xfskit_accepts(&image, ino));
        file.write_all_at(&sound, at).unwrap();
        if kernel != ours.is_ok() {
            wrong.push(format!("{name}, {what}: the kernel accepts: {kernel}; xfskit: {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}
