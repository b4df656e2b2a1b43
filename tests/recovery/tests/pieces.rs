//! Directory blocks in several pieces, in the journal. Linux cannot recover these; we must.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, statvfs, syncfs};
use xfskit_test_oracle::need::Need;
use xfskit_test_oracle::{Image, Mount, Scratch, Xfsprogs, kernel, needs};
use xfskit_test_recovery::{complaints, replay_in_place, shown};

/// Leaves free space in single blocks only: a file takes all, then gives every other block back.
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
    // The kernel keeps a little back from files; now that there is free space again, it comes out,
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
fn directory_blocks_in_pieces_are_recovered_whole() {
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
        // Half of it reaches its place before the crash, so that only some pieces are logged.
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
    }
}

/// Runs a command on the mounted volume.
fn run(command: &[&str], root: &Path) {
    let out = Command::new(command[0]).args(&command[1..]).arg(root).output();
    assert!(out.expect("installed").status.success(), "{command:?}");
}
