//! One level of a btree that is built from the leaves up: the distribution of items to blocks.

use std::ops::Range;

/// One level: its items (records of leaves, children of nodes) are distributed evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) items: usize,
    pub(super) blocks: usize,
}

impl Level {
    /// Distributes `items` to blocks that hold `max` at most. One block is used if they fit.
    /// Otherwise blocks are three quarters full, so that later insertions need not split at once,
    /// and never under half.
    pub(super) fn new(items: usize, max: usize) -> Self {
        if items <= max {
            return Self { items, blocks: 1 };
        }
        let comfortable = items.div_ceil((max * 3 / 4).max(1));
        let most = items / (max / 2).max(1);
        Self { items, blocks: comfortable.min(most) }
    }

    /// Returns the items of block `index`.
    pub(super) fn range(self, index: usize) -> Range<usize> {
        let (each, more) = (self.items / self.blocks, self.items % self.blocks);
        let start = |index: usize| index * each + index.min(more);
        start(index)..start(index + 1)
    }

    /// Returns the items of each block.
    pub(super) fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.blocks).map(move |index| self.range(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_is_too_full_or_under_half() {
        for max in [22, 40, 45, 80, 121, 168, 251, 505] {
            for items in 0..max * 12 {
                let level = Level::new(items, max);
                let mut next = 0;
                for range in level.ranges() {
                    assert_eq!(range.start, next);
                    assert!(range.len() <= max, "{items} of {max}: {level:?}");
                    assert!(
                        level.blocks == 1 || range.len() >= max / 2,
                        "{items} of {max}: {level:?}"
                    );
                    next = range.end;
                }
                assert_eq!(next, items);
            }
        }
    }
}
