//! Commands on a mount: what FUSE refuses before the process is asked, and snapshots.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use xfskit_test_support::fsxattr::xfs_geometries;
use xfskit_test_support::image::Scratch;
use xfskit_test_support::transport::Transport;
use xfskit_test_support::verify;

use super::common::{begin, expect, json, shown, xfskit};
use super::mount::{Place, is_mounted, possible, until};

/// Runs a program, and returns what it prints.
fn output(program: &str, args: &[&OsStr]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A volume that the kernel has mounted, until it is dropped.
struct Kernel(PathBuf);

impl Kernel {
    fn mount(scratch: &Scratch, image: &Path, options: &str) -> Self {
        let dir = scratch.path().join("kernel");
        fs::create_dir_all(&dir).unwrap();
        let options = format!("loop,{options}");
        output("mount", &["-o".as_ref(), options.as_ref(), image.as_ref(), dir.as_ref()]);
        Self(dir)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // A child of another test, between fork and exec, has copies of what is open here.
        let umount = || Command::new("umount").arg(&self.0).status().unwrap();
        until("nothing holds the mount", || umount().success());
    }
}

/// Set when it is dropped.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while threads call `load`, each with numbers of its own.
fn while_running<T>(load: impl Fn(usize) + Sync, threads: usize, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, load) = (&stop, &load);
            scope.spawn(move || {
                for n in 0.. {
                    load(thread + threads * n);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let _stop = Stop(&stop);
        work()
    })
}

/// Makes, changes, renames and removes files in `dir`.
fn churn(dir: &Path, n: usize) {
    let name = |n: usize| dir.join(format!("churn-{}", n % 500));
    let _ = fs::write(name(n), vec![7; n * 997 % 60_000]);
    let _ = fs::rename(name(n), dir.join(format!("moved-{}", n % 300)));
    let _ = fs::create_dir(dir.join(format!("dir-{}", n % 50)));
    if n.is_multiple_of(3) {
        let _ = fs::remove_file(dir.join(format!("moved-{}", n % 299)));
        let _ = fs::remove_dir(dir.join(format!("dir-{}", n % 49)));
    }
    if n.is_multiple_of(7)
        && let Ok(file) = File::options().write(true).open(name(n + 1))
    {
        let _ = file.write_all_at(&[8; 5000], 100_000);
        let _ = file.sync_all();
    }
}

/// A process that changes files of a mount. It is killed when this is dropped.
struct Process(Child);

impl Process {
    /// Runs a script in `dir`.
    fn shell(dir: &Path, script: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(dir).stdin(Stdio::piped()).stderr(Stdio::null());
        Self(shell.spawn().unwrap())
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    fn succeeded(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may wait for a thaw that does not come: the mount is taken down after this.
        let _ = self.0.kill();
    }
}

/// Ends a child in time, and returns its exit code.
fn code_of(child: &mut Child) -> i32 {
    let mut code = None;
    until("the command ended", || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    code.unwrap().code().unwrap_or(-1)
}

// ---- the socket --------------------------------------------------------------------------------

#[test]
fn long_requests_hinder_neither_others_nor_the_unmount() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-control");
    place.mount(&[]);
    for n in 0..2000 {
        fs::write(place.dir.join(format!("{n}")), "x").unwrap();
    }
    let dir = shown(&place.dir);
    // Nothing reads their output: they stop in the middle of it, with their snapshots.
    let mut readers: Vec<Child> = (0..3).map(|_| begin(&["bulkstat", "--json", &dir])).collect();
    let mut waiters: Vec<Child> = Vec::new();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..20 {
        assert!(expect(0, &["stats", &dir]).stdout.contains("create"));
    }
    fs::write(place.dir.join("new"), "x").unwrap();
    waiters.push(begin(&["umount", &dir]));
    assert_eq!(code_of(&mut waiters[0]), 0);
    assert!(!is_mounted(&place.dir));
    for reader in &mut readers {
        drop(reader.stdout.take());
        let code = code_of(reader);
        assert!([2, 141].contains(&code), "{code}");
    }
    place.verify();
}

#[test]
fn other_users_are_refused_and_paths_that_are_on_no_mount() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-control-user");
    place.mount(&[]);
    let (dir, image) = (shown(&place.dir), shown(&place.image));
    // What a user who is not root sees of another user's mount: its name. The folder of the build
    // may be closed to others.
    let program = place.scratch.path().join("xfskit");
    fs::copy(env!("CARGO_BIN_EXE_xfskit"), &program).unwrap();
    fs::set_permissions(place.scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for command in ["stats", "freeze", "check", "umount"] {
        let mut nobody = Command::new(&program);
        let output = nobody.args([command, &dir]).uid(65534).gid(65534).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {stderr}");
        assert!(is_mounted(&place.dir), "{command}: {stderr}");
        let denied = stderr.contains("ermission denied") || stderr.contains("not permitted");
        assert!(denied || command == "umount", "{command}: {stderr}");
    }
    for args in [
        &["freeze", "/"][..],
        &["thaw", "/usr/bin"],
        &["clone", "/etc/passwd", &dir],
        &["freeze", "/no/such/directory"],
        &["extents", "/etc/passwd"],
        &["check", "--scrub", &dir],
    ] {
        let run = expect(2, args);
        assert!(!run.stderr.is_empty());
    }
    // The image is on a filesystem of its own, and a target.
    fs::write(place.dir.join("file"), "text").unwrap();
    place.umount();
    expect(0, &["extents", &image, "/file"]);
}

// ---- extents -----------------------------------------------------------------------------------

/// Fills a directory with files that have holes, shared and unwritten extents.
fn make_extents(dir: &Path) {
    let file = File::create(dir.join("f")).unwrap();
    file.write_all_at(&vec![1; 65_536], 0).unwrap();
    file.write_all_at(&vec![2; 65_536], 131_072).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 262_144, 1 << 20).unwrap();
    file.write_all_at(&vec![3; 4097], 3 << 20).unwrap();
    fs::write(dir.join("empty"), "").unwrap();
    expect(0, &["clone", &shown(&dir.join("f")), &shown(&dir.join("g"))]);
    let clone = File::options().write(true).open(dir.join("g")).unwrap();
    clone.write_all_at(&[4; 4096], 8192).unwrap();
    // A listing of one file writes what the kernel caches of that file only.
    clone.sync_all().unwrap();
}

/// Returns the lines of a listing without the file's name.
fn rows(listing: &str) -> Vec<&str> {
    listing.lines().skip(1).collect()
}

#[test]
fn extents_are_those_that_xfs_bmap_prints() {
    if !possible() {
        return;
    }
    for options in [&[][..], &["-d", "su=64k,sw=4"]] {
        let place = Place::with("cli-extents", options);
        place.mount(&[]);
        make_extents(&place.dir);
        let mounted = |name: &str| expect(0, &["extents", &shown(&place.dir.join(name))]).stdout;
        let seen = ["f", "g", "empty"].map(mounted);
        let both = [place.dir.join("f"), place.dir.join("g")].map(|path| shown(&path));
        let list = expect(0, &["extents", &both[0], &both[1]]).stdout;
        assert_eq!(list, format!("{}{}", seen[0], seen[1]));
        assert!(seen[0].contains(" 10") && seen[0].contains("hole"), "{}", seen[0]);
        let json = json(&["extents", "--json", &both[1]]);
        let extents = json[0]["extents"].as_array().unwrap();
        assert!(extents.iter().any(|extent| extent["shared"] == true), "{json:?}");
        assert!(extents.iter().any(|extent| extent["shared"] == false), "{json:?}");
        // One of several is missing.
        let some = expect(1, &["extents", &both[0], &format!("{}-missing", both[0])]);
        assert_eq!(rows(&some.stdout), rows(&seen[0]));
        place.umount();
        let image = shown(&place.image);
        for (name, seen) in ["f", "g"].iter().zip(&seen) {
            let unmounted = expect(0, &["extents", &image, &format!("/{name}")]).stdout;
            assert_eq!(rows(&unmounted), rows(seen));
        }
        let kernel = Kernel::mount(&place.scratch, &place.image, "ro");
        for (name, seen) in ["f", "g"].iter().zip(&seen) {
            let path = kernel.0.join(name);
            let bmap = output("xfs_bmap", &["-vp".as_ref(), path.as_ref()]);
            assert_eq!(rows(seen), rows(&bmap));
        }
        assert!(seen[2].ends_with("empty: no extents\n"));
        drop(kernel);
        place.verify();
        // A mount that is read-only looks the counts up itself.
        place.mount(&["-o", "ro"]);
        assert_eq!(rows(&mounted("g")), rows(&seen[1]));
    }
}

// ---- bulkstat ----------------------------------------------------------------------------------

#[test]
fn bulkstat_of_a_mount_has_what_is_only_in_memory() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-bulkstat");
    place.mount(&[]);
    let dir = shown(&place.dir);
    fs::create_dir(place.dir.join("below")).unwrap();
    let mut open = File::create(place.dir.join("open")).unwrap();
    open.write_all(&vec![1; 123_457]).unwrap();
    let ino = open.metadata().unwrap().ino();
    let of = |list: &[serde_json::Value], ino: u64| {
        list.iter().find(|file| file["ino"] == ino).map(|file| file["size"].as_u64().unwrap())
    };
    let list = json(&["bulkstat", "--json", &dir]);
    assert_eq!((list.len(), of(&list, ino)), (3, Some(123_457)));
    // A directory below means the same mount.
    let again = json(&["bulkstat", "--json", &shown(&place.dir.join("below"))]);
    assert_eq!(again.len(), 3);
    // A file without a name exists.
    fs::remove_file(place.dir.join("open")).unwrap();
    let list = json(&["bulkstat", "--json", &dir]);
    assert_eq!(of(&list, ino), Some(123_457));
    drop(open);
    // Under load each run has all files that nothing changes.
    let kept: Vec<u64> = (0..300)
        .map(|n| {
            let path = place.dir.join(format!("below/kept-{n}"));
            fs::write(&path, vec![3; n]).unwrap();
            fs::metadata(&path).unwrap().ino()
        })
        .collect();
    while_running(
        |n| churn(&place.dir, n),
        4,
        || {
            for _ in 0..5 {
                let list = json(&["bulkstat", "--json", &dir]);
                for (n, &ino) in kept.iter().enumerate() {
                    assert_eq!(of(&list, ino), Some(n as u64));
                }
            }
        },
    );
    // Other commands that read take the directory too.
    assert_eq!(expect(0, &["cat", &dir, "/below/kept-2"]).bytes, [3, 3]);
    assert!(expect(0, &["ls", &dir, "/below"]).stdout.contains("kept-299"));
    place.umount();
    place.verify();
}

// ---- clone -------------------------------------------------------------------------------------

#[test]
fn a_clone_shares_all_blocks_and_changes_apart() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-clone");
    place.mount(&[]);
    let path = |name: &str| shown(&place.dir.join(name));
    let mut source = File::create(place.dir.join("source")).unwrap();
    let content: Vec<u8> = (0..3_000_001_u32).map(|n| n.to_le_bytes()[1]).collect();
    source.write_all(&content).unwrap();
    source.set_len(5_000_000).unwrap();
    // A destination that is open, longer, and cached.
    fs::write(place.dir.join("dest"), vec![9; 6_000_000]).unwrap();
    let mut dest = File::options().read(true).write(true).open(place.dir.join("dest")).unwrap();
    let mut start = [0; 4];
    dest.read_exact(&mut start).unwrap();
    expect(0, &["clone", &path("source"), &path("dest")]);
    let same = |name: &str| {
        let read = fs::read(place.dir.join(name)).unwrap();
        assert_eq!(read.len(), 5_000_000);
        assert!(read[..content.len()] == content[..]);
        assert!(read[content.len()..].iter().all(|&byte| byte == 0));
    };
    same("dest");
    dest.seek(SeekFrom::Start(1000)).unwrap();
    dest.read_exact(&mut start).unwrap();
    assert_eq!(start, content[1000..1004]);
    let extents = |name: &str| json(&["extents", "--json", &path(name)])[0]["extents"].clone();
    assert_eq!(extents("source"), extents("dest"));
    let all_shared = extents("dest").as_array().unwrap().iter().all(|it| it["shared"] == true);
    assert!(all_shared, "{}", extents("dest"));
    // Each is changed for itself.
    dest.write_all_at(b"changed", 8192).unwrap();
    dest.sync_all().unwrap();
    same("source");
    expect(0, &["clone", &path("source"), &path("new")]);
    same("new");
    let refused = expect(2, &["clone", &path("source"), &path("source")]);
    assert!(refused.stderr.contains("one file"), "{}", refused.stderr);
    same("source");
    expect(2, &["clone", &path("source"), &shown(&place.scratch.path().join("elsewhere"))]);
    expect(2, &["clone", &path("missing"), &path("new")]);
    expect(2, &["clone", &shown(&place.dir), &path("new")]);
    drop((source, dest));
    place.umount();
    place.verify();
    let plain = Place::with("cli-clone-plain", &["-m", "reflink=0"]);
    plain.mount(&[]);
    fs::write(plain.dir.join("a"), "text").unwrap();
    let refused = expect(2, &["clone", &shown(&plain.dir.join("a")), &shown(&plain.dir.join("b"))]);
    assert!(refused.stderr.contains("no reflink"), "{}", refused.stderr);
    assert!(!plain.dir.join("b").exists());
}

// ---- ioctls ------------------------------------------------------------------------------------

#[test]
fn the_geometry_is_what_linux_returns() {
    if !possible() {
        return;
    }
    for options in [
        &[][..],
        &["-d", "su=64k,sw=4", "-i", "nrext64=1"],
        &["-s", "size=4096", "-m", "rmapbt=1", "-n", "size=16k"],
        &["-m", "reflink=0,finobt=0,bigtime=0,inobtcount=0", "-i", "sparse=0,maxpct=7"],
        &["-b", "size=1k"],
    ] {
        let place = Place::with("cli-geometry", options);
        place.mount(&[]);
        let ours = xfs_geometries(&place.dir);
        place.umount();
        let kernel = Kernel::mount(&place.scratch, &place.image, "ro");
        for (ours, theirs) in ours.iter().zip(xfs_geometries(&kernel.0)) {
            assert_eq!(*ours, theirs, "{options:?}");
        }
    }
}

#[test]
fn fstrim_gives_back_the_blocks_of_the_image() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-fstrim");
    place.mount(&[]);
    let (big, kept) = (place.dir.join("big"), place.dir.join("kept"));
    fs::write(&kept, vec![6; 5 << 20]).unwrap();
    fs::write(&big, vec![5; 100 << 20]).unwrap();
    File::open(&big).unwrap().sync_all().unwrap();
    let allocated = || fs::metadata(&place.image).unwrap().blocks() * 512;
    let before = allocated();
    let full = free_bytes(&place.dir);
    fs::remove_file(&big).unwrap();
    until("the file is freed", || free_bytes(&place.dir) >= full + (100 << 20));
    let said = output("fstrim", &["-v".as_ref(), place.dir.as_ref()]);
    let bytes =
        said.split(['(', ' ']).find_map(|word| word.parse::<u64>().ok().filter(|&n| n > 4096));
    let free = free_bytes(&place.dir);
    let bytes = bytes.unwrap_or_else(|| panic!("{said}"));
    assert!(bytes <= 512 << 20 && bytes >= free, "{bytes} trimmed, {free} free");
    assert!(before - allocated() >= 99 << 20, "{before} bytes before, {} now", allocated());
    assert!(fs::read(&kept).unwrap().iter().all(|&byte| byte == 6));
    // While files are made and removed.
    while_running(
        |n| churn(&place.dir, n),
        4,
        || {
            for _ in 0..5 {
                output("fstrim", &["-v".as_ref(), place.dir.as_ref()]);
            }
        },
    );
    let late = Command::new("fstrim").args(["-o", "1T"]).arg(&place.dir).output().unwrap();
    assert!(!late.status.success());
    place.umount();
    place.verify();
    let cat = expect(0, &["cat", &shown(&place.image), "/kept"]);
    assert!(cat.bytes.len() == 5 << 20 && cat.bytes.iter().all(|&byte| byte == 6));
}

#[test]
fn freed_blocks_are_discarded_where_that_is_asked_for() {
    if !possible() {
        return;
    }
    for discard in [false, true] {
        let place = Place::new("cli-discard");
        place.mount(if discard { &["-o", "discard,logbsize=64k"] } else { &[] });
        let (big, kept) = (place.dir.join("big"), place.dir.join("kept"));
        fs::write(&kept, vec![6; 5 << 20]).unwrap();
        fs::write(&big, vec![5; 100 << 20]).unwrap();
        let root = File::open(&place.dir).unwrap();
        File::open(&big).unwrap().sync_all().unwrap();
        let allocated = || fs::metadata(&place.image).unwrap().blocks() * 512;
        let before = allocated();
        fs::remove_file(&big).unwrap();
        if discard {
            until("the blocks are discarded", || {
                root.sync_all().unwrap();
                allocated() + (90 << 20) <= before
            });
        }
        drop(root);
        place.umount();
        assert_eq!(allocated() + (90 << 20) <= before, discard);
        place.verify();
        let cat = expect(0, &["cat", &shown(&place.image), "/kept"]);
        assert!(cat.bytes.len() == 5 << 20 && cat.bytes.iter().all(|&byte| byte == 6));
    }
}

/// Returns the free bytes of a filesystem.
fn free_bytes(dir: &Path) -> u64 {
    let stat = rustix::fs::statvfs(dir).unwrap();
    stat.f_bavail * stat.f_frsize
}

// ---- freeze ------------------------------------------------------------------------------------

/// Copies the image, and verifies the copy after the kernel has recovered it: files without a name
/// leave something to do.
fn verify_recovered_copy(place: &Place, files: &[(&str, &[u8])]) {
    let copy = place.scratch.path().join("copy.img");
    fs::copy(&place.image, &copy).unwrap();
    let kernel = Kernel::mount(&place.scratch, &copy, "rw");
    for (name, content) in files {
        assert!(fs::read(kernel.0.join(name)).unwrap() == *content, "{name}");
    }
    drop(kernel);
    verify::file(&copy).expect("a whole volume");
    fs::remove_file(copy).unwrap();
}

/// Copies the image, and verifies the copy as it lies: clean, and for the kernel without recovery.
fn verify_copy(place: &Place, files: &[(&str, &[u8])]) {
    let copy = place.scratch.path().join("copy.img");
    fs::copy(&place.image, &copy).unwrap();
    let repair = Command::new("xfs_repair").args(["-n"]).arg(&copy).output().unwrap();
    let stderr = String::from_utf8_lossy(&repair.stderr);
    assert!(repair.status.success() && !stderr.contains("ALERT"), "{stderr}");
    let kernel = Kernel::mount(&place.scratch, &copy, "ro,norecovery");
    for (name, content) in files {
        assert!(fs::read(kernel.0.join(name)).unwrap() == *content, "{name}");
    }
    drop(kernel);
    verify::file(&copy).expect("a whole volume");
    let journal = expect(0, &["info", &shown(&copy)]).stdout;
    assert!(journal.contains("clean"), "{journal}");
    fs::remove_file(copy).unwrap();
}

#[test]
fn a_frozen_mount_is_read_while_64_writers_wait() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        read_while_writers_wait(&Place::by(transport, "cli-freeze"));
    }
}

fn read_while_writers_wait(place: &Place) {
    place.mount(&[]);
    let dir = shown(&place.dir);
    let content = vec![3; 2_000_000];
    fs::write(place.dir.join("read"), &content).unwrap();
    // Content that is in the kernel's cache only, of a process that keeps the file open.
    let mut writer = Process::shell(&place.dir, "exec > open; printf %0700001d 0; read x");
    until("written", || {
        fs::metadata(place.dir.join("open")).is_ok_and(|file| file.len() == 700_001)
    });
    // The kernel locks a directory while a change in it waits.
    for n in 0..64 {
        fs::create_dir_all(place.dir.join(format!("sub/{n}"))).unwrap();
    }
    expect(0, &["freeze", &dir]);
    let again = expect(2, &["freeze", &dir]);
    assert!(again.stderr.contains("frozen already"), "{}", again.stderr);
    let still = fs::read(&place.image).unwrap();
    // Processes, because one that executes a program first closes what it has written, and waits.
    let change = |n: usize| {
        let what = [
            "mkdir new",
            "head -c 100000 /dev/zero > new",
            "ln -s target new",
            "dd if=/dev/zero of=../../open bs=1000 seek=$0 count=1 conv=notrunc,fsync status=none",
            "chmod 640 ../../read",
            "ln ../../read new",
            "touch new",
            "mkfifo new",
        ];
        Process::shell(
            &place.dir.join(format!("sub/{n}")),
            &what[n % 8].replace("$0", &n.to_string()),
        )
    };
    let mut writers: Vec<Process> = (0..64).map(change).collect();
    std::thread::sleep(Duration::from_secs(1));
    assert!(writers.iter_mut().all(Process::is_running), "changes wait");
    // Reads that the kernel does not answer from its cache.
    let start = Instant::now();
    for n in 0..50 {
        let file = File::open(place.dir.join("read")).unwrap();
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        let mut buf = vec![0; 300_000];
        file.read_exact_at(&mut buf, n * 30_000).unwrap();
        assert!(buf.iter().all(|&byte| byte == 3));
        assert!(fs::metadata(place.dir.join(format!("missing-{n}"))).is_err());
        assert_eq!(fs::read_dir(&place.dir).unwrap().count(), 3);
    }
    assert!(start.elapsed() < Duration::from_secs(20));
    expect(0, &["stats", &dir]);
    assert_eq!(json(&["bulkstat", "--json", &dir]).len(), 4 + 64);
    expect(0, &["check", &dir]);
    expect(0, &["extents", &shown(&place.dir.join("read"))]);
    assert!(fs::read(&place.image).unwrap() == still, "not a byte was written");
    verify_copy(place, &[("read", &content), ("open", &vec![b'0'; 700_001])]);
    expect(0, &["thaw", &dir]);
    until("the writers go on", || writers.iter_mut().all(|writer| !writer.is_running()));
    let again = expect(2, &["thaw", &dir]);
    assert!(again.stderr.contains("not frozen"), "{}", again.stderr);
    let made = |n: &usize| fs::symlink_metadata(place.dir.join(format!("sub/{n}/new"))).is_ok();
    assert_eq!((0..64).filter(made).count(), 8 * 6);
    assert!(writers.iter_mut().all(Process::succeeded));
    writer.end();
    place.umount();
    place.verify();
}

/// All on one processor, whose queue has fewer entries than there are programs that wait.
#[test]
fn programs_that_are_killed_while_they_wait_hinder_no_others() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let place = Place::by(transport, "cli-freeze-kill");
        place.mount(&[]);
        let dir = shown(&place.dir);
        for n in 0..80 {
            fs::create_dir_all(place.dir.join(n.to_string())).unwrap();
        }
        expect(0, &["freeze", &dir]);
        let make = |n| Process::shell(&place.dir, &format!("exec taskset -c 0 mkdir {n}/new"));
        let mut writers: Vec<Process> = (0..80).map(make).collect();
        std::thread::sleep(Duration::from_millis(500));
        // They end when they have their reply.
        for writer in &writers {
            kill_process(Pid::from_child(&writer.0), Signal::KILL).unwrap();
        }
        let stat = "exec taskset -c 0 stat -c %n missing-$0";
        let mut reader = Process::shell(&place.dir, &format!("{stat}; true"));
        until("a read goes on", || !reader.is_running());
        assert!(writers.iter_mut().all(Process::is_running));
        expect(0, &["thaw", &dir]);
        until("the writers end", || writers.iter_mut().all(|writer| !writer.is_running()));
        for n in 0..80 {
            assert!(place.dir.join(format!("{n}/new")).is_dir(), "{n}");
        }
        place.umount();
        place.verify();
    }
}

#[test]
fn freezes_under_load_leave_whole_copies() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        freeze_under_load(&Place::by(transport, "cli-freeze-load"));
    }
}

fn freeze_under_load(place: &Place) {
    place.mount(&[]);
    let dir = shown(&place.dir);
    let churn =
        "n=$0; while :; do n=$((n + 4)); head -c $((n * 997 % 60000)) /dev/zero > c$((n % 90))
        mv -f c$((n % 90)) m$((n % 70)); mkdir -p d$((n % 20)); ln -f m$((n % 70)) l$((n % 30))
        rmdir d$(((n + 7) % 20)); rm -f m$((n * 3 % 70)); done 2> /dev/null";
    let mut load: Vec<Process> =
        (0..4).map(|n| Process::shell(&place.dir, &churn.replace("$0", &n.to_string()))).collect();
    for round in 0..4 {
        std::thread::sleep(Duration::from_millis(200));
        let synced = vec![round; 300_000];
        fs::write(place.dir.join("before"), &synced).unwrap();
        expect(0, &["freeze", &dir]);
        verify_recovered_copy(place, &[("before", &synced)]);
        expect(0, &["thaw", &dir]);
    }
    load.iter_mut().for_each(Process::end);
    // Programs that the shells have started end a little later.
    until("the programs have ended", || xfskit(&["umount", &dir]).code == 0);
    place.verify();
}

#[test]
fn files_without_a_name_are_freed_by_the_opening_of_a_frozen_copy() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-freeze-open");
    place.mount(&[]);
    let mut open = File::create(place.dir.join("open")).unwrap();
    open.write_all(&vec![4; 700_001]).unwrap();
    fs::remove_file(place.dir.join("open")).unwrap();
    let forgotten = File::create(place.dir.join("other")).unwrap();
    fs::remove_file(place.dir.join("other")).unwrap();
    expect(0, &["freeze", &shown(&place.dir)]);
    let still = fs::read(&place.image).unwrap();
    // Closed while frozen: it is freed by the thaw.
    drop(forgotten);
    std::thread::sleep(Duration::from_millis(300));
    assert!(fs::read(&place.image).unwrap() == still, "not a byte was written");
    let copy = place.scratch.path().join("copy.img");
    fs::copy(&place.image, &copy).unwrap();
    let recovered = expect(0, &["recover", &shown(&copy)]);
    assert_eq!(json(&["bulkstat", "--json", &shown(&copy)]).len(), 1, "{}", recovered.stderr);
    verify::file(&copy).expect("a whole volume");
    expect(0, &["thaw", &shown(&place.dir)]);
    until("the closed file is freed", || {
        json(&["bulkstat", "--json", &shown(&place.dir)]).len() == 2
    });
    drop(open);
    place.umount();
    place.verify();
}

#[test]
fn the_end_of_a_frozen_mount_thaws_it() {
    if !possible() {
        return;
    }
    let ends = ["xfskit umount", "umount", "SIGTERM", "lazy"];
    let all = Transport::all();
    for (end, transport) in ends.iter().flat_map(|end| all.iter().map(move |by| (*end, *by))) {
        let place = Place::by(transport, "cli-freeze-end");
        place.mount(&[]);
        let dir = shown(&place.dir);
        fs::write(place.dir.join("file"), "").unwrap();
        expect(0, &["freeze", &dir]);
        let server = place.server();
        // The close waits for the thaw, and keeps the mount busy.
        let is_busy = ["SIGTERM", "lazy"].contains(&end);
        let write = "exec dd if=/dev/zero of=file bs=1M count=1 conv=notrunc status=none";
        let mut writer = is_busy.then(|| Process::shell(&place.dir, write));
        std::thread::sleep(Duration::from_millis(300));
        match end {
            "xfskit umount" => drop(expect(0, &["umount", &dir])),
            "umount" => {
                let mut umount = Command::new("umount").arg(&place.dir).spawn().unwrap();
                assert_eq!(code_of(&mut umount), 0);
            }
            "lazy" => drop(expect(0, &["umount", "--lazy", &dir])),
            _ => kill_process(server, Signal::TERM).unwrap(),
        }
        until(end, || !is_mounted(&place.dir) && !is_running(server));
        let cat = expect(0, &["cat", &shown(&place.image), "/file"]);
        let written = if is_busy { 1 << 20 } else { 0 };
        assert!(cat.bytes.len() == written && cat.bytes.iter().all(|&byte| byte == 0), "{end}");
        assert!(writer.iter_mut().all(Process::succeeded));
        place.verify();
    }
}

fn is_running(pid: Pid) -> bool {
    Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists()
}

// ---- check -------------------------------------------------------------------------------------

#[test]
fn a_volume_in_use_is_checked_at_any_load() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-check");
    place.mount(&[]);
    let dir = shown(&place.dir);
    let unnamed = File::create(place.dir.join("unnamed")).unwrap();
    unnamed.write_all_at(&[1; 10_000], 0).unwrap();
    // The ".." of a directory that was removed while it was open is no link of its parent.
    fs::create_dir(place.dir.join("removed")).unwrap();
    let removed = File::open(place.dir.join("removed")).unwrap();
    fs::remove_dir(place.dir.join("removed")).unwrap();
    while_running(
        |n| churn(&place.dir, n),
        8,
        || {
            for round in 0..8 {
                let check = expect(0, &["check", &dir]);
                assert!(check.stdout.contains("clean"), "{}", check.stdout);
                if round == 4 {
                    fs::remove_file(place.dir.join("unnamed")).unwrap();
                }
            }
            let all = json(&["check", "--json", &dir]);
            assert_eq!(all.last().unwrap()["clean"], true);
        },
    );
    drop((unnamed, removed));
    // Damage below the mount: the superblock of group 1.
    let geometry = &json(&["info", "--json", &shown(&place.image)])[0]["geometry"];
    let field = |name: &str| geometry[name].as_u64().unwrap();
    let second = field("agblocks") << field("blocklog");
    let image = File::options().read(true).write(true).open(&place.image).unwrap();
    let mut good = [0; 64];
    image.read_exact_at(&mut good, second).unwrap();
    image.write_all_at(&[0xff; 64], second).unwrap();
    let damaged = expect(1, &["check", &dir]);
    assert!(damaged.stdout.contains("corrupt"), "{}", damaged.stdout);
    image.write_all_at(&good, second).unwrap();
    expect(0, &["check", &dir]);
    place.umount();
    place.verify();
}

#[test]
fn a_check_ends_with_its_mount() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-check-end");
    place.mount(&[]);
    let dir = shown(&place.dir);
    let mut check = Command::new(env!("CARGO_BIN_EXE_xfskit"))
        .args(["bulkstat", "--json", &dir])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    place.kill_server();
    assert!(code_of(&mut check) <= 2);
    // No process serves it any more.
    until("gone", || xfskit(&["check", &dir]).code == 2);
    let ended = xfskit(&["umount", &dir]);
    assert!(ended.code <= 1, "{}", ended.stderr);
    expect(0, &["recover", &shown(&place.image)]);
    place.verify();
}
