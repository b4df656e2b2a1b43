//! Rebalancing plans: how neighbouring blocks of one level redistribute their entries when one
//! overflows or is too empty.
//!
//! | | first choice | else |
//! | --- | --- | --- |
//! | overflow | rebalance two, three or four neighbours | three become four, four become five |
//! | under two thirds | rebalance two, three or four neighbours | four become three |
//!
//! Entries are distributed evenly, so that the next changes of the same block find space. If the
//! blocks would be nearly full again at once, one more block is used, provided that all stay above
//! two thirds with it. If they would soon be under two thirds again, one block less is used. A
//! level of less than four blocks cannot guarantee two thirds: there a block may shrink to one
//! entry.
//!
//! Very large entries break every rule of this kind. For them the plan is valid, but nothing more.

use std::borrow::Cow;
use std::ops::Range;

use xfskit_format::da_cuts::{self, Cut};

/// Maximum number of neighbours that are rebalanced together.
pub(crate) const WINDOW: usize = 4;

/// A new distribution of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The blocks of the window whose entries are redistributed.
    pub(crate) blocks: Range<usize>,
    /// Entries of the window in front of them.
    pub(crate) first_item: usize,
    /// For each new block, the entries of the window up to its end.
    pub(crate) ends: Vec<usize>,
}

/// Returns true if a block that uses `used` bytes of `capacity` need not be rebalanced.
pub(crate) fn is_full_enough(used: usize, capacity: usize) -> bool {
    3 * used >= 2 * capacity
}

/// Returns true if a block that uses `used` bytes of `capacity`, one of `kids` under its parent,
/// may stay as it is though it is not [full enough](is_full_enough): there are too few neighbours
/// to guarantee two thirds.
pub(crate) fn may_stay(used: usize, capacity: usize, kids: usize) -> bool {
    kids < WINDOW && 3 * used >= capacity
}

/// The entries of a window, to be redistributed.
struct Rebalance<'s> {
    /// Hash and length of each.
    entries: &'s [(u32, usize)],
    /// Entries up to the end of each block.
    ends: &'s [usize],
    /// The block that changed.
    own: usize,
    capacity: usize,
    whole_runs: bool,
    /// The possible cuts of the window, unless `whole_runs`: then they depend on where a range of
    /// it begins.
    anywhere: Vec<Cut>,
}

/// Minimum and maximum number of bytes of each block in a distribution.
#[derive(Clone, Copy)]
struct Limits {
    least: usize,
    most: usize,
}

impl<'s> Rebalance<'s> {
    fn new(
        entries: &'s [(u32, usize)],
        ends: &'s [usize],
        own: usize,
        capacity: usize,
        whole_runs: bool,
    ) -> Self {
        let anywhere = if whole_runs { Vec::new() } else { da_cuts::anywhere(entries) };
        Self { entries, ends, own, capacity, whole_runs, anywhere }
    }

    /// Returns the ranges of `len` blocks with the changed one among them.
    fn ranges(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let first = (self.own + 1).saturating_sub(len);
        let last = self.own.min(self.ends.len().saturating_sub(len));
        let any = len <= self.ends.len();
        (first..=last).filter(move |_| any).map(move |start| start..start + len)
    }

    fn first_item(&self, blocks: &Range<usize>) -> usize {
        blocks.start.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Returns the start of `blocks`, and the possible cuts behind it.
    fn cuts(&self, blocks: &Range<usize>) -> (Cut, Cow<'_, [Cut]>) {
        let (first, end) = (self.first_item(blocks), self.ends[blocks.end - 1]);
        if !self.whole_runs {
            let start = first.checked_sub(1).map_or(Cut::default(), |last| self.anywhere[last]);
            return (start, Cow::Borrowed(&self.anywhere[first..end]));
        }
        let before = self.entries[..first].iter().map(|(_, len)| len).sum();
        let start = Cut { entries: first, bytes: before };
        let entries = self.entries[first..end].iter().copied();
        (start, Cow::Owned(da_cuts::between_runs(entries, start, self.capacity)))
    }

    fn plan(&self, blocks: Range<usize>, cuts: &[Cut]) -> Plan {
        let first_item = self.first_item(&blocks);
        Plan { blocks, first_item, ends: cuts.iter().map(|cut| cut.entries).collect() }
    }

    /// Plans to make `from` blocks into `to`, within `limits`.
    fn share(&self, from: usize, to: usize, limits: Limits) -> Option<Plan> {
        self.ranges(from).find_map(|blocks| {
            let (start, cuts) = self.cuts(&blocks);
            let cuts = da_cuts::evenly(start, &cuts, to, limits.most)?;
            let starts = std::iter::once(start.bytes).chain(cuts.iter().map(|cut| cut.bytes));
            let kept =
                cuts.iter().zip(starts).all(|(cut, start)| cut.bytes - start >= limits.least);
            kept.then(|| self.plan(blocks, &cuts))
        })
    }

    /// Plans to pack all blocks of the window into as few as hold the entries one after the other.
    fn fill(&self, blocks: Range<usize>) -> Plan {
        let (start, cuts) = self.cuts(&blocks);
        let cuts = da_cuts::greedily(start, &cuts, self.capacity);
        self.plan(blocks, &cuts)
    }

    /// Returns the bytes that a block of the window uses.
    fn used(&self, block: usize) -> usize {
        let entries = &self.entries[self.first_item(&(block..block))..self.ends[block]];
        entries.iter().map(|(_, len)| len).sum()
    }

    fn two_thirds(&self) -> usize {
        (2 * self.capacity).div_ceil(3)
    }
}

/// Plans a distribution with space for the entry that made the block `own` overflow: `entries` has
/// it already. `ends` are the entries up to the end of each block of the window.
pub(crate) fn to_grow(
    entries: &[(u32, usize)],
    ends: &[usize],
    own: usize,
    capacity: usize,
    whole_runs: bool,
) -> Plan {
    let rebalance = Rebalance::new(entries, ends, own, capacity, whole_runs);
    let all = ends.len();
    let lowest = (0..all).map(|block| rebalance.used(block)).min().unwrap_or(0);
    let least = rebalance.two_thirds().min(lowest);
    // Many names are often added together: redistributed blocks soon overflow again.
    let spare = if whole_runs { capacity / 16 } else { capacity / 8 };
    let relaxed = Limits { least, most: capacity - spare };
    let tight = Limits { least, most: capacity };
    let full = Limits { least: if all < 3 { 1 } else { rebalance.two_thirds() }, most: capacity };
    let any = Limits { least: 1, most: capacity };
    let shift = |limits| (2..=all).find_map(|len| rebalance.share(len, len, limits));
    let split = |limits| (all.min(3)..=all).find_map(|len| rebalance.share(len, len + 1, limits));
    let plan = shift(relaxed)
        .or_else(|| split(full))
        .or_else(|| shift(tight))
        .or_else(|| split(any))
        .or_else(|| rebalance.share(1, 2, any));
    if let Some(plan) = plan {
        return plan;
    }
    if whole_runs {
        return to_grow(entries, ends, own, capacity, false);
    }
    rebalance.fill(own..own + 1)
}

/// Plans a distribution for a window whose block `own` is not [full enough](is_full_enough);
/// returns `None` if it stays as it is.
pub(crate) fn to_shrink(
    entries: &[(u32, usize)],
    ends: &[usize],
    own: usize,
    capacity: usize,
    whole_runs: bool,
) -> Option<Plan> {
    let rebalance = Rebalance::new(entries, ends, own, capacity, whole_runs);
    let all = ends.len();
    let used = rebalance.used(own);
    let any = Limits { least: 1, most: capacity };
    let plan = if all == WINDOW {
        let full = Limits { least: rebalance.two_thirds(), most: capacity };
        // Many names are often removed together: all neighbours come near two thirds at once.
        let lasting = Limits { least: full.least + capacity / 24, most: capacity };
        let shift = |limits| (2..=all).find_map(|len| rebalance.share(len, len, limits));
        shift(lasting)
            .or_else(|| (1..all).find_map(|to| rebalance.share(all, to, full)))
            .or_else(|| shift(full))
            .or_else(|| rebalance.share(all, all - 1, any))
    } else if !may_stay(used, capacity, all) {
        let relaxed = Limits { least: 1, most: capacity - capacity / 8 };
        rebalance.share(all, all - 1, relaxed).or_else(|| rebalance.share(all, all, any))
    } else {
        None
    };
    if plan.is_some() || used > 0 {
        return plan;
    }
    // The block is empty, and the remaining entries fit where they were before.
    Some(Rebalance::new(entries, ends, own, capacity, false).fill(0..all))
}
