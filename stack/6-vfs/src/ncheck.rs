//! Finds the paths of inodes: by parent pointers where the volume has them, else by one scan of all
//! directories, as xfs_ncheck does.
//!
//! The scan also looks for inodes whose parent pointers are damaged. It stores a name for each
//! directory that it entered, not a path, and enters none twice.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use xfskit_core::Volume;
use xfskit_format::agbtree::Tree;
use xfskit_format::inobt::{INODES_PER_CHUNK, Rec};
use xfskit_format::inode::FileType;
use xfskit_units::{AgIno, AgNumber, Ino};

use crate::visited::Visited;
use crate::{Error, Fs, Inode, join};

/// Maximum number of warnings that are kept. A damaged volume may have any number.
const WARNINGS: usize = 1000;

/// What an inode number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InodeState {
    /// An inode in use, with at least one name.
    Used,
    /// An inode in use without a name: the file was removed while it was open.
    Unlinked,
    /// An inode of the volume itself, by this name. No directory names it.
    Internal(&'static str),
    /// A free inode.
    Free,
    /// No inodes are allocated there.
    Absent,
    /// The number is not one that the volume can have.
    OutOfRange,
    /// An inode in use that cannot be read.
    Damaged,
}

/// The paths of one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodePaths {
    /// What the number stands for.
    pub state: InodeState,
    /// Its paths, sorted, at most as many as were asked for.
    pub paths: Vec<Vec<u8>>,
    /// Number of its names; `None` if the inode cannot be read.
    pub names: Option<u64>,
}

/// The result of a search for paths.
#[derive(Debug, Default)]
pub struct PathsFound {
    /// The inodes that were asked for.
    pub inodes: BTreeMap<Ino, InodePaths>,
    /// Damage that the search met: paths may be missing.
    pub warnings: Vec<Error>,
    /// Number of warnings that were not kept.
    pub warnings_more: u64,
    /// True if the caller ended the search.
    pub stopped: bool,
}

impl PathsFound {
    fn warn(&mut self, warning: impl Into<Error>) {
        if self.warnings.len() < WARNINGS {
            self.warnings.push(warning.into());
        } else {
            self.warnings_more = self.warnings_more.saturating_add(1);
        }
    }
}

/// The inodes whose paths the scan looks for, with the number of names that are missing.
type Missing = HashMap<Ino, u64>;

impl Fs {
    /// Returns one path of each of these inodes, as far as a parent pointer or a directory that can
    /// be read names it. An inode that cannot be read has a path too.
    pub fn paths_of(&self, inos: impl IntoIterator<Item = Ino>) -> BTreeMap<Ino, Vec<u8>> {
        let found = self.find_paths(inos, 1, &mut |_| ControlFlow::Continue(()));
        let first = |(ino, found): (Ino, InodePaths)| Some((ino, found.paths.into_iter().next()?));
        found.inodes.into_iter().filter_map(first).collect()
    }

    /// Returns the paths of these inodes, at most `limit` of each, and what the numbers stand for.
    /// `step` receives the number of directories that a scan has read; a break ends the search.
    pub fn find_paths(
        &self,
        inos: impl IntoIterator<Item = Ino>,
        limit: usize,
        step: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> PathsFound {
        let mut found = PathsFound::default();
        let mut missing = Missing::new();
        for ino in inos {
            if found.inodes.contains_key(&ino) {
                continue;
            }
            let mut inode = self.state_of(ino, &mut found);
            let due = inode.names.unwrap_or(u64::MAX).min(limit as u64);
            if matches!(inode.state, InodeState::Used | InodeState::Damaged)
                && due > 0
                && self.by_parents(ino, &mut inode, limit, &mut found) < due
            {
                missing.insert(ino, due);
            }
            found.inodes.insert(ino, inode);
        }
        found.stopped = self.scan_for(&mut missing, &mut found, step).is_break();
        for inode in found.inodes.values_mut() {
            // The scan may find again what the parent pointers gave.
            inode.paths.sort_unstable();
            inode.paths.dedup();
            inode.paths.truncate(limit);
        }
        found
    }

    /// Returns what the number `ino` stands for.
    fn state_of(&self, ino: Ino, found: &mut PathsFound) -> InodePaths {
        let inode = |state, names| InodePaths { state, paths: Vec::new(), names };
        let volume = &self.volume;
        if !volume.geo().valid_ino(ino) {
            return inode(InodeState::OutOfRange, Some(0));
        }
        let unused = |found: &mut PathsFound| {
            let (agno, agino) = volume.geo().ino_split(ino)?;
            match chunk(volume, agno, agino) {
                Ok(InTree::Absent) => Some(inode(InodeState::Absent, Some(0))),
                Ok(InTree::Free) => Some(inode(InodeState::Free, Some(0))),
                Ok(InTree::Used) => None,
                Err(error) => {
                    found.warn(error);
                    None
                }
            }
        };
        // The tree of a volume that is open for writing may change while it is read.
        let is_live = volume.space().is_writable();
        if let Some(unused) = (!is_live).then(|| unused(found)).flatten() {
            return unused;
        }
        let read = match self.inode(ino) {
            Ok(read) => read,
            Err(Error::Core(xfskit_core::Error::NoInode(_))) => {
                return inode(InodeState::Free, Some(0));
            }
            Err(error) => {
                if let Some(unused) = is_live.then(|| unused(found)).flatten() {
                    return unused;
                }
                found.warn(error);
                return inode(InodeState::Damaged, None);
            }
        };
        let core = read.core();
        match (volume.internal_name(ino, &core), core.nlink()) {
            (Some(name), _) => inode(InodeState::Internal(name), Some(0)),
            (None, 0) => inode(InodeState::Unlinked, Some(0)),
            (None, _) if core.is_dir() => inode(InodeState::Used, Some(1)),
            (None, names) => inode(InodeState::Used, Some(names.into())),
        }
    }

    /// Adds the paths of `ino` that its parent pointers give. Returns their number.
    fn by_parents(
        &self,
        ino: Ino,
        inode: &mut InodePaths,
        limit: usize,
        found: &mut PathsFound,
    ) -> u64 {
        let is_root = ino == self.volume.geo().rootino;
        if !is_root && !self.volume.geo().features.parent() {
            return 0;
        }
        match self.volume.paths(ino, limit) {
            Ok(paths) => inode.paths = paths,
            // The inode itself was reported.
            Err(_) if inode.state == InodeState::Damaged => {}
            Err(error) => found.warn(error),
        }
        inode.paths.len() as u64
    }

    /// Reads all directories until nothing is missing.
    fn scan_for(
        &self,
        missing: &mut Missing,
        found: &mut PathsFound,
        step: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if missing.is_empty() {
            return ControlFlow::Continue(());
        }
        let root = self.volume.geo().rootino;
        let mut visited = Visited::new(root, b"/");
        let mut waiting = vec![root];
        let mut count = 0;
        while let Some(ino) = waiting.pop()
            && !missing.is_empty()
        {
            step(count)?;
            count += 1;
            match self.inode(ino) {
                Ok(dir) if dir.core().is_dir() => {
                    self.scan(&dir, &mut visited, &mut waiting, missing, found);
                }
                // An entry without a file type that is not a directory.
                Ok(_) => {}
                Err(error) => found.warn(error),
            }
        }
        ControlFlow::Continue(())
    }

    /// Reads one directory: notes paths that are missing, and directories below.
    fn scan(
        &self,
        dir: &Inode,
        visited: &mut Visited,
        waiting: &mut Vec<Ino>,
        missing: &mut Missing,
        found: &mut PathsFound,
    ) {
        let parent = dir.ino();
        let listed = self.each_entry(dir, 0, &mut |entry| {
            let entry = match entry {
                Ok(entry) if matches!(entry.name, b"." | b"..") => {
                    return ControlFlow::Continue(());
                }
                Ok(entry) => entry,
                Err(error) => {
                    found.warn(error);
                    return ControlFlow::Continue(());
                }
            };
            if let Some(left) = missing.get_mut(&entry.ino) {
                if let Some(inode) = found.inodes.get_mut(&entry.ino) {
                    inode.paths.push(join(&visited.path(parent), entry.name));
                }
                *left = left.saturating_sub(1);
                if *left == 0 {
                    missing.remove(&entry.ino);
                    if missing.is_empty() {
                        return ControlFlow::Break(());
                    }
                }
            }
            let may_be_dir = matches!(
                entry.ftype.unwrap_or(FileType::Unknown),
                FileType::Directory | FileType::Unknown
            );
            // A directory that is named twice is read once.
            if may_be_dir && visited.enter(entry.ino, parent, entry.name).is_ok() {
                waiting.push(entry.ino);
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = listed {
            found.warn(error);
        }
    }
}

/// What the inobt says about an inode.
enum InTree {
    Absent,
    Free,
    Used,
}

/// Looks an inode up in the inobt of its group.
fn chunk(volume: &Volume, agno: AgNumber, agino: AgIno) -> xfskit_core::Result<InTree> {
    let mut state = InTree::Absent;
    let wanted = agino.0..agino.0.saturating_add(1);
    volume.space().walk_tree(agno, Tree::Ino, &wanted, &mut |_, block| {
        for rec in block?.recs::<Rec>() {
            let chunk = rec.decode(volume.geo());
            let Some(bit) = agino.since(chunk.startino).filter(|&bit| bit < INODES_PER_CHUNK)
            else {
                continue;
            };
            if chunk.present() >> bit & 1 != 0 {
                state = if chunk.free >> bit & 1 == 0 { InTree::Used } else { InTree::Free };
            }
        }
        Ok(())
    })?;
    Ok(state)
}
