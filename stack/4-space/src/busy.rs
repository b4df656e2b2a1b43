//! The usable parts of a free extent: those that were not freed too recently, here or by other
//! transactions, and that are not kept for removed files.

use std::ops::Range;

use xfskit_units::{AgBlock, AgNumber, ExtLen};

use crate::tx::SpaceTx;

/// Maximum number of busy extents examined inside one free extent. Blocks behind them count as
/// busy.
const MOST: usize = 64;
/// Maximum number of kept extents that are passed over inside one free extent. No checkpoint makes
/// them usable, so a search must get behind them.
const KEPT_MOST: usize = 1 << 16;

/// Returns true if a group has busy extents.
pub(crate) fn any(tx: &SpaceTx<'_>, agno: AgNumber) -> bool {
    tx.freed_so_far().iter().any(|freed| freed.agno == agno) || tx.engine().busy().has_extents(agno)
}

/// The parts of a range of blocks that are not busy, in order.
#[derive(Debug)]
pub(crate) struct Usable<'t, 'v> {
    tx: &'t SpaceTx<'v>,
    agno: AgNumber,
    rest: Range<u32>,
    /// True if nothing can be busy, so that the search is skipped.
    quiet: bool,
    met: usize,
    /// Kept extents so far.
    passed: usize,
}

impl<'t, 'v> Usable<'t, 'v> {
    pub(crate) fn of(tx: &'t SpaceTx<'v>, agno: AgNumber, range: Range<u32>) -> Self {
        let quiet = !any(tx, agno) && !tx.space().kept.has_extents(agno);
        Self { tx, agno, rest: range, quiet, met: 0, passed: 0 }
    }

    /// Returns true if a busy extent shortened a part that was asked for.
    pub(crate) fn met_busy(&self) -> bool {
        self.met > 0
    }

    /// Returns the first extent that overlaps the rest and is busy or kept, and counts it.
    fn first_unusable(&mut self) -> Option<Range<u32>> {
        if self.quiet || self.rest.is_empty() {
            return None;
        }
        let busy = self.first_busy();
        let kept = self.tx.space().kept.first_in(self.agno, &self.rest);
        let is_before =
            |kept: &Range<u32>| busy.as_ref().is_none_or(|busy| kept.start < busy.start);
        if let Some(kept) = kept.filter(is_before) {
            self.passed += 1;
            return Some(kept);
        }
        self.met += usize::from(busy.is_some());
        busy
    }

    /// Returns the first busy extent that overlaps the rest.
    fn first_busy(&self) -> Option<Range<u32>> {
        let len = ExtLen(self.rest.end - self.rest.start);
        let committed = self.tx.engine().busy().overlap(self.agno, AgBlock(self.rest.start), len);
        let committed = committed.map(|(start, len)| (start.0, len.0));
        let mine = self.tx.freed_so_far().iter().filter(|freed| freed.agno == self.agno);
        let mine = mine.map(|freed| (freed.agbno.0, freed.len.0));
        mine.chain(committed)
            .map(|(start, len)| start..start.saturating_add(len))
            .filter(|busy| busy.start < self.rest.end && busy.end > self.rest.start)
            .min_by_key(|busy| busy.start)
    }
}

impl Iterator for Usable<'_, '_> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        while !self.rest.is_empty() && self.met < MOST && self.passed < KEPT_MOST {
            let start = self.rest.start;
            let Some(busy) = self.first_unusable() else {
                self.rest.start = self.rest.end;
                return Some(start..self.rest.end);
            };
            self.rest.start = busy.end.max(start).min(self.rest.end);
            if busy.start > start {
                return Some(start..busy.start);
            }
        }
        None
    }
}
