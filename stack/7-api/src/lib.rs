//! Floor 7: XFS volumes from Rust, package `xfskit`.
//!
//! Everything that the command `xfskit` does is here for programs. Targets are named as on the
//! command line: a file, a block device, `IMAGE#p2`, `IMAGE#lv:vg/root`, `mem:SIZE`. Opening and
//! reading never write to a target, unless it is opened for writing.
//!
//! ```no_run
//! # fn main() -> Result<(), xfskit::Error> {
//! let volume = xfskit::open("disk.img")?;
//! for entry in volume.read_dir("/etc")? {
//!     println!("{}", String::from_utf8_lossy(&entry.name));
//! }
//! let fstab = volume.read("/etc/fstab")?;
//! let stat = volume.stat("/etc/fstab")?;
//! assert_eq!(fstab.len() as u64, stat.size);
//! for step in volume.walk("/var")? {
//!     match step {
//!         Ok(file) => println!("{}", String::from_utf8_lossy(&file.path)),
//!         Err(fault) => eprintln!("{fault}"), // damage does not hide the rest
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! A whole tree out of a volume is [`copy::get()`], or as tar [`copy::archive()`]; many files at once in
//! the order of the disk [`vfs::sweep`]; all inodes [`core::Volume::bulkstat`]; a volume from
//! nothing [`mkfs::make`]; judging one [`check::check`](check::check()).
//!
//! `examples/look.rs` is a small program that does most of this.
//!
//! | module | floor |
//! | --- | --- |
//! | [`copy`] | 6: trees out: directories, tar |
//! | [`vfs`] | 5: paths, names, bytes: what [`Volume`] stands on |
//! | [`mkfs`], [`check`](mod@check), [`inspect`] | 5: make a volume, judge one, print any structure |
//! | [`core`] | 4: inodes, extent maps, directories, attributes |
//! | [`target`] | 3: from a name to a device |
//! | [`log`] | 2: the journal |
//! | [`block`], [`mod@format`] | 1: devices; every byte of XFS |
//! | [`units`] | 0: sectors, blocks, inode numbers, geometry |

pub use xfskit_block as block;
pub use xfskit_check as check;
pub use xfskit_copy as copy;
pub use xfskit_core as core;
pub use xfskit_format as format;
pub use xfskit_inspect as inspect;
pub use xfskit_log as log;
pub use xfskit_mkfs as mkfs;
pub use xfskit_target as target;
pub use xfskit_units as units;
pub use xfskit_vfs as vfs;

use std::sync::Arc;
use std::time::SystemTime;

use block::{BlockDevice, OpenMode};
use target::Target;
use vfs::{Entry, Follow, Fs, Stat, Walk, Xattr};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name leads to no device.
    #[error(transparent)]
    Target(#[from] target::Error),
    /// The volume, or a path in it.
    #[error(transparent)]
    Volume(#[from] vfs::Error),
}

impl From<core::Error> for Error {
    fn from(error: core::Error) -> Self {
        Self::Volume(error.into())
    }
}

/// The answer of this package.
pub type Result<T> = std::result::Result<T, Error>;

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Replay a dirty journal, in memory. On unless turned off.
    pub recovery: bool,
    /// Changes are wanted: a dirty journal is replayed onto the target itself. Off unless turned on.
    pub write: bool,
    /// The target with the journal, for a volume with an external log.
    pub log: Option<String>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { recovery: true, write: false, log: None }
    }
}

impl OpenOptions {
    /// Opens the volume on the target `name`.
    ///
    /// # Errors
    /// [`Error::Target`] where there is no such device, [`Error::Volume`] where it holds no volume
    /// that can be read.
    pub fn open(&self, name: &str) -> Result<Volume> {
        let mode = if self.write { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let device = target::open(&Target::parse(name)?, mode)?;
        let log_dev = match &self.log {
            Some(log) => Some(target::open_unchecked(&Target::parse(log)?, mode)?),
            None => None,
        };
        self.open_device(device, log_dev)
    }

    /// Opens the volume on `device`, with the journal on `log_dev` where it is external.
    ///
    /// # Errors
    /// Where the device holds no volume that can be read.
    pub fn open_device(
        &self,
        device: Arc<dyn BlockDevice>,
        log_dev: Option<Arc<dyn BlockDevice>>,
    ) -> Result<Volume> {
        let (recovery, write) = (self.recovery, self.write);
        let options = core::OpenOptions { recovery, write, log_dev, ..Default::default() };
        Ok(Volume { fs: Fs::with_clock(core::Volume::open(device, &options)?, system_clock()) })
    }
}

/// Opens the volume on the target `name` for reading; a dirty journal is replayed in memory.
///
/// # Errors
/// As [`OpenOptions::open`].
pub fn open(name: &str) -> Result<Volume> {
    OpenOptions::default().open(name)
}

/// Opens the volume on the target `name` for reading and writing. [`Volume::close`] it when done: changes are
/// durable only then, or after [`Volume::sync`].
///
/// # Errors
/// As [`OpenOptions::open`]; what cannot be written refuses before anything is changed.
pub fn open_for_writing(name: &str) -> Result<Volume> {
    OpenOptions { write: true, ..OpenOptions::default() }.open(name)
}

/// The time of this machine.
fn system_clock() -> vfs::Clock {
    vfs::Clock::new(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        vfs::Timestamp { sec, nsec: since.subsec_nanos() }
    })
}

/// A volume, by paths. Paths are absolute; they need not be UTF-8.
#[derive(Debug)]
pub struct Volume {
    fs: Fs,
}

impl Volume {
    /// The filesystem below, for everything that is not here.
    pub fn fs(&self) -> &Fs {
        &self.fs
    }

    /// The names in a directory, in its own order, without `.` and `..`.
    ///
    /// # Errors
    /// Where `path` is no directory, or the directory is damaged ([`Fs::read_dir`] gives the sound
    /// part of one).
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        let dir = self.fs.resolve(path.as_ref(), Follow::Yes)?;
        let portion = self.fs.read_dir(&dir);
        match portion.errors.into_iter().next() {
            Some(error) => Err(error.into()),
            None => Ok(portion.entries),
        }
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// Where `path` is no regular file, or cannot be read.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let inode = self.fs.resolve(path.as_ref(), Follow::Yes)?;
        let file = self.fs.volume().open_file(&inode)?;
        let mut content = Vec::new();
        let mut at = units::ByteOffset(0);
        // The size is the disk's word; memory is taken as content arrives.
        while at.0 < file.size().0 {
            let len = units::index((file.size().0 - at.0).min(1 << 20));
            let start = content.len();
            content.resize(start + len, 0);
            let read = file.read_at(at, &mut content[start..])?;
            content.truncate(start + read);
            at.0 += read as u64;
        }
        Ok(content)
    }

    /// What is known about a file; a symbolic link is not followed.
    ///
    /// # Errors
    /// Where `path` names nothing, or it cannot be read.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        let inode = self.fs.resolve(path.as_ref(), Follow::No)?;
        Ok(self.fs.stat(&inode))
    }

    /// The extended attributes of a file; a symbolic link is not followed.
    ///
    /// # Errors
    /// Where `path` names nothing, or the attributes are damaged ([`Fs::xattrs`] gives the sound
    /// part of them).
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<Xattr>> {
        let inode = self.fs.resolve(path.as_ref(), Follow::No)?;
        let (xattrs, errors) = self.fs.xattrs(&inode);
        match errors.into_iter().next() {
            Some(error) => Err(error.into()),
            None => Ok(xattrs),
        }
    }

    /// Where a symbolic link points to.
    ///
    /// # Errors
    /// Where `path` is none, or it cannot be read.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let inode = self.fs.resolve(path.as_ref(), Follow::No)?;
        Ok(self.fs.read_link(&inode)?)
    }

    /// Everything below `path`, depth first, sorted by name, the start included.
    ///
    /// # Errors
    /// Where `path` names nothing. Later faults are items of the walk.
    pub fn walk(&self, path: impl AsRef<[u8]>) -> Result<Walk<'_>> {
        let inode = self.fs.resolve(path.as_ref(), Follow::Yes)?;
        Ok(self.fs.walk(path.as_ref(), inode, usize::MAX))
    }

    /// Makes what `new` says at `path`, whose directory exists.
    ///
    /// # Errors
    /// Where something is there already, there is no such directory, or the volume is full.
    pub fn make(&self, path: impl AsRef<[u8]>, new: &vfs::NewNode) -> Result<units::Ino> {
        let (dir, name) = self.fs.resolve_parent(path.as_ref())?;
        Ok(self.fs.make(dir, &name, new)?)
    }

    /// Removes the name `path`: of a file, or of an empty directory.
    ///
    /// # Errors
    /// Where there is none, or it is that of a directory with entries.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let (dir, name) = self.fs.resolve_parent(path.as_ref())?;
        let is_dir = self.fs.resolve(path.as_ref(), Follow::No)?.core().is_dir();
        let removed = if is_dir { self.fs.rmdir(dir, &name) } else { self.fs.unlink(dir, &name) };
        Ok(removed?)
    }

    /// Gives what is at `from` the name `to`; what is there is replaced.
    ///
    /// # Errors
    /// As [`Fs::rename`].
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let (from_dir, from_name) = self.fs.resolve_parent(from.as_ref())?;
        let (to_dir, to_name) = self.fs.resolve_parent(to.as_ref())?;
        let mode = vfs::RenameMode::Replace;
        Ok(self.fs.rename(from_dir, &from_name, to_dir, &to_name, mode)?)
    }

    /// All changes so far become durable.
    ///
    /// # Errors
    /// Where the volume is open for reading only, or cannot be written any more.
    pub fn sync(&self) -> Result<()> {
        Ok(self.fs.sync()?)
    }

    /// All changes become durable, and the volume is left clean.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn close(self) -> Result<()> {
        Ok(self.fs.close()?)
    }
}
