//! The extents of a file, each with whether other files share its blocks: for listings.
//!
//! On a volume that is open for writing a transaction looks the counts up. On others this module
//! reads the refcountbt itself.

use std::ops::Range;
use std::sync::Arc;

use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::bmbt::Extent;
use xfskit_format::refcount::Rec;
use xfskit_format::{Ctx, Fork};
use xfskit_trans::Buf;
use xfskit_units::{AgBlock, AgNumber, ExtLen, FileOff, Ino};
use zerocopy::big_endian::U32;

use crate::error::Result;
use crate::volume::Volume;

/// A run of a file's blocks, all of them shared or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedExtent {
    /// The run.
    pub extent: Extent,
    /// Other files, or other offsets of this one, map the same blocks.
    pub shared: bool,
}

/// A block of a refcountbt, and the first record below it; `None` for the root.
#[derive(Clone, Copy, Debug)]
struct TreeBlock {
    agbno: AgBlock,
    first: Option<u32>,
}

impl Volume {
    /// Returns the extents of the data of inode `ino`, as they are now: what is in memory only is
    /// written first. An extent that is shared in part is returned in parts.
    ///
    /// # Errors
    /// [`Error::NoInode`](crate::Error::NoInode), [`Error::Device`](crate::Error::Device),
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn mapped_extents(&self, ino: Ino) -> Result<Vec<MappedExtent>> {
        if self.space().is_writable() {
            self.flush_content(ino)?;
        }
        let (extents, reflink) = {
            let _kept = self.share(ino)?;
            let inode = self.iget(ino)?;
            (self.extents(&inode, Fork::Data)?, inode.core().is_reflink())
        };
        let mut mapped = Vec::new();
        for extent in extents.as_slice() {
            let shared = if reflink { self.shared_parts(extent)? } else { Vec::new() };
            split(extent, &shared, &mut mapped);
        }
        Ok(mapped)
    }

    /// Returns the parts of an extent that are shared, counted from its start, in order.
    fn shared_parts(&self, extent: &Extent) -> Result<Vec<Range<u64>>> {
        if !self.space().is_writable() {
            return self.shared_parts_on_disk(extent);
        }
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < extent.blockcount.0 {
            let start = extent.startblock.saturating_add(done);
            let len = ExtLen(u32::try_from(extent.blockcount.0 - done).unwrap_or(u32::MAX));
            let Some((start, len)) = self.transact(|tx| Ok(tx.find_shared(start, len)?))? else {
                break;
            };
            let first = start.since(extent.startblock).unwrap_or(done);
            done = first + u64::from(len.0);
            parts.push(first..done);
        }
        Ok(parts)
    }

    fn shared_parts_on_disk(&self, extent: &Extent) -> Result<Vec<Range<u64>>> {
        let Some((agno, agbno)) = self.geo().fsb_split(extent.startblock) else {
            return Ok(Vec::new());
        };
        let len = u32::try_from(extent.blockcount.0).unwrap_or(u32::MAX);
        let wanted = agbno.0..agbno.0.saturating_add(len);
        let mut parts: Vec<Range<u64>> = Vec::new();
        for rec in self.refcounts(agno, &wanted)? {
            let (start, end) = (rec.start().0, rec.start().0.saturating_add(rec.len().0));
            let from = |block: u32| u64::from(block.clamp(wanted.start, wanted.end) - agbno.0);
            match parts.last_mut() {
                Some(last) if last.end == from(start) => last.end = from(end),
                _ => parts.push(from(start)..from(end)),
            }
        }
        Ok(parts)
    }

    /// Returns the records of group `agno` of extents that overlap `wanted` and are shared.
    fn refcounts(&self, agno: AgNumber, wanted: &Range<u32>) -> Result<Vec<Rec>> {
        let agf = self.agf(agno)?;
        let root = TreeBlock { agbno: AgBlock(agf.refcntroot.get()), first: None };
        let mut blocks = vec![root];
        for level in (1..agf.refcntlevel.get()).rev() {
            let mut below = Vec::new();
            for node in &blocks {
                self.refcount_children(agno, node, level, wanted, &mut below)?;
            }
            blocks = below;
        }
        let mut found = Vec::new();
        for leaf in &blocks {
            let (buf, ctx) = self.read_refcounts(agno, leaf.agbno)?;
            let block = Block::verify(&buf, &ctx, Tree::Refcount, agno)?;
            ctx.eq(Tree::Refcount.ids().level, 0, block.level)?;
            block.verify_order(&ctx)?;
            let recs = block.recs::<Rec>();
            verify_first(&ctx, leaf, recs.first().map(|rec| rec.startblock))?;
            let end = |rec: &Rec| rec.start().0.saturating_add(rec.len().0);
            let overlaps =
                |rec: &&Rec| !rec.is_cow() && rec.start().0 < wanted.end && end(rec) > wanted.start;
            found.extend(recs.iter().filter(overlaps).copied());
        }
        Ok(found)
    }

    /// Adds the children of a node of `level` that may have records of `wanted`.
    fn refcount_children(
        &self,
        agno: AgNumber,
        node: &TreeBlock,
        level: u32,
        wanted: &Range<u32>,
        children: &mut Vec<TreeBlock>,
    ) -> Result<()> {
        let (buf, ctx) = self.read_refcounts(agno, node.agbno)?;
        let block = Block::verify(&buf, &ctx, Tree::Refcount, agno)?;
        let ids = Tree::Refcount.ids();
        ctx.eq(ids.level, level, block.level.into())?;
        block.verify_order(&ctx)?;
        let keys = block.keys::<U32>();
        verify_first(&ctx, node, keys.first().copied())?;
        for (index, (key, ptr)) in keys.iter().zip(block.ptrs()).enumerate() {
            // The child's records end before the next child's first.
            let end = keys.get(index + 1).map_or(u32::MAX, |next| next.get());
            if key.get() < wanted.end && end > wanted.start {
                ctx.entry(index).agbno(ids.ptr, agno, ptr.get())?;
                let (agbno, first) = (AgBlock(ptr.get()), Some(key.get()));
                children.push(TreeBlock { agbno, first });
            }
        }
        Ok(())
    }

    fn read_refcounts(&self, agno: AgNumber, agbno: AgBlock) -> Result<(Arc<Buf>, Ctx<'_>)> {
        let at = Tree::Refcount.location(self.geo(), agno, agbno);
        let verify =
            |bytes: &[u8], ctx: &Ctx<'_>| Block::verify(bytes, ctx, Tree::Refcount, agno).map(drop);
        Ok((self.read_buf(at, &verify)?, self.ctx(at).crc_known()))
    }
}

/// Fails if a block does not begin with the record that its parent gives. So no block is visited
/// twice: the keys of a node ascend.
fn verify_first(ctx: &Ctx<'_>, block: &TreeBlock, first: Option<U32>) -> Result<()> {
    let key = Tree::Refcount.ids().key;
    match (block.first, first) {
        (Some(expected), Some(found)) => Ok(ctx.eq(key, expected, found.get())?),
        (Some(_), None) => Ok(ctx.require(key, false, "at least one record", 0_u32)?),
        (None, _) => Ok(()),
    }
}

/// Adds `extent` to `mapped`, cut where its `shared` parts begin and end.
fn split(extent: &Extent, shared: &[Range<u64>], mapped: &mut Vec<MappedExtent>) {
    let mut add = |blocks: Range<u64>, shared| {
        if !blocks.is_empty() {
            let at = |block: u64| FileOff(extent.startoff.0.saturating_add(block));
            let extent = extent.clip(at(blocks.start), at(blocks.end));
            mapped.push(MappedExtent { extent, shared });
        }
    };
    let mut done = 0;
    for part in shared {
        add(done..part.start, false);
        add(part.clone(), true);
        done = part.end;
    }
    add(done..extent.blockcount.0, false);
}
