//! Walks a tree entry by entry, sorted, depth first. [`sweep`](crate::sweep) is faster.
//!
//! Damage does not end a walk. A directory or inode that cannot be read is an `Err` item with its
//! path, and its neighbours are still returned. A directory is entered only once, so a cycle ends.

use std::ops::Deref;

use xfskit_core::Inode;
use xfskit_units::Ino;

use crate::fs::Portion;
use crate::path::join;
use crate::{Entry, Error, Fs, Result, Visited};

/// Number of inodes loaded together.
const AHEAD: usize = 512;

/// One file of a walk.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    /// Path from the root of the volume.
    pub path: Vec<u8>,
    /// Depth below the start of the walk, which has 0.
    pub depth: usize,
    /// The file.
    pub inode: Inode,
    /// The directory that it was found in; for the start, the file itself.
    pub parent: Ino,
    /// True if it is the last of its directory.
    pub last: bool,
}

/// Something that a walk could not read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", String::from_utf8_lossy(path))]
pub struct WalkFault {
    /// Path from the root of the volume.
    pub path: Vec<u8>,
    /// The inode.
    pub ino: Ino,
    /// The error.
    #[source]
    pub error: Error,
}

impl WalkFault {
    fn of(entry: &WalkEntry, error: Error) -> Self {
        Self { path: entry.path.clone(), ino: entry.inode.ino(), error }
    }
}

/// A running walk: an iterator. `F` is the reference to the filesystem: a borrow ([`Walk`]), or an
/// owner.
#[derive(Debug)]
pub struct TreeWalk<F: Deref<Target = Fs>> {
    fs: F,
    max_depth: usize,
    seen: Visited,
    /// Path of the directory that the walk is in, followed by the rest of a longer one.
    path: Vec<u8>,
    /// Items that the next step returns first: errors of a directory that was just entered.
    faults: Vec<WalkFault>,
    /// The first file, until it was returned.
    start: Option<WalkEntry>,
    levels: Vec<Level>,
}

/// A walk that borrows the filesystem.
pub type Walk<'f> = TreeWalk<&'f Fs>;

/// A directory that the walk is in.
#[derive(Debug)]
struct Level {
    /// Length of this directory's path in the walk's path. A copy of its own for each level would
    /// cost a deep tree's depth.
    path_len: usize,
    dir: Inode,
    /// The remaining entries in reverse: the next is the last.
    entries: Vec<Entry>,
    /// The inodes of the next entries, in reverse too.
    inodes: Vec<Result<Inode>>,
}

impl Level {
    /// Returns the next entry and its inode, loaded together with those behind it.
    fn next(&mut self, fs: &Fs) -> Option<(Entry, Result<Inode>)> {
        if self.inodes.is_empty() {
            let ahead = &self.entries[self.entries.len().saturating_sub(AHEAD)..];
            self.inodes = fs.inodes(&ahead.iter().map(|entry| entry.ino).collect::<Vec<_>>());
        }
        self.entries.pop().zip(self.inodes.pop())
    }

    /// Returns the next entry like [`next`](Self::next), without those that were removed since the
    /// directory was read.
    fn next_there(&mut self, fs: &Fs) -> Option<(Entry, Result<Inode>)> {
        while let Some((entry, inode)) = self.next(fs) {
            if !inode.as_ref().is_err_and(|error| is_gone(fs, error)) {
                return Some((entry, inode));
            }
            if let Some(inode) = fs.lookup_inode(&self.dir, &entry.name).transpose() {
                return Some((entry, inode));
            }
        }
        None
    }
}

/// Returns true if the volume changed meanwhile, and the file was removed.
fn is_gone(fs: &Fs, error: &Error) -> bool {
    fs.volume.engine().is_ok() && error.is_stale()
}

impl Fs {
    /// Walks the tree below `inode`, whose path is `path`. Directories deeper than `max_depth`
    /// below the start are not entered.
    pub fn walk(&self, path: &[u8], inode: Inode, max_depth: usize) -> Walk<'_> {
        TreeWalk::new(self, path, inode, max_depth)
    }
}

impl<F: Deref<Target = Fs>> TreeWalk<F> {
    /// Walks the tree below `inode`, as [`Fs::walk`] does.
    pub fn new(fs: F, path: &[u8], inode: Inode, max_depth: usize) -> Self {
        let seen = Visited::new(inode.ino(), path);
        Self::beyond(fs, seen, path, inode, max_depth)
    }

    /// Walks the tree below `inode` as [`new`](Self::new) does, but for the directories that are in
    /// `seen` already. `inode` itself was just entered there.
    pub fn beyond(fs: F, seen: Visited, path: &[u8], inode: Inode, max_depth: usize) -> Self {
        let ino = inode.ino();
        let start = WalkEntry { path: path.to_vec(), depth: 0, inode, parent: ino, last: true };
        Self {
            fs,
            max_depth,
            seen,
            path: Vec::new(),
            faults: Vec::new(),
            start: Some(start),
            levels: Vec::new(),
        }
    }

    /// Ends the walk, and returns the directories that it and those before it entered.
    pub fn into_seen(self) -> Visited {
        self.seen
    }

    /// Sets the maximum depth below the start, of a walk that has not begun.
    pub fn set_max_depth(&mut self, max_depth: usize) {
        self.max_depth = max_depth;
    }

    fn add_time_fault(&mut self, entry: &WalkEntry) {
        let error = self.fs.time_fault(&entry.inode);
        self.faults.extend(error.map(|error| WalkFault::of(entry, error)));
    }

    /// Enters `entry` if it is a directory and not too deep.
    fn enter(&mut self, entry: &WalkEntry) {
        if !entry.inode.core().is_dir() || entry.depth >= self.max_depth {
            return;
        }
        let name = entry.path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        if entry.depth > 0
            && let Err(error) = self.seen.enter(entry.inode.ino(), entry.parent, name)
        {
            self.faults.push(WalkFault::of(entry, error));
            return;
        }
        let Portion { mut entries, errors, .. } = self.fs.read_dir(&entry.inode);
        let fault = |error| WalkFault::of(entry, error);
        self.faults.extend(errors.into_iter().filter(|e| !is_gone(&self.fs, e)).map(fault));
        entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        self.path.clone_from(&entry.path);
        let (path_len, dir) = (entry.path.len(), entry.inode.clone());
        self.levels.push(Level { path_len, dir, entries, inodes: Vec::new() });
    }
}

impl<F: Deref<Target = Fs>> Iterator for TreeWalk<F> {
    type Item = std::result::Result<WalkEntry, WalkFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(start) = self.start.take() {
            self.add_time_fault(&start);
            self.enter(&start);
            return Some(Ok(start));
        }
        if let Some(fault) = self.faults.pop() {
            return Some(Err(fault));
        }
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            let Some((next, inode)) = level.next_there(&self.fs) else {
                self.levels.pop();
                continue;
            };
            self.path.truncate(level.path_len);
            let path = join(&self.path, &next.name);
            let (last, parent) = (level.entries.is_empty(), level.dir.ino());
            return Some(match inode {
                Ok(inode) => {
                    let entry = WalkEntry { path, depth, inode, parent, last };
                    self.add_time_fault(&entry);
                    self.enter(&entry);
                    Ok(entry)
                }
                Err(error) => Err(WalkFault { path, ino: next.ino, error }),
            });
        }
    }
}
