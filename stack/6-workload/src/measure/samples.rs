//! Several turns of the same work.

use std::time::Duration;

use serde::Serialize;

use crate::random::Random;

/// Turns drawn again from what was measured, for a confidence interval.
const DRAWS: usize = 2000;

/// What several turns measured, all in one unit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Samples {
    values: Vec<f64>,
}

/// One thing in terms of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median over median.
    pub ratio: f64,
    /// With a confidence of 95 percent it is at least this …
    pub low: f64,
    /// … and at most this. With few turns that is the spread of what was measured.
    pub high: f64,
}

impl Samples {
    /// One more turn.
    pub fn add(&mut self, value: f64) {
        self.values.push(value);
    }

    /// One more turn, in seconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64());
    }

    /// What every turn measured, in order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Turns.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// The value in the middle; of an even number the mean of the two. Not a number where there are none.
    pub fn median(&self) -> f64 {
        median(&mut self.values.clone())
    }

    /// The least.
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The most.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Half of (most less least) as a fraction of the median.
    pub fn spread(&self) -> f64 {
        (self.max() - self.min()) / 2.0 / self.median()
    }

    /// This in terms of `base`: turns are drawn again from both, with repetition, and the medians' ratio
    /// of the middle 95 percent is the interval.
    pub fn over(&self, base: &Self) -> Ratio {
        let ratio = self.median() / base.median();
        if self.count() == 0 || base.count() == 0 {
            return Ratio { ratio, low: f64::NAN, high: f64::NAN };
        }
        let mut random = Random::new(1);
        let mut draw = |from: &[f64]| median(&mut redrawn(from, &mut random));
        let (low, high) = interval(|| draw(&self.values) / draw(&base.values));
        Ratio { ratio, low, high }
    }

    /// The same where each turn of one belongs to a turn of the other, measured beside it: the median of
    /// the turns' ratios. What makes a turn slow for both does not widen the interval then.
    pub fn paired(&self, base: &Self) -> Ratio {
        if self.count() != base.count() || self.count() == 0 {
            return self.over(base);
        }
        let turns: Vec<f64> = self.values.iter().zip(&base.values).map(|(a, b)| a / b).collect();
        let mut random = Random::new(1);
        let (low, high) = interval(|| median(&mut redrawn(&turns, &mut random)));
        Ratio { ratio: median(&mut turns.clone()), low, high }
    }
}

/// As many as there are, each any of them.
fn redrawn(from: &[f64], random: &mut Random) -> Vec<f64> {
    from.iter().map(|_| from[random.index(from.len())]).collect()
}

/// The middle 95 percent of what is drawn.
fn interval(mut draw: impl FnMut() -> f64) -> (f64, f64) {
    let mut drawn: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    (drawn[DRAWS / 40], drawn[DRAWS - 1 - DRAWS / 40])
}

impl FromIterator<f64> for Samples {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        Self { values: values.into_iter().collect() }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => values[n / 2],
        _ => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // of values that are exact
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Samples::from_iter([3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Samples::from_iter([4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn the_ratio_of_equal_things_may_be_one_and_of_different_things_not() {
        let slow: Samples = (0..9).map(|n| 100.0 + f64::from(n)).collect();
        let fast: Samples = (0..9).map(|n| 50.0 + f64::from(n) / 2.0).collect();
        let same = slow.over(&slow);
        assert!(same.low <= 1.0 && 1.0 <= same.high, "{same:?}");
        let twice = slow.over(&fast);
        assert!(twice.low > 1.8 && twice.high < 2.2 && twice.ratio == 2.0, "{twice:?}");
    }

    #[test]
    fn turns_that_were_slow_for_both_do_not_widen_the_interval_of_pairs() {
        let base: Samples = [100.0, 300.0, 120.0, 900.0, 110.0].into_iter().collect();
        let more: Samples = base.values().iter().map(|value| value * 1.02).collect();
        let (alone, paired) = (more.over(&base), more.paired(&base));
        assert!(alone.high - alone.low > 1.0, "{alone:?}");
        let near = |ratio: f64| (ratio - 1.02).abs() < 1e-9;
        assert!(near(paired.ratio) && near(paired.low) && near(paired.high), "{paired:?}");
        let fewer: Samples = [100.0].into_iter().collect();
        assert_eq!(fewer.paired(&base), fewer.over(&base), "no pairs");
    }
}
