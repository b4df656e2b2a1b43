//! What a volume is: its label, UUID, features and groups; and what was done with it so far.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use xfskit_core::superblock::SecondarySuperblock;
use xfskit_core::{Healed, Heals, Orphan, Replay, Stats};
use xfskit_format::Corruption;
use xfskit_mkfs::Summary;
use xfskit_units::{Geometry, Ino, Uuid};

use crate::{Error, Result, Volume};

/// One allocation group, by its headers. Lengths in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Group {
    /// Number of the group.
    pub agno: u32,
    /// Blocks of the group.
    pub blocks: u32,
    /// Blocks that are free.
    pub free: u32,
    /// Length of the longest free extent.
    pub longest_free: u32,
    /// Inodes for which there is space on disk.
    pub inodes: u32,
    /// Those of them that are free.
    pub inodes_free: u32,
}

/// The blocks of a volume that were bad in the way they were read first, and sound in another:
/// copies of a mirror, reconstructions from parity. It stays after the volume is closed.
#[derive(Clone, Debug)]
pub struct HealLog(Arc<Heals>);

impl HealLog {
    /// Returns how many blocks there were so far.
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Returns the first thousand of them.
    pub fn list(&self) -> Vec<Healed> {
        self.0.list()
    }
}

impl Volume {
    fn core(&self) -> &xfskit_core::Volume {
        self.owner.volume()
    }

    /// Returns the label; empty if there is none.
    pub fn label(&self) -> OsString {
        OsString::from_vec(self.core().label())
    }

    /// Sets the label, at most 12 bytes; an empty one removes it.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for one that is too long or has a zero byte
    /// in it; [`ReadOnly`](crate::ErrorKind::ReadOnly).
    pub fn set_label(&self, label: impl AsRef<OsStr>) -> Result<()> {
        let _running = self.owner.enter()?;
        self.core().set_label(label.as_ref().as_bytes()).map_err(Error::new)
    }

    /// Returns the UUID. [`VolumeOptions::set_uuid`](crate::VolumeOptions::set_uuid) gives a volume
    /// another one.
    pub fn uuid(&self) -> Uuid {
        self.core().geo().uuid
    }

    /// Returns the UUID that the volume was made with, which all its metadata blocks carry.
    pub fn meta_uuid(&self) -> Uuid {
        self.core().geo().meta_uuid
    }

    /// Returns the sizes of the volume.
    pub fn geometry(&self) -> &Geometry {
        self.core().geo()
    }

    /// Returns the sizes and features in the words of mkfs.xfs and xfs_info. `data` and `log` name
    /// the devices there.
    pub fn summary(&self, data: &str, log: Option<&str>) -> Summary {
        Summary::of(self.core().geo(), data, log)
    }

    /// Returns the names of the features, in the order of the feature words.
    pub fn features(&self) -> Vec<&'static str> {
        self.core().geo().features.names()
    }

    /// Returns true if files can share blocks:
    /// [`File::clone_range`](crate::File::clone_range).
    pub fn has_reflink(&self) -> bool {
        self.core().geo().features.reflink()
    }

    /// Returns the allocation groups.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), those of the device.
    pub fn groups(&self) -> Result<Vec<Group>> {
        let _running = self.owner.enter()?;
        let volume = self.core();
        let group = |agno| {
            let (agf, agi) = (volume.agf(agno)?, volume.agi(agno)?);
            Ok(Group {
                agno: agno.0,
                blocks: agf.length.get(),
                free: agf.freeblks.get(),
                longest_free: agf.longest.get(),
                inodes: agi.count.get(),
                inodes_free: agi.freecount.get(),
            })
        };
        volume.geo().ags().map(group).collect::<xfskit_core::Result<_>>().map_err(Error::new)
    }

    /// Returns what was done with the volume so far: transactions, journal, write-back, buffers,
    /// locks. Of a volume that is open for reading only the buffers are counted.
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }

    /// Returns the log of the blocks that were read in another way because a copy of them is bad.
    pub fn heal_log(&self) -> HealLog {
        HealLog(Arc::clone(self.core().cache().heals()))
    }

    /// Returns what the journal held when the volume was opened, and what became of it; `None` if
    /// it was not read.
    pub fn replay(&self) -> Option<&Replay> {
        self.core().replay()
    }

    /// Returns the deleted files whose space cannot be given back because they are damaged. They
    /// keep it until the volume is repaired.
    pub fn damaged_orphans(&self) -> Vec<Orphan> {
        self.core().damaged_orphans()
    }

    /// Returns the damage of the volume as a whole that did not keep it from being opened.
    pub fn faults(&self) -> &[Corruption] {
        self.core().faults()
    }

    /// Returns the number of bytes that the device is too short by to hold the volume.
    pub fn missing_bytes(&self) -> u64 {
        let need = self.core().geo().data_bytes();
        need.0.saturating_sub(self.core().device().size().0)
    }

    /// Returns the secondary superblock that is read in place of a damaged primary.
    pub fn secondary_superblock(&self) -> Option<&SecondarySuperblock> {
        self.core().secondary_superblock()
    }

    /// Returns one path of each of these inodes, as far as parent pointers or directories name it.
    /// Directories that cannot be read are passed over; [`FindPaths`](crate::FindPaths) reports
    /// them.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed).
    pub fn paths_of(&self, inos: impl IntoIterator<Item = u64>) -> Result<BTreeMap<u64, PathBuf>> {
        let _running = self.owner.enter()?;
        let paths = self.owner.paths_of(inos.into_iter().map(Ino));
        let path = |(ino, path): (Ino, Vec<u8>)| (ino.0, OsString::from_vec(path).into());
        Ok(paths.into_iter().map(path).collect())
    }
}
