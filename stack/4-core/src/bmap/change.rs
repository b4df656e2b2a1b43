//! What other rooms ask of extent maps inside a transaction: look up, allocate and map, unmap and free.

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_trans::BufMap;
use xfskit_units::{ExtLen, FileOff, FsBlock};

use crate::bmap::ExtentList;
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

impl Tx<'_> {
    /// The extent that covers block `fileoff` of a fork, with this transaction's changes.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn bmap_lookup(
        &self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
    ) -> Result<Option<Extent>> {
        let next = self.bmap_next(inode, fork, fileoff)?;
        Ok(next.filter(|extent| extent.startoff <= fileoff))
    }

    /// The first extent that ends behind block `fileoff` of a fork: the one that covers it, or the next.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn bmap_next(
        &self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
    ) -> Result<Option<Extent>> {
        let list = self.fork_extents(inode, fork)?;
        Ok(list.as_slice().iter().find(|extent| extent.end() > fileoff).copied())
    }

    /// The first block behind the last extent of a fork: how far it reaches.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn bmap_end(&self, inode: TxInode, fork: Fork) -> Result<FileOff> {
        Ok(self.fork_extents(inode, fork)?.end())
    }

    /// The device ranges of `blocks` blocks of a fork from `start` on; `None` where there is a hole. For
    /// metadata whose blocks (of a directory) consist of several filesystem blocks.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn bmap_buf(
        &self,
        inode: TxInode,
        fork: Fork,
        start: FileOff,
        blocks: u32,
    ) -> Result<Option<BufMap>> {
        let list = self.fork_extents(inode, fork)?;
        Ok(list.map_blocks(self.volume().geo(), start, blocks))
    }

    /// All extents of a fork. For forks that are short by nature: everything else has look-ups.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn fork_extents(&self, inode: TxInode, fork: Fork) -> Result<ExtentList> {
        let copy = self.inode_copy(inode);
        self.volume().extents(&copy, fork)
    }

    /// Allocates up to `len` blocks in one piece, as near behind `hint` as may be, and maps them from block
    /// `fileoff` of a fork on, which must be a hole there. Answers where they lie and how many there are:
    /// fewer than `len` where free space is in pieces, so the caller asks again for the rest.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Limit`] where the fork cannot hold more extents.
    pub fn bmap_alloc(
        &mut self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
        len: u32,
        hint: Option<FsBlock>,
    ) -> Result<(FsBlock, ExtLen)> {
        let _ = (inode, fork, fileoff, len, hint);
        Err(Error::Unsupported("mapping blocks".into()))
    }

    /// Unmaps `len` blocks from block `fileoff` of a fork on, as far as they are mapped, and frees them.
    /// Metadata blocks among them were invalidated by the caller. One call is one transaction's work: see
    /// [`BUNMAP_MAX`](crate::bmap::BUNMAP_MAX) for how many extents it should meet.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`], [`Error::NoSpace`] where an extent is split and the tree must grow.
    pub fn bunmap(&mut self, inode: TxInode, fork: Fork, fileoff: FileOff, len: u64) -> Result<()> {
        let _ = (inode, fork, fileoff, len);
        Err(Error::Unsupported("unmapping blocks".into()))
    }

    /// Moves the border between the forks to `forkoff` (8-byte units into the literal area; 0: no attribute
    /// fork). The data fork takes the form that fits: extents move into a tree or back, the root of a
    /// tree grows a level. The content of an attribute fork in short form or extents form moves along
    /// where it fits; the caller has made sure that it does.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Device`], [`Error::Corrupt`].
    pub fn set_forkoff(&mut self, inode: TxInode, forkoff: u8) -> Result<()> {
        let _ = (inode, forkoff);
        Err(Error::Unsupported("moving the border between forks".into()))
    }
}
