//! Inodes in use that were made when a removed file was: files that were given back before.
//!
//! A file that was given back under its own number is in use, and no candidate. One that got a new
//! number leaves the remains under the old one, which are found again.

use rustc_hash::FxHashSet;
use xfskit_core::{Result, Volume};
use xfskit_format::Fork;
use xfskit_format::inode::Dinode;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{FsBlock, Ino};

use crate::candidate::Candidate;

/// The time at which a file was made, and its first block.
type Key = (Timestamp, FsBlock);

/// The times and blocks that are looked for among inodes in use, and those that were found.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    times: FxHashSet<Timestamp>,
    keys: FxHashSet<Key>,
    seen: FxHashSet<Timestamp>,
    found: rustc_hash::FxHashMap<Key, Ino>,
}

impl Twins {
    /// Returns a search for the twins of `candidates`.
    pub(crate) fn of(candidates: &[Candidate]) -> Self {
        let times = candidates.iter().filter_map(|file| file.crtime).collect();
        let keys = candidates.iter().filter_map(key).collect();
        Self { times, keys, ..Self::default() }
    }

    /// Takes an inode in use.
    pub(crate) fn take(&mut self, volume: &Volume, ino: Ino, inode: &Dinode<'_>) {
        let Some(made) = inode.crtime().filter(|made| self.times.contains(made)) else { return };
        self.seen.insert(made);
        if !inode.is_regular() {
            return;
        }
        // Damage of it is no concern of the search.
        let Ok(extents) = volume.extents_of(inode, ino, Fork::Data) else { return };
        let first = extents.as_slice().first().map(|extent| (made, extent.startblock));
        if let Some(key) = first.filter(|key| self.keys.contains(key)) {
            self.found.insert(key, ino);
        }
    }

    /// Marks the candidates that have a twin.
    pub(crate) fn mark(&self, candidates: &mut [Candidate]) {
        for file in candidates {
            file.has_twin = file.crtime.is_some_and(|made| self.seen.contains(&made));
        }
    }

    /// Returns true if the twin of a file has exactly its blocks.
    pub(crate) fn was_given_back(&self, volume: &Volume, file: &Candidate) -> bool {
        let ino = key(file).filter(|_| file.is_in_use()).and_then(|key| self.found.get(&key));
        let same = |ino: &Ino| -> Result<bool> {
            let inode = volume.iget(*ino)?;
            let extents = volume.extents_of(&inode.core(), *ino, Fork::Data)?;
            Ok(extents.as_slice() == file.extents)
        };
        ino.is_some_and(|ino| same(ino).unwrap_or(false))
    }
}

fn key(file: &Candidate) -> Option<Key> {
    let first = file.extents.first().filter(|_| file.target.is_none() && !file.realtime)?;
    Some((file.crtime?, first.startblock))
}
