//! Remapped extents: blocks that moved to another offset or file, or that are no longer shared.
//!
//! Until the checkpoint that remaps them is durable, a crash brings the old map back, and the
//! blocks are again content of their former file and offset. File data is written in place without
//! the journal, so data written too soon would turn up there. A thread that writes in place waits
//! for that checkpoint first.

use crate::sync::atomic::{AtomicU64, Ordering};

use xfskit_units::AgNumber;

/// The last checkpoint in which extents of each group were remapped.
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

    /// Returns the number of the last checkpoint in which extents of group `agno` were remapped; 0
    /// is none.
    pub(crate) fn last(&self, agno: AgNumber) -> u64 {
        self.groups.get(agno.0 as usize).map_or(0, |group| group.load(Ordering::Acquire))
    }
}
