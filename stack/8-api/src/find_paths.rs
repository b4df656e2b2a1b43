//! From inode numbers to paths.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use xfskit_units::Ino;
use xfskit_vfs as vfs;

pub use vfs::InodeState;

use crate::builder::{cancel_method, progress_method};
use crate::cause::Cause;
use crate::progress::Control;
use crate::{CancelToken, Error, Progress, Result, Volume};

/// Finds the paths of inodes: a builder. The parent pointers of a volume give them at once. On a
/// volume without, one scan of the directories serves all inodes together, as xfs_ncheck's does.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// # let volume = xfskit::Volume::open("disk.img")?;
/// for inode in xfskit::FindPaths::new(&volume).run([131, 132])?.inodes {
///     println!("{} {:?} {:?}", inode.ino, inode.state, inode.paths);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is searched until `run` is called"]
pub struct FindPaths<'c> {
    volume: Volume,
    limit: usize,
    control: Control<'c>,
}

/// The paths of one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodePaths {
    /// The inode number.
    pub ino: u64,
    /// What the number stands for.
    pub state: InodeState,
    /// Its paths, sorted; none for a number that is no inode in use, and for a file without a name.
    pub paths: Vec<PathBuf>,
    /// Number of its names, which may exceed the [limit](FindPaths::limit); `None` if the inode
    /// cannot be read.
    pub names: Option<u64>,
}

/// The result of [`FindPaths`].
#[derive(Debug)]
#[non_exhaustive]
pub struct PathsFound {
    /// The inodes that were asked for, in this order.
    pub inodes: Vec<InodePaths>,
    /// Damage that the search met: paths may be missing.
    pub warnings: Vec<Error>,
    /// Number of warnings that were not kept.
    pub warnings_more: u64,
}

impl<'c> FindPaths<'c> {
    /// Returns a search on `volume`.
    pub fn new(volume: &Volume) -> Self {
        Self { volume: volume.clone(), limit: usize::MAX, control: Control::default() }
    }

    /// Returns at most so many paths of each inode. All by default.
    pub fn limit(mut self, paths: usize) -> Self {
        self.limit = paths;
        self
    }

    progress_method! {
        /// Receives the progress of a scan: the directories that were read. Their total is not
        /// known.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    }

    /// Finds the paths of these inodes. Damage, and a number that is no inode in use, are results,
    /// not errors.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed), [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn run(&self, inos: impl IntoIterator<Item = u64>) -> Result<PathsFound> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        let inos: Vec<Ino> = inos.into_iter().map(Ino).collect();
        let mut step = |dirs| self.control.at(dirs, 0);
        let mut found = owner.find_paths(inos.iter().copied(), self.limit, &mut step);
        if found.stopped {
            return Err(Error::new(Cause::Cancelled));
        }
        let path = |path| PathBuf::from(OsString::from_vec(path));
        let inode = |(ino, inode): (Ino, vfs::InodePaths)| {
            let vfs::InodePaths { state, paths, names } = inode;
            InodePaths { ino: ino.0, state, paths: paths.into_iter().map(path).collect(), names }
        };
        let asked = inos.into_iter().filter_map(|ino| found.inodes.remove_entry(&ino));
        Ok(PathsFound {
            inodes: asked.map(inode).collect(),
            warnings: found.warnings.into_iter().map(Error::new).collect(),
            warnings_more: found.warnings_more,
        })
    }
}
