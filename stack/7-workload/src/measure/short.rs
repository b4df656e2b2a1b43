//! Measurements that are too short to mean anything.
//!
//! 1. A measurement that is too short has no figure: its cell is empty, its point is not plotted,
//!    no ratio has it as a part, and no sentence follows from it. A note of the table says so.
//! 2. The rule is about the time or the work behind a figure, never about the figure.

use std::time::Duration;

use super::Samples;

/// A step of less time has no rate: it is over before all threads run.
pub const STEP_MIN: Duration = Duration::from_millis(10);

/// A loop of one thread that does not wait is timed by a clock of some 25 ns. In this time it is
/// exact to a thousandth.
pub const LOOP_MIN: Duration = Duration::from_micros(25);

/// Length of a time slice that is assumed for [`time_min`].
const SLICE: Duration = Duration::from_millis(3);
/// Fewest slices in which each thread runs.
const SLICES_MIN: usize = 10;

/// Returns the shortest time of a point of `threads` that means anything: each thread runs several
/// times.
pub fn time_min(threads: usize, processors: usize) -> Duration {
    let rounds = threads.div_ceil(processors.max(1)) * SLICES_MIN;
    SLICE * u32::try_from(rounds).unwrap_or(u32::MAX)
}

/// Returns [`time_min`] on the processors of this machine.
pub fn time_min_here(threads: usize) -> Duration {
    time_min(threads, std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns true if the median of `seconds` is below `least`, or if there is none.
pub fn is_too_short(seconds: &Samples, least: Duration) -> bool {
    seconds.count() == 0 || seconds.median() < least.as_secs_f64()
}

/// Returns the note of a table in which rows have no figures. `what` is what was too short, such as
/// "a step".
pub fn note(what: &str, least: Duration) -> String {
    format!(
        "Empty cells: {what} of less than {} ms is too short to mean anything, and has no figures.",
        least.as_secs_f64() * 1e3
    )
}

/// What an answer says in place of a verdict.
pub fn not_measured(what: &str) -> String {
    format!("Not measured: {what} was too short.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_needs_ten_slices_of_a_processor() {
        let ms = Duration::from_millis;
        for (threads, processors, least) in [(1, 1, 30), (1, 8, 30), (8, 2, 120), (9, 2, 150)] {
            assert_eq!(time_min(threads, processors), ms(least), "{threads} on {processors}");
        }
        assert_eq!(time_min(1, 0), ms(30), "no division by zero");
    }

    #[test]
    fn the_median_decides_and_no_turn_is_too_short() {
        let of = |seconds: &[f64]| is_too_short(&seconds.iter().copied().collect(), STEP_MIN);
        assert!(of(&[0.0099]) && of(&[0.001, 0.002, 9.0]) && of(&[]));
        assert!(!of(&[0.01]) && !of(&[0.001, 0.02, 9.0]));
    }
}
