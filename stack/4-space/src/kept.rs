//! Free extents that the allocator leaves alone, because they hold the content of removed files
//! that are to be given back (`exact`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use xfskit_units::AgNumber;

/// Runs of blocks of one group that neither overlap nor touch: the end by the start.
type Runs = BTreeMap<u32, u32>;

/// Free extents that only `SpaceTx::alloc_exactly` takes.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// True if there are any. Read without the lock.
    any: AtomicBool,
    /// No other lock is taken while this one is held.
    groups: RwLock<BTreeMap<AgNumber, Runs>>,
}

impl Kept {
    /// Adds `blocks` of a group.
    pub(crate) fn add(&self, agno: AgNumber, blocks: &Range<u32>) {
        let mut groups = self.groups.write();
        let runs = groups.entry(agno).or_default();
        let (mut start, mut end) = (blocks.start, blocks.end);
        let touching = runs.range(..=end).rev().take_while(|(_, last)| **last >= start);
        let touching: Vec<(u32, u32)> = touching.map(|(first, last)| (*first, *last)).collect();
        for (first, last) in touching {
            runs.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        runs.insert(start, end);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        self.groups.write().clear();
        self.any.store(false, Ordering::Relaxed);
    }

    /// Returns true if a group has any.
    pub(crate) fn has_extents(&self, agno: AgNumber) -> bool {
        self.any.load(Ordering::Relaxed) && self.groups.read().contains_key(&agno)
    }

    /// Returns the first run that overlaps `blocks` of a group.
    pub(crate) fn first_in(&self, agno: AgNumber, blocks: &Range<u32>) -> Option<Range<u32>> {
        if !self.any.load(Ordering::Relaxed) || blocks.is_empty() {
            return None;
        }
        let groups = self.groups.read();
        let runs = groups.get(&agno)?;
        let before = runs.range(..blocks.start).next_back();
        let before = before.filter(|(_, end)| **end > blocks.start);
        let first = before.or_else(|| runs.range(blocks.clone()).next());
        first.map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_runs_are_merged_and_found_by_any_overlap() {
        let (kept, agno) = (Kept::default(), AgNumber(1));
        assert_eq!(kept.first_in(agno, &(0..100)), None);
        for blocks in [10..20, 30..40, 20..25, 24..26, 60..61] {
            kept.add(agno, &blocks);
        }
        assert!(kept.has_extents(agno) && !kept.has_extents(AgNumber(0)));
        for (blocks, found) in [
            (0..10, None),
            (0..11, Some(10..26)),
            (25..30, Some(10..26)),
            (26..30, None),
            (26..100, Some(30..40)),
            (39..60, Some(30..40)),
            (40..100, Some(60..61)),
        ] {
            assert_eq!(kept.first_in(agno, &blocks), found, "{blocks:?}");
        }
        kept.add(agno, &(0..100));
        assert_eq!(kept.first_in(agno, &(50..51)), Some(0..100));
        kept.clear();
        assert_eq!(kept.first_in(agno, &(50..51)), None);
    }
}
