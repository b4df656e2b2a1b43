//! Space: fill levels of leaves after attributes were set, removed and overwritten.

use std::io;

use serde_json::json;

use super::case::{Case, Operation, name};
use super::conclusions::{self, CaseLeaves};
use super::leaves::{Leaves, shares};
use super::published::{self, Row};
use crate::Driver;
use crate::measure::usage::{Stopwatch, Usage};
use crate::random::Random;
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::{Implementation, Job};

/// The file with the attributes.
pub(super) const FILE: &[u8] = b"file";
/// Limit of lines in a plot.
const LINES: usize = 6;

/// A case on one implementation.
#[derive(Debug)]
struct CaseResult {
    case: Case,
    implementation: Implementation,
    storage: String,
    usage: Usage,
    leaves: Leaves,
}

impl CaseResult {
    fn leaves(&self) -> CaseLeaves<'_> {
        let Self { case, implementation, leaves, .. } = self;
        CaseLeaves { case, implementation: *implementation, leaves }
    }
}

/// Performs a case and syncs.
pub(super) struct Work<'c> {
    pub(super) case: &'c Case,
    pub(super) seed: u64,
}

impl Job for Work<'_> {
    type Output = Usage;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Usage> {
        let value = value(self.seed, self.case.sizes.iter().copied().max().unwrap_or(0));
        let root = driver.root()?;
        let file = driver.create(&root, FILE)?;
        let watch = Stopwatch::start()?;
        self.case.operations(&mut |operation| match operation {
            Operation::Set(n, size) => driver.set_xattr(&file, &name(n), &value[..size]),
            Operation::Remove(n) => driver.remove_xattr(&file, &name(n)),
        })?;
        driver.close(file)?;
        driver.sync()?;
        watch.read()
    }
}

/// Returns the bytes that values are taken from.
pub(super) fn value(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.next_u64().to_le_bytes()[0]).collect()
}

/// Runs `cases` and formats their section, with the published figures if there are any.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub(super) fn section(
    title: &str,
    cases: &[Case],
    settings: &Settings,
    implementations: &[Implementation],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let mut results = Vec::new();
    for case in cases {
        for &implementation in implementations {
            observer.progress(&format!("{case} on {}", implementation.name()))?;
            let result = run(case, implementation, settings)?;
            observer.result(to_json(&result))?;
            results.push(result);
        }
    }
    let mut section = Section::new(title);
    section.paragraph(
        "One file with attributes trusted.name%011d. A leaf's used space is its header (80 bytes), 8 bytes for each \
         entry, and names with values. By the published measure a leaf with less than 2,700 bytes used is *below*, and \
         its free space is *wasted*. The column *free* counts the free space of all leaves.",
    );
    section.answer = answer(title, &results);
    conclusions::add(&mut section, results.iter().map(CaseResult::leaves));
    section.tables.push(table(&results));
    section.plots.extend(plots(&results));
    Ok(section)
}

/// Returns the answer to the study's question, from the case that wastes most.
fn answer(title: &str, results: &[CaseResult]) -> Option<Answer> {
    let wasted = |result: &CaseResult| result.leaves.percent(result.leaves.wasted);
    let most = |of: Implementation| {
        let of_it = results.iter().filter(|result| result.implementation == of);
        of_it.map(|result| (wasted(result), result)).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (ours, worst) = most(Implementation::Engine)?;
    let kernel = most(Implementation::Kernel)
        .map_or(String::new(), |(percent, _)| format!(" The kernel wastes up to {percent:.1} %."));
    Some(Answer {
        question: format!(
            "How much space do leaves waste: {}?",
            title.trim_start_matches("Space: ")
        ),
        verdict: format!("At most {ours:.1} %, in {}.{kernel}", worst.case),
        figure: format!("{ours:.1} %."),
        published: "18 to 45 %.".into(),
    })
}

fn run(case: &Case, implementation: Implementation, settings: &Settings) -> io::Result<CaseResult> {
    let mut volume = settings.volume(implementation)?;
    let usage = volume.run(&mut Work { case, seed: settings.seed })?;
    let leaves = Leaves::of(&volume.open_read_only()?, FILE)?;
    Ok(CaseResult {
        case: case.clone(),
        implementation,
        storage: volume.storage().to_owned(),
        usage,
        leaves,
    })
}

fn to_json(result: &CaseResult) -> serde_json::Value {
    let CaseResult { case, implementation, storage, usage, leaves } = result;
    json!({ "xattrs": {
        "case": case.to_string(),
        "driver": implementation.name(),
        "storage": storage,
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
fn table(results: &[CaseResult]) -> Table {
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
    for result in results {
        let CaseResult { case, implementation, storage, usage, leaves } = result;
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
        table.row(format!("{case}: {}", implementation.name()), storage, cells);
        let last = results.iter().rfind(|other| other.case == *case);
        if last.is_some_and(|last| std::ptr::eq(last, result))
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

/// Plots the three distributions, a few cases in each plot. Cases with the same sizes are adjacent.
fn plots(results: &[CaseResult]) -> Vec<Plot> {
    let several = results.iter().any(|result| result.implementation != results[0].implementation);
    let named = |result: &CaseResult| {
        let implementation =
            if several { format!(", {}", result.implementation.name()) } else { String::new() };
        format!("{}{implementation}", result.case)
    };
    let mut plots = Vec::new();
    for some in results.chunks(LINES) {
        let mut cases: Vec<String> = some.iter().map(|result| result.case.to_string()).collect();
        cases.dedup();
        let mut plot =
            |title: &str, x: &str, y: &str, points: &dyn Fn(&Leaves) -> Vec<(f64, f64)>| {
                let line = |result: &CaseResult| Line {
                    name: named(result),
                    source: Source::Measured,
                    points: points(&result.leaves),
                };
                plots.push(Plot {
                    title: format!("{title}: {}", cases.join(", ")),
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
