//! Ranges of a member that must not be read: the ranges of its bad-block log, in memory.

use std::ops::Range;

use parking_lot::RwLock;
use xfskit_units::MemberSector;

/// Ranges in bytes from the data offset, sorted and disjoint. Empty for almost all members.
#[derive(Debug, Default)]
pub(super) struct BadBlockList(RwLock<Vec<Range<u64>>>);

impl BadBlockList {
    pub(super) fn new(listed: &[Range<MemberSector>]) -> Self {
        let bytes = |sector: MemberSector| sector.0.saturating_mul(512);
        let ranges = listed.iter().map(|range| bytes(range.start)..bytes(range.end));
        Self(RwLock::new(ranges.collect()))
    }

    /// Returns true if any part of the range is listed.
    pub(super) fn overlaps(&self, at: u64, len: u64) -> bool {
        let end = at.saturating_add(len);
        self.0.read().iter().any(|bad| bad.start < end && at < bad.end)
    }

    /// Removes a range that was written. Returns true if any part of it was listed.
    pub(super) fn clear(&self, at: u64, len: u64) -> bool {
        let end = at + len;
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
    pub(super) fn add(&self, at: u64, len: u64) {
        let mut new = at / 512 * 512..(at + len).next_multiple_of(512);
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
        let sector = |byte: u64| MemberSector(byte.div_ceil(512));
        let ranges = self.0.read();
        ranges.iter().map(|range| MemberSector(range.start / 512)..sector(range.end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_merge_and_written_ranges_leave_the_list() {
        let bad = BadBlockList::default();
        let listed = || bad.sectors().iter().map(|r| (r.start.0, r.end.0)).collect::<Vec<_>>();
        bad.add(8192, 4096);
        bad.add(0, 4096);
        assert_eq!(listed(), [(0, 8), (16, 24)]);
        bad.add(4096, 4096);
        assert_eq!(listed(), [(0, 24)]);
        bad.add(100, 1);
        assert!(listed() == [(0, 24)] && bad.overlaps(12_000, 1) && !bad.overlaps(12_288, 9));
        assert!(bad.clear(4096, 512) && !bad.clear(4096, 512));
        assert_eq!(listed(), [(0, 8), (9, 24)]);
    }
}
