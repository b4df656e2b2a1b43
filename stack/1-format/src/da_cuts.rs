//! Positions at which the entries of neighbouring blocks of one level may be divided.
//!
//! A block is divided only behind an entry. Where runs of one hash are kept whole, it is divided
//! only where the hash changes, unless a run is longer than a block. The format does not require
//! that, but a look-up then reads one leaf. `xfs_repair` 6.1 also reports a hash that continues in
//! the next node as damage ("hashvalue inconsistency, expected >"), even in trees that Linux made.

/// Number of entries that the leaves of a window often have together.
const ENTRIES: usize = 256;

/// A position at which a block may end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Entries before it.
    pub entries: usize,
    /// Bytes of these entries.
    pub bytes: usize,
}

impl Cut {
    /// Returns the position behind an entry of `len` more bytes.
    fn behind(self, len: usize) -> Self {
        Self { entries: self.entries.saturating_add(1), bytes: self.bytes.saturating_add(len) }
    }
}

/// Returns the positions behind each of `entries` (hash and length).
pub fn anywhere(entries: impl IntoIterator<Item = (u32, usize)>) -> Vec<Cut> {
    let mut now = Cut::default();
    let mut behind = |len| {
        now = now.behind(len);
        now
    };
    entries.into_iter().map(|(_, len)| behind(len)).collect()
}

/// Returns the positions at which blocks of `capacity` bytes may end so that runs of one hash stay
/// together where they fit a block. `entries` are hash and length of each behind `start`, in order.
pub fn between_runs(
    entries: impl IntoIterator<Item = (u32, usize)>,
    start: Cut,
    capacity: usize,
) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::with_capacity(ENTRIES);
    let mut now = start;
    // The run that ends `cuts`: its hash, where it begins, and whether it is one cut.
    let mut run: Option<(u32, usize)> = None;
    entries.into_iter().for_each(|(hash, len)| {
        let same = run.is_some_and(|(last, _)| last == hash);
        if !same {
            run = Some((hash, now.bytes));
        }
        now = now.behind(len);
        let start = run.map_or(0, |(_, start)| start);
        if same && now.bytes.saturating_sub(start) <= capacity {
            cuts.pop();
        }
        cuts.push(now);
    });
    cuts
}

/// Distributes all of `cuts` behind `start` over `blocks` blocks of `capacity` bytes, as evenly as
/// the cuts allow. Returns the cut that ends each block, or `None` if that does not work out.
pub fn evenly(start: Cut, cuts: &[Cut], blocks: usize, capacity: usize) -> Option<Vec<Cut>> {
    let total = cuts.last()?.bytes;
    let mut ends = Vec::with_capacity(blocks);
    let mut start = start.bytes;
    for left in (1..=blocks).rev() {
        // `left` is not 0.
        let part = total.saturating_sub(start).checked_div(left).unwrap_or(0);
        let want = start.saturating_add(part);
        let behind = cuts.partition_point(|cut| cut.bytes < want);
        let near = cuts.iter().skip(behind.saturating_sub(1)).take(2);
        let fits = |cut: &&Cut| {
            cut.bytes.checked_sub(start).is_some_and(|len| (1..=capacity).contains(&len))
        };
        let end = if left == 1 {
            cuts.last().filter(fits)
        } else {
            near.filter(fits).min_by_key(|cut| cut.bytes.abs_diff(want))
        };
        ends.push(*end?);
        start = end?.bytes;
    }
    Some(ends)
}

/// Fills one block of `capacity` bytes after the other with the entries behind `start`. Returns the
/// cut that ends each.
pub fn greedily(start: Cut, cuts: &[Cut], capacity: usize) -> Vec<Cut> {
    let mut ends: Vec<Cut> = Vec::new();
    let mut start = start.bytes;
    for (cut, next) in cuts.iter().zip(cuts.iter().skip(1)) {
        if next.bytes.saturating_sub(start) > capacity {
            ends.push(*cut);
            start = cut.bytes;
        }
    }
    ends.extend(cuts.last());
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Cut = Cut { entries: 0, bytes: 0 };

    fn bytes(cuts: &[Cut]) -> Vec<usize> {
        cuts.iter().map(|cut| cut.bytes).collect()
    }

    #[test]
    fn runs_stay_together_where_they_fit() {
        let entries = [(1, 10), (2, 10), (2, 10), (3, 10), (3, 50), (3, 50), (4, 10)];
        assert_eq!(bytes(&between_runs(entries, ZERO, 100)), [10, 30, 90, 140, 150]);
        assert_eq!(bytes(&anywhere(entries)), [10, 20, 30, 40, 90, 140, 150]);
    }

    #[test]
    fn shares_are_even_and_fit() {
        let entries = (0..100).map(|i| (i, 10));
        let cuts = between_runs(entries, ZERO, 400);
        assert_eq!(bytes(&evenly(ZERO, &cuts, 3, 400).unwrap()), [330, 660, 1000]);
        assert_eq!(evenly(ZERO, &cuts, 2, 400), None, "more than two blocks hold");
        assert_eq!(evenly(ZERO, &cuts[..2], 3, 400), None, "fewer entries than blocks");
    }
}
