//! The rate of several threads that work at the same time.
//!
//! The rate is all work over wall time, from the first thread's start to the last one's end. The
//! sum of the threads' own rates is no such rate: threads that run one after the other on one
//! processor would each show the whole of it.

use std::time::{Duration, Instant};

use super::Samples;

/// All threads work during at least this part of the wall time, or the rate is not one of threads
/// that work together.
const TOGETHER_MIN: f64 = 0.8;

/// The work of one thread: an amount, and when it began and ended, since any common instant.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Begin of the work.
    pub start: Duration,
    /// End of the work.
    pub end: Duration,
    /// Amount of work, such as bytes.
    pub amount: f64,
}

impl Piece {
    /// Calls `work`, which returns the amount of its work, until `time` is over.
    pub fn of(since: Instant, time: Duration, mut work: impl FnMut() -> f64) -> Self {
        let start = since.elapsed();
        let (mut end, mut amount) = (start, 0.0);
        while end.saturating_sub(start) < time {
            amount += work();
            end = since.elapsed();
        }
        Self { start, end, amount }
    }
}

/// Returns the amount of work per second of wall time, or `None` if the threads did not work at the
/// same time.
pub fn rate(pieces: &[Piece]) -> Option<f64> {
    let first = pieces.iter().map(|piece| piece.start).min()?;
    let last = pieces.iter().map(|piece| piece.end).max()?;
    let common_start = pieces.iter().map(|piece| piece.start).max()?;
    let common_end = pieces.iter().map(|piece| piece.end).min()?;
    let wall = last.checked_sub(first).filter(|wall| !wall.is_zero())?.as_secs_f64();
    let together = common_end.saturating_sub(common_start).as_secs_f64();
    let amount: f64 = pieces.iter().map(|piece| piece.amount).sum();
    (together >= wall * TOGETHER_MIN).then(|| amount / wall)
}

/// Returns the rates of the turns in which the threads worked at the same time, or `None` if there
/// are fewer than a quarter of the turns.
pub fn rates(turns: &[Vec<Piece>]) -> Option<Samples> {
    let rates: Samples = turns.iter().filter_map(|pieces| rate(pieces)).collect();
    (rates.count() > 0 && rates.count() * 4 >= turns.len()).then_some(rates)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // of values that are exact
mod tests {
    use super::*;

    fn piece(start: u64, end: u64, amount: f64) -> Piece {
        Piece { start: Duration::from_millis(start), end: Duration::from_millis(end), amount }
    }

    #[test]
    fn threads_at_the_same_time_add_up_over_wall_time() {
        assert_eq!(rate(&[piece(0, 1000, 30.0)]), Some(30.0));
        assert_eq!(rate(&[piece(0, 1000, 30.0), piece(0, 1000, 20.0)]), Some(50.0));
        // The later thread lengthens the wall time.
        assert_eq!(rate(&[piece(0, 1000, 30.0), piece(250, 1250, 30.0)]), None);
        assert_eq!(rate(&[piece(0, 1000, 36.0), piece(200, 1200, 36.0)]), None);
        let both = rate(&[piece(100, 1100, 55.0), piece(0, 1000, 55.0)]);
        assert!(both.is_some_and(|rate| (rate - 100.0).abs() < 1e-9), "{both:?}");
    }

    #[test]
    fn threads_one_after_the_other_are_no_scaling() {
        // Each has the whole processor for its own time: the sum of their rates is twice one.
        let pieces = [piece(0, 10, 1.0), piece(10, 20, 1.0)];
        assert_eq!(rate(&pieces), None);
        assert_eq!(rate(&[]), None);
        assert!(rates(&vec![pieces.to_vec(); 8]).is_none());
        let both = vec![piece(0, 10, 1.0), piece(0, 10, 1.0)];
        let turns = [vec![both; 2], vec![pieces.to_vec(); 6]].concat();
        assert_eq!(rates(&turns).map(|rates| (rates.count(), rates.median())), Some((2, 200.0)));
    }

    #[test]
    fn a_piece_counts_all_its_work() {
        let piece = Piece::of(Instant::now(), Duration::from_nanos(1), || 3.0);
        assert!(piece.amount >= 3.0 && piece.end > piece.start);
    }
}
