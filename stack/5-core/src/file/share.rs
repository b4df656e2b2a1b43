//! Shared blocks: sharing blocks between files, and unsharing them before a write.
//!
//! A file with any block that ever was shared has the reflink flag. Without the flag no look-up in
//! the refcountbt is needed. Linux records the blocks that will replace shared ones as staging
//! extents, because it writes their data before it maps them. Here data is written after the commit
//! that maps it, and the checkpoint waits for the data (`content.rs`, invariant 1). New blocks are
//! therefore mapped at once. Only the additional blocks that a hint asks for are staged
//! ([`staging`](super::staging)).

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{Dinode, InodeFlags2};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{ByteLen, ByteOffset, ExtLen, FilBlks, FileOff, Ino, PositionRange};

use super::content::segment_at;
use crate::bmap::Backing;
use crate::error::{Error, Result};
use crate::icore::Touch;
use crate::open_files::{Content, END_MAX, State};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Number of shared blocks that are brought into memory at once, to be written elsewhere.
const BATCH: FilBlks = FilBlks(1024);

/// A request to share blocks of one file with another.
struct Job {
    from: FileOff,
    to: FileOff,
    blocks: FilBlks,
    /// Size of the other file afterwards.
    size: ByteLen,
    /// The other file becomes a copy of the whole file.
    whole: bool,
}

impl Tx<'_> {
    /// Returns the first part of a mapped extent of the data fork that other files map too.
    pub(crate) fn bmap_shared(&mut self, inode: TxInode, part: &Extent) -> Result<Option<Extent>> {
        if !self.core(inode).is_reflink() {
            return Ok(None);
        }
        let len = ExtLen(u32::try_from(part.blockcount.0).unwrap_or(u32::MAX));
        let found = self.find_shared(part.startblock, len)?;
        Ok(found.map(|(startblock, len)| {
            let ahead = startblock.since(part.startblock).unwrap_or(0);
            let startoff = part.startoff.saturating_add(ahead);
            Extent { startoff, startblock, blockcount: FilBlks(len.0.into()), ..*part }
        }))
    }

    /// Sets the reflink flag: the file may have shared blocks.
    pub(super) fn set_reflink(&mut self, inode: TxInode) {
        let flags2 = self.core(inode).flags2();
        if !flags2.contains(InodeFlags2::REFLINK) {
            self.set_flags2(inode, flags2 | InodeFlags2::REFLINK);
        }
    }
}

impl Content {
    /// Shares the bytes of `source` in the file `from`, which may be this file, at `offset` of this
    /// file. Both files map the same blocks afterwards. Only whole blocks are shared. `source` may
    /// end within a block if `from` ends there, and this file ends there or before.
    ///
    /// # Errors
    /// [`Error::Limit`] for ranges that cannot be shared, [`Error::NoSpace`]: then nothing has
    /// changed. [`Error::Device`], [`Error::Corrupt`].
    pub fn share(
        self: &Arc<Self>,
        vol: &Volume,
        offset: ByteOffset,
        from: &Arc<Self>,
        source: Range<ByteOffset>,
        now: Timestamp,
    ) -> Result<()> {
        if !vol.geo().features.reflink() {
            return Err(Error::Unsupported("sharing blocks on a volume without reflink".into()));
        }
        if Arc::ptr_eq(self, from) {
            let mut state = self.state.write();
            let size = state.size;
            return self.share_held(vol, &mut state, (offset, now), from.ino(), (source, size));
        }
        let (mut state, mut other) = self.lock_both(from);
        from.flush_state(vol, &mut other)?;
        let size = other.size;
        self.share_held(vol, &mut state, (offset, now), from.ino(), (source, size))
    }

    /// Locks two different files, in the order of their inode numbers.
    pub(super) fn lock_both<'c>(
        &'c self,
        other: &'c Self,
    ) -> (RwLockWriteGuard<'c, State>, RwLockWriteGuard<'c, State>) {
        if self.ino() < other.ino() {
            let state = self.state.write();
            (state, other.state.write())
        } else {
            let other = other.state.write();
            (self.state.write(), other)
        }
    }

    /// Locks this inode and another one, possibly the same, in the order of their numbers.
    pub(super) fn take_both(&self, tx: &mut Tx<'_>, other: Ino) -> Result<(TxInode, TxInode)> {
        if self.ino() < other {
            let inode = tx.iget(self.ino())?;
            Ok((inode, tx.iget(other)?))
        } else {
            let other = tx.iget(other)?;
            Ok((tx.iget(self.ino())?, other))
        }
    }

    /// Shares blocks while both files are locked. The other file has nothing in memory, and
    /// `source.1` bytes.
    fn share_held(
        &self,
        vol: &Volume,
        state: &mut State,
        (offset, now): (ByteOffset, Timestamp),
        from: Ino,
        (source, size): (Range<ByteOffset>, ByteLen),
    ) -> Result<()> {
        let job = plan(vol, offset, &source, size, state.size, from == self.ino())?;
        self.flush_state(vol, state)?;
        vol.verify_map(self.ino(), Fork::Data, &job.to.range(job.blocks))?;
        vol.verify_map(from, Fork::Data, &job.from.range(job.blocks))?;
        let extents = count_extents(vol, from, job.from.range(job.blocks))?;
        let cost = self.nodes(vol, extents + 2)?;
        self.with_reservation(vol, state, cost, |state| {
            if offset > state.end() {
                self.seal_end(vol, state, offset)?;
                self.flush_state(vol, state)?;
            }
            let mut done = FilBlks(0);
            while done < job.blocks {
                done = vol.transact_reserved(|tx| self.share_some(tx, from, &job, done))?;
            }
            state.size = job.size;
            vol.transact(|tx| {
                let (inode, source) = self.take_both(tx, from)?;
                if job.whole {
                    hand_on_hint(tx, source, inode);
                }
                tx.set_size(inode, job.size);
                tx.touch(inode, Touch::CONTENT, now);
                Ok(())
            })
        })
    }

    /// Shares as many blocks as one transaction should; `done` blocks were shared before. Returns
    /// the new number of shared blocks.
    fn share_some(&self, tx: &mut Tx<'_>, from: Ino, job: &Job, done: FilBlks) -> Result<FilBlks> {
        let (inode, source) = self.take_both(tx, from)?;
        tx.set_reflink(inode);
        tx.set_reflink(source);
        let segment = segment_at(tx, source, job.from.plus(done)..job.from.plus(job.blocks))?;
        let startoff = job.to.plus(done);
        let len = tx.unmap_end(inode, startoff, segment.blockcount)?;
        let Backing::Written(startblock) = segment.backing else {
            tx.bunmap(inode, Fork::Data, startoff, len)?;
            return Ok(done.plus(len));
        };
        let most = ExtLen(u32::try_from(len.0).unwrap_or(u32::MAX));
        let blockcount = FilBlks(tx.refcount_reach(startblock, most)?.0.into());
        tx.bunmap(inode, Fork::Data, startoff, blockcount)?;
        tx.bmap_share(inode, &Extent { startoff, startblock, blockcount, unwritten: false })?;
        Ok(done.plus(blockcount))
    }

    /// Gives the bytes of `range` blocks of their own if other files map them too. If none of the
    /// file's blocks are shared any more, the reflink flag is cleared.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: then nothing has changed. [`Error::Device`], [`Error::Corrupt`].
    pub fn unshare(&self, vol: &Volume, range: Range<ByteOffset>) -> Result<()> {
        let mut state = self.state.write();
        self.flush_state(vol, &mut state)?;
        let inside = range.start..range.end.min(state.end());
        let Range { start: mut at, end } = vol.geo().file_blocks_around(&inside);
        let new = self.shared_blocks(vol, at..end)?;
        let cost = new.saturating_plus(self.nodes(vol, new.0)?);
        self.with_reservation(vol, &mut state, cost, |state| {
            while let Some(shared) = self.next_shared(vol, at..end)? {
                at = shared.end.min(shared.start.plus(BATCH));
                for block in shared.start.0..at.0 {
                    self.load(vol, state, FileOff(block))?;
                }
                // All dirty blocks are flushed to blocks of their own.
                self.flush_state(vol, state)?;
            }
            Ok(())
        })?;
        self.forget_reflink(vol)
    }

    /// Clears the reflink flag of a file without shared blocks. No block can become shared
    /// meanwhile, because that takes the file's lock.
    fn forget_reflink(&self, vol: &Volume) -> Result<()> {
        let flagged = vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            Ok(tx.core(inode).is_reflink())
        })?;
        if !flagged || self.next_shared(vol, FileOff::ZERO..FileOff::MAX)?.is_some() {
            return Ok(());
        }
        vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            let flags2 = tx.core(inode).flags2();
            tx.set_flags2(inode, flags2 - InodeFlags2::REFLINK);
            Ok(())
        })
    }

    /// Returns the first blocks of `range` that other files map too.
    pub(super) fn next_shared(
        &self,
        vol: &Volume,
        range: Range<FileOff>,
    ) -> Result<Option<Range<FileOff>>> {
        vol.transact(|tx| {
            let inode = tx.iget(self.ino())?;
            let mut at = range.start;
            while at < range.end
                && let Some(extent) = tx.bmap_next(inode, Fork::Data, at)?
                && extent.startoff < range.end
            {
                let part = extent.clip(at, range.end);
                if let Some(shared) = tx.bmap_shared(inode, &part)? {
                    return Ok(Some(shared.startoff..shared.end()));
                }
                at = part.end();
            }
            Ok(None)
        })
    }
}

/// Copies the hint for copies on write to a copy of a whole file, if that has none.
fn hand_on_hint(tx: &mut Tx<'_>, from: TxInode, to: TxInode) {
    let hint = |core: Dinode<'_>| {
        core.flags2().contains(InodeFlags2::COWEXTSIZE).then_some(core.cowextsize().0)
    };
    if let (Some(blocks), None) = (hint(tx.core(from)), hint(tx.core(to))) {
        tx.set_cowextsize(to, blocks);
    }
}

/// Returns the number of extents of file `ino` in `blocks`.
pub(super) fn count_extents(vol: &Volume, ino: Ino, blocks: Range<FileOff>) -> Result<u64> {
    let (mut count, mut at) = (0, blocks.start);
    while let Some(next) = vol.transact(|tx| {
        let inode = tx.iget(ino)?;
        let next = tx.bmap_next(inode, Fork::Data, at)?;
        Ok(next.filter(|extent| extent.startoff < blocks.end).map(|extent| extent.end()))
    })? {
        count += 1;
        at = next;
    }
    Ok(count)
}

/// Plans the sharing of `source` of a file of `size` bytes with a file of `own` bytes.
fn plan(
    vol: &Volume,
    offset: ByteOffset,
    source: &Range<ByteOffset>,
    size: ByteLen,
    own: ByteLen,
    itself: bool,
) -> Result<Job> {
    let blocksize = vol.geo().filblks_to_bytes(FilBlks(1));
    let aligned = |at: ByteOffset| at.within(blocksize).is_zero();
    let Range { start, end } = *source;
    let inside = start < end && end.0 <= size.0;
    let reaches = offset.checked_plus(source.length()).filter(|&reaches| reaches <= END_MAX);
    let Some(reaches) = reaches.filter(|_| inside) else {
        return Err(Error::Limit("what is shared must lie within both files"));
    };
    let to_both_ends = end.0 == size.0 && reaches.0 >= own.0;
    if !((aligned(end) || to_both_ends) && aligned(start) && aligned(offset)) {
        return Err(Error::Limit("whole blocks are shared, or to the end of both files"));
    }
    let (from, to) = (vol.geo().byte_to_fileoff(start), vol.geo().byte_to_fileoff(offset));
    let blocks = FilBlks(source.length().div_ceil(blocksize));
    if itself && from.0.abs_diff(to.0) < blocks.0 {
        return Err(Error::Limit("a part of a file cannot be shared with itself"));
    }
    let whole = start.0 == 0 && offset.0 == 0 && to_both_ends;
    Ok(Job { from, to, blocks, size: own.max(ByteLen(reaches.0)), whole })
}
