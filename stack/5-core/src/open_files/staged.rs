//! The staged extents of a file: allocated for later copies of shared blocks, mapped by no file.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_format::bmbt::Extent;
use xfskit_units::FileOff;

/// The staged extents of a file, by the first block of each.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) extents: BTreeMap<FileOff, Extent>,
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns the staged extent that covers block `at`.
    pub(crate) fn covering(&self, at: FileOff) -> Option<Extent> {
        let (_, extent) = self.extents.range(..=at).next_back()?;
        Some(*extent).filter(|extent| extent.end() > at)
    }

    /// Returns the range around `at` in which nothing is staged.
    pub(crate) fn gap(&self, at: FileOff) -> Range<FileOff> {
        let before = self.extents.range(..=at).next_back();
        let behind = self.extents.range(at..).next();
        let start = before.map_or(FileOff::ZERO, |(_, extent)| extent.end());
        start..behind.map_or(FileOff::MAX, |(&start, _)| start)
    }

    pub(crate) fn add(&mut self, extent: Extent) {
        self.extents.insert(extent.startoff, extent);
    }

    /// Removes the blocks of `range`, which are of one extent, from the staged ones.
    pub(crate) fn take(&mut self, range: &Range<FileOff>) {
        let Some(whole) = self.covering(range.start) else { return };
        self.extents.remove(&whole.startoff);
        let Range { start, end } = *range;
        if whole.startoff < start {
            self.add(whole.clip(whole.startoff, start));
        }
        if end < whole.end() {
            self.add(whole.clip(end, whole.end()));
        }
    }
}
