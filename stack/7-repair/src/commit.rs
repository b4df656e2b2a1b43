//! The order of writing.
//!
//! 1. The undo file gets every range that will be overwritten, and is made durable.
//!    Then the device rewrites damaged blocks of which it has a sound copy.
//! 2. A dirty journal: all that its replay changes is written in place, then the journal itself,
//!    which is clean from then on. A crash before that leaves one that is replayed again. A damaged
//!    journal is written as a whole, on a volume that is marked: its first sector becomes zero,
//!    then the rest is written, and then the first sector. A crash before that leaves a journal as
//!    it was, whose replay is in place; or one of which nothing is replayed, and that is cleared.
//! 3. The primary superblock is marked: Linux refuses the volume until it is repaired.
//! 4. Blocks of files that are made again are written: directories, attributes, maps. They are
//!    blocks that no file used. Then the inodes, which lead to them. Then everything else: what
//!    groups have of their own. Each is made durable before the next begins.
//! 5. The primary superblock is written without the mark.
//!
//! A crash after the third step leaves a volume that the same repair finishes: each inode is the
//! old one, with all of its old blocks, or the new one.

use std::ops::{ControlFlow, Range};

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_units::{ByteLen, ByteOffset, Daddr, index};

use crate::changes::merged;
use crate::error::{Error, Result};
use crate::prepare::Prepared;
use crate::stages::Stage;
use crate::superblocks;
use crate::undo::{RECORD_MAX, UndoFile};

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// What a commit is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitPhase {
    /// The undo file gets what will be overwritten. The target is only read.
    Undo,
    /// The target is written.
    Write,
}

impl CommitPhase {
    /// Returns the phase's title for a progress bar.
    pub fn title(self) -> &'static str {
        match self {
            Self::Undo => "undo file",
            Self::Write => "repair",
        }
    }
}

/// Receives the bytes that are done, and all bytes, of a phase. Where it breaks before the first
/// write to the target, the commit ends.
pub type CommitProgress<'p> = &'p mut dyn FnMut(CommitPhase, u64, u64) -> ControlFlow<()>;

/// What a commit wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Ranges of the target.
    pub ranges: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Prepared {
    /// Writes the repair to `target`, the device that it was prepared for. All overwritten content
    /// goes to `undo` first.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::NotClean`], [`Error::Unaccounted`], [`Error::Losses`],
    /// [`Error::ZeroLog`], [`Error::UndoFile`]: nothing was written.
    /// [`Error::Commit`]: the volume is marked, and the same repair finishes it.
    pub fn commit(
        &self,
        target: &dyn BlockDevice,
        undo: Option<&mut UndoFile>,
    ) -> Result<Committed> {
        self.commit_with(target, undo, &mut |_, _, _| ControlFlow::Continue(()))
    }

    /// Writes the repair as [`commit`](Self::commit) does, and reports the progress.
    ///
    /// # Errors
    /// As [`commit`](Self::commit). [`Error::Stopped`]: nothing was written.
    pub fn commit_with(
        &self,
        target: &dyn BlockDevice,
        mut undo: Option<&mut UndoFile>,
        progress: CommitProgress<'_>,
    ) -> Result<Committed> {
        self.may_be_committed()?;
        if self.bytes() == 0 {
            return Ok(Committed { ranges: 0, bytes: 0 });
        }
        if let Some(undo) = &mut undo {
            self.save(target, undo, progress)?;
        }
        if progress(CommitPhase::Write, 0, self.bytes()).is_break() {
            undo.into_iter().for_each(UndoFile::give_up);
            return Err(Error::Stopped);
        }
        let done = Committed { ranges: 0, bytes: 0 };
        let mut writer = Writer { target, done, total: self.bytes(), progress };
        self.write(&mut writer).map_err(Error::Commit)?;
        Ok(writer.done)
    }

    /// Refuses what must not be written.
    fn may_be_committed(&self) -> Result<()> {
        if let Some(feature) = self.unsupported() {
            return Err(Error::Unsupported(feature.to_owned()));
        }
        if !self.after().clean() {
            return Err(Error::NotClean { errors: self.after().errors + self.after().fatals });
        }
        if !self.unaccounted().is_empty() {
            return Err(Error::Unaccounted(Box::new(self.unaccounted().clone())));
        }
        let lost = self.plan().losses().count() as u64;
        if lost > self.accepted.0 {
            return Err(Error::Losses { lost, accepted: self.accepted.0 });
        }
        if self.needs_zero_log() {
            return Err(Error::ZeroLog);
        }
        Ok(())
    }

    /// Writes everything, in the order of this module's list.
    fn write(&self, writer: &mut Writer<'_>) -> xfskit_block::Result<()> {
        if let Some(copies) = &self.copies {
            copies.write(writer.target)?;
            writer.add(copies.bytes());
        }
        if let Some(replayed) = &self.replayed {
            self.write_replayed(replayed, writer)?;
        }
        if self.changed.is_empty() { Ok(()) } else { self.write_changed(writer) }
    }

    /// Saves what all ranges have, and the first sector, which the mark changes.
    fn save(
        &self,
        target: &dyn BlockDevice,
        undo: &mut UndoFile,
        progress: CommitProgress<'_>,
    ) -> Result<()> {
        let first = ByteOffset(0)..ByteOffset(self.geo.sectsize() as u64);
        let all = self.of_replay.iter().chain(&self.changed).chain([&first]).cloned();
        let pieces = pieces(all.collect());
        let total = pieces.iter().map(|range| range.end.0 - range.start.0).sum();
        let mut saved = 0;
        for range in pieces {
            if progress(CommitPhase::Undo, saved, total).is_break() {
                return Err(Error::Stopped);
            }
            let len = index(range.end.0 - range.start.0);
            saved += len as u64;
            let (mut old, mut mid, mut new) = (vec![0; len], vec![0; len], vec![0; len]);
            let zero = vec![0; len];
            self.found(target).read_at(range.start, &mut old)?;
            self.overlay.base().read_at(range.start, &mut mid)?;
            self.overlay.read_at(range.start, &mut new)?;
            // The journal's first sector is zero for a while.
            let is_zeroed = self.clears_log && !clip(&range, &self.first_of_log()).is_empty();
            let states: [&[u8]; 3] = [&mid, &new, &zero];
            undo.add(range.start, &old, &states[..2 + usize::from(is_zeroed)])?;
        }
        let _ = progress(CommitPhase::Undo, saved, total);
        undo.finish()
    }

    /// Returns the device as the repair found it: with the copies that it has of damaged blocks,
    /// which are not taken back.
    fn found<'d>(&'d self, target: &'d dyn BlockDevice) -> &'d dyn BlockDevice {
        self.copies.as_ref().map_or(target, |copies| &**copies)
    }

    /// Returns the bytes of the journal.
    fn log(&self) -> Range<ByteOffset> {
        let start = self.geo.log_daddr().map_or(ByteOffset(0), Daddr::byte_offset);
        let len = self.geo.log_daddr().map_or(0, |_| u64::from(self.geo.logblocks));
        start..start.saturating_plus(ByteLen(len << self.geo.blocklog))
    }

    /// Returns the first sector of the journal.
    fn first_of_log(&self) -> Range<ByteOffset> {
        let start = self.log().start;
        start..start.saturating_plus(ByteLen(self.geo.sectsize() as u64))
    }

    /// Writes what the replay changed, the journal last.
    fn write_replayed(
        &self,
        replayed: &OverlayDevice,
        writer: &mut Writer<'_>,
    ) -> xfskit_block::Result<()> {
        let (log, first, target) = (self.log(), self.first_of_log(), writer.target);
        let mut write = |part: Range<ByteOffset>| {
            let parts = self.of_replay.iter().map(|range| clip(range, &part));
            parts.into_iter().try_for_each(|part| writer.copy(replayed, &part))
        };
        write(ByteOffset(0)..log.start)?;
        write(log.end..ByteOffset(u64::MAX))?;
        target.flush()?;
        if self.clears_log {
            target.write_at(first.start, &vec![0; self.geo.sectsize()])?;
            target.flush()?;
            write(first.end..log.end)?;
            target.flush()?;
            write(first)?;
        } else {
            write(log)?;
        }
        target.flush()
    }

    /// Writes what differs after that, between the mark and its removal.
    fn write_changed(&self, writer: &mut Writer<'_>) -> xfskit_block::Result<()> {
        let target = writer.target;
        // Where the repair leaves it as it is, the overlay reads it from the target.
        let mut first = vec![0; self.geo.sectsize()];
        self.overlay.read_at(ByteOffset(0), &mut first)?;
        let marked = superblocks::with_mark(&self.superblock);
        target.write_at(ByteOffset(0), &superblocks::sector(&self.geo, &marked))?;
        target.flush()?;
        let behind = ByteOffset(first.len() as u64)..ByteOffset(u64::MAX);
        for stage in Stage::ALL {
            for (_, part) in self.stages.iter().filter(|(of, _)| *of == stage) {
                writer.copy(&self.overlay, &clip(part, &behind))?;
            }
            target.flush()?;
        }
        target.write_at(ByteOffset(0), &first)?;
        target.flush()?;
        writer.add(first.len() as u64);
        Ok(())
    }
}

/// Writes to the target, and reports the progress.
struct Writer<'w> {
    target: &'w dyn BlockDevice,
    done: Committed,
    total: u64,
    progress: CommitProgress<'w>,
}

impl Writer<'_> {
    /// Copies a range.
    fn copy(
        &mut self,
        from: &OverlayDevice,
        range: &Range<ByteOffset>,
    ) -> xfskit_block::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        for piece in cut(range.clone(), PIECE) {
            let mut bytes = vec![0; index(piece.end.0 - piece.start.0)];
            from.read_at(piece.start, &mut bytes)?;
            self.target.write_at(piece.start, &bytes)?;
            self.add(bytes.len() as u64);
        }
        self.done.ranges += 1;
        Ok(())
    }

    /// Counts bytes that were written. It is too late to stop: the volume would stay marked.
    fn add(&mut self, bytes: u64) {
        self.done.bytes += bytes;
        let _ = (self.progress)(CommitPhase::Write, self.done.bytes.min(self.total), self.total);
    }
}

/// Returns the part of a range that lies in `window`.
fn clip(range: &Range<ByteOffset>, window: &Range<ByteOffset>) -> Range<ByteOffset> {
    range.start.max(window.start)..range.end.min(window.end)
}

/// Merges ranges, and cuts them into pieces that an undo record can hold.
fn pieces(ranges: Vec<Range<ByteOffset>>) -> Vec<Range<ByteOffset>> {
    merged(ranges).into_iter().flat_map(|range| cut(range, RECORD_MAX)).collect()
}

/// Cuts a range into pieces of at most `len` bytes.
fn cut(range: Range<ByteOffset>, len: usize) -> impl Iterator<Item = Range<ByteOffset>> {
    let end = range.end.0;
    let starts = (range.start.0..end).step_by(len);
    starts.map(move |start| ByteOffset(start)..ByteOffset(end.min(start + len as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged_and_cut_into_records() {
        let max = RECORD_MAX as u64;
        let range = |start, end| ByteOffset(start)..ByteOffset(end);
        let cut = pieces(vec![range(8192, 2 * max), range(0, 512), range(4096, 8704)]);
        let cut: Vec<_> = cut.iter().map(|range| (range.start.0, range.end.0)).collect();
        assert_eq!(cut, [(0, 512), (4096, 4096 + max), (4096 + max, 2 * max)]);
    }
}
