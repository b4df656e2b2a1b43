//! The staged extents of a file: allocated for later copies of shared blocks, mapped by no file.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_format::bmbt::Extent;
use xfskit_units::FileOff;

/// The staged extents of a file, by the first file block of each.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) extents: BTreeMap<u64, Extent>,
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns the staged extent that covers block `at`.
    pub(crate) fn covering(&self, at: u64) -> Option<Extent> {
        let (_, extent) = self.extents.range(..=at).next_back()?;
        Some(*extent).filter(|extent| extent.end().0 > at)
    }

    /// Returns the range around `at` in which nothing is staged.
    pub(crate) fn gap(&self, at: u64) -> Range<u64> {
        let before = self.extents.range(..=at).next_back();
        let behind = self.extents.range(at..).next();
        before.map_or(0, |(_, extent)| extent.end().0)..behind.map_or(u64::MAX, |(&start, _)| start)
    }

    pub(crate) fn add(&mut self, extent: Extent) {
        self.extents.insert(extent.startoff.0, extent);
    }

    /// Removes the blocks of `range`, which are of one extent, from the staged ones.
    pub(crate) fn take(&mut self, range: &Range<u64>) {
        let Some(whole) = self.covering(range.start) else { return };
        self.extents.remove(&whole.startoff.0);
        let (start, end) = (FileOff(range.start), FileOff(range.end));
        if whole.startoff < start {
            self.add(whole.clip(whole.startoff, start));
        }
        if end < whole.end() {
            self.add(whole.clip(end, whole.end()));
        }
    }
}
