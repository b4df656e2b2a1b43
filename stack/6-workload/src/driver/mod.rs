//! What a workload asks of a filesystem, and the three who answer.
//!
//! | module | who answers |
//! | --- | --- |
//! | [`engine`] | xfskit, in this process: no kernel, no copies between address spaces |
//! | [`mounted`] | whatever is mounted at a directory: the kernel's XFS, ext4, anything |
//! | [`null`] | nobody: every call returns at once, which measures the harness |
//!
//! [`tree`] walks and removes trees on any of them.
//!
//! Names are relative to a directory that is open, so that nobody is measured parsing paths that the
//! other was spared.

pub mod engine;
pub mod mounted;
pub mod null;
#[cfg(test)]
pub(crate) mod record;
pub mod tree;

use std::io;
use std::time::Duration;

/// What a directory says that a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else, or it does not say.
    Other,
}

/// What workloads look at of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Inode number.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Names.
    pub nlink: u64,
    /// Seconds since 1970 of the last change.
    pub ctime: i64,
}

/// What a filesystem has done since it was mounted, as it counts itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transactions committed.
    pub commits: u64,
    /// Bytes written to the journal.
    pub log_bytes: u64,
    /// Its hot locks; none where it does not count them.
    pub locks: Vec<Lock>,
}

/// One lock, or all of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// What it guards.
    pub name: String,
    /// Times it was taken.
    pub taken: u64,
    /// Of these, with waiting.
    pub waits: u64,
    /// Waited in all.
    pub wait: Duration,
    /// Held in all, where that was asked for.
    pub held: Duration,
    /// Mutexes that this is of; 0 where it is of other locks.
    pub mutexes: u64,
}

impl Counters {
    /// What was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let of = |name: &str| before.locks.iter().find(|lock| lock.name == name);
        let locks = self.locks.iter().map(|lock| {
            let before = of(&lock.name).cloned().unwrap_or_default();
            Lock {
                name: lock.name.clone(),
                taken: lock.taken.saturating_sub(before.taken),
                waits: lock.waits.saturating_sub(before.waits),
                wait: lock.wait.saturating_sub(before.wait),
                held: lock.held.saturating_sub(before.held),
                mutexes: lock.mutexes,
            }
        });
        Self {
            commits: self.commits.saturating_sub(before.commits),
            log_bytes: self.log_bytes.saturating_sub(before.log_bytes),
            locks: locks.collect(),
        }
    }
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes free for anybody.
    pub free: u64,
}

impl Space {
    /// Percent in use, rounded up, as `df` has it.
    pub fn used_percent(&self) -> u64 {
        let used = self.total.saturating_sub(self.free);
        u64::try_from((u128::from(used) * 100).div_ceil(u128::from(self.total.max(1))))
            .unwrap_or(100)
    }
}

/// A filesystem under measurement. Shared by the threads of a workload.
///
/// Errors are those of the system calls that an operation stands for, by number where they concern a name
/// or space ([`io::Error::raw_os_error`]).
#[allow(clippy::missing_errors_doc)] // said once, above
pub trait Driver: Sync {
    /// A directory, open.
    type Dir: Send + Sync;
    /// A regular file, open.
    type File<'d>
    where
        Self: 'd;

    /// Who answers, in a word or two: "xfskit", "kernel XFS".
    fn name(&self) -> &str;
    /// On what: "memory", "a file on ext4".
    fn on(&self) -> &str;

    /// The directory that everything is below.
    fn root(&self) -> io::Result<Self::Dir>;
    /// Opens the directory `name` of `dir`.
    fn open_dir(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Self::Dir>;
    /// Makes the directory `name` in `dir`.
    fn make_dir(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()>;
    /// Makes the empty file `name`, which must not exist, and opens it.
    fn create(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Self::File<'_>>;
    /// Makes the empty file `name`, which must not exist, and closes it.
    fn create_empty(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()> {
        self.close(self.create(dir, name)?)
    }
    /// Opens the file `name`.
    fn open(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Self::File<'_>>;
    /// Ends the use of a file.
    fn close(&self, file: Self::File<'_>) -> io::Result<()>;

    /// Reads from byte `offset`, and answers how many bytes there were.
    fn read(&self, file: &Self::File<'_>, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes` from byte `offset` on.
    fn write(&self, file: &Self::File<'_>, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the file `size` bytes long.
    fn truncate(&self, file: &Self::File<'_>, size: u64) -> io::Result<()>;
    /// What was written to the file becomes durable.
    fn fsync(&self, file: &Self::File<'_>) -> io::Result<()>;
    /// What is known about an open file.
    fn fstat(&self, file: &Self::File<'_>) -> io::Result<Stat>;

    /// Sets the times of last access and last change of an open file, in seconds since 1970.
    fn set_times(&self, file: &Self::File<'_>, atime: i64, mtime: i64) -> io::Result<()>;
    /// Locks a file for this process, or unlocks it. Who answers from within this process knows no other one.
    fn lock(&self, _file: &Self::File<'_>, _locked: bool) -> io::Result<()> {
        Ok(())
    }

    /// What is known about `name`, not following symbolic links.
    fn stat(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Stat>;
    /// All names in `dir` but `.` and `..`, in the order of the directory.
    fn read_dir(&self, dir: &Self::Dir, each: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()>;
    /// Gives `name` of `dir` the name `new` in `to`; what had it goes.
    fn rename(&self, dir: &Self::Dir, name: &[u8], to: &Self::Dir, new: &[u8]) -> io::Result<()>;
    /// Gives the file `name` of `dir` the further name `new` in `to`.
    fn link(&self, dir: &Self::Dir, name: &[u8], to: &Self::Dir, new: &[u8]) -> io::Result<()>;
    /// Removes the name of a file.
    fn unlink(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()>;
    /// What was changed in the directory becomes durable.
    fn sync_dir(&self, dir: &Self::Dir) -> io::Result<()>;

    /// Sets an extended attribute, by its full name ("trusted.name").
    fn set_xattr(&self, file: &Self::File<'_>, name: &[u8], value: &[u8]) -> io::Result<()>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, file: &Self::File<'_>, name: &[u8]) -> io::Result<()>;
    /// The value of an extended attribute, into `buf`; answers how long it is.
    fn xattr(&self, file: &Self::File<'_>, name: &[u8], buf: &mut [u8]) -> io::Result<usize>;

    /// How much room there is.
    fn space(&self) -> io::Result<Space>;
    /// Lists all inodes by number, on so many threads, and answers how many are in use. Not every filesystem
    /// can: [`io::ErrorKind::Unsupported`].
    fn bulkstat(&self, _threads: usize) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// What was done since mounting, where it is counted.
    fn counters(&self) -> Option<Counters> {
        None
    }
    /// Everything so far becomes durable.
    fn sync(&self) -> io::Result<()>;
    /// Syncs and forgets whatever is cached, so that the next phase is cold. Directories that are open
    /// stay open.
    ///
    /// Fails with [`io::ErrorKind::PermissionDenied`] where the caller may not: the phase is warm then, and
    /// the report has to say so.
    fn drop_caches(&mut self) -> io::Result<()>;
}
