//! The entries of a directory.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit_vfs::{self as vfs, DirListing, Entry, Inode};

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
    path: Arc<Path>,
    listing: DirListing<Owner>,
    ready: VecDeque<Result<DirEntry>>,
    metadata: bool,
}

impl ReadDir {
    pub(crate) fn new(owner: Owner, path: &Path, dir: Inode) -> Self {
        Self {
            path: path.into(),
            listing: DirListing::new(owner.clone(), dir),
            owner,
            ready: VecDeque::new(),
            metadata: false,
        }
    }

    /// Reads the inodes of many entries at once, as `readdirplus` does, for callers that want the
    /// [metadata](DirEntry::metadata) of all. Where one cannot be read, its entry is still there.
    #[must_use]
    pub fn with_metadata(mut self) -> Self {
        self.metadata = true;
        self
    }

    /// Reads the next portion. Returns false at the end.
    fn fill(&mut self) -> Result<bool> {
        let _running = self.owner.enter()?;
        let Some(portion) = self.listing.portion(PORTION) else { return Ok(false) };
        let wanted = |_: &Entry| self.metadata;
        let entries = entries(&self.owner, &self.path, portion.entries, wanted);
        self.ready.extend(entries.map(Ok));
        // A directory that was removed meanwhile has no more entries.
        let gone = |error: &xfskit_vfs::Error| self.owner.is_writable() && error.is_stale();
        let errors = portion.errors.into_iter().filter(|error| !gone(error));
        self.ready.extend(errors.map(|error| Err(Error::at(error, &self.path))));
        Ok(true)
    }
}

/// Returns the entries of the directory `dir`, with the inodes of those that are `wanted`.
pub(crate) fn entries(
    owner: &Owner,
    dir: &Arc<Path>,
    entries: Vec<Entry>,
    wanted: impl Fn(&Entry) -> bool,
) -> impl Iterator<Item = DirEntry> {
    let wanted: Vec<bool> = entries.iter().map(wanted).collect();
    let inos = entries.iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(e, _)| e.ino);
    let mut inodes = owner.inodes(&inos.collect::<Vec<_>>()).into_iter();
    entries.into_iter().zip(wanted).map(move |(entry, wanted)| {
        // An inode that cannot be read is read again where it is used, which gives the error.
        let inode = if wanted { inodes.next().and_then(Result::ok) } else { None };
        DirEntry { owner: owner.clone(), dir: Arc::clone(dir), entry, inode }
    })
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
    dir: Arc<Path>,
    entry: Entry,
    /// The inode, if it was read with the entry.
    inode: Option<Inode>,
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
        FileType::of(self.entry.file_type)
    }

    /// Returns what is known about the file. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`StaleHandle`](crate::ErrorKind::StaleHandle) where the file was removed since.
    pub fn metadata(&self) -> Result<Metadata> {
        self.with_inode(|inode| Ok(Metadata::of(self.owner.stat(inode))))
    }

    /// Returns where a symbolic link points.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata);
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what is no symbolic link.
    pub fn read_link(&self) -> Result<PathBuf> {
        let target = self.with_inode(|inode| self.owner.read_link(inode))?;
        Ok(OsString::from_vec(target).into())
    }

    /// Runs `read` on the inode, which is read unless it came with the entry.
    fn with_inode<T>(&self, read: impl FnOnce(&Inode) -> vfs::Result<T>) -> Result<T> {
        let _running = self.owner.enter()?;
        let result = match &self.inode {
            Some(inode) => read(inode),
            None => self.owner.inode(self.entry.ino).and_then(|inode| read(&inode)),
        };
        result.map_err(|error| Error::at(error, &self.path()))
    }
}
