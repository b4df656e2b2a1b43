//! A volume that is open for writing, seen from beside: closed or not, flushed or not, by many
//! threads.

use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use xfskit::raw::block::{BlockDevice, MemDevice};
use xfskit::raw::units::ByteLen;
use xfskit::raw::vfs::{Clock, Fs, Stat};
use xfskit::raw::{VolumeExt as _, VolumeOptionsExt as _};
use xfskit::{ErrorKind, File, FileTimes, OpenOptions, RenameMode, Volume, VolumeOptions};
use xfskit_test_support::{Random, verify};

fn made() -> (Arc<dyn BlockDevice>, Volume) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(300 << 20)));
    let volume =
        xfskit::raw::make(Arc::clone(&device), &xfskit::raw::mkfs::Options::default()).unwrap();
    (device, volume)
}

fn opened(device: &Arc<dyn BlockDevice>, options: &VolumeOptions) -> Volume {
    options.open_device(Arc::clone(device), None).unwrap()
}

/// The volume, opened for reading.
fn again(device: &Arc<dyn BlockDevice>) -> Volume {
    opened(device, &VolumeOptions::new())
}

/// A file of the volume, open for reading and writing.
fn file(volume: &Volume, path: &str) -> File {
    volume.open_with(path, OpenOptions::new().read(true).write(true)).unwrap()
}

fn stat(volume: &Volume, path: &str) -> Stat {
    xfskit::raw::stat(&volume.symlink_metadata(path).unwrap()).clone()
}

#[test]
fn a_volume_that_is_dropped_closes_itself() {
    let (device, volume) = made();
    for n in 0..1000 {
        volume.write(format!("/{n}"), format!("content {n}").as_bytes()).unwrap();
    }
    drop(volume);
    verify::device(&*device).unwrap();
    let volume = again(&device);
    assert!(volume.fs().volume().replay().unwrap().clean);
    for n in 0..1000 {
        assert_eq!(volume.read(format!("/{n}")).unwrap(), format!("content {n}").into_bytes());
    }
}

#[test]
fn an_abandoned_volume_has_what_was_synced() {
    let (device, volume) = made();
    volume.write("/synced", b"content").unwrap();
    volume.sync().unwrap();
    volume.write("/later", b"content").unwrap();
    volume.abandon();
    let volume = again(&device);
    assert!(!volume.fs().volume().replay().unwrap().clean);
    assert_eq!(volume.read("/synced").unwrap(), b"content");
    assert_eq!(volume.metadata("/later").unwrap_err().errno(), 2, "ENOENT");
}

#[test]
fn a_panic_abandons_the_volume() {
    let (device, volume) = made();
    let panicked = std::thread::spawn(move || {
        volume.write("/half-done", b"content").unwrap();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(again(&device).read_dir("/").unwrap().next().is_none());
}

#[test]
fn sync_of_the_volume_below_makes_content_durable() {
    let (device, volume) = made();
    volume.write("/f", b"").unwrap();
    let file = file(&volume, "/f");
    file.write_at(&vec![7; 100_000], 0).unwrap();
    volume.fs().volume().sync().unwrap();
    volume.abandon();
    assert_eq!(again(&device).read("/f").unwrap(), vec![7; 100_000]);
}

#[test]
fn changes_are_dated_by_the_clock_of_the_machine() {
    let (device, volume) = made();
    volume.close().unwrap();
    let options = xfskit::raw::core::OpenOptions { write: true, ..Default::default() };
    let fs = Fs::new(
        xfskit::raw::core::Volume::open(Arc::clone(&device), &options).unwrap(),
        Clock::system(),
    );
    let root = fs.volume().geo().rootino;
    fs.make(root, b"f", &xfskit::raw::vfs::NewNode::file(0o644)).unwrap();
    fs.close().unwrap();
    let stat = stat(&again(&device), "/f");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(stat.mtime.sec.unsigned_abs() + 3600 > now.as_secs());
    assert_eq!(stat.btime, Some(stat.mtime));
}

#[test]
fn what_is_read_whole_has_a_bound_and_streams_have_none() {
    const HUGE: u64 = 1 << 62;
    let (device, volume) = made();
    volume.write("/huge", b"begin").unwrap();
    file(&volume, "/huge").write_at(b"end", HUGE - 3).unwrap();
    let end = |volume: &Volume| {
        assert_eq!(volume.read("/huge").unwrap_err().errno(), 27, "EFBIG");
        let mut stream = volume.open_file("/huge").unwrap();
        let (mut begin, mut end) = ([0; 8], Vec::new());
        stream.read_exact(&mut begin).unwrap();
        let all = stream.read_to_end(&mut end).unwrap_err();
        assert_eq!((all.kind(), end.len()), (std::io::ErrorKind::OutOfMemory, 0));
        let all = stream.read_to_string(&mut String::new()).unwrap_err();
        assert_eq!(all.kind(), std::io::ErrorKind::OutOfMemory);
        stream.seek(SeekFrom::End(-5)).unwrap();
        stream.read_to_end(&mut end).unwrap();
        assert_eq!((&begin, &*end), (b"begin\0\0\0", &b"\0\0end"[..]));
        assert_eq!(stream.stream_position().unwrap(), HUGE);
    };
    end(&volume);
    volume.close().unwrap();
    verify::device(&*device).unwrap();
    end(&again(&device));
}

#[test]
fn directories_and_attributes_are_read_whole_within_the_bound() {
    let (device, volume) = made();
    volume.create_dir_all("/d").unwrap();
    let f = stat(&volume, "/d").ino;
    for n in 0..300 {
        volume.write(format!("/d/{n:0100}"), b"").unwrap();
        let name = format!("user.{n}");
        volume.set_xattr("/d", name, [1; 100]).unwrap();
    }
    volume.close().unwrap();
    let volume = opened(&device, &VolumeOptions::new().read_limit(20_000));
    let errno = |error: Option<xfskit::Error>| error.map(|error| error.errno());
    let failed = volume.list_xattrs("/d").unwrap().find_map(Result::err);
    assert_eq!(errno(failed), Some(27), "EFBIG");
    assert_eq!(volume.walk_dir("/").unwrap().filter(Result::is_err).count(), 1);
    // In pieces all of it is there.
    let dir = volume.fs().inode(f).unwrap();
    let (mut cookie, mut names) = (Some(0), 0);
    while let Some(from) = cookie {
        let portion = volume.fs().read_dir_from(&dir, from, 50);
        assert!(portion.errors.is_empty());
        (cookie, names) = (portion.next, names + portion.entries.len());
    }
    assert_eq!(names, 300);
    assert!(volume.fs().xattr(f, b"user.7").unwrap().is_some());
    assert_eq!(again(&device).read_dir("/d").unwrap().count(), 300);
}

#[test]
fn paths_show_what_handles_have_written() {
    const BLOCK: u64 = 4096;
    let (device, volume) = made();
    volume.write("/f", [1; 10]).unwrap();
    volume.sync().unwrap();
    let file = file(&volume, "/f");
    let seen = |volume: &Volume, content: &[u8], blocks: u64| {
        assert_eq!(volume.read("/f").unwrap(), content);
        let stat = stat(volume, "/f");
        assert_eq!((stat.size, stat.blocks), (content.len() as u64, blocks * BLOCK / 512));
        let walked =
            volume.walk_dir("/").unwrap().map(Result::unwrap).find(|at| at.file_name() == "f");
        assert_eq!(walked.unwrap().metadata().len(), stat.size);
        stat
    };
    let before = seen(&volume, &[1; 10], 1);
    // In the block that there is, behind it, and far behind that.
    file.write_at(&[2; 10], 5).unwrap();
    let mut content = [&[1; 5][..], &[2; 10]].concat();
    let after = seen(&volume, &content, 1);
    assert!(after.mtime > before.mtime && after.ctime > before.ctime);
    file.write_at(&[3; 5000], BLOCK).unwrap();
    content.resize(4096, 0);
    content.extend([3; 5000]);
    seen(&volume, &content, 3);
    file.write_at(b"x", 100 * BLOCK).unwrap();
    content.resize(100 * 4096, 0);
    content.push(b'x');
    seen(&volume, &content, 4);
    volume.sync().unwrap();
    let synced = seen(&volume, &content, 4);
    file.set_len(10).unwrap();
    file.write_at(&[4; 10], 10).unwrap();
    content.truncate(10);
    content.extend([4; 10]);
    let written = seen(&volume, &content, 1);
    assert!(written.mtime > synced.mtime);
    // A time that is set after the write stays.
    let mtime = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    volume.set_times("/f", FileTimes::new().set_modified(mtime)).unwrap();
    assert_eq!(volume.metadata("/f").unwrap().modified(), mtime);
    file.write_at(&[5; 9000], 20).unwrap();
    content.extend([5; 9000]);
    let mut archive = Vec::new();
    let root = volume.fs().root().unwrap();
    xfskit::raw::copy::archive(volume.fs(), b"/", root, &mut archive, &|_| {}).unwrap();
    assert!(archive.windows(content.len()).any(|window| window == content));
    drop(file);
    assert_eq!(volume.read("/f").unwrap(), content);
    drop(volume);
    assert_eq!(again(&device).read("/f").unwrap(), content);
}

#[test]
fn a_read_by_path_never_has_another_files_bytes() {
    const LEN: usize = 3 << 20;
    const ROUNDS: usize = 60;
    let (_device, volume) = made();
    let (first, other) = (vec![b'a'; LEN], vec![b'b'; LEN]);
    volume.write("/a", &first).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                file(&volume, "/a").set_len(0).unwrap();
                volume.sync().unwrap();
                volume.write("/b", &other).unwrap();
                volume.sync().unwrap();
                volume.remove_file("/b").unwrap();
                volume.write("/a", &first).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let read = volume.read("/a").unwrap();
                    assert!(read == first[..read.len()], "bytes of another file");
                }
            });
        }
    });
}

#[test]
fn errors_name_the_operation_and_the_path() {
    let (_device, volume) = made();
    volume.write("/f", b"content").unwrap();
    volume.write("/g", b"content").unwrap();
    volume.create_dir_all("/d/e").unwrap();
    let says = |answer: Result<(), xfskit::Error>, errno: i32, text: &str| {
        let error = answer.unwrap_err();
        assert_eq!((error.errno(), &*error.to_string()), (errno, text));
    };
    says(volume.read("/d").map(drop), 21, "cannot read /d: is a directory");
    says(volume.open_file("/d").map(drop), 21, "cannot open /d: is a directory");
    says(volume.write("/d", b""), 21, "cannot write /d: is a directory");
    says(volume.read("x").map(drop), 2, "cannot read /x: no such file or directory");
    says(volume.read("/f/x").map(drop), 20, "cannot read /f/x: /f: not a directory");
    says(volume.metadata("/x/y").map(drop), 2, "cannot stat /x/y: /x: no such file or directory");
    says(volume.read_dir("/f").map(drop), 20, "cannot list /f: not a directory");
    says(volume.create_dir_all("/f/x/y"), 20, "cannot make /f/x/y: /f: not a directory");
    says(volume.create_dir_all("/f/x"), 20, "cannot make /f/x: /f: not a directory");
    says(volume.create_dir_all("/f/"), 17, "cannot make /f/: file exists");
    says(volume.remove_dir("/d"), 39, "cannot remove /d: directory not empty");
    says(volume.remove_dir("/f"), 20, "cannot remove /f: not a directory");
    says(volume.remove_file("/d"), 21, "cannot remove /d: is a directory");
    says(volume.remove_file("/x"), 2, "cannot remove /x: no such file or directory");
    says(volume.hard_link("/x", "/y"), 2, "cannot link /x: no such file or directory");
    says(volume.hard_link("/f", "/g"), 17, "cannot link to /g: file exists");
    says(volume.rename("/x", "/y"), 2, "cannot rename /x: no such file or directory");
    says(volume.rename("/f", "/d"), 21, "cannot rename to /d: is a directory");
    says(volume.rename("/d", "/f"), 20, "cannot rename to /f: not a directory");
    let kept = volume.rename_with("/f", "/g", RenameMode::NoReplace);
    says(kept, 17, "cannot rename to /g: file exists");
    let link = volume.read_link("/f").map(drop);
    says(link, 22, "cannot read the link /f: not a symbolic link");
    volume.mknod("/pipe", 0o010_600, None).unwrap();
    says(volume.read("/pipe").map(drop), 22, "cannot read /pipe: not a regular file");
    let nowhere = Volume::open("/nonexistent/image").map(drop).unwrap_err();
    assert_eq!((nowhere.errno(), nowhere.kind()), (2, ErrorKind::NotFound));
}

/// Linux 6.18 gave these on a mounted volume, but for the sizes above the largest file: no call of
/// Linux has such a number, and EFBIG says more than the EINVAL of a number that is negative there.
#[test]
fn limits_have_the_errno_of_linux() {
    const HUGE: u64 = i64::MAX as u64;
    let (_device, volume) = made();
    volume.write("/f", [b'x'; 8192]).unwrap();
    volume.create_dir("/d").unwrap();
    volume.symlink("/f", "/s").unwrap();
    volume.mknod("/p", 0o010_600, None).unwrap();
    let file = volume.open_with("/f", OpenOptions::new().read(true).write(true)).unwrap();
    let says = |answer: Result<(), xfskit::Error>, errno: i32, kind: ErrorKind| {
        let error = answer.unwrap_err();
        assert_eq!((error.errno(), error.kind()), (errno, kind), "{error}");
    };
    let (name, long) = ("n".repeat(256), "x".repeat(1024));
    let set =
        |path: &str, name: &str, len: usize| volume.set_xattr_nofollow(path, name, vec![b'v'; len]);
    says(file.write_at(b"xx", HUGE - 1).map(drop), 27, ErrorKind::FileTooLarge);
    says(file.set_len(HUGE + 1), 27, ErrorKind::FileTooLarge);
    says(file.allocate(HUGE - 4096..HUGE + 4096), 27, ErrorKind::FileTooLarge);
    says(file.insert_range(0..HUGE & !4095), 27, ErrorKind::FileTooLarge);
    says(file.insert_range(8192..12288), 22, ErrorKind::InvalidInput);
    says(file.collapse_range(4096..12288), 22, ErrorKind::InvalidInput);
    says(volume.write(format!("/{name}"), b""), 36, ErrorKind::InvalidFilename);
    says(volume.symlink(&long, "/l"), 36, ErrorKind::InvalidFilename);
    says(set("/f", &format!("user.{}", &name[..251]), 1), 34, ErrorKind::InvalidInput);
    says(set("/f", "user.x", 65_537), 7, ErrorKind::InvalidInput);
    says(set("/f", "user.", 1), 22, ErrorKind::InvalidInput);
    says(set("/f", "foo.x", 1), 95, ErrorKind::Unsupported);
    says(set("/s", "user.x", 1), 1, ErrorKind::Unsupported);
    says(set("/p", "user.x", 1), 1, ErrorKind::Unsupported);
    says(volume.hard_link("/d", "/e"), 1, ErrorKind::Unsupported);
    says(volume.rename("/d", "/d/e"), 22, ErrorKind::InvalidInput);
    let (_other, elsewhere) = made();
    elsewhere.write("/f", [b'x'; 8192]).unwrap();
    let source = elsewhere.open_file("/f").unwrap();
    says(file.clone_range(0, &source, 0..4096), 18, ErrorKind::CrossesDevices);
}

/// A file that several threads change, one at a time, and what it should be.
struct Slot {
    names: [String; 2],
    /// Which of its names it has.
    name: usize,
    /// `None` where it has no name.
    content: Option<Vec<u8>>,
    handle: Option<File>,
}

impl Slot {
    fn path(&self) -> &str {
        &self.names[self.name]
    }

    /// One change, made to the volume and to the model.
    fn change(&mut self, volume: &Volume, tag: u8, random: &mut Random) {
        let path = self.path().to_owned();
        let Some(mut content) = self.content.take() else {
            let new = vec![tag; random.below(50_000)];
            volume.write(&path, &new).unwrap();
            self.content = Some(new);
            return;
        };
        let open = || file(volume, &path);
        match random.below(8) {
            0..3 => {
                let file = self.handle.get_or_insert_with(open);
                let (at, len) = (random.below(60_000), random.below(20_000));
                let (start, len) = (usize::try_from(at).unwrap(), usize::try_from(len).unwrap());
                file.write_at(&vec![tag; len], at).unwrap();
                if len > 0 {
                    content.resize(content.len().max(start + len), 0);
                    content[start..start + len].fill(tag);
                }
            }
            3 => {
                let size = random.below(70_000);
                self.handle.get_or_insert_with(open).set_len(size).unwrap();
                content.resize(usize::try_from(size).unwrap(), 0);
            }
            4 => drop(self.handle.take()),
            5 => {
                content = vec![tag; random.below(30_000)];
                volume.write(&path, &content).unwrap();
            }
            6 => {
                volume.rename(&path, &self.names[1 - self.name]).unwrap();
                self.name = 1 - self.name;
            }
            _ => {
                volume.remove_file(&path).unwrap();
                if let Some(file) = self.handle.take() {
                    let mut read = vec![0; content.len() + 1];
                    assert_eq!(file.read_at(&mut read, 0).unwrap(), content.len());
                    assert!(read[..content.len()] == content, "{path}, removed and open");
                }
                return;
            }
        }
        self.content = Some(content);
    }

    /// The volume shows the file as the model has it.
    fn check(&self, volume: &Volume) {
        let path = self.path();
        assert_eq!(volume.metadata(&self.names[1 - self.name]).unwrap_err().errno(), 2);
        let Some(content) = &self.content else {
            assert_eq!(volume.read(path).unwrap_err().errno(), 2);
            return;
        };
        assert_eq!(volume.metadata(path).unwrap().len(), content.len() as u64, "{path}");
        assert!(volume.read(path).unwrap() == *content, "{path}");
    }
}

#[test]
fn threads_see_each_others_files_whole() {
    const SLOTS: usize = 6;
    const STEPS: usize = 400;
    let (device, volume) = made();
    volume.create_dir_all("/one").unwrap();
    volume.create_dir_all("/two").unwrap();
    let slot = |n| {
        let names = ["one", "two"].map(|dir| format!("/{dir}/{n}"));
        Mutex::new(Slot { names, name: 0, content: None, handle: None })
    };
    let slots: Vec<_> = (0..SLOTS).map(slot).collect();
    let tag = |n: usize| b'a' + u8::try_from(n).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = |mut random: Random| {
            for _ in 0..STEPS {
                let n = random.below(SLOTS);
                let mut slot = slots[n].lock().unwrap();
                slot.change(&volume, tag(n), &mut random);
                slot.check(&volume);
                drop(slot);
                if random.below(30) == 0 {
                    volume.sync().unwrap();
                }
            }
        };
        let mut random = Random::of_test(77);
        let workers = [(); 3].map(|()| {
            let random = random.fork();
            scope.spawn(move || work(random))
        });
        // Beside them, without any order.
        let (volume, done) = (&volume, &done);
        scope.spawn(move || {
            let mut n = 0;
            while !done.load(Ordering::Acquire) {
                n = (n + 1) % SLOTS;
                for dir in ["one", "two"] {
                    match volume.read(format!("/{dir}/{n}")) {
                        Ok(content) => {
                            assert!(content.iter().all(|&byte| byte == 0 || byte == tag(n)));
                        }
                        Err(error) => assert_eq!(error.errno(), 2, "{error}"),
                    }
                }
                for at in volume.walk_dir("/").unwrap() {
                    at.unwrap();
                }
            }
        });
        let ended = workers.map(std::thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok));
    });
    for slot in &slots {
        slot.lock().unwrap().handle = None;
    }
    let slots: Vec<_> = slots.into_iter().map(|slot| slot.into_inner().unwrap().content).collect();
    volume.close().unwrap();
    verify::device(&*device).unwrap();
    let volume = again(&device);
    for (n, content) in slots.into_iter().enumerate() {
        let there = ["one", "two"].iter().filter_map(|dir| volume.read(format!("/{dir}/{n}")).ok());
        assert!(there.eq(content), "file {n}");
    }
}
