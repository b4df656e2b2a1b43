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

use std::ops::Range;

use xfskit_format::da_cuts::{self, Cut};

use crate::error::Result;

/// Maximum number of neighbours that are rebalanced together.
pub(crate) const WINDOW: usize = 4;

/// A new distribution of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The blocks of the window whose entries are redistributed.
    pub(crate) blocks: Range<usize>,
    /// For each new block, the entries of `blocks` up to its end.
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

/// The blocks of a window, whose entries are to be redistributed.
#[derive(Debug)]
pub(crate) struct Neighbours<'s> {
    /// Bytes that the entries of each block use.
    pub(crate) used: &'s [usize],
    /// The block that changed.
    pub(crate) own: usize,
    /// Bytes for entries in a block.
    pub(crate) capacity: usize,
    /// Runs of one hash are kept in one block if they fit.
    pub(crate) whole_runs: bool,
}

/// The entries of a window's blocks.
pub(crate) trait Entries {
    /// Reads the entries of block number `block` of the window, if they are not known yet.
    fn read(&mut self, block: usize) -> Result<()>;

    /// Returns hash and length of each entry of `blocks`, which have been read.
    fn of(&self, blocks: Range<usize>) -> impl Iterator<Item = (u32, usize)>;
}

/// A search for a plan. Most plans are ruled out by the bytes that the blocks use: the entries are
/// read only of blocks for which one may work out.
struct Rebalance<'s, E> {
    window: Neighbours<'s>,
    entries: &'s mut E,
}

/// Minimum and maximum number of bytes of each block in a distribution.
#[derive(Clone, Copy)]
struct Limits {
    least: usize,
    most: usize,
}

impl<E: Entries> Rebalance<'_, E> {
    /// Returns the number of blocks.
    fn len(&self) -> usize {
        self.window.used.len()
    }

    /// Returns the ranges of `len` blocks with the changed one among them.
    fn ranges(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<E> {
        let first = (self.window.own + 1).saturating_sub(len);
        let last = self.window.own.min(self.len().saturating_sub(len));
        let any = len <= self.len();
        (first..=last).filter(move |_| any).map(move |start| start..start + len)
    }

    /// Returns the possible cuts of `blocks`.
    fn cuts(&mut self, blocks: &Range<usize>) -> Result<Vec<Cut>> {
        blocks.clone().try_for_each(|block| self.entries.read(block))?;
        let entries = self.entries.of(blocks.clone());
        Ok(if self.window.whole_runs {
            da_cuts::between_runs(entries, Cut::default(), self.window.capacity)
        } else {
            da_cuts::anywhere(entries)
        })
    }

    /// Plans to make `from` blocks into `to`, within `limits`.
    fn share(&mut self, from: usize, to: usize, limits: Limits) -> Result<Option<Plan>> {
        for blocks in self.ranges(from) {
            let bytes: usize = self.window.used[blocks.clone()].iter().sum();
            if bytes < to * limits.least || bytes > to * limits.most {
                continue;
            }
            let cuts = self.cuts(&blocks)?;
            let Some(cuts) = da_cuts::evenly(Cut::default(), &cuts, to, limits.most) else {
                continue;
            };
            let starts = std::iter::once(0).chain(cuts.iter().map(|cut| cut.bytes));
            if cuts.iter().zip(starts).all(|(cut, start)| cut.bytes - start >= limits.least) {
                return Ok(Some(plan(blocks, &cuts)));
            }
        }
        Ok(None)
    }

    /// Returns the first plan that makes some blocks into as many as `to` returns for their number,
    /// within `limits`.
    fn first(
        &mut self,
        froms: impl Iterator<Item = usize>,
        to: impl Fn(usize) -> usize,
        limits: Limits,
    ) -> Result<Option<Plan>> {
        for from in froms {
            if let Some(plan) = self.share(from, to(from), limits)? {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }

    /// Plans to redistribute the entries of some blocks, as few as possible, within `limits`.
    fn shift(&mut self, limits: Limits) -> Result<Option<Plan>> {
        self.first(2..=self.len(), |from| from, limits)
    }

    /// Plans to pack `blocks` into as few as hold the entries one after the other, wherever runs
    /// are divided.
    fn fill(&mut self, blocks: Range<usize>) -> Result<Plan> {
        self.window.whole_runs = false;
        let cuts = self.cuts(&blocks)?;
        Ok(plan(blocks, &da_cuts::greedily(Cut::default(), &cuts, self.window.capacity)))
    }

    fn two_thirds(&self) -> usize {
        (2 * self.window.capacity).div_ceil(3)
    }

    /// Plans [`to_grow`].
    fn grow(&mut self) -> Result<Option<Plan>> {
        let (all, capacity) = (self.len(), self.window.capacity);
        let lowest = self.window.used.iter().copied().min().unwrap_or(0);
        let least = self.two_thirds().min(lowest);
        // Many names are often added together: fuller blocks would soon overflow again.
        let spare = capacity / 8;
        let full = Limits { least: if all < 3 { 1 } else { self.two_thirds() }, most: capacity };
        let any = Limits { least: 1, most: capacity };
        let more = |from| from + 1;
        if let Some(plan) = self.shift(Limits { least, most: capacity - spare })? {
            return Ok(Some(plan));
        }
        if let Some(plan) = self.first(all.min(3)..=all, more, full)? {
            return Ok(Some(plan));
        }
        if let Some(plan) = self.shift(Limits { least, most: capacity })? {
            return Ok(Some(plan));
        }
        if let Some(plan) = self.first(all.min(3)..=all, more, any)? {
            return Ok(Some(plan));
        }
        self.share(1, 2, any)
    }

    /// Plans [`to_shrink`] for a whole window of neighbours.
    fn shrink(&mut self) -> Result<Option<Plan>> {
        let (all, capacity) = (self.len(), self.window.capacity);
        let full = Limits { least: self.two_thirds(), most: capacity };
        // Many names are often removed together: emptier blocks would soon be rebalanced again.
        let lasting = Limits { least: capacity - capacity / 4, most: capacity };
        if let Some(plan) = self.shift(lasting)? {
            return Ok(Some(plan));
        }
        for to in 1..all {
            if let Some(plan) = self.share(all, to, full)? {
                return Ok(Some(plan));
            }
        }
        if let Some(plan) = self.shift(full)? {
            return Ok(Some(plan));
        }
        self.share(all, all - 1, Limits { least: 1, most: capacity })
    }
}

fn plan(blocks: Range<usize>, cuts: &[Cut]) -> Plan {
    Plan { blocks, ends: cuts.iter().map(|cut| cut.entries).collect() }
}

/// Plans a distribution with space for the entry that made a block overflow: `window` and `entries`
/// include it already.
pub(crate) fn to_grow(window: Neighbours<'_>, entries: &mut impl Entries) -> Result<Plan> {
    let own = window.own;
    let mut rebalance = Rebalance { window, entries };
    if let Some(plan) = rebalance.grow()? {
        return Ok(plan);
    }
    if std::mem::take(&mut rebalance.window.whole_runs)
        && let Some(plan) = rebalance.grow()?
    {
        return Ok(plan);
    }
    rebalance.fill(own..own + 1)
}

/// Plans a distribution for a window whose changed block is not [full enough](is_full_enough);
/// returns `None` if it stays as it is.
pub(crate) fn to_shrink(
    window: Neighbours<'_>,
    entries: &mut impl Entries,
) -> Result<Option<Plan>> {
    let (all, capacity, used) = (window.used.len(), window.capacity, window.used[window.own]);
    let mut rebalance = Rebalance { window, entries };
    let any = Limits { least: 1, most: capacity };
    let plan = if all == WINDOW {
        rebalance.shrink()?
    } else if may_stay(used, capacity, all) {
        None
    } else {
        let relaxed = Limits { least: 1, most: capacity - capacity / 8 };
        match rebalance.share(all, all - 1, relaxed)? {
            None => rebalance.share(all, all, any)?,
            plan => plan,
        }
    };
    if plan.is_some() || used > 0 {
        return Ok(plan);
    }
    // The block is empty, and the remaining entries fit where they were before.
    rebalance.fill(0..all).map(Some)
}
