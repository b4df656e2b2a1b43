//! Scrubbing all of an array.

use std::ops::{ControlFlow, Range};

use xfskit_block::Result;

use super::{Ended, Job, Step};
use crate::array::scrub::{Compared, Mismatch};
use crate::array::{Array, Map};

/// What a scrub hears of a window.
#[derive(Debug)]
pub struct Found {
    /// How far it is.
    pub step: Step,
    /// The row that comes next: where to go on after a stop.
    pub next: u64,
    /// What does not agree.
    pub mismatches: Vec<Mismatch>,
}

impl Array {
    /// Compares what members hold in these rows of [`scrub_rows`](Self::scrub_rows), and mends what
    /// can be named with `mend`. `watch` hears of every few megabytes.
    ///
    /// # Errors
    /// Where members cannot be written.
    pub fn scrub(
        &self,
        rows: Range<u64>,
        mend: bool,
        mut watch: impl FnMut(Found) -> ControlFlow<()>,
    ) -> Result<Ended> {
        let rows = rows.start..rows.end.min(self.scrub_rows());
        let unit_bytes = self.scrub_unit();
        let total = (rows.end.saturating_sub(rows.start)).saturating_mul(unit_bytes);
        let start = rows.start;
        let job = Job {
            units: rows,
            unit_bytes,
            wanted: &|_| true,
            announce: &|row| self.announce_scrub(row),
        };
        let mut bad = 0;
        let after = |next: u64, found: Vec<Compared>| {
            bad += found.iter().map(|compared| compared.unchecked).sum::<u64>();
            let step = Step { done: (next - start) * unit_bytes, total, bad };
            let mismatches = found.into_iter().flat_map(|compared| compared.mismatches).collect();
            Ok(watch(Found { step, next, mismatches }))
        };
        self.carry_out(&job, |row| self.compare_row(row, mend), after)
    }

    /// Bytes of a member in a row of a scrub.
    pub(in crate::array) fn scrub_unit(&self) -> u64 {
        match self.map {
            Map::Concat(_) => 1,
            Map::Parity => self.geometry.chunk_bytes().0,
            Map::Raid1 | Map::Raid10(_) => self.mirror_unit(),
        }
    }

    /// Announces all that members hold of a row.
    pub(in crate::array) fn announce_scrub(&self, row: u64) {
        let unit = self.scrub_unit();
        if matches!(self.map, Map::Parity) {
            for member in &self.members {
                member.will_need(row * unit, unit);
            }
            return;
        }
        let len = unit.min(self.size_bytes().saturating_sub(row * unit));
        for copy in self.copies(row * unit) {
            self.members[copy.role].will_need(copy.at, len);
        }
    }
}
