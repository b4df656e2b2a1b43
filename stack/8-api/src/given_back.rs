//! Removed files that were given back before, under a new number: their remains are found again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xfskit_format::inode::FileType;
use xfskit_undelete::{Candidate, Name};
use xfskit_vfs::{Fs, Ino, Inode};

use crate::lost_found::{LOST_FOUND, telling_names};

/// Counts those of `candidates` that were given back, and returns the others. A file was given back
/// if one that was made at the same time, and has its type, is at its old place, or in `lost+found`
/// under its number. `depth`: the depth of a directory's path.
pub(crate) fn left_out<'c>(
    fs: &Fs,
    candidates: &'c [Arc<Candidate>],
    depth: impl Fn(&Candidate) -> usize,
) -> (u64, Vec<&'c Arc<Candidate>>) {
    let mut doubtful: Vec<&Arc<Candidate>> = candidates.iter().filter(|f| may_be(f)).collect();
    // Directories from the top down, and then the files in them.
    doubtful.sort_by_key(|file| if is_dir(file) { depth(file) } else { usize::MAX });
    let mut search = Search { fs, given: BTreeMap::new(), lost_found: lost_found(fs) };
    let mut given = BTreeSet::new();
    for file in doubtful {
        if let Some(ino) = search.twin(file) {
            given.insert(Arc::as_ptr(file));
            if is_dir(file) {
                search.given.insert(file.ino, ino);
            }
        }
    }
    let count = given.len() as u64;
    let left = candidates.iter().filter(|file| !given.contains(&Arc::as_ptr(file)));
    (count, left.collect())
}

fn is_dir(file: &Candidate) -> bool {
    file.file_type == Some(FileType::Directory)
}

/// Returns true if a file may have been given back: one whose blocks are free still was not.
fn may_be(file: &Candidate) -> bool {
    let has_blocks = !file.extents.is_empty() && file.target.is_none();
    file.has_twin && (!has_blocks || file.is_in_use())
}

fn lost_found(fs: &Fs) -> Option<Inode> {
    let root = fs.root().ok()?;
    fs.lookup_inode(&root, LOST_FOUND.as_bytes()).ok()?.filter(|found| found.core().is_dir())
}

struct Search<'f> {
    fs: &'f Fs,
    /// Directories that were given back, by their old numbers.
    given: BTreeMap<Ino, Ino>,
    lost_found: Option<Inode>,
}

impl Search<'_> {
    /// Returns the number of the inode that `file` has now, if it was given back.
    fn twin(&self, file: &Candidate) -> Option<Ino> {
        let at_old_place = file.names.iter().find_map(|name| self.at_old_place(file, name));
        at_old_place.or_else(|| {
            let dir = self.lost_found.as_ref()?;
            let owns = file.names.iter().map(|name| &name.name[..]).chain([&[][..]]);
            owns.flat_map(|own| telling_names(file, own)).find_map(|name| self.at(file, dir, &name))
        })
    }

    fn at_old_place(&self, file: &Candidate, name: &Name) -> Option<Ino> {
        let old = name.parent?;
        // Its number may have become another directory's.
        [self.given.get(&old).copied(), Some(old)].into_iter().flatten().find_map(|dir| {
            let is_used = self.fs.volume().is_in_use(dir).unwrap_or(false);
            let dir = self.fs.inode(dir).ok().filter(|dir| is_used && dir.core().is_dir())?;
            self.at(file, &dir, &name.name)
        })
    }

    /// Returns the number of the inode of a name, if it may be the file.
    fn at(&self, file: &Candidate, dir: &Inode, name: &[u8]) -> Option<Ino> {
        let inode = self.fs.lookup_inode(dir, name).ok()??;
        let core = inode.core();
        let is_same = core.crtime() == file.crtime && core.file_type() == file.file_type;
        is_same.then(|| inode.ino())
    }
}
