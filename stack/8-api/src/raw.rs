//! The floors below, as they are: **unstable**.
//!
//! Everything here may change in any release, without notice in the version number. Programs that
//! need something from here need something that the crate's root does not offer yet.
//!
//! | module | floor |
//! | --- | --- |
//! | [`copy`] | 7: trees out and in: directories, tar, whole volumes from them |
//! | `fuse` | 7: mounted volumes (feature `mount`) |
//! | [`vfs`] | 6: paths, names, bytes: what [`Volume`] stands on |
//! | [`mkfs`], [`check`](mod@check), [`inspect`] | 6: make, verify and print a volume |
//! | [`locate`] | 6: find the owners of blocks |
//! | [`core`] | 5: inodes, extent maps, directories, attributes |
//! | [`target`] | 3: from a name to a device |
//! | [`log`] | 2: the journal |
//! | [`md`] | 2: Linux md arrays |
//! | [`block`], [`mod@format`] | 1: devices; every byte of XFS |
//! | [`units`] | 0: sectors, blocks, inode numbers, geometry |
//! | [`parity`] | 0: P and Q of RAID6 |

use std::path::Path;
use std::sync::Arc;

pub use xfskit_block as block;
pub use xfskit_check as check;
pub use xfskit_copy as copy;
pub use xfskit_core as core;
pub use xfskit_format as format;
#[cfg(feature = "mount")]
pub use xfskit_fuse as fuse;
pub use xfskit_inspect as inspect;
pub use xfskit_locate as locate;
pub use xfskit_log as log;
pub use xfskit_md as md;
pub use xfskit_mkfs as mkfs;
pub use xfskit_parity as parity;
pub use xfskit_target as target;
pub use xfskit_units as units;
pub use xfskit_vfs as vfs;

pub use crate::cause::Cause;

use crate::{Error, Metadata, Result, Volume, VolumeOptions};

/// Returns the error of the floor below that `error` carries.
pub fn cause(error: &Error) -> &Cause {
    error.cause()
}

/// Returns all metadata of the inode, in the form of the floor below.
pub fn stat(metadata: &Metadata) -> &vfs::Stat {
    metadata.stat()
}

/// What a [`Volume`] stands on.
pub trait VolumeExt: Sized {
    /// Returns the volume of an open filesystem.
    fn from_fs(fs: vfs::Fs) -> Self;

    /// Returns the filesystem below. A close does not wait for what is done through it.
    fn fs(&self) -> &vfs::Fs;

    /// Creates `new` at `path`, and returns its number.
    ///
    /// # Errors
    /// As [`Volume::create_dir`].
    fn make(&self, path: impl AsRef<Path>, new: &vfs::NewNode) -> Result<units::Ino>;
}

impl VolumeExt for Volume {
    fn from_fs(fs: vfs::Fs) -> Self {
        Self::new(fs)
    }

    fn fs(&self) -> &vfs::Fs {
        &self.owner
    }

    fn make(&self, path: impl AsRef<Path>, new: &vfs::NewNode) -> Result<units::Ino> {
        self.at("make", path.as_ref(), |fs, path| crate::names::create_node(fs, path, new))
    }
}

/// More ways to open a volume.
pub trait VolumeOptionsExt: Sized {
    /// Sets how a dirty journal is replayed.
    #[must_use]
    fn replay(self, replay: core::ReplayOptions) -> Self;

    /// Opens the volume on `device`, with the journal that [`VolumeOptions::log`] names.
    ///
    /// # Errors
    /// As [`VolumeOptions::open`].
    fn open_on(&self, device: Arc<dyn block::BlockDevice>) -> Result<Volume>;

    /// Opens the volume on `device`, with the journal on `log` where it is external.
    ///
    /// # Errors
    /// As [`VolumeOptions::open`].
    fn open_device(
        &self,
        device: Arc<dyn block::BlockDevice>,
        log: Option<Arc<dyn block::BlockDevice>>,
    ) -> Result<Volume>;
}

impl VolumeOptionsExt for VolumeOptions {
    fn replay(mut self, replay: core::ReplayOptions) -> Self {
        self.replay = replay;
        self
    }

    fn open_on(&self, device: Arc<dyn block::BlockDevice>) -> Result<Volume> {
        Self::open_device(self, device, self.log_device()?)
    }

    fn open_device(
        &self,
        device: Arc<dyn block::BlockDevice>,
        log: Option<Arc<dyn block::BlockDevice>>,
    ) -> Result<Volume> {
        Self::open_device(self, device, log)
    }
}

/// Makes an empty volume on `device`, of now and with a UUID of its own unless `options` name one,
/// and opens it for reading and writing. [`mkfs::make()`] is the way with all parameters.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) where the options do not fit the device,
/// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) where something is on it.
pub fn make(device: Arc<dyn block::BlockDevice>, options: &mkfs::Options) -> Result<Volume> {
    let vfs::Timestamp { sec, nsec } = vfs::Clock::system().now();
    let (uuid, random) = (units::Uuid::new_v4(), units::Uuid::new_v4().as_u64_pair().0);
    let generation = u32::try_from(random >> 32).unwrap_or_default();
    let stamp = mkfs::Stamp { uuid, seconds: sec, nanoseconds: nsec, generation };
    let facts = mkfs::DeviceFacts::of(&*device, None);
    let plan = mkfs::plan(options, &facts, stamp).map_err(Error::new)?;
    mkfs::make(&*device, None, &plan).map_err(Error::new)?;
    VolumeOptions::new().write(true).open_device(device, None)
}
