//! The question, the answer and its figure at the head of the sections that vary one parameter.

use super::Point;
use super::published;
use super::readers::State;
use crate::report::{Answer, Cell};

/// What stands in place of figures that were not published.
pub(super) const NO_FIGURES: &str = "no figures.";

/// A point with this part of the best rate is as good.
const GOOD: f64 = 0.9;

fn shown(rate: f64) -> Cell {
    Cell::Number(rate, 0)
}

/// Returns the points with one failed member that were long enough.
fn degraded<'p>(points: impl Iterator<Item = &'p Point>) -> Vec<&'p Point> {
    points.filter(|point| point.setup.state == State::Missing(1) && !point.is_too_short()).collect()
}

fn fastest<'p>(points: &[&'p Point]) -> Option<&'p Point> {
    points.iter().copied().max_by(|a, b| a.rate.median().total_cmp(&b.rate.median()))
}

/// Compares the array with the fastest RAID50 of the same members, with as many missing as were
/// measured.
pub(super) fn raid50(arrays: &[&[Point]]) -> Option<Answer> {
    let [array, fifties @ ..] = arrays else { return None };
    let is_static =
        |point: &&Point| matches!(point.setup.state, State::Missing(_)) && !point.is_too_short();
    let array = array.iter().rfind(is_static)?;
    let same = |point: &&Point| point.setup.state == array.setup.state && !point.is_too_short();
    let fifties: Vec<&Point> = fifties.iter().filter_map(|all| all.iter().find(same)).collect();
    let fifty = fastest(&fifties)?;
    let (times, state) = (fifty.rate.times(&array.rate), array.setup.state.name());
    let of = |point: &Point| point.setup.plan.describe();
    let claim = |name: &str| {
        format!(
            "{name} reads more with {state}: {} reads {:.2} times what {} reads",
            of(fifty),
            times.middle,
            of(array)
        )
    };
    let range = times.range(|times| format!("{times:.2}"));
    let rates: Vec<String> = std::iter::once(array)
        .chain(fifties.iter().copied())
        .map(|point| format!("{} {} MB/s", of(point), shown(point.rate.median())))
        .collect();
    Some(Answer {
        question: "Do two arrays of half the disks read more than one array, if disks are missing?"
            .into(),
        verdict: times.above(1.0).sentence(
            &claim(&fifty.setup.plan.name()),
            &claim(&array.setup.plan.name()),
            &format!("{range} times"),
            times.turns,
        ),
        figure: format!("{}.", rates.join(", ")),
        published: NO_FIGURES.into(),
    })
}

/// Returns the answer about the least of a parameter that is enough: the smallest `size` with
/// nine tenths of the best rate. `name` describes a point by it.
fn least(
    question: &str,
    points: &[&Point],
    size: impl Fn(&Point) -> u64,
    name: impl Fn(&Point) -> String,
    published: String,
) -> Option<Answer> {
    let best = fastest(points)?;
    let is_good = |point: &&&Point| point.rate.median() >= GOOD * best.rate.median();
    let enough = points.iter().filter(is_good).min_by_key(|point| size(point))?;
    let times = enough.rate.times(&best.rate);
    let claim = format!("{} give nine tenths of the best rate", name(enough));
    let range = format!("{} times", times.range(|times| format!("{times:.2}")));
    Some(Answer {
        question: question.into(),
        verdict: times.at_least(GOOD).sentence(&claim, &claim, &range, times.turns),
        figure: format!(
            "{}: {} of {} MB/s.",
            name(enough),
            shown(enough.rate.median()),
            shown(best.rate.median())
        ),
        published,
    })
}

/// Returns the answer to how large a stripe cache must be. `stripes` returns that of a point, as md
/// counts it.
pub(super) fn caches(points: &[Point], stripes: impl Fn(&Point) -> u64) -> Option<Answer> {
    let published: Vec<String> = published::READ
        .iter()
        .filter_map(|(_, stripes, rate)| Some(format!("{} with {}", shown(*rate), (*stripes)?)))
        .collect();
    let name = |point: &Point| {
        let mib = point.setup.stripe_cache >> 20;
        format!("{} stripes of md ({mib} MiB)", Cell::Count(stripes(point)))
    };
    least(
        "How large must the stripe cache of a degraded array be?",
        &degraded(points.iter()),
        &stripes,
        name,
        format!("{} MB/s.", published.join(", ")),
    )
}

/// Returns the answer to how many readers a degraded array needs for its rate.
pub(super) fn readers(points: &[Point]) -> Option<Answer> {
    let free = points.iter().filter(|point| !point.setup.pinned);
    least(
        "How many readers get the rate of a degraded array?",
        &degraded(free),
        |point| point.setup.readers as u64,
        |point| match point.setup.readers {
            1 => "1 reader".into(),
            n => format!("{n} readers"),
        },
        "200 to 1,000 MB/s for 50 readers.".into(),
    )
}

/// Returns the answer to which chunk is best.
pub(super) fn chunks(points: &[Point]) -> Option<Answer> {
    let degraded = degraded(points.iter());
    let best = fastest(&degraded)?;
    let worst = degraded.iter().min_by(|a, b| a.rate.median().total_cmp(&b.rate.median()))?;
    let times = best.rate.times(&worst.rate);
    let kib = |point: &Point| point.setup.plan.chunk >> 10;
    let claim = format!(
        "Chunks of {} KiB are the fastest and of {} KiB the slowest",
        kib(best),
        kib(worst)
    );
    let range = format!("{} times", times.range(|times| format!("{times:.2}")));
    Some(Answer {
        question: "Which chunk do readers of a degraded array want?".into(),
        verdict: times.above(1.0).sentence(&claim, &claim, &range, times.turns),
        figure: format!(
            "{} KiB: {} MB/s, {} KiB: {} MB/s.",
            kib(best),
            shown(best.rate.median()),
            kib(worst),
            shown(worst.rate.median())
        ),
        published: "512 KiB alone was measured.".into(),
    })
}

/// Returns the part of the rate of `base` that `point` keeps, and the published part.
pub(super) fn kept(point: Option<&Point>, base: Option<&Point>) -> Option<String> {
    let long = |point: Option<&Point>| Some(point.filter(|it| !it.is_too_short())?.rate.median());
    Some(format!("{:.2} of the rate.", long(point)? / long(base)?))
}

#[cfg(test)]
mod tests {
    use super::super::tables::testing::point;
    use super::*;
    use xfskit_md::Level;

    fn degraded_point(rates: [u64; 4]) -> Point {
        let mut made = point(rates[0]);
        made.setup.state = State::Missing(1);
        rates[1..].iter().for_each(|rate| made.add(point(*rate).last));
        made
    }

    #[test]
    fn raid50_is_compared_in_the_worst_state_that_both_have() {
        let raid6 = degraded_point([1000, 1010, 990, 1000]);
        let fifty = |rate: u64| {
            let mut point = degraded_point([rate, rate + 10, rate - 10, rate]);
            (point.setup.plan.level, point.setup.plan.legs) = (Level::Raid5, 2);
            point
        };
        let of = |rate| raid50(&[&[point(9000), raid6.clone()], &[point(9000), fifty(rate)]]);
        let more = of(1200).expect("an answer");
        assert!(
            more.verdict.starts_with("RAID50 reads more with one failed: RAID50 of 2 times 12")
        );
        assert_eq!(more.figure, "RAID6 of 24 1,000 MB/s, RAID50 of 2 times 12 1,200 MB/s.");
        let less = of(800).expect("an answer").verdict;
        assert!(less.starts_with("RAID6 reads more with one failed"), "{less}");
        assert!(raid50(&[&[point(9000)]]).is_none(), "no RAID50");
    }

    #[test]
    fn the_least_that_is_enough_is_named_with_its_figure() {
        let with = |stripes: u64, rate: u64| {
            let mut point = degraded_point([rate, rate + 1, rate - 1, rate]);
            point.setup.stripe_cache = stripes * 4096 * 24;
            point
        };
        let points = [with(256, 400), with(1024, 940), with(4096, 1000)];
        let answer = caches(&points, |p| p.setup.stripe_cache / 4096 / 24).expect("an answer");
        assert_eq!(answer.figure, "1,024 stripes of md (96 MiB): 940 of 1,000 MB/s.");
        assert!(answer.verdict.starts_with("1,024 stripes of md (96 MiB) give nine tenths"));
        assert_eq!(answer.published, "200 with 256, 1,000 with 16384 MB/s.");
        assert!(caches(&[point(500)], |_| 1).is_none(), "not degraded");
    }

    #[test]
    fn the_fastest_and_the_slowest_chunk_are_named_only_if_the_turns_show_it() {
        let with = |kib: u64, rates| {
            let mut point = degraded_point(rates);
            point.setup.plan.chunk = kib << 10;
            point
        };
        let slow = with(16, [500, 501, 499, 500]);
        let shown = chunks(&[slow.clone(), with(512, [800, 801, 799, 800])]).expect("an answer");
        assert!(shown.verdict.starts_with("Chunks of 512 KiB are the fastest and of 16 KiB"));
        let noise = chunks(&[slow, with(512, [400, 700, 300, 900])]).expect("an answer");
        assert!(noise.verdict.starts_with("Not decided by this run"), "{}", noise.verdict);
    }

    #[test]
    fn what_is_kept_needs_both_points() {
        let (base, short) = (point(1000), point(40));
        assert_eq!(kept(Some(&point(920)), Some(&base)).as_deref(), Some("0.92 of the rate."));
        assert_eq!(kept(Some(&short), Some(&base)), None);
        assert_eq!(kept(None, Some(&base)), None);
    }
}
