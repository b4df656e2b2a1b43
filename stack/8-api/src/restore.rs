//! Removed files, given back in place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use xfskit_core::Error as Core;
use xfskit_format::dir::NAME_MAX;
use xfskit_undelete::restore::{keep, obstacle, restore};
use xfskit_undelete::{Candidate, Name};
use xfskit_vfs::{Fs, Ino, Inode, NewNode};

use crate::cause::Cause;
use crate::undelete::{RemovedFile, Undelete};
use crate::{Error, FileType, FindPaths, Result};

/// Where files go whose old place is gone.
const LOST_FOUND: &str = "lost+found";

/// Gives a file back at its place, and returns its number; `None` if that is only planned.
type Give<'g> = dyn FnMut(&Fs, &RemovedFile, &Place) -> Result<Option<Ino>, Core> + 'g;

/// What became of one file that was to be given back in place.
#[derive(Debug)]
#[non_exhaustive]
pub struct RestoredFile {
    /// Its path on the volume; `None` if it is not given back.
    pub path: Option<PathBuf>,
    /// Its inode number; `None` in a plan, or if it is not given back.
    pub ino: Option<u64>,
    /// Why it is not given back.
    pub error: Option<Error>,
}

impl RestoredFile {
    fn failed(error: impl Into<Cause>) -> Self {
        Self { path: None, ino: None, error: Some(Error::new(error)) }
    }
}

/// A directory in which a file is given back.
#[derive(Clone, Debug)]
struct Dir {
    /// In a plan the old number of a directory that does not exist yet.
    ino: Ino,
    path: PathBuf,
    /// True if it is only planned.
    planned: bool,
}

/// Where a file is given back.
struct Place {
    dir: Dir,
    name: Vec<u8>,
}

impl Place {
    fn path(&self) -> PathBuf {
        self.dir.path.join(OsStr::from_bytes(&self.name))
    }
}

impl Undelete<'_> {
    /// Gives files back in place, on the volume itself, which is open for writing: each in one
    /// transaction, so that a crash leaves it whole or not at all. The file gets its own inode
    /// number where that is still free, the blocks that it had, and its old name; where its
    /// directory is gone or the name is taken, a name in `lost+found` with its number in it. Mode,
    /// owner, times, and the attributes that were in the inode, are as they were.
    ///
    /// Only good files are given back; a block that is not free any more refuses its file. Search
    /// on the volume open for reading, before it is opened for writing: that replays the journal
    /// and frees unlinked files.
    ///
    /// Returns what became of each file, in the same order. The files are durable after
    /// [`Volume::sync`](crate::Volume::sync) or [`close`](crate::Volume::close).
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Closed`](crate::ErrorKind::Closed),
    /// [`Cancelled`](crate::ErrorKind::Cancelled): the files until then are given back.
    pub fn restore(&self, files: &[RemovedFile]) -> Result<Vec<RestoredFile>> {
        let owner = &self.volume.owner;
        if !owner.is_writable() {
            return Err(Error::new(Core::ReadOnly));
        }
        let _running = owner.enter()?;
        let _kept = keep(owner.volume(), files.iter().map(|file| &*file.candidate));
        let now = owner.clock().now();
        self.each(files, false, &mut |fs, file, place| {
            Ok(Some(restore(fs.volume(), &file.candidate, place.dir.ino, &place.name, now)?))
        })
    }

    /// Returns what [`restore`](Self::restore) would do with these files, by the volume as it is
    /// now. Writes nothing.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed), [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn plan_restore(&self, files: &[RemovedFile]) -> Result<Vec<RestoredFile>> {
        let _running = self.volume.owner.enter()?;
        self.each(files, true, &mut |_, _, _| Ok(None))
    }

    /// Finds the place of each file and passes it to `give`, which returns its number.
    fn each(
        &self,
        files: &[RemovedFile],
        plan: bool,
        give: &mut Give<'_>,
    ) -> Result<Vec<RestoredFile>> {
        let mut results: Vec<_> = files.iter().map(|_| None).collect();
        let paths = self.paths_of(files)?;
        let order = order(files, &paths);
        let mut places = Places::new(&self.volume.owner, paths, plan);
        for (done, index) in (0..).zip(order) {
            if self.control.at(done, files.len() as u64).is_break() {
                return Err(Error::new(Cause::Cancelled));
            }
            let file = &files[index];
            results[index] = Some(match obstacle(&file.candidate) {
                Some(what) => {
                    RestoredFile::failed(Core::Unsupported(format!("restoring {what} in place")))
                }
                None => places.give(file, give),
            });
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Returns the paths of the directories in use that names of `files` are in.
    fn paths_of(&self, files: &[RemovedFile]) -> Result<BTreeMap<u64, PathBuf>> {
        let names = files.iter().flat_map(|file| &file.candidate.names);
        let parents: BTreeSet<Ino> = names.filter_map(|name| name.parent).collect();
        let core = self.volume.owner.volume();
        let in_use = |ino: &Ino| core.is_in_use(*ino).is_ok_and(|used| used);
        let parents = parents.into_iter().filter(in_use).map(|ino| ino.0);
        let search = FindPaths::new(&self.volume).limit(1).cancel(&self.control.cancel);
        let path = |dir: crate::InodePaths| Some((dir.ino, dir.paths.into_iter().next()?));
        Ok(search.run(parents)?.inodes.into_iter().filter_map(path).collect())
    }
}

/// Returns the order in which files are given back: first those in directories in use, `paths`,
/// which so get their own numbers, then directories from the top down, then the others. Of files
/// with the same place the one that was removed last comes first.
fn order(files: &[RemovedFile], paths: &BTreeMap<u64, PathBuf>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|&index| {
        let file = &files[index];
        let mut parents = file.candidate.names.iter().filter_map(|name| name.parent);
        let depth = || file.path.as_ref().map_or(usize::MAX - 1, |path| path.components().count());
        let turn = if file.file_type == Some(FileType::Dir) {
            depth()
        } else if parents.any(|ino| paths.contains_key(&ino.0)) {
            0
        } else {
            usize::MAX
        };
        (turn, Reverse(file.removed))
    });
    order
}

/// Finds the places of files.
struct Places<'f> {
    fs: &'f Fs,
    plan: bool,
    /// Directories in use.
    paths: BTreeMap<u64, PathBuf>,
    /// Removed directories that were given back, by the numbers that they had.
    given: BTreeMap<Ino, Dir>,
    /// The names that were given so far.
    taken: BTreeSet<(Ino, Vec<u8>)>,
    lost_found: Option<Dir>,
}

impl<'f> Places<'f> {
    fn new(fs: &'f Fs, paths: BTreeMap<u64, PathBuf>, plan: bool) -> Self {
        let (given, taken) = (BTreeMap::new(), BTreeSet::new());
        Self { fs, plan, paths, given, taken, lost_found: None }
    }

    /// Finds the place of one file, and gives it back by `give`.
    fn give(&mut self, file: &RemovedFile, give: &mut Give<'_>) -> RestoredFile {
        let place = match self.place(file) {
            Ok(place) => place,
            Err(error) => return RestoredFile { path: None, ino: None, error: Some(error) },
        };
        let ino = match give(self.fs, file, &place) {
            Ok(ino) => ino,
            Err(error) => return RestoredFile::failed(error),
        };
        let path = place.path();
        if file.file_type == Some(FileType::Dir) {
            let (old, planned) = (file.candidate.ino, self.plan);
            let dir = Dir { ino: ino.unwrap_or(old), path: path.clone(), planned };
            self.given.insert(old, dir);
        }
        self.taken.insert((place.dir.ino, place.name));
        RestoredFile { path: Some(path), ino: ino.map(|ino| ino.0), error: None }
    }

    /// Returns the old place of a file, if that is there and free, else one in `lost+found`.
    fn place(&mut self, file: &RemovedFile) -> Result<Place> {
        let names = &file.candidate.names;
        let old = names.iter().find_map(|name| Some((self.old_dir(name, &file.candidate)?, name)));
        let own = old.as_ref().map(|(_, name)| *name).or(names.first());
        if let Some((dir, name)) = old
            && self.is_free(&dir, &name.name)?
        {
            return Ok(Place { dir, name: name.name.clone() });
        }
        let dir = self.lost_found()?;
        for name in telling_names(file, own.map_or(&[], |name| &name.name[..])) {
            if self.is_free(&dir, &name)? {
                return Ok(Place { dir, name });
            }
        }
        Err(Error::at(Core::Exists, &dir.path))
    }

    /// Returns the directory of a name of a removed file, if it is the one that it was: in use
    /// since before the file was removed, or given back in this run.
    fn old_dir(&self, name: &Name, file: &Candidate) -> Option<Dir> {
        let ino = name.parent?;
        // A directory in use may have the number of one that was removed and given back.
        self.dir_in_use(ino, file).or_else(|| self.given.get(&ino).cloned())
    }

    fn dir_in_use(&self, ino: Ino, file: &Candidate) -> Option<Dir> {
        let path = self.paths.get(&ino.0)?.clone();
        let inode = self.fs.inode(ino).ok()?;
        let core = inode.core();
        let older = core.crtime().zip(file.removed).is_none_or(|(made, removed)| made <= removed);
        let own = self.fs.volume().internal_name(ino, &core).is_some();
        let usable = core.is_dir() && core.nlink() > 0 && older && !own;
        usable.then_some(Dir { ino, path, planned: false })
    }

    fn is_free(&self, dir: &Dir, name: &[u8]) -> Result<bool> {
        if self.taken.contains(&(dir.ino, name.to_vec())) {
            return Ok(false);
        }
        Ok(dir.planned || self.lookup(dir, name)?.is_none())
    }

    fn lookup(&self, dir: &Dir, name: &[u8]) -> Result<Option<Inode>> {
        let found = self.fs.inode(dir.ino).and_then(|inode| self.fs.lookup_inode(&inode, name));
        found.map_err(|error| Error::at(error, &dir.path))
    }

    /// Returns `lost+found`, which is made if it is missing. If something else has the name,
    /// returns the root directory.
    fn lost_found(&mut self) -> Result<Dir> {
        if let Some(dir) = &self.lost_found {
            return Ok(dir.clone());
        }
        let ino = self.fs.volume().geo().rootino;
        let root = Dir { ino, path: "/".into(), planned: false };
        let path = root.path.join(LOST_FOUND);
        let dir = match self.lookup(&root, LOST_FOUND.as_bytes())? {
            Some(inode) if inode.core().is_dir() => Dir { ino: inode.ino(), path, planned: false },
            Some(_) => root,
            // No inode has this number.
            None if self.plan => Dir { ino: Ino(u64::MAX), path, planned: true },
            None => {
                let new = NewNode::directory(0o700);
                let made = self.fs.make(ino, LOST_FOUND.as_bytes(), &new);
                let ino = made.map_err(|error| Error::at(error, &path))?;
                Dir { ino, path, planned: false }
            }
        };
        Ok(self.lost_found.insert(dir).clone())
    }
}

/// Returns names for a file whose old place is gone: they have its number, and the name that it
/// had (`own`, empty if it is not known), cut to the length of one; then also its generation.
fn telling_names(file: &RemovedFile, own: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let number = format!("inode-{}", file.ino);
    let generation = file.generation.map(|generation| format!("{number}-{generation:x}"));
    std::iter::once(number).chain(generation).map(move |head| {
        let mut name = head.into_bytes();
        if !own.is_empty() {
            name.push(b'-');
            name.extend_from_slice(own);
        }
        name.truncate(NAME_MAX);
        name
    })
}
