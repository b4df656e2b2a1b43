//! Names removed, and inodes given back.
//!
//! An inode whose last name goes is given back at once where that fits into the same transaction:
//! an empty file, a short one. Larger ones, and those that somebody holds open, go on the unlinked
//! list first; what they have is then given back piece by piece, and a crash in between is finished
//! by recovery.

use xfskit_core::icore::Touch;
use xfskit_core::{Error as Core, Tx, TxInode};
use xfskit_units::Ino;

use super::hold::Hold;
use super::{take, unnamed};
use crate::{Fs, Result};

impl Fs {
    /// Removes `name`, which is no directory's, from directory `dir`.
    ///
    /// # Errors
    /// [`Core::NoEntry`], and [`Core::IsDirectory`] for a directory.
    pub fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let now = self.clock.now();
        let left = self.without_entry(dir, name, |tx, parent, inode| {
            if tx.core(inode).is_dir() {
                return Err(Core::IsDirectory(inode.ino));
            }
            unnamed(tx, inode, parent, name)?;
            tx.touch(parent, Touch::CONTENT, now);
            tx.touch(inode, Touch::INODE, now);
            self.drop_link(tx, inode, 1)
        })?;
        Self::finish(left);
        Ok(())
    }

    /// Removes the empty directory `name` from directory `dir`.
    ///
    /// # Errors
    /// [`Core::NoEntry`], [`Core::NotDirectory`], [`Core::NotEmpty`].
    pub fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let now = self.clock.now();
        let left = self.without_entry(dir, name, |tx, parent, inode| {
            if !tx.core(inode).is_dir() {
                return Err(Core::NotDirectory(inode.ino));
            }
            if !tx.dir_is_empty(inode)? {
                return Err(Core::NotEmpty);
            }
            unnamed(tx, inode, parent, name)?;
            let links = tx.core(parent).nlink();
            tx.set_nlink(parent, links.saturating_sub(1))?;
            tx.touch(parent, Touch::CONTENT, now);
            tx.touch(inode, Touch::INODE, now);
            self.drop_link(tx, inode, 2)
        })?;
        Self::finish(left);
        Ok(())
    }

    /// Takes `name` out of directory `dir`, and runs `change` with the directory and the inode that
    /// it named, both locked. Where that refuses, nothing has happened to the name either.
    fn without_entry<T>(
        &self,
        dir: Ino,
        name: &[u8],
        change: impl Fn(&mut Tx<'_>, TxInode, TxInode) -> xfskit_core::Result<T>,
    ) -> Result<T> {
        Ok(self.volume.transact(|tx| {
            let [parent] = take(tx, [dir])?;
            if !tx.core(parent).is_dir() {
                return Err(Core::NotDirectory(dir));
            }
            let (ino, _) = tx.dir_remove(parent, name)?;
            // Out of order if the number is the lower one: then the lock is only tried.
            let inode = tx.iget(ino)?;
            change(tx, parent, inode)
        })?)
    }

    /// One name less, in a transaction that holds the inode. Returns a hold on the inode where
    /// something of it is left to be given back.
    pub(crate) fn drop_link(
        &self,
        tx: &mut Tx<'_>,
        inode: TxInode,
        links: u32,
    ) -> xfskit_core::Result<Option<Hold<'_>>> {
        let nlink = tx.core(inode).nlink().saturating_sub(links);
        tx.set_nlink(inode, nlink)?;
        if nlink > 0 {
            return Ok(None);
        }
        let core = tx.core(inode);
        let nothing_left = core.nblocks().0 == 0 && core.anextents() == 0;
        let ino = inode.ino;
        if nothing_left && !self.held.is_held(ino) && !self.volume.may_have_content(ino) {
            tx.ifree(inode)?;
            return Ok(None);
        }
        tx.add_unlinked(inode)?;
        Ok(Some(self.hold(ino)))
    }

    /// Gives back what is left of an inode without a name, unless somebody else holds it.
    pub(crate) fn finish(left: Option<Hold<'_>>) {
        if let Some(hold) = left {
            hold.mark_unlinked();
        }
    }
}
