//! The map of one fork, read for itself: as much of it as is sound.

use xfskit_block::BlockDevice;
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{self, Dinode};
use xfskit_units::{FsBlock, Geometry, Ino};

use crate::finding::Sink;
use crate::forks::{self, Mapped};
use crate::volume::{HealedBlocks, Volume};

/// The map of a fork.
#[derive(Debug, Default)]
pub struct ForkMap {
    /// The extents that are sound, in file order.
    pub extents: Vec<Extent>,
    /// The blocks of the map's own btree.
    pub btree: Vec<FsBlock>,
    /// The map could be followed to its end, and all of it is sound.
    pub whole: bool,
}

impl ForkMap {
    /// Returns the number of blocks that are mapped, and of the map itself.
    pub fn blocks(&self) -> u64 {
        let mapped = self.extents.iter().map(|extent| extent.blockcount.0);
        mapped.fold(self.btree.len() as u64, u64::saturating_add)
    }
}

/// Reads the map of a fork of inode `ino`. A fork without a map (in the inode, or none) has an
/// empty one, which is whole.
pub fn fork_map(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    inode: &Dinode<'_>,
    ino: Ino,
    fork: Fork,
) -> ForkMap {
    let healed = HealedBlocks::default();
    let vol = Volume {
        dev,
        geo: geo.clone(),
        log_head: None,
        log_clean: true,
        scrub: false,
        heal: false,
        healed: &healed,
        mismatches: None,
        owners: None,
        known_chunks: None,
        surveyor: None,
        spill: None,
        sink: Sink::quiet(),
    };
    let mut map = ForkMap::default();
    let mut scratch = forks::Scratch::default();
    let at = inode::location(geo, ino);
    let mut each = |mapped| match mapped {
        Mapped::Extent(extent) => map.extents.push(extent),
        Mapped::Btree(block) => map.btree.push(block),
    };
    map.whole = forks::walk(&vol, &mut scratch, inode, at, fork, &mut each);
    map
}
