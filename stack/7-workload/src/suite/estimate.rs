//! How far a study is, and how long it will take: from the time of the steps that are finished, and
//! from times that the options fix. What neither tells is not estimated.

use std::time::Duration;

use super::PartPlan;

/// Estimates of less than this are not shown.
const SHOWN_MIN: Duration = Duration::from_secs(2);

/// The steps of a study, of which some are finished. Times are those since any instant.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    parts: Vec<PartPlan>,
    /// The current part with its begin.
    current: Option<(usize, Duration)>,
    /// Steps of the current part that have begun.
    begun: usize,
}

impl Estimate {
    /// Begins a study with these parts.
    pub fn new(parts: Vec<PartPlan>) -> Self {
        Self { parts, ..Self::default() }
    }

    /// Describes the whole study: its steps, and its time if the options fix that.
    pub fn describe(&self) -> String {
        let steps: usize = self.parts.iter().map(|plan| plan.steps.len()).sum();
        let steps = if steps == 1 { "1 step".into() } else { format!("{steps} steps") };
        let time: Option<Duration> = self.parts.iter().map(|plan| plan.time).sum();
        match time.filter(|time| *time >= SHOWN_MIN) {
            Some(time) => format!("{steps}, {} of measuring", in_words(time)),
            None => steps,
        }
    }

    /// Begins a part.
    pub fn begin(&mut self, part: &str, now: Duration) {
        self.current = self.parts.iter().position(|plan| plan.part == part).map(|at| (at, now));
        self.begun = 0;
    }

    /// Begins the next step of the part. Returns its number, and the time that is left as far as it
    /// is known; `None` outside of parts.
    pub fn step(&mut self, now: Duration) -> Option<String> {
        let (at, since) = self.current?;
        let part = &self.parts[at];
        self.begun += 1;
        let count = |parts: &[PartPlan]| parts.iter().map(|plan| plan.steps.len()).sum::<usize>();
        let number = count(&self.parts[..at]) + self.begun;
        let shown = format!("step {number} of {}", count(&self.parts).max(number));
        let Some(here) = left(part, self.begun - 1, now.saturating_sub(since)) else {
            return Some(shown);
        };
        let later: Option<Duration> = self.parts[at + 1..].iter().map(|plan| plan.time).sum();
        Some(match later {
            Some(later) if here + later >= SHOWN_MIN => {
                format!("{shown}, about {} left", in_words(here + later))
            }
            None if here >= SHOWN_MIN => {
                format!("{shown}, about {} left for {}", in_words(here), part.part)
            }
            _ => shown,
        })
    }
}

/// Returns the time that a part still takes, if its first `finished` steps took `elapsed`.
fn left(part: &PartPlan, finished: usize, elapsed: Duration) -> Option<Duration> {
    let (done, rest) = part.steps.split_at(finished.min(part.steps.len()));
    let (done, rest): (f64, f64) = (done.iter().sum(), rest.iter().sum());
    if done > 0.0 {
        return Duration::try_from_secs_f64(elapsed.as_secs_f64() * rest / done).ok();
    }
    part.time
}

/// Formats a time as a reader says it: 40 seconds, 12 minutes, 3.5 hours.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 90.0 {
        return format!("{seconds:.0} seconds");
    }
    if seconds < 90.0 * 60.0 {
        return format!("{:.0} minutes", seconds / 60.0);
    }
    format!("{:.1} hours", seconds / 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_estimate_comes_from_fixed_times_or_from_finished_steps_and_not_from_nothing() {
        let parts =
            vec![PartPlan::of_lengths("s.a", [1.0, 3.0]), PartPlan::timed("s.b", 4, 30 * SECOND)];
        let mut run = Estimate::new(parts);
        assert_eq!(run.describe(), "6 steps", "the first part has no fixed time");
        assert_eq!(run.step(Duration::ZERO), None, "no part has begun");
        run.begin("s.a", 5 * SECOND);
        assert_eq!(run.step(5 * SECOND).as_deref(), Some("step 1 of 6"));
        // A step of length 1 took 60 s, so one of length 3 takes 180; and then 120 s are fixed.
        let second = run.step(65 * SECOND);
        assert_eq!(second.as_deref(), Some("step 2 of 6, about 5 minutes left"));
        run.begin("s.b", 245 * SECOND);
        let third = run.step(245 * SECOND);
        assert_eq!(third.as_deref(), Some("step 3 of 6, about 2 minutes left"));
        // The steps take longer than the fixed time.
        let fourth = run.step(285 * SECOND);
        assert_eq!(fourth.as_deref(), Some("step 4 of 6, about 2 minutes left"));
        let fifth = run.step(325 * SECOND);
        assert_eq!(fifth.as_deref(), Some("step 5 of 6, about 80 seconds left"));
    }

    #[test]
    fn a_later_part_without_a_time_limits_the_estimate_to_the_current_one() {
        let parts = vec![PartPlan::timed("s.a", 2, 5000 * SECOND), PartPlan::new("s.b", 1)];
        let mut run = Estimate::new(parts);
        run.begin("s.a", Duration::ZERO);
        let first = run.step(Duration::ZERO);
        assert_eq!(first.as_deref(), Some("step 1 of 3, about 2.8 hours left for s.a"));
        run.begin("s.b", Duration::ZERO);
        assert_eq!(run.step(Duration::ZERO).as_deref(), Some("step 3 of 3"));
        assert_eq!(run.step(Duration::ZERO).as_deref(), Some("step 4 of 4"), "more than planned");
    }

    #[test]
    fn a_study_of_fixed_time_is_described_by_it() {
        let run = Estimate::new(vec![PartPlan::timed("s.a", 12, 10 * SECOND)]);
        assert_eq!(run.describe(), "12 steps, 2 minutes of measuring");
        assert_eq!(Estimate::new(vec![PartPlan::new("s.a", 1)]).describe(), "1 step");
    }
}
