//! The turns of one measurement.
//!
//! The turn, an independent repetition, is the unit of statistics. What repeats within a turn
//! shares its volume, its memory and the load on the machine, so it gives one sample: its mean or
//! median. One turn shows no spread and has no interval.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::Interval;
use crate::random::Random;

/// Bootstrap resamples for a confidence interval.
const RESAMPLES: usize = 2000;

/// The values of several turns, all in one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    #[serde(deserialize_with = "reals")]
    values: Vec<f64>,
}

/// Reads numbers; JSON has null where one is not finite.
fn reals<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let values: Vec<Option<f64>> = Vec::deserialize(from)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

/// A ratio with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Ratio of the medians.
    pub ratio: f64,
    /// Lower end of the 95 percent confidence interval; NaN with a single turn.
    pub low: f64,
    /// Upper end of the interval. With few turns the interval is the range of the samples, and
    /// [`interval_note`] says what it is worth.
    pub high: f64,
}

impl Samples {
    /// Returns the samples of no turn.
    pub fn none() -> &'static Self {
        static NONE: Samples = Samples { values: Vec::new() };
        &NONE
    }

    /// Adds the value of a turn.
    pub fn add(&mut self, value: f64) {
        self.values.push(value);
    }

    /// Adds the time of a turn in seconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64());
    }

    /// Returns the values of all turns in order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the number of turns.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the samples with `change` applied to each: the same turns in another unit.
    #[must_use]
    pub fn map(&self, change: impl FnMut(f64) -> f64) -> Self {
        self.values.iter().copied().map(change).collect()
    }

    /// Returns the median; with an even number of turns the mean of the two middle values. NaN
    /// without turns.
    pub fn median(&self) -> f64 {
        median(&mut self.values.clone())
    }

    /// Returns the smallest value.
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::NAN, f64::min)
    }

    /// Returns the largest value.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Returns half of the range as a fraction of the median; NaN with less than two turns, which
    /// show no spread.
    pub fn spread(&self) -> f64 {
        if self.count() < 2 {
            return f64::NAN;
        }
        (self.max() - self.min()) / 2.0 / self.median()
    }

    /// Returns the median with its interval: the middle 95 percent of the resampled medians.
    pub fn median_interval(&self) -> Interval {
        let (middle, turns) = (self.median(), self.count());
        if turns < 2 {
            return Interval { middle, low: f64::NAN, high: f64::NAN, turns };
        }
        let mut random = Random::new(1);
        let (low, high) = interval(|| median(&mut resample(&self.values, &mut random)));
        Interval { middle, low, high, turns }
    }

    /// Returns the ratio of the medians of `self` and `base`. Both are resampled with replacement,
    /// and the middle 95 percent of the ratios are the interval.
    pub fn ratio_to(&self, base: &Self) -> Ratio {
        let ratio = self.median() / base.median();
        if self.count().min(base.count()) < 2 {
            return Ratio { ratio, low: f64::NAN, high: f64::NAN };
        }
        let mut random = Random::new(1);
        let mut draw = |from: &[f64]| median(&mut resample(from, &mut random));
        let (low, high) = interval(|| draw(&self.values) / draw(&base.values));
        Ratio { ratio, low, high }
    }

    /// Returns the median ratio of paired turns, each measured beside its partner. Noise that slows
    /// down both partners does not widen the interval.
    pub fn paired_ratio_to(&self, base: &Self) -> Ratio {
        if self.count() != base.count() || self.count() < 2 {
            return self.ratio_to(base);
        }
        let turns: Vec<f64> = self.values.iter().zip(&base.values).map(|(a, b)| a / b).collect();
        let mut random = Random::new(1);
        let (low, high) = interval(|| median(&mut resample(&turns, &mut random)));
        Ratio { ratio: median(&mut turns.clone()), low, high }
    }
}

/// Returns the number of turns from which on a 95 percent interval of a median is one: all turns
/// lie on one side of the median with a probability of 2 to the power of 1 - turns.
const TURNS_MIN: usize = 6;

/// Describes the interval of a median that was measured in this number of turns.
pub fn interval_note(turns: usize) -> String {
    match turns {
        0 | 1 => "One turn shows no spread and has no confidence interval.".into(),
        2..TURNS_MIN => format!(
            "At least and at most are the range of {turns} turns, which contains the median with a confidence of {} \
             percent; 95 percent need {TURNS_MIN} turns.",
            100 - (200 >> turns)
        ),
        _ => {
            format!("At least and at most are the 95 percent confidence interval of {turns} turns.")
        }
    }
}

/// Resamples `from` with replacement.
fn resample(from: &[f64], random: &mut Random) -> Vec<f64> {
    from.iter().map(|_| from[random.index(from.len())]).collect()
}

/// Returns the middle 95 percent of the resampled values.
fn interval(mut draw: impl FnMut() -> f64) -> (f64, f64) {
    let mut resampled: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    resampled.sort_unstable_by(f64::total_cmp);
    (resampled[RESAMPLES / 40], resampled[RESAMPLES - 1 - RESAMPLES / 40])
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
    fn the_median_is_the_middle_value() {
        assert_eq!(Samples::from_iter([3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Samples::from_iter([4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn one_turn_shows_no_spread_and_no_interval() {
        let one = Samples::from_iter([5.45]);
        assert!(one.spread().is_nan() && Samples::default().spread().is_nan());
        for ratio in [one.ratio_to(&one), one.paired_ratio_to(&one)] {
            assert_eq!(ratio.ratio, 1.0);
            assert!(ratio.low.is_nan() && ratio.high.is_nan(), "{ratio:?}");
        }
        let two = Samples::from_iter([4.0, 6.0]);
        assert_eq!(two.spread(), 0.2);
        assert!(two.ratio_to(&one).low.is_nan(), "no interval against a single turn");
    }

    #[test]
    fn the_note_says_what_an_interval_is_worth() {
        assert!(interval_note(1).contains("no confidence interval"));
        for (turns, percent) in [(2, 50), (3, 75), (4, 88), (5, 94)] {
            let note = interval_note(turns);
            assert!(note.contains(&format!("confidence of {percent} percent")), "{note}");
        }
        assert!(interval_note(6).contains("95 percent confidence interval of 6 turns"));
    }

    #[test]
    fn the_interval_contains_one_only_for_equal_samples() {
        let slow: Samples = (0..9).map(|n| 100.0 + f64::from(n)).collect();
        let fast: Samples = (0..9).map(|n| 50.0 + f64::from(n) / 2.0).collect();
        let same = slow.ratio_to(&slow);
        assert!(same.low <= 1.0 && 1.0 <= same.high, "{same:?}");
        let twice = slow.ratio_to(&fast);
        assert!(twice.low > 1.8 && twice.high < 2.2 && twice.ratio == 2.0, "{twice:?}");
    }

    #[test]
    fn the_interval_of_a_median_lies_within_its_turns() {
        let some: Samples = (0..9).map(|n| 100.0 + f64::from(n)).collect();
        let found = some.median_interval();
        assert_eq!((found.middle, found.turns), (104.0, 9));
        assert!(found.low > 100.0 && found.low < 104.0, "{found:?}");
        assert!(found.high > 104.0 && found.high < 108.0, "{found:?}");
        assert!(Samples::from_iter([1.0]).median_interval().low.is_nan());
    }

    #[test]
    fn common_noise_does_not_widen_the_interval_of_paired_turns() {
        let base: Samples = [100.0, 300.0, 120.0, 900.0, 110.0].into_iter().collect();
        let more: Samples = base.values().iter().map(|value| value * 1.02).collect();
        let (alone, paired) = (more.ratio_to(&base), more.paired_ratio_to(&base));
        assert!(alone.high - alone.low > 1.0, "{alone:?}");
        let near = |ratio: f64| (ratio - 1.02).abs() < 1e-9;
        assert!(near(paired.ratio) && near(paired.low) && near(paired.high), "{paired:?}");
        let fewer: Samples = [100.0].into_iter().collect();
        assert_eq!(fewer.paired_ratio_to(&base).ratio, 100.0 / 120.0, "no pairs");
    }
}
