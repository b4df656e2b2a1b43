//! Inodes without a name given back: their forks in transactions of bounded size, then themselves.
//!
//! Until the last transaction the inode is on its unlinked list, so a crash in between loses nothing: the
//! next open for writing goes on.

use std::sync::atomic::Ordering;

use xfskit_format::Fork;
use xfskit_format::attr::leaf_edit;
use xfskit_format::da_edit::Identity;
use xfskit_format::inode::FileType;
use xfskit_units::{FileOff, Ino};

use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Extents that one transaction frees.
const EXTENTS_AT_ONCE: usize = 32;

impl Volume {
    /// Gives back inode `ino`, if it has no name: it is on its unlinked list then. Several threads may
    /// ask for it at once.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`]: what is left stays on the list.
    pub fn inactivate(&self, ino: Ino) -> Result<()> {
        self.inactivate_all(ino).inspect_err(|error| self.orphan_stays(error))
    }

    /// An inode without a name could not be given back. Where the device was the reason, that is tried again when the
    /// volume is closed.
    pub fn orphan_stays(&self, error: &Error) {
        if !matches!(error, Error::Corrupt(_)) {
            self.orphans_left.store(true, Ordering::Relaxed);
        }
    }

    fn inactivate_all(&self, ino: Ino) -> Result<()> {
        let step = || {
            self.transact(|tx| {
                let inode = match tx.iget(ino) {
                    Err(Error::NoInode(_)) => return Ok(true),
                    inode => inode?,
                };
                if tx.core(inode).nlink() > 0 {
                    return Ok(true);
                }
                if !tx.free_some(inode)? {
                    return Ok(false);
                }
                tx.remove_unlinked(inode)?;
                tx.ifree(inode)?;
                Ok(true)
            })
        };
        while !step()? {}
        Ok(())
    }

    /// Gives back all inodes on unlinked lists: files that were deleted while open, and then came a crash.
    /// Answers how many. What is damaged stays where it is, as Linux leaves it.
    ///
    /// # Errors
    /// [`Error::Trans`] where the volume was shut down.
    pub(crate) fn inactivate_orphans(&self) -> Result<u64> {
        let mut count = 0;
        for agno in self.geo().ags() {
            let agi = self.agi(agno).inspect_err(|error| self.orphan_stays(error));
            let most = agi.map_or(0, |agi| agi.count.get());
            for _ in 0..most {
                let heads = self.transact(|tx| tx.unlinked_heads(agno))?;
                let inos = heads.iter().map(|&agino| self.geo().agino_to_ino(agno, agino));
                let mut done = 0;
                for ino in inos {
                    match self.inactivate(ino) {
                        Ok(()) => done += 1,
                        Err(error @ Error::Trans(_)) => return Err(error),
                        Err(error) => tracing::warn!(%ino, %error, "an orphan stays"),
                    }
                }
                count += done;
                if done == 0 {
                    break;
                }
            }
        }
        Ok(count)
    }
}

impl Tx<'_> {
    /// Frees some of what an inode without a name has; `true` where nothing is left.
    fn free_some(&mut self, inode: TxInode) -> Result<bool> {
        let file_type = self.core(inode).file_type();
        let data_is_free = match file_type {
            Some(FileType::Symlink) => {
                self.drop_target(inode)?;
                true
            }
            Some(FileType::Directory) => self.free_metadata_some(inode, Fork::Data)?,
            _ => self.bmap_trim(inode, Fork::Data, FileOff::ZERO, EXTENTS_AT_ONCE)?,
        };
        Ok(data_is_free && self.free_metadata_some(inode, Fork::Attr)?)
    }

    /// Frees the last blocks of a fork of metadata, block 0 at the very end; `true` where none is left.
    fn free_metadata_some(&mut self, inode: TxInode, fork: Fork) -> Result<bool> {
        let unit = if fork == Fork::Data { self.volume().geo().dirblkfsbs() } else { 1 };
        for _ in 0..EXTENTS_AT_ONCE {
            if self.core(inode).fork_nextents(fork) == 0 {
                return Ok(true);
            }
            let end = self.bmap_end(inode, fork)?;
            let start = FileOff(end.0.saturating_sub(unit.into()));
            if fork == Fork::Attr && start.0 > 0 {
                self.empty_attr_root(inode)?;
            }
            if let Some(map) = self.bmap_buf(inode, fork, start, unit)? {
                self.invalidate_at(&map)?;
            }
            self.bunmap(inode, fork, start, unit.into())?;
        }
        Ok(self.core(inode).fork_nextents(fork) == 0)
    }

    /// Makes the root of an attribute tree an empty leaf. Its blocks go in several transactions, and Linux, which
    /// walks the tree to give it back, must not find it half gone.
    fn empty_attr_root(&mut self, inode: TxInode) -> Result<()> {
        let Some(map) = self.bmap_buf(inode, Fork::Attr, FileOff::ZERO, 1)? else { return Ok(()) };
        let geo = self.volume().geo();
        let id = Identity { daddr: map.first().0, owner: inode.ino };
        let root = self.fresh(&map)?;
        leaf_edit::init(&mut self.image(root), geo, id);
        Ok(())
    }
}
