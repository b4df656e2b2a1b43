//! Removes names, and frees inodes.
//!
//! An inode whose last name is removed is freed at once if that fits into the same transaction: an
//! empty file, a short one. Larger files, and those that are held open, go on the unlinked list
//! first. Their blocks are then freed piece by piece, and recovery finishes after a crash.

use xfskit_core::icore::Touch;
use xfskit_core::{Error as Core, Tx, TxInode};
use xfskit_units::Ino;

use super::hold::Hold;
use super::{take, unnamed};
use crate::{Fs, Result};

impl Fs {
    /// Removes `name`, which is not a directory's, from directory `dir`.
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

    /// Removes `name` from directory `dir`, and runs `change` with the directory and the inode of
    /// the name, both locked. If `change` fails, the name stays.
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
            // If the number is the lower one, this is out of order, and the lock is only tried.
            let inode = tx.iget(ino)?;
            change(tx, parent, inode)
        })?)
    }

    /// Removes one link, in a transaction that holds the inode. Returns a hold on the inode if
    /// something of it is left to be freed.
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

    /// Frees the rest of an inode without a name, unless another holder is left.
    pub(crate) fn finish(left: Option<Hold<'_>>) {
        if let Some(hold) = left {
            hold.mark_unlinked();
        }
    }
}
