//! Blocks for which an owner is missing: where the blocks are that a damaged map does not show.

use crate::extent::Extent;
use crate::owners::UsedExtent;
use crate::refcounts::Shared;
use crate::survey::Run;

/// Returns the blocks of a group of `length` blocks that are neither in use nor free, and those of
/// which the refcountbt counts more owners than there are. `used` and `shares` are sorted by block.
pub(crate) fn of(
    length: u32,
    used: &[UsedExtent],
    free: &[Extent],
    (shares, counted): (&[Shared], &[Shared]),
) -> Vec<Run> {
    let mut taken: Vec<(u32, u32)> = used.iter().map(|used| (used.start, used.end())).collect();
    taken.extend(free.iter().map(|free| (free.start, free.start.saturating_add(free.len))));
    taken.sort_unstable();
    let (mut found, mut at) = (Vec::new(), 0);
    for (start, end) in taken.into_iter().chain([(length, length)]) {
        push(&mut found, at, start.min(length));
        at = at.max(end);
    }
    for record in counted {
        owed(&mut found, shares, record);
    }
    joined(found)
}

/// Adds the blocks of a record of the refcountbt that have fewer owners than it counts.
fn owed(found: &mut Vec<Run>, shares: &[Shared], record: &Shared) {
    let (mut at, end) = (record.start, record.start.saturating_add(record.len));
    let behind = |share: &Shared| share.start.saturating_add(share.len);
    let first = shares.partition_point(|share| behind(share) <= at);
    for share in shares[first..].iter().take_while(|share| share.start < end) {
        push(found, at, share.start);
        if share.refcount < record.refcount {
            push(found, at.max(share.start), end.min(behind(share)));
        }
        at = behind(share);
    }
    push(found, at, end);
}

fn push(runs: &mut Vec<Run>, start: u32, end: u32) {
    if start < end {
        runs.push(Run { start, len: end - start });
    }
}

/// Sorts runs, and joins those that touch.
fn joined(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable_by_key(|run| run.start);
    let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs {
        match joined.last_mut() {
            Some(last) if run.start <= last.end() => {
                last.len = last.end().max(run.end()).saturating_sub(last.start);
            }
            _ => joined.push(run),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_nothing_has_and_blocks_that_are_counted_more_often_lack_an_owner() {
        let used = [(0, 4), (6, 4), (8, 6)].map(|(start, len)| UsedExtent::special(start, len, 9));
        let free = [Extent { start: 14, len: 6 }];
        let shared = |start, len, refcount| Shared { start, len, refcount };
        let shares = [shared(8, 2, 2)];
        let counted = [shared(7, 2, 2), shared(9, 1, 3), shared(12, 1, 2)];
        let found = of(24, &used, &free, (&shares, &counted));
        let found: Vec<_> = found.iter().map(|run| (run.start, run.end())).collect();
        assert_eq!(found, [(4, 6), (7, 8), (9, 10), (12, 13), (20, 24)]);
    }
}
