//! Flushing: what is in memory gets its blocks, and is written to them ([`content`](super::content) tells the order).

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::flags;
use xfskit_format::timestamp::Timestamp;
use xfskit_trans::DataTicket;
use xfskit_units::{ByteLen, ByteOffset, FileOff};

use super::content::{Content, SIZE_MAX, State};
use super::promise::Room;
use crate::bmap::BUNMAP_MAX;
use crate::error::Result;
use crate::icore::Touch;
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

impl Content {
    /// Writes what is in memory: afterwards all of it is on its way to the device. It is durable with the next
    /// checkpoint.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt): then what could not be written stays in memory. Its blocks were promised.
    pub fn flush(&self, vol: &Volume) -> Result<()> {
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)
    }

    /// All that was written before this is durable afterwards.
    ///
    /// # Errors
    /// As [`flush`](Self::flush), and where the journal cannot be written.
    pub fn fsync(&self, vol: &Volume) -> Result<()> {
        self.flush(vol)?;
        vol.force(self.ino())
    }

    pub(super) fn flush_state(&self, vol: &Volume, state: &mut State) -> Result<()> {
        while let Some(blocks) = state.dirty.first() {
            let (extents, ticket) = match self.place(vol, state, blocks)? {
                Placed::Here(extents, ticket) => (extents, ticket),
                Placed::Unsettled(checkpoint) => {
                    vol.engine()?.force(checkpoint)?;
                    continue;
                }
            };
            if let Err(error) = write_out(vol, state, &extents) {
                vol.engine()?.shut_down(&format!("content of inode {}: {error}", self.ino()));
                drop(ticket);
                return Err(error);
            }
            drop(ticket);
            for extent in extents {
                vol.drop_dirty(state, extent.startoff.0..extent.end().0);
            }
        }
        if state.resized || state.written.is_some() {
            let (size, written) = (state.size, state.written);
            vol.transact(|tx| {
                let inode = tx.iget(self.ino())?;
                tx.set_size(inode, ByteLen(size));
                touch_written(tx, inode, written);
                Ok(())
            })?;
            state.resized = false;
            state.written = None;
        }
        // What was promised and not needed.
        vol.drop_dirty(state, 0..0);
        Ok(())
    }

    /// Gives the first of `blocks` a place on the device, as many as are good for one transaction.
    fn place(&self, vol: &Volume, state: &mut State, blocks: Range<u64>) -> Result<Placed> {
        let (size, written) = (state.size, state.written);
        let around = self.around(vol, &blocks)?;
        let placed = vol.transact_promised(|tx| {
            let inode = tx.iget(self.ino())?;
            let mut extents = Vec::new();
            let mut at = blocks.start;
            while at < blocks.end && extents.len() < BUNMAP_MAX {
                let around = around.as_ref().map(|(blocks, _room)| blocks);
                match place_one(tx, inode, at..blocks.end, around)? {
                    Ok(extent) => {
                        at = extent.end().0;
                        extents.push(extent);
                    }
                    Err(checkpoint) if extents.is_empty() => {
                        return Ok(Placed::Unsettled(checkpoint));
                    }
                    Err(_) => break,
                }
            }
            // The inode is logged where nothing of it changes, too: who forces it waits for this data.
            let reached = size.min(at << vol.geo().blocklog).max(tx.core(inode).size().0);
            tx.set_size(inode, ByteLen(reached));
            touch_written(tx, inode, written);
            Ok(Placed::Here(extents, tx.data_to_come()))
        })?;
        if matches!(placed, Placed::Here(..)) {
            state.written = None;
        }
        Ok(placed)
    }

    /// Frees what the hint had allocated behind the end, for writes that did not come.
    pub(super) fn trim(&self, vol: &Volume) -> Result<()> {
        let state = self.state.write();
        let kept = vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            Ok(tx.core(inode).flags() & flags::PREALLOC != 0)
        })?;
        let end = state.size.div_ceil(1 << vol.geo().blocklog);
        if kept { Ok(()) } else { self.free_from(vol, end) }
    }

    /// What the extent size hint asks to be allocated when `blocks` are: whole units of the hint. What of them is not
    /// written stays unwritten. `None` without a hint, and where there is no room for more than `blocks`.
    fn around<'v>(
        &self,
        vol: &'v Volume,
        blocks: &Range<u64>,
    ) -> Result<Option<(Range<u64>, Room<'v>)>> {
        let end = blocks.end.checked_next_multiple_of(self.extsize);
        let Some(end) = end.filter(|&end| end <= SIZE_MAX >> vol.geo().blocklog) else {
            return Ok(None);
        };
        let whole = blocks.start / self.extsize * self.extsize..end;
        let more = (whole.end - whole.start) - (blocks.end - blocks.start);
        // The rest at both ends takes an extent each.
        let room = vol.spare_room(more + vol.nodes_for(2))?;
        Ok(room.map(|room| (whole, room)))
    }
}

/// Where content is to be written.
enum Placed {
    /// Into these extents, before the ticket is dropped.
    Here(Vec<Extent>, DataTicket),
    /// In place, once this checkpoint is durable: until then a crash makes the blocks another file's, or another
    /// place's.
    Unsettled(u64),
}

fn touch_written(tx: &mut Tx<'_>, inode: TxInode, written: Option<Timestamp>) {
    if let Some(now) = written {
        tx.touch(inode, Touch::CONTENT, now);
    }
}

/// Gives the first of the blocks of `range` a place, and answers where they lie: they count as written. Otherwise
/// the checkpoint that must be durable first. A hole is filled as far as it lies in `around`.
fn place_one(
    tx: &mut Tx<'_>,
    inode: TxInode,
    range: Range<u64>,
    around: Option<&Range<u64>>,
) -> Result<std::result::Result<Extent, u64>> {
    let (start, end) = (FileOff(range.start), FileOff(range.end));
    let next = tx.bmap_next(inode, Fork::Data, start)?;
    if let Some(extent) = next.filter(|extent| extent.startoff <= start) {
        let mut part = extent.clip(start, end);
        match tx.bmap_shared(inode, &part)? {
            Some(shared) if shared.startoff == start => {
                return tx.bmap_renew(inode, &shared, false).map(Ok);
            }
            Some(shared) => part = part.clip(start, shared.startoff),
            None => {}
        }
        if part.unwritten {
            tx.bmap_convert(inode, &part)?;
        } else if let Some(checkpoint) = tx.engine().moved_in(part.startblock) {
            return Ok(Err(checkpoint));
        }
        return Ok(Ok(part));
    }
    let stop = |end: u64| next.map_or(end, |extent| extent.startoff.0.min(end));
    if let Some(around) = around {
        let before = tx.bmap_before(inode, Fork::Data, start)?;
        let first = before.map_or(0, |extent| extent.end().0).max(around.start).min(start.0);
        let last = stop(around.end.max(end.0));
        if first < start.0 || last > end.0 {
            let first = FileOff(first);
            let got = tx.bmap_alloc_as(inode, Fork::Data, first, last - first.0, None, true)?;
            let part = got.clip(start, end);
            if got.end() > start {
                tx.bmap_convert(inode, &part)?;
                return Ok(Ok(Extent { unwritten: false, ..part }));
            }
        }
    }
    let len = stop(end.0) - start.0;
    tx.bmap_alloc_as(inode, Fork::Data, start, len, None, false).map(Ok)
}

/// Writes the content of `extents` from memory.
fn write_out(vol: &Volume, state: &State, extents: &[Extent]) -> Result<()> {
    let mut batch = Vec::new();
    for extent in extents {
        let start = vol.byte_of_block(extent.startblock)?;
        for (block, part) in state.dirty.parts(extent.startoff.0..extent.end().0) {
            let ahead = (block - extent.startoff.0) << vol.geo().blocklog;
            batch.push((ByteOffset(start.0 + ahead), part));
        }
    }
    for answer in vol.device().write_batch(&batch) {
        answer?;
    }
    Ok(())
}
