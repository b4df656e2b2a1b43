//! Directory blocks of several extents in the journal. Linux cannot recover these; xfskit must.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, statvfs, syncfs};
use xfskit_block::BlockDevice;
use xfskit_format::bmbt::{Rec, records};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::log::Stamp;
use xfskit_format::log::item::encode::{self, BufAddr};
use xfskit_log::{FlushBefore, Payload};
use xfskit_test_recovery::{JournalOnly, compare, complaints, replay_in_place, shown};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, kernel, needs, verify};
use xfskit_units::{ByteOffset, Ino, index};

/// Leaves free space in single blocks only: a file takes all blocks, then every other block is
/// freed.
fn shatter(root: &Path) {
    run(&["xfs_io", "-x", "-c", "resblks 0"], root);
    let file = File::create(root.join("shattered")).expect("a file");
    let block = statvfs(root).expect("statvfs").f_frsize;
    let mut len = 0;
    for size in [64 << 20, 8 << 20, 1 << 20, 128 << 10, 16 << 10] {
        while fallocate(&file, FallocateFlags::empty(), len, size).is_ok() {
            len += size;
        }
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for n in 0..len / (2 * block) {
        fallocate(&file, punch, 2 * n * block, block).expect("punched");
    }
    // The kernel reserves some blocks. They become available now that there is free space again,
    // the longest extents first.
    let rest = File::create(root.join("rest")).expect("a file");
    for n in 0..16 {
        fallocate(&rest, FallocateFlags::empty(), n << 20, 1 << 20).expect("allocated");
    }
}

fn link_many(root: &Path, name: &str, count: usize) {
    let dir = root.join(name);
    for n in 0..count {
        let from = root.join(format!("pool/{n}"));
        let to = dir.join(format!("{n:04}-a-name-that-is-long-enough-to-fill-the-blocks-soon"));
        fs::hard_link(from, to).expect("linked");
    }
}

#[test]
fn directory_blocks_of_several_extents_are_recovered() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    for dirblock in ["8192", "16384", "65536"] {
        let scratch = Scratch::new("pieces");
        let image = Image::sparse(&scratch, "image", 160 << 20);
        let tools = Xfsprogs::installed().expect("xfsprogs");
        let options = ["-n", &format!("size={dirblock}"), "-d", "agcount=2"];
        tools.mkfs(&image, &options).expect("mkfs");
        let mount = Mount::read_write_with(&image, &scratch, "noatime").expect("mount");
        let root = mount.path();
        let counts = [3, 100, 700, 2500];
        fs::create_dir(root.join("pool")).expect("a directory");
        for n in 0..2500 {
            File::create(root.join(format!("pool/{n}"))).expect("a file");
        }
        for count in counts {
            fs::create_dir(root.join(format!("dir{count}"))).expect("a directory");
        }
        shatter(root);
        // Half of the block reaches its place before the crash, so that only some extents are
        // logged.
        for (i, count) in counts.into_iter().enumerate() {
            link_many(root, &format!("dir{count}"), if i % 2 == 0 { count } else { count / 2 });
        }
        syncfs(File::open(root).expect("open")).expect("sync");
        run(&["xfs_freeze", "-f"], root);
        run(&["xfs_freeze", "-u"], root);
        for (i, count) in counts.into_iter().enumerate() {
            let dir = root.join(format!("dir{count}"));
            if i % 2 == 1 {
                fs::remove_dir_all(&dir).expect("removed");
                fs::create_dir(&dir).expect("made again");
                link_many(root, &format!("dir{count}"), count);
            } else if let Some(entry) = fs::read_dir(&dir).expect("listed").nth(count / 2) {
                let path = entry.expect("an entry").path();
                fs::rename(&path, path.with_extension("renamed")).expect("renamed");
            }
        }
        let expected = kernel::manifest(root);
        mount.shutdown(true).expect("shutdown");
        mount.unmount().expect("unmount");

        let kernels = image.copy("kernels.img");
        let refused = Mount::recover(&kernels, &scratch).is_err();
        let replay = replay_in_place(&image).unwrap_or_else(|why| panic!("{dirblock}: {why}"));
        eprintln!("{dirblock}: {:?}; the kernel refused: {refused}", replay.items);
        assert_eq!(complaints(&tools, &image), "", "{dirblock}");
        let differences = expected.differences(&shown(&image, &scratch), 20);
        assert!(differences.is_empty(), "{dirblock}:\n{}", differences.join("\n"));
        verify::volume(&image, &scratch).unwrap_or_else(|why| panic!("{dirblock}: {why}"));
    }
}

/// Returns the blocks of directory `ino` that consist of several extents: the extents, and all
/// bytes.
fn blocks_in_pieces(volume: &JournalOnly, ino: Ino) -> Vec<(Vec<BufAddr>, Vec<u8>)> {
    let geo = &volume.geo;
    let image = volume.inode(ino);
    let inode = Dinode::parse(&image, geo).expect("an inode");
    assert_eq!(inode.format(), Some(Format::Extents), "extents in the inode");
    let extents = records(inode.data_fork(), index(inode.nextents()));
    let mut blocks: BTreeMap<u64, Vec<BufAddr>> = BTreeMap::new();
    for extent in extents.iter().map(Rec::decode) {
        for n in 0..extent.blockcount.0 {
            let fsbno = extent.startblock.checked_add(n).expect("a block");
            let daddr = geo.fsb_to_daddr(fsbno).expect("on the volume");
            let block = (extent.startoff.0 + n) / u64::from(geo.dirblkfsbs());
            let pieces = blocks.entry(block).or_default();
            match pieces.last_mut() {
                Some((start, len)) if start.0 + len.0 == daddr.0 => len.0 += geo.block_sectors().0,
                _ => pieces.push((daddr, geo.block_sectors())),
            }
        }
    }
    let in_pieces = blocks.into_values().filter(|pieces| pieces.len() > 1);
    in_pieces.map(|p| (p.clone(), p.iter().flat_map(|&at| volume.read(at)).collect())).collect()
}

#[test]
fn the_kernel_recovers_directory_blocks_of_several_extents_that_xfskit_logged() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("our-pieces");
    let image = Image::sparse(&scratch, "image", 160 << 20);
    let tools = Xfsprogs::installed().expect("xfsprogs");
    tools.mkfs(&image, &["-n", "size=16384", "-d", "agcount=2"]).expect("mkfs");
    let mount = Mount::read_write_with(&image, &scratch, "noatime").expect("mount");
    let root = mount.path();
    fs::create_dir(root.join("pool")).expect("a directory");
    for n in 0..260 {
        File::create(root.join(format!("pool/{n}"))).expect("a file");
    }
    for count in [100, 260] {
        fs::create_dir(root.join(format!("dir{count}"))).expect("a directory");
    }
    shatter(root);
    for count in [100, 260] {
        link_many(root, &format!("dir{count}"), count);
    }
    let dirs = [100, 260].map(|count| {
        Ino(fs::metadata(root.join(format!("dir{count}"))).expect("a directory").ino())
    });
    mount.unmount().expect("unmount");

    let mut volume = JournalOnly::open(&image, 32 * 1024);
    let mut out = Payload::new();
    let lsn = volume.writer.next_lsn();
    let mut firsts = Vec::new();
    for block in dirs.iter().flat_map(|&ino| blocks_in_pieces(&volume, ino)) {
        let (pieces, bytes) = block;
        // Changes part of a later extent, and the end; the rest stays.
        let changed = [5120..5376, 16256..16384];
        encode::buf(&mut out, &volume.geo, &bytes, &pieces, &changed, lsn);
        // Makes the content in place worthless.
        let mut at = 0;
        for &(daddr, len) in &pieces {
            let end = at + index(len.byte_len().0);
            for run in changed.iter().filter(|run| at <= run.start && run.end <= end) {
                let offset = ByteOffset(daddr.byte_offset().0 + (run.start - at) as u64);
                volume.dev.write_at(offset, &vec![0xee; run.len()]).expect("written");
            }
            at = end;
        }
        firsts.push(pieces[0]);
    }
    assert!(firsts.len() > 2, "{} blocks in pieces", firsts.len());
    let tail = volume.writer.next_lsn();
    volume.writer.append(&out, tail, FlushBefore::Data).expect("appended");
    drop(volume);

    compare("our-pieces", &image, &scratch);
    let theirs = image.copy("kernels.img");
    Mount::recover(&theirs, &scratch).expect("recovered");
    assert_eq!(complaints(&tools, &theirs), "");
    let recovered = JournalOnly::open(&theirs, 32 * 1024);
    for first in firsts {
        let bytes = recovered.read(first);
        let stamp = Stamp::of(&bytes, &recovered.geo).expect("a directory block");
        assert_eq!(stamp.lsn(&bytes), lsn);
    }
}

/// Runs a command on the mounted volume.
fn run(command: &[&str], root: &Path) {
    let out = Command::new(command[0]).args(&command[1..]).arg(root).output();
    assert!(out.expect("installed").status.success(), "{command:?}");
}
