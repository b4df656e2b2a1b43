//! Finds paths of inodes by a scan of all directories, as xfs_ncheck does.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_format::inode::FileType;
use xfskit_units::Ino;

use crate::{Fs, join};

/// Number of directory entries read at once.
const PORTION: usize = 8192;

/// The inodes whose paths are wanted, and the paths found so far.
struct Wanted {
    left: BTreeSet<Ino>,
    paths: BTreeMap<Ino, Vec<u8>>,
}

impl Wanted {
    /// Notes the path of `ino` if it is wanted. Returns true if no path is missing any more.
    fn found(&mut self, ino: Ino, path: impl FnOnce() -> Vec<u8>) -> bool {
        if self.left.remove(&ino) {
            self.paths.insert(ino, path());
        }
        self.left.is_empty()
    }
}

impl Fs {
    /// Returns one path of each of these inodes, as far as a directory that can be read names it.
    /// An inode that cannot be read has a path too. The scan ends when each has one.
    pub fn paths_of(&self, inos: impl IntoIterator<Item = Ino>) -> BTreeMap<Ino, Vec<u8>> {
        let mut wanted = Wanted { left: inos.into_iter().collect(), paths: BTreeMap::new() };
        self.scan_for(&mut wanted);
        wanted.paths
    }

    fn scan_for(&self, wanted: &mut Wanted) {
        let Ok(root) = self.root() else { return };
        if wanted.left.is_empty() || wanted.found(root.ino(), || b"/".to_vec()) {
            return;
        }
        let mut entered = BTreeSet::from([root.ino()]);
        let mut waiting = vec![(b"/".to_vec(), root)];
        while let Some((path, dir)) = waiting.pop() {
            let mut next = Some(0);
            while let Some(cookie) = next {
                let portion = self.read_dir_from(&dir, cookie, PORTION);
                next = portion.next;
                for entry in portion.entries {
                    if wanted.found(entry.ino, || join(&path, &entry.name)) {
                        return;
                    }
                    if matches!(entry.file_type, FileType::Directory | FileType::Unknown)
                        && entered.insert(entry.ino)
                        && let Ok(child) = self.inode(entry.ino)
                        && child.core().is_dir()
                    {
                        waiting.push((join(&path, &entry.name), child));
                    }
                }
            }
        }
    }
}
