//! Floor 8: XFS volumes from Rust, package `xfskit`.
//!
//! Everything that the command `xfskit` does is here for programs. Targets are named as on the
//! command line: a file, a block device, `IMAGE#p2`, `IMAGE#lv:vg/root`, `md:MEMBER,MEMBER,…`,
//! `mem:SIZE`. Opening and reading never write to a target, unless it is opened for writing.
//!
//! ```
//! # fn main() -> Result<(), xfskit::Error> {
//! # let image = std::env::temp_dir().join(format!("xfskit-look-{}", std::process::id()));
//! # let image = image.to_str().unwrap();
//! # let size = xfskit::units::ByteLen(64 << 20);
//! # let device = xfskit::block::FileDevice::create(image, size).unwrap();
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
//! A volume that is open for writing ([`open_for_writing`], or a new one from [`make`]) is changed
//! by paths here, and by inode numbers and [handles](vfs::Handle) through [`Volume::fs`], from as
//! many threads as there are. Each change happens as a whole or not at all; it is durable after
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
//! let new = xfskit::vfs::NewNode::file(0o600);
//! let copy = volume.fs().make(volume.stat("/srv")?.ino, b"copy", &new)?;
//! // The same blocks, until one file is written.
//! volume.fs().open(copy)?.share(0, &file, 0..file.size())?;
//! drop(file);
//! assert_eq!(volume.read("/srv/copy")?, b"<p>Howdy</p>");
//! volume.close()?;
//! # Ok(()) }
//! ```
//!
//! A whole tree out of a volume is [`copy::get()`], or as tar [`copy::archive()`]; many files at
//! once in the order of the disk [`vfs::sweep`]; a tree in [`copy::put()`]; a volume from a tree
//! [`copy::build`]; all inodes [`core::Volume::bulkstat`]; judging one
//! [`check::check`](check::check()).
//!
//! `examples/look.rs` is a small program that looks around, `examples/change.rs` one that makes a
//! volume and changes it in every way.
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

mod options;
mod volume;

pub use options::{OpenOptions, make, open, open_for_writing, quarter_of_memory};
pub use volume::Volume;

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

impl Error {
    /// The number that a system call would return: `ENOENT`, `EISDIR`, `EUCLEAN` for corruption, ….
    pub fn errno(&self) -> i32 {
        match self {
            Self::Volume(error) => error.errno(),
            Self::Target(_) | Self::Make(_) => {
                let mut cause: Option<&dyn std::error::Error> = Some(self);
                while let Some(error) = cause {
                    let io = error.downcast_ref::<std::io::Error>();
                    if let Some(errno) = io.and_then(std::io::Error::raw_os_error) {
                        return errno;
                    }
                    cause = error.source();
                }
                rustix::io::Errno::INVAL.raw_os_error()
            }
        }
    }
}

/// The answer of this package.
pub type Result<T> = std::result::Result<T, Error>;
