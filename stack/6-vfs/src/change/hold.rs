//! Inodes held open: a file without a name exists as long as it is held.

use std::collections::HashMap;
use std::ops::Deref;
use std::time::{Duration, Instant};

use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_units::{Ino, index};

use crate::{Fs, Inode, Result};

const SHARDS: usize = 64;

/// Maximum time that a caller waits while another thread frees an inode. It is bounded, because
/// that thread may wait for a lock that the caller holds.
const GIVE_BACK_MAX: Duration = Duration::from_secs(1);

/// The holders of one inode.
#[derive(Debug, Default)]
struct Holders {
    count: usize,
    /// The inode has lost its last name: the last holder frees it.
    unnamed: bool,
    /// The last holder is freeing it.
    going: bool,
}

/// The inodes that are held.
#[derive(Debug)]
pub(crate) struct Holds {
    /// Rank [`LockRank::Leaf`].
    shards: Vec<RankedMutex<HashMap<Ino, Holders>>>,
}

impl Default for Holds {
    fn default() -> Self {
        let shard = || RankedMutex::new(LockRank::Leaf, HashMap::new());
        Self { shards: (0..SHARDS).map(|_| shard()).collect() }
    }
}

impl Holds {
    fn shard(&self, ino: Ino) -> &RankedMutex<HashMap<Ino, Holders>> {
        &self.shards[index(ino.0 % SHARDS as u64)]
    }

    pub(crate) fn is_held(&self, ino: Ino) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    fn add(&self, ino: Ino) {
        self.shard(ino).lock().entry(ino).or_default().count += 1;
    }

    /// Removes one holder. Returns false for the last holder of an inode without a name: it still
    /// holds the inode, frees it, and tries again. So one thread frees it, before the number is
    /// another file's.
    fn remove(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino).lock();
        match shard.get_mut(&ino) {
            Some(holders) if holders.count > 1 => holders.count -= 1,
            Some(Holders { unnamed, going, .. }) if *unnamed => {
                (*unnamed, *going) = (false, true);
                return false;
            }
            _ => drop(shard.remove(&ino)),
        }
        true
    }

    /// Records that the inode was freed: the number may be another file's.
    fn gave_back(&self, ino: Ino) {
        if let Some(holders) = self.shard(ino).lock().get_mut(&ino) {
            holders.going = false;
        }
    }

    fn is_going(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|holders| holders.going)
    }

    /// Returns true if a held inode has no name.
    pub(crate) fn has_unlinked(&self) -> bool {
        let has = |shard: &RankedMutex<HashMap<Ino, Holders>>| {
            shard.lock().values().any(|holders| holders.unnamed || holders.going)
        };
        self.shards.iter().any(has)
    }

    /// Returns the held inodes without a name, and marks them, so that their holders do not free
    /// them.
    fn take_unlinked(&self) -> Vec<Ino> {
        let mut unlinked = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let marked = shard.iter_mut().filter(|(_, holders)| holders.unnamed);
            unlinked.extend(marked.map(|(ino, holders)| {
                holders.unnamed = false;
                *ino
            }));
        }
        unlinked
    }
}

/// An inode that is held open. When its last hold is dropped, an inode without a name is freed. `F`
/// is the reference to the filesystem: a borrow ([`Hold`]), or an owner.
#[derive(Debug)]
pub struct InodeHold<F: Deref<Target = Fs>> {
    pub(super) fs: F,
    ino: Ino,
}

/// A hold that borrows the filesystem.
pub type Hold<'f> = InodeHold<&'f Fs>;

impl<F: Deref<Target = Fs>> InodeHold<F> {
    /// Holds inode `ino` of the volume that `fs` refers to, as [`Fs::hold`] does.
    pub fn new(fs: F, ino: Ino) -> Self {
        fs.held.add(ino);
        Self { fs, ino }
    }

    /// Holds inode `ino` to use its content. The caller reads the inode afterwards, because it may
    /// be free.
    ///
    /// Waits while another thread frees the inode. When that thread has committed, the number may
    /// already be another file's, before the mark is cleared.
    ///
    /// # Errors
    /// [`NoInode`](xfskit_core::Error::NoInode) if the inode is still being freed after
    /// [`GIVE_BACK_MAX`].
    pub(crate) fn of_content(fs: F, ino: Ino) -> Result<Self> {
        let hold = Self::new(fs, ino);
        let start = Instant::now();
        while hold.fs.held.is_going(ino) {
            if start.elapsed() > GIVE_BACK_MAX {
                return Err(xfskit_core::Error::NoInode(ino).into());
            }
            std::thread::yield_now();
        }
        Ok(hold)
    }

    /// Holds `inode` open, as [`Fs::hold_inode`] does.
    ///
    /// # Errors
    /// As [`Fs::hold_inode`].
    pub fn of_inode(fs: F, inode: &Inode) -> Result<Self> {
        let hold = Self::of_content(fs, inode.ino())?;
        if hold.fs.volume.iget(inode.ino())?.is_same_file(inode) {
            return Ok(hold);
        }
        Err(xfskit_core::Error::NoInode(inode.ino()).into())
    }

    /// Returns its number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Records that a transaction that removed the inode's last name was committed.
    pub(crate) fn mark_unlinked(&self) {
        if let Some(holders) = self.fs.held.shard(self.ino).lock().get_mut(&self.ino) {
            holders.unnamed = true;
        }
    }
}

impl<F: Deref<Target = Fs>> Drop for InodeHold<F> {
    fn drop(&mut self) {
        while !self.fs.held.remove(self.ino) {
            if let Err(error) = self.fs.give_back(self.ino) {
                // It stays on the unlinked list; the next open for writing finishes it.
                tracing::warn!(ino = %self.ino, %error, "an unlinked file could not be given back");
            }
            self.fs.held.gave_back(self.ino);
        }
    }
}

impl Fs {
    /// Holds inode `ino` open: it exists even without names.
    pub fn hold(&self, ino: Ino) -> Hold<'_> {
        InodeHold::new(self, ino)
    }

    /// Holds `inode` open: this file, not another that got its number since.
    ///
    /// # Errors
    /// [`NoInode`](xfskit_core::Error::NoInode) if it is gone; device failures, corruption.
    pub fn hold_inode(&self, inode: &Inode) -> Result<Hold<'_>> {
        InodeHold::of_inode(self, inode)
    }

    /// Frees the inodes without a name that are still held, instead of their holders.
    pub(crate) fn give_back_held(&self) {
        for ino in self.held.take_unlinked() {
            if let Err(error) = self.give_back(ino) {
                tracing::warn!(%ino, %error, "an unlinked file could not be given back");
            }
        }
    }

    /// Frees an inode without a name and all its blocks.
    fn give_back(&self, ino: Ino) -> Result<()> {
        let inode = match self.volume.iget(ino) {
            Err(xfskit_core::Error::NoInode(_)) => return Ok(()),
            inode => inode.inspect_err(|error| self.volume.orphan_stays(Some(ino), error))?,
        };
        if inode.core().nlink() == 0 {
            // Its content in memory is of no use any more.
            self.volume.discard_content(ino)?;
            self.volume.inactivate(ino)?;
        }
        Ok(())
    }
}
