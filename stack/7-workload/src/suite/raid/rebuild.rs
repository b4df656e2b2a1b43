//! A rebuild under load, with a limit as md's `sync_speed_max` sets it: what readers keep, and how
//! long the rebuild takes.

use std::io;

use super::members::{MemberKind, MemberSet};
use super::readers::{Setup, State};
use super::roofline::LATENCY;
use super::{Point, Study, answers};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::Observer;

/// Speed of simulated members in bytes per second, if the study's members are in memory: a rebuild
/// then competes with the readers for members, not only for processors.
const SPEED: u64 = 200_000_000;

pub(super) fn section(study: &Study<'_>, observer: &mut dyn Observer) -> io::Result<Section> {
    let simulated;
    let member_set = match &study.options.members {
        MemberKind::Memory => {
            let kind = MemberKind::Simulated { speed: SPEED, latency: LATENCY };
            simulated = study.member_set.as_kind(&kind);
            simulated.as_ref().unwrap_or(&study.member_set)
        }
        MemberKind::Files(_) | MemberKind::Simulated { .. } => &study.member_set,
    };
    let points = study.measure_on(member_set, "rebuild under load", setups(study), observer)?;
    let mut section = Section::new("Degraded reads: a rebuild under load");
    section.answer = Some(answer(&points));
    section.paragraph(
        "One member is new and is filled while the readers read. The limit is that of one member, as md's sync_speed_max. The \
         rebuild waits after each window of some megabytes until the limit allows the next one.",
    );
    section.tables.push(table(member_set, &points));
    section.plots.push(plot(study, &points));
    Ok(section)
}

/// Returns the answer to what readers keep.
fn answer(points: &[Point]) -> Answer {
    let of = |state| points.iter().find(|point| point.setup.state == state);
    let kept = answers::kept(of(State::Rebuilding), of(State::Missing(1)));
    Answer {
        question: "What do readers keep while a member is rebuilt?".into(),
        verdict: sentence(points),
        figure: kept.unwrap_or_default(),
        published: answers::NO_FIGURES.into(),
    }
}

/// Returns the setups: healthy, degraded, and rebuilding with every limit, without one first.
fn setups(study: &Study<'_>) -> Vec<Setup> {
    let setup = |state| Setup { state, ..study.default_setup() };
    let rebuilding = |rebuild_limit| Setup { rebuild_limit, ..setup(State::Rebuilding) };
    let limits = study.options.rebuild_limits.iter().map(|limit| rebuilding(Some(*limit)));
    let states = [setup(State::Missing(0)), setup(State::Missing(1)), rebuilding(None)];
    states.into_iter().chain(limits).collect()
}

fn name(point: &Point) -> String {
    match (point.setup.state, point.setup.rebuild_limit) {
        (State::Missing(_), _) => format!("{}, no rebuild", point.setup.state.name()),
        (State::Rebuilding, None) => "rebuilding, no limit".into(),
        (State::Rebuilding, Some(limit)) => format!("rebuilding, limit {} MB/s", limit / 1_000_000),
    }
}

/// Describes what readers keep without a limit, and with the lowest one.
fn sentence(points: &[Point]) -> String {
    let degraded = points.iter().find(|point| point.setup.state == State::Missing(1));
    let Some(degraded) = degraded.filter(|point| !point.is_too_short()) else {
        return "The degraded array was not measured for long enough to compare a rebuild with it."
            .into();
    };
    let rebuilding =
        |point: &&Point| point.setup.state == State::Rebuilding && !point.is_too_short();
    let keep = |point: &Point| {
        let kept = point.rate.median() / degraded.rate.median();
        let rate = point.last.rebuild_rate().unwrap_or(f64::NAN);
        let limit = match point.setup.rebuild_limit {
            None => "Without a limit".into(),
            Some(limit) => format!("With a limit of {} MB/s", limit / 1_000_000),
        };
        format!(
            "{limit} the readers keep {kept:.2} of the rate of the degraded array, while the member is filled at {} MB/s",
            Cell::Number(rate, 0)
        )
    };
    let mut found = points.iter().filter(rebuilding);
    match (found.next(), found.next_back()) {
        (Some(first), Some(last)) => format!("{}. {}.", keep(first), keep(last)),
        (Some(only), None) => format!("{}.", keep(only)),
        (None, _) => "No rebuild was measured for long enough.".into(),
    }
}

#[allow(clippy::cast_precision_loss)] // of a size
fn table(member_set: &MemberSet, points: &[Point]) -> Table {
    let columns = [
        ("read", "MB/s"),
        ("spread", "± %"),
        ("of degraded", "times"),
        ("rebuilt", "MB/s"),
        ("whole member in", "s"),
        ("1 TB in", "h"),
        ("processor", "ns/byte"),
        ("turns", ""),
    ];
    let title = "Requests of a full stripe, while a member is rebuilt";
    let mut table = Table::new(title, &columns);
    let degraded = points.iter().find(|point| point.setup.state == State::Missing(1));
    let degraded = degraded.map_or(f64::NAN, |point| point.rate.median());
    for point in points {
        let mut cells = vec![Cell::None; columns.len() - 1];
        cells.push(Cell::Count(point.rate.count() as u64));
        if !point.is_too_short() {
            cells[0] = Cell::Number(point.rate.median(), 0);
            cells[1] = Cell::Number(point.rate.spread() * 100.0, 1);
            cells[2] = Cell::Number(point.rate.median() / degraded, 3);
            cells[6] = Cell::Number(point.last.processor(), 3);
        }
        if let Some(rate) = point.last.rebuild_rate().filter(|_| !point.is_too_short()) {
            cells[3] = Cell::Number(rate, 0);
            cells[4] = Cell::Number(member_set.size() as f64 / 1e6 / rate, 1);
            cells[5] = Cell::Number(1e6 / rate / 3600.0, 1);
        }
        table.row(name(point), &member_set.storage, cells);
    }
    table.note(
        "The times of a whole member and of one of 1 TB follow from the rate of the rebuild, which was measured for the time of \
         the point or until it ended.",
    );
    table
}

fn plot(study: &Study<'_>, points: &[Point]) -> Plot {
    let shown: Vec<(f64, &Point)> = (1..).map(f64::from).zip(points).collect();
    let line = |name: &str, y: &dyn Fn(&Point) -> Option<f64>| Line {
        name: name.into(),
        source: Source::Measured,
        points: shown
            .iter()
            .filter(|(_, point)| !point.is_too_short())
            .filter_map(|(x, point)| Some((*x, y(point)?)))
            .collect(),
    };
    let (plan, readers) = (study.options.plan.describe(), study.options.readers);
    Plot {
        title: format!("{plan}, {readers} readers: reads while a member is rebuilt"),
        x: Axis::named("limit of the rebuild", points.iter().map(name).collect()),
        // A member is filled at a thousandth of what all readers get.
        y: Axis::logarithmic("throughput, MB/s"),
        lines: vec![
            line("read by the readers", &|point| Some(point.rate.median())),
            line("written to the new member", &|point| point.last.rebuild_rate()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::readers::Rebuilt;
    use super::super::tables::testing::point;
    use super::*;

    fn rebuilding(rate: u64, limit: Option<u64>, rebuilt: u64) -> Point {
        let mut point = point(rate);
        point.setup.state = State::Rebuilding;
        point.setup.rebuild_limit = limit;
        point.last.rebuilt = Some(Rebuilt { bytes: rebuilt, time: Duration::from_secs(1) });
        point
    }

    #[test]
    fn the_sentence_compares_with_the_degraded_array() {
        let mut degraded = point(1000);
        degraded.setup.state = State::Missing(1);
        let points = [
            point(1200),
            degraded.clone(),
            rebuilding(400, None, 90_000_000),
            rebuilding(900, Some(10_000_000), 10_000_000),
        ];
        assert_eq!(
            sentence(&points),
            "Without a limit the readers keep 0.40 of the rate of the degraded array, while the member is filled at 90 \
             MB/s. With a limit of 10 MB/s the readers keep 0.90 of the rate of the degraded array, while the member is \
             filled at 10 MB/s."
        );
        assert_eq!(sentence(&points[..2]), "No rebuild was measured for long enough.");
        assert!(sentence(&points[2..]).starts_with("The degraded array was not measured"));
        assert!(sentence(&points[..3]).ends_with("at 90 MB/s."));
    }
}
