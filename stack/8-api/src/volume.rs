//! A volume: opened, synced, closed. What it does with paths is in `paths`, `names` and
//! `attributes`.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use xfskit_core::Closed;
use xfskit_vfs::{self as vfs, Fs, Statfs};

use crate::below_volume::BelowVolume;
use crate::shared::{Owner, Snapshots};
use crate::{Error, Result, VolumeOptions, md};

/// How often a path is resolved again whose inode goes again and again before it is used.
const RESOLUTIONS: usize = 1000;

/// An XFS volume: what [`std::fs`] is to the machine's filesystems, as a value.
///
/// A clone is another reference to the same volume. All methods may be called from many threads;
/// each change happens as a whole or not at all. A change is durable after [`sync`](Self::sync),
/// [`File::sync_all`](crate::File::sync_all) or [`close`](Self::close).
///
/// Paths are those inside the volume, with or without the `/` at the beginning; they need not be
/// UTF-8. Permissions are not checked: who may do what is the program's affair.
///
/// When the last clone, file and iterator of a volume that is open for writing is dropped, the
/// volume closes itself as well as it can and logs a failure; [`close`](Self::close) returns it. In
/// a thread that unwinds from a panic the volume is [abandoned](Self::abandon) instead: what the
/// panic left half done is not written.
#[derive(Clone, Debug)]
pub struct Volume {
    pub(crate) owner: Owner,
    /// How snapshots are taken, if the devices were opened for that.
    pub(crate) snapshots: Option<Snapshots>,
    /// The array below, if it was opened for writing.
    pub(crate) array: Option<Arc<BelowVolume>>,
}

impl Volume {
    pub(crate) fn new(fs: Fs) -> Self {
        Self::of(Owner::new(fs))
    }

    /// Returns the volume that `owner` refers to.
    pub(crate) fn of(owner: Owner) -> Self {
        Self { owner, snapshots: None, array: None }
    }

    /// Opens the volume on `target` for reading. A dirty journal is replayed in memory: nothing is
    /// written to the target. [`VolumeOptions`] opens in other ways.
    ///
    /// A target is a file, a block device, a partition (`disk.img#p2`), a logical volume
    /// (`disk.img#lv:vg/root`), the members of an array (`md:a.img,missing,c.img`) or memory
    /// (`mem:1G`).
    ///
    /// # Errors
    /// [`NotXfs`](crate::ErrorKind::NotXfs), [`Corrupt`](crate::ErrorKind::Corrupt),
    /// [`Unsupported`](crate::ErrorKind::Unsupported), and those of the device.
    pub fn open(target: impl AsRef<Path>) -> Result<Self> {
        VolumeOptions::new().open(target)
    }

    /// Makes all changes so far durable, the content of files too. A volume that is open for
    /// reading has none.
    ///
    /// # Errors
    /// [`Shutdown`](crate::ErrorKind::Shutdown) where the volume cannot be written any more.
    pub fn sync(&self) -> Result<()> {
        let _running = self.owner.enter()?;
        if !self.owner.is_writable() {
            return Ok(());
        }
        self.owner.sync().map_err(Error::new)
    }

    /// Makes all changes durable and leaves the volume clean, with an empty journal.
    ///
    /// Waits for the calls that other threads have under way. Files, iterators and other clones of
    /// the volume may still be there: their later calls fail with
    /// [`Closed`](crate::ErrorKind::Closed), and dropping them does nothing. Files that were
    /// removed while they were open are freed; where damage or the device does not allow that,
    /// [`Closed::orphans_left`] lists them: the journal stays dirty, and the next opening for
    /// writing tries again. The target itself is released with the last reference.
    ///
    /// # Errors
    /// As [`sync`](Self::sync). What was not durable before may then be lost.
    /// [`Closed`](crate::ErrorKind::Closed) where it was closed already.
    /// [`ResourceBusy`](crate::ErrorKind::ResourceBusy) within an operation of the same volume, in
    /// a callback for its progress: the close would wait for itself.
    pub fn close(self) -> Result<Closed> {
        self.owner.close()
    }

    /// Ends without closing, as a crash does: what was not synced is lost, and the next opening
    /// replays the journal. For tests, and for programs that do not want their changes any more.
    ///
    /// Later calls through files, iterators and other clones fail with
    /// [`Closed`](crate::ErrorKind::Closed). Nothing happens within an operation of the volume.
    pub fn abandon(self) {
        // Closed already: there is nothing to abandon.
        let _ended = self.owner.end();
    }

    /// Returns the array that the volume is on, whole or in part: for a volume that is open for
    /// writing on an array with superblocks. Members can be taken out of use, replaced, filled and
    /// compared while the volume is read and changed. The array is released with the last
    /// reference.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where the superblocks make no array any
    /// more.
    pub fn array(&self) -> Result<Option<md::Array>> {
        let below = |array: &Arc<_>| md::Array::below_volume(Arc::clone(array));
        self.array.as_ref().map(below).transpose()
    }

    /// Returns the size of the volume and what is free of it.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed).
    pub fn statfs(&self) -> Result<Statfs> {
        let _running = self.owner.enter()?;
        Ok(self.owner.statfs())
    }

    /// Runs `work` for `operation` on `path`. Where an inode goes between the resolution of its
    /// path and its use, the path is resolved again: it names another then, or nothing.
    pub(crate) fn at<T>(
        &self,
        operation: &'static str,
        path: &Path,
        work: impl Fn(&Owner, &[u8]) -> vfs::Result<T>,
    ) -> Result<T> {
        let _running = self.owner.enter()?;
        let inside = inside(path);
        if inside.is_empty() {
            return Err(Error::at(vfs::Error::NotFound { path: String::new() }, path));
        }
        let mut result = work(&self.owner, &inside);
        if self.owner.is_writable() {
            let is_stale =
                |result: &vfs::Result<T>| result.as_ref().is_err_and(vfs::Error::is_stale);
            for _ in 0..RESOLUTIONS {
                if !is_stale(&result) {
                    break;
                }
                result = work(&self.owner, &inside);
            }
        }
        result.map_err(|error| {
            let error = error.by_path(&inside).at(operation, &inside);
            Error::at(error, path)
        })
    }
}

/// Returns `path` as it is inside the volume: from the root.
pub(crate) fn inside(path: &Path) -> Cow<'_, [u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.first() == Some(&b'/') || bytes.is_empty() {
        return Cow::Borrowed(bytes);
    }
    Cow::Owned([b"/", bytes].concat())
}
