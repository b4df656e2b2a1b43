//! `xfskit mount` and `umount`: what a user sees.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xfskit_test_support::image::Scratch;
use xfskit_test_support::need::{Need, needs};
use xfskit_test_support::{skip, verify};

use super::common::{shown, xfskit};

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
        let scratch = Scratch::new(purpose);
        let (image, dir) = (scratch.path().join("a.img"), scratch.path().join("mnt"));
        fs::create_dir(&dir).unwrap();
        let made = xfskit(&[&["mkfs", "--size", "512M", &shown(&image)], options].concat());
        assert_eq!(made.code, 0, "{}", made.stderr);
        Self { scratch, image, dir }
    }

    pub(crate) fn mount(&self, options: &[&str]) {
        let (image, dir) = (shown(&self.image), shown(&self.dir));
        let args = [&["mount", &image, &dir], options].concat();
        let mounted = xfskit(&args);
        assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    }

    pub(crate) fn umount(&self) {
        let ended = xfskit(&["umount", &shown(&self.dir)]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
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
fn a_signal_unmounts_cleanly() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-term");
    let mut child = Command::new(env!("CARGO_BIN_EXE_xfskit"))
        .args(["mount", "--foreground", &shown(&place.image), &shown(&place.dir)])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("mounted", || is_mounted(&place.dir));
    fs::write(place.dir.join("file"), vec![5; 1 << 20]).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!is_mounted(&place.dir));
    place.verify();
    let cat = xfskit(&["cat", &shown(&place.image), "/file"]);
    assert_eq!(cat.bytes.len(), 1 << 20);
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

#[test]
fn what_was_synced_survives_a_killed_server() {
    if !possible() {
        return;
    }
    let rounds = if skip::long() { 100 } else { 5 };
    let place = Place::new("cli-mount-kill");
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
        rustix::process::kill_process(place.server(), rustix::process::Signal::KILL).unwrap();
        assert!(load.join().unwrap() > 0, "the load ran");
        drop(file);
        let ended = xfskit(&["umount", &shown(&place.dir)]);
        assert!(ended.code <= 1, "{}", ended.stderr);
        until("taken down", || !is_mounted(&place.dir));
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
