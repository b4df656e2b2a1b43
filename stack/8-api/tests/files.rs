//! Open files: as std::fs::File, and beyond it.

use std::io::{BufRead, BufReader, ErrorKind as Io, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{kept, made, reopened};
use xfskit::{ErrorKind, File, OpenOptions, Volume};

#[test]
fn a_file_is_a_stream_that_outlives_every_other_reference_to_its_volume() {
    let (dir, volume) = kept();
    let open = |path: &str| volume.open_file(path).unwrap();
    let (small, hole) = (open("/sf/a"), open("/hole"));
    drop(volume);
    let read = std::thread::spawn(move || {
        let lines: Vec<_> = BufReader::new(small).lines().map(Result::unwrap).collect();
        assert_eq!(lines, ["hello"]);
        let mut end = String::new();
        (&hole).seek(SeekFrom::End(-6)).unwrap();
        (&hole).read_to_string(&mut end).unwrap();
        assert_eq!(end, "\0\0end\n");
        assert_eq!(hole.seek_data(0).unwrap(), Some(1 << 20));
        assert_eq!(hole.seek_hole(1 << 20).unwrap(), Some((1 << 20) + 4));
        assert_eq!(hole.seek_hole(0).unwrap(), Some(0));
        assert_eq!(hole.seek_data((1 << 20) + 4).unwrap(), None);
    });
    read.join().unwrap();
    drop(dir);
}

/// Reads, writes and seeks in `file`. Returns the results.
fn both<F: Read + Write + Seek + FileExt>(file: &mut F) -> Vec<String> {
    let (mut log, mut buf) = (Vec::new(), [0; 10]);
    let mut say = |what: std::io::Result<u64>| log.push(format!("{what:?}"));
    say(file.write(b"hello world").map(|n| n as u64));
    say(file.seek(SeekFrom::Start(6)));
    say(file.write(b"there").map(|n| n as u64));
    say(file.seek(SeekFrom::Current(5)));
    say(file.write(b"!").map(|n| n as u64));
    say(file.seek(SeekFrom::End(-4)));
    say(file.read(&mut buf).map(|n| n as u64));
    say(Ok(u64::from_le_bytes(buf[..8].try_into().unwrap())));
    say(file.read(&mut buf).map(|n| n as u64));
    say(file.write_at(b"HE", 0).map(|n| n as u64));
    say(file.read_at(&mut buf, 1).map(|n| n as u64));
    say(Ok(u64::from_le_bytes(buf[..8].try_into().unwrap())));
    say(file.read_at(&mut buf, 1000).map(|n| n as u64));
    say(file.seek(SeekFrom::Start(1000)));
    say(file.read(&mut buf).map(|n| n as u64));
    say(file.stream_position());
    log
}

#[test]
fn reads_writes_and_seeks_are_those_of_the_standard_library() {
    let (_device, volume) = made();
    let dir = tempfile::tempdir().unwrap();
    let mut ours = volume.create_new("/f").unwrap();
    let mut theirs = std::fs::File::create_new(dir.path().join("f")).unwrap();
    assert_eq!(both(&mut ours), both(&mut theirs));
    let content = std::fs::read(dir.path().join("f")).unwrap();
    assert_eq!(volume.read("/f").unwrap(), content);
}

/// What an open came to: the bytes after one write, or the errno.
type Outcome = Result<Vec<u8>, Option<i32>>;

/// Whether each of read, write, append, truncate, create and create_new is asked for.
fn flags(bits: u32) -> [bool; 6] {
    std::array::from_fn(|n| bits >> n & 1 == 1)
}

fn ours(volume: &Volume, path: &str, bits: u32) -> Outcome {
    let [read, write, append, truncate, create, create_new] = flags(bits);
    let mut options = OpenOptions::new();
    options.read(read).write(write).append(append).truncate(truncate);
    options.create(create).create_new(create_new);
    let errno = |error: xfskit::Error| Some(error.errno());
    let file = volume.open_with(path, &options).map_err(errno)?;
    let written = (&file).write(b"new").is_ok();
    assert_eq!(written, write || append, "{path} {bits:b}");
    assert_eq!(file.read_at(&mut [0; 1], 0).is_ok(), read, "{path} {bits:b}");
    drop(file);
    volume.read(path).map_err(errno)
}

fn theirs(root: &Path, path: &str, bits: u32) -> Outcome {
    let [read, write, append, truncate, create, create_new] = flags(bits);
    let mut options = std::fs::OpenOptions::new();
    options.read(read).write(write).append(append).truncate(truncate);
    options.create(create).create_new(create_new);
    let path = root.join(path);
    let errno = |error: std::io::Error| match error.kind() {
        Io::InvalidInput => Some(22),
        _ => error.raw_os_error(),
    };
    let mut file = options.open(&path).map_err(errno)?;
    let _refused_where_not_opened_for_writing = file.write(b"new");
    std::fs::read(&path).map_err(errno)
}

#[test]
fn every_combination_of_open_options_does_what_the_standard_library_does() {
    let tried =
        ["file", "missing", "dir/missing", "link", "dangling", "far", "none/missing", "file/x"];
    for bits in 0..64 {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let (_device, volume) = made();
        std::fs::write(root.join("file"), "content").unwrap();
        volume.write("file", "content").unwrap();
        std::fs::create_dir(root.join("dir")).unwrap();
        volume.create_dir("dir").unwrap();
        for (target, link) in [("file", "link"), ("nowhere", "dangling"), ("dir/there", "far")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
            volume.symlink(target, link).unwrap();
        }
        for path in tried {
            let (ours, theirs) = (ours(&volume, path, bits), theirs(root, path, bits));
            assert_eq!(ours, theirs, "{path} {:?}", flags(bits));
        }
    }
}

#[test]
fn appends_by_many_threads_neither_overlap_nor_leave_gaps() {
    let (device, volume) = made();
    let append = |volume: &Volume| -> File {
        volume.open_with("/log", OpenOptions::new().append(true).create(true)).unwrap()
    };
    let shared = append(&volume);
    std::thread::scope(|scope| {
        for worker in 0..4_u8 {
            let (own, shared) = (append(&volume), &shared);
            scope.spawn(move || {
                for n in 0..500 {
                    let mut file = if n % 2 == 0 { &own } else { shared };
                    file.write_all(&[b'a' + worker; 37]).unwrap();
                }
            });
        }
    });
    drop(shared);
    volume.close().unwrap();
    let content = reopened(&device).read("/log").unwrap();
    assert_eq!(content.len(), 4 * 500 * 37);
    assert!(content.chunks(37).all(|line| line.iter().all(|&byte| byte == line[0])));
}

#[test]
fn content_is_shaped_shared_and_exchanged() {
    const BLOCK: u64 = 4096;
    let (device, volume) = made();
    volume.write("/f", [1; 3 * 4096]).unwrap();
    volume.write("/g", [2; 3 * 4096]).unwrap();
    let open = |path| volume.open_with(path, OpenOptions::new().read(true).write(true)).unwrap();
    let (f, g) = (open("/f"), open("/g"));
    f.write_at(&[3; 10], BLOCK).unwrap();
    f.insert_range(0..BLOCK).unwrap();
    assert_eq!(f.seek_data(0).unwrap(), Some(BLOCK));
    f.collapse_range(0..BLOCK).unwrap();
    f.punch_hole(2 * BLOCK..3 * BLOCK).unwrap();
    f.zero_range(0..10).unwrap();
    f.allocate_keep_size(8 * BLOCK..9 * BLOCK).unwrap();
    assert_eq!(f.metadata().unwrap().len(), 3 * BLOCK);
    // Open for reading is enough of the source.
    g.clone_range(0, &volume.open_file("/f").unwrap(), 0..BLOCK).unwrap();
    let place = |file: &File| file.extents().unwrap()[0].device_offset;
    assert_eq!(place(&f), place(&g), "they share the block");
    g.unshare(0..BLOCK).unwrap();
    assert_ne!(place(&f), place(&g));
    assert_eq!(g.copy_range(3 * BLOCK, &f, 0..2 * BLOCK).unwrap(), 2 * BLOCK);
    f.exchange(&g).unwrap();
    g.set_len(2 * BLOCK).unwrap();
    f.sync_all().unwrap();
    let unwritten: Vec<_> = g.extents().unwrap().into_iter().filter(|e| e.unwritten).collect();
    assert!(unwritten.iter().all(|extent| extent.range.start >= 2 * BLOCK), "{unwritten:?}");
    // A file that has lost its name lives as long as it is open.
    volume.remove_file("/f").unwrap();
    let mut buf = [0; 20];
    assert_eq!(f.read_at(&mut buf, 4 * BLOCK).unwrap(), 20);
    assert_eq!((buf[9], buf[10]), (3, 1));
    let read_only = volume.open_file("/g").unwrap();
    assert_eq!(read_only.set_len(0).unwrap_err().errno(), 9, "EBADF");
    assert_eq!(f.clone_range(1, &g, 0..BLOCK).unwrap_err().kind(), ErrorKind::InvalidInput);
    drop((f, g, read_only));
    volume.close().unwrap();
    let volume = reopened(&device);
    let g = volume.read("/g").unwrap();
    assert_eq!((g.len(), g[9], g[10], g[4096]), (8192, 0, 1, 3));
    assert_eq!(volume.read_dir("/").unwrap().count(), 1);
}

#[test]
fn files_of_two_volumes_share_nothing() {
    let ((_a, one), (_b, two)) = (made(), made());
    one.write("/f", [1; 4096]).unwrap();
    let from = one.open_file("/f").unwrap();
    let error = two.create("/f").unwrap().clone_range(0, &from, 0..4096).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CrossesDevices);
}

#[test]
fn an_error_becomes_an_io_error_of_its_kind_and_stays_its_source() {
    let (_device, volume) = made();
    let open = || -> std::io::Result<File> { Ok(volume.open_file("/none")?) };
    let error = open().unwrap_err();
    assert_eq!(error.kind(), Io::NotFound);
    let inner = error.get_ref().unwrap().downcast_ref::<xfskit::Error>().unwrap();
    assert_eq!(inner.path(), Some(Path::new("/none")));
    assert_eq!((inner.kind(), inner.errno()), (ErrorKind::NotFound, 2));
    assert!(inner.corruption().is_none());
}
