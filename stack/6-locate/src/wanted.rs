//! The blocks that are asked for.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_units::{AgNumber, Geometry};

use crate::AgRange;
use crate::owner::Owned;

/// Ranges of blocks, by group: sorted, and none touches another.
#[derive(Clone, Debug)]
pub(crate) struct Wanted(BTreeMap<AgNumber, Vec<Range<u32>>>);

impl Wanted {
    /// Joins `ranges`, without what is behind the end of their groups.
    pub(crate) fn new(geo: &Geometry, ranges: &[AgRange]) -> Self {
        let mut groups: BTreeMap<AgNumber, Vec<Range<u32>>> = BTreeMap::new();
        for AgRange { agno, blocks } in ranges {
            let blocks = blocks.start..blocks.end.min(geo.ag_length(*agno));
            if !blocks.is_empty() {
                groups.entry(*agno).or_default().push(blocks);
            }
        }
        for ranges in groups.values_mut() {
            ranges.sort_unstable_by_key(|range| range.start);
            let mut joined: Vec<Range<u32>> = Vec::new();
            for range in ranges.drain(..) {
                match joined.last_mut() {
                    Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                    _ => joined.push(range),
                }
            }
            *ranges = joined;
        }
        Self(groups)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the groups with wanted blocks.
    pub(crate) fn groups(&self) -> impl Iterator<Item = AgNumber> {
        self.0.keys().copied()
    }

    /// Keeps the ranges that `keep` accepts.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(AgNumber, &Range<u32>) -> bool) {
        self.0.retain(|&agno, ranges| {
            ranges.retain(|range| keep(agno, range));
            !ranges.is_empty()
        });
    }

    /// Adds the wanted parts of `owned` to `found`.
    pub(crate) fn add(&self, owned: &Owned, found: &mut Vec<Owned>) {
        let Some(ranges) = self.0.get(&owned.agno) else { return };
        let first = ranges.partition_point(|range| range.end <= owned.start.0);
        let near = ranges[first..].iter().take_while(|range| range.start < owned.end());
        found.extend(near.filter_map(|range| owned.clip(range.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Owner;
    use xfskit_units::AgBlock;

    #[test]
    fn runs_are_cut_to_what_is_wanted() {
        let agno = AgNumber(1);
        let wanted = Wanted(BTreeMap::from([(agno, vec![3..5, 8..9])]));
        let mut found = Vec::new();
        wanted.add(&Owned::new(agno, 0..20, Owner::Free), &mut found);
        wanted.add(&Owned::new(AgNumber(0), 0..20, Owner::Free), &mut found);
        wanted.add(&Owned::new(agno, 5..8, Owner::Log), &mut found);
        let parts: Vec<_> = found.iter().map(|part| (part.start, part.end())).collect();
        assert_eq!(parts, [(AgBlock(3), 5), (AgBlock(8), 9)]);
    }
}
