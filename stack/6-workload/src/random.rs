//! Choices from a seed: the same seed makes the same tree and the same sequence of operations.

/// A sequence of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for thread, client or tree `n` of a run with `seed`.
    pub fn of(seed: u64, n: u64) -> Self {
        Self(Self(seed ^ n.wrapping_mul(0xd6e8_feb8_6659_fd93)).number())
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    ///
    /// # Panics
    /// Where `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// An index into `len` things.
    ///
    /// # Panics
    /// Where there are none.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Evenly from 0 to 1.
    #[allow(clippy::cast_precision_loss)] // 53 bits
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From the normal distribution of this mean and deviation: the sum of twelve even ones, which stays
    /// within six deviations.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.fraction()).sum();
        mean + (sum - 6.0) * deviation
    }

    /// Puts `things` into an order without a pattern.
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
    fn a_seed_makes_one_sequence_and_its_parts_differ() {
        let some = |mut random: Random| (0..4).map(|_| random.number()).collect::<Vec<_>>();
        assert_eq!(some(Random::new(7)), some(Random::new(7)));
        assert_ne!(some(Random::of(7, 0)), some(Random::of(7, 1)));
    }

    #[test]
    fn shuffled_things_are_all_still_there() {
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
