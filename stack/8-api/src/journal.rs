//! The journal as it is on the device, before any replay.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_format::Corruption;
use xfskit_inspect::log::{self, Options};
use xfskit_log::Log;
use xfskit_target as target;
use xfskit_units::{Daddr, Geometry, Lsn};

#[cfg(doc)]
use crate::ErrorKind;
use crate::volume_options::parse;
use crate::{Error, Result, Superblock};

/// The journal of a volume as it is on the device. Nothing is replayed, and nothing is written.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let state = xfskit::Journal::open("disk.img")?.state()?;
/// println!("{}", if state.clean { "clean" } else { "waits for its replay" });
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Journal {
    device: Arc<dyn BlockDevice>,
    start: Daddr,
    geometry: Geometry,
}

/// Whether a journal waits for its replay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JournalState {
    /// Nothing is to be replayed.
    pub clean: bool,
    /// Where it ends.
    pub head: Lsn,
    /// Where it begins.
    pub tail: Lsn,
    /// The checks that records failed which were then read from other members of an array.
    pub healed: Vec<Corruption>,
}

impl Journal {
    /// Returns the journal of the volume on `target`.
    ///
    /// # Errors
    /// [`JournalUnreadable`](ErrorKind::JournalUnreadable) where it is external; those of reading
    /// the superblock.
    pub fn open(target: impl AsRef<Path>) -> Result<Self> {
        Self::of(&Superblock::read(target.as_ref())?, target, None)
    }

    /// Returns the journal of the volume on `target`, whose superblock is `superblock`. `log` names
    /// the target with an external one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn of(
        superblock: &Superblock,
        target: impl AsRef<Path>,
        log: Option<&str>,
    ) -> Result<Self> {
        let geometry = superblock.geometry();
        let (name, start) = match (geometry.log_daddr(), log) {
            (Some(_), Some(_)) => return Err(Error::new(xfskit_core::Error::InternalLog)),
            (Some(start), None) => (target.as_ref(), start),
            (None, Some(log)) => (Path::new(log), Daddr(0)),
            (None, None) => {
                let external = "it is external; its device is not named".into();
                return Err(Error::new(xfskit_core::Error::Journal(external)));
            }
        };
        let device = target::open_unchecked(&parse(name.as_os_str())?, OpenMode::ReadOnly);
        Ok(Self { device: device.map_err(Error::new)?, start, geometry })
    }

    fn log(&self) -> Result<Log<'_>> {
        Log::open(&*self.device, self.start, &self.geometry).map_err(Error::new)
    }

    /// Returns whether it waits for its replay.
    ///
    /// # Errors
    /// [`JournalDamaged`](ErrorKind::JournalDamaged), those of the device.
    pub fn state(&self) -> Result<JournalState> {
        let log = self.log()?;
        let healed = log.healed().iter().map(|record| record.corruption.clone()).collect();
        Ok(JournalState { clean: log.is_clean(), head: log.head(), tail: log.tail(), healed })
    }

    /// Prints its records, operations or transactions to `out`.
    ///
    /// # Errors
    /// As [`state`](Self::state). What comes before the damage is printed then. Those of `out`.
    pub fn print(&self, options: Options, out: &mut dyn Write) -> Result<()> {
        log::print(&self.log()?, options, out).map_err(Error::new)
    }
}
