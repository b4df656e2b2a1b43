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

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;
use xfskit_block::IoRead;
use xfskit_format::Fork;
use xfskit_format::inode::InodeFlags;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{ByteLen, ByteOffset, FileOff, Ino, index};

use crate::bmap::{BUNMAP_MAX, Backing, Segment};
use crate::error::{Error, Result};
use crate::open_files::{Content, Dirty, SIZE_MAX, Staged, State};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Data in memory, of all files, above which a writer flushes, in bytes.
const BUDGET: u64 = 64 << 20;
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
            size: core.size().0,
            dirty: Dirty::new(self.geo().blocklog.into()),
            staged: Staged::default(),
            reserved: 0,
            reservation: None,
            written: None,
            resized: false,
        };
        let hinted = core.flags().contains(InodeFlags::EXTSIZE);
        let extsize = if hinted { core.extsize().0.into() } else { 0 };
        let content = Arc::new(Content {
            ino,
            generation: core.generation(),
            extsize,
            state: RwLock::new(state),
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

    /// Returns true if there is no other handle of the file. A deleted file is not in the table any
    /// more.
    pub(super) fn is_last(&self, content: &Arc<Content>) -> bool {
        let open = self.contents.open.lock();
        let listed = open.get(&content.ino).is_some_and(|known| Arc::ptr_eq(known, content));
        listed && Arc::strong_count(content) == 2
    }

    /// Discards the data of a deleted file. Nothing of it will be written any more.
    ///
    /// # Errors
    /// Those of a transaction that frees the file's staging extents.
    pub fn discard_content(&self, ino: Ino) -> Result<()> {
        let gone = self.contents.open.lock().remove(&ino);
        let Some(content) = gone else { return Ok(()) };
        let mut state = content.state.write();
        self.drop_dirty(&mut state, 0..u64::MAX);
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
        // One reference is the table's, one ours.
        if Arc::strong_count(&content) == 2 && content.state.read().is_clean() {
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
    pub(super) fn drop_dirty(&self, state: &mut State, range: Range<u64>) {
        let before = state.dirty.blocks();
        state.dirty.remove(range);
        let gone = before - state.dirty.blocks();
        self.contents.dirty_bytes.fetch_sub(gone << self.geo().blocklog, Ordering::Relaxed);
        let keep = self.reservation_for(state.dirty.blocks()).min(state.reserved);
        let back = std::mem::replace(&mut state.reserved, keep) - keep;
        self.space().unreserve(back);
    }
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
        ByteLen(self.state.read().size)
    }

    /// Reads from byte `offset`, and returns the number of bytes read, less than asked for at the
    /// end of the file.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`]; then the contents of `buf` are undefined.
    pub fn read(&self, vol: &Volume, offset: ByteOffset, buf: &mut [u8]) -> Result<usize> {
        let state = self.state.read();
        let left = usize::try_from(state.size.saturating_sub(offset.0)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        if len > 0 {
            self.read_device(vol, offset.0, &mut buf[..len])?;
            state.dirty.read(offset.0, &mut buf[..len]);
        }
        Ok(len)
    }

    /// Verifies the extent map for the bytes of `range`. An operation in several transactions calls
    /// this first, so that damage stops it before anything is half done.
    pub(super) fn verify_map(&self, vol: &Volume, range: Range<u64>) -> Result<()> {
        let blocklog = vol.geo().blocklog;
        let end = if range.end == u64::MAX { u64::MAX } else { range.end.div_ceil(1 << blocklog) };
        let blocks = FileOff(range.start >> blocklog)..FileOff(end);
        vol.verify_map(self.ino, Fork::Data, &blocks)
    }

    /// Reads from the device, from byte `offset` on.
    pub(super) fn read_device(&self, vol: &Volume, offset: u64, buf: &mut [u8]) -> Result<()> {
        let geo = vol.geo();
        let end = offset + buf.len() as u64;
        let blocks = offset >> geo.blocklog..end.div_ceil(1 << geo.blocklog);
        let (mut at, mut rest) = (offset, buf);
        let mut next = blocks.start;
        while next < blocks.end {
            let segments = self.look_up(vol, next..blocks.end, SEGMENTS)?;
            let mut batch = Vec::new();
            for segment in segments {
                next = segment.startoff.0 + segment.blockcount.0;
                let len = index((next << geo.blocklog).min(end) - at);
                let (part, behind) = rest.split_at_mut(len);
                match segment.backing {
                    Backing::Written(block) => {
                        let start = vol.byte_of_block(block)?;
                        let ahead = at - (segment.startoff.0 << geo.blocklog);
                        batch.push(IoRead { offset: ByteOffset(start.0 + ahead), buf: part });
                    }
                    Backing::Hole | Backing::Unwritten(_) => part.fill(0),
                }
                (at, rest) = (at + len as u64, behind);
            }
            for result in vol.device().read_batch(&mut batch) {
                result?;
            }
        }
        Ok(())
    }

    /// Returns the segments of the blocks of `range`, holes included, at most `most` of them.
    pub(super) fn look_up(
        &self,
        vol: &Volume,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Segment>> {
        vol.transact(|tx| {
            let inode = tx.iget(self.ino)?;
            let mut segments = Vec::new();
            let mut at = range.start;
            while at < range.end && segments.len() < most {
                let segment = segment_at(tx, inode, at..range.end)?;
                at += segment.blockcount.0;
                segments.push(segment);
            }
            Ok(segments)
        })
    }
}

/// Returns the first segment of the blocks of `range`.
pub(super) fn segment_at(tx: &Tx<'_>, inode: TxInode, range: Range<u64>) -> Result<Segment> {
    let (startoff, end) = (FileOff(range.start), FileOff(range.end));
    let (stop, backing) = match tx.bmap_next(inode, Fork::Data, startoff)? {
        Some(extent) if extent.startoff <= startoff => {
            let block = extent.block_at(startoff).unwrap_or(extent.startblock);
            let state = if extent.unwritten { Backing::Unwritten } else { Backing::Written };
            (extent.end(), state(block))
        }
        Some(extent) => (extent.startoff, Backing::Hole),
        None => (end, Backing::Hole),
    };
    let blockcount = xfskit_units::FilBlks(stop.min(end).0 - startoff.0);
    Ok(Segment { startoff, blockcount, backing })
}

// ---- writing ---------------------------------------------------------------------------------

impl Content {
    /// Writes `bytes` at byte `offset`, into memory.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Limit`] for a file that would be too large, [`Error::Device`],
    /// [`Error::Corrupt`]: then nothing has changed.
    pub fn write(
        &self,
        vol: &Volume,
        offset: ByteOffset,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        self.keep_budget(vol)?;
        self.write_state(vol, &mut self.state.write(), offset.0, bytes, now)
    }

    /// Writes `bytes` at the end of the file, wherever other threads have moved it to. Returns the
    /// offset at which they start.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn append(&self, vol: &Volume, bytes: &[u8], now: Timestamp) -> Result<ByteOffset> {
        self.keep_budget(vol)?;
        let mut state = self.state.write();
        let offset = state.size;
        self.write_state(vol, &mut state, offset, bytes, now)?;
        Ok(ByteOffset(offset))
    }

    fn write_state(
        &self,
        vol: &Volume,
        state: &mut State,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= SIZE_MAX);
        let end = end.ok_or(Error::Limit("the file would be too large"))?;
        if bytes.is_empty() {
            return Ok(());
        }
        if offset > state.size {
            self.seal_end(vol, state, offset)?;
        }
        let blocklog = vol.geo().blocklog;
        let blocks = offset >> blocklog..end.div_ceil(1 << blocklog);
        self.reserve(vol, state, blocks.clone())?;
        let known = state.dirty.blocks();
        self.load_edges(vol, state, offset..end)?;
        state.dirty.write(offset, bytes);
        let fresh = (state.dirty.blocks() - known) << blocklog;
        state.resized |= end > state.size;
        state.size = state.size.max(end);
        state.written = Some(now);
        vol.contents.dirty_bytes.fetch_add(fresh, Ordering::Relaxed);
        Ok(())
    }

    /// Flushes if too much data is in memory: this file first, then others.
    fn keep_budget(&self, vol: &Volume) -> Result<()> {
        let used = || vol.contents.dirty_bytes.load(Ordering::Relaxed);
        if used() > BUDGET {
            self.flush(vol)?;
        }
        if used() > BUDGET {
            vol.flush_idle_contents()?;
        }
        Ok(())
    }

    /// Loads the first and the last block of the bytes `range`, if only a part of them is written.
    fn load_edges(&self, vol: &Volume, state: &mut State, range: Range<u64>) -> Result<()> {
        let blocklog = vol.geo().blocklog;
        let size = 1 << blocklog;
        let first = range.start >> blocklog;
        let last = (range.end - 1) >> blocklog;
        let mut loaded = Vec::new();
        for block in [first, last] {
            let start = block << blocklog;
            // What lies behind the end of the file needs no loading.
            let whole =
                range.start <= start && range.end >= (start + size).min(state.size.max(start));
            if !whole && !state.dirty.has(block) && loaded.iter().all(|&(other, _)| other != block)
            {
                let mut bytes = vec![0; 1 << blocklog];
                let inside = index(state.size.saturating_sub(start).min(size));
                self.read_device(vol, start, &mut bytes[..inside])?;
                loaded.push((block, bytes));
            }
        }
        for (block, bytes) in loaded {
            state.dirty.write(block << blocklog, &bytes);
        }
        Ok(())
    }

    /// Loads block `block` into memory to be changed there. A hole, and a block behind the end, is
    /// zeroes.
    pub(super) fn load(&self, vol: &Volume, state: &mut State, block: u64) -> Result<()> {
        let blocklog = vol.geo().blocklog;
        if state.dirty.has(block) {
            return Ok(());
        }
        self.reserve(vol, state, block..block + 1)?;
        let start = block << blocklog;
        let mut bytes = vec![0; 1 << blocklog];
        let inside = index(state.size.saturating_sub(start).min(1 << blocklog));
        self.read_device(vol, start, &mut bytes[..inside])?;
        state.dirty.write(start, &bytes);
        vol.contents.dirty_bytes.fetch_add(1 << blocklog, Ordering::Relaxed);
        Ok(())
    }

    /// Zeroes the bytes of `range`, which are in one block, unless that is a hole.
    pub(super) fn zero_part(
        &self,
        vol: &Volume,
        state: &mut State,
        range: Range<u64>,
    ) -> Result<()> {
        self.load_part(vol, state, &range)?;
        state.blank(range);
        Ok(())
    }

    /// Loads the block of the bytes of `range` into memory, to be zeroed there, unless it is a
    /// hole.
    pub(super) fn load_part(
        &self,
        vol: &Volume,
        state: &mut State,
        range: &Range<u64>,
    ) -> Result<()> {
        let block = range.start >> vol.geo().blocklog;
        if range.is_empty() || state.dirty.has(block) {
            return Ok(());
        }
        let here = self.look_up(vol, block..block + 1, 1)?;
        if here.iter().any(|segment| matches!(segment.backing, Backing::Written(_))) {
            self.load(vol, state, block)?;
        }
        Ok(())
    }

    /// Zeroes the bytes behind the end of the file, before the file grows to `offset` bytes or more
    /// (invariant 3).
    pub(super) fn seal_end(&self, vol: &Volume, state: &mut State, offset: u64) -> Result<()> {
        let blocklog = vol.geo().blocklog;
        let end = state.size;
        let edge = end.next_multiple_of(1 << blocklog).min(SIZE_MAX);
        if end < edge && !state.dirty.has(end >> blocklog) {
            let mut tail = vec![0; index(edge - end)];
            self.read_device(vol, end, &mut tail)?;
            if tail.iter().any(|&byte| byte != 0) {
                self.load(vol, state, end >> blocklog)?;
            }
        }
        let blocks = edge >> blocklog..offset.div_ceil(1 << blocklog);
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
        blocks: Range<u64>,
        unwritten: bool,
    ) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            at = vol.transact(|tx| {
                tx.set_uses_reservation(state.reservation.is_some());
                let inode = tx.iget(self.ino)?;
                let mut at = at;
                for _ in 0..BUNMAP_MAX {
                    let next = tx.bmap_next(inode, Fork::Data, FileOff(at))?;
                    let Some(extent) = next.filter(|extent| extent.startoff.0 < blocks.end) else {
                        return Ok(blocks.end);
                    };
                    let mut part = extent.clip(FileOff(at), FileOff(blocks.end));
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
                    at = part.end().0;
                }
                Ok(at)
            })?;
        }
        Ok(())
    }
}
