//! Shares, copies and exchanges content of two files, and unshares it.

use std::ops::{Deref, Range};

use xfskit_core::Error as Core;
use xfskit_units::{ByteOffset, index};

use super::handle::{FileHandle, bytes};
use crate::{Error, Fs, Result};

/// Number of bytes copied at once if blocks cannot be shared.
const COPY_BYTES: u64 = 1 << 20;

impl<F: Deref<Target = Fs>> FileHandle<F> {
    /// Shares `source` of the file `from`, which may be this one, at byte `offset`: both map the
    /// same blocks afterwards (`FICLONERANGE`). Whole blocks are shared; `source` may end within a
    /// block at the end of `from`, if this file ends there or before too. An empty `source` does
    /// nothing: `0..from.size()` is the whole file.
    ///
    /// # Errors
    /// [`Core::Unsupported`] on a volume without reflink, [`Core::Limit`] for ranges that cannot be
    /// shared, and too little space. Nothing has changed then.
    pub fn share(&self, offset: u64, from: &Self, source: Range<u64>) -> Result<()> {
        self.same_volume(from)?;
        if source.is_empty() {
            return Ok(());
        }
        let now = self.fs().clock.now();
        let (to, from) = (self.content(), from.content());
        Ok(to.share(&self.fs().volume, ByteOffset(offset), from, bytes(&source), now)?)
    }

    /// Allocates own blocks for the parts of `range` that other files share.
    ///
    /// # Errors
    /// There is no space. Nothing has changed then.
    pub fn unshare(&self, range: Range<u64>) -> Result<()> {
        Ok(self.content().unshare(&self.fs().volume, bytes(&range))?)
    }

    /// Copies `source` of the file `from` to byte `offset` (`copy_file_range`): by sharing blocks
    /// if possible, else by copying. Returns the number of bytes copied, which is smaller at the
    /// end of `from` and if there is no space for the rest.
    ///
    /// # Errors
    /// [`Core::Limit`] if `source` and its destination overlap in one file; as
    /// [`write`](Self::write) for the first bytes. Nothing has changed then.
    pub fn copy_range(&self, offset: u64, from: &Self, source: Range<u64>) -> Result<u64> {
        self.same_volume(from)?;
        let size = from.size();
        let end = source.end.min(size);
        let len = end.saturating_sub(source.start);
        if self.ino() == from.ino() && source.start.abs_diff(offset) < len {
            return Err(Core::Limit("a part of a file cannot be copied over itself").into());
        }
        let shared = self.sharable(offset, from, source.start..end, size);
        let mut copied = 0;
        let answer = self
            .copy_bytes(offset, from, source.start..shared.start, &mut copied)
            .and_then(|()| self.share(offset + copied, from, shared.clone()))
            .and_then(|()| {
                copied += shared.end - shared.start;
                self.copy_bytes(offset, from, source.start + copied..end, &mut copied)
            });
        match answer {
            Err(Error::Core(Core::NoSpace(_))) if copied > 0 => Ok(copied),
            answer => answer.map(|()| copied),
        }
    }

    /// Exchanges the bytes of `range` with those of `other` from `offset` on, atomically: whole
    /// blocks, or up to the end of both files.
    ///
    /// # Errors
    /// [`Core::Unsupported`] on a volume without the exchange feature, [`Core::Limit`] for other
    /// ranges, [`Core::NoSpace`] if the maps of both files could not grow. Nothing has changed
    /// then. If the device fails halfway, the volume is shut down, and recovery completes the
    /// exchange.
    pub fn exchange_range(&self, range: Range<u64>, other: &Self, offset: u64) -> Result<()> {
        self.same_volume(other)?;
        let (now, ours, theirs) = (self.fs().clock.now(), self.content(), other.content());
        let offset = ByteOffset(offset);
        Ok(ours.exchange_range(&self.fs().volume, bytes(&range), theirs, offset, now)?)
    }

    /// Exchanges all content with that of `other`, sizes included, atomically.
    ///
    /// # Errors
    /// As [`exchange_range`](Self::exchange_range).
    pub fn exchange(&self, other: &Self) -> Result<()> {
        self.same_volume(other)?;
        let now = self.fs().clock.now();
        Ok(self.content().exchange(&self.fs().volume, other.content(), now)?)
    }

    /// Returns the part of `source`, of the file `from` with `size` bytes, that can be shared from
    /// byte `offset` of this one on; an empty range at the start of `source` if there is none.
    fn sharable(&self, offset: u64, from: &Self, source: Range<u64>, size: u64) -> Range<u64> {
        let geo = self.fs().volume.geo();
        let blocksize = 1_u64 << geo.blocklog;
        let nothing = source.start..source.start;
        let apart = offset % blocksize != source.start % blocksize;
        if apart || !geo.features.reflink() || source.end <= source.start {
            return nothing;
        }
        let start = source.start.next_multiple_of(blocksize);
        let reaches = offset.saturating_add(source.end - source.start);
        // A part before a block is written first: within one file, its end moves then.
        let end_moves = self.ino() == from.ino() && start > source.start;
        let to_both_ends = source.end == size && reaches >= self.size() && !end_moves;
        let end = if to_both_ends { source.end } else { source.end / blocksize * blocksize };
        if start < end { start..end } else { nothing }
    }

    /// Copies by reading and writing; `copied` bytes are at `offset` already.
    fn copy_bytes(
        &self,
        offset: u64,
        from: &Self,
        source: Range<u64>,
        copied: &mut u64,
    ) -> Result<()> {
        let mut at = source.start;
        let mut buf = vec![0; index(COPY_BYTES.min(source.end.saturating_sub(at)))];
        while at < source.end {
            let len = index((source.end - at).min(COPY_BYTES));
            let len = from.read(at, &mut buf[..len])?;
            if len == 0 {
                // The file was truncated meanwhile.
                return Ok(());
            }
            self.write(offset.saturating_add(*copied), &buf[..len])?;
            at += len as u64;
            *copied += len as u64;
        }
        Ok(())
    }

    pub(super) fn same_volume(&self, other: &Self) -> Result<()> {
        if std::ptr::eq(self.fs(), other.fs()) {
            return Ok(());
        }
        Err(Core::OtherVolume.into())
    }
}
