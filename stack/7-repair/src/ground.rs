//! Which blocks the map of a fork may have: those that only its own records claim, and those for
//! which an owner is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use xfskit_check::{Dispute, GroupSurvey, Run};
use xfskit_format::bmbt::Extent;
use xfskit_format::{Fork, rmap};
use xfskit_units::{AgBlock, AgNumber, FsBlock, Geometry, Ino};

use crate::changes::merged;
use crate::error::Result;
use crate::view::View;

/// Consecutive blocks of a group.
pub(crate) type Blocks = Range<u32>;

/// The blocks of one group; each list ascends.
#[derive(Debug)]
struct Group {
    /// What the map claims, without what is free or others' too.
    own: Vec<Blocks>,
    /// Blocks for which an owner is missing.
    ownerless: Vec<Blocks>,
    /// All of these.
    open: Vec<Blocks>,
}

/// The blocks of all groups.
#[derive(Debug)]
pub(crate) struct Ground<'r> {
    geo: &'r Geometry,
    groups: BTreeMap<AgNumber, Group>,
}

impl<'r> Ground<'r> {
    /// Returns the blocks that a fork may have; `None` if the btrees of a group cannot be read.
    /// `with_disputed`: also those that others claim.
    pub(crate) fn of(
        view: View<'r>,
        ino: Ino,
        fork: Fork,
        with_disputed: bool,
    ) -> Result<Option<Self>> {
        let mut groups = BTreeMap::new();
        for group in &view.survey.groups {
            let Some(ownerless) = &group.ownerless else { return Ok(None) };
            let ownerless: Vec<_> = ownerless.iter().copied().map(blocks).collect();
            let own = without(&claims(group, ino, fork)?, &conflicts(group, ino, with_disputed));
            let open = merged([&own[..], &ownerless].concat());
            groups.insert(group.agno, Group { own, ownerless, open });
        }
        Ok(Some(Self { geo: view.geo, groups }))
    }

    /// Returns how many blocks of an extent the map may not have.
    pub(crate) fn foreign(&self, extent: &Extent) -> u64 {
        let Some((group, place)) = self.place(extent) else { return extent.blockcount.0 };
        extent.blockcount.0.saturating_sub(overlap(&group.open, &place))
    }

    /// Returns how many blocks are without an owner with a map and blocks of its btree: what was
    /// the fork's own, and the rest of blocks without an owner of which the map takes a part.
    pub(crate) fn left(&self, map: &[Extent], btree: &[FsBlock]) -> u64 {
        let mut taken: BTreeMap<AgNumber, Vec<Blocks>> = BTreeMap::new();
        let content = map.iter().map(|extent| (extent.startblock, extent.blockcount.0));
        for (start, len) in content.chain(btree.iter().map(|block| (*block, 1))) {
            let Some((agno, agbno)) = self.geo.fsb_split(start) else { continue };
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            taken.entry(agno).or_default().push(agbno.0..agbno.0.saturating_add(len));
        }
        let mut left = 0u64;
        for (agno, group) in &self.groups {
            let taken = merged(taken.remove(agno).unwrap_or_default());
            let rest = |range: &Blocks| count(range).saturating_sub(overlap(&taken, range));
            let begun = group.ownerless.iter().filter(|range| overlap(&taken, range) > 0);
            left += group.own.iter().chain(begun).map(rest).sum::<u64>();
        }
        left
    }

    /// Returns the starts of as many consecutive blocks as `extent` has that lack an owner, or are
    /// its own already.
    pub(crate) fn fitting(&self, extent: &Extent) -> Vec<FsBlock> {
        let own = self.place(extent).map(|(group, place)| within(&group.own, &place));
        let at = self.geo.fsb_split(extent.startblock).map(|(agno, _)| agno);
        let mut starts = Vec::new();
        for (agno, group) in &self.groups {
            let own = own.iter().flatten().filter(|_| at == Some(*agno));
            let lacking = merged(group.ownerless.iter().chain(own).cloned().collect());
            let fitting = lacking.iter().filter(|range| count(range) == extent.blockcount.0);
            starts.extend(fitting.map(|range| self.geo.agb_to_fsb(*agno, AgBlock(range.start))));
        }
        starts
    }

    /// Returns the group of an extent, and its place there.
    fn place(&self, extent: &Extent) -> Option<(&Group, Blocks)> {
        let (agno, agbno) = self.geo.fsb_split(extent.startblock)?;
        let len = u32::try_from(extent.blockcount.0).ok()?;
        Some((self.groups.get(&agno)?, agbno.0..agbno.0.checked_add(len)?))
    }
}

/// Returns the inodes with content in blocks that both free-space btrees of a group have as free;
/// none, if there are more than `most`: then it is the btrees that are wrong.
pub(crate) fn claimants_of_free(view: View<'_>, most: usize) -> Result<BTreeSet<Ino>> {
    let mut found = BTreeSet::new();
    for group in view.survey.groups.iter().filter(|group| group.ownerless.is_some()) {
        let free: Vec<_> = group.recorded_free.iter().flatten().copied().map(blocks).collect();
        let owners = group.owners.load()?;
        let taken = owners.iter().filter(|rec| overlap(&free, &place(rec)) > 0);
        found.extend(taken.filter_map(rmap::Rec::inode));
        if found.len() > most {
            return Ok(BTreeSet::new());
        }
    }
    Ok(found)
}

/// Returns the blocks of a group for which an owner is missing, and that no file has.
pub(crate) fn unclaimed(group: &GroupSurvey) -> Result<Vec<Blocks>> {
    let Some(ownerless) = group.ownerless.as_deref().filter(|runs| !runs.is_empty()) else {
        return Ok(Vec::new());
    };
    let ownerless: Vec<_> = ownerless.iter().copied().map(blocks).collect();
    let taken = merged(group.owners.load()?.iter().map(place).collect());
    Ok(without(&ownerless, &taken))
}

/// Returns the blocks of a group that a fork claims as content.
fn claims(group: &GroupSurvey, ino: Ino, fork: Fork) -> Result<Vec<Blocks>> {
    let is_own = |rec: &&rmap::Rec| {
        let offset = rec.offset.get();
        let is_attr = offset & rmap::OFF_ATTR_FORK != 0;
        let is_content = offset & rmap::OFF_BMBT_BLOCK == 0;
        rec.owner.get() == ino.0 && is_content && is_attr == (fork == Fork::Attr)
    };
    let owners = group.owners.load()?;
    Ok(merged(owners.iter().filter(is_own).map(place).collect()))
}

/// Returns the blocks of a group that are free, or that others than `ino` claim as well, unless
/// these are to be left out.
fn conflicts(group: &GroupSurvey, ino: Ino, without_disputed: bool) -> Vec<Blocks> {
    let with_others = |dispute: &&Dispute| {
        !without_disputed && dispute.claims.iter().any(|claim| claim.owner != ino.0)
    };
    let disputed = group.disputes.iter().filter(with_others).map(|dispute| &dispute.run);
    let free = group.recorded_free.iter().flatten();
    merged(free.chain(&group.made_again).chain(disputed).copied().map(blocks).collect())
}

fn blocks(run: Run) -> Blocks {
    run.start..run.end()
}

fn place(rec: &rmap::Rec) -> Blocks {
    rec.start().0..rec.start().0.saturating_add(rec.len().0)
}

fn count(range: &Blocks) -> u64 {
    range.end.saturating_sub(range.start).into()
}

/// Returns the parts of `range` that `ranges` have, which ascend and are apart.
fn within(ranges: &[Blocks], range: &Blocks) -> Vec<Blocks> {
    let first = ranges.partition_point(|other| other.end <= range.start);
    let inside = ranges[first..].iter().take_while(|other| other.start < range.end);
    inside.map(|other| other.start.max(range.start)..other.end.min(range.end)).collect()
}

fn overlap(ranges: &[Blocks], range: &Blocks) -> u64 {
    within(ranges, range).iter().map(count).sum()
}

/// Returns `ranges` without `gone`; both ascend and are apart.
fn without(ranges: &[Blocks], gone: &[Blocks]) -> Vec<Blocks> {
    let mut left = Vec::new();
    for range in ranges {
        let mut at = range.start;
        for cut in within(gone, range).into_iter().chain(std::iter::once(range.end..range.end)) {
            left.extend((at < cut.start).then_some(at..cut.start));
            at = cut.end;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_and_cut() {
        let ranges = merged(vec![20..30, 4..8, 8..10, 25..32]);
        assert_eq!(ranges, [4..10, 20..32]);
        assert_eq!(overlap(&ranges, &(9..22)), 3);
        assert_eq!(without(&ranges, &[0..5, 7..8, 24..99]), [5..7, 8..10, 20..24]);
    }
}
