//! Flushing: allocates blocks for data in memory and writes the data to them.
//! [`content`](super::content) describes the order.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::InodeFlags;
use xfskit_format::timestamp::Timestamp;
use xfskit_trans::DataTicket;
use xfskit_units::{ByteLen, FilBlks, FileOff, PositionRange};

use super::hint;
use super::staging::Staging;
use crate::bmap::BUNMAP_MAX;
use crate::error::Result;
use crate::icore::Touch;
use crate::open_files::{Content, Dirty, Staged, State};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Least and most data that is written behind at once.
const BEHIND_MIN: ByteLen = ByteLen(8 << 20);
const BEHIND_MAX: ByteLen = ByteLen(32 << 20);

impl Content {
    /// Writes the data in memory. Afterwards all of it has been sent to the device. It is durable
    /// with the next checkpoint.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt): data
    /// that could not be written stays in memory. Its blocks were reserved, so space does not run
    /// out.
    pub fn flush(&self, vol: &Volume) -> Result<()> {
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// As [`flush`](Self::flush), and errors of writing the journal.
    pub fn fsync(&self, vol: &Volume) -> Result<()> {
        self.flush(vol)?;
        vol.force(self.ino())
    }

    /// Writes the first data in memory, while other threads write elsewhere in the file. Returns
    /// false if another thread does so, if another operation waits, or if there is too little.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub(super) fn write_behind(&self, vol: &Volume) -> Result<bool> {
        let geo = vol.geo();
        let Some(mut state) = self.state.write_to_write_behind() else { return Ok(false) };
        let Some(first) = state.dirty.first() else { return Ok(false) };
        if geo.filblks_to_bytes(first.length()) < BEHIND_MIN {
            return Ok(false);
        }
        let most = FilBlks(BEHIND_MAX.0 >> geo.blocklog);
        let blocks = first.start..first.end.min(first.start.plus(most));
        let (extents, ticket) = match self.place(vol, &mut state, blocks.clone())? {
            Placed::Here(extents, ticket) => (extents, ticket),
            Placed::MustWait(checkpoint) => {
                vol.engine()?.force(checkpoint)?;
                return Ok(true);
            }
        };
        let placed = blocks.start..extents.last().map_or(blocks.start, Extent::end);
        let data = state.dirty.take(&placed);
        state.behind = Some(placed);
        drop(state);
        let written = self.write_out(vol, &data, &extents, ticket);
        self.state.end_behind(|state| {
            let bytes = geo.filblks_to_bytes(data.blocks());
            match written {
                Ok(()) => vol.forget_dirty(state, bytes),
                Err(_) => state.dirty.put_back(data),
            }
        });
        written.map(|()| true)
    }

    /// Writes data to its blocks, and lets the checkpoint go on that `ticket` holds.
    fn write_out(
        &self,
        vol: &Volume,
        data: &Dirty,
        extents: &[Extent],
        ticket: DataTicket,
    ) -> Result<()> {
        let written = write_extents(vol, data, extents);
        if let Err(error) = &written {
            vol.engine()?.shut_down(&format!("content of inode {}: {error}", self.ino()));
        }
        drop(ticket);
        written
    }

    pub(super) fn flush_state(&self, vol: &Volume, state: &mut State) -> Result<()> {
        while let Some(blocks) = state.dirty.first() {
            let (extents, ticket) = match self.place(vol, state, blocks)? {
                Placed::Here(extents, ticket) => (extents, ticket),
                Placed::MustWait(checkpoint) => {
                    vol.engine()?.force(checkpoint)?;
                    continue;
                }
            };
            self.write_out(vol, &state.dirty, &extents, ticket)?;
            for extent in extents {
                vol.drop_dirty(state, &(extent.startoff..extent.end()));
            }
        }
        if state.resized || state.written.is_some() {
            let (size, written) = (state.size, state.written);
            vol.transact(|tx| {
                let inode = tx.iget(self.ino())?;
                tx.set_size(inode, size);
                touch_written(tx, inode, written);
                Ok(())
            })?;
            state.resized = false;
            state.written = None;
        }
        // Reserved blocks that were not needed.
        vol.drop_dirty(state, &(FileOff::ZERO..FileOff::ZERO));
        state.bound_staged(vol)
    }

    /// Allocates blocks for the first of `blocks`, as many as one transaction should take.
    fn place(&self, vol: &Volume, state: &mut State, blocks: Range<FileOff>) -> Result<Placed> {
        let (size, written) = (state.size, state.written);
        let (placed, staging) = vol.transact_reserved(|tx| {
            let inode = tx.iget(self.ino())?;
            let mut placing = Placing::new(vol, self, &state.staged);
            let (mut extents, mut at) = (Vec::new(), blocks.start);
            while at < blocks.end && extents.len() < BUNMAP_MAX {
                match placing.next(tx, inode, at..blocks.end)? {
                    Ok(extent) => {
                        at = extent.end();
                        extents.push(extent);
                    }
                    Err(checkpoint) if extents.is_empty() => {
                        return Ok((Placed::MustWait(checkpoint), placing.staging));
                    }
                    Err(_) => break,
                }
            }
            // The inode is logged even if nothing of it changes, because a thread that forces it
            // waits for this data.
            let reached = ByteLen(vol.geo().fileoff_to_byte(at).0);
            tx.set_size(inode, size.min(reached).max(tx.core(inode).size()));
            touch_written(tx, inode, written);
            Ok((Placed::Here(extents, tx.data_ticket()), placing.staging))
        })?;
        state.apply_staged(vol, staging);
        if matches!(placed, Placed::Here(..)) {
            state.written = None;
        }
        Ok(placed)
    }

    /// Frees blocks that hints had allocated for writes that did not come: behind the end of the
    /// file, and staged.
    pub(super) fn trim(&self, vol: &Volume) -> Result<()> {
        let mut state = self.state.write();
        state.unstage(vol)?;
        if self.extsize.is_zero() {
            return Ok(());
        }
        let kept = vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            Ok(tx.core(inode).flags().contains(InodeFlags::PREALLOC))
        })?;
        let end = vol.geo().byte_to_fileoff_ceil(state.end());
        if kept { Ok(()) } else { self.free_from(vol, end) }
    }
}

/// The target of a write of file data.
enum Placed {
    /// Write into these extents, before the ticket is dropped.
    Here(Vec<Extent>, DataTicket),
    /// Write in place once this checkpoint is durable. Until then a crash gives the blocks back to
    /// another file, or to another offset.
    MustWait(u64),
}

fn touch_written(tx: &mut Tx<'_>, inode: TxInode, written: Option<Timestamp>) {
    if let Some(now) = written {
        tx.touch(inode, Touch::CONTENT, now);
    }
}

/// Allocation for a file's data in memory, in one transaction.
struct Placing<'v, 's> {
    vol: &'v Volume,
    extsize: FilBlks,
    staged: &'s Staged,
    staging: Staging<'v>,
}

impl<'v, 's> Placing<'v, 's> {
    fn new(vol: &'v Volume, content: &Content, staged: &'s Staged) -> Self {
        Self { vol, extsize: content.extsize, staged, staging: Staging::new(vol) }
    }

    /// Allocates the first of the blocks of `range`, and returns their extents, marked as written.
    /// Otherwise returns the checkpoint that must be durable first.
    fn next(
        &mut self,
        tx: &mut Tx<'_>,
        inode: TxInode,
        range: Range<FileOff>,
    ) -> Result<std::result::Result<Extent, u64>> {
        if let Some(extent) = self.staging.replace(tx, inode, self.staged, &range)? {
            return Ok(Ok(extent));
        }
        let Range { start, end } = range;
        let end = self.staging.next(self.staged, start).min(end);
        let next = tx.bmap_next(inode, Fork::Data, start)?;
        let Some(extent) = next.filter(|extent| extent.startoff <= start) else {
            let end = next.map_or(end, |extent| extent.startoff.min(end));
            return self.fill(tx, inode, start..end).map(Ok);
        };
        let mut part = extent.clip(start, end);
        match tx.bmap_shared(inode, &part)? {
            Some(shared) if shared.startoff == start => {
                return self.renew(tx, inode, &shared).map(Ok);
            }
            Some(shared) => part = part.clip(start, shared.startoff),
            None => {}
        }
        if part.unwritten {
            tx.bmap_convert(inode, &part)?;
        } else if let Some(checkpoint) = tx.engine().remapped_in(part.startblock) {
            return Ok(Err(checkpoint));
        }
        Ok(Ok(part))
    }

    /// Allocates the first of `blocks`, which are a hole.
    fn fill(&mut self, tx: &mut Tx<'_>, inode: TxInode, blocks: Range<FileOff>) -> Result<Extent> {
        let hinted = hint::alloc(self.vol, tx, inode, blocks.clone(), self.extsize)?;
        let Range { start, end } = blocks;
        if let Some((got, reservation)) = hinted {
            self.staging.keep(reservation);
            if got.end() > start {
                let part = got.clip(start, end);
                tx.bmap_convert(inode, &part)?;
                return Ok(Extent { unwritten: false, ..part });
            }
        }
        tx.bmap_alloc_as(inode, Fork::Data, start, end.distance_from(start), None, false)
    }

    /// Replaces the first of the shared blocks by new ones that belong to this file alone.
    fn renew(&mut self, tx: &mut Tx<'_>, inode: TxInode, shared: &Extent) -> Result<Extent> {
        let range = shared.startoff..shared.end();
        match self.staging.renew(tx, inode, self.staged, &range)? {
            Some(extent) => Ok(extent),
            None => tx.bmap_renew(inode, shared, false),
        }
    }
}

/// Writes the data of `extents` from memory.
fn write_extents(vol: &Volume, data: &Dirty, extents: &[Extent]) -> Result<()> {
    let mut batch = Vec::new();
    for extent in extents {
        let start = vol.byte_of_block(extent.startblock)?;
        for (block, part) in data.parts(extent.startoff..extent.end()) {
            let ahead = vol.geo().filblks_to_bytes(block.distance_from(extent.startoff));
            batch.push((start.plus(ahead), part));
        }
    }
    for result in vol.device().write_batch(&batch) {
        result?;
    }
    Ok(())
}
