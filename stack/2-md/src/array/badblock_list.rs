//! Ranges of a member that must not be read: the ranges of its bad-block log, in memory.

use std::ops::Range;

use parking_lot::RwLock;
use xfskit_units::{ByteLen, MemberByte, MemberSector, PositionRange, Sectors};

/// Ranges, sorted and disjoint. Empty for almost all members.
#[derive(Debug, Default)]
pub(super) struct BadBlockList(RwLock<Vec<Range<MemberByte>>>);

impl BadBlockList {
    pub(super) fn new(listed: &[Range<MemberSector>]) -> Self {
        let ranges = listed.iter().map(|range| range.start.byte()..range.end.byte());
        Self(RwLock::new(ranges.collect()))
    }

    /// Returns true if any part of the range is listed.
    pub(super) fn overlaps(&self, at: MemberByte, len: ByteLen) -> bool {
        let range = at..at.saturating_plus(len);
        self.0.read().iter().any(|bad| bad.overlaps(&range))
    }

    /// Removes a range that was written. Returns true if any part of it was listed.
    pub(super) fn clear(&self, at: MemberByte, len: ByteLen) -> bool {
        let end = at.plus(len);
        if !self.overlaps(at, len) {
            return false;
        }
        let mut bad = self.0.write();
        let rest = bad.iter().flat_map(|r| [r.start..r.end.min(at), r.start.max(end)..r.end]);
        *bad = rest.filter(|r| !r.is_empty()).collect();
        true
    }

    /// Adds a range, rounded to whole sectors. Merges it with the ranges that it touches, because a
    /// log has few entries.
    pub(super) fn add(&self, at: MemberByte, len: ByteLen) {
        let sector = Sectors(1).byte_len();
        let mut new = at.round_down(sector)..at.plus(len).round_up(sector);
        let mut bad = self.0.write();
        bad.retain(|old| {
            let meets = old.start <= new.end && new.start <= old.end;
            if meets {
                new = new.start.min(old.start)..new.end.max(old.end);
            }
            !meets
        });
        bad.push(new);
        bad.sort_unstable_by_key(|range| range.start);
    }

    /// Returns all listed ranges.
    pub(super) fn sectors(&self) -> Vec<Range<MemberSector>> {
        let ranges = self.0.read();
        ranges.iter().map(|range| range.start.sector_floor()..range.end.sector_ceil()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_merge_and_written_ranges_leave_the_list() {
        let bad = BadBlockList::default();
        let listed = || bad.sectors().iter().map(|r| (r.start.0, r.end.0)).collect::<Vec<_>>();
        let add = |at, len| bad.add(MemberByte(at), ByteLen(len));
        let overlaps = |at, len| bad.overlaps(MemberByte(at), ByteLen(len));
        let clear = |at, len| bad.clear(MemberByte(at), ByteLen(len));
        add(8192, 4096);
        add(0, 4096);
        assert_eq!(listed(), [(0, 8), (16, 24)]);
        add(4096, 4096);
        assert_eq!(listed(), [(0, 24)]);
        add(100, 1);
        assert!(listed() == [(0, 24)] && overlaps(12_000, 1) && !overlaps(12_288, 9));
        assert!(clear(4096, 512) && !clear(4096, 512));
        assert_eq!(listed(), [(0, 8), (9, 24)]);
    }
}
