//! A volume that is open for writing, seen from beside: closed or not, flushed or not, by many
//! threads.

use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use xfskit::block::{BlockDevice, MemDevice};
use xfskit::units::ByteLen;
use xfskit::vfs::{FileType, Fs, Handle, NewNode, RenameMode, SetAttr, SetMode, Timestamp};
use xfskit::{OpenOptions, Volume};
use xfskit_test_oracle::verify;

fn made() -> (Arc<dyn BlockDevice>, Volume) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(300 << 20)));
    let volume = xfskit::make(Arc::clone(&device), &xfskit::mkfs::Options::default()).unwrap();
    (device, volume)
}

fn opened(device: &Arc<dyn BlockDevice>, options: OpenOptions) -> Volume {
    options.open_device(Arc::clone(device), None).unwrap()
}

/// The volume, opened for reading.
fn again(device: &Arc<dyn BlockDevice>) -> Volume {
    opened(device, OpenOptions::default())
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
    assert_eq!(volume.stat("/later").unwrap_err().errno(), 2, "ENOENT");
}

#[test]
fn a_panic_abandons_the_volume() {
    let (device, volume) = made();
    let panicked = std::thread::spawn(move || {
        volume.write("/half-done", b"content").unwrap();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(again(&device).read_dir("/").unwrap().is_empty());
}

#[test]
fn sync_of_the_volume_below_makes_content_durable() {
    let (device, volume) = made();
    volume.write("/f", b"").unwrap();
    let file = volume.file("/f").unwrap();
    file.write(0, &vec![7; 100_000]).unwrap();
    volume.fs().volume().sync().unwrap();
    std::mem::forget(file); // closing it would write nothing that matters here
    volume.abandon();
    assert_eq!(again(&device).read("/f").unwrap(), vec![7; 100_000]);
}

#[test]
fn changes_are_dated_by_the_clock_of_the_machine() {
    let (device, volume) = made();
    volume.close().unwrap();
    let options = xfskit::core::OpenOptions { write: true, ..Default::default() };
    let fs = Fs::new(xfskit::core::Volume::open(Arc::clone(&device), &options).unwrap());
    let root = fs.volume().geo().rootino;
    fs.make(root, b"f", &xfskit::vfs::NewNode::file(0o644)).unwrap();
    fs.close().unwrap();
    let stat = again(&device).stat("/f").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(stat.mtime.sec.unsigned_abs() + 3600 > now.as_secs());
    assert_eq!(stat.btime, Some(stat.mtime));
}

#[test]
fn what_is_read_whole_has_a_bound_and_streams_have_none() {
    const HUGE: u64 = 1 << 62;
    let (device, volume) = made();
    volume.write("/huge", b"begin").unwrap();
    let file = volume.file("/huge").unwrap();
    file.write(HUGE - 3, b"end").unwrap();
    drop(file);
    let end = |volume: &Volume| {
        assert_eq!(volume.read("/huge").unwrap_err().errno(), 27, "EFBIG");
        let mut stream = volume.reader("/huge").unwrap();
        let (mut begin, mut end) = ([0; 8], Vec::new());
        stream.read_exact(&mut begin).unwrap();
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
    volume.make_dirs("/d").unwrap();
    let f = volume.stat("/d").unwrap().ino;
    for n in 0..300 {
        volume.write(format!("/d/{n:0100}"), b"").unwrap();
        let name = format!("user.{n}");
        volume.fs().set_xattr(f, name.as_bytes(), &[1; 100], SetMode::Any).unwrap();
    }
    volume.close().unwrap();
    let volume = opened(&device, OpenOptions { whole_max: 20_000, ..OpenOptions::default() });
    assert_eq!(volume.read_dir("/d").unwrap_err().errno(), 27, "EFBIG");
    assert_eq!(volume.xattrs("/d").unwrap_err().errno(), 27, "EFBIG");
    assert_eq!(volume.walk("/").unwrap().filter(Result::is_err).count(), 1);
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
    assert_eq!(again(&device).read_dir("/d").unwrap().len(), 300);
}

#[test]
fn paths_show_what_handles_have_written() {
    const BLOCK: u64 = 4096;
    let (device, volume) = made();
    volume.write("/f", &[1; 10]).unwrap();
    volume.sync().unwrap();
    let file = volume.file("/f").unwrap();
    let seen = |volume: &Volume, content: &[u8], blocks: u64| {
        assert_eq!(volume.read("/f").unwrap(), content);
        let stat = volume.stat("/f").unwrap();
        assert_eq!((stat.size, stat.blocks), (content.len() as u64, blocks * BLOCK / 512));
        let walked = volume.walk("/").unwrap().map(Result::unwrap).find(|at| at.path == b"/f");
        assert_eq!(walked.unwrap().inode.core().size().0, stat.size);
        stat
    };
    let before = seen(&volume, &[1; 10], 1);
    // In the block that there is, behind it, and far behind that.
    file.write(5, &[2; 10]).unwrap();
    let mut content = [&[1; 5][..], &[2; 10]].concat();
    let after = seen(&volume, &content, 1);
    assert!(after.mtime > before.mtime && after.ctime > before.ctime);
    file.write(BLOCK, &[3; 5000]).unwrap();
    content.resize(4096, 0);
    content.extend([3; 5000]);
    seen(&volume, &content, 3);
    file.write(100 * BLOCK, b"x").unwrap();
    content.resize(100 * 4096, 0);
    content.push(b'x');
    seen(&volume, &content, 4);
    volume.sync().unwrap();
    let synced = seen(&volume, &content, 4);
    file.truncate(10).unwrap();
    file.write(10, &[4; 10]).unwrap();
    content.truncate(10);
    content.extend([4; 10]);
    let written = seen(&volume, &content, 1);
    assert!(written.mtime > synced.mtime);
    // A time that is set after the write stays.
    let mtime = Some(Timestamp { sec: 1_000_000_000, nsec: 5 });
    volume.fs().set_attr(written.ino, &SetAttr { mtime, ..SetAttr::default() }).unwrap();
    assert_eq!(Some(volume.stat("/f").unwrap().mtime), mtime);
    file.write(20, &[5; 9000]).unwrap();
    content.extend([5; 9000]);
    let mut archive = Vec::new();
    let root = volume.fs().root().unwrap();
    xfskit::copy::archive(volume.fs(), b"/", root, &mut archive, &|_| {}).unwrap();
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
                let file = volume.file("/a").unwrap();
                file.truncate(0).unwrap();
                volume.sync().unwrap();
                volume.write("/b", &other).unwrap();
                volume.sync().unwrap();
                volume.remove("/b").unwrap();
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
    volume.make_dirs("/d/e").unwrap();
    let says = |answer: Result<(), xfskit::Error>, errno: i32, text: &str| {
        let error = answer.unwrap_err();
        assert_eq!((error.errno(), &*error.to_string()), (errno, text));
    };
    says(volume.read("/d").map(drop), 21, "cannot read /d: is a directory");
    says(volume.file("/d").map(drop), 21, "cannot open /d: is a directory");
    says(volume.write("/d", b""), 21, "cannot write /d: is a directory");
    says(volume.read("/x").map(drop), 2, "cannot read /x: no such file or directory");
    says(volume.read("/f/x").map(drop), 20, "cannot read /f/x: /f: not a directory");
    says(volume.stat("/x/y").map(drop), 2, "cannot stat /x/y: /x: no such file or directory");
    says(volume.read_dir("/f").map(drop), 20, "cannot list /f: not a directory");
    says(volume.make_dirs("/f/x/y"), 20, "cannot make /f/x/y: /f: not a directory");
    says(volume.make_dirs("/f/x"), 20, "cannot make /f/x: /f: not a directory");
    says(volume.make_dirs("/f/"), 17, "cannot make /f/: file exists");
    says(volume.remove("/d"), 39, "cannot remove /d: directory not empty");
    says(volume.remove("/x"), 2, "cannot remove /x: no such file or directory");
    says(volume.link("/x", "/y"), 2, "cannot link /x: no such file or directory");
    says(volume.link("/f", "/g"), 17, "cannot link to /g: file exists");
    says(volume.rename("/x", "/y"), 2, "cannot rename /x: no such file or directory");
    says(volume.rename("/f", "/d"), 21, "cannot rename to /d: is a directory");
    says(volume.rename("/d", "/f"), 20, "cannot rename to /f: not a directory");
    let kept = volume.rename_as("/f", "/g", RenameMode::NoReplace);
    says(kept, 17, "cannot rename to /g: file exists");
    let link = volume.read_link("/f").map(drop);
    says(link, 22, "cannot read the link /f: not a symbolic link");
    volume.make("/pipe", &NewNode::usual(FileType::Fifo)).unwrap();
    says(volume.read("/pipe").map(drop), 22, "cannot read /pipe: not a regular file");
    let ino = |path| volume.stat(path).unwrap().ino;
    let root = ino("/");
    assert_eq!(volume.fs().open(ino("/d")).unwrap_err().errno(), 21, "EISDIR");
    assert_eq!(volume.fs().unlink(root, b"d").unwrap_err().errno(), 21, "EISDIR");
    let nowhere = xfskit::open("/nonexistent/image").map(drop);
    assert_eq!(nowhere.unwrap_err().errno(), 2);
}

/// A file that several threads change, one at a time, and what it should be.
struct Slot<'v> {
    names: [String; 2],
    /// Which of its names it has.
    name: usize,
    /// `None` where it has no name.
    content: Option<Vec<u8>>,
    handle: Option<Handle<'v>>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

impl<'v> Slot<'v> {
    fn path(&self) -> &str {
        &self.names[self.name]
    }

    /// One change, made to the volume and to the model.
    fn change(&mut self, volume: &'v Volume, tag: u8, random: &mut Random) {
        let path = self.path().to_owned();
        let Some(mut content) = self.content.take() else {
            let new = vec![tag; usize::try_from(random.below(50_000)).unwrap()];
            volume.write(&path, &new).unwrap();
            self.content = Some(new);
            return;
        };
        let open = || volume.file(&path).unwrap();
        match random.below(8) {
            0..3 => {
                let file = self.handle.get_or_insert_with(open);
                let (at, len) = (random.below(60_000), random.below(20_000));
                let (start, len) = (usize::try_from(at).unwrap(), usize::try_from(len).unwrap());
                file.write(at, &vec![tag; len]).unwrap();
                if len > 0 {
                    content.resize(content.len().max(start + len), 0);
                    content[start..start + len].fill(tag);
                }
            }
            3 => {
                let size = random.below(70_000);
                self.handle.get_or_insert_with(open).truncate(size).unwrap();
                content.resize(usize::try_from(size).unwrap(), 0);
            }
            4 => drop(self.handle.take()),
            5 => {
                content = vec![tag; usize::try_from(random.below(30_000)).unwrap()];
                volume.write(&path, &content).unwrap();
            }
            6 => {
                volume.rename(&path, &self.names[1 - self.name]).unwrap();
                self.name = 1 - self.name;
            }
            _ => {
                volume.remove(&path).unwrap();
                if let Some(file) = self.handle.take() {
                    let mut read = vec![0; content.len() + 1];
                    assert_eq!(file.read(0, &mut read).unwrap(), content.len());
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
        assert_eq!(volume.stat(&self.names[1 - self.name]).unwrap_err().errno(), 2);
        let Some(content) = &self.content else {
            assert_eq!(volume.read(path).unwrap_err().errno(), 2);
            return;
        };
        assert_eq!(volume.stat(path).unwrap().size, content.len() as u64, "{path}");
        assert!(volume.read(path).unwrap() == *content, "{path}");
    }
}

#[test]
fn threads_see_each_others_files_whole() {
    const SLOTS: usize = 6;
    const STEPS: usize = 400;
    let (device, volume) = made();
    volume.make_dirs("/one").unwrap();
    volume.make_dirs("/two").unwrap();
    let slot = |n| {
        let names = ["one", "two"].map(|dir| format!("/{dir}/{n}"));
        Mutex::new(Slot { names, name: 0, content: None, handle: None })
    };
    let slots: Vec<_> = (0..SLOTS).map(slot).collect();
    let tag = |n: usize| b'a' + u8::try_from(n).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = |seed: u64| {
            let mut random = Random(seed);
            for _ in 0..STEPS {
                let n = usize::try_from(random.below(SLOTS as u64)).unwrap();
                let mut slot = slots[n].lock().unwrap();
                slot.change(&volume, tag(n), &mut random);
                slot.check(&volume);
                drop(slot);
                if random.below(30) == 0 {
                    volume.sync().unwrap();
                }
            }
        };
        let workers = [77, 78, 79].map(|seed| scope.spawn(move || work(seed)));
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
                for at in volume.walk("/").unwrap() {
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
