//! Changes of refcountbt records, as functions from records to edits.
//!
//! The records, and the gaps between them, cut a change's range into pieces. The change visits
//! every piece and computes its new count. Neighbours with the same count are merged into one
//! record. Block numbers are as in records: with [`COW_FLAG`] for staging extents.

use std::ops::Range;

use xfskit_format::refcount::{COW_FLAG, Rec};
use xfskit_units::{AgBlock, ExtLen};

use crate::edits::{Edits, Joined, Run, difference};
use crate::kinds::Refcounts;

impl Run for Rec {
    fn joins(&self, next: &Self) -> bool {
        end(self) == next.startblock.get()
            && self.refcount == next.refcount
            && self.is_cow() == next.is_cow()
    }

    fn take_in(&mut self, next: &Self) {
        self.blockcount = self.blockcount.get().saturating_add(next.blockcount.get()).into();
    }
}

/// Returns the first block behind a record.
pub(super) fn end(rec: &Rec) -> u32 {
    rec.startblock.get().saturating_add(rec.blockcount.get())
}

fn rec(range: Range<u32>, refcount: u32) -> Rec {
    Rec {
        startblock: range.start.into(),
        blockcount: range.end.saturating_sub(range.start).into(),
        refcount: refcount.into(),
    }
}

/// Returns the blocks as records of the shared domain number them.
pub(super) fn shared(agbno: AgBlock, len: ExtLen) -> Range<u32> {
    agbno.0..agbno.0.saturating_add(len.0)
}

/// Returns the blocks as records of staging extents number them.
pub(super) fn staged(agbno: AgBlock, len: ExtLen) -> Range<u32> {
    let Range { start, end } = shared(agbno, len);
    start | COW_FLAG..end | COW_FLAG
}

/// Adds one reference to each block of `range`. `around` are the records that overlap it or touch
/// it.
pub(super) fn increase(around: &[Rec], range: Range<u32>) -> Edits<Rec> {
    rebuilt(around, range, |_, count| Some(count.unwrap_or(1).saturating_add(1)))
}

/// Removes one reference from each block of `range`. Also returns the blocks without references.
pub(super) fn decrease(around: &[Rec], range: Range<u32>) -> (Edits<Rec>, Vec<(AgBlock, ExtLen)>) {
    let mut free = Vec::new();
    let edits = rebuilt(around, range, |piece, count| match count {
        None => {
            free.push((AgBlock(piece.start), ExtLen(piece.end.saturating_sub(piece.start))));
            None
        }
        // The counter is saturated and the true count unknown: the blocks stay, and the count stays
        // at the maximum.
        Some(u32::MAX) => Some(u32::MAX),
        Some(count) => Some(count.saturating_sub(1)).filter(|&left| left >= 2),
    });
    (edits, free)
}

/// Records `range` as a staging extent; returns `None` if a part of it is one already.
pub(super) fn stage(around: &[Rec], range: Range<u32>) -> Option<Edits<Rec>> {
    let mut new = true;
    let edits = rebuilt(around, range, |_, count| {
        new &= count.is_none();
        Some(1)
    });
    new.then_some(edits)
}

/// Removes `range` from the staging extents; returns `None` if a part of it is none.
pub(super) fn unstage(around: &[Rec], range: Range<u32>) -> Option<Edits<Rec>> {
    let mut known = true;
    let edits = rebuilt(around, range, |_, count| {
        known &= count.is_some();
        None
    });
    known.then_some(edits)
}

/// Gives each piece of `range` the count that `change` computes from its old one; `None` is no
/// record.
fn rebuilt(
    around: &[Rec],
    range: Range<u32>,
    mut change: impl FnMut(Range<u32>, Option<u32>) -> Option<u32>,
) -> Edits<Rec> {
    let mut joined = Joined::new();
    let mut push = |piece: Range<u32>, count: Option<u32>| {
        joined.extend(count.filter(|_| !piece.is_empty()).map(|count| rec(piece, count)));
    };
    let mut done = range.start;
    for old in around {
        let (first, behind) = (old.startblock.get(), end(old));
        let count = Some(old.refcount.get());
        let inside = first.clamp(done, range.end)..behind.clamp(done, range.end);
        if done < inside.start {
            push(done..inside.start, change(done..inside.start, None));
        }
        push(first..behind.min(range.start), count);
        if !inside.is_empty() {
            push(inside.clone(), change(inside.clone(), count));
        }
        push(first.max(range.end)..behind, count);
        done = inside.end;
    }
    if done < range.end {
        push(done..range.end, change(done..range.end, None));
    }
    difference::<Refcounts>(around, &joined.into_vec())
}

/// Returns the first part of `range` that records cover without a gap.
pub(super) fn first_run(recs: &[Rec], range: &Range<u32>) -> Option<Range<u32>> {
    let clip = |rec: &Rec| rec.startblock.get().max(range.start)..end(rec).min(range.end);
    let mut pieces = recs.iter().map(clip).filter(|piece| !piece.is_empty());
    let first = pieces.next()?;
    let run = pieces.try_fold(first, |run, piece| {
        if piece.start == run.end { Ok(run.start..piece.end) } else { Err(run) }
    });
    Some(run.unwrap_or_else(|run| run))
}
