//! The superblock, read without opening the volume.

use std::path::Path;

use xfskit_block::OpenMode;
use xfskit_core::superblock::{FoundSuperblock, SecondarySuperblock, find_superblock};
use xfskit_mkfs::compat::{self, Compatibility};
use xfskit_target as target;
use xfskit_units::Geometry;

use crate::volume_options::parse;
use crate::{Error, Result};

/// The superblock of a volume. Its journal is not looked at.
#[derive(Clone, Debug)]
pub struct Superblock(FoundSuperblock);

impl Superblock {
    /// Reads the superblock of the volume on `target`. Where the primary is damaged, a secondary
    /// one takes its place.
    ///
    /// # Errors
    /// [`NotXfs`](crate::ErrorKind::NotXfs),
    /// [`SuperblockDamaged`](crate::ErrorKind::SuperblockDamaged), and those of the target.
    pub fn read(target: impl AsRef<Path>) -> Result<Self> {
        let target = parse(target.as_ref().as_os_str())?;
        let device = target::open(&target, OpenMode::ReadOnly).map_err(Error::new)?;
        find_superblock(&*device).map(Self).map_err(Error::new)
    }

    /// Returns the sizes of the volume.
    pub fn geometry(&self) -> Geometry {
        self.0.sb.geometry()
    }

    /// Returns the secondary superblock that took the place of a damaged primary.
    pub fn secondary(&self) -> Option<&SecondarySuperblock> {
        self.0.secondary.as_ref()
    }

    /// Returns what `reader` can do with the volume.
    pub fn compatibility(&self, reader: compat::Target) -> Compatibility {
        compat::compatibility(&self.geometry(), reader)
    }
}
