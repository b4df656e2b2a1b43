//! Sync and close of a volume.

use std::sync::atomic::Ordering;

use xfskit_trans::Stats;

use crate::error::{Error, Result};
use crate::orphan::Orphan;
use crate::superblock_edit;
use crate::volume::Volume;

/// The result of closing a volume.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Statistics since the volume was opened.
    pub stats: Stats,
    /// Deleted inodes that could not be freed because the device failed. For them the journal stays
    /// dirty, and the next opening for writing tries again.
    pub orphans_left: Vec<Orphan>,
}

impl Closed {
    /// Returns true if the journal is clean: nothing is left to be done at the next opening.
    pub fn is_clean(&self) -> bool {
        self.orphans_left.is_empty()
    }

    /// Returns the statistics of a volume whose journal is clean now.
    ///
    /// # Errors
    /// [`Error::LeftDirty`] names the orphans for which it is not.
    pub fn into_clean(self) -> Result<Stats> {
        if self.is_clean() {
            return Ok(self.stats);
        }
        Err(Error::LeftDirty(self.orphans_left))
    }
}

impl Volume {
    /// Makes all changes so far durable, file contents included.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Trans`] if the volume was shut down, or if this call shuts it
    /// down.
    pub fn sync(&self) -> Result<()> {
        let engine = self.engine()?;
        self.flush_contents()?;
        Ok(engine.checkpoint()?)
    }

    /// Makes all changes so far durable and writes them in place, while others go on.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn write_back(&self) -> Result<()> {
        self.sync()?;
        Ok(self.engine()?.write_back()?)
    }

    /// Makes all changes so far durable and writes them in place, so that the device has the whole
    /// volume. The journal is clean afterwards, unless there are inodes without a name: those that
    /// are open (`has_unlinked`), and orphans that could not be freed. No mount looks for them
    /// behind a clean journal. The caller makes sure that no change is running; later changes
    /// continue the journal.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Trans`] if the volume was shut down, or if this call shuts it
    /// down.
    pub fn quiesce(&self, has_unlinked: bool) -> Result<()> {
        let engine = self.engine()?;
        self.flush_contents()?;
        self.unstage_contents()?;
        superblock_edit::log_counters(self)?;
        if has_unlinked || !self.orphans_left.lock().is_empty() {
            engine.checkpoint()?;
            engine.write_back()?;
        } else {
            engine.unmount()?;
        }
        Ok(())
    }

    /// Closes the volume: makes all changes durable, writes them in place, writes the counters to
    /// the superblock, and marks the journal clean. The journal stays dirty if there are orphans
    /// that could not be freed, because no mount looks for orphans behind a clean journal. Does
    /// nothing for a volume that is open for reading.
    ///
    /// # Errors
    /// [`Error::Trans`] if the volume was shut down, or if this call shuts it down;
    /// [`Error::LeftDirty`] if it is closed and its journal stays dirty.
    pub fn close(self) -> Result<()> {
        self.close_counted()?.into_clean().map(drop)
    }

    /// Closes like [`close`](Self::close), and returns the statistics since the volume was opened
    /// and the orphans that keep the journal dirty.
    ///
    /// # Errors
    /// [`Error::Trans`].
    pub fn close_counted(self) -> Result<Closed> {
        self.close_shared()
    }

    /// Closes like [`close`](Self::close) a volume that other parts of the program still refer to:
    /// every later change fails with [`Error::Closed`]. The caller makes sure that no change is
    /// running.
    ///
    /// # Errors
    /// [`Error::Trans`].
    pub fn close_shared(&self) -> Result<Closed> {
        self.check_open()?;
        if let Ok(engine) = self.engine() {
            self.flush_contents()?;
            self.unstage_contents()?;
            if !std::mem::take(&mut *self.orphans_left.lock()).is_empty() {
                engine.checkpoint()?;
                self.inactivate_orphans()?;
            }
            superblock_edit::log_counters(self)?;
            if self.orphans_left.lock().is_empty() {
                engine.unmount()?;
            } else {
                engine.checkpoint()?;
                engine.write_back()?;
            }
        }
        self.closed.store(true, Ordering::Release);
        let orphans_left = std::mem::take(&mut *self.orphans_left.lock());
        Ok(Closed { stats: self.stats(), orphans_left })
    }
}
