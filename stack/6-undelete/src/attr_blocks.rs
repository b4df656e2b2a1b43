//! Where the attributes of a removed file were, and what the journal has of them.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use xfskit_format::bmbt::Extent;
use xfskit_units::{Daddr, FileOff, Geometry, Lsn};

/// Maximum number of blocks of one attribute fork that are read.
pub(crate) const BLOCKS_MAX: usize = 1 << 14;

/// The blocks of the attributes of a removed file.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttrBlocks {
    /// The map of the attribute fork, in order.
    pub map: Vec<Extent>,
    /// The map, or the short form in the inode, cannot be read as a whole.
    pub is_damaged: bool,
    /// What the journal has of leaves.
    pub logged: Arc<Leaves>,
}

/// The logged parts of leaves, oldest first.
pub(crate) type Leaves = FxHashMap<Daddr, Vec<Part>>;

/// A logged part of a leaf; without bytes, the note that the block was logged as something else.
/// The first leaf of a fork moves when the fork becomes a tree, and a node takes its block.
#[derive(Debug)]
pub(crate) struct Part {
    pub lsn: Lsn,
    pub is_leaf: bool,
    /// First byte in the block.
    pub offset: usize,
    pub bytes: Vec<u8>,
}

impl AttrBlocks {
    /// Returns the numbers of the blocks in the fork.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = FileOff> + '_ {
        let blocks = |extent: &Extent| (extent.startoff.0..extent.end().0).map(FileOff);
        self.map.iter().flat_map(blocks).take(BLOCKS_MAX)
    }

    /// Returns true if there are more blocks than are read.
    pub(crate) fn is_too_large(&self) -> bool {
        let blocks = self.map.iter().fold(0u64, |sum, e| sum.saturating_add(e.blockcount.0));
        blocks > BLOCKS_MAX as u64
    }

    /// Returns the place of a block.
    pub(crate) fn daddr(&self, geo: &Geometry, fileoff: FileOff) -> Option<Daddr> {
        let behind = self.map.partition_point(|extent| extent.startoff <= fileoff);
        let extent = self.map.get(behind.checked_sub(1)?)?;
        geo.fsb_to_daddr(extent.block_at(fileoff)?)
    }
}
