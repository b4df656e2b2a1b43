//! The blocks of a fork in a transaction: looked up by their place in the fork, held once asked for.

use xfskit_format::{Ctx, Expected, Fork, Image, Location, Value, da};
use xfskit_trans::{BufMap, Handle};
use xfskit_units::{DaBlock, Daddr, FileOff, FsBlock, Sectors};

use crate::da::tree::DaBlocks;
use crate::da::verify_any;
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Extents that the search for a hole in a fork looks at; behind that the end of the fork is good enough.
const HOLE_SEARCH: usize = 64;

/// The tree blocks of one fork of an inode, in a transaction.
#[derive(Debug)]
pub(crate) struct TxBlocks<'x, 'v> {
    pub(crate) tx: &'x mut Tx<'v>,
    pub(crate) inode: TxInode,
    fork: Fork,
    held: Vec<(DaBlock, Handle)>,
}

impl<'x, 'v> TxBlocks<'x, 'v> {
    /// The tree of this fork.
    pub(crate) fn new(tx: &'x mut Tx<'v>, inode: TxInode, fork: Fork) -> Self {
        Self { tx, inode, fork, held: Vec::with_capacity(8) }
    }

    /// Filesystem blocks of one block of the tree.
    fn unit(&self) -> u32 {
        match self.fork {
            Fork::Data => self.tx.volume().geo().dirblkfsbs(),
            Fork::Attr => 1,
        }
    }

    /// Where block `dablk` lies.
    fn place(&self, dablk: DaBlock) -> Result<(BufMap, Location)> {
        let what = if self.fork == Fork::Data { "directory tree" } else { "attribute tree" };
        let at = Location::of(what).ino(self.inode.ino).fork(self.fork);
        let at = at.fileoff(FileOff(dablk.0.into()));
        let fileoff = FileOff(dablk.0.into());
        let Some(map) = self.tx.bmap_buf(self.inode, self.fork, fileoff, self.unit())? else {
            let want = Expected::Described("a mapped block".into());
            return Err(self.tx.volume().ctx(at).fault("da.map", want, Value::Missing).into());
        };
        let (daddr, _) = map.first();
        let at = at.daddr(daddr, Sectors(map.byte_len() as u64 / 512));
        Ok((map, at))
    }

    /// Block `dablk`, held.
    pub(crate) fn handle(&mut self, dablk: DaBlock) -> Result<Handle> {
        if let Some((_, handle)) = self.held.iter().find(|(held, _)| *held == dablk) {
            return Ok(*handle);
        }
        let (map, at) = self.place(dablk)?;
        let fork = self.fork;
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| verify_any(bytes, ctx, fork);
        let ctx = self.tx.volume().ctx(at);
        let handle = self.tx.read(&map, None, &ctx, &verify)?;
        self.held.push((dablk, handle));
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
        Ok(self.place(dablk)?.0.first().0)
    }

    fn grow(&mut self) -> Result<DaBlock> {
        let unit = self.unit();
        let first = da::root(self.tx.volume().geo(), self.fork);
        let dablk = self.tx.find_hole(self.inode, self.fork, first, unit)?;
        self.tx.alloc_at(self.inode, self.fork, dablk, unit)?;
        let (map, _) = self.place(dablk)?;
        let handle = self.tx.fresh(&map)?;
        self.held.push((dablk, handle));
        Ok(dablk)
    }

    fn shrink(&mut self, dablk: DaBlock) -> Result<()> {
        let handle = self.handle(dablk)?;
        self.tx.invalidate(handle);
        self.held.retain(|(held, _)| *held != dablk);
        self.tx.bunmap(self.inode, self.fork, FileOff(dablk.0.into()), self.unit().into())
    }
}

impl Tx<'_> {
    /// Block numbers from `first` on where a fork has a hole of `len` blocks, a multiple of `len` behind
    /// `first`.
    pub(crate) fn find_hole(
        &self,
        inode: TxInode,
        fork: Fork,
        first: DaBlock,
        len: u32,
    ) -> Result<DaBlock> {
        let limit = match fork {
            Fork::Data => u64::from(self.volume().geo().dir_freeblk().0),
            Fork::Attr => u64::from(u32::MAX),
        };
        let step = u64::from(self.step(fork));
        let mut at = u64::from(first.0);
        let mut looks = 0;
        while let Some(extent) = self.bmap_next(inode, fork, FileOff(at))? {
            if extent.startoff.0 >= at.saturating_add(len.into()) || extent.startoff.0 >= limit {
                break;
            }
            at = extent.end().0.next_multiple_of(step);
            looks += 1;
            if looks == HOLE_SEARCH && fork == Fork::Attr {
                at = self.bmap_end(inode, fork)?.0;
            }
        }
        match u32::try_from(at) {
            Ok(dablk) if at.saturating_add(len.into()) <= limit => Ok(DaBlock(dablk)),
            _ => Err(Error::Limit("the address space of the hash tree is full")),
        }
    }

    /// Blocks of a fork's tree begin at multiples of this many.
    fn step(&self, fork: Fork) -> u32 {
        match fork {
            Fork::Data => self.volume().geo().dirblkfsbs(),
            Fork::Attr => 1,
        }
    }

    /// Allocates `len` blocks, in as many pieces as it takes, and maps them at block `dablk` of a fork.
    pub(crate) fn alloc_at(
        &mut self,
        inode: TxInode,
        fork: Fork,
        dablk: DaBlock,
        len: u32,
    ) -> Result<()> {
        let mut hint = self.behind(inode, fork, dablk)?;
        let mut done = 0;
        while done < len {
            let fileoff = FileOff(u64::from(dablk.0).saturating_add(done.into()));
            let (start, got) = self.bmap_alloc(inode, fork, fileoff, len - done, hint)?;
            hint = start.checked_add(got.0.into());
            done = done.saturating_add(got.0.max(1));
        }
        Ok(())
    }

    /// The block of the volume behind the one that lies before `dablk` in the fork.
    fn behind(&self, inode: TxInode, fork: Fork, dablk: DaBlock) -> Result<Option<FsBlock>> {
        let Some(before) = dablk.checked_sub(1) else { return Ok(None) };
        let before = FileOff(before.0.into());
        let extent = self.bmap_lookup(inode, fork, before)?;
        Ok(extent.and_then(|e| e.block_at(before)).and_then(|block| block.checked_add(1)))
    }
}
