//! Changes of directories in a transaction.
//!
//! The caller holds the directory's inode. Its ILOCK protects all its blocks. This module changes
//! names, and with them the size and form of the fork. The caller sets the directory's times,
//! change count and links.

use std::sync::Arc;

use xfskit_format::dir::data::Data;
use xfskit_format::dir::free::Free;
use xfskit_format::inode::{self, FileType, Format};
use xfskit_format::{Ctx, Expected, Fork, Image, Layout, Location, Value, VerifyResult};
use xfskit_trans::{BufMap, DiskLocation, Handle};
use xfskit_units::{ByteLen, Daddr, FilBlks, FileOff, Geometry, Ino};

use crate::da;
use crate::dir::fork::DirFork;
use crate::dir::names::Names;
use crate::dir_cache::{BlockMapCache, DirCacheEntry};
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method's lifetimes are too narrow"
)]
impl<'v> Tx<'v> {
    fn names<T>(
        &mut self,
        dir: TxInode,
        work: impl FnOnce(&mut Names<'_, TxFork<'_, 'v>>) -> Result<T>,
    ) -> Result<T> {
        self.names_of(dir, false, work)
    }

    /// Works on the names of a directory, which has none yet if `is_new` is set. The first time,
    /// its size is compared with its blocks.
    fn names_of<T>(
        &mut self,
        dir: TxInode,
        is_new: bool,
        work: impl FnOnce(&mut Names<'_, TxFork<'_, 'v>>) -> Result<T>,
    ) -> Result<T> {
        let volume = self.volume();
        let (geo, ino) = (volume.geo(), dir.ino);
        let mut known = volume.dir_cache.take(ino);
        let DirCacheEntry { free_index, block_map, held, is_size_verified } = &mut *known;
        let mut fork = TxFork { tx: self, dir, held, block_map };
        let verified = if is_new || *is_size_verified { Ok(()) } else { fork.verify_size() };
        *is_size_verified = verified.is_ok();
        let result =
            verified.and_then(|()| work(&mut Names { geo, ino, fork: &mut fork, free_index }));
        known.held.clear();
        volume.dir_cache.put(ino, known);
        result
    }

    /// Makes the new inode `dir` an empty directory below `parent`. The caller sets the links: 2,
    /// and one more for `parent`.
    ///
    /// # Errors
    /// None; the result type is that of all operations of directories.
    pub fn dir_init(&mut self, dir: TxInode, parent: Ino) -> Result<()> {
        self.names_of(dir, true, |names| {
            names.init(parent);
            Ok(())
        })
    }

    /// Returns the inode and type of `name`, which may be "." or "..", in the directory `dir`, with
    /// this transaction's changes.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn dir_lookup(&mut self, dir: TxInode, name: &[u8]) -> Result<Option<(Ino, FileType)>> {
        self.names(dir, |names| names.lookup(name))
    }

    /// Adds `name` to the directory `dir`.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoSpace`], [`Error::Full`], [`Error::NameTooLong`] and
    /// [`Error::Limit`] for a name that no directory can hold, and those of
    /// [`dir_lookup`](Self::dir_lookup).
    pub fn dir_create(
        &mut self,
        dir: TxInode,
        name: &[u8],
        ino: Ino,
        ftype: FileType,
    ) -> Result<()> {
        self.names(dir, |names| names.create(name, (ino, ftype)))
    }

    /// Removes `name` from the directory `dir`, and returns its inode and type.
    ///
    /// # Errors
    /// [`Error::NoEntry`], and those of [`dir_lookup`](Self::dir_lookup).
    pub fn dir_remove(&mut self, dir: TxInode, name: &[u8]) -> Result<(Ino, FileType)> {
        self.names(dir, |names| names.remove(name))
    }

    /// Redirects `name` of the directory `dir`, which may be "..", to another inode, and returns
    /// the former one.
    ///
    /// # Errors
    /// [`Error::NoEntry`], and those of [`dir_create`](Self::dir_create).
    pub fn dir_replace(
        &mut self,
        dir: TxInode,
        name: &[u8],
        ino: Ino,
        ftype: FileType,
    ) -> Result<(Ino, FileType)> {
        self.names(dir, |names| names.replace(name, (ino, ftype)))
    }

    /// Returns true if the directory `dir` holds no names but "." and "..".
    ///
    /// # Errors
    /// As [`dir_lookup`](Self::dir_lookup).
    pub fn dir_is_empty(&mut self, dir: TxInode) -> Result<bool> {
        self.names(dir, |names| names.is_empty())
    }

    /// Moves a short-form directory to a block, because attributes need its space in the inode.
    ///
    /// # Errors
    /// As [`dir_create`](Self::dir_create).
    pub fn dir_leave_inode(&mut self, dir: TxInode) -> Result<()> {
        self.names(dir, |names| names.short_to_block())
    }
}

/// A directory's inode and data fork in a transaction.
#[derive(Debug)]
struct TxFork<'t, 'v> {
    tx: &'t mut Tx<'v>,
    dir: TxInode,
    /// Blocks that this operation holds.
    held: &'t mut Vec<(FileOff, Handle)>,
    block_map: &'t mut BlockMapCache,
}

/// Verifies the directory block at `ctx.at.fileoff`.
fn verify(bytes: &[u8], ctx: &Ctx<'_>) -> VerifyResult {
    let at = ctx.at.fileoff.map_or(0, |at| at.0);
    if at < ctx.geo.dir_leafblk().0.into() {
        Data::verify(bytes, ctx, None).map(drop)
    } else if at < ctx.geo.dir_freeblk().0.into() {
        da::verify_any(bytes, ctx, Fork::Data)
    } else {
        Free::verify(bytes, ctx).map(drop)
    }
}

impl<'v> TxFork<'_, 'v> {
    /// Fails if the directory's size is not the end of its last data block. The form, the number of
    /// data blocks and the place of a new one follow from the size, so a change would lose names.
    fn verify_size(&self) -> Result<()> {
        let core = self.tx.core(self.dir);
        if core.fork_format(Fork::Data) == Some(Format::Local) {
            return Ok(());
        }
        let before = FileOff(u64::from(self.geo().dir_leafblk().0) - 1);
        let data = self.tx.bmap_before(self.dir, Fork::Data, before)?;
        let data_end = data.map_or(FileOff::ZERO, |last| last.end());
        let end = self.tx.bmap_end(self.dir, Fork::Data)?;
        let ctx = self.tx.volume().ctx(inode::location(self.geo(), self.dir.ino));
        Ok(super::verify_size(&ctx, core.size(), data_end, end)?)
    }

    fn geo(&self) -> &'v Geometry {
        self.tx.volume().geo()
    }

    fn at(&self, at: FileOff) -> Location {
        Location::of("directory block").ino(self.dir.ino).fork(Fork::Data).fileoff(at)
    }

    /// Returns the device ranges of the block at `at`; `None` if there is none.
    #[inline]
    fn lookup(&mut self, at: FileOff) -> Result<Option<BufMap>> {
        match self.block_map.get(self.geo(), at) {
            Some(block) => {
                let len = ByteLen(self.geo().dirblksize() as u64).sectors();
                Ok(Some(BufMap::single(block.daddr, len)))
            }
            None => self.lookup_new(at),
        }
    }

    /// Looks up a block whose location is not cached.
    fn lookup_new(&mut self, at: FileOff) -> Result<Option<BufMap>> {
        let geo = self.geo();
        let map = self.tx.bmap_buf(self.dir, Fork::Data, at, geo.dirblkfsbs())?;
        let single = map.as_ref().and_then(BufMap::as_single);
        if let Some((daddr, _)) = single.filter(|_| !self.tx.remapped.contains(&self.dir.ino)) {
            self.block_map.set(geo, at, daddr);
        }
        Ok(map)
    }

    /// Looks up a block that must be mapped.
    fn mapped(&mut self, at: FileOff) -> Result<BufMap> {
        self.lookup(at)?.ok_or_else(|| self.missing(at))
    }

    #[cold]
    fn missing(&self, at: FileOff) -> Error {
        let want = Expected::Described("a mapped block".into());
        self.tx.volume().ctx(self.at(at)).corruption("da.map", want, Value::Missing).into()
    }

    /// Records that the map of the fork changes, and that the change may be undone.
    fn remaps(&mut self, at: FileOff) {
        self.block_map.forget(self.geo(), at);
        if !self.tx.remapped.contains(&self.dir.ino) {
            self.tx.remapped.push(self.dir.ino);
        }
    }

    fn held(&self, at: FileOff) -> Option<Handle> {
        self.held.iter().find(|(held, _)| *held == at).map(|(_, handle)| *handle)
    }

    /// Locks the block at `at` to the end of the transaction.
    fn hold(&mut self, at: FileOff) -> Result<Handle> {
        match self.held(at) {
            Some(handle) => Ok(handle),
            None => self.meet(at)?.ok_or_else(|| self.missing(at)),
        }
    }

    /// Locks the block at `at`, which this operation does not hold yet; returns `None` if there is
    /// none.
    fn meet(&mut self, at: FileOff) -> Result<Option<Handle>> {
        let handle = match self.recall(at) {
            Some(handle) => handle,
            None => match self.find(at)? {
                Some(handle) => handle,
                None => return Ok(None),
            },
        };
        self.held.push((at, handle));
        Ok(Some(handle))
    }

    /// Locks the block at `at` if its location is cached, and this transaction or no transaction
    /// holds it.
    #[inline]
    fn recall(&mut self, at: FileOff) -> Option<Handle> {
        let geo = self.geo();
        let block = self.block_map.get(geo, at)?;
        self.tx.try_join((block.daddr, geo.dirblksize()), block.object.as_ref())
    }

    /// Locks the block at `at`, found through the buffer cache.
    fn find(&mut self, at: FileOff) -> Result<Option<Handle>> {
        let Some(map) = self.lookup(at)? else { return Ok(None) };
        let place = self.at(at).daddr(map.first().0, map.sectors());
        let ctx = self.tx.volume().ctx(place);
        let handle = self.tx.read(&map, None, &ctx, &verify)?;
        let object = Arc::downgrade(self.tx.item(handle));
        self.block_map.set_object(self.geo(), at, object);
        Ok(Some(handle))
    }
}

impl DirFork for TxFork<'_, '_> {
    fn short(&self) -> Option<&[u8]> {
        let core = self.tx.core(self.dir);
        if core.fork_format(Fork::Data) != Some(Format::Local) {
            return None;
        }
        let size = usize::try_from(core.size().0).unwrap_or(usize::MAX);
        Some(core.data_fork().get(..size).unwrap_or(&[]))
    }

    fn set_short(&mut self, bytes: &[u8]) {
        let old = self.short().map_or(self.capacity(), <[u8]>::len);
        let start = Layout::V5.inode_core;
        let mut image = self.tx.image(self.dir.handle);
        image.edit(start..start + bytes.len()).copy_from_slice(bytes);
        if old > bytes.len() {
            image.zero(start + bytes.len()..start + old);
        }
        self.tx.set_format(self.dir, Format::Local as u8);
        self.set_size(bytes.len() as u64);
    }

    fn leave_inode(&mut self) {
        let (start, len) = (Layout::V5.inode_core, self.capacity());
        self.tx.image(self.dir.handle).zero(start..start + len);
        self.tx.set_format(self.dir, Format::Extents as u8);
    }

    fn capacity(&self) -> usize {
        self.tx.core(self.dir).data_fork().len()
    }

    fn size(&self) -> u64 {
        self.tx.core(self.dir).size().0
    }

    fn set_size(&mut self, size: u64) {
        self.tx.set_size(self.dir, ByteLen(size));
    }

    fn bytes(&mut self, at: FileOff) -> Result<&[u8]> {
        let handle = self.hold(at)?;
        Ok(self.tx.bytes(handle))
    }

    fn bytes_if_mapped(&mut self, at: FileOff) -> Result<Option<&[u8]>> {
        let handle = match self.held(at) {
            Some(handle) => Some(handle),
            None => self.meet(at)?,
        };
        Ok(handle.map(|handle| self.tx.bytes(handle)))
    }

    fn image(&mut self, at: FileOff) -> Result<impl Image + '_> {
        let handle = self.hold(at)?;
        Ok(self.tx.image(handle))
    }

    fn is_mapped(&mut self, at: FileOff) -> Result<bool> {
        Ok(self.held(at).is_some() || self.lookup(at)?.is_some())
    }

    fn daddr(&mut self, at: FileOff) -> Result<Daddr> {
        let handle = self.hold(at)?;
        match self.tx.item(handle).location() {
            DiskLocation::Block(map) => Ok(map.first().0),
            DiskLocation::Inode { cluster: (daddr, _), .. } => Ok(*daddr),
        }
    }

    fn end(&mut self) -> Result<FileOff> {
        self.tx.bmap_end(self.dir, Fork::Data)
    }

    fn map(&mut self, at: FileOff) -> Result<()> {
        let blocks = self.geo().dirblkfsbs();
        self.remaps(at);
        let ctx = self.tx.volume().ctx(self.at(at));
        ctx.require("da.map", self.lookup(at)?.is_none(), "a hole", "a block")?;
        let (mut next, end) = (at, at.saturating_add(blocks.into()));
        while let Some(left) = end.since(next).filter(|left| *left > 0) {
            let left = u32::try_from(left).unwrap_or(blocks);
            let (_, len) = self.tx.bmap_alloc(self.dir, Fork::Data, next, left, None)?;
            next = next.saturating_add(len.0.into());
        }
        let map = self.mapped(at)?;
        let handle = self.tx.fresh(&map)?;
        self.held.push((at, handle));
        Ok(())
    }

    fn unmap(&mut self, at: FileOff) -> Result<()> {
        if let Some(handle) = self.held(at) {
            self.tx.invalidate(handle);
        } else {
            let map = self.mapped(at)?;
            self.tx.invalidate_at(&map)?;
        }
        self.held.retain(|(held, _)| *held != at);
        self.remaps(at);
        self.tx.bunmap(self.dir, Fork::Data, at, FilBlks(self.geo().dirblkfsbs().into()))
    }
}
