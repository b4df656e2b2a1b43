//! `xfskit mount` and `umount`: what a user sees.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xfskit_test_support::image::Scratch;
use xfskit_test_support::need::{Need, needs};
use xfskit_test_support::transport::{Offered, Transport, Withheld};
use xfskit_test_support::{skip, verify};

use super::common::{expect, json, shown, xfskit};

/// Time in which anything here ends.
const SOON: Duration = Duration::from_secs(60);

pub(crate) fn possible() -> bool {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return false;
    }
    let there = Path::new("/dev/fuse").exists();
    if !there {
        skip::skip("/dev/fuse");
    }
    there
}

/// A directory with a volume and a mount point. A mount that is left at the end is taken down.
pub(crate) struct Place {
    transport: Transport,
    _offered: Option<Offered>,
    pub(crate) scratch: Scratch,
    pub(crate) image: PathBuf,
    pub(crate) dir: PathBuf,
}

impl Place {
    pub(crate) fn new(purpose: &str) -> Self {
        Self::with(purpose, &[])
    }

    /// Makes a volume with more options of `mkfs`.
    pub(crate) fn with(purpose: &str, options: &[&str]) -> Self {
        Self::made(Transport::Device, purpose, options)
    }

    /// Makes a volume whose requests come by `transport` when it is mounted.
    pub(crate) fn by(transport: Transport, purpose: &str) -> Self {
        Self::made(transport, purpose, &[])
    }

    fn made(transport: Transport, purpose: &str, options: &[&str]) -> Self {
        let scratch = Scratch::new(purpose);
        let (image, dir) = (scratch.path().join("a.img"), scratch.path().join("mnt"));
        fs::create_dir(&dir).unwrap();
        let made = xfskit(&[&["mkfs", "--size", "512M", &shown(&image)], options].concat());
        assert_eq!(made.code, 0, "{}", made.stderr);
        Self { transport, _offered: transport.offer(), scratch, image, dir }
    }

    pub(crate) fn mount(&self, options: &[&str]) {
        let (image, dir) = (shown(&self.image), shown(&self.dir));
        let args = [&["mount", "-o", self.transport.option(), &image, &dir], options].concat();
        let mounted = xfskit(&args);
        assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    }

    pub(crate) fn umount(&self) {
        expect(0, &["umount", &shown(&self.dir)]);
    }

    /// Unmounts what a killed process leaves.
    fn take_down(&self) {
        let ended = xfskit(&["umount", &shown(&self.dir)]);
        assert!(ended.code <= 1, "{}", ended.stderr);
        until("taken down", || !is_mounted(&self.dir));
    }

    /// Returns the process that serves the mount.
    pub(crate) fn server(&self) -> rustix::process::Pid {
        let image = shown(&self.image);
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|&byte| byte == 0).collect();
            let mounts = words.contains(&b"mount".as_slice());
            if mounts && words.contains(&image.as_bytes()) {
                let pid = entry.file_name().to_string_lossy().parse().unwrap();
                return rustix::process::Pid::from_raw(pid).unwrap();
            }
        }
        panic!("no process serves the mount");
    }

    /// Kills the process that serves the mount. It has ended when this returns, so that nothing
    /// holds the image any more.
    pub(crate) fn kill_server(&self) {
        let pid = self.server();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        ended(pid);
    }

    pub(crate) fn verify(&self) {
        verify::file(&self.image).expect("a sound volume");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(&self.dir, flags);
    }
}

/// Waits until a process that is no child of this one has ended.
fn ended(pid: rustix::process::Pid) {
    until("the process ended", || rustix::process::test_kill_process(pid).is_err());
}

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn is_mounted(dir: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.contains(&shown(dir))
}

#[test]
fn a_volume_is_mounted_in_the_background_and_closed_when_umount_returns() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount");
    place.mount(&[]);
    fs::write(place.dir.join("file"), "text").unwrap();
    let stats = xfskit(&["stats", &shown(&place.dir)]);
    assert_eq!(stats.code, 0, "{}", stats.stderr);
    for part in ["create", "transactions", "buffers", "lock"] {
        assert!(stats.stdout.contains(part), "{part}: {}", stats.stdout);
    }
    // A target in use is refused, by mount and by every command that writes.
    let other = place.scratch.path().join("other");
    fs::create_dir(&other).unwrap();
    let again = xfskit(&["mount", &shown(&place.image), &shown(&other)]);
    assert_eq!(again.code, 2, "{}", again.stdout);
    let twice = xfskit(&["mount", &shown(&place.image), &shown(&place.dir)]);
    assert_eq!(twice.code, 2);
    assert!(twice.stderr.contains("already"), "{}", twice.stderr);
    place.umount();
    assert!(!is_mounted(&place.dir));
    let cat = xfskit(&["cat", &shown(&place.image), "/file"]);
    assert_eq!(cat.stdout, "text");
    place.verify();
}

#[test]
fn options_that_are_not_valid_exit_2_before_anything_is_mounted() {
    let place = Place::new("cli-mount-bad");
    let (image, dir) = (shown(&place.image), shown(&place.dir));
    for (args, says) in [
        (vec!["mount", "-o", "nonsense", &*image, &*dir], "nonsense"),
        (vec!["mount", "-o", "uquota", &*image, &*dir], "quotas are not supported"),
        (vec!["mount", "-o", "logbsize=5", &*image, &*dir], "logbsize=5: not a valid value"),
        (vec!["mount", &*image, "/no/such/directory"], "No such file"),
        (vec!["mount", &*image, &*image], "not a directory"),
        (vec!["mount", "/no/such/image", &*dir], "No such file"),
        (vec!["mount", "--subdir", "/none", &*image, &*dir], "none"),
        (vec!["umount", &*dir], "mounted nothing there"),
    ] {
        if !Path::new("/dev/fuse").exists() && args.len() == 3 {
            continue;
        }
        let run = xfskit(&args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
        assert!(!is_mounted(&place.dir));
    }
}

#[test]
fn a_read_only_mount_and_one_of_a_subdirectory_show_what_is_there() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-ro");
    place.mount(&[]);
    fs::create_dir(place.dir.join("below")).unwrap();
    fs::write(place.dir.join("below/file"), "text").unwrap();
    place.umount();
    let before = fs::read(&place.image).unwrap();
    place.mount(&["-o", "ro"]);
    assert_eq!(fs::read_to_string(place.dir.join("below/file")).unwrap(), "text");
    let refused = fs::write(place.dir.join("new"), "").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    place.umount();
    assert!(fs::read(&place.image).unwrap() == before, "not a byte was written");
    place.mount(&["--subdir", "/below"]);
    assert_eq!(fs::read_to_string(place.dir.join("file")).unwrap(), "text");
    place.umount();
    place.verify();
}

#[test]
fn a_partition_is_mounted_and_the_rest_of_the_disk_stays_as_it_is() {
    const START: u64 = 1 << 20;
    const SIZE: u64 = 400 << 20;
    if !possible() {
        return;
    }
    let scratch = Scratch::new("cli-mount-partition");
    let (disk, dir) = (scratch.path().join("disk.img"), scratch.path().join("mnt"));
    fs::create_dir(&dir).unwrap();
    let file = fs::File::create_new(&disk).unwrap();
    file.set_len(START + SIZE + START).unwrap();
    let mut table = vec![7; 1 << 20];
    table[446..510].fill(0);
    table[450] = 0x83;
    for (at, bytes) in [(454, START), (458, SIZE)] {
        table[at..at + 4].copy_from_slice(&u32::try_from(bytes / 512).unwrap().to_le_bytes());
    }
    table[510..512].copy_from_slice(&[0x55, 0xaa]);
    file.write_all_at(&table, 0).unwrap();
    file.write_all_at(&table, START + SIZE).unwrap();
    let part = format!("{}#p1", shown(&disk));
    expect(0, &["mkfs", "-q", &part]);
    expect(0, &["mount", &part, &shown(&dir)]);
    fs::write(dir.join("file"), vec![5; 3 << 20]).unwrap();
    expect(0, &["check", &shown(&dir)]);
    expect(0, &["umount", &shown(&dir)]);
    assert_eq!(expect(0, &["cat", &part, "/file"]).bytes, vec![5; 3 << 20]);
    for at in [0, START + SIZE] {
        let mut rest = vec![0; 1 << 20];
        file.read_exact_at(&mut rest, at).unwrap();
        assert!(rest == table, "beside the partition, at {at}");
    }
    let alone = scratch.path().join("alone.img");
    let (from, to) = (format!("if={}", shown(&disk)), format!("of={}", shown(&alone)));
    let dd = ["bs=1M", "skip=1", "count=400", "conv=sparse", "status=none", &from, &to];
    assert!(Command::new("dd").args(dd).status().unwrap().success());
    fs::File::options().write(true).open(&alone).unwrap().set_len(SIZE).unwrap();
    verify::file(&alone).expect("a sound volume");
}

#[test]
fn a_signal_unmounts_cleanly() {
    use rustix::process::Signal;
    if !possible() {
        return;
    }
    for (signal, transport) in [Signal::TERM, Signal::INT, Signal::HUP]
        .into_iter()
        .zip(Transport::all().into_iter().cycle())
    {
        let place = Place::by(transport, "cli-mount-term");
        let mut child = Command::new(env!("CARGO_BIN_EXE_xfskit"))
            .args(["mount", "--foreground", "-o", transport.option()])
            .args([&place.image, &place.dir])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("mounted", || is_mounted(&place.dir));
        fs::write(place.dir.join("file"), vec![5; 1 << 20]).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        assert!(child.wait().unwrap().success(), "{signal:?}");
        assert!(!is_mounted(&place.dir));
        place.verify();
        let cat = xfskit(&["cat", &shown(&place.image), "/file"]);
        assert_eq!(cat.bytes.len(), 1 << 20);
    }
}

#[test]
fn a_process_of_root_is_locked_in_memory_and_does_not_wait_for_its_own_writes() {
    /// Bits of capabilities(7).
    const IPC_LOCK: u64 = 1 << 14;
    const SYS_RESOURCE: u64 = 1 << 24;
    /// Memory is allocated without I/O: `PF_MEMALLOC_NOIO` of the flags in proc(5).
    const NOIO: u64 = 0x0008_0000;
    if !possible() {
        return;
    }
    let field = |status: &str, name: &str, radix| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim().trim_end_matches(" kB"), radix).unwrap()
    };
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let rights = field(&own, "CapEff:", 16);
    let place = Place::new("cli-mount-locked");
    place.mount(&["--cache", "64M"]);
    fs::write(place.dir.join("file"), vec![5; 1 << 20]).unwrap();
    let server = Path::new("/proc").join(place.server().as_raw_nonzero().to_string());
    let status = fs::read_to_string(server.join("status")).unwrap();
    if rights & IPC_LOCK == 0 {
        skip::note("CAP_IPC_LOCK is missing: memory is not locked");
    } else {
        let (locked, used) = (field(&status, "VmLck:", 10), field(&status, "VmRSS:", 10));
        assert!(locked >= used && used > 1000, "{locked} of {used} KiB are locked");
    }
    if rights & SYS_RESOURCE == 0 {
        skip::note("CAP_SYS_RESOURCE is missing: memory is asked for as usual");
    }
    for thread in fs::read_dir(server.join("task")).unwrap() {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        let behind = stat.rsplit_once(')').unwrap().1;
        let flags: u64 = behind.split_whitespace().nth(6).unwrap().parse().unwrap();
        assert_eq!(flags & NOIO != 0, rights & SYS_RESOURCE != 0, "{stat}");
    }
    place.umount();
    place.verify();
}

/// The kernel leaves O_TRUNC to OPEN, where that is not refused.
#[test]
fn an_open_truncates_with_and_without_open_requests() {
    if !possible() {
        return;
    }
    for options in [&[][..], &["-o", "no_open"]] {
        let place = Place::new("cli-mount-truncate");
        let path = place.dir.join("file");
        place.mount(options);
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        place.umount();
        for _ in 0..2 {
            place.mount(options);
            let file = fs::File::create(&path).unwrap(); // O_TRUNC
            file.set_len(700_000).unwrap();
            assert!(fs::read(&path).unwrap() == vec![0; 700_000], "{options:?}");
            file.write_all_at(&vec![7; 100_000], 300_000).unwrap();
            drop(file);
            place.umount();
        }
        place.mount(options);
        fs::File::create(&path).unwrap();
        place.umount();
        let cat = xfskit(&["cat", &shown(&place.image), "/file"]);
        assert_eq!((cat.code, cat.bytes.len()), (0, 0), "{options:?}");
        place.verify();
    }
}

/// An open refuses it, or what the kernel sends at the close.
#[test]
fn an_immutable_file_stays_as_it_is_with_and_without_open_requests() {
    use std::os::fd::AsFd;
    use xfskit_test_support::fsxattr;
    if !possible() {
        return;
    }
    for options in [&[][..], &["-o", "no_open"]] {
        let place = Place::new("cli-mount-immutable");
        let path = place.dir.join("file");
        place.mount(options);
        fs::write(&path, "text").unwrap();
        let file = fs::File::open(&path).unwrap();
        let mut flags = fsxattr::get(file.as_fd()).unwrap();
        flags.xflags |= fsxattr::IMMUTABLE;
        fsxattr::set(file.as_fd(), flags).unwrap();
        drop(file);
        let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
        for change in ["write", "truncate", "fallocate"] {
            let open = fs::File::options().write(true).open(&path);
            let changed = open.and_then(|mut file| {
                match change {
                    "write" => file.write_all(b"more text")?,
                    "truncate" => file.set_len(1)?,
                    _ => rustix::fs::fallocate(&file, keep, 0, 100_000)?,
                }
                file.sync_all()
            });
            assert!(changed.is_err(), "{change}, {options:?}");
        }
        place.umount();
        let cat = xfskit(&["cat", &shown(&place.image), "/file"]);
        assert_eq!(cat.stdout, "text", "{options:?}");
        place.verify();
    }
}

#[test]
fn requests_come_by_what_the_options_ask_for_and_the_machine_has() {
    if !possible() {
        return;
    }
    let used = |place: &Place| {
        fs::write(place.dir.join("file"), "text").unwrap();
        let stats = expect(0, &["stats", &shown(&place.dir)]).stdout;
        let of = json(&["stats", "--json", &shown(&place.dir)])[0]["transport"].clone();
        let name = of["name"].as_str().unwrap().to_owned();
        assert!(stats.starts_with(&format!("transport {name}: ")), "{stats}");
        (name, of["device"].as_u64().unwrap(), of["io_uring"].as_u64().unwrap())
    };
    for transport in Transport::all() {
        let place = Place::by(transport, "cli-mount-transport");
        place.mount(&[]);
        let (name, device, io_uring) = used(&place);
        assert_eq!(name, transport.name());
        // INIT comes by the device in any case.
        assert!(device > 0 && (io_uring > 0) == (transport == Transport::IoUring), "{io_uring}");
        place.umount();
        place.verify();
    }
    let Some(_withheld) = Withheld::new() else { return };
    let place = Place::new("cli-mount-withheld");
    let log = place.scratch.path().join("mount.log");
    place.mount(&["-o", "io_uring", "--log", &shown(&log)]);
    let (name, _, io_uring) = used(&place);
    assert_eq!((&*name, io_uring), ("device", 0));
    let warned = logged(&log).iter().filter(|line| line.contains("io_uring")).count();
    assert_eq!(warned, 1, "{:?}", logged(&log));
    place.umount();
    place.verify();
}

#[test]
fn what_was_synced_survives_a_killed_server() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let rounds = if skip::long() { 100 } else { 4 };
        killed(&Place::by(transport, "cli-mount-kill"), rounds);
    }
}

/// Kills the server of a mount in each round, and looks for what was synced.
fn killed(place: &Place, rounds: u64) {
    for round in 0..rounds {
        place.mount(&[]);
        let synced = place.dir.join(format!("synced-{round}"));
        let mut file = fs::File::create_new(&synced).unwrap();
        file.write_all(&vec![1; 70_000]).unwrap();
        file.write_all_at(b"end", 200_000).unwrap();
        file.sync_all().unwrap();
        // A load that the kill interrupts.
        let dir = place.dir.clone();
        let load = std::thread::spawn(move || {
            for n in 0.. {
                let path = dir.join(format!("load-{round}-{n}"));
                if fs::write(&path, vec![2; 5000]).is_err() {
                    return n;
                }
            }
            0
        });
        std::thread::sleep(Duration::from_millis(100 + 50 * (round % 4)));
        place.kill_server();
        assert!(load.join().unwrap() > 0, "the load ran");
        drop(file);
        place.take_down();
        let recovered = xfskit(&["recover", &shown(&place.image)]);
        assert_eq!(recovered.code, 0, "{}", recovered.stderr);
        place.verify();
        for before in 0..=round {
            let cat = xfskit(&["cat", &shown(&place.image), &format!("/synced-{before}")]);
            assert_eq!((cat.code, cat.bytes.len()), (0, 200_003));
            assert!(cat.bytes[..70_000].iter().all(|&byte| byte == 1));
            assert!(cat.bytes.ends_with(b"end"));
        }
    }
}

#[test]
fn a_mount_without_a_process_says_so_and_how_it_is_removed() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-dead");
    place.mount(&[]);
    place.kill_server();
    let (image, dir) = (shown(&place.image), shown(&place.dir));
    until("the end of the process", || fs::metadata(&place.dir).is_err());
    for command in ["stats", "check", "freeze", "thaw", "info"] {
        let run = expect(2, &[command, &dir]);
        let says = format!("`xfskit umount {dir}` removes it");
        assert!(run.stderr.contains(&says), "{command}: {}", run.stderr);
    }
    let again = expect(2, &["mount", &image, &dir]);
    assert!(again.stderr.contains(&format!("`xfskit umount {dir}`")), "{}", again.stderr);
    expect(0, &["umount", &dir]);
    expect(0, &["recover", &image]);
    place.verify();
}

/// Kills the process of the mount while `file` is open on it, takes the mount down, and replays the
/// journal.
fn kill_and_recover(place: &Place, file: fs::File) {
    place.kill_server();
    // A close before would be a sync.
    drop(file);
    place.take_down();
    let recovered = xfskit(&["recover", &shown(&place.image)]);
    assert_eq!(recovered.code, 0, "{}", recovered.stderr);
    place.verify();
}

#[test]
fn a_synchronous_mount_has_each_write_on_the_volume_when_it_returns() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-sync");
    place.mount(&["-o", "sync"]);
    for round in 0..3_u8 {
        let path = place.dir.join(format!("file-{round}"));
        let mut file = fs::File::create_new(&path).unwrap();
        file.write_all(&vec![round; 70_000]).unwrap();
        file.write_all_at(b"end", 200_000).unwrap();
        fs::rename(&path, place.dir.join(format!("renamed-{round}"))).unwrap();
        // The file is open and nothing has been synced.
        kill_and_recover(&place, file);
        let cat = xfskit(&["cat", &shown(&place.image), &format!("/renamed-{round}")]);
        assert_eq!((cat.code, cat.bytes.len()), (0, 200_003), "{}", cat.stderr);
        assert!(cat.bytes[..70_000].iter().all(|&byte| byte == round));
        assert!(cat.bytes.ends_with(b"end"));
        place.mount(&["-o", "sync"]);
    }
    place.umount();
    place.verify();
}

#[test]
fn wsync_has_names_on_the_volume_when_a_call_returns() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-wsync");
    place.mount(&["-o", "wsync"]);
    let mut file = fs::File::create_new(place.dir.join("file")).unwrap();
    file.write_all(&vec![1; 70_000]).unwrap();
    fs::create_dir(place.dir.join("dir")).unwrap();
    fs::rename(place.dir.join("file"), place.dir.join("dir/renamed")).unwrap();
    kill_and_recover(&place, file);
    let list = xfskit(&["ls", &shown(&place.image), "/dir"]);
    assert_eq!(list.stdout.trim(), "renamed", "{}", list.stderr);
}

/// Returns the lines of a log, without the time and the process.
fn logged(path: &Path) -> Vec<String> {
    let log = fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (head, said) = line.split_once("] ").unwrap();
        assert!(head.contains("Z xfskit["), "{line}");
        said.to_owned()
    };
    log.lines().map(line).collect()
}

#[test]
fn the_log_has_the_first_cause_of_each_failure_and_how_the_mount_began_and_ended() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-log");
    let log = place.scratch.path().join("mount.log");
    let option = format!("log={}", shown(&log));
    let wait_for = |what: &str| {
        until(what, || logged(&log).iter().any(|line| line.contains(what)));
    };
    // A killed process, whose journal is replayed.
    place.mount(&["-o", &option]);
    fs::write(place.dir.join("file"), vec![7; 8 << 20]).unwrap();
    fs::File::open(place.dir.join("file")).unwrap().sync_all().unwrap();
    place.kill_server();
    place.take_down();
    // A full volume.
    place.mount(&["--log", &shown(&log)]);
    wait_for("the journal was replayed; transactions: ");
    let file = fs::File::create_new(place.dir.join("large")).unwrap();
    let flags = rustix::fs::FallocateFlags::empty();
    for _ in 0..5 {
        let full = rustix::fs::fallocate(&file, flags, 0, 1 << 30);
        assert_eq!(full, Err(rustix::io::Errno::NOSPC));
    }
    drop(file);
    let pid = place.server();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_for("the volume is closed");
    ended(pid);
    place.verify();
    // A target that fails: its end is cut off below the mount.
    place.mount(&["-o", &option]);
    let image = fs::OpenOptions::new().write(true).open(&place.image).unwrap();
    image.set_len(2 << 20).unwrap();
    let failed = fs::read(place.dir.join("file")).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    let first = json(&["stats", "--json", &shown(&place.dir)])[0]["first_failure"].clone();
    xfskit(&["umount", &shown(&place.dir)]);
    until("taken down", || !is_mounted(&place.dir));
    let lines = logged(&log);
    let image = shown(&place.image);
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count(&format!("info: {image}: mounted on {}", shown(&place.dir))), 3, "{lines:#?}");
    assert_eq!(count("a signal asks for the end of the mount"), 1, "{lines:#?}");
    assert_eq!(count(&format!("warning: {image}: an operation failed; error: ")), 1, "{lines:#?}");
    let cause = first.as_str().expect("a failure");
    let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors[0].ends_with(&format!("an operation failed; error: {cause}")), "{lines:#?}");
}

#[test]
fn a_process_in_the_foreground_logs_to_standard_error() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-stderr");
    let mut child = Command::new(env!("CARGO_BIN_EXE_xfskit"))
        .args(["mount", "--foreground", &shown(&place.image), &shown(&place.dir)])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("mounted", || is_mounted(&place.dir));
    let file = fs::File::create_new(place.dir.join("large")).unwrap();
    let full = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 30);
    assert_eq!(full, Err(rustix::io::Errno::NOSPC));
    drop(file);
    place.umount();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    let warning = format!("xfskit: warning: {}: an operation failed; error: ", shown(&place.image));
    assert_eq!(said.matches(&warning).count(), 1, "{said}");
    place.verify();
}

/// The kernel caches what is written: the error comes with close(2).
#[test]
fn a_full_volume_is_reported_by_what_writes_to_it() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-full");
    place.mount(&[]);
    let ended = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        let output =
            command.args(args).current_dir(&place.dir).env("LC_ALL", "C").output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let zeroes = "if=/dev/zero";
    for (program, args) in [
        ("dd", &[zeroes, "of=big", "bs=1M", "count=600", "status=none"][..]),
        ("dd", &[zeroes, "of=direct", "bs=1M", "count=600", "oflag=direct", "status=none"]),
        ("dd", &[zeroes, "of=synced", "bs=1M", "count=600", "conv=fsync", "status=none"]),
        ("fallocate", &["-l", "600M", "allocated"]),
        ("sh", &["-c", "for n in $(seq 100000); do mkdir dir-$n || exit 1; done"]),
    ] {
        let (code, said) = ended(program, args);
        assert_eq!(code, 1, "{args:?}: {said}");
        assert!(said.contains("No space left on device"), "{args:?}: {said}");
    }
    // There is room again, and no failure of the mount.
    for name in ["big", "direct", "synced"] {
        fs::remove_file(place.dir.join(name)).unwrap();
    }
    let text = vec![7; 10 << 20];
    until("blocks are free", || fs::write(place.dir.join("file"), &text).is_ok());
    let stats = &expect(0, &["stats", "--json", &shown(&place.dir)]).stdout;
    assert!(stats.contains(r#""first_failure":null"#), "{stats}");
    place.umount();
    place.verify();
    assert!(expect(0, &["cat", &shown(&place.image), "/file"]).bytes == text);
}
