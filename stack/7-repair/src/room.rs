//! Blocks for what is made again: those that no file uses.

use std::collections::BTreeMap;

use xfskit_bulk::bmbt;
use xfskit_check::Survey;
use xfskit_format::bmbt::Extent;
use xfskit_mkfs::layout;
use xfskit_units::{AgBlock, AgNumber, FileOff, FsBlock, Geometry};

use crate::error::{Error, Result};
use crate::groups;

/// Blocks that a repair may give to files.
#[derive(Debug)]
pub(crate) struct Room<'r> {
    geo: &'r Geometry,
    /// For each group its runs, the last of them used first.
    free: BTreeMap<AgNumber, Vec<layout::Extent>>,
}

impl<'r> Room<'r> {
    /// Returns the blocks that no file of `survey` uses, without those of `kept`. Where a
    /// free-space btree can be read, only those that it has as free: others may belong to a damaged
    /// file.
    pub(crate) fn new(geo: &'r Geometry, survey: &Survey, kept: &[Extent]) -> Result<Self> {
        let mut free = BTreeMap::new();
        for group in &survey.groups {
            let unused = groups::unused(geo, group.agno, &group.owners.load()?);
            let kept = kept.iter().filter_map(|extent| {
                let (agno, agbno) = geo.fsb_split(extent.startblock)?;
                let len = u32::try_from(extent.blockcount.0).unwrap_or(u32::MAX);
                (agno == group.agno).then_some((agbno.0, len))
            });
            let mut unused = without(unused, kept.collect());
            if let Some(recorded) = &group.recorded_free {
                let mut taken = Vec::new();
                let mut at = 0;
                for run in recorded {
                    taken.push((at, run.start.saturating_sub(at)));
                    at = run.start.saturating_add(run.len);
                }
                taken.push((at, u32::MAX - at));
                unused = without(unused, taken);
            }
            unused.reverse();
            free.insert(group.agno, unused);
        }
        Ok(Self { geo, free })
    }

    /// Takes `blocks` blocks, of group `near` first.
    ///
    /// # Errors
    /// [`Error::NoBlocks`].
    pub(crate) fn take(&mut self, near: AgNumber, blocks: u64) -> Result<Vec<(FsBlock, u64)>> {
        let mut taken = Vec::new();
        let mut left = blocks;
        let others: Vec<_> = self.free.keys().copied().filter(|agno| *agno != near).collect();
        for agno in std::iter::once(near).chain(others) {
            let Some(runs) = self.free.get_mut(&agno) else { continue };
            while left > 0
                && let Some(run) = runs.last_mut()
            {
                let len = u32::try_from(left).unwrap_or(u32::MAX).min(run.len.0);
                if len > 0 {
                    taken.push((self.geo.agb_to_fsb(agno, run.start), len.into()));
                    left -= u64::from(len);
                }
                run.start = AgBlock(run.start.0 + len);
                run.len.0 -= len;
                if run.len.0 == 0 {
                    runs.pop();
                }
            }
        }
        if left > 0 { Err(Error::NoBlocks { missing: left }) } else { Ok(taken) }
    }

    /// Takes blocks for `parts` of a fork (first file block, number of blocks), and returns its
    /// map.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn map(&mut self, near: AgNumber, parts: &[(u64, u64)]) -> Result<Vec<Extent>> {
        let mut extents = Vec::new();
        for (start, blocks) in parts {
            let mut at = *start;
            for (block, len) in self.take(near, *blocks)? {
                bmbt::append(&mut extents, FileOff(at), block, len);
                at += len;
            }
        }
        Ok(extents)
    }

    /// Takes single blocks.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn blocks(&mut self, near: AgNumber, count: usize) -> Result<Vec<FsBlock>> {
        let runs = self.take(near, count as u64)?;
        let each = |(block, len): (FsBlock, u64)| (block.0..block.0 + len).map(FsBlock);
        Ok(runs.into_iter().flat_map(each).collect())
    }
}

/// Returns `runs`, which ascend, without the ranges `taken` (first block, number of blocks).
fn without(runs: Vec<layout::Extent>, mut taken: Vec<(u32, u32)>) -> Vec<layout::Extent> {
    taken.sort_unstable();
    let mut left = Vec::new();
    for run in runs {
        let (mut at, end) = (run.start.0, run.end());
        let from = taken.partition_point(|(start, _)| *start < at);
        // One that begins before the run may reach into it: ranges do not overlap, so it is the
        // last.
        let from = from.saturating_sub(1);
        for (start, len) in taken[from..].iter().take_while(|(start, _)| *start < end) {
            push(&mut left, at, (*start).min(end));
            at = at.max(start.saturating_add(*len));
        }
        push(&mut left, at, end);
    }
    left
}

fn push(runs: &mut Vec<layout::Extent>, start: u32, end: u32) {
    if start < end {
        let len = xfskit_units::ExtLen(end - start);
        runs.push(layout::Extent { start: AgBlock(start), len });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_blocks_are_left_out() {
        let run = |start: u32, end: u32| layout::Extent {
            start: AgBlock(start),
            len: xfskit_units::ExtLen(end - start),
        };
        let left = |taken: &[(u32, u32)]| -> Vec<(u32, u32)> {
            let runs = vec![run(4, 10), run(20, 30)];
            without(runs, taken.to_vec()).iter().map(|run| (run.start.0, run.end())).collect()
        };
        assert_eq!(left(&[]), [(4, 10), (20, 30)]);
        assert_eq!(left(&[(0, 5), (8, 14), (22, 2), (29, 9)]), [(5, 8), (24, 29)]);
        assert_eq!(left(&[(0, 40)]), []);
    }
}
