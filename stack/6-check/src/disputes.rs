//! Blocks that several owners claim and that are not shared: what a repair has to decide.
//!
//! The first pass over the sorted extents in use finds the ranges, by counting the claims of each
//! block. The second one lists the claims of these ranges only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use xfskit_format::rmap::{self, owner};

use crate::owners::UsedExtent;
use crate::refcounts::Shared;
use crate::survey::{Claim, Dispute, Run};

/// Claims that are listed for one group at most. A repair that decides these finds the others in
/// the next survey.
const CLAIMS_MAX: usize = 1 << 17;
/// Records of one owner that are looked at before a block: those of shared blocks overlap.
const OVERLAPS_MAX: usize = 16;
/// Owners whose blocks are chosen again when a group is made again.
pub(crate) const MADE_AGAIN: [u64; 4] = [owner::AG, owner::INOBT, owner::REFC, owner::COW];

/// What the btrees of a group record.
pub(crate) struct Recorded<'r> {
    /// The records of the rmapbt that can be read, and whether these are all.
    pub rmaps: Option<(&'r [UsedExtent], bool)>,
    /// The shared extents of the refcountbt, if all can be read.
    pub refcounts: Option<&'r [Shared]>,
    /// The volume has shared blocks.
    pub can_share: bool,
}

/// Returns the disputes of a group, by block. `used` is sorted as the rmapbt is.
pub(crate) fn of(used: &[UsedExtent], recorded: &Recorded<'_>) -> Vec<Dispute> {
    let mut disputes = suspicious(used, recorded);
    if disputes.is_empty() {
        return disputes;
    }
    let mut claims = 0;
    for extent in kept(used) {
        let first = disputes.partition_point(|dispute| dispute.run.end() <= extent.start);
        for dispute in &mut disputes[first..] {
            if dispute.run.start >= extent.end() || claims == CLAIMS_MAX {
                break;
            }
            dispute.claims.push(claim(extent, dispute.run));
            claims += 1;
        }
    }
    if let Some((records, complete)) = recorded.rmaps {
        record(&mut disputes, records, complete);
    }
    disputes.retain(|dispute| !(recorded.can_share && is_shared(dispute)));
    disputes
}

/// Returns true if the rmapbt has all claims, and they may share.
fn is_shared(dispute: &Dispute) -> bool {
    dispute.claims.iter().all(|claim| claim.is_content && claim.recorded == Some(true))
}

fn kept(used: &[UsedExtent]) -> impl Iterator<Item = &UsedExtent> {
    used.iter().filter(|extent| !MADE_AGAIN.contains(&extent.owner))
}

/// Returns the part of `extent` that is in `run`, which is within it.
fn claim(extent: &UsedExtent, run: Run) -> Claim {
    let mapped = extent.owner >> 63 == 0 && extent.offset & rmap::OFF_BMBT_BLOCK == 0;
    let skipped = if mapped { run.start.saturating_sub(extent.start) } else { 0 };
    let offset = extent.record().offset.get();
    Claim {
        owner: extent.owner,
        offset: offset.saturating_add(skipped.into()),
        is_content: extent.is_content(),
        has_flag: extent.has_reflink_flag(),
        recorded: None,
    }
}

/// The extents that cover the block of a sweep.
#[derive(Default)]
struct Covering {
    /// Their ends, and whether they are content, and have the flag.
    ends: BinaryHeap<Reverse<(u32, bool, bool)>>,
    others: usize,
    flagless: usize,
}

impl Covering {
    fn push(&mut self, extent: &UsedExtent) {
        let (content, flag) = (extent.is_content(), extent.has_reflink_flag());
        self.ends.push(Reverse((extent.end(), content, flag)));
        self.others += usize::from(!content);
        self.flagless += usize::from(!flag);
    }

    /// Returns the lowest end.
    fn end(&self) -> Option<u32> {
        self.ends.peek().map(|Reverse((end, ..))| *end)
    }

    fn pop(&mut self) {
        if let Some(Reverse((_, content, flag))) = self.ends.pop() {
            self.others -= usize::from(!content);
            self.flagless -= usize::from(!flag);
        }
    }

    /// Returns the dispute about the blocks of a range; `None` if they are shared, or have one
    /// owner.
    fn dispute(&self, start: u32, end: u32, recorded: &Recorded<'_>) -> Option<Dispute> {
        let count = self.ends.len();
        if count < 2 || start >= end {
            return None;
        }
        let run = Run { start, len: end - start };
        let counted = recorded.refcounts.map(|records| counted(records, run));
        let agrees = counted.map(|counted| usize::try_from(counted) == Ok(count));
        let content = recorded.can_share && self.others == 0;
        // Without a rmapbt, flags tell more than counts.
        let flags = self.flagless == 0 && (agrees.is_none() || recorded.rmaps.is_none());
        let shared = content && (agrees == Some(true) || flags);
        (!shared).then(|| Dispute { run, counted, claims: Vec::new() })
    }
}

/// Returns how many owners the refcountbt has of the blocks of `run`.
fn counted(records: &[Shared], run: Run) -> u32 {
    let behind = records.partition_point(|record| record.start <= run.start);
    let record = behind.checked_sub(1).and_then(|at| records.get(at));
    let covers = |record: &&Shared| record.start.saturating_add(record.len) >= run.end();
    record.filter(covers).map_or(1, |record| record.refcount)
}

/// Returns the ranges that are claimed more than once and not known to be shared.
fn suspicious(used: &[UsedExtent], recorded: &Recorded<'_>) -> Vec<Dispute> {
    let mut found = Vec::new();
    let mut covering = Covering::default();
    let mut at = 0;
    for extent in kept(used) {
        while let Some(end) = covering.end().filter(|end| *end <= extent.start) {
            found.extend(covering.dispute(at, end, recorded));
            covering.pop();
            at = end.max(at);
        }
        found.extend(covering.dispute(at, extent.start, recorded));
        at = extent.start;
        covering.push(extent);
        if found.len() >= CLAIMS_MAX {
            return found;
        }
    }
    while let Some(end) = covering.end() {
        found.extend(covering.dispute(at, end, recorded));
        covering.pop();
        at = end.max(at);
    }
    found
}

/// Notes for each claim whether the rmapbt has it. A record that cannot be read is not known.
fn record(disputes: &mut [Dispute], records: &[UsedExtent], complete: bool) {
    let owners: BTreeSet<u64> =
        disputes.iter().flat_map(|d| &d.claims).map(|claim| claim.owner).collect();
    let mut of_owner: BTreeMap<u64, Vec<UsedExtent>> = BTreeMap::new();
    for record in records.iter().filter(|record| owners.contains(&record.owner)) {
        of_owner.entry(record.owner).or_default().push(*record);
    }
    for dispute in disputes {
        for claim in &mut dispute.claims {
            let records = of_owner.get(&claim.owner).map_or(&[][..], |records| &records[..]);
            let found = has(records, dispute.run, claim.offset);
            claim.recorded = (found || complete).then_some(found);
        }
    }
}

/// Returns true if one of the records of an owner has the blocks of `run` at `offset`.
fn has(records: &[UsedExtent], run: Run, offset: u64) -> bool {
    let place = |offset: u64| offset & !rmap::OFF_UNWRITTEN;
    let behind = records.partition_point(|record| record.start <= run.start);
    records[..behind].iter().rev().take(OVERLAPS_MAX).any(|record| {
        record.end() >= run.end() && place(claim(record, run).offset) == place(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::{OFF_REFLINK, OFF_REGULAR};

    fn content(start: u32, len: u32, owner: u64, flags: u64) -> UsedExtent {
        UsedExtent { start, len, owner, offset: OFF_REGULAR | flags }
    }

    fn runs(used: &[UsedExtent], recorded: &Recorded<'_>) -> Vec<(u32, u32, usize)> {
        let disputes = of(used, recorded);
        disputes.iter().map(|d| (d.run.start, d.run.len, d.claims.len())).collect()
    }

    #[test]
    fn blocks_of_two_files_are_disputed_unless_a_btree_has_them_as_shared() {
        let headers = UsedExtent::special(0, 4, owner::FS);
        let btree = UsedExtent::special(30, 1, owner::AG);
        let used = [headers, content(3, 3, 9, 0), content(10, 10, 1, 0), content(12, 3, 2, 0)];
        let used: Vec<_> = used.into_iter().chain([content(28, 9, 1, 18), btree]).collect();
        let plain = Recorded { rmaps: None, refcounts: None, can_share: true };
        assert_eq!(runs(&used, &plain), [(3, 1, 2), (12, 3, 2)]);
        let shared = [Shared { start: 12, len: 3, refcount: 2 }];
        let counted = Recorded { refcounts: Some(&shared), ..plain };
        assert_eq!(runs(&used, &counted), [(3, 1, 2)]);
    }

    #[test]
    fn the_rmapbt_has_a_claim_at_its_own_offset_only() {
        let used = [content(10, 10, 1, 0), content(12, 3, 2, 5 | OFF_REFLINK)];
        let plain = |offset| UsedExtent { offset, ..content(12, 3, 2, 0) };
        for (offset, due) in [(5, Some(true)), (6, Some(false))] {
            let records = [content(10, 10, 1, 0), plain(offset)];
            let records =
                records.map(|record| UsedExtent { offset: record.offset & !OFF_REGULAR, ..record });
            let recorded =
                Recorded { rmaps: Some((&records, true)), refcounts: None, can_share: false };
            let claims = &of(&used, &recorded)[0].claims;
            assert_eq!((claims[0].recorded, claims[1].recorded), (Some(true), due));
            assert_eq!((claims[0].offset, claims[1].offset), (2, 5));
        }
    }
}
