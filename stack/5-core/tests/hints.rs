//! Extent size hints, for file data and for copies on write: the same operations by xfskit and by
//! Linux, each in a file of its own, leave the same extents.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::file::Content;
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::Fork;
use xfskit_format::timestamp::Timestamp;
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, needs, ours};
use xfskit_units::{ByteOffset, Ino};

const NOW: Timestamp = Timestamp { sec: 1_800_000_000, nsec: 5 };
const BLOCK: u64 = 4096;

/// An operation on a file, in blocks: the first one, and how many.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write(u64, u64),
    Preallocate(u64, u64),
    Punch(u64, u64),
}

use Act::{Preallocate, Punch, Write};

/// Runs a command of xfsprogs or coreutils.
fn run(program: &str, arguments: &[&str], file: &Path) {
    let answer = Command::new(program).args(arguments).arg(file).output().unwrap();
    assert!(answer.status.success(), "{program} {arguments:?}: {answer:?}");
}

fn ours(vol: &Volume, file: &Arc<Content>, act: Act) {
    let bytes = |at: u64, len: u64| ByteOffset(at * BLOCK)..ByteOffset((at + len) * BLOCK);
    let done = match act {
        Write(at, len) => {
            let content = vec![7; usize::try_from(len * BLOCK).unwrap()];
            let written = file.write(vol, ByteOffset(at * BLOCK), &content, NOW);
            written.and_then(|()| file.flush(vol))
        }
        Preallocate(at, len) => file.preallocate(vol, bytes(at, len), false, NOW),
        Punch(at, len) => file.punch(vol, bytes(at, len), NOW),
    };
    done.unwrap_or_else(|error| panic!("{act:?}: {error}"));
}

/// `file` is the file at `path`, and stays open: closing it would free what lies behind its end.
fn linux(path: &Path, file: &File, act: Act) {
    let range = |at: u64, len: u64| format!("{} {}", at * BLOCK, len * BLOCK);
    let xfs_io = |command: String| run("xfs_io", &["-c", &command], path);
    match act {
        Write(at, len) => {
            let content = vec![7; usize::try_from(len * BLOCK).unwrap()];
            file.write_all_at(&content, at * BLOCK).unwrap();
            file.sync_all().unwrap();
        }
        Preallocate(at, len) => xfs_io(format!("falloc {}", range(at, len))),
        Punch(at, len) => xfs_io(format!("fpunch {}", range(at, len))),
    }
}

/// Extents of a file: where in it, how long, unwritten or not.
fn extents(vol: &Volume, ino: Ino) -> Vec<(u64, u64, bool)> {
    let list = vol.extents(&vol.iget(ino).unwrap(), Fork::Data).unwrap();
    list.as_slice().iter().map(|e| (e.startoff.0, e.blockcount.0, e.unwritten)).collect()
}

fn open(image: &Image<'_>, write: bool) -> Volume {
    let mode = if write { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    let dev = FileDevice::open(image.path(), mode).unwrap();
    Volume::open(Arc::new(dev), &OpenOptions { write, ..OpenOptions::default() }).unwrap()
}

/// Makes two equal files with `prepare`, has us act on one and Linux on the other, and compares.
fn compare(name: &str, prepare: impl Fn(&Path), acts: &[Act]) {
    let scratch = Scratch::new(name);
    let image = Image::sparse(&scratch, "volume.img", 256 << 20);
    let tools = Xfsprogs::installed().unwrap();
    tools.mkfs(&image, &["-m", "rmapbt=1,reflink=1", "-d", "agcount=2"]).unwrap();
    let mount = Mount::read_write(&image, &scratch).unwrap();
    let inos = ["ours", "linux"].map(|name| {
        let path = mount.path().join(name);
        prepare(&path);
        Ino(path.metadata().unwrap().ino())
    });
    mount.unmount().unwrap();

    let vol = open(&image, true);
    let file = vol.open_content(inos[0]).unwrap();
    for &act in acts {
        ours(&vol, &file, act);
    }
    vol.close_content(file).unwrap();
    vol.close().unwrap();

    let mount = Mount::read_write(&image, &scratch).unwrap();
    let path = mount.path().join("linux");
    let file = File::options().write(true).open(&path).unwrap();
    for &act in acts {
        linux(&path, &file, act);
    }
    drop(file);
    let [a, b] = ["ours", "linux"].map(|name| std::fs::read(mount.path().join(name)).unwrap());
    assert!(a == b, "{name}: content");
    mount.unmount().unwrap();

    let vol = open(&image, false);
    let [a, b] = inos.map(|ino| extents(&vol, ino));
    assert_eq!(a, b, "{name}: extents, ours and those of Linux");
    drop(vol);
    for tools in Xfsprogs::all() {
        tools.repair_n(&image, &[]).unwrap();
    }
    let report = ours::check(&image);
    assert!(report.is_clean(), "{name}: {report:#?}");
}

#[test]
fn what_an_extent_size_hint_asks_for_is_allocated_together() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let hinted = |size: &'static str| {
        move |path: &Path| run("xfs_io", &["-f", "-c", &format!("extsize {size}")], path)
    };
    let writes = [Write(5, 1), Write(40, 10), Write(100, 1), Write(112, 1), Write(47, 2)];
    compare("writes", hinted("64k"), &writes);
    let moved = [Write(0, 256), Punch(75, 50), Write(77, 1), Punch(150, 27), Write(165, 1)];
    compare("moved", hinted("64k"), &moved);
    let falloc = [Preallocate(25, 2), Preallocate(63, 2), Write(128, 128), Punch(150, 27)];
    compare("preallocated", hinted("64k"), &falloc);
    compare("filled", hinted("64k"), &[falloc.as_slice(), &[Preallocate(165, 1)]].concat());
    compare("odd", hinted("28k"), &[Preallocate(15, 2), Write(40, 1), Preallocate(36, 20)]);
}

#[test]
fn what_is_written_around_a_copied_block_joins_it() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let shared = |path: &Path| {
        let source = path.with_extension("source");
        run("xfs_io", &["-f", "-c", "pwrite -q 0 1m", "-c", "fsync"], &source);
        let status = Command::new("cp").arg("--reflink=always").args([&source, path]).status();
        assert!(status.unwrap().success());
        run("xfs_io", &["-c", "cowextsize 64k"], path);
    };
    compare("one", shared, &[Write(25, 2)]);
    // Written bit by bit, in any order: one extent in the end.
    let unit = [30, 17, 31, 24, 16, 20, 27, 18, 29, 19, 23, 25, 28, 22, 26, 21];
    compare("unit", shared, &unit.map(|at| Write(at, 1)));
    compare("across", shared, &[Write(15, 2), Write(17, 3), Write(8, 7)]);
    compare("hole", shared, &[Punch(16, 4), Write(25, 2), Write(17, 1), Write(20, 12)]);
    compare("end", shared, &[Write(255, 1), Write(250, 1), Write(251, 4)]);
    compare("cut", shared, &[Write(25, 1), Punch(20, 20), Write(22, 10), Preallocate(16, 30)]);
}
