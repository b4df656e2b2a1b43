//! RemappedExtents extents: blocks that came to another place or file, or that one file has alone which several shared.
//!
//! Until the checkpoint that says so is durable, a crash brings the old map back: then they are content of the file
//! and the place where they were. File data is written in place without the journal, so written too soon it would
//! turn up there. Whoever writes in place asks first, and waits for that checkpoint.

use crate::sync::atomic::{AtomicU64, Ordering};

use xfskit_units::AgNumber;

/// When extents of each group were moved last.
#[derive(Debug)]
pub(crate) struct RemappedExtents {
    /// Numbers of checkpoints.
    groups: Vec<AtomicU64>,
}

impl RemappedExtents {
    pub(crate) fn new(agcount: u32) -> Self {
        Self { groups: (0..agcount).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn note(&self, agno: AgNumber, checkpoint: u64) {
        if let Some(group) = self.groups.get(agno.0 as usize) {
            group.fetch_max(checkpoint, Ordering::AcqRel);
        }
    }

    /// The checkpoint that extents of group `agno` were moved in last; 0 is none.
    pub(crate) fn last(&self, agno: AgNumber) -> u64 {
        self.groups.get(agno.0 as usize).map_or(0, |group| group.load(Ordering::Acquire))
    }
}
