//! The entries of a directory.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use xfskit_vfs::{DirListing, Entry, Inode};

use crate::shared::Owner;
use crate::{Error, FileType, Metadata, Result};

/// Entries that are read at once.
const PORTION: usize = 1024;

/// The entries of a directory, in its own order, without `.` and `..`: an iterator.
///
/// Damage is an item, and does not hide the entries that can be read. A name that comes twice is
/// damage too.
#[derive(Debug)]
pub struct ReadDir {
    owner: Owner,
    path: PathBuf,
    listing: DirListing<Owner>,
    ready: VecDeque<Result<DirEntry>>,
}

impl ReadDir {
    pub(crate) fn new(owner: Owner, path: &Path, dir: Inode) -> Self {
        Self {
            path: path.to_owned(),
            listing: DirListing::new(owner.clone(), dir),
            owner,
            ready: VecDeque::new(),
        }
    }

    /// Reads the next portion. Returns false at the end.
    fn fill(&mut self) -> Result<bool> {
        let _running = self.owner.enter()?;
        let Some(portion) = self.listing.portion(PORTION) else { return Ok(false) };
        let entry =
            |entry| Ok(DirEntry { owner: self.owner.clone(), dir: self.path.clone(), entry });
        self.ready.extend(portion.entries.into_iter().map(entry));
        // A directory that was removed meanwhile has no more entries.
        let gone = |error: &xfskit_vfs::Error| self.owner.is_writable() && error.is_stale();
        let errors = portion.errors.into_iter().filter(|error| !gone(error));
        self.ready.extend(errors.map(|error| Err(Error::at(error, &self.path))));
        Ok(true)
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.pop_front()
    }
}

/// One name in a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    owner: Owner,
    dir: PathBuf,
    entry: Entry,
}

impl DirEntry {
    /// Returns the name: no slash, no zero byte, neither `.` nor `..`.
    pub fn file_name(&self) -> OsString {
        OsString::from_vec(self.entry.name.clone())
    }

    /// Returns the path: that of the directory as it was given, and the name.
    pub fn path(&self) -> PathBuf {
        self.dir.join(OsStr::from_bytes(&self.entry.name))
    }

    /// Returns the number of the inode that the entry names.
    pub fn ino(&self) -> u64 {
        self.entry.ino.0
    }

    /// Returns the type that the directory gives the entry, without reading the inode.
    /// [`FileType::Unknown`] on the few volumes whose directories have none.
    pub fn file_type(&self) -> FileType {
        self.entry.file_type.into()
    }

    /// Returns what is known about the file. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`StaleHandle`](crate::ErrorKind::StaleHandle) where the file was removed since.
    pub fn metadata(&self) -> Result<Metadata> {
        let _running = self.owner.enter()?;
        let inode = self.owner.inode(self.entry.ino);
        Ok(self.owner.stat(&inode.map_err(|e| Error::at(e, &self.path()))?).into())
    }
}
