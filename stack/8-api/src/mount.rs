//! A volume as a mounted filesystem (feature `mount`).

use std::io;
use std::path::Path;
use std::time::Duration;

use xfskit_core::Closed;
use xfskit_fuse::{Options, Session};
use xfskit_vfs::Follow;

use crate::cause::Cause;
use crate::shared::Owner;
use crate::{Error, Result, Volume};

pub use xfskit_fuse::{IdMap, IdMapError, Kind as RequestKind, OptionError, Requests};

/// How a volume is mounted: a builder.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let volume = xfskit::VolumeOptions::new().write(true).open("disk.img")?;
/// let mounted = xfskit::Mount::new().options("noatime")?.start(volume, "/mnt")?;
/// while !mounted.wait(Duration::from_secs(1)) {} // until somebody unmounts it
/// mounted.close()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is mounted until `start` is called"]
pub struct Mount {
    options: Options,
    subdir: Option<Vec<u8>>,
}

/// A mounted volume. Programs of this machine use it like any other filesystem. Dropped, it is
/// unmounted and closed as well as possible.
#[derive(Debug)]
pub struct Mounted {
    session: Session<Owner>,
    volume: Volume,
}

impl Mount {
    /// Returns a mount with the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds mount options, as `-o` of mount(8) names them, with commas between them.
    ///
    /// # Errors
    /// An option that is unknown or not valid.
    pub fn options(mut self, list: &str) -> Result<Self, OptionError> {
        self.options.add(list)?;
        Ok(self)
    }

    /// Sets what the list of mounts shows as the source.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.options.fsname = Some(source.into());
        self
    }

    /// Presents the tree below the directory `path` of the volume.
    pub fn subdir(mut self, path: impl AsRef<Path>) -> Self {
        use std::os::unix::ffi::OsStrExt;
        self.subdir = Some(path.as_ref().as_os_str().as_bytes().to_vec());
        self
    }

    /// Shows other owners than those of the volume.
    ///
    /// ```
    /// # fn main() -> Result<(), xfskit::IdMapError> {
    /// // Files of root are shown as the caller's.
    /// let mount = xfskit::Mount::new().idmap(xfskit::IdMap::user());
    /// // Files of users and groups from 0 on are shown as those of 100000 and above.
    /// let mount = xfskit::Mount::new().idmap("b:0:100000:65536".parse()?);
    /// # Ok(()) }
    /// ```
    pub fn idmap(mut self, map: IdMap) -> Self {
        self.options.idmap = Some(map);
        self
    }

    /// Unmounts when the mount was not in use for `time`: no file is open, no process has its
    /// working directory there, and none has looked. It takes at most twice the time.
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.options.idle_timeout = Some(time);
        self
    }

    /// Returns true if the mount is read-only.
    pub fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// Returns true if the journal is not replayed.
    pub fn is_without_recovery(&self) -> bool {
        self.options.norecovery
    }

    /// Mounts `volume` on the directory `dir`, and serves it until it is unmounted. A volume that
    /// is open for reading gives a read-only mount.
    ///
    /// # Errors
    /// The subdirectory is none, `dir` is not a directory, /dev/fuse or fusermount3 is missing or
    /// refuses.
    pub fn start(&self, volume: Volume, dir: impl AsRef<Path>) -> Result<Mounted> {
        let dir = dir.as_ref();
        let owner = volume.owner.clone();
        let root = match &self.subdir {
            Some(path) => root_at(&owner, path)?,
            None => owner.volume().geo().rootino,
        };
        let mut options = self.options.clone();
        options.read_only |= !owner.is_writable();
        let session = Session::start(owner, root, dir, &options);
        let session = session.map_err(|error| Error::at(Cause::Output(error), dir))?;
        Ok(Mounted { session, volume })
    }
}

/// Returns the directory at `path` of the volume.
fn root_at(owner: &Owner, path: &[u8]) -> Result<xfskit_units::Ino> {
    let inode = owner.resolve(path, Follow::Yes).map_err(Error::new)?;
    if !inode.core().is_dir() {
        return Err(Error::new(xfskit_core::Error::NotDirectory(inode.ino())));
    }
    Ok(inode.ino())
}

impl Mounted {
    /// Waits until the mount is gone, at most for `time`. Returns true if it is.
    pub fn wait(&self, time: Duration) -> bool {
        self.session.wait(time)
    }

    /// Unmounts. A mount in use disappears from the tree at once; processes that use it have ten
    /// seconds to leave it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn unmount(&self) -> Result<()> {
        self.session.unmount().map_err(Error::from_output)
    }

    /// Returns the requests of the kernel so far, by kind.
    pub fn requests(&self) -> Vec<Requests> {
        self.session.statistics().requests()
    }

    /// Returns what failed first: the device, or a structure of the volume.
    pub fn first_failure(&self) -> Option<String> {
        self.session.server().first_failure()
    }

    /// Waits for the end of the mount, and closes the volume. Returns nothing for a volume that was
    /// open for reading.
    ///
    /// # Errors
    /// The kernel ended the session with an error, or the volume cannot be closed.
    pub fn close(self) -> Result<Option<Closed>> {
        let served: io::Result<()> = self.session.join();
        let closed = if self.volume.owner.is_writable() {
            Some(self.volume.close()?)
        } else {
            self.volume.abandon();
            None
        };
        served.map_err(Error::from_output)?;
        Ok(closed)
    }
}

impl Error {
    fn from_output(error: io::Error) -> Self {
        Self::new(Cause::Output(error))
    }
}
