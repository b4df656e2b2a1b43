//! Removed files, given back in place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use xfskit_core::Error as Core;
use xfskit_core::restore::RestoredName;
use xfskit_undelete::restore::{Restored, has_attributes, keep, obstacle, restore};
use xfskit_undelete::{Candidate, Confidence, Name};
use xfskit_units::index;
use xfskit_vfs::{Fs, Ino, Inode, NewNode};

use crate::cause::Cause;
use crate::lost_found::{LOST_FOUND, telling_names};
use crate::undelete::{RemovedFile, Undelete};
use crate::{Error, FileType, FindPaths, Result};

/// Gives a file back at its places.
type Give<'g> = dyn FnMut(&Fs, &RemovedFile, &[Place]) -> Result<Given, Core> + 'g;

/// A file that was given back, or is planned to be.
struct Given {
    /// Its number; `None` if it is only planned.
    ino: Option<Ino>,
    has_attributes: bool,
}

/// What became of one file that was to be given back in place.
#[derive(Debug)]
#[non_exhaustive]
pub struct RestoredFile {
    /// Its path on the volume; `None` if it is not given back.
    pub path: Option<PathBuf>,
    /// Its other paths, if it had several links.
    pub links: Vec<PathBuf>,
    /// Its inode number; `None` in a plan, or if it is not given back.
    pub ino: Option<u64>,
    /// True if some of its extended attributes are not given back: their blocks were used again.
    pub lost_attributes: bool,
    /// Why it is not given back.
    pub error: Option<Error>,
}

impl RestoredFile {
    fn failed(error: Error) -> Self {
        let links = Vec::new();
        Self { path: None, links, ino: None, lost_attributes: false, error: Some(error) }
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
#[derive(Clone)]
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
    /// number where that is still free, the blocks that it had, and its old names; where all of
    /// their directories are gone or the names are taken, a name in `lost+found` with its number in
    /// it. Mode, owner, times and extended attributes are as they were.
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
        self.each(files, false, &mut |fs, file, places| {
            let names: Vec<RestoredName<'_>> = places
                .iter()
                .map(|place| RestoredName { dir: place.dir.ino, name: &place.name })
                .collect();
            let Restored { ino, has_attributes } =
                restore(fs.volume(), &file.candidate, &names, now)?;
            Ok(Given { ino: Some(ino), has_attributes })
        })
    }

    /// Returns what [`restore`](Self::restore) would do with these files, by the volume as it is
    /// now. Writes nothing.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed), [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn plan_restore(&self, files: &[RemovedFile]) -> Result<Vec<RestoredFile>> {
        let _running = self.volume.owner.enter()?;
        self.each(files, true, &mut |fs, file, _| {
            let has_attributes = has_attributes(fs.volume(), &file.candidate);
            Ok(Given { ino: None, has_attributes })
        })
    }

    /// Finds the places of each file and passes them to `give`.
    fn each(
        &self,
        files: &[RemovedFile],
        plan: bool,
        give: &mut Give<'_>,
    ) -> Result<Vec<RestoredFile>> {
        let mut results: Vec<_> = files.iter().map(|_| None).collect();
        let paths = self.paths_of(files)?;
        let mut places = Places::new(&self.volume.owner, paths, plan);
        let order = order(files, &places);
        for (done, index) in (0..).zip(order) {
            if self.control.at(done, files.len() as u64).is_break() {
                return Err(Error::new(Cause::Cancelled));
            }
            let file = &files[index];
            results[index] = Some(match obstacle(&file.candidate) {
                _ if file.confidence != Confidence::Good => {
                    RestoredFile::failed(Error::new(Cause::NotGood))
                }
                Some(what) => RestoredFile::failed(Error::new(Core::Unsupported(format!(
                    "restoring {what} in place"
                )))),
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

/// Returns the order in which files are given back: first those in directories in use, which so get
/// their own numbers, then directories from the top down, then the others. A file with several
/// links waits for all of their directories. Of files with the same place the one that was removed
/// last comes first.
fn order(files: &[RemovedFile], places: &Places<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_cached_key(|&index| {
        let file = &files[index];
        let parents = || file.candidate.names.iter().filter_map(|name| name.parent);
        let is_there = |ino: Ino| places.dir_in_use(ino, &file.candidate).is_some();
        let has_links = file.candidate.links > 1;
        let depth = || file.path.as_ref().map_or(usize::MAX - 1, |path| path.components().count());
        let turn = if file.file_type == Some(FileType::Dir) {
            depth()
        } else if parents().any(is_there) && (!has_links || parents().all(is_there)) {
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

    /// Finds the places of one file, and gives it back by `give`.
    fn give(&mut self, file: &RemovedFile, give: &mut Give<'_>) -> RestoredFile {
        let places = match self.places(file) {
            Ok(places) => places,
            Err(error) => return RestoredFile::failed(error),
        };
        let Given { ino, has_attributes } = match give(self.fs, file, &places) {
            Ok(given) => given,
            Err(error) => return RestoredFile::failed(Error::new(error)),
        };
        let mut paths: Vec<PathBuf> = places.iter().map(Place::path).collect();
        let path = paths.remove(0);
        if file.file_type == Some(FileType::Dir) {
            let (old, planned) = (file.candidate.ino, self.plan);
            let dir = Dir { ino: ino.unwrap_or(old), path: path.clone(), planned };
            self.given.insert(old, dir);
        }
        self.taken.extend(places.into_iter().map(|place| (place.dir.ino, place.name)));
        RestoredFile {
            path: Some(path),
            links: paths,
            ino: ino.map(|ino| ino.0),
            lost_attributes: !has_attributes,
            error: None,
        }
    }

    /// Returns the old places of a file that are there and free, as many as it had links; else one
    /// in `lost+found`.
    fn places(&mut self, file: &RemovedFile) -> Result<Vec<Place>> {
        let names = &file.candidate.names;
        let old: Vec<(Dir, &Name)> = names
            .iter()
            .filter_map(|name| Some((self.old_dir(name, &file.candidate)?, name)))
            .collect();
        let is_dir = file.file_type == Some(FileType::Dir);
        let links = if is_dir { 1 } else { index(file.candidate.links.max(1).into()) };
        let mut places: Vec<Place> = Vec::new();
        for (dir, name) in old.iter().take(links) {
            let is_same = |place: &Place| place.dir.ino == dir.ino && place.name == name.name;
            if !places.iter().any(is_same) && self.is_free(dir, &name.name)? {
                places.push(Place { dir: dir.clone(), name: name.name.clone() });
            }
        }
        if !places.is_empty() {
            return Ok(places);
        }
        let own = old.first().map(|(_, name)| *name).or(names.first());
        let dir = self.lost_found()?;
        for name in telling_names(&file.candidate, own.map_or(&[], |name| &name.name[..])) {
            if self.is_free(&dir, &name)? {
                return Ok(vec![Place { dir, name }]);
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
