//! Turns: the contestants of one comparison run one after the other, again and again, so that
//! whatever else the machine does meets all of them.

use std::time::{Duration, Instant};

/// How long `work` takes, and what it answers.
pub fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let answer = work();
    (start.elapsed(), answer)
}

/// The median, the shortest and the longest of some turns, in seconds.
///
/// # Panics
/// Where there were none.
pub fn spread(turns: &mut [Duration]) -> (f64, f64, f64) {
    turns.sort_unstable();
    let second = |n: usize| turns[n].as_secs_f64();
    (second(turns.len() / 2), second(0), second(turns.len() - 1))
}
