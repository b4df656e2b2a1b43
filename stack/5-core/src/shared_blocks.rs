//! The extents of a file, each with whether other files share its blocks: for listings.
//!
//! On a volume that is open for writing a transaction looks the counts up. On others this module
//! reads the refcountbt itself.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::agbtree::Tree;
use xfskit_format::bmbt::Extent;
use xfskit_format::refcount::Rec;
use xfskit_units::{AgNumber, ExtLen, FileOff, Ino};

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

impl Volume {
    /// Returns the extents of one fork of inode `ino`, as they are now: data that is in memory only
    /// is written first. An extent that is shared in part is returned in parts.
    ///
    /// # Errors
    /// [`Error::NoInode`](crate::Error::NoInode), [`Error::Device`](crate::Error::Device),
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn mapped_extents(&self, ino: Ino, fork: Fork) -> Result<Vec<MappedExtent>> {
        if self.space().is_writable() && fork == Fork::Data {
            self.flush_content(ino)?;
        }
        let (extents, reflink) = {
            let _kept = self.share(ino)?;
            let inode = self.iget(ino)?;
            // Which blocks of the realtime device are shared is not read.
            let core = inode.core();
            let reflink = fork == Fork::Data && core.is_reflink() && !core.is_realtime();
            (self.extents(&inode, fork)?, reflink)
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
        let mut found = Vec::new();
        self.space().walk_tree(agno, Tree::Refcount, wanted, &mut |_, block| {
            let end = |rec: &Rec| rec.start().0.saturating_add(rec.len().0);
            let overlaps =
                |rec: &&Rec| !rec.is_cow() && rec.start().0 < wanted.end && end(rec) > wanted.start;
            found.extend(block?.recs::<Rec>().iter().filter(overlaps).copied());
            Ok(())
        })?;
        Ok(found)
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
