//! A set of inode numbers, small where it is dense.

use std::collections::HashMap;
use std::ops::Range;

use xfskit_units::Ino;

/// A set of inode numbers: one bit each, in words of 64.
#[derive(Debug, Default)]
pub(crate) struct InodeSet {
    words: HashMap<u64, u64>,
}

impl InodeSet {
    /// Adds `ino`.
    pub(crate) fn insert(&mut self, ino: Ino) {
        *self.words.entry(ino.0 / 64).or_default() |= 1 << (ino.0 % 64);
    }

    /// Returns true if `ino` was added.
    pub(crate) fn contains(&self, ino: Ino) -> bool {
        self.words.get(&(ino.0 / 64)).is_some_and(|word| word & 1 << (ino.0 % 64) != 0)
    }

    /// Returns the runs of 64 numbers, from a multiple of 64 on, that have one of `range`: the
    /// first of each, in order.
    pub(crate) fn runs(&self, range: &Range<Ino>) -> Vec<Ino> {
        let first = |word: &u64| Ino(word.saturating_mul(64));
        let mut runs: Vec<Ino> = self.words.keys().map(first).collect();
        runs.retain(|ino| range.contains(ino));
        runs.sort_unstable();
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_was_added_and_no_neighbour() {
        let mut set = InodeSet::default();
        set.insert(Ino(127));
        set.insert(Ino(u64::MAX));
        assert!(set.contains(Ino(127)) && set.contains(Ino(u64::MAX)));
        assert!(![0, 63, 126, 128, u64::MAX - 1].iter().any(|&ino| set.contains(Ino(ino))));
    }
}
