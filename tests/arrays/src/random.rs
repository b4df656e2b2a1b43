//! A seeded random number generator.

use xfskit_units::index;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns 64 random bits.
    #[allow(clippy::should_implement_trait)] // it never ends
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Fills `buf`.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for bytes in buf.chunks_mut(8) {
            bytes.copy_from_slice(&self.next().to_le_bytes()[..bytes.len()]);
        }
    }

    /// Returns a start and a length within `size` bytes, at most one of four lengths. Half of the
    /// starts are page-aligned.
    pub fn range(&mut self, size: usize, most: [u64; 4]) -> (usize, usize) {
        let size = size as u64;
        let most = most[index(self.below(4))];
        let len = 1 + self.below(size.min(most));
        let mut start = self.below(size - len + 1);
        if self.below(2) == 0 {
            start -= start % 4096;
        }
        (index(start), index(len))
    }
}
