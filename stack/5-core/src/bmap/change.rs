//! Changes of extent maps in a transaction, for other modules: look up, allocate and map, unmap and
//! free.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::Format;
use xfskit_space::RECORDS_MAX;
use xfskit_trans::BufMap;
use xfskit_units::{ExtLen, FilBlks, FileOff, FsBlock};

use super::blocks;
use super::cursor::{self, Cursor};
use super::map;
use super::node::{ForkOf, count_blocks};
use crate::bmap::mapping::buf_map;
use crate::bmap::{BUNMAP_MAX, ExtentList};
use crate::error::Result;
use crate::tx::{Tx, TxInode};

impl Tx<'_> {
    /// Returns the extent that covers block `fileoff` of a fork, with this transaction's changes.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn bmap_lookup(
        &self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
    ) -> Result<Option<Extent>> {
        if !self.has_extents(inode, fork) {
            return Ok(None);
        }
        cursor::covering(self, inode, fork, fileoff)
    }

    /// Returns the first extent that ends behind block `fileoff` of a fork: the one that covers it,
    /// or the next. Returns `None` for a fork that is stored in the inode, or does not exist.
    ///
    /// # Errors
    /// As [`bmap_lookup`](Self::bmap_lookup).
    pub fn bmap_next(
        &self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
    ) -> Result<Option<Extent>> {
        if !self.has_extents(inode, fork) {
            return Ok(None);
        }
        let cursor = Cursor::seek(self, inode, fork, fileoff)?;
        match cursor.before(self)? {
            Some(extent) if extent.end() > fileoff => Ok(Some(extent)),
            _ => cursor.after(self),
        }
    }

    /// Returns the last extent of a fork that begins at or before block `fileoff`.
    ///
    /// # Errors
    /// As [`bmap_lookup`](Self::bmap_lookup).
    pub fn bmap_before(
        &self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
    ) -> Result<Option<Extent>> {
        if !self.has_extents(inode, fork) {
            return Ok(None);
        }
        Cursor::seek(self, inode, fork, fileoff)?.before(self)
    }

    /// Returns the first `count` extents of a fork, or all if there are fewer.
    ///
    /// # Errors
    /// As [`bmap_lookup`](Self::bmap_lookup).
    pub(crate) fn bmap_first(
        &self,
        inode: TxInode,
        fork: Fork,
        count: usize,
    ) -> Result<Vec<Extent>> {
        if !self.has_extents(inode, fork) {
            return Ok(Vec::new());
        }
        cursor::first(self, inode, fork, count)
    }

    /// Returns the first block behind the last extent of a fork.
    ///
    /// # Errors
    /// As [`bmap_lookup`](Self::bmap_lookup).
    pub fn bmap_end(&self, inode: TxInode, fork: Fork) -> Result<FileOff> {
        let last = self.bmap_before(inode, fork, FileOff(u64::MAX))?;
        Ok(last.map_or(FileOff::ZERO, |extent| extent.end()))
    }

    /// Returns true if a fork exists and is in a form with extents.
    fn has_extents(&self, inode: TxInode, fork: Fork) -> bool {
        let core = self.core(inode);
        core.fork(fork).is_some()
            && matches!(core.fork_format(fork), Some(Format::Extents | Format::Btree))
    }

    /// Returns the device ranges of `blocks` blocks of a fork from `start` on, or `None` if there
    /// is a hole. This serves metadata (directories) whose blocks consist of several filesystem
    /// blocks.
    ///
    /// # Errors
    /// As [`bmap_lookup`](Self::bmap_lookup).
    pub fn bmap_buf(
        &self,
        inode: TxInode,
        fork: Fork,
        start: FileOff,
        blocks: u32,
    ) -> Result<Option<BufMap>> {
        let geo = self.volume().geo();
        buf_map(geo, start, blocks, |at| self.bmap_lookup(inode, fork, at))
    }

    /// Returns all extents of a fork. Only for forks that are always short; all others are read by
    /// look-ups.
    ///
    /// # Errors
    /// As [`bmap_lookup`](Self::bmap_lookup).
    pub fn fork_extents(&self, inode: TxInode, fork: Fork) -> Result<ExtentList> {
        let mut extents = Vec::new();
        if self.has_extents(inode, fork) {
            let mut cursor = Cursor::seek(self, inode, fork, FileOff::ZERO)?;
            extents.extend(cursor.before(self)?);
            while let Some(extent) = cursor.after(self)? {
                extents.push(extent);
                cursor.forward(self)?;
            }
        }
        Ok(ExtentList { extents })
    }

    /// Allocates up to `len` contiguous blocks, as near behind `hint` as possible, and maps them at
    /// block `fileoff` of a fork, which must be a hole there. Returns the first block and the
    /// number of blocks. If free space is fragmented they are fewer than `len`, and the caller
    /// repeats the call for the rest.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace),
    /// [`Error::FileTooLarge`](crate::Error::FileTooLarge) if the fork cannot hold more extents.
    pub fn bmap_alloc(
        &mut self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
        len: u32,
        hint: Option<FsBlock>,
    ) -> Result<(FsBlock, ExtLen)> {
        let extent = self.bmap_alloc_as(inode, fork, fileoff, FilBlks(len.into()), hint, false)?;
        Ok((extent.startblock, ExtLen(u32::try_from(extent.blockcount.0).unwrap_or(u32::MAX))))
    }

    /// Allocates and maps blocks for file data, which may be `unwritten`.
    pub(crate) fn bmap_alloc_as(
        &mut self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
        len: FilBlks,
        hint: Option<FsBlock>,
        unwritten: bool,
    ) -> Result<Extent> {
        let near = match hint {
            Some(near) => near,
            None => self.bmap_near(inode, fork, fileoff)?,
        };
        let of = ForkOf { inode, fork };
        let wanted = Extent { startoff: fileoff, startblock: near, blockcount: len, unwritten };
        let extent = blocks::alloc(self, of, &wanted, near)?;
        self.bmap_insert(inode, fork, &extent)?;
        Ok(extent)
    }

    /// Takes the blocks of `extent` out of free space, where they are, and maps them at a hole in
    /// the data fork.
    ///
    /// # Errors
    /// [`Error::Limit`](crate::Error::Limit) if one of them is not free, and those of
    /// [`bmap_alloc`](Self::bmap_alloc).
    pub(crate) fn bmap_reclaim(&mut self, inode: TxInode, extent: &Extent) -> Result<()> {
        blocks::alloc_exactly(self, ForkOf { inode, fork: Fork::Data }, extent)?;
        self.bmap_insert(inode, Fork::Data, extent)
    }

    /// Returns the preferred location for a block of a fork: behind its predecessor in the fork,
    /// else near the inode.
    pub(crate) fn bmap_near(
        &self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
    ) -> Result<FsBlock> {
        let geo = self.volume().geo();
        if let Some(before) = self.bmap_before(inode, fork, fileoff)? {
            let ahead = fileoff.0.saturating_sub(before.startoff.0).min(before.blockcount.0);
            return Ok(before.startblock.saturating_add(ahead));
        }
        let home = geo.ino_split(inode.ino);
        Ok(home.map_or(FsBlock(0), |(agno, agino)| geo.agb_to_fsb(agno, geo.agino_to_agb(agino))))
    }

    /// Unmaps `len` blocks from block `fileoff` of a fork on, as far as they are mapped, and frees
    /// them. The caller has invalidated metadata blocks among them. One call is one transaction's
    /// work: see [`BUNMAP_MAX`] for the number of extents that it should cover.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt),
    /// [`Error::NoSpace`](crate::Error::NoSpace) if an extent is split and the tree must grow.
    pub fn bunmap(
        &mut self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
        len: FilBlks,
    ) -> Result<()> {
        self.unmap(inode, fork, fileoff, len).map(drop)
    }

    /// Unmaps a range in which something is known to be mapped. Loops that end when nothing is left
    /// rely on progress, so an unmap that removes nothing is reported as corruption.
    ///
    /// # Errors
    /// As [`bunmap`](Self::bunmap).
    pub(crate) fn bunmap_some(
        &mut self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
        len: FilBlks,
    ) -> Result<()> {
        let some = self.unmap(inode, fork, fileoff, len)?;
        let ctx = ForkOf { inode, fork }.ctx(self);
        Ok(ctx.require("bmbt.progress", some, "blocks to unmap, as seen before", fileoff)?)
    }

    /// Unmaps and frees; returns true if anything was mapped.
    fn unmap(
        &mut self,
        inode: TxInode,
        fork: Fork,
        fileoff: FileOff,
        len: FilBlks,
    ) -> Result<bool> {
        let of = ForkOf { inode, fork };
        let removed = self.bmap_remove(inode, fork, fileoff, fileoff.saturating_plus(len))?;
        for extent in &removed {
            blocks::free(self, of, extent);
        }
        Ok(!removed.is_empty())
    }

    /// Unmaps all extents in `[start, end)` and returns them. Their reverse mappings still name the
    /// fork.
    pub(crate) fn bmap_remove(
        &mut self,
        inode: TxInode,
        fork: Fork,
        start: FileOff,
        end: FileOff,
    ) -> Result<Vec<Extent>> {
        if !self.has_extents(inode, fork) {
            return Ok(Vec::new());
        }
        if fork == Fork::Attr {
            self.forget_attr_blocks(inode, start..end);
        }
        let removed = map::remove(self, inode, fork, (start, end))?;
        let blocks: u64 = removed.iter().map(|extent| extent.blockcount.0).sum();
        count_blocks(self, inode, -i64::try_from(blocks).unwrap_or(i64::MAX));
        Ok(removed)
    }

    /// Maps an extent whose blocks belong to the fork already, or are given to it by the caller.
    pub(crate) fn bmap_insert(
        &mut self,
        inode: TxInode,
        fork: Fork,
        extent: &Extent,
    ) -> Result<()> {
        if fork == Fork::Attr {
            self.forget_attr_blocks(inode, extent.startoff..extent.end());
        }
        map::insert(self, inode, fork, extent)?;
        count_blocks(self, inode, i64::try_from(extent.blockcount.0).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Unmaps and frees the last extents of a fork, as far as they are at or behind block `from`:
    /// at most `most` of them. Returns true if nothing is left there.
    ///
    /// # Errors
    /// As [`bunmap`](Self::bunmap).
    pub fn bmap_trim(
        &mut self,
        inode: TxInode,
        fork: Fork,
        from: FileOff,
        most: usize,
    ) -> Result<bool> {
        for _ in 0..most {
            let last = self.bmap_before(inode, fork, FileOff(u64::MAX))?;
            let Some(last) = last.filter(|last| last.end() > from) else { return Ok(true) };
            let part = last.clip(from, last.end());
            let len = self.unmap_reach(inode, fork, &part)?;
            let start = part.end().minus(len);
            self.bunmap_some(inode, fork, start, len)?;
            if start > part.startoff {
                return Ok(false);
            }
        }
        let last = self.bmap_before(inode, fork, FileOff(u64::MAX))?;
        Ok(last.is_none_or(|last| last.end() <= from))
    }

    /// Returns how many blocks of a mapped `part`, from either end, one transaction should unmap:
    /// all of them, unless that changes the reference counts of many pieces.
    pub(crate) fn unmap_reach(
        &mut self,
        inode: TxInode,
        fork: Fork,
        part: &Extent,
    ) -> Result<FilBlks> {
        let len = part.blockcount;
        if fork == Fork::Attr || !self.core(inode).is_reflink() {
            return Ok(len);
        }
        let blocks = ExtLen(u32::try_from(len.0).unwrap_or(u32::MAX));
        let whole = self.refcount_reach(part.startblock, blocks)? == blocks;
        Ok(if whole { len } else { len.min(FilBlks(RECORDS_MAX as u64)) })
    }

    /// Converts a mapped part of the data fork from unwritten to written, or back.
    pub(crate) fn bmap_convert(&mut self, inode: TxInode, part: &Extent) -> Result<()> {
        self.bmap_remove(inode, Fork::Data, part.startoff, part.end())?;
        let converted = Extent { unwritten: !part.unwritten, ..*part };
        self.bmap_insert(inode, Fork::Data, &converted)?;
        blocks::convert(self, ForkOf { inode, fork: Fork::Data }, part);
        Ok(())
    }

    /// Replaces the blocks of a mapped part of the data fork by new ones, as many as there are
    /// together, from its first on. Returns the new mapping. The caller copies the data.
    pub(crate) fn bmap_renew(
        &mut self,
        inode: TxInode,
        part: &Extent,
        unwritten: bool,
    ) -> Result<Extent> {
        let of = ForkOf { inode, fork: Fork::Data };
        let most = ExtLen(u32::try_from(part.blockcount.0).unwrap_or(u32::MAX));
        let len = self.refcount_reach(part.startblock, most)?;
        let near = self.bmap_near(inode, Fork::Data, part.startoff)?;
        let wanted = Extent { blockcount: FilBlks(len.0.into()), unwritten, ..*part };
        let new = blocks::alloc(self, of, &wanted, near)?;
        self.bunmap(inode, Fork::Data, new.startoff, new.blockcount)?;
        self.bmap_insert(inode, Fork::Data, &new)?;
        Ok(new)
    }

    /// Maps new blocks that no file maps in the data fork, in place of the present ones.
    pub(crate) fn bmap_replace(&mut self, inode: TxInode, extent: &Extent) -> Result<()> {
        self.bunmap(inode, Fork::Data, extent.startoff, extent.blockcount)?;
        self.bmap_insert(inode, Fork::Data, extent)?;
        blocks::mapped(self, ForkOf { inode, fork: Fork::Data }, extent);
        Ok(())
    }

    /// Maps blocks that another file maps too, at a hole in the data fork.
    pub(crate) fn bmap_share(&mut self, inode: TxInode, extent: &Extent) -> Result<()> {
        self.bmap_insert(inode, Fork::Data, extent)?;
        blocks::share(self, ForkOf { inode, fork: Fork::Data }, extent);
        Ok(())
    }

    /// Returns how many of `len` blocks from `start` on of the data fork one transaction should
    /// unmap: those in no more than [`BUNMAP_MAX`] extents, the last of them as far as
    /// [`unmap_reach`](Self::unmap_reach) goes.
    pub(crate) fn unmap_end(
        &mut self,
        inode: TxInode,
        start: FileOff,
        len: FilBlks,
    ) -> Result<FilBlks> {
        let end = start.saturating_plus(len);
        let mut at = start;
        for _ in 0..BUNMAP_MAX {
            let next = self.bmap_next(inode, Fork::Data, at)?;
            let here = next.filter(|extent| extent.startoff < end && at < end);
            let Some(extent) = here else { return Ok(len) };
            let part = extent.clip(at, end);
            let reach = self.unmap_reach(inode, Fork::Data, &part)?;
            at = part.startoff.saturating_plus(reach);
            if at < part.end() {
                break;
            }
        }
        Ok(at.distance_from(start))
    }

    /// Splits the extent of the data fork that covers the blocks before and behind `at`, if there
    /// is one. The caller moves one of the halves in the same transaction or soon after.
    pub(crate) fn bmap_split(&mut self, inode: TxInode, at: FileOff) -> Result<()> {
        map::split(self, inode, Fork::Data, at)
    }

    /// Moves a whole extent of the data fork to another offset in the file, where there is a hole.
    pub(crate) fn bmap_move(
        &mut self,
        inode: TxInode,
        extent: &Extent,
        startoff: FileOff,
    ) -> Result<()> {
        self.bmap_take(inode, extent.startoff..extent.end())?;
        self.bmap_give(inode, &Extent { startoff, ..*extent })
    }

    /// Unmaps all extents in `range` of the data fork and returns them.
    /// [`bmap_give`](Self::bmap_give) maps them elsewhere in the same transaction.
    pub(crate) fn bmap_take(
        &mut self,
        inode: TxInode,
        range: Range<FileOff>,
    ) -> Result<Vec<Extent>> {
        let taken = self.bmap_remove(inode, Fork::Data, range.start, range.end)?;
        for extent in &taken {
            blocks::unmapped(self, ForkOf { inode, fork: Fork::Data }, extent);
        }
        Ok(taken)
    }

    /// Maps an extent that was taken from another offset or file, at a hole in the data fork.
    pub(crate) fn bmap_give(&mut self, inode: TxInode, extent: &Extent) -> Result<()> {
        self.bmap_insert(inode, Fork::Data, extent)?;
        self.note_remapped(extent.startblock);
        blocks::mapped(self, ForkOf { inode, fork: Fork::Data }, extent);
        Ok(())
    }
}
