//! Fits the model to measured points, and validates it on points that it has not seen.
//!
//! Two factors are fitted for each kind of lock: of the time of a file outside of locks, and of the
//! time of a hand-over. Points with up to [`FIT_MAX`] threads serve for that, without the ones that
//! are held out. The model is extrapolated only where its error at the points held out, and at
//! those of the fit, is at most [`ERROR_MAX`] percent.

/// Most threads of a point that the model is fitted to.
const FIT_MAX: usize = 16;
/// Largest error at a point with which the model is extrapolated, in percent.
pub(super) const ERROR_MAX: f64 = 25.0;

/// Steps of a factor in each direction, and the ratio of two steps.
const COARSE: (i32, f64) = (8, 1.189_207_115); // the fourth root of 2: a quarter to four times
const FINE: (i32, f64) = (4, 1.044_273_782); // the sixteenth root of 2
const HAND_OVER: (i32, f64) = (3, 2.0);

/// Factors of measured inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Factors {
    /// Of the time of a file outside of locks.
    pub(super) work: f64,
    /// Of the time of a hand-over.
    pub(super) hand_over: f64,
}

impl Factors {
    /// The inputs as they were measured.
    pub(super) const MEASURED: Self = Self { work: 1.0, hand_over: 1.0 };
}

/// Splits numbers of threads into those to fit to and those that are held out: more than
/// [`FIT_MAX`]; if there are none, the largest number, unless it is the only one.
pub(super) fn split(threads: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut all = threads.to_vec();
    all.sort_unstable();
    all.dedup();
    let fit = match all.iter().filter(|n| **n <= FIT_MAX).count() {
        all_fit if all_fit == all.len() => all_fit.saturating_sub(1).max(1).min(all.len()),
        some => some,
    };
    let held_out = all.split_off(fit);
    (all, held_out)
}

/// Returns the factors with which `rate` is closest to the points: numbers of threads, and measured
/// rates. The factors stay as they were measured if there is no point.
pub(super) fn fit(points: &[(usize, f64)], rate: impl Fn(Factors, usize) -> f64) -> Factors {
    let distance = |factors: Factors| -> f64 {
        points.iter().map(|(threads, real)| (rate(factors, *threads) / real).ln().powi(2)).sum()
    };
    let best = |from: Factors, (steps, ratio): (i32, f64), set: fn(Factors, f64) -> Factors| {
        let mut best = (from, distance(from));
        // Smaller changes first: a larger one must be better, not as good.
        for step in (1..=steps).flat_map(|step| [step, -step]) {
            let factors = set(from, ratio.powi(step));
            let found = distance(factors);
            if found < best.1 {
                best = (factors, found);
            }
        }
        best.0
    };
    if points.is_empty() {
        return Factors::MEASURED;
    }
    let work = |of: Factors, by: f64| Factors { work: of.work * by, ..of };
    let hand_over = |of: Factors, by: f64| Factors { hand_over: of.hand_over * by, ..of };
    let coarse = best(Factors::MEASURED, COARSE, work);
    best(best(coarse, HAND_OVER, hand_over), FINE, work)
}

/// Returns the largest error in percent over some points: measured and computed rates. `None`
/// without a point.
pub(super) fn error(points: &[(f64, f64)]) -> Option<f64> {
    let error = |(measured, computed): &(f64, f64)| (computed / measured - 1.0).abs() * 100.0;
    points
        .iter()
        .map(error)
        .reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
}

/// Returns true if the model with this error may be extrapolated.
pub(super) fn is_valid(error: Option<f64>) -> bool {
    error.is_some_and(|error| error <= ERROR_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A law in the place of the simulation: work in parallel, hand-overs one after the other.
    fn law(factors: Factors, threads: usize) -> f64 {
        let n = f64::from(u32::try_from(threads).expect("few"));
        n / (5.0 * factors.work + 0.2 * factors.hand_over * (n - 1.0))
    }

    #[test]
    fn points_with_many_threads_are_held_out() {
        assert_eq!(split(&[32, 1, 2, 16, 2]), (vec![1, 2, 16], vec![32]));
        assert_eq!(split(&[1, 2, 4, 16]), (vec![1, 2, 4], vec![16]), "none is above 16");
        assert_eq!(split(&[1]), (vec![1], vec![]), "nothing to validate with");
        assert_eq!(split(&[64]), (vec![], vec![64]));
        assert_eq!(split(&[]), (vec![], vec![]));
    }

    #[test]
    fn factors_are_found_from_points_that_follow_the_model() {
        let real = Factors { work: 1.5, hand_over: 4.0 };
        let points: Vec<(usize, f64)> = [1, 2, 8].map(|n| (n, law(real, n))).to_vec();
        let found = fit(&points, law);
        assert!((found.work / real.work - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.hand_over / real.hand_over - 1.0).abs() < 0.05, "{found:?}");
        let unseen = error(&[(law(real, 32), law(found, 32))]);
        assert!(is_valid(unseen), "{unseen:?}");
    }

    #[test]
    fn inputs_that_fit_stay_as_they_were_measured() {
        let points: Vec<(usize, f64)> = [1, 4].map(|n| (n, law(Factors::MEASURED, n))).to_vec();
        assert_eq!(fit(&points, law), Factors::MEASURED);
        assert_eq!(fit(&[], law), Factors::MEASURED);
    }

    #[test]
    fn a_model_with_a_large_error_is_not_extrapolated() {
        // The machine collapses at 32 threads, which the law does not know.
        let points: Vec<(usize, f64)> = [1, 2, 8].map(|n| (n, law(Factors::MEASURED, n))).to_vec();
        let found = fit(&points, law);
        let unseen = error(&[(law(found, 32) / 3.0, law(found, 32))]);
        assert!(unseen.is_some_and(|percent| (percent - 200.0).abs() < 1e-6), "{unseen:?}");
        assert!(!is_valid(unseen));
        assert!(is_valid(Some(ERROR_MAX)) && !is_valid(Some(25.1)));
        assert!(!is_valid(None), "it was not validated");
        assert!(!is_valid(error(&[(1.0, 1.0), (f64::NAN, 1.0)])), "a point without a figure");
    }
}
