//! Check and repair: scrubbing the whole array.

use std::ops::{ControlFlow, Range};

use xfskit_block::Result;

use super::{Completion, Progress, SyncJob};
use crate::array::scrub::{Comparison, Mismatch};
use crate::array::{Array, Map};

/// What a scrub reports after each window.
#[derive(Debug)]
pub struct ScrubProgress {
    /// How far it is.
    pub progress: Progress,
    /// The next stripe: where to continue after a stop.
    pub next: u64,
    /// Pages that do not agree.
    pub mismatches: Vec<Mismatch>,
}

impl Array {
    /// Compares the members in these stripes of [`scrub_stripes`](Self::scrub_stripes). With
    /// `repair`, rewrites members that are located as wrong. Calls `on_progress` every few
    /// megabytes.
    ///
    /// # Errors
    /// Returns an error if members cannot be written.
    pub fn scrub(
        &self,
        stripes: Range<u64>,
        repair: bool,
        mut on_progress: impl FnMut(ScrubProgress) -> ControlFlow<()>,
    ) -> Result<Completion> {
        let stripes = stripes.start..stripes.end.min(self.scrub_stripes());
        let unit_bytes = self.scrub_unit();
        let total = (stripes.end.saturating_sub(stripes.start)).saturating_mul(unit_bytes);
        let start = stripes.start;
        let job = SyncJob {
            units: stripes,
            unit_bytes,
            needs_work: &|_| true,
            prefetch: &|stripe| self.prefetch_scrub(stripe),
        };
        let mut bad = 0;
        let after = |next: u64, found: Vec<Comparison>| {
            bad += found.iter().map(|compared| compared.unchecked).sum::<u64>();
            let progress = Progress { done: (next - start) * unit_bytes, total, bad };
            let mismatches = found.into_iter().flat_map(|compared| compared.mismatches).collect();
            Ok(on_progress(ScrubProgress { progress, next, mismatches }))
        };
        self.run_sync_action(&job, |stripe| self.compare_stripe(stripe, repair), after)
    }

    /// Returns the bytes of a member in a stripe of a scrub.
    pub(in crate::array) fn scrub_unit(&self) -> u64 {
        match self.map {
            Map::Concat(_) => 1,
            Map::Parity => self.geometry.chunk_bytes().0,
            Map::Raid1 | Map::Raid10(_) => self.mirror_unit(),
        }
    }

    /// Announces everything that members hold of a stripe.
    pub(in crate::array) fn prefetch_scrub(&self, stripe: u64) {
        let unit = self.scrub_unit();
        if matches!(self.map, Map::Parity) {
            for member in &self.members {
                member.will_need(stripe * unit, unit);
            }
            return;
        }
        let len = unit.min(self.size_bytes().saturating_sub(stripe * unit));
        for copy in self.copies(stripe * unit) {
            self.members[copy.role].will_need(copy.at, len);
        }
    }
}
