//! A tree, file by file.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use xfskit_vfs::{Inode, TreeWalk, WalkFault};

use crate::shared::Owner;
use crate::{Error, FileType, Metadata, Result};

/// Everything below a directory, the start included: an iterator, depth first, sorted by name.
///
/// Damage is an item that names its path, and does not hide the rest. A symbolic link is an item
/// and is not followed. A directory is entered once only, so that a walk ends on a damaged volume
/// too; where it comes again, that is an item with an error.
#[derive(Debug)]
pub struct WalkDir {
    owner: Owner,
    walk: TreeWalk<Owner>,
    min_depth: usize,
}

impl WalkDir {
    pub(crate) fn new(owner: Owner, path: &[u8], start: Inode) -> Self {
        let walk = TreeWalk::new(owner.clone(), path, start, usize::MAX);
        Self { owner, walk, min_depth: 0 }
    }

    /// Leaves out what is less deep below the start than `depth`. The start itself has depth 0.
    #[must_use]
    pub fn min_depth(mut self, depth: usize) -> Self {
        self.min_depth = depth;
        self
    }

    /// Leaves out what is deeper below the start than `depth`: directories there are not read. For
    /// a walk that has not begun.
    #[must_use]
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.walk.set_max_depth(depth);
        self
    }
}

impl Iterator for WalkDir {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let _running = match self.owner.enter() {
            Ok(running) => running,
            Err(error) => return Some(Err(error)),
        };
        loop {
            match self.walk.next()? {
                Ok(entry) if entry.depth < self.min_depth => {}
                Ok(entry) => {
                    let metadata = Metadata::of(self.owner.stat(&entry.inode));
                    let path = std::ffi::OsString::from_vec(entry.path).into();
                    let (depth, is_last) = (entry.depth, entry.last);
                    let (owner, inode) = (self.owner.clone(), entry.inode);
                    return Some(Ok(WalkEntry { path, depth, metadata, is_last, owner, inode }));
                }
                Err(WalkFault { path, error, .. }) => {
                    return Some(Err(Error::at(error, Path::new(OsStr::from_bytes(&path)))));
                }
            }
        }
    }
}

/// One file of a walk.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    path: PathBuf,
    depth: usize,
    metadata: Metadata,
    is_last: bool,
    pub(crate) owner: Owner,
    pub(crate) inode: Inode,
}

impl WalkEntry {
    /// Returns the path inside the volume, from the root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path inside the volume, from the root.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// Returns the last name of the path; that of the root is `/`.
    pub fn file_name(&self) -> &OsStr {
        self.path.file_name().unwrap_or(self.path.as_os_str())
    }

    /// Returns how deep below the start the file is. The start itself is 0.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns true for the last entry of its directory.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Returns the type of the file.
    pub fn file_type(&self) -> FileType {
        self.metadata.file_type()
    }

    /// Returns what is known about the file. A symbolic link is not followed.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
