//! Allocation and freeing of inodes.
//!
//! `4-space` finds a free number in the chunks of a group. This module makes an inode of it.
//!
//! | module | contents |
//! | --- | --- |
//! | [`inactivate`] | freeing of unlinked inodes, step by step |
//! | [`unlinked`] | lists of unlinked inodes that are still in use |

mod inactivate;
mod unlinked;

use xfskit_format::inode::FileType;
use xfskit_format::{Image, Layout, inode};
use xfskit_units::{AgNumber, Ino};

use crate::error::{Error, Result};
use crate::icore::NewInode;
use crate::inode::Inode;
use crate::tx::{Tx, TxInode};

impl Tx<'_> {
    /// Allocates an inode with the core of `new`, near `parent`: a directory in the next group in
    /// turn, all else in the group of its directory. Its forks are empty.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no free inode and no space for more; [`Error::BusyExtents`];
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn ialloc(&mut self, parent: Ino, new: &NewInode) -> Result<TxInode> {
        let mut is_busy = false;
        let is_directory = FileType::from_mode(new.mode) == Some(FileType::Directory);
        for agno in self.space().groups_for(parent, is_directory) {
            match self.ialloc_in(agno, parent, new) {
                Ok(Some(inode)) => return Ok(inode),
                Ok(None) => {}
                Err(Error::BusyExtents) => is_busy = true,
                Err(error) => return Err(error),
            }
        }
        Err(if is_busy { Error::BusyExtents } else { Error::NoSpace("inodes") })
    }

    /// Allocates inode `ino` with the core of `new`, like [`ialloc`](Self::ialloc). Returns `None`,
    /// and changes nothing, if its chunk does not exist any more, or it is in use.
    ///
    /// # Errors
    /// As [`ialloc`](Self::ialloc).
    pub(crate) fn ialloc_exactly(&mut self, ino: Ino, new: &NewInode) -> Result<Option<TxInode>> {
        if !self.take_ino_exactly(ino)? {
            return Ok(None);
        }
        Ok(Some(self.init_new_inode(ino, new)?))
    }

    fn ialloc_in(
        &mut self,
        agno: AgNumber,
        parent: Ino,
        new: &NewInode,
    ) -> Result<Option<TxInode>> {
        let seed = new.now.nsec.rotate_left(7);
        let Some(ino) = self.take_ino(agno, parent, seed)? else { return Ok(None) };
        Ok(Some(self.init_new_inode(ino, new)?))
    }

    /// Initialises the free inode `ino` with `new`.
    fn init_new_inode(&mut self, ino: Ino, new: &NewInode) -> Result<TxInode> {
        let volume = self.volume();
        let home = volume.inode_home(ino)?;
        let (handle, bytes) = self.new_inode(ino, &home)?;
        let generation = match (bytes, self.unmaterialized_cluster(&home)) {
            (None, Some(cluster)) => cluster.generation,
            (bytes, _) => {
                let bytes = bytes.map_or_else(|| volume.read_dinode_at(ino, &home), Ok)?;
                let old = Inode::new(ino, bytes, volume.geo());
                let ctx = volume.ctx(inode::location(volume.geo(), ino));
                let (free, mode) = (old.core().is_free(), old.core().mode());
                ctx.require("inode.mode", free, "0: the inode btree says that it is free", mode)?;
                old.core().generation()
            }
        };
        let geo = volume.geo();
        self.init_inode(handle, new.core(geo, ino, generation), geo.inodesize());
        if let Some(device) = new.device() {
            self.image(handle).put(Layout::V5.inode_core, &device);
        }
        Ok(TxInode { ino, handle })
    }

    /// Frees inode `inode`, whose forks are empty and which is on no list.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn ifree(&mut self, inode: TxInode) -> Result<()> {
        self.clear_core(inode);
        Ok(self.give_ino(inode.ino)?)
    }
}
