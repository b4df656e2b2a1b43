//! The driver of xfskit itself, in this process.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xfskit_block::BlockDevice;
use xfskit_core::attr::change::SetMode;
use xfskit_core::chunks::Entry;
use xfskit_core::{LockStats, OpenOptions, Volume};
use xfskit_format::inode::FileType;
use xfskit_units::Ino;
use xfskit_vfs::{Clock, Error, Fs, Handle, NewNode, SetAttr, Timestamp};

use crate::kernel::drop_clean;

use super::{Counters, Driver, Kind, Lock, Space, Stat};

/// The name of the storage of a volume that has no file.
pub const MEMORY: &str = "memory";

/// A driver on a volume that is open for writing.
#[derive(Debug)]
pub struct Engine {
    name: String,
    storage: String,
    device: Arc<dyn BlockDevice>,
    options: OpenOptions,
    /// `None` only while the volume is reopened.
    fs: Option<Fs>,
}

/// Keeps the errno of errors that concern a name or space, and the message of all others.
fn io_error(error: Error) -> io::Error {
    if matches!(error, Error::Core(xfskit_core::Error::Device(_))) || error.corruption().is_some() {
        return io::Error::other(error);
    }
    io::Error::from_raw_os_error(error.errno())
}

fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::Regular => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    }
}

fn stat_of(stat: &xfskit_vfs::Stat) -> Stat {
    Stat {
        ino: stat.ino.0,
        kind: kind_of(stat.file_type),
        size: stat.size,
        nlink: stat.nlink.into(),
        ctime: stat.ctime.sec,
    }
}

fn mount(device: &Arc<dyn BlockDevice>, options: &OpenOptions) -> io::Result<Fs> {
    let volume = Volume::open(device.clone(), options).map_err(|error| io_error(error.into()))?;
    Ok(Fs::new(volume, Clock::system()))
}

impl Engine {
    /// Opens the volume on `device`; `storage` describes the device in reports.
    ///
    /// # Errors
    /// If the volume cannot be opened for writing.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        options: OpenOptions,
        name: impl Into<String>,
        storage: impl Into<String>,
    ) -> io::Result<Self> {
        let options = OpenOptions { write: true, ..options };
        let fs = Some(mount(&device, &options)?);
        Ok(Self { name: name.into(), storage: storage.into(), device, options, fs })
    }

    /// Returns the filesystem, for operations that the trait does not offer.
    ///
    /// # Panics
    /// If [`drop_caches`](Driver::drop_caches) has failed before: the volume is closed then.
    pub fn fs(&self) -> &Fs {
        self.fs.as_ref().expect("open between two calls")
    }

    /// Closes the volume: everything is in place and the journal is clean.
    ///
    /// # Errors
    /// If writing fails.
    pub fn close(mut self) -> io::Result<()> {
        self.fs.take().map_or(Ok(()), Fs::close).map_err(io_error)
    }

    fn ino(&self, dir: Ino, name: &[u8]) -> io::Result<Ino> {
        let fs = self.fs();
        let found = fs.inode(dir).and_then(|dir| fs.lookup(&dir, name)).map_err(io_error)?;
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn inode_stat(&self, ino: Ino) -> io::Result<Stat> {
        let fs = self.fs();
        Ok(stat_of(&fs.stat(&fs.inode(ino).map_err(io_error)?)))
    }
}

impl Driver for Engine {
    type Dir = Ino;
    type File<'d> = Handle<'d>;

    fn name(&self) -> &str {
        &self.name
    }

    fn storage(&self) -> &str {
        &self.storage
    }

    fn root(&self) -> io::Result<Ino> {
        Ok(self.fs().volume().geo().rootino)
    }

    fn open_dir(&self, dir: &Ino, name: &[u8]) -> io::Result<Ino> {
        self.ino(*dir, name)
    }

    fn make_dir(&self, dir: &Ino, name: &[u8]) -> io::Result<()> {
        self.fs().make(*dir, name, &NewNode::directory(0o755)).map(drop).map_err(io_error)
    }

    fn create(&self, dir: &Ino, name: &[u8]) -> io::Result<Handle<'_>> {
        let ino = self.fs().make(*dir, name, &NewNode::file(0o644)).map_err(io_error)?;
        self.fs().open(ino).map_err(io_error)
    }

    fn create_empty(&self, dir: &Ino, name: &[u8]) -> io::Result<()> {
        self.fs().make(*dir, name, &NewNode::file(0o644)).map(drop).map_err(io_error)
    }

    fn open(&self, dir: &Ino, name: &[u8]) -> io::Result<Handle<'_>> {
        self.fs().open(self.ino(*dir, name)?).map_err(io_error)
    }

    fn close(&self, file: Handle<'_>) -> io::Result<()> {
        file.close().map_err(io_error)
    }

    fn read(&self, file: &Handle<'_>, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        file.read(offset, buf).map_err(io_error)
    }

    fn write(&self, file: &Handle<'_>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write(offset, bytes).map_err(io_error)
    }

    fn truncate(&self, file: &Handle<'_>, size: u64) -> io::Result<()> {
        file.truncate(size).map_err(io_error)
    }

    fn fsync(&self, file: &Handle<'_>) -> io::Result<()> {
        file.fsync().map_err(io_error)
    }

    fn fstat(&self, file: &Handle<'_>) -> io::Result<Stat> {
        Ok(Stat { size: file.size(), ..self.inode_stat(file.ino())? })
    }

    fn set_times(&self, file: &Handle<'_>, atime: i64, mtime: i64) -> io::Result<()> {
        let time = |sec| Some(Timestamp { sec, nsec: 0 });
        let set = SetAttr { atime: time(atime), mtime: time(mtime), ..SetAttr::default() };
        self.fs().set_attr(file.ino(), &set).map_err(io_error)
    }

    fn stat(&self, dir: &Ino, name: &[u8]) -> io::Result<Stat> {
        self.inode_stat(self.ino(*dir, name)?)
    }

    fn read_dir(&self, dir: &Ino, each: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()> {
        let fs = self.fs();
        let mut portion = fs.read_dir(&fs.inode(*dir).map_err(io_error)?);
        if let Some(error) = portion.errors.pop() {
            return Err(io_error(error));
        }
        for entry in &portion.entries {
            each(&entry.name, kind_of(entry.file_type));
        }
        Ok(())
    }

    fn rename(&self, dir: &Ino, name: &[u8], to: &Ino, new: &[u8]) -> io::Result<()> {
        let mode = xfskit_vfs::RenameMode::default();
        self.fs().rename(*dir, name, *to, new, mode).map_err(io_error)
    }

    fn link(&self, dir: &Ino, name: &[u8], to: &Ino, new: &[u8]) -> io::Result<()> {
        self.fs().link(self.ino(*dir, name)?, *to, new).map_err(io_error)
    }

    fn unlink(&self, dir: &Ino, name: &[u8]) -> io::Result<()> {
        self.fs().unlink(*dir, name).map_err(io_error)
    }

    fn remove_dir(&self, dir: &Ino, name: &[u8]) -> io::Result<()> {
        self.fs().rmdir(*dir, name).map_err(io_error)
    }

    fn sync_dir(&self, dir: &Ino) -> io::Result<()> {
        self.fs().fsync(*dir).map_err(io_error)
    }

    fn set_xattr(&self, file: &Handle<'_>, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.fs().set_xattr(file.ino(), name, value, SetMode::Any).map_err(io_error)
    }

    fn remove_xattr(&self, file: &Handle<'_>, name: &[u8]) -> io::Result<()> {
        self.fs().remove_xattr(file.ino(), name).map_err(io_error)
    }

    fn xattr(&self, file: &Handle<'_>, name: &[u8], buf: &mut [u8]) -> io::Result<usize> {
        let value = self.fs().xattr(file.ino(), name).map_err(io_error)?;
        let value = value.ok_or_else(|| io::Error::from(rustix::io::Errno::NODATA))?;
        let out = buf.get_mut(..value.len()).ok_or(rustix::io::Errno::RANGE)?;
        out.copy_from_slice(&value);
        Ok(value.len())
    }

    fn parents(&self, file: &Handle<'_>, each: &mut dyn FnMut(u64, &[u8])) -> io::Result<()> {
        let inode = self.fs().inode(file.ino()).map_err(io_error)?;
        let listed = self.fs().volume().each_parent(&inode, &mut |parent| {
            each(parent.ino.0, &parent.name);
            ControlFlow::Continue(())
        });
        listed.map_err(|error| io_error(error.into()))
    }

    fn paths(&self, file: &Handle<'_>, limit: usize) -> io::Result<Vec<Vec<u8>>> {
        let paths = self.fs().volume().paths(file.ino(), limit);
        paths.map_err(|error| io_error(error.into()))
    }

    fn space(&self) -> io::Result<Space> {
        let space = self.fs().statfs();
        let bytes = |blocks: u64| blocks.saturating_mul(space.blocksize.into());
        Ok(Space { total: bytes(space.blocks), free: bytes(space.blocks_free) })
    }

    fn bulkstat(&self, threads: usize) -> io::Result<u64> {
        let found = AtomicU64::new(0);
        let count = |entries: &[Entry<'_>]| {
            found.fetch_add(entries.len() as u64, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        self.fs().volume().bulkstat(threads, count).map_err(|error| io_error(error.into()))?;
        Ok(found.into_inner())
    }

    fn counters(&self) -> Option<Counters> {
        let stats = self.fs().volume().stats();
        let lock = |&(name, counted): &(&str, LockStats)| Lock {
            name: name.into(),
            taken: counted.taken,
            waits: counted.waits,
            wait: Duration::from_nanos(counted.wait_nanos),
            held: Duration::from_nanos(counted.held_nanos),
            mutexes: counted.mutexes,
        };
        Some(Counters {
            changes: Some(stats.transactions.changes),
            commits: stats.transactions.committed,
            checkpoints: Some(stats.log.checkpoints),
            log_bytes: stats.log.bytes,
            log_sums: stats.log.sums,
            locks: stats.locks.iter().map(lock).collect(),
            journal_waits: None,
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.fs().sync().map_err(io_error)
    }

    fn drop_caches(&mut self) -> io::Result<()> {
        self.fs.take().map_or(Ok(()), Fs::close).map_err(io_error)?;
        self.fs = Some(mount(&self.device, &self.options)?);
        // The kernel caches the pages of a file below the engine; memory devices have no cache.
        if self.storage == MEMORY { Ok(()) } else { drop_clean() }
    }
}
