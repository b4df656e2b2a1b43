//! Whatever is mounted at a directory, through system calls.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RawDir, Timespec, Timestamps, XattrFlags,
    fcntl_lock, fgetxattr, fremovexattr, fsetxattr, fstat, fstatvfs, fsync, ftruncate, futimens,
    linkat, mkdirat, openat, renameat, statat, syncfs, unlinkat,
};
use rustix::io::{pread, pwrite};

use super::{Counters, Driver, Kind, Space, Stat};
use crate::kernel::{bulkstat, drop_clean};

/// Bytes that `getdents64` fills at once: what the C library asks for.
const DIRENTS: usize = 32 << 10;

/// A directory of a mounted filesystem.
#[derive(Debug)]
pub struct Mounted {
    name: String,
    on: String,
    root: OwnedFd,
    /// Where the kernel counts for this mount.
    stats: Option<PathBuf>,
}

impl Mounted {
    /// What lies below `dir`. `name` is what reports call it; `on` says on what device.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn new(dir: &Path, name: impl Into<String>, on: impl Into<String>) -> io::Result<Self> {
        let root = openat(CWD, dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { name: name.into(), on: on.into(), root, stats: None })
    }

    /// The same for an XFS on block device `device`, which the kernel counts for.
    pub fn counted(self, device: &str) -> Self {
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

/// From the lines of an XFS's `stats`: `trans` has synchronous, asynchronous and empty transactions, `log` writes
/// and blocks of 512 bytes.
fn counted_by_kernel(text: &str) -> Counters {
    let words = |name: &str| -> Vec<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or("").split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let (trans, log) = (words("trans"), words("log"));
    Counters {
        commits: trans.iter().take(2).sum(),
        log_bytes: log.get(1).map_or(0, |blocks| blocks * 512),
        locks: Vec::new(),
    }
}

impl Driver for Mounted {
    type Dir = OwnedFd;
    type File<'d> = OwnedFd;

    fn name(&self) -> &str {
        &self.name
    }

    fn on(&self) -> &str {
        &self.on
    }

    fn root(&self) -> io::Result<OwnedFd> {
        self.root.try_clone()
    }

    fn open_dir(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
        Ok(openat(dir, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn make_dir(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<()> {
        Ok(mkdirat(dir, name, Mode::from_raw_mode(0o755))?)
    }

    fn create(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(openat(dir, name, flags, Mode::from_raw_mode(0o644))?)
    }

    fn open(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
        Ok(openat(dir, name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
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

    fn stat(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<Stat> {
        Ok(stat_of(&statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn read_dir(&self, dir: &OwnedFd, each: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()> {
        let again = openat(dir, c".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut buf = vec![MaybeUninit::uninit(); DIRENTS];
        let mut entries = RawDir::new(again, &mut buf);
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

    fn rename(&self, dir: &OwnedFd, name: &[u8], to: &OwnedFd, new: &[u8]) -> io::Result<()> {
        Ok(renameat(dir, name, to, new)?)
    }

    fn link(&self, dir: &OwnedFd, name: &[u8], to: &OwnedFd, new: &[u8]) -> io::Result<()> {
        Ok(linkat(dir, name, to, new, AtFlags::empty())?)
    }

    fn unlink(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<()> {
        Ok(unlinkat(dir, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<()> {
        Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_dir(&self, dir: &OwnedFd) -> io::Result<()> {
        Ok(fsync(dir)?)
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
        let stat = fstatvfs(&self.root)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { total: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
    }

    fn bulkstat(&self, threads: usize) -> io::Result<u64> {
        Ok(bulkstat::all(&self.root, threads)?.count)
    }

    fn counters(&self) -> Option<Counters> {
        let text = std::fs::read_to_string(self.stats.as_ref()?).ok()?;
        Some(counted_by_kernel(&text))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.root)?)
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
    fn the_kernel_counts_commits_and_blocks_of_the_journal() {
        let text = "extent_alloc 0 0 0 0\ntrans 3 40 500\nlog 7 100 1 2 3\n";
        let counted = counted_by_kernel(text);
        assert_eq!((counted.commits, counted.log_bytes), (43, 51_200));
        assert_eq!(counted_by_kernel(""), Counters::default());
    }
}
