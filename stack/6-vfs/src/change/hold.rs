//! Inodes held open: a file without a name lives as long as somebody holds it.

use std::collections::HashMap;
use std::ops::Deref;
use std::time::{Duration, Instant};

use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_units::{Ino, index};

use crate::{Fs, Inode, Result};

const SHARDS: usize = 64;

/// The time for which a caller waits while another thread gives an inode back. It has a bound,
/// because that thread may wait for a lock that the caller holds.
const GIVE_BACK_MAX: Duration = Duration::from_secs(1);

/// Holders of inodes.
#[derive(Debug, Default)]
struct Holders {
    count: usize,
    /// It has lost its last name meanwhile: the last holder gives it back.
    unnamed: bool,
    /// The last holder is giving it back.
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

    /// One holder less; false where it is the last one of an inode without a name. That one still
    /// holds it, gives it back, and tries again: so it is done by one only, and before the number
    /// is another file's.
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

    /// It was given back: the number may be another file's.
    fn gave_back(&self, ino: Ino) {
        if let Some(holders) = self.shard(ino).lock().get_mut(&ino) {
            holders.going = false;
        }
    }

    fn is_going(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|holders| holders.going)
    }

    /// Returns the held inodes that have no name, and marks them: their holders do not give them
    /// back.
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

/// An inode, held open. Dropped by the last holder, an inode without a name is given back. `F` is
/// how it refers to the filesystem: by a borrow ([`Hold`]), or as an owner.
#[derive(Debug)]
pub struct InodeHold<F: Deref<Target = Fs>> {
    pub(super) fs: F,
    ino: Ino,
}

/// A hold that borrows the filesystem.
pub type Hold<'f> = InodeHold<&'f Fs>;

impl<F: Deref<Target = Fs>> InodeHold<F> {
    /// Holds inode `ino` open, as [`Fs::hold`] does.
    pub(crate) fn new(fs: F, ino: Ino) -> Self {
        fs.held.add(ino);
        Self { fs, ino }
    }

    /// Holds inode `ino` to use its content. The caller reads the inode afterwards: it may be free.
    ///
    /// Waits while another thread gives the inode back. When that thread has committed, the number
    /// may already be another file's, before the mark is cleared.
    ///
    /// # Errors
    /// [`NoInode`](xfskit_core::Error::NoInode) if the inode is still being given back after
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

    /// Its number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// A transaction that took the inode's last name is committed.
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
    /// Holds inode `ino` open: it stays, whatever becomes of its names.
    pub fn hold(&self, ino: Ino) -> Hold<'_> {
        InodeHold::new(self, ino)
    }

    /// Holds `inode` open: it, and not another that was given its number since.
    ///
    /// # Errors
    /// [`NoInode`](xfskit_core::Error::NoInode) where it is gone; device failures, corruption.
    pub fn hold_inode(&self, inode: &Inode) -> Result<Hold<'_>> {
        let hold = InodeHold::of_content(self, inode.ino())?;
        if self.volume.iget(inode.ino())?.is_same_file(inode) {
            return Ok(hold);
        }
        Err(xfskit_core::Error::NoInode(inode.ino()).into())
    }

    /// Gives back the inodes without a name that are still held: their holders do not do it any more.
    pub(crate) fn give_back_held(&self) {
        for ino in self.held.take_unlinked() {
            if let Err(error) = self.give_back(ino) {
                tracing::warn!(%ino, %error, "an unlinked file could not be given back");
            }
        }
    }

    /// Gives back all that an inode without a name has, and itself.
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
