//! A directory block torn by a power failure while it was written in place: the first sectors are
//! new, including the LSN, the others old.
//!
//! Linux trusts the LSN, skips the block's log items, and refuses the block and the volume. That
//! can happen to its own volumes if a metadata block is longer than the disk's atomic write. xfskit
//! trusts the checksum.
//!
//! The superblock is one sector and locates the journal. Both rely on the disk to write it whole.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_format::bmbt::records;
use xfskit_format::inode::Dinode;
use xfskit_test_recovery::{JournalOnly, complaints, open, recover, shown};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, kernel, needs, ours};
use xfskit_units::{ByteOffset, Ino};

/// Bytes of the block that arrived.
const SECTOR: usize = 512;

/// Formats and mounts a new volume.
fn fresh<'s>(scratch: &'s Scratch, options: &[&str]) -> (Xfsprogs, Image<'s>, Mount) {
    let image = Image::sparse(scratch, "image", 160 << 20);
    let tools = Xfsprogs::installed().expect("xfsprogs");
    tools.mkfs(&image, &[&["-d", "agcount=2"], options].concat()).expect("mkfs");
    let mount = Mount::read_write_with(&image, scratch, "noatime").expect("mount");
    (tools, image, mount)
}

#[test]
fn a_directory_block_torn_in_place_is_recovered_where_linux_refuses_the_volume() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("torn");
    let (tools, image, mount) = fresh(&scratch, &["-b", "size=1024"]);
    let path = mount.path().join("dir");
    fs::create_dir(&path).expect("a directory");
    let dir = Ino(fs::metadata(&path).expect("a directory").ino());
    for n in 0..30 {
        File::create(path.join(format!("old{n}"))).expect("a file");
    }
    // The block is written in place, and no longer needed in the journal.
    mount.unmount().expect("unmount");
    let mount = Mount::read_write_with(&image, &scratch, "noatime").expect("mount");
    for n in 0..30 {
        let [old, new] = ["old", "new"].map(|kind| mount.path().join(format!("dir/{kind}{n}")));
        fs::rename(old, new).expect("renamed");
    }
    let expected = kernel::manifest(mount.path());
    mount.shutdown(true).expect("shutdown");
    mount.unmount().expect("unmount");

    // The journal holds this change of the block, of which a part arrives in place.
    let theirs = image.copy("theirs.img");
    Mount::recover(&theirs, &scratch).expect("a whole one is recovered");
    let recovered = JournalOnly::open(&theirs, 32 * 1024);
    let inode = recovered.inode(dir);
    let inode = Dinode::parse(&inode, &recovered.geo).expect("an inode");
    let first = records(inode.data_fork(), 1)[0].decode().startblock;
    let daddr = recovered.geo.fsb_to_daddr(first).expect("on the volume");
    let mut sector = [0; SECTOR];
    open(theirs.path(), OpenMode::ReadOnly)
        .read_at(daddr.byte_offset(), &mut sector)
        .expect("readable");
    let torn = open(image.path(), OpenMode::ReadWrite);
    torn.write_at(daddr.byte_offset(), &sector).expect("written");
    drop(torn);

    let refused = Mount::recover(&image.copy("torn.img"), &scratch).is_err();
    eprintln!("the kernel refused: {refused}");
    let in_memory = ours::differences(&image, &expected);
    assert!(in_memory.is_empty(), "{}", in_memory.join("\n"));
    recover(&image).expect("recovered");
    assert_eq!(complaints(&tools, &image), "");
    let differences = expected.differences(&shown(&image, &scratch), 20);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// End of an inode's LSN, in bytes.
const LSN_END: u64 = 120;

#[test]
fn an_inode_torn_within_its_lsn_is_recovered_where_linux_skips_its_change() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("torn-inode");
    let (tools, image, mount) = fresh(&scratch, &[]);
    fs::write(mount.path().join("file"), b"one").expect("a file");
    let ino = Ino(fs::metadata(mount.path().join("file")).expect("a file").ino());
    mount.unmount().expect("unmount");
    let geo = JournalOnly::open(&image, 32 * 1024).geo;
    let mount = Mount::read_write_with(&image, &scratch, "noatime").expect("mount");
    let mode = Permissions::from_mode(0o751);
    fs::set_permissions(mount.path().join("file"), mode).expect("changed");
    let expected = kernel::manifest(mount.path());
    mount.shutdown(true).expect("shutdown");
    mount.unmount().expect("unmount");

    // The LSN grows from 0x..10ff to 0x..1101, and all but its last byte arrives: 0x..11ff, ahead
    // of the journal's.
    let inode = geo.ino_to_byte(ino).expect("on the volume");
    let torn = open(image.path(), OpenMode::ReadWrite);
    torn.write_at(inode.saturating_add(LSN_END - 4), &[0, 1, 0xff, 0xff]).expect("written");
    drop(torn);

    let theirs = image.copy("theirs.img");
    Mount::recover(&theirs, &scratch).expect("the kernel recovers it");
    let theirs = shown(&theirs, &scratch);
    eprintln!("the kernel: {}", expected.differences(&theirs, 20).join("; "));
    let in_memory = ours::differences(&image, &expected);
    assert!(in_memory.is_empty(), "{}", in_memory.join("\n"));
    recover(&image).expect("recovered");
    assert_eq!(complaints(&tools, &image), "");
    let differences = expected.differences(&shown(&image, &scratch), 20);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Offset of the inode count in a superblock, in bytes.
const ICOUNT: u64 = 128;

#[test]
fn a_torn_superblock_is_refused_by_linux_and_xfskit_and_left_unchanged() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("torn-sb");
    let (_, image, mount) = fresh(&scratch, &[]);
    File::create(mount.path().join("file")).expect("a file");
    let expected = kernel::manifest(mount.path());
    mount.shutdown(true).expect("shutdown");
    mount.unmount().expect("unmount");

    let put = |bytes: &[u8]| {
        let dev = open(image.path(), OpenMode::ReadWrite);
        dev.write_at(ByteOffset(ICOUNT), bytes).expect("written");
    };
    let mut before = [0; 8];
    let dev = open(image.path(), OpenMode::ReadOnly);
    dev.read_at(ByteOffset(ICOUNT), &mut before).expect("readable");
    drop(dev);
    put(&[0xee; 8]);
    let torn = fs::read(image.path()).expect("readable");
    assert!(Mount::recover(&image.copy("theirs.img"), &scratch).is_err());
    let why = recover(&image).expect_err("refused").to_string();
    assert!(why.contains("crc"), "{why}");
    assert!(fs::read(image.path()).expect("readable") == torn, "nothing was written");

    // With the superblock restored, the journal is replayed.
    put(&before);
    recover(&image).expect("recovered");
    let differences = expected.differences(&shown(&image, &scratch), 20);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
