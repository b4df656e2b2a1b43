//! Staging extents: blocks that were allocated beside copies of shared blocks, for later writes in
//! the same unit.
//!
//! On a file with a hint for copies on write (`cowextsize`), a write to a shared block allocates
//! whole units of that hint. The written block is mapped at once. The rest of the unit is staged:
//! allocated and recorded in the refcountbt, but owned by no file. A later write to a staged range
//! uses the staged blocks, so that a unit written in small pieces ends as one extent, as with
//! Linux. Unused staging extents are freed when the last handle is closed, and when the volume runs
//! full. After a crash, the next open of the volume frees them.

use std::ops::Range;
use std::sync::atomic::Ordering;

use xfskit_format::Fork;
use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_format::inode::InodeFlags2;
use xfskit_space::{AllocRequest, BlockReservation, Deferred, Owner};
use xfskit_units::{ExtLen, FilBlks, FileOff, PositionRange};

use super::hint::window;
use crate::error::Result;
use crate::open_files::{END_MAX, Staged, State};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Maximum number of staged extents of one file. Above it, all of them are freed.
const MOST: usize = 1024;
/// Number of staged extents that one transaction frees.
const FREED_AT_ONCE: usize = 16;

/// The changes that one transaction makes to the staged extents. [`State::apply_staged`] applies
/// them after the commit.
#[derive(Debug)]
pub(super) struct Staging<'v> {
    vol: &'v Volume,
    added: Vec<Extent>,
    taken: Vec<Range<FileOff>>,
    /// Blocks that stay reserved until then.
    reservations: Vec<BlockReservation<'v>>,
}

impl State {
    /// Applies the changes of a committed transaction to the staged extents.
    pub(super) fn apply_staged(&mut self, vol: &Volume, done: Staging<'_>) {
        let before = self.staged.extents.len();
        done.added.into_iter().for_each(|extent| self.staged.add(extent));
        done.taken.iter().for_each(|range| self.staged.take(range));
        vol.contents.staged.fetch_add(self.staged.extents.len(), Ordering::Relaxed);
        vol.contents.staged.fetch_sub(before, Ordering::Relaxed);
    }

    /// Frees all staged extents.
    ///
    /// # Errors
    /// Those of a transaction: the extents that it would have freed stay staged.
    pub(super) fn unstage(&mut self, vol: &Volume) -> Result<()> {
        while !self.staged.is_empty() {
            let some: Vec<_> = self.staged.extents.values().take(FREED_AT_ONCE).copied().collect();
            vol.transact(|tx| {
                for extent in &some {
                    let (start, len) = place(extent);
                    tx.defer(Deferred::CowFree { start, len });
                    tx.defer(Deferred::Free { start, len, owner: Owner::Unmapped });
                }
                Ok(())
            })?;
            let taken = some.iter().map(|extent| extent.startoff..extent.end()).collect();
            self.apply_staged(vol, Staging { taken, ..Staging::new(vol) });
        }
        Ok(())
    }

    /// Frees the staged extents if there are too many.
    pub(super) fn bound_staged(&mut self, vol: &Volume) -> Result<()> {
        if self.staged.extents.len() > MOST { self.unstage(vol) } else { Ok(()) }
    }
}

impl<'v> Staging<'v> {
    pub(super) fn new(vol: &'v Volume) -> Self {
        Self { vol, added: Vec::new(), taken: Vec::new(), reservations: Vec::new() }
    }

    /// Holds a reservation until the transaction has committed.
    pub(super) fn keep(&mut self, reservation: BlockReservation<'v>) {
        self.reservations.push(reservation);
    }

    /// Redirects a write of the first blocks of `range` to the blocks that are staged there, if
    /// any. Those are mapped in place of the former blocks. Returns the new mapping.
    pub(super) fn replace(
        &mut self,
        tx: &mut Tx<'_>,
        inode: TxInode,
        staged: &Staged,
        range: &Range<FileOff>,
    ) -> Result<Option<Extent>> {
        let added =
            self.added.iter().find(|extent| (extent.startoff..extent.end()).contains(&range.start));
        let Some(whole) = added.copied().or_else(|| staged.covering(range.start)) else {
            return Ok(None);
        };
        let part = whole.clip(range.start, range.end);
        let extent = replaceable(tx, inode, &part)?;
        let (start, len) = place(&extent);
        tx.defer(Deferred::CowForget { start, len });
        // Before they are mapped for the file, because no two owners may have them at a time.
        tx.defer(Deferred::RmapUnmap { start, len, owner: Owner::Cow });
        tx.bmap_replace(inode, &extent)?;
        self.taken.push(extent.startoff..extent.end());
        Ok(Some(extent))
    }

    /// Returns the start of the next staged extent behind block `at`.
    pub(super) fn next(&self, staged: &Staged, at: FileOff) -> FileOff {
        let known = staged.extents.range(at..).next().map_or(FileOff::MAX, |(&start, _)| start);
        let starts = self.added.iter().map(|extent| extent.startoff);
        starts.filter(|&start| start > at).fold(known, FileOff::min)
    }

    /// Gives the first of the shared blocks of `range` blocks of their own, and stages the rest of
    /// the unit that the file's hint asks for. Returns `None` without a hint, and if there is no
    /// space for more than `range`.
    pub(super) fn renew(
        &mut self,
        tx: &mut Tx<'_>,
        inode: TxInode,
        staged: &Staged,
        range: &Range<FileOff>,
    ) -> Result<Option<Extent>> {
        let whole = self.unit(tx, inode, staged, range);
        let more = whole.length().minus(range.length());
        if more.is_zero() {
            return Ok(None);
        }
        let reservation = self.vol.space().reserve_blocks(more.plus(self.vol.nodes_for(2)).0)?;
        let Some(reservation) = reservation else { return Ok(None) };
        let most = u32::try_from(whole.length().0.min(MAX_BLOCKCOUNT)).unwrap_or(u32::MAX);
        let near = tx.bmap_near(inode, Fork::Data, whole.start)?;
        let (startblock, len) =
            tx.alloc_extent(&AllocRequest::between(1, most, near, Owner::Unmapped))?;
        let (startoff, blockcount) = (whole.start, FilBlks(len.0.into()));
        let got = Extent { startoff, startblock, blockcount, unwritten: false };
        self.keep(reservation);
        let Range { start, end } = *range;
        if got.end() <= start {
            self.stage(tx, got);
            return Ok(None);
        }
        let extent = replaceable(tx, inode, &got.clip(start, end))?;
        tx.bmap_replace(inode, &extent)?;
        self.stage(tx, got.clip(startoff, start));
        self.stage(tx, got.clip(extent.end(), got.end()));
        Ok(Some(extent))
    }

    /// Returns the blocks that a file's hint asks for around `range`, with nothing staged among
    /// them.
    fn unit(
        &self,
        tx: &Tx<'_>,
        inode: TxInode,
        staged: &Staged,
        range: &Range<FileOff>,
    ) -> Range<FileOff> {
        let core = tx.core(inode);
        let hinted = core.flags2().contains(InodeFlags2::COWEXTSIZE);
        let unit = FilBlks(if hinted { core.cowextsize().0.into() } else { 0 });
        let mut gap = staged.gap(range.start);
        for extent in &self.added {
            if extent.end() <= range.start {
                gap.start = gap.start.max(extent.end());
            } else {
                gap.end = gap.end.min(extent.startoff);
            }
        }
        gap.end = gap.end.min(self.vol.geo().byte_to_fileoff(END_MAX)).max(range.end);
        window(&gap, range, unit)
    }

    /// Stages new blocks that no file maps.
    fn stage(&mut self, tx: &mut Tx<'_>, extent: Extent) {
        if extent.blockcount.0 > 0 {
            let (start, len) = place(&extent);
            tx.defer(Deferred::RmapMap { start, len, owner: Owner::Cow });
            tx.defer(Deferred::CowAlloc { start, len });
            self.added.push(extent);
        }
    }
}

/// Returns the first blocks of `extent`, as many as one transaction should map in place of the
/// present ones.
fn replaceable(tx: &mut Tx<'_>, inode: TxInode, extent: &Extent) -> Result<Extent> {
    let len = tx.unmap_end(inode, extent.startoff, extent.blockcount)?;
    Ok(extent.clip(extent.startoff, extent.startoff.saturating_plus(len)))
}

/// Returns the location of an extent on the volume.
fn place(extent: &Extent) -> (xfskit_units::FsBlock, ExtLen) {
    (extent.startblock, ExtLen(u32::try_from(extent.blockcount.0).unwrap_or(u32::MAX)))
}
