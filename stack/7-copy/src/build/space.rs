//! Free blocks of each group during planning.
//!
//! A group reserves what its btrees may need later (the per-group reservations of Linux), so that a
//! volume that was filled completely can still be mounted, changed and emptied.

use xfskit_format::reserve::{self, TreeBlocks};
use xfskit_mkfs::layout::{AgLayout, Extent};
use xfskit_units::{AgBlock, AgNumber, ExtLen, FsBlock, Geometry};

/// Blocks reserved for an AGFL that grows with its trees, and for splits of the inode btree.
const SLACK: u64 = 64;

/// A run of consecutive blocks on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block.
    pub start: FsBlock,
    /// Number of blocks.
    pub len: u32,
}

/// One group's free blocks.
#[derive(Clone, Debug)]
pub struct GroupSpace {
    agno: AgNumber,
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
    fn take_some(&mut self, len: u32) -> Option<Extent> {
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

/// All groups.
#[derive(Clone, Debug)]
pub struct Space<'g> {
    geo: &'g Geometry,
    /// By number.
    pub groups: Vec<GroupSpace>,
}

impl<'g> Space<'g> {
    /// Returns the space of an empty volume.
    pub fn new(geo: &'g Geometry) -> Self {
        Self { geo, groups: geo.ags().map(|agno| GroupSpace::new(geo, agno)).collect() }
    }

    /// Returns the blocks that may still be allocated: those of the groups without Linux' reserve
    /// pool.
    pub fn budget(&self) -> u64 {
        let groups: u64 = self.groups.iter().map(|group| u64::from(group.budget)).sum();
        groups.saturating_sub(reserve::pool(self.geo))
    }

    fn run(&self, agno: AgNumber, extent: Extent) -> Run {
        Run { start: self.geo.agb_to_fsb(agno, extent.start), len: extent.len.0 }
    }

    /// Allocates `blocks` as near to group `near` as possible: in one extent if a group has one,
    /// else in the longest extents. Returns `None`, and allocates nothing, if there are too few.
    pub fn alloc(&mut self, near: AgNumber, blocks: u64) -> Option<Vec<Run>> {
        if blocks == 0 {
            return Some(Vec::new());
        }
        if blocks > self.budget() {
            return None;
        }
        let count = self.groups.len();
        let order = (0..count).map(|n| (near.0 as usize + n) % count);
        if let Ok(len) = u32::try_from(blocks) {
            for index in order.clone() {
                if let Some(extent) = self.groups[index].take(len, 1) {
                    return Some(vec![self.run(self.groups[index].agno, extent)]);
                }
            }
        }
        let (mut runs, mut left) = (Vec::new(), blocks);
        for index in order {
            while left > 0 {
                let want = u32::try_from(left).unwrap_or(u32::MAX);
                let Some(extent) = self.groups[index].take_some(want) else { break };
                runs.push(self.run(self.groups[index].agno, extent));
                left -= u64::from(extent.len.0);
            }
        }
        Some(runs)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use xfskit_mkfs::{DeviceFacts, Options, Stamp, plan};
    use xfskit_test_support::Random;
    use xfskit_units::{ByteLen, Uuid};

    use super::*;

    fn geometry(size: u64) -> Geometry {
        let stamp = Stamp { uuid: Uuid::nil(), seconds: 0, nanoseconds: 0, generation: 0 };
        plan(&Options::default(), &DeviceFacts::file(ByteLen(size)), stamp).unwrap().geometry
    }

    #[test]
    fn no_block_is_allocated_twice_and_the_reserve_stays() {
        let geo = geometry(300 << 20);
        let mut space = Space::new(&geo);
        let free: u32 = space.groups.iter().flat_map(|g| &g.free).map(|free| free.len.0).sum();
        let (budget, mut given, mut random) = (space.budget(), HashSet::new(), Random::of_test(1));
        loop {
            let (near, blocks) = (AgNumber(random.below(4)), random.below(700) + 1);
            let Some(runs) = space.alloc(near, blocks) else { break };
            assert_eq!(runs.iter().map(|run| u64::from(run.len)).sum::<u64>(), blocks);
            for run in runs {
                assert!(geo.valid_fsb_extent(run.start, run.len.into()));
                assert!((0..run.len.into()).all(|n| given.insert(run.start.0 + n)));
            }
        }
        assert!(space.budget() < 700 && given.len() as u64 + space.budget() == budget);
        let left: u32 = space.groups.iter().flat_map(|g| &g.free).map(|free| free.len.0).sum();
        assert_eq!(left + u32::try_from(given.len()).unwrap(), free);
        let rest = space.budget();
        assert!(space.alloc(AgNumber(3), rest).is_some());
        assert!(space.alloc(AgNumber(3), 1).is_none());
        // The reserve is there for the btrees.
        assert!(space.groups.iter_mut().all(|group| group.take_kept(100).len() == 100));
    }

    #[test]
    fn a_group_keeps_the_blocks_that_linux_reserves() {
        // As `xfs_db -c agresv` shows it for groups of 65536 blocks: 394, 67 and 800.
        let geo = geometry(1 << 30);
        assert_eq!(u64::from(kept(&geo, AgNumber(1))), 394 + 67 + 800 + SLACK);
    }
}
