//! The files that use device ranges on which array members disagree.
//!
//! An array whose members disagree knows which pages mismatch, but not which member is wrong. The
//! volume tells more. Metadata passed its checksums, and free space and replayed journal blocks do
//! not matter. Only file contents have no checksum.

use std::ops::Range;

use parking_lot::Mutex;
use xfskit_format::rmap;
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Geometry, Ino};

use crate::owners::UsedExtent;

/// A part of a mismatching range that is the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// Range on the device, in bytes.
    pub bytes: Range<ByteOffset>,
    /// The file.
    pub ino: Ino,
    /// Offset in the file at which `bytes` begin, in bytes.
    pub offset: ByteOffset,
}

/// Device ranges whose copies mismatch, for a check to find their users.
#[derive(Debug, Default)]
pub struct Mismatches {
    /// Sorted and disjoint ranges, in bytes of the device.
    ranges: Vec<Range<u64>>,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    files: Vec<FileRange>,
    /// Ranges whose users could not be determined.
    unknown: Vec<Range<u64>>,
}

impl Mismatches {
    /// Makes a set of these ranges of the device.
    pub fn new(ranges: impl IntoIterator<Item = Range<ByteOffset>>) -> Self {
        let mut ranges: Vec<Range<u64>> =
            ranges.into_iter().map(|range| range.start.0..range.end.0).collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let mut apart: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match apart.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        Self { ranges: apart, found: Mutex::default() }
    }

    /// Returns the parts of `range` that are file contents. Returns `None` if the check did not
    /// run, or could not determine the users.
    pub fn files(&self, range: &Range<ByteOffset>) -> Option<Vec<FileRange>> {
        let found = self.found.lock();
        let touches = |bytes: &Range<u64>| bytes.start < range.end.0 && range.start.0 < bytes.end;
        if found.unknown.iter().any(touches) {
            return None;
        }
        let here = |file: &&FileRange| touches(&(file.bytes.start.0..file.bytes.end.0));
        Some(found.files.iter().filter(here).cloned().collect())
    }

    /// Returns true if any part of a range of the device mismatches.
    pub(crate) fn touches(&self, start: u64, len: u64) -> bool {
        self.within(start..start.saturating_add(len)).next().is_some()
    }

    /// Records the users in group `agno`, whose extents in use are `used`: all of them if `known`.
    pub(crate) fn note(&self, geo: &Geometry, agno: AgNumber, used: &[UsedExtent], known: bool) {
        let byte = |agbno: u32| geo.agb_to_daddr(agno, AgBlock(agbno)).byte_offset().0;
        let mut found = self.found.lock();
        // Metadata of version 4 has no checksums.
        if !known || !geo.v5() {
            found.unknown.extend(self.within(byte(0)..byte(geo.ag_length(agno))));
            return;
        }
        for extent in used.iter().filter(|extent| extent.is_content() && !extent.is_unwritten()) {
            let start = byte(extent.start);
            for range in self.within(start..byte(extent.end())) {
                let position = (extent.offset & rmap::OFF_MASK) << geo.blocklog;
                found.files.push(FileRange {
                    offset: ByteOffset(position + (range.start - start)),
                    bytes: ByteOffset(range.start)..ByteOffset(range.end),
                    ino: Ino(extent.owner),
                });
            }
        }
    }

    /// Returns the parts of mismatching ranges within a range.
    fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.ranges.partition_point(|range| range.end <= range.start);
        let (start, end) = (range.start, range.end);
        self.ranges[first..]
            .iter()
            .take_while(move |range| range.start < end)
            .map(move |range| range.start.max(start)..range.end.min(end))
    }
}
