//! Random numbers from a seed.
//!
//! All random choices of a test come from a seed that stands in the test, so every run is alike.
//! When a test fails, its generators print their seed. `XFSKIT_SEED=N` replaces the seed of the
//! test, to replay a failure or to try another sequence:
//!
//! ```text
//! XFSKIT_SEED=7 cargo test -p PACKAGE NAME
//! ```

use std::env::{VarError, var};

/// A sequence of random numbers. It prints its seed if it is dropped by a panic.
#[derive(Clone, Debug)]
pub struct Random {
    numbers: fastrand::Rng,
    seed: u64,
}

impl Random {
    /// Returns the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { numbers: fastrand::Rng::with_seed(seed), seed }
    }

    /// Returns the sequence of a test: that of `XFSKIT_SEED`, else that of `default`.
    ///
    /// # Panics
    /// Panics if the variable is not a number.
    pub fn of_test(default: u64) -> Self {
        Self::new(seed(default))
    }

    /// Returns a new sequence, for example for a thread. It prints the seed of this one.
    pub fn fork(&mut self) -> Self {
        Self { numbers: self.numbers.fork(), seed: self.seed }
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.numbers.u64(..)
    }

    /// Returns a number below `limit`.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn below<N: Number>(&mut self, limit: N) -> N {
        N::below(limit, &mut self.numbers)
    }

    /// Returns true once in `n` calls, on average.
    ///
    /// # Panics
    /// Panics if `n` is 0.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`.
    ///
    /// # Panics
    /// Panics if there are none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns a random byte.
    pub fn byte(&mut self) -> u8 {
        self.numbers.u8(..)
    }

    /// Returns `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// Fills `buf` with random bytes.
    pub fn fill(&mut self, buf: &mut [u8]) {
        self.numbers.fill(buf);
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0}; XFSKIT_SEED={0} repeats it", self.seed);
        }
    }
}

/// A type of which [`Random::below`] makes numbers.
pub trait Number: Sized {
    /// Returns a number from 0 to below `limit`.
    fn below(limit: Self, numbers: &mut fastrand::Rng) -> Self;
}

macro_rules! numbers {
    ($($number:ident)*) => {
        $(impl Number for $number {
            fn below(limit: Self, numbers: &mut fastrand::Rng) -> Self {
                numbers.$number(0..limit)
            }
        })*
    };
}

numbers!(u8 u16 u32 u64 usize i32);

/// Returns the seeds that a test runs one after the other: `XFSKIT_SEED` alone, else `default`.
///
/// # Panics
/// Panics if the variable is not a number.
pub fn seeds(default: impl IntoIterator<Item = u64>) -> std::vec::IntoIter<u64> {
    chosen().map_or_else(|| default.into_iter().collect(), |seed| vec![seed]).into_iter()
}

/// Returns the seed of a test: `XFSKIT_SEED`, else `default`.
///
/// # Panics
/// Panics if the variable is not a number.
pub fn seed(default: u64) -> u64 {
    chosen().unwrap_or(default)
}

/// Returns the seed of the environment.
fn chosen() -> Option<u64> {
    match var("XFSKIT_SEED") {
        Ok(seed) => Some(seed.parse().expect("XFSKIT_SEED is a number")),
        Err(VarError::NotPresent) => None,
        Err(why) => panic!("XFSKIT_SEED: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            let mut fork = random.fork();
            (random.bits(), random.below(1000_u32), random.bytes(100), fork.bits())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn numbers_stay_below_their_limit_and_reach_all_values() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[random.below(5)] = true;
            assert!(random.below(3_u8) < 3 && random.below(1) == 0);
        }
        assert_eq!(seen, [true; 5]);
    }
}
