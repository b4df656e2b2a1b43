//! A volume as a mounted filesystem (feature `mount`).

use std::io;
use std::path::Path;
use std::time::Duration;

use xfskit_core::Closed;
use xfskit_fuse::{Options, Session};
use xfskit_vfs::Follow;

use crate::cause::Cause;
use crate::shared::Owner;
use crate::{Error, ExtentMap, FileFork, Result, Snapshot, Volume, VolumeOptions};

pub use xfskit_fuse::{
    Carried, Carrier, IdMap, IdMapError, Kind as RequestKind, OptionError, Requests,
};

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

    /// Returns `options` with those of them that concern the volume: it is opened for writing
    /// unless the mount is read-only, so that snapshots of it can be taken, and its journal is
    /// written and freed blocks are discarded as the mount options say.
    pub fn volume_options(&self, options: VolumeOptions) -> VolumeOptions {
        let Options { read_only, norecovery, journal, discard, .. } = self.options;
        let options = options.write(!read_only).recovery(!norecovery).snapshots(!read_only);
        options.journal(journal).discard(discard)
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

    /// Returns which requests came by what: the device, or io_uring.
    pub fn carried(&self) -> Carried {
        self.session.statistics().carried()
    }

    /// Returns what failed first: the device, or a structure of the volume.
    pub fn first_failure(&self) -> Option<String> {
        self.session.server().first_failure()
    }

    /// Returns the mounted volume. Changes through it are not seen by the kernel, which caches what
    /// it knows.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns the map of one fork of inode `ino`. Content that waits in memory is written first.
    ///
    /// # Errors
    /// The inode is free, or its map is damaged.
    pub fn extent_map(&self, ino: u64, fork: FileFork) -> Result<ExtentMap> {
        let _running = self.volume.owner.enter()?;
        // Nothing waits in memory while the mount is frozen.
        let _changing = self.session.changing();
        let ino = xfskit_units::Ino(ino);
        crate::file::extent_map(&self.volume.owner, ino, fork).map_err(Error::new)
    }

    /// Makes changes wait until [`thaw`](Self::thaw), and writes all changes so far in place: the
    /// target has the whole volume, with a clean journal unless there are open files without a
    /// name. Reads go on. Returns false if the mount is frozen already.
    ///
    /// # Errors
    /// The volume cannot be written. The mount is not frozen then.
    pub fn freeze(&self) -> Result<bool> {
        self.session.freeze().map_err(Error::new)
    }

    /// Lets the changes that wait go on, and returns when they are made. Returns false if the mount
    /// is not frozen.
    pub fn thaw(&self) -> bool {
        self.session.thaw()
    }

    /// Returns true while changes wait.
    pub fn is_frozen(&self) -> bool {
        self.session.is_frozen()
    }

    /// Takes a snapshot of the devices below the volume, with all changes so far in place. Changes
    /// wait only while it begins.
    ///
    /// # Errors
    /// The volume cannot be written, or is open for writing without
    /// [`snapshots`](crate::VolumeOptions::snapshots).
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.session.at_rest(|| self.volume.snapshot_now()).map_err(Error::new)?
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
