//! Requests of every size: healthy, degraded, and degraded without the stripe cache.

use std::io;

use super::members::Plan;
use super::readers::{Setup, State};
use super::tables::{cost_cells, megabytes_of_mib};
use super::{Options, Point, Study, published, tables};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::Observer;

/// The contenders of one size, in order.
const WAYS: [&str; 3] = ["healthy", "one failed", "one failed, no stripe cache"];

/// The shape of the published array: 8 members of data, RAID6, chunk 128 KiB.
const PUBLISHED_MEMBERS: u32 = 10;
const PUBLISHED_CHUNK: u64 = 128 << 10;

/// Measures the study's array with all readers and, if there are enough members, one of the
/// published shape with one reader.
pub(super) fn section(study: &Study<'_>, observer: &mut dyn Observer) -> io::Result<Section> {
    let default_setup = study.default_setup();
    let mut section = Section::new("Degraded reads: size of requests");
    section.paragraph(
        "Sequential readers with requests of one size. A request that is smaller than a stripe and meets the missing member \
         is served by the stripe cache, which reads the stripe once for all its requests. Without a stripe cache each such \
         request reads what it needs of the other members.",
    );
    let mut arrays = vec![(default_setup, "requests")];
    let plan = default_setup.plan;
    if has_published_shape(&plan) {
        let plan = Plan { members: PUBLISHED_MEMBERS, chunk: PUBLISHED_CHUNK, ..plan };
        arrays.push((Setup { plan, readers: 1, ..default_setup }, "requests, published shape"));
    }
    for (setup, what) in arrays {
        let points = study.measure(what, setups(&setup, &study.options.requests), observer)?;
        match &section.answer {
            None => section.answer = Some(answer(&setup, &points)),
            Some(_) => section.paragraph(sentence(&setup, &points)),
        }
        section.tables.push(table(study, &setup, &points));
        section.plots.push(plot(&setup, &points));
    }
    Ok(section)
}

/// Returns true if an array of the published shape can be made of the members of `plan`.
fn has_published_shape(plan: &Plan) -> bool {
    plan.tolerates() == 2 && plan.legs == 1 && plan.members >= PUBLISHED_MEMBERS
}

/// Returns the number of points.
pub(super) fn points(options: &Options) -> usize {
    let arrays = 1 + usize::from(has_published_shape(&options.plan));
    arrays * WAYS.len() * options.requests.len()
}

fn setups(setup: &Setup, requests: &[u64]) -> Vec<Setup> {
    let of = |request: &u64| {
        let healthy = Setup { request: *request, state: State::Missing(0), ..*setup };
        let degraded = Setup { state: State::Missing(1), ..healthy };
        [healthy, degraded, Setup { stripe_cache: 0, ..degraded }]
    };
    requests.iter().flat_map(of).collect()
}

fn title(setup: &Setup) -> String {
    let s = if setup.readers == 1 { "" } else { "s" };
    let (plan, chunk) = (setup.plan.describe(), setup.plan.chunk >> 10);
    format!(
        "{plan}, chunk {chunk} KiB, {} reader{s}: throughput by size of requests",
        setup.readers
    )
}

/// Returns the sizes with the smallest and the largest rate of degraded reads over healthy ones:
/// KiB of a request, and that ratio. `None` if no size was measured for long enough.
fn extremes(points: &[Point]) -> Option<[(u64, f64); 2]> {
    let ratio = |three: &[Point]| {
        let [healthy, degraded, _] = three else { return None };
        let long = !healthy.is_too_short() && !degraded.is_too_short();
        let ratio = degraded.rate.median() / healthy.rate.median();
        long.then_some((degraded.setup.request >> 10, ratio))
    };
    let ratios: Vec<(u64, f64)> = points.chunks(WAYS.len()).filter_map(ratio).collect();
    let by = |a: &&(u64, f64), b: &&(u64, f64)| a.1.total_cmp(&b.1);
    Some([*ratios.iter().min_by(by)?, *ratios.iter().max_by(by)?])
}

/// Describes at which sizes a degraded read costs most and least.
fn sentence(setup: &Setup, points: &[Point]) -> String {
    let name = setup.plan.describe();
    match extremes(points) {
        Some([least, most]) => format!(
            "{name}: degraded reads have from {:.2} (requests of {} KiB) to {:.2} (of {} KiB) of the rate of healthy ones.",
            least.1, least.0, most.1, most.0
        ),
        None => {
            format!("{name}: no size was measured for long enough to compare healthy and degraded.")
        }
    }
}

/// Returns the answer to which requests a missing member costs most.
fn answer(setup: &Setup, points: &[Point]) -> Answer {
    let published = published::CHANGE.map(|(_, rates)| rates[1] / rates[0]);
    let [least, most] = [f64::min, f64::max].map(|of| published.into_iter().fold(f64::NAN, of));
    Answer {
        question: "Which size of requests does a missing member cost most?".into(),
        verdict: sentence(setup, points),
        figure: extremes(points).map_or(String::new(), |[least, most]| {
            format!("{:.2} to {:.2} times.", least.1, most.1)
        }),
        published: format!("{least:.2} to {most:.2} times."),
    }
}

fn table(study: &Study<'_>, setup: &Setup, points: &[Point]) -> Table {
    let mut table = Table::new(title(setup), &tables::COST);
    for three in points.chunks(WAYS.len()) {
        let healthy = three[0].rate.median();
        for (point, way) in three.iter().zip(WAYS) {
            let name = format!("{} KiB, {way}", point.setup.request >> 10);
            table.row(name, &study.member_set.storage, cost_cells(point, healthy));
        }
    }
    for (kib, rates) in published::CHANGE {
        for (rate, way) in rates.into_iter().zip(published::CHANGE_WAYS) {
            let mut cells = vec![Cell::None; tables::COST.len()];
            cells[0] = Cell::Number(megabytes_of_mib(rate), 0);
            cells[2] = Cell::Number(rate / rates[0], 3);
            table.published(format!("{kib} KiB, {way}"), published::CHANGE_ON, cells);
        }
    }
    table
}

#[allow(clippy::cast_precision_loss)] // of sizes
fn plot(setup: &Setup, points: &[Point]) -> Plot {
    let measured = |n: usize| Line {
        name: WAYS[n].into(),
        source: Source::Measured,
        points: points
            .chunks(WAYS.len())
            .filter_map(|three| three.get(n))
            .filter(|point| !point.is_too_short())
            .map(|point| (point.setup.request as f64 / 1024.0, point.rate.median()))
            .collect(),
    };
    let published = |n: usize| Line {
        name: format!("md, {}", published::CHANGE_WAYS[n]),
        source: Source::Published,
        points: published::CHANGE
            .iter()
            .rev()
            .map(|(kib, rates)| (*kib as f64, megabytes_of_mib(rates[n])))
            .collect(),
    };
    Plot {
        title: title(setup),
        x: Axis::logarithmic("request, KiB"),
        y: Axis::logarithmic("throughput, MB/s"),
        lines: (0..WAYS.len()).map(measured).chain((0..WAYS.len()).map(published)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::testing::point;
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // of values that are exact
    fn the_sentence_names_the_cheapest_and_the_dearest_size() {
        let at = |request: u64, rate| {
            let mut point = point(rate);
            point.setup.request = request;
            point
        };
        let three = |request, rates: [u64; 3]| rates.map(|rate| at(request, rate));
        let points = [three(4096, [1000, 900, 500]), three(1 << 20, [1000, 300, 200])].concat();
        let text = sentence(&points[0].setup, &points);
        assert!(text.ends_with(
            "from 0.30 (requests of 1024 KiB) to 0.90 (of 4 KiB) of the rate of healthy ones."
        ));
        let text = sentence(&points[0].setup, &three(4096, [40, 900, 500]));
        assert!(text.ends_with("to compare healthy and degraded."), "{text}");
        let none = answer(&points[0].setup, &three(4096, [40, 900, 500]));
        let some = answer(&points[0].setup, &points);
        assert_eq!([none.figure.as_str(), some.figure.as_str()], ["", "0.30 to 0.90 times."]);
        assert_eq!(some.published, "0.41 to 1.00 times.");
        let lines = plot(&points[0].setup, &points).lines;
        assert_eq!(lines[1].points, [(4.0, 900.0), (1024.0, 300.0)]);
        assert_eq!(lines[5].points[0].0, 4.0, "published, in order of size");
    }
}
