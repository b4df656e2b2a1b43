//! Changes of a file's layout: truncate, extend, punch, preallocate, collapse and insert.
//!
//! All of these flush the data in memory first, and then change the extent map, some extents in
//! each transaction. A crash in between leaves a consistent volume and the work half done, as with
//! Linux. An operation that fails for lack of space has changed nothing.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::inode::InodeFlags;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{ByteLen, ByteOffset, FilBlks, FileOff, PositionRange};

use super::content::segment_at;
use super::hint;
use crate::bmap::{BUNMAP_MAX, Backing, Segment};
use crate::error::{Error, Result};
use crate::icore::Touch;
use crate::open_files::{Content, END_MAX, SIZE_MAX, State};
use crate::volume::Volume;

/// The target of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Data: neither a hole nor unwritten.
    Data,
    /// A hole, or unwritten blocks; the end of the file is one.
    Hole,
}

impl Content {
    /// Sets the size. Data behind the new end is lost; added bytes read as zeroes.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`], [`Error::NoSpace`], [`Error::Device`],
    /// [`Error::Corrupt`].
    pub fn truncate(&self, vol: &Volume, size: ByteLen, now: Timestamp) -> Result<()> {
        if size > SIZE_MAX {
            return Err(Error::FileTooLarge("the file would be too large"));
        }
        let end = ByteOffset(size.0);
        let mut state = self.state.write();
        if size > state.size {
            self.seal_end(vol, &mut state, end)?;
        } else {
            self.verify_map_from(vol, end)?;
            self.cut(vol, &mut state, end)?;
        }
        self.flush_state(vol, &mut state)?;
        vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            tx.set_size(inode, size);
            tx.touch(inode, Touch::CONTENT, now);
            Ok(())
        })?;
        let grows = size > state.size;
        state.size = size;
        if grows { Ok(()) } else { self.free_from(vol, vol.geo().byte_to_fileoff_ceil(end)) }
    }

    /// Prepares for the new end: data in memory behind it is dropped, and the rest of its last
    /// block zeroed.
    fn cut(&self, vol: &Volume, state: &mut State, end: ByteOffset) -> Result<()> {
        let edge = vol.geo().byte_to_fileoff_ceil(end);
        let last = vol.geo().fileoff_to_byte(edge).min(state.end()).max(end);
        self.zero_part(vol, state, &(end..last))?;
        vol.drop_dirty(state, &(edge..FileOff::MAX));
        // Flushing must not bring the old size back.
        state.resized = false;
        Ok(())
    }

    /// Frees everything from block `first` on.
    pub(super) fn free_from(&self, vol: &Volume, first: FileOff) -> Result<()> {
        while !vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            tx.bmap_trim(inode, Fork::Data, first, BUNMAP_MAX)
        })? {}
        Ok(())
    }

    /// Makes the bytes of `range` a hole in whole blocks, and zeroes the rest.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Device`], [`Error::Corrupt`].
    pub fn punch(&self, vol: &Volume, range: Range<ByteOffset>, now: Timestamp) -> Result<()> {
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)?;
        self.verify_map(vol, &range)?;
        let parts = Parts::of(vol, &state, &range);
        let cost = self.edge_cost(vol, &parts)?;
        self.with_reservation(vol, &mut state, cost, |state| {
            self.load_edges_of(vol, state, &parts)?;
            // If this is refused (one extent becomes two), nothing has changed yet.
            self.unmap(vol, parts.whole.clone())?;
            state.blank_edges(&parts);
            state.written = Some(now);
            self.flush_state(vol, state)
        })
    }

    /// Makes the bytes of `range` zeroes with allocated, unwritten blocks. `keep_size` as in
    /// [`preallocate`](Self::preallocate).
    ///
    /// # Errors
    /// As [`preallocate`](Self::preallocate).
    pub fn zero(
        &self,
        vol: &Volume,
        range: Range<ByteOffset>,
        keep_size: bool,
        now: Timestamp,
    ) -> Result<()> {
        small_enough(&range)?;
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)?;
        self.verify_map(vol, &range)?;
        let blocks = vol.geo().file_blocks_around(&range);
        // The extents at both ends are cut.
        let cost = self.cost(vol, blocks)?.plus(self.nodes(vol, 4)?);
        self.with_reservation(vol, &mut state, cost, |state| {
            self.allocate(vol, state, &range, keep_size, now)?;
            let parts = Parts::of(vol, state, &range);
            self.load_edges_of(vol, state, &parts)?;
            self.convert(vol, state, parts.whole.clone(), true)?;
            state.blank_edges(&parts);
            self.flush_state(vol, state)
        })
    }

    /// Allocates blocks for the holes in the bytes of `range`; they read as zeroes. The file grows
    /// to the end of the range. With `keep_size` it does not grow, and blocks behind its end are
    /// kept for later.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: then nothing has changed. [`Error::FileTooLarge`], [`Error::Device`],
    /// [`Error::Corrupt`].
    pub fn preallocate(
        &self,
        vol: &Volume,
        range: Range<ByteOffset>,
        keep_size: bool,
        now: Timestamp,
    ) -> Result<()> {
        small_enough(&range)?;
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)?;
        self.verify_map(vol, &range)?;
        let holes = self.survey(vol, vol.geo().file_blocks_around(&range))?.holes;
        let cost = holes.saturating_plus(self.nodes(vol, holes.0)?);
        self.with_reservation(vol, &mut state, cost, |state| {
            self.allocate(vol, state, &range, keep_size, now)
        })
    }

    /// Preallocates, with blocks reserved beforehand.
    fn allocate(
        &self,
        vol: &Volume,
        state: &mut State,
        range: &Range<ByteOffset>,
        keep_size: bool,
        now: Timestamp,
    ) -> Result<()> {
        let grows = !keep_size && range.end > state.end();
        let size = ByteLen(range.end.0);
        if grows {
            self.seal_end(vol, state, range.end)?;
            self.flush_state(vol, state)?;
        }
        let mut fresh = Vec::new();
        if let Err(error) = self.fill_holes(vol, vol.geo().file_blocks_around(range), &mut fresh) {
            for range in fresh {
                self.unmap(vol, range)?;
            }
            return Err(error);
        }
        vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            tx.set_flags(inode, tx.core(inode).flags() | InodeFlags::PREALLOC);
            if grows {
                tx.set_size(inode, size);
            }
            tx.touch(inode, Touch::CONTENT, now);
            Ok(())
        })?;
        if grows {
            state.size = size;
        }
        Ok(())
    }

    /// Allocates the holes in `blocks` as unwritten; adds the former holes to `fresh`.
    fn fill_holes(
        &self,
        vol: &Volume,
        blocks: Range<FileOff>,
        fresh: &mut Vec<Range<FileOff>>,
    ) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            let (next, new, _rooms) = vol.transact_reserved(|tx| {
                let inode = tx.iget(self.ino())?;
                let (mut at, mut new, mut reservations) = (at, Vec::new(), Vec::new());
                while at < blocks.end && new.len() < BUNMAP_MAX {
                    let hole = segment_at(tx, inode, at..blocks.end)?;
                    let (start, len) = (hole.startoff, hole.blockcount);
                    if hole.backing != Backing::Hole {
                        at = at.plus(len);
                        continue;
                    }
                    let hinted = hint::alloc(vol, tx, inode, at.range(len), self.extsize)?;
                    let got = match hinted {
                        Some((got, reservation)) => {
                            reservations.push(reservation);
                            got
                        }
                        None => tx.bmap_alloc_as(inode, Fork::Data, start, len, None, true)?,
                    };
                    new.push(got.startoff..got.end());
                    at = at.max(got.end());
                }
                Ok((at, new, reservations))
            })?;
            at = next;
            fresh.extend(new);
        }
        Ok(())
    }

    /// Removes the bytes of `range`, which are whole blocks and end within the file. Data behind
    /// moves to the front. Blocks that were preallocated behind the file's end are freed, as Linux
    /// does.
    ///
    /// # Errors
    /// [`Error::Limit`] for another range, [`Error::NoSpace`], [`Error::Device`],
    /// [`Error::Corrupt`].
    pub fn collapse(&self, vol: &Volume, range: Range<ByteOffset>, now: Timestamp) -> Result<()> {
        let blocks = whole_blocks(vol, &range)?;
        let mut state = self.state.write();
        if range.end >= state.end() {
            return Err(Error::Limit("what is cut out must end within the file"));
        }
        self.flush_state(vol, &mut state)?;
        self.verify_map_from(vol, range.start)?;
        let cost = self.nodes_to_move(vol)?;
        self.with_reservation(vol, &mut state, cost, |state| {
            self.free_from(vol, vol.geo().byte_to_fileoff_ceil(state.end()))?;
            self.unmap(vol, blocks.clone())?;
            self.move_down(vol, blocks.end, blocks.length())?;
            let size = state.size.minus(range.length());
            self.resized(vol, size, now)?;
            state.size = size;
            Ok(())
        })
    }

    /// Moves all extents from block `from` on to the front by `len` blocks, where there is a hole.
    fn move_down(&self, vol: &Volume, from: FileOff, len: FilBlks) -> Result<()> {
        let mut from = from;
        while let Some(next) = vol.transact_reserved(|tx| {
            let inode = tx.iget(self.ino())?;
            let mut from = from;
            for _ in 0..BUNMAP_MAX {
                let Some(extent) = tx.bmap_next(inode, Fork::Data, from)? else {
                    return Ok(None);
                };
                tx.bmap_move(inode, &extent, extent.startoff.minus(len))?;
                from = extent.end();
            }
            Ok(Some(from))
        })? {
            from = next;
        }
        Ok(())
    }

    /// Inserts a hole at the start of `range`, which is whole blocks and begins within the file.
    /// Data from there on moves to the end of the range.
    ///
    /// # Errors
    /// As [`collapse`](Self::collapse).
    pub fn insert(&self, vol: &Volume, range: Range<ByteOffset>, now: Timestamp) -> Result<()> {
        let blocks = whole_blocks(vol, &range)?;
        let mut state = self.state.write();
        let size = state.size.saturating_plus(range.length());
        if size > SIZE_MAX {
            return Err(Error::FileTooLarge("the file would be too large"));
        }
        if range.start >= state.end() {
            return Err(Error::Limit("a hole is inserted within the file"));
        }
        self.flush_state(vol, &mut state)?;
        self.verify_map_from(vol, range.start)?;
        let len = blocks.length();
        let cost = self.nodes_to_move(vol)?;
        self.with_reservation(vol, &mut state, cost, |state| {
            self.split_at(vol, blocks.start, len)?;
            self.move_up(vol, blocks.start, len)?;
            self.resized(vol, size, now)?;
            state.size = size;
            Ok(())
        })
    }

    /// Moves all extents from block `from` on to the back by `len` blocks, the last one first.
    fn move_up(&self, vol: &Volume, from: FileOff, len: FilBlks) -> Result<()> {
        let mut upto = FileOff::MAX;
        while let Some(next) = vol.transact_reserved(|tx| {
            let inode = tx.iget(self.ino())?;
            let mut upto = upto;
            for _ in 0..BUNMAP_MAX {
                let last = tx.bmap_before(inode, Fork::Data, upto)?;
                let Some(last) = last.filter(|last| last.startoff >= from) else {
                    return Ok(None);
                };
                tx.bmap_move(inode, &last, last.startoff.plus(len))?;
                let Some(before) = last.startoff.checked_sub(1) else { return Ok(None) };
                upto = before;
            }
            Ok(Some(upto))
        })? {
            upto = next;
        }
        Ok(())
    }

    /// Flushes, and returns the segments of the bytes of `range`: at most `most`, in order, holes
    /// included.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn segments(
        &self,
        vol: &Volume,
        range: Range<ByteOffset>,
        most: usize,
    ) -> Result<Vec<Segment>> {
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)?;
        self.look_up(vol, vol.geo().file_blocks_around(&range), most)
    }

    /// Returns the first byte at or behind `offset` that is data, or a hole. Returns `None` if
    /// there is none, and behind the end of the file.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn seek(&self, vol: &Volume, offset: ByteOffset, what: Seek) -> Result<Option<ByteOffset>> {
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)?;
        let geo = vol.geo();
        let end = geo.byte_to_fileoff_ceil(state.end());
        if offset >= state.end() {
            return Ok(None);
        }
        let mut at = geo.byte_to_fileoff(offset);
        while at < end {
            for segment in self.look_up(vol, at..end, 64)? {
                let is_data = matches!(segment.backing, Backing::Written(_));
                if is_data == (what == Seek::Data) {
                    return Ok(Some(geo.fileoff_to_byte(at).max(offset)));
                }
                at = at.plus(segment.blockcount);
            }
        }
        Ok((what == Seek::Hole).then_some(state.end()))
    }

    /// Returns the number of blocks that it takes to write both ends of a range that do not fill
    /// their blocks.
    fn edge_cost(&self, vol: &Volume, parts: &Parts) -> Result<FilBlks> {
        let mut shared = FilBlks(0);
        for edge in parts.edges.iter().filter(|edge| !edge.is_empty()) {
            let block = vol.geo().byte_to_fileoff(edge.start);
            shared = shared.plus(self.shared_blocks(vol, block.range(FilBlks(1)))?);
        }
        Ok(shared.plus(self.nodes(vol, 2 * shared.0)?))
    }

    /// Loads both ends of a range into memory.
    fn load_edges_of(&self, vol: &Volume, state: &mut State, parts: &Parts) -> Result<()> {
        parts.edges.iter().try_for_each(|edge| self.load_part(vol, state, edge))
    }

    /// Unmaps and frees `blocks`, in any state.
    fn unmap(&self, vol: &Volume, blocks: Range<FileOff>) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            at = vol.transact(|tx| {
                let inode = tx.iget(self.ino())?;
                for _ in 0..BUNMAP_MAX {
                    let next = tx.bmap_next(inode, Fork::Data, blocks.start)?;
                    let Some(extent) = next.filter(|extent| extent.startoff < blocks.end) else {
                        return Ok(blocks.end);
                    };
                    let part = extent.clip(blocks.start, blocks.end);
                    let len = tx.unmap_reach(inode, Fork::Data, &part)?;
                    tx.bunmap_some(inode, Fork::Data, part.startoff, len)?;
                    if len < part.blockcount {
                        break;
                    }
                }
                Ok(blocks.start)
            })?;
        }
        Ok(())
    }

    /// Splits the extent that covers block `at`, so that one begins there. Checks that all extents
    /// behind it can move by `len` blocks.
    fn split_at(&self, vol: &Volume, at: FileOff, len: FilBlks) -> Result<()> {
        vol.transact_reserved(|tx| {
            let inode = tx.iget(self.ino())?;
            let end = tx.bmap_end(inode, Fork::Data)?;
            if end.plus(len) > vol.geo().byte_to_fileoff(END_MAX) {
                return Err(Error::FileTooLarge("the file would be too large"));
            }
            tx.bmap_split(inode, at)
        })
    }

    fn resized(&self, vol: &Volume, size: ByteLen, now: Timestamp) -> Result<()> {
        vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            tx.set_size(inode, size);
            tx.touch(inode, Touch::CONTENT, now);
            Ok(())
        })
    }
}

/// A range of bytes, in blocks.
struct Parts {
    /// Blocks that are wholly in the range.
    whole: Range<FileOff>,
    /// The bytes before and behind them, as far as they are within the file: each part is in one
    /// block.
    edges: [Range<ByteOffset>; 2],
}

impl Parts {
    fn of(vol: &Volume, state: &State, range: &Range<ByteOffset>) -> Self {
        let inside = range.start.min(state.end())..range.end.min(state.end());
        let whole = vol.geo().file_blocks_inside(range);
        if whole.start > whole.end {
            let none = ByteOffset(0)..ByteOffset(0);
            return Self { whole: whole.end..whole.end, edges: [inside, none] };
        }
        let edge =
            |block: FileOff| vol.geo().fileoff_to_byte(block).clamp(inside.start, inside.end);
        let (first, last) = (edge(whole.start), edge(whole.end));
        Self { whole, edges: [inside.start..first, last..inside.end] }
    }
}

impl State {
    /// Zeroes both ends of a range, if they are in memory.
    fn blank_edges(&mut self, parts: &Parts) {
        parts.edges.iter().for_each(|edge| self.blank(edge));
    }
}

fn small_enough(range: &Range<ByteOffset>) -> Result<()> {
    if range.end > END_MAX {
        return Err(Error::FileTooLarge("the file would be too large"));
    }
    Ok(())
}

/// Returns the blocks that `range` consists of.
fn whole_blocks(vol: &Volume, range: &Range<ByteOffset>) -> Result<Range<FileOff>> {
    let blocks = vol.geo().file_blocks_inside(range);
    if range.is_empty() || blocks != vol.geo().file_blocks_around(range) {
        return Err(Error::Limit("the range must consist of whole blocks"));
    }
    Ok(blocks)
}
