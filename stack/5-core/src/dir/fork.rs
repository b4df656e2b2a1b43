//! The interface between the write side of directories and the inode's data fork.

use xfskit_format::Image;
use xfskit_format::dir::DataPtr;
use xfskit_units::{DaBlock, Daddr, FileOff, Geometry};

use crate::da::tree::DaBlocks;
use crate::error::{Error, Result};

/// A directory's inode and its data fork, for changes. Blocks are directory blocks, named by their
/// first filesystem block.
pub(crate) trait DirFork {
    /// Returns the short form, `di_size` bytes; `None` in other forms.
    fn short(&self) -> Option<&[u8]>;

    /// Makes `bytes` the short form, and their number the size. The fork maps nothing.
    fn set_short(&mut self, bytes: &[u8]);

    /// Clears the short form; the fork maps nothing yet.
    fn leave_inode(&mut self);

    /// Returns the inode's bytes for the data fork.
    fn capacity(&self) -> usize;

    /// Returns `di_size`, in bytes.
    fn size(&self) -> u64;

    /// Sets `di_size`.
    fn set_size(&mut self, size: u64);

    /// Returns the verified bytes of the block at `at`.
    fn bytes(&mut self, at: FileOff) -> Result<&[u8]>;

    /// Returns the verified bytes of the block at `at`, if there is one.
    fn bytes_if_mapped(&mut self, at: FileOff) -> Result<Option<&[u8]>>;

    /// Returns the block at `at`, for a change.
    fn image(&mut self, at: FileOff) -> Result<impl Image + '_>;

    /// Returns true if there is a block at `at`.
    fn is_mapped(&mut self, at: FileOff) -> Result<bool>;

    /// Returns the device address of the block at `at`.
    fn daddr(&mut self, at: FileOff) -> Result<Daddr>;

    /// Returns the first filesystem block behind all that is mapped.
    fn end(&mut self) -> Result<FileOff>;

    /// Maps a block at `at`, all zeroes.
    fn map(&mut self, at: FileOff) -> Result<()>;

    /// Unmaps and frees the block at `at`.
    fn unmap(&mut self, at: FileOff) -> Result<()>;
}

/// Returns the offset of data block `db`.
pub(crate) fn data_at(geo: &Geometry, db: u32) -> FileOff {
    FileOff(u64::from(db) * u64::from(geo.dirblkfsbs()))
}

/// Returns the data pointer to byte `offset` of the data block at `at`.
pub(crate) fn dataptr(geo: &Geometry, at: FileOff, offset: u16) -> Result<DataPtr> {
    let full = Error::Full("a directory's names take at most 32 GiB");
    DataPtr::new(geo, at, offset.into()).ok_or(full)
}

/// Returns the offset of block `dablk` of the hash tree.
pub(crate) fn tree_at(dablk: DaBlock) -> FileOff {
    FileOff(dablk.0.into())
}

/// The blocks of the hash tree: those from 32 GiB to 64 GiB of the fork.
pub(crate) struct TreeBlocks<'f, F> {
    pub(crate) geo: &'f Geometry,
    pub(crate) fork: &'f mut F,
    /// Every block of the space before this one is in use, as far as known.
    pub(crate) from: &'f mut DaBlock,
}

impl<F: DirFork> DaBlocks for TreeBlocks<'_, F> {
    fn bytes(&mut self, dablk: DaBlock) -> Result<&[u8]> {
        self.fork.bytes(tree_at(dablk))
    }

    fn image(&mut self, dablk: DaBlock) -> Result<impl Image + '_> {
        self.fork.image(tree_at(dablk))
    }

    fn daddr(&mut self, dablk: DaBlock) -> Result<Daddr> {
        self.fork.daddr(tree_at(dablk))
    }

    fn grow(&mut self) -> Result<DaBlock> {
        let mut dablk = (*self.from).max(self.geo.dir_leafblk());
        while dablk < self.geo.dir_freeblk() {
            let next = dablk.saturating_add(self.geo.dirblkfsbs());
            if !self.fork.is_mapped(tree_at(dablk))? {
                self.fork.map(tree_at(dablk))?;
                *self.from = next;
                return Ok(dablk);
            }
            dablk = next;
        }
        Err(Error::Full("a directory's hash tree takes at most 32 GiB"))
    }

    fn shrink(&mut self, dablk: DaBlock) -> Result<()> {
        self.fork.unmap(tree_at(dablk))?;
        *self.from = dablk.min(*self.from);
        Ok(())
    }
}
