//! Writing of symlink targets: into the inode if they fit, else into blocks.

use xfskit_format::inode::{FileType, Format};
use xfskit_format::{Fork, Image, Layout, symlink};
use xfskit_trans::BufMap;
use xfskit_units::{ByteLen, FilBlks, FileOff, index};

use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

impl Tx<'_> {
    /// Writes the target of a symlink that has none, and its size: 1 to 1023 bytes without NUL.
    ///
    /// # Errors
    /// [`Error::NameTooLong`] and [`Error::Limit`] for another target, [`Error::NotSymlink`],
    /// [`Error::NoSpace`].
    pub fn write_symlink(&mut self, inode: TxInode, target: &[u8]) -> Result<()> {
        if self.core(inode).file_type() != Some(FileType::Symlink) {
            return Err(Error::NotSymlink(inode.ino));
        }
        if target.len() > index(symlink::MAX_LEN.into()) {
            return Err(Error::NameTooLong("a symlink's target has at most 1023 bytes"));
        }
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Limit("a symlink's target is not empty, and has no NUL"));
        }
        self.set_size(inode, ByteLen(target.len() as u64));
        if target.len() > self.core(inode).data_fork().len() {
            return self.write_remote_target(inode, target);
        }
        self.set_format(inode, Format::Local as u8);
        self.image(inode.handle).put(Layout::V5.inode_core, target);
        Ok(())
    }

    /// Moves the target of a symlink from the inode into blocks.
    pub(crate) fn push_out_target(&mut self, inode: TxInode) -> Result<()> {
        let core = self.core(inode);
        let len = index(core.size().0).min(core.data_fork().len());
        let target = core.data_fork()[..len].to_vec();
        self.write_remote_target(inode, &target)
    }

    /// Writes the target into new blocks: each extent of them has one head.
    fn write_remote_target(&mut self, inode: TxInode, target: &[u8]) -> Result<()> {
        let geo = self.volume().geo();
        let payload = geo.blocksize() - Layout::V5.symlink_header;
        let len = self.core(inode).data_fork().len();
        let start = Layout::V5.inode_core;
        self.image(inode.handle).zero(start..start + len);
        self.set_format(inode, Format::Extents as u8);
        let mut left = u32::try_from(target.len().div_ceil(payload)).unwrap_or(u32::MAX);
        let mut fileoff = FileOff::ZERO;
        while left > 0 {
            let (_, len) = self.bmap_alloc(inode, Fork::Data, fileoff, left, None)?;
            fileoff = fileoff.saturating_add(len.0.into());
            left = left.saturating_sub(len.0);
        }
        let mut done = 0;
        for extent in self.fork_extents(inode, Fork::Data)?.as_slice() {
            let at = symlink::location(geo, extent.startblock, extent.blockcount);
            let daddr = at.daddr.ok_or(Error::NoSpace("blocks"))?;
            let handle = self.fresh(&BufMap::single(daddr, at.sectors))?;
            let id = (daddr, inode.ino);
            done += symlink::make(&mut self.image(handle), geo, id, done, target);
        }
        Ok(())
    }

    /// Removes the target of a symlink that is deleted: its blocks are freed, its size becomes 0.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn drop_target(&mut self, inode: TxInode) -> Result<()> {
        let geo = self.volume().geo();
        for extent in self.fork_extents(inode, Fork::Data)?.as_slice() {
            let at = symlink::location(geo, extent.startblock, extent.blockcount);
            let daddr = at.daddr.ok_or(Error::NoSpace("blocks"))?;
            self.invalidate_at(&BufMap::single(daddr, at.sectors))?;
        }
        self.bunmap(inode, Fork::Data, FileOff::ZERO, FilBlks(u64::MAX))?;
        let (start, len) = (Layout::V5.inode_core, self.core(inode).data_fork().len());
        self.image(inode.handle).zero(start..start + len);
        self.set_format(inode, Format::Extents as u8);
        self.set_size(inode, ByteLen(0));
        Ok(())
    }
}
