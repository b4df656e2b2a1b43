//! The hashes at which the leaves of a directory's hash tree begin, as seen by earlier descents.

use xfskit_units::DaBlock;

/// Maximum number of cached leaves of one directory.
pub(crate) const LEAVES_MAX: usize = 1 << 14;

/// The cached leaves of a hash tree: the hash of the first entry, in order, and the block.
#[derive(Debug, Default)]
pub(crate) struct Leaves(pub(crate) Vec<(u32, DaBlock)>);

impl Leaves {
    /// Returns the last leaf that begins below `hash`.
    pub(crate) fn guess(&self, hash: u32) -> Option<DaBlock> {
        let end = self.0.partition_point(|(first, _)| *first < hash);
        self.0[..end].last().map(|(_, leaf)| *leaf)
    }

    /// Records that the leaf at `leaf` has entries from `first` to `last`, so that no other leaf
    /// begins between.
    pub(crate) fn note(&mut self, (first, last): (u32, u32), leaf: DaBlock) {
        if self.0.len() >= LEAVES_MAX {
            self.0.clear();
        }
        let start = self.0.partition_point(|(other, _)| *other < first);
        let end = self.0.partition_point(|(other, _)| *other <= first || *other < last);
        self.0.splice(start..end, [(first, leaf)]);
    }
}
