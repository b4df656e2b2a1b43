//! Inodes whose attribute fork is known to hold no debris.

use rustc_hash::FxHashSet;
use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_units::Ino;

/// Maximum number of inodes in the cache.
const INODES_MAX: usize = 1 << 16;

/// Inodes whose attribute fork was scanned and holds no debris.
#[derive(Debug)]
pub(crate) struct Swept(RankedMutex<FxHashSet<Ino>>);

impl Default for Swept {
    fn default() -> Self {
        Self(RankedMutex::new(LockRank::Leaf, FxHashSet::default()))
    }
}

impl Swept {
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.0.lock().contains(&ino)
    }

    pub(crate) fn add(&self, ino: Ino) {
        let mut swept = self.0.lock();
        if swept.len() >= INODES_MAX {
            swept.clear();
        }
        swept.insert(ino);
    }
}
