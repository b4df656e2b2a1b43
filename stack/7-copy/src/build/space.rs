//! Free blocks of all groups during planning.

use xfskit_format::reserve;
use xfskit_mkfs::group_space::GroupSpace;
use xfskit_mkfs::layout::Extent;
use xfskit_units::{AgNumber, FsBlock, Geometry};

/// A run of consecutive blocks on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block.
    pub start: FsBlock,
    /// Number of blocks.
    pub len: u32,
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
}
