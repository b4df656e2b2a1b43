//! What a run shows about a claim. The interval of a figure decides, not its middle: an interval
//! with both outcomes in it shows neither.

use super::{Ratio, Samples};

/// Turns that decide about a claim. All of fewer turns lie on one side too often by chance.
pub const TURNS_DECIDE: usize = 4;

/// A figure with its confidence interval, and the turns behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The figure.
    pub middle: f64,
    /// The lower end; NaN with a single turn.
    pub low: f64,
    /// The upper end; NaN with a single turn.
    pub high: f64,
    /// Turns of each of the sides.
    pub turns: usize,
}

/// What a run shows about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The claim is true in the whole interval.
    Shown,
    /// The claim is false in the whole interval.
    Refuted,
    /// The interval contains both outcomes.
    Undecided,
    /// There are less than [`TURNS_DECIDE`] turns.
    TooFewTurns,
}

impl Ratio {
    /// Returns the interval of the ratio, which was measured in this number of turns.
    pub fn interval(self, turns: usize) -> Interval {
        Interval { middle: self.ratio, low: self.low, high: self.high, turns }
    }

    /// Returns the interval of the difference from 1, in percent.
    pub fn percent(self, turns: usize) -> Interval {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let [middle, low, high] = [self.ratio, self.low, self.high].map(percent);
        Interval { middle, low, high, turns }
    }
}

impl Samples {
    /// Returns the interval of the ratio of the medians of `self` and `base`.
    pub fn times(&self, base: &Self) -> Interval {
        self.ratio_to(base).interval(self.count().min(base.count()))
    }
}

impl Interval {
    /// Converts the difference of a rate in percent to that of the time of its work.
    #[must_use]
    pub fn as_loss(self) -> Self {
        let loss = |percent: f64| (1.0 / (1.0 + percent / 100.0) - 1.0) * 100.0;
        Self {
            middle: loss(self.middle),
            low: loss(self.high),
            high: loss(self.low),
            turns: self.turns,
        }
    }

    /// Decides whether the figure is at most `limit`.
    pub fn at_most(&self, limit: f64) -> Decision {
        self.decide(self.high <= limit, self.low > limit)
    }

    /// Decides whether the figure is at least `limit`.
    pub fn at_least(&self, limit: f64) -> Decision {
        self.decide(self.low >= limit, self.high < limit)
    }

    /// Decides whether the figure is above `limit`, or else below it.
    pub fn above(&self, limit: f64) -> Decision {
        self.decide(self.low > limit, self.high < limit)
    }

    fn decide(&self, is_shown: bool, is_refuted: bool) -> Decision {
        match (is_shown, is_refuted) {
            _ if self.turns < TURNS_DECIDE => Decision::TooFewTurns,
            (true, _) => Decision::Shown,
            (_, true) => Decision::Refuted,
            _ => Decision::Undecided,
        }
    }

    /// Formats the interval as `show` formats its ends, or the figure of a single turn.
    pub fn range(&self, show: impl Fn(f64) -> String) -> String {
        if self.low.is_nan() || self.high.is_nan() {
            return show(self.middle);
        }
        format!("{} to {}", show(self.low), show(self.high))
    }
}

impl Decision {
    /// Returns what is shown about two claims together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rank = |decision| match decision {
            Self::TooFewTurns => 0,
            Self::Refuted => 1,
            Self::Undecided => 2,
            Self::Shown => 3,
        };
        if rank(self) <= rank(other) { self } else { other }
    }

    /// Returns the sentence for this outcome: `shown` or `refuted` if the run decides, else why it
    /// does not. All of them are without a full stop; `range` is what was measured.
    pub fn sentence(self, shown: &str, refuted: &str, range: &str, turns: usize) -> String {
        match self {
            Self::Shown => format!("{shown} ({range})."),
            Self::Refuted => format!("{refuted} ({range})."),
            Self::Undecided => format!("Not decided by this run: {range}."),
            Self::TooFewTurns if turns < 2 => format!("Not decided by one turn: {range}."),
            Self::TooFewTurns => format!("Not decided by {turns} turns: {range}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, high: f64, turns: usize) -> Interval {
        Interval { middle: f64::midpoint(low, high), low, high, turns }
    }

    #[test]
    fn the_interval_decides_and_not_its_middle() {
        assert_eq!(of(-3.0, 1.9, 9).at_most(2.0), Decision::Shown);
        assert_eq!(of(2.1, 9.0, 9).at_most(2.0), Decision::Refuted);
        assert_eq!(of(-62.8, 2.1, 9).at_most(2.0), Decision::Undecided);
        assert_eq!(of(10.0, 12.0, 9).at_least(10.0), Decision::Shown);
        assert_eq!(of(8.0, 9.9, 9).at_least(10.0), Decision::Refuted);
        assert_eq!(of(8.0, 12.0, 9).at_least(10.0), Decision::Undecided);
        assert_eq!(of(1.0, 1.0, 9).above(1.0), Decision::Undecided, "equal");
        assert_eq!(of(-3.0, 1.9, TURNS_DECIDE - 1).at_most(2.0), Decision::TooFewTurns);
        assert_eq!(of(-3.0, 1.9, TURNS_DECIDE).at_most(2.0), Decision::Shown);
        let one: Samples = [1.0].into_iter().collect();
        assert_eq!(one.times(&one).at_most(2.0), Decision::TooFewTurns);
    }

    #[test]
    fn an_interval_without_ends_decides_nothing() {
        let none = Interval { middle: 1.0, low: f64::NAN, high: f64::NAN, turns: 9 };
        for decision in [none.at_most(2.0), none.at_least(2.0), none.above(2.0)] {
            assert_eq!(decision, Decision::Undecided);
        }
        assert_eq!(none.range(|x| format!("{x:.1}")), "1.0");
    }

    #[test]
    fn half_the_rate_is_twice_the_time() {
        let lost = of(-50.0, 0.0, 9).as_loss();
        assert!((lost.low.abs() < 1e-9) && (lost.high - 100.0).abs() < 1e-9, "{lost:?}");
        assert!((lost.middle - 100.0 / 3.0).abs() < 1e-9, "{lost:?}");
    }

    #[test]
    fn two_claims_are_shown_only_together() {
        use Decision::{Refuted, Shown, TooFewTurns, Undecided};
        assert_eq!(Shown.and(Shown), Shown);
        assert_eq!(Shown.and(Undecided), Undecided);
        assert_eq!(Undecided.and(Refuted), Refuted);
        assert_eq!(Refuted.and(TooFewTurns), TooFewTurns);
    }

    #[test]
    fn a_sentence_says_what_was_measured_where_it_does_not_decide() {
        let range = of(-19.2, 3.7, 9).range(|percent| format!("{percent:+.1} %"));
        assert_eq!(range, "-19.2 % to +3.7 %");
        let sentence = |decision: Decision, turns| {
            decision.sentence("At most 2 %", "More than 2 %", &range, turns)
        };
        assert_eq!(sentence(Decision::Shown, 9), "At most 2 % (-19.2 % to +3.7 %).");
        assert_eq!(sentence(Decision::Undecided, 9), "Not decided by this run: -19.2 % to +3.7 %.");
        assert!(sentence(Decision::TooFewTurns, 3).starts_with("Not decided by 3 turns"));
        assert!(sentence(Decision::TooFewTurns, 1).starts_with("Not decided by one turn"));
    }
}
