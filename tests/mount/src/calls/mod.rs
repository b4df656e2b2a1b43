//! Random system calls on a few names, and what each returned.
//!
//! | module | calls |
//! | --- | --- |
//! | `names` | on names |
//! | `content` | on content |
//! | `held` | on files that stay open, and without a name |
//! | `metadata` | on modes, owners, times, attributes |
//! | `user` | calls of users other than root |
//!
//! Not among them is what FUSE refuses or does otherwise (docs/design/mount.md): COLLAPSE_RANGE,
//! INSERT_RANGE and UNSHARE_RANGE, FICLONE, direct I/O that is not aligned, and SEEK_HOLE before
//! content was written to the file.

mod content;
mod held;
mod metadata;
mod names;
mod user;

use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use xfskit_test_support::Random;

use crate::run::{Exempt, Run};

/// Bytes of a file at most, but for those of [`content`] that have a hole of a terabyte.
const REACH: u64 = 600_000;
/// Names of an entry.
const NAMES: [&str; 7] = ["a", "b", "c", "dd", "a-name-of-some-length", "x", "y"];
/// Files that stay open.
const HELD: usize = 4;
/// Users other than root that make calls; each has a group of the same number, and the group 5.
const USERS: u32 = 4;
/// Longer than the granularity of the kernel's times.
const TICK: Duration = Duration::from_millis(12);

type Reply<T> = Result<T, Errno>;

/// A kind of call; those that stand several times are drawn more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Mkdir,
    Create,
    Unlink,
    Rmdir,
    Rename,
    Link,
    Symlink,
    Readlink,
    Mknod,
    Write,
    Direct,
    Read,
    Truncate,
    Fallocate,
    Seek,
    Copy,
    Map,
    Tmpfile,
    Hold,
    Held,
    Chmod,
    Chown,
    Utimens,
    SetXattr,
    SetAcl,
    Xattrs,
    List,
    Stat,
    Access,
    Statfs,
}

const CALLS: &[Call] = &[
    Call::Mkdir,
    Call::Mkdir,
    Call::Create,
    Call::Create,
    Call::Create,
    Call::Unlink,
    Call::Rmdir,
    Call::Rename,
    Call::Rename,
    Call::Link,
    Call::Symlink,
    Call::Readlink,
    Call::Mknod,
    Call::Write,
    Call::Write,
    Call::Write,
    Call::Direct,
    Call::Read,
    Call::Truncate,
    Call::Fallocate,
    Call::Seek,
    Call::Copy,
    Call::Copy,
    Call::Map,
    Call::Tmpfile,
    Call::Hold,
    Call::Held,
    Call::Held,
    Call::Chmod,
    Call::Chown,
    Call::Utimens,
    Call::SetXattr,
    Call::SetXattr,
    Call::SetAcl,
    Call::Xattrs,
    Call::List,
    Call::Stat,
    Call::Access,
    Call::Statfs,
];

/// Calls after which the mtime or the ctime in the kernel's cache is not that of Linux' XFS: FUSE
/// does not let the kernel know of it at once, or the kernel changes it where nothing has changed
/// (the removal of an ACL that is not there).
const TIMES_LATE: &[Call] = &[Call::Fallocate, Call::Map, Call::SetAcl];

/// The calls, drawn from a seed, below one directory.
pub struct Calls<'p> {
    root: &'p Path,
    random: Random,
    held: [Option<File>; HELD],
    exempt: Exempt,
}

/// Formats what a program sees of a result.
fn shown<T: Debug>(result: Reply<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(errno) => format!("{}", std::io::Error::from(errno)),
    }
}

impl<'p> Calls<'p> {
    /// Returns the calls of `seed` below `root`, a directory that becomes open to all users.
    ///
    /// # Panics
    /// The directory cannot be changed.
    pub fn new(root: &'p Path, seed: u64) -> Self {
        rustix::fs::chmod(root, Mode::from_raw_mode(0o1777)).expect("open to all");
        let random = Random::new(seed);
        Self { root, random, held: [const { None }; HELD], exempt: Exempt::default() }
    }

    /// Makes `count` calls, and returns each with its result.
    pub fn make(mut self, seed: u64, count: usize) -> Run {
        let mut lines = vec![format!("seed {seed}")];
        lines.extend((0..count).map(|_| self.one()));
        Run { lines, exempt: std::mem::take(&mut self.exempt) }
    }

    /// Draws a path of one to three names.
    fn path(&mut self) -> PathBuf {
        let depth = 1 + self.random.below(3_usize).min(self.random.below(3));
        let names: Vec<&str> = (0..depth).map(|_| self.random.pick(&NAMES)).collect();
        names.iter().fold(self.root.to_path_buf(), |path, name| path.join(name))
    }

    fn range(&mut self) -> (u64, u64) {
        let shift = self.random.below(18_u32);
        (self.random.below(REACH), 1 + self.random.below(1_u64 << shift))
    }

    /// Draws a mode with the owner's permissions, or any.
    fn mode(&mut self) -> Mode {
        if self.random.one_in(4) {
            return Mode::from_raw_mode(self.random.below(0o10000_u32));
        }
        Mode::from_raw_mode(0o700 | self.random.below(0o100_u32))
    }

    fn one(&mut self) -> String {
        let path = self.path();
        let at = self.below_root(&path);
        let call = self.random.pick(CALLS);
        let user = if self.random.one_in(3) { 1 + self.random.below(USERS) } else { 0 };
        if !self.random.one_in(16) || TIMES_LATE.contains(&call) {
            let result = user::of(user, || self.make_one(call, &path));
            return format!("{call:?} by {user}, {at}: {result}");
        }
        std::thread::sleep(TICK);
        let before = Times::of(&path);
        let result = user::of(user, || self.make_one(call, &path));
        let times = Times::of(&path).since(&before);
        format!("{call:?} by {user}, {at}: {result}; {times}")
    }

    fn below_root(&self, path: &Path) -> String {
        path.strip_prefix(self.root).expect("below").display().to_string()
    }

    fn make_one(&mut self, call: Call, path: &Path) -> String {
        match call {
            Call::Mkdir => shown(rustix::fs::mkdir(path, self.mode())),
            Call::Create => shown(self.create(path)),
            Call::Unlink => shown(rustix::fs::unlink(path)),
            Call::Rmdir => shown(rustix::fs::rmdir(path)),
            Call::Rename => self.rename(path),
            Call::Link => self.link(path),
            Call::Symlink => shown(self.symlink(path)),
            Call::Readlink => shown(names::readlink(path)),
            Call::Mknod => self.mknod(path),
            Call::Write => shown(self.write(path)),
            Call::Direct => shown(self.direct(path)),
            Call::Read => shown(self.read(path)),
            Call::Truncate => shown(self.truncate(path)),
            Call::Fallocate => shown(self.fallocate(path)),
            Call::Seek => shown(self.seek(path)),
            Call::Copy => self.copy(path),
            Call::Map => self.map(path),
            Call::Tmpfile => shown(self.tmpfile(path)),
            Call::Hold => shown(self.hold(path)),
            Call::Held => self.held(),
            Call::Chmod => shown(rustix::fs::chmod(path, self.mode())),
            Call::Chown => shown(self.chown(path)),
            Call::Utimens => self.utimens(path),
            Call::SetXattr => shown(self.set_xattr(path)),
            Call::SetAcl => shown(self.set_acl(path)),
            Call::Xattrs => shown(metadata::xattrs(path)),
            Call::List => shown(names::list(path)),
            Call::Stat => shown(metadata::stat(path)),
            Call::Access => shown(self.access(path)),
            Call::Statfs => shown(metadata::statfs(path)),
        }
    }

    /// Opens an existing file. Fifos do not wait for another process.
    fn open(path: &Path, flags: OFlags) -> Reply<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(path, flags, Mode::empty()).map(Into::into)
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The mtime and the ctime of an inode and of its directory.
struct Times([Option<[(i64, i64); 3]>; 2]);

impl Times {
    fn of(path: &Path) -> Self {
        let times = |path: &Path| {
            let of = std::fs::symlink_metadata(path).ok()?;
            let number = (i64::try_from(of.ino()).ok()?, 0);
            Some([number, (of.mtime(), of.mtime_nsec()), (of.ctime(), of.ctime_nsec())])
        };
        Self([times(path), path.parent().and_then(times)])
    }

    /// Returns which times are not those of `before`.
    fn since(&self, before: &Self) -> String {
        let one =
            |now: &Option<[(i64, i64); 3]>, before: &Option<[(i64, i64); 3]>| match (now, before) {
                (Some(now), Some(before)) if now[0] == before[0] => {
                    let word = |n: usize| if now[n] == before[n] { "same" } else { "new" };
                    format!("mtime {}, ctime {}", word(1), word(2))
                }
                (Some(_), Some(_)) => "another".to_owned(),
                (Some(_), None) => "made".to_owned(),
                (None, Some(_)) => "gone".to_owned(),
                (None, None) => "none".to_owned(),
            };
        format!("{}; directory: {}", one(&self.0[0], &before.0[0]), one(&self.0[1], &before.0[1]))
    }
}
