//! A seeded random generator: the same seed gives the same tree and the same sequence of
//! operations.

/// A random sequence (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a separate sequence for thread, client or tree `n` of a run with `seed`.
    pub fn stream(seed: u64, n: u64) -> Self {
        Self(Self(seed ^ n.wrapping_mul(0xd6e8_feb8_6659_fd93)).next_u64())
    }

    /// Returns the next 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit
    }

    /// Returns an index into `len` elements.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Returns a number from 0 to 1, uniformly distributed.
    #[allow(clippy::cast_precision_loss)] // 53 bits
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an approximately normal number: the sum of twelve uniform ones, which stays within
    /// six deviations.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.fraction()).sum();
        mean + (sum - 6.0) * deviation
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_and_its_streams_differ() {
        let some = |mut random: Random| (0..4).map(|_| random.next_u64()).collect::<Vec<_>>();
        assert_eq!(some(Random::new(7)), some(Random::new(7)));
        assert_ne!(some(Random::stream(7, 0)), some(Random::stream(7, 1)));
    }

    #[test]
    fn shuffling_keeps_all_elements() {
        let mut things: Vec<u32> = (0..100).collect();
        Random::new(555).shuffle(&mut things);
        assert_ne!(things, (0..100).collect::<Vec<_>>());
        things.sort_unstable();
        assert_eq!(things, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn normal_numbers_have_their_mean_and_deviation() {
        let mut random = Random::new(1);
        let numbers: Vec<f64> = (0..20_000).map(|_| random.normal(100.0, 10.0)).collect();
        let mean = numbers.iter().sum::<f64>() / 20_000.0;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean - 100.0).abs() < 0.5, "{mean}");
        assert!((variance.sqrt() - 10.0).abs() < 0.3, "{variance}");
    }
}
