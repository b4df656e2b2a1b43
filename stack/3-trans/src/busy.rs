//! Busy extents: freed, but not reused before the checkpoint that freed them is durable.
//!
//! File data and remote attribute values are written in place without the journal. A crash can undo
//! a free that is not durable. If the block had been reused, the new data would then be found in
//! the file that the block belongs to again. Linux lets metadata reuse such blocks at once; xfskit
//! does not, because a transaction may force the checkpoint instead
//! ([`Engine::checkpoint`](crate::Engine::checkpoint)) and try again.

use std::collections::BTreeMap;

use xfskit_units::{AgBlock, AgNumber, ExtLen};

use crate::lock::{LockRank, LockStats, RankedMutex};

/// Blocks that a transaction freed. They are not reused before its checkpoint is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The group.
    pub agno: AgNumber,
    /// First block.
    pub agbno: AgBlock,
    /// Length in blocks.
    pub len: ExtLen,
}

/// Extents of one group: from start to length and number of the checkpoint.
type Extents = BTreeMap<u32, (u32, u64)>;

/// The busy extents of a volume.
#[derive(Debug)]
pub struct BusyExtents {
    /// One per group; rank [`LockRank::Leaf`].
    groups: Vec<RankedMutex<Extents>>,
}

impl BusyExtents {
    pub(crate) fn new(agcount: u32) -> Self {
        let group = || RankedMutex::new(LockRank::Leaf, Extents::new());
        Self { groups: (0..agcount).map(|_| group()).collect() }
    }

    pub(crate) fn add(&self, freed: &[Freed], checkpoint: u64) {
        for extent in freed {
            if let Some(group) = self.groups.get(extent.agno.0 as usize) {
                add_merged(&mut group.lock(), extent.agbno.0, extent.len.0, checkpoint);
            }
        }
    }

    /// Returns the extents of checkpoints up to `done`.
    pub(crate) fn freed_until(&self, done: u64) -> Vec<Freed> {
        let mut freed = Vec::new();
        for (agno, group) in (0..).map(AgNumber).zip(&self.groups) {
            let group = group.lock();
            let durable = group.iter().filter(|(_, (_, checkpoint))| *checkpoint <= done);
            freed.extend(durable.map(|(&agbno, &(len, _))| Freed {
                agno,
                agbno: AgBlock(agbno),
                len: ExtLen(len),
            }));
        }
        freed
    }

    /// Removes the extents of checkpoints up to `done`, which are durable.
    pub(crate) fn mark_durable(&self, done: u64) {
        for group in &self.groups {
            let mut extents = group.lock();
            if !extents.is_empty() {
                extents.retain(|_, (_, checkpoint)| *checkpoint > done);
            }
        }
    }

    /// Returns the first busy extent of group `agno` that overlaps `[agbno, agbno + len)`.
    pub fn overlap(
        &self,
        agno: AgNumber,
        agbno: AgBlock,
        len: ExtLen,
    ) -> Option<(AgBlock, ExtLen)> {
        let group = self.groups.get(agno.0 as usize)?.lock();
        let end = agbno.0.saturating_add(len.0);
        let before = group.range(..=agbno.0).next_back();
        let inside = before.into_iter().chain(group.range(agbno.0..end));
        inside
            .map(|(&start, &(len, _))| (start, len))
            .find(|&(start, len)| start.saturating_add(len) > agbno.0 && start < end)
            .map(|(start, len)| (AgBlock(start), ExtLen(len)))
    }

    pub(crate) fn lock_stats(&self) -> LockStats {
        self.groups.iter().map(RankedMutex::stats).sum()
    }

    /// Returns true if group `agno` has busy extents.
    pub fn has_extents(&self, agno: AgNumber) -> bool {
        self.groups.get(agno.0 as usize).is_some_and(|group| !group.lock().is_empty())
    }
}

/// Adds an extent, merged with its neighbours of the same checkpoint: a tree that is removed frees
/// one chunk of inodes after the other, and a search passes each busy extent.
fn add_merged(extents: &mut Extents, start: u32, len: u32, checkpoint: u64) {
    let (mut start, mut end) = (start, start.saturating_add(len));
    if let Some((&left, &(len, of))) = extents.range(..start).next_back()
        && left.saturating_add(len) == start
        && of == checkpoint
    {
        start = left;
    }
    if let Some(&(len, of)) = extents.get(&end)
        && of == checkpoint
    {
        extents.remove(&end);
        end = end.saturating_add(len);
    }
    extents.insert(start, (end - start, checkpoint));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_found_until_the_checkpoint_is_durable() {
        let busy = BusyExtents::new(2);
        let extent =
            |agbno, len| Freed { agno: AgNumber(1), agbno: AgBlock(agbno), len: ExtLen(len) };
        busy.add(&[extent(10, 5), extent(100, 1)], 7);
        assert!(busy.freed_until(6).is_empty());
        assert_eq!(busy.freed_until(7), [extent(10, 5), extent(100, 1)]);
        let over =
            |agbno, len| busy.overlap(AgNumber(1), AgBlock(agbno), ExtLen(len)).map(|o| o.0.0);
        assert_eq!(
            [over(0, 10), over(0, 11), over(14, 1), over(15, 85)],
            [None, Some(10), Some(10), None]
        );
        assert_eq!(over(15, 86), Some(100));
        assert!(!busy.has_extents(AgNumber(0)));
        busy.mark_durable(6);
        assert!(busy.has_extents(AgNumber(1)));
        busy.mark_durable(7);
        assert!(!busy.has_extents(AgNumber(1)));
    }

    #[test]
    fn neighbours_of_one_checkpoint_are_one_extent() {
        let busy = BusyExtents::new(1);
        let extent =
            |agbno, len| Freed { agno: AgNumber(0), agbno: AgBlock(agbno), len: ExtLen(len) };
        busy.add(&[extent(20, 10), extent(0, 10), extent(10, 10)], 7);
        busy.add(&[extent(30, 10)], 8);
        let over = |agbno| busy.overlap(AgNumber(0), AgBlock(agbno), ExtLen(1));
        assert_eq!(over(15), Some((AgBlock(0), ExtLen(30))));
        assert_eq!(over(30), Some((AgBlock(30), ExtLen(10))));
        busy.mark_durable(7);
        assert_eq!((over(29), over(30)), (None, Some((AgBlock(30), ExtLen(10)))));
    }
}
