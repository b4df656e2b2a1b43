//! The operations that a workload uses, and three drivers that run them.
//!
//! | module | driver |
//! | --- | --- |
//! | [`engine`] | xfskit in this process: no kernel, no copies between address spaces |
//! | [`mounted`] | any mounted directory: the kernel's XFS, ext4 and others |
//! | [`null`] | no operation: every call returns at once, which measures the harness |
//!
//! [`tree`] walks and removes directory trees with any driver.
//!
//! Names are relative to an open directory, so that no driver is charged for path parsing that
//! another one avoids.

pub mod engine;
pub mod mounted;
pub mod null;
#[cfg(test)]
pub(crate) mod testing;
pub mod tree;

use std::io;
use std::time::Duration;

use xfskit_crc::meter;

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Any other type, or a directory without file types.
    Other,
}

/// The attributes of a file that workloads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Inode number.
    pub ino: u64,
    /// File type.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// Number of links.
    pub nlink: u64,
    /// Time of the last inode change, in seconds since 1970.
    pub ctime: i64,
}

/// The filesystem's own counters since it was mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Changes committed, such as one new file; a transaction may hold several. `None` if the
    /// filesystem does not count them.
    pub changes: Option<u64>,
    /// Transactions committed.
    pub commits: u64,
    /// Checkpoints written to the journal. `None` if the filesystem does not count them.
    pub checkpoints: Option<u64>,
    /// Bytes written to the journal.
    pub log_bytes: u64,
    /// The checksums of the journal's records, if they are metered.
    pub log_sums: meter::Cost,
    /// Contended locks; empty if the filesystem does not count them.
    pub locks: Vec<Lock>,
    /// Waits for the journal: for space in it, and for a free buffer. `None` if the filesystem does
    /// not count them.
    pub journal_waits: Option<u64>,
}

/// The counters of one lock, or of all locks of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// What the lock protects.
    pub name: String,
    /// Acquisitions.
    pub taken: u64,
    /// Acquisitions that had to wait.
    pub waits: u64,
    /// Total time of waiting.
    pub wait: Duration,
    /// Total time for which the lock was held, if that was measured.
    pub held: Duration,
    /// Number of mutexes of this kind; 0 for other kinds of locks.
    pub mutexes: u64,
}

impl Counters {
    /// Returns the difference to `before`.
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
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
            changes: less(self.changes, before.changes),
            commits: self.commits.saturating_sub(before.commits),
            checkpoints: less(self.checkpoints, before.checkpoints),
            log_bytes: self.log_bytes.saturating_sub(before.log_bytes),
            log_sums: self.log_sums - before.log_sums,
            locks: locks.collect(),
            journal_waits: less(self.journal_waits, before.journal_waits),
        }
    }

    /// Returns how often a thread waited: for locks, or else for the journal; `None` if neither is
    /// counted.
    pub fn waits(&self) -> Option<u64> {
        if self.locks.is_empty() {
            return self.journal_waits;
        }
        Some(self.locks.iter().map(|lock| lock.waits).sum())
    }
}

/// Size and free space of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Total size in bytes.
    pub total: u64,
    /// Free bytes available to unprivileged users.
    pub free: u64,
}

impl Space {
    /// Returns the used space in percent, rounded up as in `df`.
    pub fn used_percent(&self) -> u64 {
        let used = self.total.saturating_sub(self.free);
        u64::try_from((u128::from(used) * 100).div_ceil(u128::from(self.total.max(1))))
            .unwrap_or(100)
    }
}

/// A filesystem under measurement, shared by the threads of a workload.
///
/// Errors are those of the corresponding system calls. An error that concerns a name or space
/// carries its errno ([`io::Error::raw_os_error`]).
#[allow(clippy::missing_errors_doc)] // described above
pub trait Driver: Sync {
    /// An open directory.
    type Dir: Send + Sync;
    /// An open regular file.
    type File<'d>
    where
        Self: 'd;

    /// Returns the name of the driver for reports: "xfskit", "kernel XFS".
    fn name(&self) -> &str;
    /// Describes the storage: "memory", "a file on ext4".
    fn storage(&self) -> &str;

    /// Opens the root directory of the workload.
    fn root(&self) -> io::Result<Self::Dir>;
    /// Opens the directory `name` of `dir`.
    fn open_dir(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Self::Dir>;
    /// Makes the directory `name` in `dir`.
    fn make_dir(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()>;
    /// Creates the empty file `name`, which must not exist, and opens it.
    fn create(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Self::File<'_>>;
    /// Creates the empty file `name`, which must not exist, and closes it.
    fn create_empty(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()> {
        self.close(self.create(dir, name)?)
    }
    /// Opens the file `name`.
    fn open(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Self::File<'_>>;
    /// Closes a file.
    fn close(&self, file: Self::File<'_>) -> io::Result<()>;

    /// Reads from byte `offset` and returns the number of bytes read.
    fn read(&self, file: &Self::File<'_>, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes` at byte `offset`.
    fn write(&self, file: &Self::File<'_>, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Sets the size of the file in bytes.
    fn truncate(&self, file: &Self::File<'_>, size: u64) -> io::Result<()>;
    /// Makes the file's data durable.
    fn fsync(&self, file: &Self::File<'_>) -> io::Result<()>;
    /// Returns the attributes of an open file.
    fn fstat(&self, file: &Self::File<'_>) -> io::Result<Stat>;

    /// Sets the access and modification times of an open file, in seconds since 1970.
    fn set_times(&self, file: &Self::File<'_>, atime: i64, mtime: i64) -> io::Result<()>;
    /// Locks a file for this process, or unlocks it. Drivers inside this process have nothing to
    /// do.
    fn lock(&self, _file: &Self::File<'_>, _locked: bool) -> io::Result<()> {
        Ok(())
    }

    /// Returns the attributes of `name` without following symbolic links.
    fn stat(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<Stat>;
    /// Lists all names in `dir` except `.` and `..`, in directory order.
    fn read_dir(&self, dir: &Self::Dir, each: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()>;
    /// Renames `name` of `dir` to `new` in `to`, replacing an existing name.
    fn rename(&self, dir: &Self::Dir, name: &[u8], to: &Self::Dir, new: &[u8]) -> io::Result<()>;
    /// Links the file `name` of `dir` as `new` in `to`.
    fn link(&self, dir: &Self::Dir, name: &[u8], to: &Self::Dir, new: &[u8]) -> io::Result<()>;
    /// Removes a name of a file.
    fn unlink(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Self::Dir, name: &[u8]) -> io::Result<()>;
    /// Makes the changes of the directory durable.
    fn sync_dir(&self, dir: &Self::Dir) -> io::Result<()>;

    /// Sets an extended attribute by its full name ("trusted.name").
    fn set_xattr(&self, file: &Self::File<'_>, name: &[u8], value: &[u8]) -> io::Result<()>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, file: &Self::File<'_>, name: &[u8]) -> io::Result<()>;
    /// Reads the value of an extended attribute into `buf` and returns its length.
    fn xattr(&self, file: &Self::File<'_>, name: &[u8], buf: &mut [u8]) -> io::Result<usize>;

    /// Passes the names of an open file to `each`, as its parent pointers record them: the inode
    /// number of the directory, and the name. Drivers without such a call return
    /// [`io::ErrorKind::Unsupported`].
    fn parents(&self, _file: &Self::File<'_>, _each: &mut dyn FnMut(u64, &[u8])) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns at most `limit` paths of an open file from the root, by its parent pointers. Drivers
    /// without such a call return [`io::ErrorKind::Unsupported`].
    fn paths(&self, _file: &Self::File<'_>, _limit: usize) -> io::Result<Vec<Vec<u8>>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the size and the free space.
    fn space(&self) -> io::Result<Space>;
    /// Lists all inodes by number on `threads` threads, and returns how many are in use.
    /// Filesystems without such a call return [`io::ErrorKind::Unsupported`].
    fn bulkstat(&self, _threads: usize) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the counters since mounting, if the filesystem has any.
    fn counters(&self) -> Option<Counters> {
        None
    }
    /// Makes everything so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Syncs the filesystem and drops all caches, so that the next phase is cold. Open directories
    /// stay open.
    ///
    /// Fails with [`io::ErrorKind::PermissionDenied`] if the caller lacks the privilege. The phase
    /// is then warm, and the report must say so.
    fn drop_caches(&mut self) -> io::Result<()>;
}
