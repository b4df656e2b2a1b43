//! Floor 7: XFS volumes from Rust, package `xfskit`.
//!
//! Everything that the command `xfskit` does is here for programs. Targets are named as on the
//! command line: a file, a block device, `IMAGE#p2`, `IMAGE#lv:vg/root`, `md:MEMBER,MEMBER,…`,
//! `mem:SIZE`. Opening and reading never write to a target, unless it is opened for writing.
//!
//! ```
//! # fn main() -> Result<(), xfskit::Error> {
//! # let image = std::env::temp_dir().join(format!("xfskit-look-{}", std::process::id()));
//! # let image = image.to_str().unwrap();
//! # let device = xfskit::block::FileDevice::create(image, xfskit::units::ByteLen(64 << 20)).unwrap();
//! # let new = xfskit::make(std::sync::Arc::new(device), &Default::default())?;
//! # new.make_dirs("/etc")?;
//! # new.write("/etc/fstab", b"/dev/vda1 / xfs defaults 0 1\n")?;
//! # new.close()?;
//! let volume = xfskit::open(image)?;
//! for entry in volume.read_dir("/etc")? {
//!     println!("{}", String::from_utf8_lossy(&entry.name));
//! }
//! let fstab = volume.read("/etc/fstab")?;
//! let stat = volume.stat("/etc/fstab")?;
//! assert_eq!(fstab.len() as u64, stat.size);
//! for step in volume.walk("/etc")? {
//!     match step {
//!         Ok(file) => println!("{}", String::from_utf8_lossy(&file.path)),
//!         Err(fault) => eprintln!("{fault}"), // damage does not hide the rest
//!     }
//! }
//! # drop(volume);
//! # std::fs::remove_file(image).unwrap();
//! # Ok(()) }
//! ```
//!
//! A volume that is open for writing ([`open_for_writing`], or a new one from [`make`]) is changed by
//! paths here, and by inode numbers and [handles](vfs::Handle) through [`Volume::fs`], from as many
//! threads as there are. Each change happens as a whole or not at all; it is durable after
//! [`Volume::sync`], [`Handle::fsync`](vfs::Handle::fsync) or [`Volume::close`].
//!
//! ```
//! use std::sync::Arc;
//! use xfskit::block::MemDevice;
//! use xfskit::units::ByteLen;
//!
//! # fn main() -> Result<(), xfskit::Error> {
//! let device = Arc::new(MemDevice::new(ByteLen(300 << 20)));
//! let volume = xfskit::make(device, &Default::default())?;
//! volume.make_dirs("/srv/www")?;
//! volume.write("/srv/www/index.html", b"<p>Hello</p>")?;
//! volume.rename("/srv/www/index.html", "/srv/www/home.html")?;
//!
//! let file = volume.file("/srv/www/home.html")?;
//! file.write(3, b"Howdy")?;
//! file.fsync()?;
//! let copy = volume.fs().make(volume.stat("/srv")?.ino, b"copy", &xfskit::vfs::NewNode::file(0o600))?;
//! volume.fs().open(copy)?.share(0, &file, 0..file.size())?; // the same blocks, until one is written
//! drop(file);
//! assert_eq!(volume.read("/srv/copy")?, b"<p>Howdy</p>");
//! volume.close()?;
//! # Ok(()) }
//! ```
//!
//! A whole tree out of a volume is [`copy::get()`], or as tar [`copy::archive()`]; many files at once in
//! the order of the disk [`vfs::sweep`]; a tree in [`copy::put()`]; a volume from a tree
//! [`copy::build`]; all inodes [`core::Volume::bulkstat`]; judging one [`check::check`](check::check()).
//!
//! `examples/look.rs` is a small program that looks around, `examples/change.rs` one that makes a volume
//! and changes it in every way.
//!
//! | module | floor |
//! | --- | --- |
//! | [`copy`] | 6: trees out and in: directories, tar, whole volumes from them |
//! | [`vfs`] | 5: paths, names, bytes: what [`Volume`] stands on |
//! | [`mkfs`], [`check`](mod@check), [`inspect`] | 5: make a volume, judge one, print any structure |
//! | [`core`] | 4: inodes, extent maps, directories, attributes |
//! | [`target`] | 3: from a name to a device |
//! | [`log`] | 2: the journal |
//! | [`md`] | 2: Linux md arrays |
//! | [`block`], [`mod@format`] | 1: devices; every byte of XFS |
//! | [`units`] | 0: sectors, blocks, inode numbers, geometry |
//! | [`parity`] | 0: P and Q of RAID6 |

pub mod allocator;

pub use xfskit_block as block;
pub use xfskit_check as check;
pub use xfskit_copy as copy;
pub use xfskit_core as core;
pub use xfskit_format as format;
pub use xfskit_inspect as inspect;
pub use xfskit_log as log;
pub use xfskit_md as md;
pub use xfskit_mkfs as mkfs;
pub use xfskit_parity as parity;
pub use xfskit_target as target;
pub use xfskit_units as units;
pub use xfskit_vfs as vfs;

use std::sync::Arc;
use std::time::SystemTime;

use block::{BlockDevice, OpenMode};
use target::Target;
use units::Uuid;
use vfs::{Entry, FileType, Follow, Fs, Stat, Walk, Xattr};
use xfskit_core::JournalOptions;
use xfskit_core::uuid::{NewUuid, set_uuid};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name leads to no device.
    #[error(transparent)]
    Target(#[from] target::Error),
    /// The volume, or a path in it.
    #[error(transparent)]
    Volume(#[from] vfs::Error),
    /// No volume can be made there.
    #[error(transparent)]
    Make(#[from] mkfs::Error),
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
    /// How the journal is written, where changes are wanted: `"logbsize=256k,wsync".parse()`.
    pub journal: JournalOptions,
    /// Memory for metadata, in bytes. [`quarter_of_memory`] unless said otherwise.
    pub cache_bytes: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            recovery: true,
            write: false,
            log: None,
            journal: JournalOptions::default(),
            cache_bytes: quarter_of_memory(),
        }
    }
}

/// A quarter of the machine's memory, in bytes: what metadata may take unless somebody says otherwise. As
/// much as the floor below takes by itself where the system does not tell.
pub fn quarter_of_memory() -> usize {
    let otherwise = core::OpenOptions::default().cache_bytes;
    let info = rustix::system::sysinfo();
    let bytes = u128::from(info.totalram) * u128::from(info.mem_unit) / 4;
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0).unwrap_or(otherwise)
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
        self.open_device(device, self.log_device(mode)?)
    }

    /// Gives the volume on the target `name` another UUID; answers the UUIDs of the volume and of its
    /// metadata, which differ unless it is the original one.
    ///
    /// # Errors
    /// As [`open`](Self::open) for writing.
    pub fn set_uuid(&self, name: &str, uuid: NewUuid) -> Result<(Uuid, Uuid)> {
        let device = target::open(&Target::parse(name)?, OpenMode::ReadWrite)?;
        let log_dev = self.log_device(OpenMode::ReadWrite)?;
        let options =
            core::OpenOptions { log_dev, cache_bytes: self.cache_bytes, ..Default::default() };
        Ok(set_uuid(&device, &options, uuid)?)
    }

    /// The device with the journal, where it has one of its own.
    fn log_device(&self, mode: OpenMode) -> Result<Option<Arc<dyn BlockDevice>>> {
        let open = |name: &String| Ok(target::open_unchecked(&Target::parse(name)?, mode)?);
        self.log.as_ref().map(open).transpose()
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
        let (recovery, write, journal) = (self.recovery, self.write, self.journal);
        let cache_bytes = self.cache_bytes;
        let options = core::OpenOptions { recovery, write, log_dev, cache_bytes, journal };
        Ok(Volume {
            fs: Fs::with_clock(core::Volume::open(device, &options)?, vfs::Clock::new(now)),
        })
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

/// Makes an empty volume on `device`, of now and with a UUID of its own unless `options` name one, and opens
/// it for reading and writing. [`mkfs::make()`] is the way with all parameters.
///
/// # Errors
/// [`Error::Make`] where the options do not fit the device, or something is on it.
pub fn make(device: Arc<dyn BlockDevice>, options: &mkfs::Options) -> Result<Volume> {
    let vfs::Timestamp { sec, nsec } = now();
    let (uuid, random) = (Uuid::new_v4(), Uuid::new_v4().as_u64_pair().0);
    let generation = u32::try_from(random >> 32).unwrap_or_default();
    let stamp = mkfs::Stamp { uuid, seconds: sec, nanoseconds: nsec, generation };
    let plan = mkfs::plan(options, &mkfs::DeviceFacts::of(&*device, None), stamp)?;
    mkfs::make(&*device, None, &plan)?;
    OpenOptions { write: true, ..OpenOptions::default() }.open_device(device, None)
}

/// The time of this machine.
fn now() -> vfs::Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    vfs::Timestamp { sec, nsec: since.subsec_nanos() }
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

    /// Makes the directory `path` with those on the way to it, as far as they are missing.
    ///
    /// # Errors
    /// Where something else is there already, or the volume is full.
    pub fn make_dirs(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let ends = (1..path.len()).filter(|&end| path[end] == b'/').chain([path.len()]);
        for way in ends.map(|end| &path[..end]) {
            match self.fs.resolve(way, Follow::Yes) {
                Ok(there) if there.core().is_dir() => {}
                Ok(_) => return Err(core::Error::Exists.into()),
                Err(vfs::Error::NotFound { .. }) => {
                    self.make(way, &vfs::NewNode::usual(FileType::Directory))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Opens the regular file `path` for reading and writing at any offset.
    ///
    /// # Errors
    /// Where it is none, or the volume is open for reading only.
    pub fn file(&self, path: impl AsRef<[u8]>) -> Result<vfs::Handle<'_>> {
        let inode = self.fs.resolve(path.as_ref(), Follow::Yes)?;
        Ok(self.fs.open(inode.ino())?)
    }

    /// Makes `content` the whole content of the file `path`, which is made where it is missing. One that is
    /// there keeps everything else.
    ///
    /// # Errors
    /// Where `path` is no regular file, there is no such directory, or the volume is full: then the file
    /// is as it was.
    pub fn write(&self, path: impl AsRef<[u8]>, content: &[u8]) -> Result<()> {
        let path = path.as_ref();
        let fill = |ino| {
            let file = self.fs.open(ino)?;
            file.write(0, content)?;
            file.truncate(content.len() as u64)?;
            file.close()
        };
        match self.fs.resolve(path, Follow::Yes) {
            Err(vfs::Error::NotFound { .. }) => {
                let (dir, name) = self.fs.resolve_parent(path)?;
                let file = self.fs.make_unnamed(dir, &vfs::NewNode::usual(FileType::Regular))?;
                fill(file.ino())?;
                Ok(self.fs.link(file.ino(), dir, &name)?)
            }
            there => Ok(fill(there?.ino())?),
        }
    }

    /// Gives the file `path` the further name `new`.
    ///
    /// # Errors
    /// As [`Fs::link`].
    pub fn link(&self, path: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        let inode = self.fs.resolve(path.as_ref(), Follow::No)?;
        let (dir, name) = self.fs.resolve_parent(new.as_ref())?;
        Ok(self.fs.link(inode.ino(), dir, &name)?)
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
        self.rename_as(from, to, vfs::RenameMode::Replace)
    }

    /// The same; `mode` says what becomes of what is at `to`.
    ///
    /// # Errors
    /// As [`Fs::rename`].
    pub fn rename_as(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        mode: vfs::RenameMode,
    ) -> Result<()> {
        let (from_dir, from_name) = self.fs.resolve_parent(from.as_ref())?;
        let (to_dir, to_name) = self.fs.resolve_parent(to.as_ref())?;
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
        self.close_counted().map(drop)
    }

    /// The same, and answers what was done with the volume since it was opened.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_counted(self) -> Result<core::Stats> {
        Ok(self.fs.close_counted()?)
    }

    /// What was done with the volume so far: transactions, journal, write-back, buffers, locks.
    pub fn stats(&self) -> core::Stats {
        self.fs.volume().stats()
    }
}
