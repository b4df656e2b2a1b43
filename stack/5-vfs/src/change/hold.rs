//! Inodes held open: a file without a name lives as long as somebody holds it.

use std::collections::HashMap;

use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_units::{Ino, index};

use crate::Fs;

const SHARDS: usize = 64;

/// How often each inode is held.
#[derive(Debug)]
pub(crate) struct Holds {
    /// Rank [`LockRank::Leaf`].
    shards: Vec<RankedMutex<HashMap<Ino, usize>>>,
}

impl Default for Holds {
    fn default() -> Self {
        let shard = || RankedMutex::new(LockRank::Leaf, HashMap::new());
        Self { shards: (0..SHARDS).map(|_| shard()).collect() }
    }
}

impl Holds {
    fn shard(&self, ino: Ino) -> &RankedMutex<HashMap<Ino, usize>> {
        &self.shards[index(ino.0 % SHARDS as u64)]
    }

    pub(crate) fn is_held(&self, ino: Ino) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    fn add(&self, ino: Ino) {
        *self.shard(ino).lock().entry(ino).or_insert(0) += 1;
    }

    /// One holder less; true where it was the last.
    fn remove(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino).lock();
        let count = shard.get_mut(&ino).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if count == 0 {
            shard.remove(&ino);
        }
        count == 0
    }
}

/// An inode, held open. Dropped by the last holder, an inode without a name is given back.
#[derive(Debug)]
pub struct Hold<'f> {
    fs: &'f Fs,
    ino: Ino,
}

impl Hold<'_> {
    /// Its number.
    pub fn ino(&self) -> Ino {
        self.ino
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if !self.fs.held.remove(self.ino) || self.fs.volume.engine().is_err() {
            return;
        }
        // What is in memory of it is of no use to anybody any more.
        let unnamed = self.fs.volume.iget(self.ino).is_ok_and(|inode| inode.core().nlink() == 0);
        if unnamed {
            self.fs.volume.discard_content(self.ino);
        }
        if unnamed && let Err(error) = self.fs.volume.inactivate(self.ino) {
            // It stays on the unlinked list; the next open for writing finishes it.
            tracing::warn!(ino = %self.ino, %error, "an unlinked file could not be given back");
        }
    }
}

impl Fs {
    /// Holds inode `ino` open: it stays, whatever becomes of its names.
    pub fn hold(&self, ino: Ino) -> Hold<'_> {
        self.held.add(ino);
        Hold { fs: self, ino }
    }
}
