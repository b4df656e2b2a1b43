//! Ranges of blocks with a use.

use xfskit_format::agbtree::Tree;
use xfskit_units::{Daddr, Geometry, Ino};

use crate::format::SECTOR;

/// The use of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The headers of a group.
    Header,
    /// Blocks of a quota file, of a realtime bitmap, or of its summary.
    Plain,
    /// Blocks of a group's btree.
    Tree(Tree),
    /// Blocks of an extent btree.
    Bmbt,
    /// Inodes.
    Inodes,
    /// Blocks of a directory.
    Dir {
        /// A directory of the metadata tree, whose names the kernel looks up.
        metadata: bool,
    },
    /// Blocks of an attribute fork.
    Attr {
        /// Of a file of the metadata tree.
        metadata: bool,
    },
    /// An extent of a remote symlink.
    Symlink {
        /// Bytes of the target from this extent on.
        left: u16,
    },
}

impl Kind {
    /// Returns what a range of this kind is, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Header => "group header",
            Self::Plain => "quota or realtime block",
            Self::Tree(tree) => tree.ids().tree,
            Self::Bmbt => "extent btree block",
            Self::Inodes => "inode",
            Self::Dir { .. } => "directory block",
            Self::Attr { .. } => "attribute block",
            Self::Symlink { .. } => "symlink block",
        }
    }
}

/// A range of sectors of the data device with one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first sector.
    pub start: Daddr,
    /// Number of sectors.
    pub sectors: u32,
    /// The use.
    pub kind: Kind,
    /// The inode that the range belongs to.
    pub owner: Option<Ino>,
}

impl Run {
    /// Returns the sector after the last.
    pub fn end(&self) -> u64 {
        self.start.0.saturating_add(self.sectors.into())
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        self.sectors as usize * SECTOR
    }

    /// Returns the length of what must not be divided, in bytes.
    pub fn unit(&self, geo: &Geometry) -> usize {
        match self.kind {
            Kind::Header => geo.sectsize(),
            Kind::Symlink { .. } => self.bytes(),
            Kind::Plain | Kind::Tree(_) | Kind::Bmbt | Kind::Inodes | Kind::Attr { .. } => {
                geo.blocksize()
            }
            Kind::Dir { .. } => geo.dirblksize(),
        }
    }

    /// Returns the part of the range between two sectors, in whole units; `None` if it has none.
    fn part(&self, geo: &Geometry, from: u64, to: u64) -> Option<Self> {
        let unit = (self.unit(geo) / SECTOR).max(1) as u64;
        let skipped = from.saturating_sub(self.start.0).next_multiple_of(unit);
        let kept = to.min(self.end()).saturating_sub(self.start.0) / unit * unit;
        let sectors = kept.checked_sub(skipped).filter(|sectors| *sectors > 0)?;
        let sectors = u32::try_from(sectors).ok()?;
        Some(Self { start: Daddr(self.start.0 + skipped), sectors, ..*self })
    }

    /// Returns the first `bytes` of the range, rounded up to whole units, and the rest.
    pub fn split(&self, geo: &Geometry, bytes: usize) -> (Self, Option<Self>) {
        let unit = self.unit(geo).max(SECTOR);
        let first = u32::try_from(bytes.max(1).next_multiple_of(unit) / SECTOR).unwrap_or(u32::MAX);
        if first >= self.sectors {
            return (*self, None);
        }
        let start = Daddr(self.start.0 + u64::from(first));
        (
            Self { sectors: first, ..*self },
            Some(Self { start, sectors: self.sectors - first, ..*self }),
        )
    }
}

/// A directory block whose filesystem blocks lie apart.
#[derive(Clone, Debug)]
pub struct Scattered {
    /// The ranges, in the order of the block. All have one kind and owner.
    pub pieces: Vec<Run>,
}

/// Sorts `runs` and removes what overlaps an earlier range or one of `taken`, which are sorted and
/// disjoint. Passes each range that lost a part to `conflict`.
pub fn tidy(
    runs: &mut Vec<Run>,
    taken: &[(u64, u64)],
    geo: &Geometry,
    mut conflict: impl FnMut(&Run),
) {
    runs.sort_by_key(|run| (run.start, run.sectors));
    let mut kept: Vec<Run> = Vec::with_capacity(runs.len());
    let mut end = 0;
    for run in runs.iter() {
        let mut from = run.start.0.max(end);
        let mut lost = from > run.start.0;
        let first = taken.partition_point(|(_, taken_end)| *taken_end <= from);
        for &(start, taken_end) in &taken[first..] {
            if start >= run.end() {
                break;
            }
            lost = true;
            kept.extend(run.part(geo, from, start));
            from = from.max(taken_end);
        }
        if lost {
            conflict(run);
        }
        kept.extend(run.part(geo, from, run.end()));
        end = end.max(run.end());
    }
    *runs = kept;
}

/// Returns the ranges of `runs`, which are sorted and disjoint, with neighbours joined.
pub fn joined(runs: &[Run]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for run in runs {
        match ranges.last_mut() {
            Some((_, end)) if *end == run.start.0 => *end = run.end(),
            _ => ranges.push((run.start.0, run.end())),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, sectors: u32) -> Run {
        Run { start: Daddr(start), sectors, kind: Kind::Bmbt, owner: None }
    }

    #[test]
    fn ranges_that_overlap_are_kept_once() {
        let geo = xfskit_units::example::geometry();
        let mut runs = vec![run(64, 16), run(0, 24), run(16, 16), run(72, 8), run(100, 8)];
        let mut conflicts = 0;
        tidy(&mut runs, &[(40, 48), (104, 112)], &geo, |_| conflicts += 1);
        assert_eq!(runs, [run(0, 24), run(24, 8), run(64, 16)]);
        assert_eq!(conflicts, 3);
        assert_eq!(joined(&runs), [(0, 32), (64, 80)]);
    }

    #[test]
    fn a_range_is_cut_at_whole_units() {
        let geo = xfskit_units::example::geometry();
        assert_eq!(run(8, 32).split(&geo, 5000), (run(8, 16), Some(run(24, 16))));
        assert_eq!(run(8, 32).split(&geo, 16384), (run(8, 32), None));
    }
}
