//! Space: how full leaves are after attributes were set, removed and set again.

use std::io;

use serde_json::json;

use super::case::{Case, Operation, name};
use super::leaves::{Leaves, shares};
use super::published::{self, Row};
use crate::Driver;
use crate::measure::usage::{Usage, Watch};
use crate::random::Random;
use crate::report::{Axis, Cell, Line, Plot, Section, Source, Table};
use crate::side::{Job, Who};
use crate::suite::{Audience, Settings};

/// The file that has the attributes.
pub(super) const FILE: &[u8] = b"file";
/// Lines that a plot bears.
const LINES: usize = 6;

/// A case on one side.
#[derive(Debug)]
struct Answer {
    case: Case,
    who: Who,
    on: String,
    usage: Usage,
    leaves: Leaves,
}

/// Carries out a case and syncs.
pub(super) struct Work<'c> {
    pub(super) case: &'c Case,
    pub(super) seed: u64,
}

impl Job for Work<'_> {
    type Answer = Usage;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Usage> {
        let value = value(self.seed, self.case.sizes.iter().copied().max().unwrap_or(0));
        let root = driver.root()?;
        let file = driver.create(&root, FILE)?;
        let watch = Watch::start()?;
        self.case.operations(&mut |operation| match operation {
            Operation::Set(n, size) => driver.set_xattr(&file, &name(n), &value[..size]),
            Operation::Remove(n) => driver.remove_xattr(&file, &name(n)),
        })?;
        driver.close(file)?;
        driver.sync()?;
        watch.read()
    }
}

/// Bytes of values.
pub(super) fn value(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.number().to_le_bytes()[0]).collect()
}

/// The section on `cases`, with the published figures where there are.
///
/// # Errors
/// Those of the volumes, and where the audience wants to stop.
pub(super) fn section(
    title: &str,
    cases: &[Case],
    settings: &Settings,
    sides: &[Who],
    audience: &mut dyn Audience,
) -> io::Result<Section> {
    let mut answers = Vec::new();
    for case in cases {
        for &who in sides {
            audience.note(&format!("{case} on {}", who.name()))?;
            let answer = run(case, who, settings)?;
            audience.result(result(&answer))?;
            answers.push(answer);
        }
    }
    let mut section = Section::new(title);
    section.say(
        "One file, attributes trusted.name%011d. A leaf's used space is its head (80 bytes), 8 bytes for each \
         entry, and names with values. By the published measure a leaf under 2,700 bytes used is one below, and \
         what it has free is wasted; all free space stands beside it.",
    );
    section.tables.push(table(&answers));
    section.plots.extend(plots(&answers));
    Ok(section)
}

fn run(case: &Case, who: Who, settings: &Settings) -> io::Result<Answer> {
    let mut side = settings.side(who)?;
    let usage = side.run(&mut Work { case, seed: settings.seed })?;
    let leaves = Leaves::of(&side.look()?, FILE)?;
    Ok(Answer { case: case.clone(), who, on: side.on().to_owned(), usage, leaves })
}

fn result(answer: &Answer) -> serde_json::Value {
    let Answer { case, who, on, usage, leaves } = answer;
    json!({ "xattrs": {
        "case": case.to_string(),
        "driver": who.name(),
        "on": on,
        "wall_seconds": usage.wall.as_secs_f64(),
        "processor_seconds": usage.processor.as_secs_f64(),
        "below_percent": leaves.below_percent(),
        "total_bytes": leaves.total(),
        "wasted_percent": leaves.percent(leaves.wasted),
        "free_percent": leaves.percent(leaves.free),
        "leaves": leaves,
    }})
}

#[allow(clippy::cast_precision_loss)] // of megabytes
fn table(answers: &[Answer]) -> Table {
    let mut table = Table::new(
        "Leaves",
        &[
            ("leaves", ""),
            ("below", ""),
            ("below", "%"),
            ("all leaves", "MB"),
            ("wasted", "MB"),
            ("wasted", "%"),
            ("free", "%"),
            ("wall", "s"),
            ("processor", "s"),
        ],
    );
    for answer in answers {
        let Answer { case, who, on, usage, leaves } = answer;
        let megabytes = |bytes: u64| Cell::Number(bytes as f64 / 1e6, 1);
        let cells = vec![
            Cell::Count(leaves.leaves),
            Cell::Count(leaves.below),
            Cell::Number(leaves.below_percent(), 0),
            megabytes(leaves.total()),
            megabytes(leaves.wasted),
            Cell::Number(leaves.percent(leaves.wasted), 2),
            Cell::Number(leaves.percent(leaves.free), 2),
            Cell::Number(usage.wall.as_secs_f64(), 2),
            Cell::Number(usage.processor.as_secs_f64(), 2),
        ];
        table.row(format!("{case}: {}", who.name()), on, cells);
        let last = answers.iter().rfind(|other| other.case == *case);
        if last.is_some_and(|last| std::ptr::eq(last, answer))
            && let Some(row) = published::find(&case.to_string())
        {
            table.published("", "kernel XFS of 2020", cells_of(row));
        }
    }
    table.note(
        "MB are 10^6 bytes, as published. Processor time is user and system time of the process.",
    );
    table
}

#[allow(clippy::cast_precision_loss)] // of a share
fn cells_of(row: &Row) -> Vec<Cell> {
    vec![
        Cell::Count(row.leaves),
        Cell::Count(row.below),
        Cell::Number(row.below as f64 * 100.0 / row.leaves as f64, 0),
        Cell::Number(row.total / 1e6, 1),
        Cell::Number(row.wasted / 1e6, 1),
        Cell::Number(row.wasted_percent, 2),
        Cell::None,
        Cell::None,
        Cell::None,
    ]
}

/// The three distributions, some cases to a plot: those with the same sizes stand together.
fn plots(answers: &[Answer]) -> Vec<Plot> {
    let several = answers.iter().any(|answer| answer.who != answers[0].who);
    let named = |answer: &Answer| {
        let who = if several { format!(", {}", answer.who.name()) } else { String::new() };
        format!("{}{who}", answer.case)
    };
    let mut plots = Vec::new();
    for some in answers.chunks(LINES) {
        let mut plot =
            |title: &str, x: &str, y: &str, points: &dyn Fn(&Leaves) -> Vec<(f64, f64)>| {
                let line = |answer: &Answer| Line {
                    name: named(answer),
                    source: Source::Measured,
                    points: points(&answer.leaves),
                };
                plots.push(Plot {
                    title: title.into(),
                    x: Axis::linear(x),
                    y: Axis::linear(y),
                    lines: some.iter().map(line).collect(),
                });
            };
        plot(
            "Space used per leaf",
            "used bytes of a leaf, in steps of 128",
            "leaves, % of all",
            &|leaves| shares(&leaves.used_bytes),
        );
        plot(
            "Hash values per leaf",
            "different hash values in a leaf",
            "leaves, % of all",
            &|leaves| shares(&leaves.hashes_per_leaf),
        );
        plot(
            "Attributes per hash value",
            "attributes with the same hash",
            "hash values, % of all",
            &|leaves| shares(&leaves.attributes_per_hash),
        );
    }
    plots
}
