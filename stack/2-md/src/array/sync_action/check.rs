//! Check and repair: scrubbing the whole array.

use std::ops::{ControlFlow, Range};

use xfskit_block::Result;
use xfskit_units::{ByteLen, MemberByte, Sectors};

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
    /// megabytes. Waits for the end of another sync action.
    ///
    /// # Errors
    /// Returns an error if members cannot be written.
    pub fn scrub(
        &self,
        stripes: Range<u64>,
        repair: bool,
        mut on_progress: impl FnMut(ScrubProgress) -> ControlFlow<()>,
    ) -> Result<Completion> {
        let _alone = self.sync_action.lock();
        let stripes = stripes.start..stripes.end.min(self.scrub_stripes());
        let unit_bytes = self.scrub_unit();
        let total = unit_bytes.saturating_times(stripes.end.saturating_sub(stripes.start));
        let start = stripes.start;
        let job = SyncJob {
            units: stripes,
            unit_bytes,
            needs_work: &|_| true,
            prefetch: &|stripe| self.prefetch_scrub(stripe),
        };
        let mut bad = Sectors(0);
        let after = |next: u64, found: Vec<Comparison>| {
            bad = found.iter().map(|compared| compared.unchecked).fold(bad, Sectors::plus);
            let progress = Progress { done: unit_bytes.times(next - start), total, bad };
            let mismatches = found.into_iter().flat_map(|compared| compared.mismatches).collect();
            Ok(on_progress(ScrubProgress { progress, next, mismatches }))
        };
        self.run_sync_action(&job, |stripe| self.compare_stripe(stripe, repair), after)
    }

    /// Returns the part of a member in a stripe of a scrub.
    pub(in crate::array) fn scrub_unit(&self) -> ByteLen {
        match self.map {
            Map::Concat(_) => ByteLen(1),
            Map::Parity => self.geometry.chunk_bytes(),
            Map::Raid1 | Map::Raid10(_) => self.mirror_unit(),
        }
    }

    /// Announces everything that members hold of a stripe.
    pub(in crate::array) fn prefetch_scrub(&self, stripe: u64) {
        let unit = self.scrub_unit();
        if matches!(self.map, Map::Parity) {
            for member in &self.members {
                member.will_need(MemberByte(unit.times(stripe).0), unit);
            }
            return;
        }
        let start = self.mirror_start(stripe);
        let len = unit.min(self.end().saturating_distance_from(start));
        for copy in self.copies(start) {
            self.members[copy.role].will_need(copy.at, len);
        }
    }
}
