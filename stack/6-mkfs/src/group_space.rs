//! Free blocks of a group while it is planned.
//!
//! A group reserves what its btrees may need later (the per-group reservations of Linux), so that a
//! volume that was filled completely can still be mounted, changed and emptied.

use xfskit_format::reserve::{self, TreeBlocks};
use xfskit_units::{AgBlock, AgNumber, ExtLen, Geometry};

use crate::layout::{AgLayout, Extent};

/// Blocks reserved for an AGFL that grows with its trees, and for splits of the inode btree.
const SLACK: u64 = 64;

/// The free blocks of one group.
#[derive(Clone, Debug)]
pub struct GroupSpace {
    /// The group.
    pub agno: AgNumber,
    /// Free extents, by block.
    pub free: Vec<Extent>,
    /// Number of blocks that may still be allocated.
    pub budget: u32,
}

/// Returns the blocks that a group reserves for the later growth of its btrees.
fn kept(geo: &Geometry, agno: AgNumber) -> u32 {
    let growth = reserve::growth(geo, agno, &TreeBlocks::default());
    u32::try_from(growth + SLACK).unwrap_or(u32::MAX)
}

impl GroupSpace {
    /// Returns group `agno` of an empty volume.
    pub fn new(geo: &Geometry, agno: AgNumber) -> Self {
        let layout = AgLayout::of(geo, agno);
        let budget = layout.free_blocks().saturating_sub(kept(geo, agno));
        Self { agno, free: layout.free, budget }
    }

    /// Returns group `agno` with these free extents, by block. All of them may be allocated.
    pub fn of(agno: AgNumber, free: Vec<Extent>) -> Self {
        Self { agno, free, budget: u32::MAX }
    }

    /// Takes exactly `extent`, all of which must be free.
    fn carve(&mut self, extent: Extent) {
        self.budget = self.budget.saturating_sub(extent.len.0);
        let at = self.free.partition_point(|free| free.end() <= extent.start.0);
        let Some(free) = self.free.get(at).copied() else { return };
        let part =
            |start: u32, end: u32| Extent { start: AgBlock(start), len: ExtLen(end - start) };
        let parts = [(free.start.0, extent.start.0), (extent.end(), free.end())];
        let left = parts.into_iter().filter(|(start, end)| start < end);
        self.free.splice(at..=at, left.map(|(start, end)| part(start, end)));
    }

    /// Returns the first free extent of `len` blocks that begins at a multiple of `align`.
    fn find(&self, len: u32, align: u32) -> Option<Extent> {
        self.free.iter().find_map(|free| {
            let start = free.start.0.checked_next_multiple_of(align)?;
            let fits = start.checked_add(len)? <= free.end();
            fits.then_some(Extent { start: AgBlock(start), len: ExtLen(len) })
        })
    }

    /// Takes `len` blocks from the first extent that has them, at a multiple of `align`. Returns
    /// `None` if no extent has, or if they are reserved.
    pub fn take(&mut self, len: u32, align: u32) -> Option<Extent> {
        let found = self.find(len, align).filter(|_| len <= self.budget)?;
        self.carve(found);
        Some(found)
    }

    /// Takes `extent`, if all of it is free.
    pub fn take_at(&mut self, extent: Extent) -> Option<()> {
        let covers = |free: &Extent| free.start <= extent.start && extent.end() <= free.end();
        let there = extent.len.0 <= self.budget && self.free.iter().any(covers);
        there.then(|| self.carve(extent))
    }

    /// Takes at most `len` blocks from the longest extent.
    pub fn take_some(&mut self, len: u32) -> Option<Extent> {
        let longest = *self.free.iter().max_by_key(|free| (free.len, u32::MAX - free.start.0))?;
        let len = len.min(longest.len.0).min(self.budget);
        let extent = Extent { len: ExtLen(len), ..longest };
        (len > 0).then(|| {
            self.carve(extent);
            extent
        })
    }

    /// Takes blocks for the group's own btrees, one after the other from the longest extents, as
    /// far as there are. They come from the reserve.
    pub fn take_kept(&mut self, len: u32) -> Vec<AgBlock> {
        self.budget = u32::MAX;
        let mut blocks = Vec::new();
        while let Some(left) = len.checked_sub(u32::try_from(blocks.len()).unwrap_or(u32::MAX))
            && let Some(extent) = self.take_some(left)
        {
            blocks.extend((extent.start.0..extent.end()).map(AgBlock));
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use xfskit_units::{ByteLen, Uuid};

    use super::*;
    use crate::{DeviceFacts, Options, Stamp, plan};

    fn geometry(size: u64) -> Geometry {
        let stamp = Stamp { uuid: Uuid::nil(), seconds: 0, nanoseconds: 0, generation: 0 };
        plan(&Options::default(), &DeviceFacts::file(ByteLen(size)), stamp).unwrap().geometry
    }

    #[test]
    fn a_group_keeps_the_blocks_that_linux_reserves() {
        // As `xfs_db -c agresv` shows it for groups of 65536 blocks: 394, 67 and 800.
        let geo = geometry(1 << 30);
        assert_eq!(u64::from(kept(&geo, AgNumber(1))), 394 + 67 + 800 + SLACK);
    }
}
