//! A tree, directory by directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use xfskit_vfs::{self as vfs, Entry, Inode, Visited, join};

use crate::dir::entries;
use crate::shared::Owner;
use crate::{DirEntry, Error, Result};

/// Inodes that are read at once.
const PORTION: usize = 1024;

/// The directories of a tree, each with its entries: an iterator, depth first, sorted by name.
///
/// Damage does not hide the rest. A directory that cannot be read, or comes a second time, is an
/// item with an error; entries that cannot be read are [errors](DirContents::errors) of their
/// directory.
#[derive(Debug)]
pub struct WalkDirs {
    owner: Owner,
    metadata: bool,
    skip_hidden: bool,
    max_depth: usize,
    seen: Visited,
    /// The directory to begin with, until it was returned.
    start: Option<(Vec<u8>, Inode)>,
    levels: Vec<Level>,
}

/// A directory whose subdirectories are visited.
#[derive(Debug)]
struct Level {
    path: Vec<u8>,
    dir: Inode,
    /// The entries that may be directories, in reverse: the next is the last.
    ahead: Vec<Entry>,
}

/// The entries of one directory of a [`WalkDirs`], sorted by name: an iterator.
#[derive(Debug)]
pub struct DirContents {
    owner: Owner,
    path: Arc<Path>,
    metadata: bool,
    errors: Vec<Error>,
    /// The entries that are not loaded yet.
    names: std::vec::IntoIter<Entry>,
    loaded: std::vec::IntoIter<DirEntry>,
}

impl WalkDirs {
    pub(crate) fn new(owner: Owner, path: &[u8], dir: Inode) -> Self {
        Self {
            owner,
            metadata: false,
            skip_hidden: false,
            max_depth: usize::MAX,
            seen: Visited::new(dir.ino(), path),
            start: Some((path.to_vec(), dir)),
            levels: Vec::new(),
        }
    }

    /// Reads the inodes of many entries at once, for callers that want the
    /// [metadata](DirEntry::metadata) of all.
    #[must_use]
    pub fn with_metadata(mut self, metadata: bool) -> Self {
        self.metadata = metadata;
        self
    }

    /// Leaves out entries whose names begin with a dot, and what is below them.
    #[must_use]
    pub fn skip_hidden(mut self, skip: bool) -> Self {
        self.skip_hidden = skip;
        self
    }

    /// Leaves out directories that are deeper below the start than `depth`. For a walk that has not
    /// begun.
    #[must_use]
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Reads a directory, and notes its subdirectories.
    fn list(&mut self, path: Vec<u8>, dir: Inode) -> DirContents {
        let vfs::Portion { mut entries, errors, .. } = self.owner.read_dir(&dir);
        if self.skip_hidden {
            entries.retain(|entry| entry.name.first() != Some(&b'.'));
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let os_path: Arc<Path> = Path::new(OsStr::from_bytes(&path)).into();
        let errors = errors.into_iter().map(|error| Error::at(error, &os_path)).collect();
        if self.levels.len() < self.max_depth {
            let may_be_dir = |entry: &&Entry| {
                matches!(entry.file_type, vfs::FileType::Directory | vfs::FileType::Unknown)
            };
            let ahead = entries.iter().rev().filter(may_be_dir).cloned().collect();
            self.levels.push(Level { path, dir, ahead });
        }
        DirContents {
            owner: self.owner.clone(),
            path: os_path,
            metadata: self.metadata,
            errors,
            names: entries.into_iter(),
            loaded: Vec::new().into_iter(),
        }
    }

    /// Returns the next directory; `None` for an entry that is none, or that is an error of its
    /// directory already.
    fn enter(&mut self, entry: &Entry) -> vfs::Result<Option<Inode>> {
        let Some(level) = self.levels.last() else { return Ok(None) };
        let inode = match self.owner.inode(entry.ino) {
            Err(_) if self.metadata => return Ok(None),
            inode => inode?,
        };
        if !inode.core().is_dir() {
            return Ok(None);
        }
        self.seen.enter(inode.ino(), level.dir.ino(), &entry.name)?;
        Ok(Some(inode))
    }
}

impl Iterator for WalkDirs {
    type Item = Result<DirContents>;

    fn next(&mut self) -> Option<Self::Item> {
        let owner = self.owner.clone();
        let _running = match owner.enter() {
            Ok(running) => running,
            Err(error) => return Some(Err(error)),
        };
        if let Some((path, dir)) = self.start.take() {
            return Some(Ok(self.list(path, dir)));
        }
        loop {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.ahead.pop() else {
                self.levels.pop();
                continue;
            };
            let path = join(&level.path, &entry.name);
            match self.enter(&entry) {
                Ok(Some(dir)) => return Some(Ok(self.list(path, dir))),
                Ok(None) => {}
                Err(error) => {
                    return Some(Err(Error::at(error, Path::new(OsStr::from_bytes(&path)))));
                }
            }
        }
    }
}

impl DirContents {
    /// Returns the path of the directory, inside the volume.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what could not be read of the directory.
    pub fn errors(&self) -> &[Error] {
        &self.errors
    }
}

impl Iterator for DirContents {
    type Item = DirEntry;

    fn next(&mut self) -> Option<DirEntry> {
        if self.loaded.len() == 0 {
            let portion: Vec<Entry> = self.names.by_ref().take(PORTION).collect();
            // A closed volume has no inodes; each entry says so where it is asked.
            let running = self.owner.enter();
            let wanted = |_: &Entry| self.metadata && running.is_ok();
            let loaded: Vec<_> = entries(&self.owner, &self.path, portion, wanted).collect();
            drop(running);
            self.loaded = loaded.into_iter();
        }
        self.loaded.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.names.len() + self.loaded.len();
        (len, Some(len))
    }
}

impl ExactSizeIterator for DirContents {}
