//! The driver of a mounted directory: system calls.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RawDir, Timespec, Timestamps, XattrFlags,
    fcntl_lock, fgetxattr, fremovexattr, fsetxattr, fstat, fstatvfs, fsync, ftruncate, futimens,
    linkat, mkdirat, openat, renameat, statat, syncfs, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};

use super::{Counters, Driver, Kind, Space, Stat};
use crate::kernel::{bulkstat, drop_clean};

/// Size of the buffer for `getdents64`: the same as in the C library.
const DIRENT_BUF_BYTES: usize = 32 << 10;

/// A directory of a mounted filesystem.
#[derive(Debug)]
pub struct Mounted {
    name: String,
    storage: String,
    root: Dir,
    /// The kernel's statistics file of this mount.
    stats: Option<PathBuf>,
}

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// The path of the directory, if every call uses the full path.
    path: Option<Vec<u8>>,
}

impl Dir {
    /// Returns the directory descriptor and the path that a call on `name` uses.
    fn at<'n>(&'n self, name: &'n [u8]) -> (BorrowedFd<'n>, Cow<'n, [u8]>) {
        match &self.path {
            None => (self.fd.as_fd(), Cow::Borrowed(name)),
            Some(_) => (CWD, Cow::Owned(self.path_of(name).unwrap_or_default())),
        }
    }

    /// Opens the directory again to read it from its beginning. A path is opened as `opendir` does
    /// it, with an `fstat`.
    fn reopen(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Some(path) = &self.path else {
            return Ok(openat(&self.fd, c".", flags, Mode::empty())?);
        };
        let opened = openat(CWD, &**path, flags, Mode::empty())?;
        fstat(&opened)?;
        Ok(opened)
    }

    fn path_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        let path = self.path.as_ref()?;
        let end = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        Some(match (name, &path[end..]) {
            (b"..", last) if !matches!(last, b"" | b"." | b"..") => path[..end].to_vec(),
            _ if path.is_empty() || path.ends_with(b"/") => [path, name].concat(),
            _ => [path, &b"/"[..], name].concat(),
        })
    }
}

impl Mounted {
    /// Opens the tree below `dir`. Reports show `name`, and `storage` as its device.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn new(
        dir: &Path,
        name: impl Into<String>,
        storage: impl Into<String>,
    ) -> io::Result<Self> {
        let root = openat(CWD, dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let root = Dir { fd: root, path: None };
        Ok(Self { name: name.into(), storage: storage.into(), root, stats: None })
    }

    /// Makes every call use the full path from `dir`, as programs usually do.
    pub fn with_full_paths(mut self, dir: &Path) -> Self {
        self.root.path = Some(dir.as_os_str().as_bytes().to_vec());
        self
    }

    /// Reads the kernel's counters of the XFS on block device `device`.
    pub fn with_kernel_counters(self, device: &str) -> Self {
        let name = device.trim_start_matches("/dev/");
        let stats = Path::new("/sys/fs/xfs").join(name).join("stats/stats");
        Self { stats: stats.exists().then_some(stats), ..self }
    }
}

fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    };
    let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)] // the width differs among processors
    let nlink = stat.st_nlink as u64;
    Stat { ino: stat.st_ino, kind, size: unsigned(stat.st_size), nlink, ctime: stat.st_ctime }
}

/// Parses an XFS `stats` file. `trans` has synchronous, asynchronous and empty transactions; `log`
/// has writes, blocks of 512 bytes, and waits for a free buffer; `push_ail` waits for space second.
fn parse_kernel_stats(text: &str) -> Counters {
    let words = |name: &str| -> Vec<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or("").split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let (trans, log, push_ail) = (words("trans"), words("log"), words("push_ail"));
    let waits = log.get(2).zip(push_ail.get(1)).map(|(buffer, space)| buffer + space);
    Counters {
        commits: trans.iter().take(2).sum(),
        log_bytes: log.get(1).map_or(0, |blocks| blocks * 512),
        journal_waits: waits,
        ..Counters::default()
    }
}

impl Driver for Mounted {
    type Dir = Dir;
    type File<'d> = OwnedFd;

    fn name(&self) -> &str {
        &self.name
    }

    fn storage(&self) -> &str {
        &self.storage
    }

    fn root(&self) -> io::Result<Dir> {
        Ok(Dir { fd: self.root.fd.try_clone()?, path: self.root.path.clone() })
    }

    fn open_dir(&self, dir: &Dir, name: &[u8]) -> io::Result<Dir> {
        let fd = openat(&dir.fd, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Dir { fd, path: dir.path_of(name) })
    }

    fn make_dir(&self, dir: &Dir, name: &[u8]) -> io::Result<()> {
        let (dir, name) = dir.at(name);
        Ok(mkdirat(dir, &*name, Mode::from_raw_mode(0o755))?)
    }

    fn create(&self, dir: &Dir, name: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let (dir, name) = dir.at(name);
        Ok(openat(dir, &*name, flags, Mode::from_raw_mode(0o644))?)
    }

    fn open(&self, dir: &Dir, name: &[u8]) -> io::Result<OwnedFd> {
        let (dir, name) = dir.at(name);
        Ok(openat(dir, &*name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn close(&self, file: OwnedFd) -> io::Result<()> {
        drop(file);
        Ok(())
    }

    fn read(&self, file: &OwnedFd, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(pread(file, buf, offset)?)
    }

    fn write(&self, file: &OwnedFd, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = pwrite(file, bytes, offset)?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            (offset, bytes) = (offset + written as u64, &bytes[written..]);
        }
        Ok(())
    }

    fn truncate(&self, file: &OwnedFd, size: u64) -> io::Result<()> {
        Ok(ftruncate(file, size)?)
    }

    fn fsync(&self, file: &OwnedFd) -> io::Result<()> {
        Ok(fsync(file)?)
    }

    fn fstat(&self, file: &OwnedFd) -> io::Result<Stat> {
        Ok(stat_of(&fstat(file)?))
    }

    fn set_times(&self, file: &OwnedFd, atime: i64, mtime: i64) -> io::Result<()> {
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
        let times = Timestamps { last_access: time(atime), last_modification: time(mtime) };
        Ok(futimens(file, &times)?)
    }

    fn lock(&self, file: &OwnedFd, locked: bool) -> io::Result<()> {
        let how = if locked { FlockOperation::LockExclusive } else { FlockOperation::Unlock };
        Ok(fcntl_lock(file, how)?)
    }

    fn stat(&self, dir: &Dir, name: &[u8]) -> io::Result<Stat> {
        let (dir, name) = dir.at(name);
        Ok(stat_of(&statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn read_dir(&self, dir: &Dir, each: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()> {
        let reopened = dir.reopen()?;
        let mut buf = vec![MaybeUninit::uninit(); DIRENT_BUF_BYTES];
        let mut entries = RawDir::new(reopened, &mut buf);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let kind = match entry.file_type() {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                _ => Kind::Other,
            };
            if name != b"." && name != b".." {
                each(name, kind);
            }
        }
        Ok(())
    }

    fn rename(&self, dir: &Dir, name: &[u8], to: &Dir, new: &[u8]) -> io::Result<()> {
        let ((dir, name), (to, new)) = (dir.at(name), to.at(new));
        Ok(renameat(dir, &*name, to, &*new)?)
    }

    fn link(&self, dir: &Dir, name: &[u8], to: &Dir, new: &[u8]) -> io::Result<()> {
        let ((dir, name), (to, new)) = (dir.at(name), to.at(new));
        Ok(linkat(dir, &*name, to, &*new, AtFlags::empty())?)
    }

    fn unlink(&self, dir: &Dir, name: &[u8]) -> io::Result<()> {
        let (dir, name) = dir.at(name);
        Ok(unlinkat(dir, &*name, AtFlags::empty())?)
    }

    fn remove_dir(&self, dir: &Dir, name: &[u8]) -> io::Result<()> {
        let (dir, name) = dir.at(name);
        Ok(unlinkat(dir, &*name, AtFlags::REMOVEDIR)?)
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        Ok(fsync(&dir.fd)?)
    }

    fn set_xattr(&self, file: &OwnedFd, name: &[u8], value: &[u8]) -> io::Result<()> {
        Ok(fsetxattr(file, name, value, XattrFlags::empty())?)
    }

    fn remove_xattr(&self, file: &OwnedFd, name: &[u8]) -> io::Result<()> {
        Ok(fremovexattr(file, name)?)
    }

    fn xattr(&self, file: &OwnedFd, name: &[u8], buf: &mut [u8]) -> io::Result<usize> {
        Ok(fgetxattr(file, name, buf)?)
    }

    fn space(&self) -> io::Result<Space> {
        let stat = fstatvfs(&self.root.fd)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { total: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
    }

    fn bulkstat(&self, threads: usize) -> io::Result<u64> {
        match bulkstat::all(&self.root.fd, threads) {
            // Not an XFS of the kernel.
            Err(err) if err.raw_os_error() == Some(Errno::NOTTY.raw_os_error()) => {
                Err(ErrorKind::Unsupported.into())
            }
            inodes => Ok(inodes?.count),
        }
    }

    fn counters(&self) -> Option<Counters> {
        let text = std::fs::read_to_string(self.stats.as_ref()?).ok()?;
        Some(parse_kernel_stats(&text))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.root.fd)?)
    }

    fn drop_caches(&mut self) -> io::Result<()> {
        self.sync()?;
        drop_clean()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_paths_lead_to_the_same_files() {
        let at = tempfile::tempdir().expect("a directory");
        let driver =
            Mounted::new(at.path(), "here", "a file").expect("open").with_full_paths(at.path());
        let root = driver.root().expect("a root");
        driver.make_dir(&root, b"below").expect("a directory");
        let below = driver.open_dir(&root, b"below").expect("open");
        driver.create_empty(&below, b"file").expect("a file");
        assert_eq!(
            below.path_of(b"file"),
            Some(at.path().join("below/file").as_os_str().as_bytes().to_vec())
        );
        let up = driver.open_dir(&below, b"..").expect("open");
        driver.rename(&below, b"file", &up, b"moved").expect("moved");
        assert!(at.path().join("moved").exists());
        assert_eq!(driver.stat(&root, b"moved").expect("there").nlink, 1);
    }

    #[test]
    fn kernel_statistics_give_commits_and_journal_bytes() {
        let text = "extent_alloc 0 0 0 0\ntrans 3 40 500\nlog 7 100 1 2 3\npush_ail 9 4 0\n";
        let counters = parse_kernel_stats(text);
        assert_eq!((counters.commits, counters.log_bytes), (43, 51_200));
        assert_eq!((counters.changes, counters.checkpoints), (None, None), "not counted");
        assert_eq!(counters.waits(), Some(5), "one for a buffer, four for space");
        assert_eq!(parse_kernel_stats(""), Counters::default());
    }
}
