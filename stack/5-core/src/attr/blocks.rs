//! The blocks of an attribute fork in a transaction: looked up by their offset in the fork, and
//! locked at first use.

use std::ops::Range;
use std::sync::Arc;

use xfskit_format::bmbt::Extent;
use xfskit_format::{Ctx, Expected, Fork, Image, Location, Value};
use xfskit_trans::{BufMap, Handle};
use xfskit_units::{DaBlock, Daddr, FilBlks, FileOff, Sectors};

use crate::attr_map::AttrMap;
use crate::bmap::buf_map;
use crate::da::tree::DaBlocks;
use crate::da::verify_any;
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Maximum number of extents examined in the search for a hole in a fork. Otherwise the end of the
/// fork is used.
const HOLE_SEARCH: usize = 64;

/// The tree blocks of an inode's attribute fork, in a transaction.
#[derive(Debug)]
pub(super) struct TxBlocks<'x, 'v> {
    tx: &'x mut Tx<'v>,
    inode: TxInode,
}

impl<'x, 'v> TxBlocks<'x, 'v> {
    pub(super) fn new(tx: &'x mut Tx<'v>, inode: TxInode) -> Self {
        Self { tx, inode }
    }

    fn map(&mut self) -> &mut AttrMap {
        self.tx.attr_map.of(self.inode.ino)
    }

    /// Returns the location of block `dablk`, and its name for errors.
    fn block(&mut self, dablk: DaBlock) -> Result<(BufMap, Location)> {
        let fileoff = FileOff(dablk.0.into());
        let covers = |extent: &Extent| extent.block_at(fileoff).is_some();
        let mut extent = self.map().extent.filter(covers);
        if extent.is_none() {
            extent = self.tx.bmap_lookup(self.inode, Fork::Attr, fileoff)?;
            self.map().extent = extent;
        }
        let map = buf_map(self.tx.volume().geo(), fileoff, 1, |_| Ok(extent))?;
        self.tx.attr_block_at(self.inode, dablk, "attribute tree", map)
    }

    /// Locks block `dablk`.
    fn handle(&mut self, dablk: DaBlock) -> Result<Handle> {
        if let Some((_, handle)) = self.map().held.iter().find(|(held, _)| *held == dablk) {
            return Ok(*handle);
        }
        let handle = match self.recall(dablk) {
            Some(handle) => handle,
            None => self.read(dablk)?,
        };
        self.map().held.push((dablk, handle));
        Ok(handle)
    }

    /// Locks block `dablk` if its location is known, and this transaction or no transaction holds
    /// it.
    fn recall(&mut self, dablk: DaBlock) -> Option<Handle> {
        let len = self.tx.volume().geo().blocksize();
        let (map, trans) = self.tx.attr_map_of(self.inode.ino);
        let block = map.get(dablk)?;
        trans.try_join((block.daddr, len), block.object.as_ref())
    }

    /// Locks block `dablk`, found through the map of the fork and the buffer cache.
    fn read(&mut self, dablk: DaBlock) -> Result<Handle> {
        let (map, at) = self.block(dablk)?;
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| verify_any(bytes, ctx, Fork::Attr);
        let ctx = self.tx.volume().ctx(at);
        let handle = self.tx.read(&map, None, &ctx, &verify)?;
        if !self.tx.remapped.contains(&self.inode.ino) {
            let object = Arc::downgrade(self.tx.item(handle));
            self.map().set(dablk, map.first().0, object);
        }
        Ok(handle)
    }
}

impl DaBlocks for TxBlocks<'_, '_> {
    fn bytes(&mut self, dablk: DaBlock) -> Result<&[u8]> {
        let handle = self.handle(dablk)?;
        Ok(self.tx.bytes(handle))
    }

    fn image(&mut self, dablk: DaBlock) -> Result<impl Image + '_> {
        let handle = self.handle(dablk)?;
        Ok(self.tx.image(handle))
    }

    fn daddr(&mut self, dablk: DaBlock) -> Result<Daddr> {
        Ok(self.block(dablk)?.0.first().0)
    }

    fn grow(&mut self) -> Result<DaBlock> {
        let dablk = self.tx.grow_attr_fork(self.inode, 1)?;
        let (map, _) = self.block(dablk)?;
        let handle = self.tx.fresh(&map)?;
        self.map().held.push((dablk, handle));
        Ok(dablk)
    }

    fn shrink(&mut self, dablk: DaBlock) -> Result<()> {
        let handle = self.handle(dablk)?;
        self.tx.invalidate(handle);
        self.tx.bunmap(self.inode, Fork::Attr, FileOff(dablk.0.into()), FilBlks(1))
    }
}

impl Tx<'_> {
    /// Forgets what is known of blocks of an attribute fork whose map changes, and may be undone.
    pub(crate) fn forget_attr_blocks(&mut self, inode: TxInode, blocks: Range<FileOff>) {
        self.attr_map.of(inode.ino).forget(blocks.start.0..blocks.end.0);
        if !self.remapped.contains(&inode.ino) {
            self.remapped.push(inode.ino);
        }
    }

    /// Returns the location of block `dablk` of an attribute fork, and its name for errors.
    pub(super) fn attr_block(
        &self,
        inode: TxInode,
        dablk: DaBlock,
        what: &'static str,
    ) -> Result<(BufMap, Location)> {
        let map = self.bmap_buf(inode, Fork::Attr, FileOff(dablk.0.into()), 1)?;
        self.attr_block_at(inode, dablk, what, map)
    }

    /// Returns the location of block `dablk` at `map`, and its name for errors. Fails if there is
    /// no such block.
    fn attr_block_at(
        &self,
        inode: TxInode,
        dablk: DaBlock,
        what: &'static str,
        map: Option<BufMap>,
    ) -> Result<(BufMap, Location)> {
        let fileoff = FileOff(dablk.0.into());
        let at = Location::of(what).ino(inode.ino).fork(Fork::Attr).fileoff(fileoff);
        let Some(map) = map else {
            let want = Expected::Described("a mapped block".into());
            return Err(self.volume().ctx(at).corruption("da.map", want, Value::Missing).into());
        };
        let (daddr, len) = map.first();
        let at = at.daddr(daddr, Sectors(len.0));
        Ok((map, at))
    }

    /// Allocates `len` blocks, in as many pieces as necessary, and maps them at the first hole of
    /// an attribute fork that holds them. Returns the first one.
    pub(super) fn grow_attr_fork(&mut self, inode: TxInode, len: u32) -> Result<DaBlock> {
        let dablk = self.find_hole(inode, len)?;
        let mut done = 0;
        while done < len {
            let fileoff = FileOff(u64::from(dablk.0).saturating_add(done.into()));
            let (_, got) = self.bmap_alloc(inode, Fork::Attr, fileoff, len - done, None)?;
            done = done.saturating_add(got.0.max(1));
        }
        Ok(dablk)
    }

    fn find_hole(&self, inode: TxInode, len: u32) -> Result<DaBlock> {
        let first = self.bmap_first(inode, Fork::Attr, HOLE_SEARCH)?;
        let mut at = 0u64;
        let mut found = false;
        for extent in &first {
            found = extent.startoff.0 >= at.saturating_add(len.into());
            if found {
                break;
            }
            at = extent.end().0;
        }
        if !found && first.len() == HOLE_SEARCH {
            at = self.bmap_end(inode, Fork::Attr)?.0;
        }
        match u32::try_from(at) {
            Ok(dablk) if dablk.checked_add(len).is_some() => Ok(DaBlock(dablk)),
            _ => Err(Error::Full("the attribute fork reaches the end of its address space")),
        }
    }
}
