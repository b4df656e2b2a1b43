//! The data of a regular file that is open for writing: delayed allocation.
//!
//! Written data stays in memory first, and gets its blocks when it is flushed: by fsync, by close,
//! or when memory for such data runs out. A file written in many pieces is allocated as one extent.
//! All handles of a file share one [`Content`]. Its lock corresponds to Linux' IOLOCK and is taken
//! before any transaction.
//!
//! ```text
//!   write ──▶ Dirty ──flush──▶ 1. transaction: blocks, size   2. data in place   3. ticket dropped
//! ```
//!
//! 1. No checkpoint that holds (1) becomes durable before (2) is written. Stale contents of a block
//!    therefore never become visible. If (2) fails, the volume is shut down.
//! 2. Every block in memory that has no block on the device yet has one reserved
//!    (`reservation.rs`). A write that cannot reserve its blocks fails, and changes nothing.
//!    Delayed-allocation reservations are worst-case estimates. When they run out, everything is
//!    flushed and counted exactly.
//! 3. The part of the last block behind the end of the file is zero in memory and on the device, or
//!    is zeroed before the file grows.
//!
//! A thread that writes a lot writes the first of it behind: see
//! [`IoLock`](crate::open_files::IoLock).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xfskit_block::IoRead;
use xfskit_format::Fork;
use xfskit_format::inode::InodeFlags;
use xfskit_format::timestamp::Timestamp;
use xfskit_trans::TransError;
use xfskit_units::{ByteLen, ByteOffset, FilBlks, FileOff, Ino};

use crate::bmap::{BUNMAP_MAX, Backing, Segment};
use crate::error::{Error, Result};
use crate::file::Take;
use crate::open_files::{Content, Dirty, END_MAX, IoLock, Staged, State};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Data in memory, of all files, above which a writer flushes.
const BUDGET: ByteLen = ByteLen(64 << 20);
/// Data in memory, of all files, above which a writer writes its file behind.
const AHEAD: ByteLen = ByteLen(32 << 20);
/// Number of segments that are looked up at once.
pub(super) const SEGMENTS: usize = 256;

impl Volume {
    /// Opens a regular file's data for writing. [`close_content`](Self::close_content) closes it.
    /// All opens of one file share one [`Content`].
    ///
    /// # Errors
    /// [`Error::NotFile`], [`Error::IsDirectory`], [`Error::Unsupported`] for files on the realtime
    /// device, [`Error::ReadOnly`], [`Error::NoInode`], [`Error::Device`], [`Error::Corrupt`].
    pub fn open_content(&self, ino: Ino) -> Result<Arc<Content>> {
        self.engine()?;
        let mut open = self.contents.open.lock();
        if let Some(content) = open.get(&ino) {
            return Ok(Arc::clone(content));
        }
        let inode = self.iget(ino)?;
        let core = inode.core();
        if !core.is_regular() {
            return Err(Error::not_file(ino, &core));
        }
        if core.is_realtime() {
            return Err(Error::Unsupported(format!("inode {ino}: content on a realtime device")));
        }
        let state = State {
            size: core.size(),
            dirty: Dirty::new(self.geo().blocklog.into()),
            behind: None,
            staged: Staged::default(),
            reserved: FilBlks(0),
            reservation: None,
            written: None,
            resized: false,
        };
        let hinted = core.flags().contains(InodeFlags::EXTSIZE);
        let extsize = FilBlks(if hinted { core.extsize().0.into() } else { 0 });
        let content = Arc::new(Content {
            ino,
            generation: core.generation(),
            extsize,
            state: IoLock::new(state),
        });
        open.insert(ino, Arc::clone(&content));
        Ok(content)
    }

    /// Closes one handle of a file. The last one flushes its data in memory.
    ///
    /// # Errors
    /// As [`Content::flush`]; data that could not be written stays in memory.
    pub fn close_content(&self, content: Arc<Content>) -> Result<()> {
        content.flush(self)?;
        if self.is_last(&content) {
            content.trim(self)?;
        }
        self.forget_if_last(content);
        Ok(())
    }

    /// Returns true if there is no other handle of the file.
    pub(super) fn is_last(&self, content: &Arc<Content>) -> bool {
        is_last_of(&self.contents.open.lock(), content)
    }

    /// Discards the data of a deleted file. Nothing of it will be written any more.
    ///
    /// # Errors
    /// Those of a transaction that frees the file's staging extents.
    pub fn discard_content(&self, ino: Ino) -> Result<()> {
        let gone = self.contents.open.lock().remove(&ino);
        let Some(content) = gone else { return Ok(()) };
        let mut state = content.state.write();
        self.drop_dirty(&mut state, &(FileOff::ZERO..FileOff::MAX));
        state.resized = false;
        state.written = None;
        state.unstage(self)
    }

    /// Frees the staging extents of all files, including open ones.
    ///
    /// # Errors
    /// Those of a transaction.
    pub(crate) fn unstage_contents(&self) -> Result<()> {
        let open: Vec<_> = self.contents.open.lock().values().cloned().collect();
        open.iter().try_for_each(|content| content.state.write().unstage(self))
    }

    /// Returns true if files may have staging extents that could be freed.
    pub(crate) fn has_staged(&self) -> bool {
        self.contents.staged.load(Ordering::Relaxed) > 0
    }

    /// Returns true if data of inode `ino` may be in memory. Returns true if that cannot be known
    /// without waiting: the caller may be in a transaction, and the thread that holds the table's
    /// lock may wait for that transaction.
    pub fn may_have_content(&self, ino: Ino) -> bool {
        self.contents.open.try_lock().is_none_or(|open| open.contains_key(&ino))
    }

    pub(super) fn forget_if_last(&self, content: Arc<Content>) {
        let mut open = self.contents.open.lock();
        if is_last_of(&open, &content) && content.state.read().is_clean() {
            open.remove(&content.ino);
            self.contents.closed.fetch_add(1, Ordering::Release);
        }
        // Dropped under the lock. Otherwise two threads that close at the same time each count the
        // other as a user.
        drop(content);
    }

    /// Writes the data in memory of all files. Their changes become durable with the next
    /// checkpoint.
    ///
    /// # Errors
    /// As [`Content::flush`]: the first error; the other files are written nonetheless.
    pub fn flush_contents(&self) -> Result<()> {
        let open: Vec<_> = self.contents.open.lock().values().cloned().collect();
        let results = open.into_iter().map(|content| self.close_content(content));
        results.fold(Ok(()), Result::and)
    }

    /// Makes all changes of inode `ino`, of whatever kind, durable.
    ///
    /// # Errors
    /// As [`Content::fsync`].
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        self.flush_content(ino)?;
        self.force(ino)
    }

    /// Writes the data in memory of inode `ino`.
    ///
    /// # Errors
    /// As [`Content::flush`].
    pub fn flush_content(&self, ino: Ino) -> Result<()> {
        let open = self.contents.open.lock().get(&ino).cloned();
        open.map_or(Ok(()), |content| self.close_content(content))
    }

    /// Calls `change`, which sets the mtime of inode `ino`. The time of earlier writes whose data
    /// is in memory does not replace it when they are flushed.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn replace_written<T>(&self, ino: Ino, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let open = self.contents.open.lock().get(&ino).cloned();
        let Some(content) = open else { return change() };
        let mut state = content.state.write();
        let changed = change();
        if changed.is_ok() {
            state.written = None;
        }
        drop(state);
        self.forget_if_last(content);
        changed
    }

    /// Forces the journal up to the last committed change of inode `ino`. The changes of an inode
    /// that is not in memory are on the device already.
    pub(super) fn force(&self, ino: Ino) -> Result<()> {
        let engine = self.engine()?;
        match engine.inodes().get(ino) {
            Some(object) => Ok(engine.force_item(&object)?),
            None => Ok(()),
        }
    }

    /// Writes the data in memory of files that are not locked by an operation, and frees their
    /// staging extents.
    pub(crate) fn flush_idle_contents(&self) -> Result<()> {
        let open: Vec<_> = self.contents.open.lock().values().cloned().collect();
        for content in open {
            if let Some(mut state) = content.state.try_write() {
                content.flush_state(self, &mut state)?;
                state.unstage(self)?;
            }
            self.forget_if_last(content);
        }
        Ok(())
    }

    /// Drops the blocks of `range` from memory.
    pub(super) fn drop_dirty(&self, state: &mut State, range: &Range<FileOff>) {
        let before = state.dirty.blocks();
        state.dirty.remove(range);
        let gone = self.geo().filblks_to_bytes(before.minus(state.dirty.blocks()));
        self.forget_dirty(state, gone);
    }

    /// Counts `bytes` bytes as no longer in memory, and gives back reserved blocks that are not
    /// needed any more.
    pub(super) fn forget_dirty(&self, state: &mut State, bytes: ByteLen) {
        self.contents.dirty_bytes.fetch_sub(bytes.0, Ordering::Relaxed);
        let keep = self.reservation_for(state.dirty.blocks()).min(state.reserved);
        let back = std::mem::replace(&mut state.reserved, keep).minus(keep);
        self.space().unreserve(back.0);
    }
}

/// Returns true if `content` is in the table, and has no other handle than the caller's. A deleted
/// file is not in the table any more; another file may be there by its number.
fn is_last_of(open: &HashMap<Ino, Arc<Content>>, content: &Arc<Content>) -> bool {
    let listed = open.get(&content.ino).is_some_and(|known| Arc::ptr_eq(known, content));
    // One reference is the table's, one the caller's.
    listed && Arc::strong_count(content) == 2
}

// ---- reading ---------------------------------------------------------------------------------

impl Content {
    /// Returns the inode number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns the inode's generation. The same inode number with another generation is another
    /// file.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the size, including data that is in memory only.
    pub fn size(&self) -> ByteLen {
        self.state.read().size
    }

    /// Reads from byte `offset`, and returns the number of bytes read, less than asked for at the
    /// end of the file.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`]; then the contents of `buf` are undefined.
    pub fn read(&self, vol: &Volume, offset: ByteOffset, buf: &mut [u8]) -> Result<usize> {
        let state = self.state.read();
        let left = state.end().saturating_distance_from(offset);
        let len = left.min(ByteLen::of(buf)).index();
        if len > 0 {
            self.read_device(vol, offset, &mut buf[..len])?;
            state.dirty.read(offset, &mut buf[..len]);
        }
        Ok(len)
    }

    /// Reads as [`read`](Self::read) does, and calls `take` with the bytes, once. They are in
    /// `buf`, or in memory of the device, which saves a copy.
    ///
    /// # Errors
    /// As [`read`](Self::read); then `take` was not called.
    pub fn read_with(
        &self,
        vol: &Volume,
        offset: ByteOffset,
        buf: &mut [u8],
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> Result<()> {
        let state = self.state.read();
        let left = state.end().saturating_distance_from(offset);
        let len = left.min(ByteLen::of(buf)).index();
        let buf = &mut buf[..len];
        if !buf.is_empty() {
            let ahead = left.minus(ByteLen::of(buf));
            let blocks = vol.geo().file_blocks_around(&offset.range(ByteLen::of(buf)));
            if state.dirty.parts(blocks).next().is_none() {
                if self.read_device_or_lend(vol, offset, buf, Some((ahead, take)))? {
                    return Ok(());
                }
            } else {
                self.read_device(vol, offset, buf)?;
                state.dirty.read(offset, buf);
            }
        }
        drop(state);
        take(&[buf]);
        Ok(())
    }

    /// Verifies the extent map for the bytes of `range`. An operation in several transactions calls
    /// this first, so that damage stops it before anything is half done.
    pub(super) fn verify_map(&self, vol: &Volume, range: &Range<ByteOffset>) -> Result<()> {
        vol.verify_map(self.ino, Fork::Data, &vol.geo().file_blocks_around(range))
    }

    /// Verifies the extent map from the block of byte `start` on, as [`verify_map`
    /// ](Self::verify_map) does.
    pub(super) fn verify_map_from(&self, vol: &Volume, start: ByteOffset) -> Result<()> {
        let first = vol.geo().byte_to_fileoff(start);
        vol.verify_map(self.ino, Fork::Data, &(first..FileOff::MAX))
    }

    /// Reads from the device, from byte `offset` on.
    pub(super) fn read_device(
        &self,
        vol: &Volume,
        offset: ByteOffset,
        buf: &mut [u8],
    ) -> Result<()> {
        self.read_device_or_lend(vol, offset, buf, None).map(|_| ())
    }

    /// Reads from the device, from byte `offset` on. Returns true if the device lent the bytes to
    /// `take` instead; so many bytes are ahead then.
    fn read_device_or_lend(
        &self,
        vol: &Volume,
        offset: ByteOffset,
        buf: &mut [u8],
        mut take: Option<(ByteLen, Take<'_>)>,
    ) -> Result<bool> {
        let geo = vol.geo();
        let all = ByteLen::of(buf);
        let range = offset.range(all);
        let blocks = geo.file_blocks_around(&range);
        let (mut at, mut rest) = (offset, buf);
        let mut next = blocks.start;
        while next < blocks.end {
            let segments = self.look_up(vol, next..blocks.end, SEGMENTS)?;
            let mut batch = Vec::new();
            for segment in segments {
                next = segment.startoff.plus(segment.blockcount);
                let len = geo.fileoff_to_byte(next).min(range.end).distance_from(at);
                let (part, behind) = rest.split_at_mut(len.index());
                match segment.backing {
                    Backing::Written(block) => {
                        let ahead = at.distance_from(geo.fileoff_to_byte(segment.startoff));
                        let offset = vol.byte_of_block(block)?.plus(ahead);
                        batch.push(IoRead { offset, buf: part });
                    }
                    Backing::Hole | Backing::Unwritten(_) => part.fill(0),
                }
                (at, rest) = (at.plus(len), behind);
            }
            if let ([io], Some((ahead, take))) = (batch.as_slice(), &mut take)
                && ByteLen::of(io.buf) == all
                && vol.device().lend(io.offset, all, *ahead, take)
            {
                return Ok(true);
            }
            for result in vol.device().read_batch(&mut batch) {
                result?;
            }
        }
        Ok(false)
    }

    /// Returns the segments of the blocks of `range`, holes included, at most `most` of them.
    pub(super) fn look_up(
        &self,
        vol: &Volume,
        range: Range<FileOff>,
        most: usize,
    ) -> Result<Vec<Segment>> {
        vol.transact(|tx| {
            let inode = tx.iget(self.ino)?;
            let mut segments = Vec::new();
            let mut at = range.start;
            while at < range.end && segments.len() < most {
                let segment = segment_at(tx, inode, at..range.end)?;
                at = at.plus(segment.blockcount);
                segments.push(segment);
            }
            Ok(segments)
        })
    }
}

/// Returns the first segment of the blocks of `range`.
pub(super) fn segment_at(tx: &Tx<'_>, inode: TxInode, range: Range<FileOff>) -> Result<Segment> {
    let Range { start: startoff, end } = range;
    let (stop, backing) = match tx.bmap_next(inode, Fork::Data, startoff)? {
        Some(extent) if extent.startoff <= startoff => {
            let block = extent.block_at(startoff).unwrap_or(extent.startblock);
            let state = if extent.unwritten { Backing::Unwritten } else { Backing::Written };
            (extent.end(), state(block))
        }
        Some(extent) => (extent.startoff, Backing::Hole),
        None => (end, Backing::Hole),
    };
    let blockcount = stop.min(end).distance_from(startoff);
    Ok(Segment { startoff, blockcount, backing })
}

// ---- writing ---------------------------------------------------------------------------------

/// Returns the blocks that a write of `bytes` at `offset` may change: its own, and those between
/// them and the end of the file.
fn touched(vol: &Volume, state: &State, offset: ByteOffset, bytes: &[u8]) -> Range<FileOff> {
    let end = offset.saturating_add(bytes.len() as u64).min(END_MAX);
    vol.geo().file_blocks_around(&(offset.min(state.end())..end))
}

impl Content {
    /// Writes `bytes` at byte `offset`, into memory.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::FileTooLarge`], [`Error::Device`],
    /// [`Error::Corrupt`], the cause of a shutdown: then nothing has changed.
    pub fn write(
        &self,
        vol: &Volume,
        offset: ByteOffset,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        self.admit_write(vol)?;
        let mut state = self.state.write_at(|state| touched(vol, state, offset, bytes));
        self.write_state(vol, &mut state, offset, bytes, now)
    }

    /// Writes `bytes` at the end of the file, wherever other threads have moved it to. Returns the
    /// offset at which they start.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn append(&self, vol: &Volume, bytes: &[u8], now: Timestamp) -> Result<ByteOffset> {
        self.admit_write(vol)?;
        let mut state = self.state.write_at(|state| touched(vol, state, state.end(), bytes));
        let offset = state.end();
        self.write_state(vol, &mut state, offset, bytes, now)?;
        Ok(offset)
    }

    fn write_state(
        &self,
        vol: &Volume,
        state: &mut State,
        offset: ByteOffset,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        let end = offset.checked_plus(ByteLen::of(bytes)).filter(|&end| end <= END_MAX);
        let end = end.ok_or(Error::FileTooLarge("the file would be too large"))?;
        if bytes.is_empty() {
            return Ok(());
        }
        if offset > state.end() {
            self.seal_end(vol, state, offset)?;
        }
        self.reserve(vol, state, vol.geo().file_blocks_around(&(offset..end)))?;
        let known = state.dirty.blocks();
        self.load_edges(vol, state, offset..end)?;
        state.dirty.write(offset, bytes);
        let fresh = vol.geo().filblks_to_bytes(state.dirty.blocks().minus(known));
        state.resized |= end > state.end();
        state.size = state.size.max(ByteLen(end.0));
        state.written = Some(now);
        vol.contents.dirty_bytes.fetch_add(fresh.0, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses a write if the volume was shut down, for its bytes would never reach the device.
    /// Writes data behind if there is much in memory, and flushes if there is too much: this file
    /// first, then others.
    fn admit_write(&self, vol: &Volume) -> Result<()> {
        vol.engine()?.check_not_shut_down().map_err(TransError::from)?;
        let used = || ByteLen(vol.contents.dirty_bytes.load(Ordering::Relaxed));
        if used() > AHEAD {
            self.write_behind(vol)?;
        }
        while used() > BUDGET {
            if !self.write_behind(vol)? && !self.state.await_behind() {
                self.flush(vol)?;
                break;
            }
        }
        if used() > BUDGET {
            vol.flush_idle_contents()?;
        }
        Ok(())
    }

    /// Loads the first and the last block of the bytes `range`, if only a part of them is written.
    fn load_edges(&self, vol: &Volume, state: &mut State, range: Range<ByteOffset>) -> Result<()> {
        let geo = vol.geo();
        let first = geo.byte_to_fileoff(range.start);
        let last = geo.byte_to_fileoff(range.end.minus(ByteLen(1)));
        let mut loaded = Vec::new();
        for block in [first, last] {
            let start = geo.fileoff_to_byte(block);
            let end = start.plus(geo.filblks_to_bytes(FilBlks(1)));
            // What lies behind the end of the file needs no loading.
            let whole = range.start <= start && range.end >= end.min(state.end().max(start));
            if !whole && !state.dirty.has(block) && loaded.iter().all(|&(other, _)| other != start)
            {
                loaded.push((start, self.read_block(vol, state, start)?));
            }
        }
        for (start, bytes) in loaded {
            state.dirty.write(start, &bytes);
        }
        Ok(())
    }

    /// Reads the block that begins at `start` from the device, with zeroes behind the end of the
    /// file.
    fn read_block(&self, vol: &Volume, state: &State, start: ByteOffset) -> Result<Vec<u8>> {
        let mut bytes = vec![0; vol.geo().blocksize()];
        let inside = state.end().saturating_distance_from(start).min(ByteLen::of(&bytes));
        self.read_device(vol, start, &mut bytes[..inside.index()])?;
        Ok(bytes)
    }

    /// Loads block `block` into memory to be changed there. A hole, and a block behind the end, is
    /// zeroes.
    pub(super) fn load(&self, vol: &Volume, state: &mut State, block: FileOff) -> Result<()> {
        if state.dirty.has(block) {
            return Ok(());
        }
        self.reserve(vol, state, block.range(FilBlks(1)))?;
        let start = vol.geo().fileoff_to_byte(block);
        let bytes = self.read_block(vol, state, start)?;
        state.dirty.write(start, &bytes);
        vol.contents.dirty_bytes.fetch_add(ByteLen::of(&bytes).0, Ordering::Relaxed);
        Ok(())
    }

    /// Zeroes the bytes of `range`, which are in one block, unless that is a hole.
    pub(super) fn zero_part(
        &self,
        vol: &Volume,
        state: &mut State,
        range: &Range<ByteOffset>,
    ) -> Result<()> {
        self.load_part(vol, state, range)?;
        state.blank(range);
        Ok(())
    }

    /// Loads the block of the bytes of `range` into memory, to be zeroed there, unless it is a
    /// hole.
    pub(super) fn load_part(
        &self,
        vol: &Volume,
        state: &mut State,
        range: &Range<ByteOffset>,
    ) -> Result<()> {
        let block = vol.geo().byte_to_fileoff(range.start);
        if range.is_empty() || state.dirty.has(block) {
            return Ok(());
        }
        let here = self.look_up(vol, block.range(FilBlks(1)), 1)?;
        if here.iter().any(|segment| matches!(segment.backing, Backing::Written(_))) {
            self.load(vol, state, block)?;
        }
        Ok(())
    }

    /// Zeroes the bytes behind the end of the file, before the file grows to `offset` bytes or more
    /// (invariant 3).
    pub(super) fn seal_end(
        &self,
        vol: &Volume,
        state: &mut State,
        offset: ByteOffset,
    ) -> Result<()> {
        let geo = vol.geo();
        let end = state.end();
        let edge = end.round_up(geo.filblks_to_bytes(FilBlks(1))).min(END_MAX);
        let last = geo.byte_to_fileoff(end);
        if end < edge && !state.dirty.has(last) {
            let mut tail = vec![0; edge.distance_from(end).index()];
            self.read_device(vol, end, &mut tail)?;
            if tail.iter().any(|&byte| byte != 0) {
                self.load(vol, state, last)?;
            }
        }
        let blocks = geo.byte_to_fileoff(edge)..geo.byte_to_fileoff_ceil(offset);
        if blocks.is_empty() {
            return Ok(());
        }
        // Blocks allocated behind the end may be written, with unknown contents.
        self.convert(vol, state, blocks, true)
    }

    /// Converts all extents in `blocks` to unwritten, or to written.
    pub(super) fn convert(
        &self,
        vol: &Volume,
        state: &State,
        blocks: Range<FileOff>,
        unwritten: bool,
    ) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            at = vol.transact(|tx| {
                tx.set_uses_reservation(state.reservation.is_some());
                let inode = tx.iget(self.ino)?;
                let mut at = at;
                for _ in 0..BUNMAP_MAX {
                    let next = tx.bmap_next(inode, Fork::Data, at)?;
                    let Some(extent) = next.filter(|extent| extent.startoff < blocks.end) else {
                        return Ok(blocks.end);
                    };
                    let mut part = extent.clip(at, blocks.end);
                    if part.unwritten != unwritten {
                        // Every file that maps a block shares its state, so it is changed for
                        // unshared blocks only.
                        part = match tx.bmap_shared(inode, &part)? {
                            Some(shared) if shared.startoff == part.startoff => {
                                tx.bmap_renew(inode, &shared, unwritten)?
                            }
                            Some(shared) => part.clip(part.startoff, shared.startoff),
                            None => part,
                        };
                    }
                    if part.unwritten != unwritten {
                        tx.bmap_convert(inode, &part)?;
                    }
                    at = part.end();
                }
                Ok(at)
            })?;
        }
        Ok(())
    }
}
