//! Turns: the contenders of a comparison run alternately and repeatedly, so that other load on the
//! machine meets all of them.

use std::time::{Duration, Instant};

/// Returns the elapsed time of `work` and its result.
pub fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Returns the median, the shortest and the longest of some turns in seconds.
///
/// # Panics
/// If there are no turns.
pub fn spread(turns: &mut [Duration]) -> (f64, f64, f64) {
    turns.sort_unstable();
    let second = |n: usize| turns[n].as_secs_f64();
    (second(turns.len() / 2), second(0), second(turns.len() - 1))
}
