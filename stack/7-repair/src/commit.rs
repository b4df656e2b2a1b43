//! The order of writing.
//!
//! 1. The undo file gets every range that will be overwritten, and is made durable.
//! 2. A dirty journal: all that its replay changes is written in place, then the journal itself,
//!    which is clean from then on. A crash before that leaves one that is replayed again.
//! 3. The primary superblock is marked: Linux refuses the volume until it is repaired.
//! 4. All other ranges are written, and made durable.
//! 5. The primary superblock is written without the mark.
//!
//! A crash after the third step leaves a volume that the same repair finishes: it finds the same
//! files, since none of their blocks is written.

use std::ops::Range;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_units::{ByteOffset, index};

use crate::error::{Error, Result};
use crate::prepare::Prepared;
use crate::superblocks;
use crate::undo::{RECORD_MAX, UndoFile};

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
    /// [`Error::NotClean`] and [`Error::UndoFile`]: nothing was written. [`Error::Commit`]: the
    /// volume is marked, and the same repair finishes it.
    pub fn commit(
        &self,
        target: &dyn BlockDevice,
        undo: Option<&mut UndoFile>,
    ) -> Result<Committed> {
        if !self.is_clean() {
            return Err(Error::NotClean { errors: self.after().errors + self.after().fatals });
        }
        if self.bytes() == 0 {
            return Ok(Committed { ranges: 0, bytes: 0 });
        }
        if let Some(undo) = undo {
            self.save(target, undo)?;
        }
        let mut done = Committed { ranges: 0, bytes: 0 };
        if let Some(replayed) = &self.replayed {
            self.write_replayed(target, replayed, &mut done).map_err(Error::Commit)?;
        }
        if !self.changed.is_empty() {
            self.write_changed(target, &mut done).map_err(Error::Commit)?;
        }
        Ok(done)
    }

    /// Saves what all ranges have, and the first sector, which the mark changes.
    fn save(&self, target: &dyn BlockDevice, undo: &mut UndoFile) -> Result<()> {
        let first = ByteOffset(0)..ByteOffset(self.geo.sectsize() as u64);
        let all = self.of_replay.iter().chain(&self.changed).chain([&first]).cloned();
        for range in pieces(all.collect()) {
            let len = index(range.end.0 - range.start.0);
            let (mut old, mut mid, mut new) = (vec![0; len], vec![0; len], vec![0; len]);
            target.read_at(range.start, &mut old)?;
            self.overlay.base().read_at(range.start, &mut mid)?;
            self.overlay.read_at(range.start, &mut new)?;
            undo.add(range.start, &old, &[&mid, &new])?;
        }
        undo.finish()
    }

    /// Writes what the replay changed, the journal last.
    fn write_replayed(
        &self,
        target: &dyn BlockDevice,
        replayed: &OverlayDevice,
        done: &mut Committed,
    ) -> xfskit_block::Result<()> {
        let log = self.geo.log_daddr().map_or(0..0, |start| {
            let start = start.byte_offset().0;
            start..start + (u64::from(self.geo.logblocks) << self.geo.blocklog)
        });
        for is_log in [false, true] {
            let ranges =
                self.of_replay.iter().filter(|range| log.contains(&range.start.0) == is_log);
            for range in ranges {
                copy(replayed, target, range, done)?;
            }
            target.flush()?;
        }
        Ok(())
    }

    /// Writes what differs after that, between the mark and its removal.
    fn write_changed(
        &self,
        target: &dyn BlockDevice,
        done: &mut Committed,
    ) -> xfskit_block::Result<()> {
        // Where the repair leaves it as it is, the overlay reads it from the target.
        let mut first = vec![0; self.geo.sectsize()];
        self.overlay.read_at(ByteOffset(0), &mut first)?;
        let marked = superblocks::with_mark(&self.superblock);
        target.write_at(ByteOffset(0), &superblocks::sector(&self.geo, &marked))?;
        target.flush()?;
        let behind = ByteOffset(first.len() as u64);
        for range in &self.changed {
            copy(&self.overlay, target, &(range.start.max(behind)..range.end), done)?;
        }
        target.flush()?;
        target.write_at(ByteOffset(0), &first)?;
        target.flush()?;
        done.bytes += first.len() as u64;
        Ok(())
    }
}

/// Copies a range.
fn copy(
    from: &OverlayDevice,
    to: &dyn BlockDevice,
    range: &Range<ByteOffset>,
    done: &mut Committed,
) -> xfskit_block::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let mut bytes = vec![0; index(range.end.0 - range.start.0)];
    from.read_at(range.start, &mut bytes)?;
    to.write_at(range.start, &bytes)?;
    done.ranges += 1;
    done.bytes += bytes.len() as u64;
    Ok(())
}

/// Merges ranges, and cuts them into pieces that an undo record can hold.
fn pieces(mut ranges: Vec<Range<ByteOffset>>) -> Vec<Range<ByteOffset>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<ByteOffset>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    let cut = |range: Range<ByteOffset>| {
        let end = range.end.0;
        (range.start.0..end)
            .step_by(RECORD_MAX)
            .map(move |start| ByteOffset(start)..ByteOffset(end.min(start + RECORD_MAX as u64)))
    };
    merged.into_iter().flat_map(cut).collect()
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
