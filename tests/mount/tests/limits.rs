//! What POSIX says of times, rights and limits, on a mount by xfskit as on one by Linux.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Advice, AtFlags, CWD, OFlags, Timespec, Timestamps, XattrFlags};
use xfskit_test_mount::pair::{Served, empty, possible, same};
use xfskit_test_mount::users::acting;
use xfskit_test_support::image::{Mount, Scratch};

/// Time between two changes that have different times for certain: more than a tick of the kernel's
/// clock.
const TICK: Duration = Duration::from_millis(30);
const HOUR: i64 = 3600;

/// A use of what has a path.
type Use<'u> = &'u dyn Fn(&Path);

/// Sets the times of a path, in seconds from now.
fn set_times(path: &Path, atime: i64, mtime: i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let now = i64::try_from(now).expect("small");
    let time = |sec: i64| Timespec { tv_sec: now + sec, tv_nsec: 0 };
    let times = Timestamps { last_access: time(atime), last_modification: time(mtime) };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times");
    std::thread::sleep(TICK);
}

/// Uses files, directories and links with other times each, and returns which of their times of
/// access change. Nothing of them is in the kernel's cache: it tells no filesystem in user space of
/// reads that it answers itself.
fn accesses(root: &Path) -> Vec<String> {
    let read = |path: &Path| {
        let file = File::open(path).expect("a file");
        file.sync_all().expect("synced");
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
        file.read_exact_at(&mut [0; 100], 500).expect("read");
    };
    let list = |path: &Path| assert_eq!(fs::read_dir(path).expect("a listing").count(), 0);
    let follow = |path: &Path| drop(fs::read_link(path).expect("a target"));
    let uses: [(&str, Use<'_>); 3] = [("file", &read), ("dir", &list), ("link", &follow)];
    let times = [(-HOUR, 0), (HOUR, -HOUR), (-48 * HOUR, -72 * HOUR), (-60, -2 * HOUR)];
    let mut seen = Vec::new();
    for (number, (atime, mtime)) in times.into_iter().enumerate() {
        let at = |name: &str| root.join(format!("{name}-{number}"));
        fs::write(at("file"), vec![1; 20_000]).expect("a file");
        fs::create_dir(at("dir")).expect("a directory");
        std::os::unix::fs::symlink("target", at("link")).expect("a link");
        for (name, access) in uses {
            let path = at(name);
            set_times(&path, atime, mtime);
            let when = || {
                let stat = rustix::fs::lstat(&path).expect("metadata");
                (stat.st_atime, stat.st_atime_nsec)
            };
            let before = when();
            access(&path);
            seen.push(format!("{name}, {atime}: {}", before != when()));
        }
    }
    seen
}

#[test]
fn times_of_access_change_as_on_linux() {
    if !possible() {
        return;
    }
    for options in ["relatime", "strictatime", "noatime", "nodiratime,strictatime"] {
        let scratch = Scratch::new("mount-atime");
        let linux = empty(&scratch, "linux.img", &[]);
        let by_linux = Mount::read_write_with(&linux, &scratch, options).expect("by Linux");
        let expected = accesses(by_linux.path());
        by_linux.unmount().expect("an unmount");
        let served = Served::new(empty(&scratch, "ours.img", &[]), &scratch, options);
        assert_eq!(accesses(served.path()), expected, "-o {options}; right is Linux");
        served.end();
    }
}

#[test]
fn a_new_volume_has_the_size_that_it_has_on_linux() {
    if !possible() {
        return;
    }
    for options in [&[][..], &["-b", "size=1024"], &["-i", "maxpct=3"]] {
        same(options, |root| {
            let of = rustix::fs::statvfs(root).expect("sizes");
            let sizes = [of.f_bsize, of.f_frsize, of.f_blocks, of.f_files, of.f_namemax];
            vec![format!("{sizes:?}"), format!("{} {} {}", of.f_bfree, of.f_bavail, of.f_ffree)]
        });
    }
}

#[test]
fn a_user_who_may_write_sets_times_to_now_and_to_no_others() {
    if !possible() {
        return;
    }
    same(&[], |root| {
        let path = root.join("file");
        fs::write(&path, "text").expect("a file");
        let mut seen = Vec::new();
        for mode in [0o666, 0o644, 0o600] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
            let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
            let given = Timespec { tv_sec: 1_000_000, tv_nsec: 5 };
            for (last_access, last_modification) in
                [(now, now), (now, omit), (omit, now), (given, given), (given, omit), (omit, omit)]
            {
                // With content that the kernel has not sent yet, whose times it keeps.
                let mut file = fs::OpenOptions::new().append(true).open(&path).expect("open");
                std::io::Write::write_all(&mut file, b"more").expect("written");
                set_times(&path, -HOUR, -HOUR);
                let times = Timestamps { last_access, last_modification };
                let set =
                    acting(5, 5, || rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()));
                let stat = rustix::fs::stat(&path).expect("metadata");
                let fresh = fs::metadata(&path).expect("metadata").modified().expect("a time");
                let age = fresh.elapsed().map_or(0, |age| age.as_secs());
                seen.push(format!("{mode:o}: {set:?}, {} bytes, new: {}", stat.st_size, age < 60));
            }
        }
        seen
    });
}

/// Formats how a call ended, without what an error says in words.
fn ended(result: std::io::Result<()>) -> String {
    format!("{:?}", result.map_err(|error| error.raw_os_error()))
}

/// Opens a file and changes its content in one way.
fn changed(path: &Path, how: &str) -> std::io::Result<()> {
    let mut open = fs::OpenOptions::new();
    let flags = if how == "direct" { OFlags::DIRECT } else { OFlags::empty() };
    open.write(true).truncate(how == "empty").custom_flags(flags.bits().cast_signed());
    let file = open.open(path)?;
    match how {
        "write" => file.write_all_at(b"x", 0)?,
        "direct" => {
            let memory = vec![1; 8192];
            let skip = memory.as_ptr().align_offset(4096);
            file.write_all_at(&memory[skip..skip + 4096], 0)?;
        }
        "truncate" => file.set_len(1)?,
        "copy" => {
            let from = File::open(path)?;
            rustix::fs::copy_file_range(&from, Some(&mut 0), &file, Some(&mut 8192), 2)?;
        }
        _ => {}
    }
    Ok(())
}

#[test]
fn a_write_takes_setuid_from_files_of_others_as_on_linux() {
    if !possible() {
        return;
    }
    same(&[], |root| {
        let path = root.join("program");
        let mut seen = Vec::new();
        for (user, mode) in [(0, 0o6777), (5, 0o6777), (5, 0o4777)] {
            for how in ["write", "direct", "truncate", "copy", "empty"] {
                fs::write(&path, "#!").expect("a file");
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
                let done = acting(user, user, || changed(&path, how));
                let now = fs::metadata(&path).expect("metadata").permissions().mode();
                seen.push(format!("{how} by {user} of {mode:o}: {}, {now:o}", ended(done)));
            }
        }
        seen
    });
}

#[test]
fn lists_of_attributes_end_at_the_limit_of_linux() {
    /// Bytes that listxattr(2) returns at most.
    const MOST: usize = 65_536;
    if !possible() {
        return;
    }
    same(&[], |root| {
        let path = root.join("file");
        fs::write(&path, "").expect("a file");
        let ask = |size: usize| {
            let len = rustix::fs::listxattr(&path, &mut vec![0; size][..]);
            format!("{size}: {len:?}")
        };
        let set = |name: String| {
            rustix::fs::setxattr(&path, name, b"", XattrFlags::empty()).expect("an attribute");
        };
        // 256 bytes of the list each, so that all are as long as the limit.
        (0..255).for_each(|n| set(format!("user.{n:0250}")));
        let mut seen = Vec::new();
        for last in ["a".repeat(249), "b".to_owned()] {
            set(format!("user.{last}"));
            seen.extend([0, 100, MOST - 257, MOST - 2, MOST - 1, MOST, 2 * MOST].map(ask));
        }
        // What can be listed is verified afterwards.
        rustix::fs::removexattr(&path, "user.b").expect("removed");
        seen
    });
}
