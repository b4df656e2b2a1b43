//! The conclusions of the published study in words, each beside the figures of this run.

use super::case::{Case, Churn, Thinning};
use super::leaves::{Histogram, Leaves};
use super::published;
use crate::report::Section;
use crate::testbed::Implementation;

/// The leaves of a case on an implementation.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaseLeaves<'r> {
    pub(super) case: &'r Case,
    pub(super) implementation: Implementation,
    pub(super) leaves: &'r Leaves,
}

/// Adds the three conclusions to the section of the cases on a fresh volume.
pub(super) fn add<'r>(section: &mut Section, results: impl Iterator<Item = CaseLeaves<'r>>) {
    let fresh: Vec<CaseLeaves<'_>> =
        results.filter(|result| result.case.thinning == Thinning::Nothing).collect();
    let mut implementations: Vec<Implementation> = Vec::new();
    for result in &fresh {
        if !implementations.contains(&result.implementation) {
            implementations.push(result.implementation);
        }
    }
    if implementations.is_empty() {
        return;
    }
    section.paragraph(format!(
        "The published study draws three conclusions. First: attributes that are only set waste up to {}, with a quarter of them \
         overwritten by other sizes up to {}, with a quarter of them removed up to {}. Second: the hash values are spread evenly \
         over the leaves. Third: at most two attributes have the same hash.",
        published_most(is_plain),
        published_most(is_overwritten),
        published_most(is_removed),
    ));
    for implementation in implementations {
        let own: Vec<CaseLeaves<'_>> =
            fresh.iter().filter(|r| r.implementation == implementation).copied().collect();
        section.paragraph(format!("Here, {}: {}", implementation.name(), of_this_run(&own)));
    }
}

/// Returns the sentences about one implementation.
fn of_this_run(results: &[CaseLeaves<'_>]) -> String {
    let most = |matches: fn(Churn) -> bool| {
        let of_these = results.iter().filter(|result| matches(result.case.churn));
        let wasted = of_these.map(|result| result.leaves.percent(result.leaves.wasted));
        wasted.reduce(f64::max).map_or_else(|| "–".into(), |percent| format!("{percent:.1} %"))
    };
    let spread = results.iter().map(|result| spread(&result.leaves.hashes_per_leaf));
    let same = results.iter().filter_map(|r| r.leaves.attributes_per_hash.keys().max()).max();
    format!(
        "first, up to {}, {} and {} are wasted. Second, in each case nine tenths of the leaves have a number of hash values \
         within {:.0} % of the median. Third, at most {} have the same hash.",
        most(is_plain),
        most(is_overwritten),
        most(is_removed),
        spread.fold(f64::NAN, f64::max) * 100.0,
        same.copied().unwrap_or(0),
    )
}

fn is_plain(churn: Churn) -> bool {
    churn == Churn::Nothing
}

fn is_overwritten(churn: Churn) -> bool {
    matches!(churn, Churn::Overwritten(_))
}

fn is_removed(churn: Churn) -> bool {
    matches!(churn, Churn::Removed(_))
}

/// Returns the largest published waste of such cases, in whole percent as the publication has it.
fn published_most(matches: fn(Churn) -> bool) -> String {
    let rows = published::CLEAN
        .iter()
        .filter(|row| row.case.parse().is_ok_and(|case: Case| matches(case.churn)));
    let most = rows.map(|row| row.wasted_percent).fold(f64::NAN, f64::max);
    format!("{:.0} %", most.trunc())
}

/// Returns the distance of the 5 and 95 percent quantiles from the median, the larger one, as a
/// part of the median.
#[allow(clippy::cast_precision_loss)] // of a share
fn spread(histogram: &Histogram) -> f64 {
    let [low, median, high] = [5, 50, 95].map(|percent| quantile(histogram, percent) as f64);
    (median - low).max(high - median) / median
}

/// Returns the value below which `percent` of all lie.
fn quantile(histogram: &Histogram, percent: u64) -> usize {
    let all: u64 = histogram.values().sum();
    let mut left = all * percent / 100;
    for (&value, &count) in histogram {
        if left < count {
            return value;
        }
        left -= count;
    }
    histogram.keys().max().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_percentages_follow_from_the_published_rows() {
        let most = [is_plain, is_overwritten, is_removed].map(published_most);
        assert_eq!(most, ["30 %", "38 %", "44 %"]);
    }

    #[test]
    fn the_spread_is_that_of_nine_tenths_of_the_leaves() {
        let histogram = Histogram::from([(1, 5), (90, 45), (100, 40), (110, 5), (900, 5)]);
        let quantiles = [5, 50, 94, 95].map(|percent| quantile(&histogram, percent));
        assert_eq!(quantiles, [90, 100, 110, 900]);
        assert!((spread(&Histogram::from([(90, 50), (100, 49), (110, 1)])) - 0.1).abs() < 1e-9);
    }
}
