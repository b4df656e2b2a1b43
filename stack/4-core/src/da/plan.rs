//! How neighbouring blocks of one level share their entries when one overflows or is no longer full
//! enough.
//!
//! | | first choice | else |
//! | --- | --- | --- |
//! | overflow | two, three or four neighbours share | three become four, four become five |
//! | under two thirds | two, three or four neighbours share | four become three |
//!
//! A share is even, so that the next changes of the same block find room. Where neighbours that share
//! would be nearly full again at once, a block more is better, if all stay above two thirds with
//! it. A level of less than four blocks cannot promise two thirds: there a block may go down to one.
//!
//! Very large entries break every rule of this kind. For them what is found is legal and no more.

use std::ops::Range;

use crate::da::share::{self, Cut};

/// Most neighbours that share.
pub(crate) const WINDOW: usize = 4;

/// A new share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Which blocks of the window give up their entries.
    pub(crate) blocks: Range<usize>,
    /// Entries of the window in front of them.
    pub(crate) first_item: usize,
    /// For each block from now on, the entries of the window up to its end.
    pub(crate) ends: Vec<usize>,
}

/// True where a block that uses `used` bytes of `room` needs no help.
pub(crate) fn is_full_enough(used: usize, room: usize) -> bool {
    3 * used >= 2 * room
}

/// The entries of a window, and what may become of them.
struct Shares<'s> {
    /// Hash and length of each.
    entries: &'s [(u32, usize)],
    /// Entries up to the end of each block.
    ends: &'s [usize],
    /// The block that the change is about.
    own: usize,
    room: usize,
    whole_runs: bool,
}

/// What a share must keep: bytes of each block at least and at most.
#[derive(Clone, Copy)]
struct Limits {
    least: usize,
    most: usize,
}

impl Shares<'_> {
    /// The ranges of `len` blocks with the changed one among them.
    fn ranges(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let first = (self.own + 1).saturating_sub(len);
        let last = self.own.min(self.ends.len().saturating_sub(len));
        let any = len <= self.ends.len();
        (first..=last).filter(move |_| any).map(move |start| start..start + len)
    }

    fn first_item(&self, blocks: &Range<usize>) -> usize {
        blocks.start.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn cuts(&self, blocks: &Range<usize>) -> Vec<Cut> {
        let entries = &self.entries[self.first_item(blocks)..self.ends[blocks.end - 1]];
        share::cuts(entries.iter().copied(), self.room, self.whole_runs)
    }

    fn plan(&self, blocks: Range<usize>, cuts: &[Cut]) -> Plan {
        let first_item = self.first_item(&blocks);
        let ends = cuts.iter().map(|cut| first_item + cut.entries).collect();
        Plan { blocks, first_item, ends }
    }

    /// `from` blocks become `to`, within `limits`.
    fn share(&self, from: usize, to: usize, limits: Limits) -> Option<Plan> {
        self.ranges(from).find_map(|blocks| {
            let cuts = share::evenly(&self.cuts(&blocks), to, limits.most)?;
            let starts = std::iter::once(0).chain(cuts.iter().map(|cut| cut.bytes));
            let kept =
                cuts.iter().zip(starts).all(|(cut, start)| cut.bytes - start >= limits.least);
            kept.then(|| self.plan(blocks, &cuts))
        })
    }

    /// All blocks of the window become as few as hold the entries one after the other.
    fn fill(&self, blocks: Range<usize>) -> Plan {
        let cuts = share::greedily(&self.cuts(&blocks), self.room);
        self.plan(blocks, &cuts)
    }

    /// Bytes that a block of the window uses.
    fn used(&self, block: usize) -> usize {
        let entries = &self.entries[self.first_item(&(block..block))..self.ends[block]];
        entries.iter().map(|(_, len)| len).sum()
    }

    fn two_thirds(&self) -> usize {
        (2 * self.room).div_ceil(3)
    }
}

/// A share that has room for what made the block `own` overflow: `entries` has it already. `ends`
/// are the entries up to the end of each block of the window.
pub(crate) fn to_grow(
    entries: &[(u32, usize)],
    ends: &[usize],
    own: usize,
    room: usize,
    whole_runs: bool,
) -> Plan {
    let shares = Shares { entries, ends, own, room, whole_runs };
    let all = ends.len();
    let lowest = (0..all).map(|block| shares.used(block)).min().unwrap_or(0);
    let least = shares.two_thirds().min(lowest);
    let relaxed = Limits { least, most: room - room / 16 };
    let tight = Limits { least, most: room };
    let full = Limits { least: if all < 3 { 1 } else { shares.two_thirds() }, most: room };
    let any = Limits { least: 1, most: room };
    let shift = |limits| (2..=all).find_map(|len| shares.share(len, len, limits));
    let split = |limits| (all.min(3)..=all).find_map(|len| shares.share(len, len + 1, limits));
    let plan = shift(relaxed)
        .or_else(|| split(full))
        .or_else(|| shift(tight))
        .or_else(|| split(any))
        .or_else(|| shares.share(1, 2, any));
    if let Some(plan) = plan {
        return plan;
    }
    if whole_runs {
        return to_grow(entries, ends, own, room, false);
    }
    shares.fill(own..own + 1)
}

/// A share for a window whose block `own` is not [full enough](is_full_enough); `None` where it stays
/// as it is.
pub(crate) fn to_shrink(
    entries: &[(u32, usize)],
    ends: &[usize],
    own: usize,
    room: usize,
    whole_runs: bool,
) -> Option<Plan> {
    let shares = Shares { entries, ends, own, room, whole_runs };
    let all = ends.len();
    let used = shares.used(own);
    let any = Limits { least: 1, most: room };
    let plan = if all == WINDOW {
        let full = Limits { least: shares.two_thirds(), most: room };
        (2..=all)
            .find_map(|len| shares.share(len, len, full))
            .or_else(|| (1..all).find_map(|to| shares.share(all, to, full)))
            .or_else(|| shares.share(all, all - 1, any))
    } else if 3 * used < room {
        let relaxed = Limits { least: 1, most: room - room / 8 };
        shares.share(all, all - 1, relaxed).or_else(|| shares.share(all, all, any))
    } else {
        None
    };
    if plan.is_some() || used > 0 {
        return plan;
    }
    // The block is empty, and what it leaves fits where it was before.
    let apart = Shares { whole_runs: false, ..shares };
    Some(apart.fill(0..all))
}
