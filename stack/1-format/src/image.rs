//! An [`Image`]: the bytes of one structure in memory, changed only through declared ranges.
//!
//! Code that edits a structure works on any image. For plain bytes (mkfs, bulk building, tests)
//! declaring a range has no effect. For a block or an inode in a transaction it saves the old
//! bytes, so that the transaction can be undone, and marks the range for the journal. Declare only
//! the changed range: the journal carries all of it.

use std::ops::Range;

use zerocopy::{Immutable, IntoBytes};

/// Bytes of one structure: a block, or an inode.
pub trait Image {
    /// Returns all bytes.
    fn bytes(&self) -> &[u8];

    /// Declares the part `range` as changed, and returns it.
    ///
    /// # Panics
    /// If `range` lies outside of the image. The edited structure was verified before, so this is a
    /// bug, not a corruption.
    fn edit(&mut self, range: Range<usize>) -> &mut [u8];

    /// Writes `value` (a big-endian number, a record, a whole header) at byte `offset`.
    fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, offset: usize, value: &T)
    where
        Self: Sized,
    {
        let bytes = value.as_bytes();
        self.edit(offset..offset.saturating_add(bytes.len())).copy_from_slice(bytes);
    }

    /// Moves the bytes `from` so that they begin at `to`; both may overlap. The bytes between them
    /// are declared as changed too, so both should be near.
    fn shift(&mut self, from: Range<usize>, to: usize) {
        if from.is_empty() || from.start == to {
            return;
        }
        let (low, high) = (from.start.min(to), from.end.max(to.saturating_add(from.len())));
        let at = from.start.saturating_sub(low);
        let len = from.len();
        // `copy_within` needs a slice over both: the bytes between them are declared too.
        let span = self.edit(low..high);
        span.copy_within(at..at.saturating_add(len), to.saturating_sub(low));
    }

    /// Zeroes `range`.
    fn zero(&mut self, range: Range<usize>) {
        self.edit(range).fill(0);
    }
}

impl Image for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    #[expect(clippy::indexing_slicing, reason = "the trait documents this panic")]
    fn edit(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self[range]
    }
}

impl Image for &mut [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }

    #[expect(clippy::indexing_slicing, reason = "the trait documents this panic")]
    fn edit(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self[range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::big_endian::U16;

    #[test]
    fn shifts_may_overlap_both_ways() {
        let mut image: Vec<u8> = (0..10).collect();
        image.shift(2..6, 4);
        assert_eq!(image, [0, 1, 2, 3, 2, 3, 4, 5, 8, 9]);
        image.shift(4..8, 3);
        assert_eq!(image, [0, 1, 2, 2, 3, 4, 5, 5, 8, 9]);
        image.put(0, &U16::new(0x0708));
        image.zero(8..10);
        assert_eq!(image, [7, 8, 2, 2, 3, 4, 5, 5, 0, 0]);
    }
}
