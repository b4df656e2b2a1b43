//! A tree visited on several threads.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_vfs::{self as vfs, Child, Entry, Visitor, join};

use crate::shared::Owner;
use crate::{Error, FileType, Metadata, Result, Volume, Xattrs};

/// Visits everything below a directory as fast as the device allows: on several threads, in the
/// order of the disk. A builder. [`Volume::walk_dir`] is the walk in the order of the names.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// # let volume = xfskit::Volume::open("disk.img")?;
/// xfskit::WalkParallel::new(&volume, "/home").run(|found| {
///     for file in found.unwrap_or_default() {
///         println!("{}", file.path().display());
///     }
///     std::ops::ControlFlow::Continue(())
/// })?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is visited until `run` is called"]
pub struct WalkParallel {
    volume: Volume,
    path: PathBuf,
    threads: usize,
    metadata: bool,
}

/// A file of a [`WalkParallel`].
pub struct FoundEntry<'w> {
    owner: &'w Owner,
    dir: &'w [u8],
    child: &'w Child,
}

impl WalkParallel {
    /// Returns a visit of what is below the directory `path`, itself left out. A symbolic link
    /// there is not followed.
    pub fn new(volume: &Volume, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        Self { volume: volume.clone(), path, threads: 0, metadata: false }
    }

    /// Visits with so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Reads the metadata of every file, not only of directories. Off by default.
    pub fn with_metadata(mut self, metadata: bool) -> Self {
        self.metadata = metadata;
        self
    }

    /// Calls `visit`, on many threads at once, with some files of one directory, or with what could
    /// not be read. `Break` ends the visit.
    ///
    /// # Errors
    /// As [`Volume::read_dir`] for the start. Damage below it is passed to `visit`.
    pub fn run(
        &self,
        visit: impl Fn(Result<&[FoundEntry<'_>]>) -> ControlFlow<()> + Sync,
    ) -> Result<()> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        let start = self.volume.at("walk", &self.path, |owner, path| {
            let start = owner.resolve(path, vfs::Follow::No)?;
            if start.core().is_dir() {
                return Ok(start);
            }
            Err(xfskit_core::Error::NotDirectory(start.ino()).into())
        })?;
        let path = crate::volume::inside(&self.path);
        let (metadata, stopped) = (self.metadata, AtomicBool::new(false));
        let visit = Visit { owner, found: visit, metadata, stopped };
        owner.sweep((&path, start), path.as_ref().into(), self.threads, &visit);
        Ok(())
    }
}

/// A running visit.
struct Visit<'w, F> {
    owner: &'w Owner,
    found: F,
    metadata: bool,
    stopped: AtomicBool,
}

impl<F: Fn(Result<&[FoundEntry<'_>]>) -> ControlFlow<()> + Sync> Visit<'_, F> {
    fn pass(&self, found: Result<&[FoundEntry<'_>]>) {
        let _inside = self.owner.inside();
        if (self.found)(found).is_break() {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }
}

impl<F: Fn(Result<&[FoundEntry<'_>]>) -> ControlFlow<()> + Sync> Visitor for Visit<'_, F> {
    type Dir = Arc<[u8]>;

    fn wants_inodes(&self) -> bool {
        self.metadata
    }

    fn children(&self, dir: &Self::Dir, children: &[Child]) -> Vec<(usize, Self::Dir)> {
        let found = |child| FoundEntry { owner: self.owner, dir, child };
        self.pass(Ok(&children.iter().map(found).collect::<Vec<_>>()));
        let is_dir = |child: &Child| child.inode.as_ref().is_some_and(|i| i.core().is_dir());
        let dirs = children.iter().enumerate().filter(|(_, child)| is_dir(child));
        dirs.map(|(index, child)| (index, join(dir, &child.entry.name).into())).collect()
    }

    fn fault(&self, dir: &Self::Dir, entry: Option<&Entry>, error: vfs::Error) {
        let path = entry.map_or_else(|| dir.to_vec(), |entry| join(dir, &entry.name));
        self.pass(Err(Error::at(error, Path::new(OsStr::from_bytes(&path)))));
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl FoundEntry<'_> {
    /// Returns the path inside the volume, from the root.
    pub fn path(&self) -> PathBuf {
        OsString::from_vec(join(self.dir, &self.child.entry.name)).into()
    }

    /// Returns the name.
    pub fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(&self.child.entry.name)
    }

    /// Returns the inode number.
    pub fn ino(&self) -> u64 {
        self.child.entry.ino.0
    }

    /// Returns the type of the file. [`FileType::Unknown`] where the directory has none and
    /// metadata was not asked for.
    pub fn file_type(&self) -> FileType {
        let inode = self.child.inode.as_ref().and_then(|inode| inode.core().file_type());
        FileType::of(inode.unwrap_or(self.child.entry.file_type))
    }

    /// Returns what is known about the file; `None` where
    /// [metadata was not asked for](WalkParallel::with_metadata), unless it is a directory.
    pub fn metadata(&self) -> Option<Metadata> {
        self.child.inode.as_ref().map(|inode| Metadata::of(self.owner.stat(inode)))
    }

    /// Returns the extended attributes; none where metadata was not asked for.
    pub fn list_xattrs(&self) -> Xattrs {
        let found = self.child.inode.as_ref().map(|inode| self.owner.xattrs(inode));
        Xattrs::new(&self.path(), found.unwrap_or_default())
    }
}

impl fmt::Debug for FoundEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FoundEntry").field(&self.path()).finish()
    }
}
