//! The order of writing.
//!
//! 1. The undo file gets every range that will be overwritten, and is made durable.
//! 2. The primary superblock is marked: Linux refuses the volume until it is repaired.
//! 3. All other ranges are written, and made durable.
//! 4. The primary superblock is written without the mark.
//!
//! A crash before the second step leaves the volume as it was. A crash later leaves one that the
//! same repair finishes: it finds the same files, since none of their blocks is written.

use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, ByteOffset};

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
        if self.changed.is_empty() {
            return Ok(Committed { ranges: 0, bytes: 0 });
        }
        if let Some(undo) = undo {
            self.save(target, undo)?;
        }
        self.write(target).map_err(Error::Commit)
    }

    /// Saves what the ranges have, and the first block, which the mark changes.
    fn save(&self, target: &dyn BlockDevice, undo: &mut UndoFile) -> Result<()> {
        let first = ByteOffset(0)..ByteOffset(self.geo.sectsize() as u64);
        let with_first = self.changed.iter().any(|range| range.start.0 == 0);
        for range in self.changed.iter().chain((!with_first).then_some(&first)) {
            let len = usize::try_from(range.end.0 - range.start.0).unwrap_or(RECORD_MAX);
            let (mut old, mut new) = (vec![0; len], vec![0; len]);
            target.read_at(range.start, &mut old)?;
            self.overlay.read_at(range.start, &mut new)?;
            undo.add(range.start, &old, &new)?;
        }
        undo.finish()
    }

    fn write(&self, target: &dyn BlockDevice) -> xfskit_block::Result<Committed> {
        let sector = self.geo.sectsize();
        // Where the repair leaves it as it is, the overlay reads it from the target.
        let mut first = vec![0; sector];
        self.overlay.read_at(ByteOffset(0), &mut first)?;
        let marked = superblocks::with_needsrepair(&self.superblock);
        let marked = superblocks::sector(&self.geo, &marked);
        target.write_at(ByteOffset(0), &marked)?;
        target.flush()?;
        let mut done = Committed { ranges: 0, bytes: 0 };
        for range in &self.changed {
            let skipped = if range.start.0 == 0 { sector } else { 0 };
            let len = usize::try_from(range.end.0 - range.start.0).unwrap_or(RECORD_MAX);
            let mut bytes = vec![0; len.saturating_sub(skipped)];
            let at = range.start.saturating_plus(ByteLen(skipped as u64));
            self.overlay.read_at(at, &mut bytes)?;
            target.write_at(at, &bytes)?;
            done.ranges += 1;
            done.bytes += bytes.len() as u64;
        }
        target.flush()?;
        target.write_at(ByteOffset(0), &first)?;
        target.flush()?;
        done.bytes += sector as u64;
        Ok(done)
    }
}
