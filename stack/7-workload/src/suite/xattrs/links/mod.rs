//! Links: many names of one inode, each recorded in the inode as a parent pointer.
//!
//! Two designs are compared. The merged one is the format's: the attribute's name is the file's,
//! its value is the directory's inode number and generation (12 bytes), and the hash covers both.
//! The published one put inode, generation and directory offset into the attribute's name, and the
//! file's name into its value. The format forbids NUL in names, so here these 16 bytes are 32
//! hexadecimal digits.

mod step;

use std::io;

use serde_json::json;

use super::leaves::{Leaves, shares};
use super::space::FILE;
use crate::measure::usage::Usage;
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::Implementation;
use step::{Step, StepOutcome, Work};

/// Bytes that hexadecimal adds to an attribute's name: 32 digits instead of 16 bytes.
const HEX_MORE: f64 = 16.0;

/// The design that records parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    /// Hard links on a volume with parent pointers.
    Merged,
    /// Hard links on a volume without parent pointers.
    Without,
    /// Plain attributes, no links.
    Published,
}

/// All designs, in the order in which they are measured.
const DESIGNS: [Design; 3] = [Design::Without, Design::Merged, Design::Published];

impl Design {
    fn name(self) -> &'static str {
        match self {
            Self::Merged => "links with parent pointers",
            Self::Without => "links without",
            Self::Published => "published design, as attributes",
        }
    }
}

/// A design on one implementation.
#[derive(Debug)]
struct DesignResult {
    design: Design,
    implementation: Implementation,
    storage: String,
    leaves: Leaves,
    /// The steps, making first; with parent pointers all of them.
    steps: Vec<StepOutcome>,
}

impl DesignResult {
    fn title(&self) -> String {
        format!("{}, {}", self.design.name(), self.implementation.name())
    }

    fn step(&self, step: Step) -> Option<&StepOutcome> {
        self.steps.iter().find(|outcome| outcome.step == step)
    }

    fn to_json(&self, links: u64) -> serde_json::Value {
        let made = self.step(Step::Made).map(|made| made.usage).unwrap_or_default();
        json!({ "links": {
            "design": self.design.name(),
            "driver": self.implementation.name(),
            "storage": self.storage,
            "links": links,
            "wall_seconds": made.wall.as_secs_f64(),
            "processor_seconds": made.processor.as_secs_f64(),
            "leaves": self.leaves,
            "steps": self.steps.iter().map(|outcome| json!({
                "step": outcome.step,
                "operations": outcome.operations,
                "wall_seconds": outcome.usage.wall.as_secs_f64(),
                "processor_seconds": outcome.usage.processor.as_secs_f64(),
                "peak_memory_bytes": outcome.peak_memory,
                "space_bytes": outcome.space,
                "cold": outcome.cold,
            })).collect::<Vec<_>>(),
        }})
    }
}

/// Steps of the part on each implementation: all designs make links, one takes the later steps.
pub(super) const STEPS: usize = DESIGNS.len() + Step::LATER.len();

/// Runs the part with `links` names of one inode and formats its section.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub(super) fn section(
    links: u64,
    settings: &Settings,
    implementations: &[Implementation],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let mut results = Vec::new();
    for design in DESIGNS {
        for &implementation in implementations {
            let result = run(links, design, settings, implementation, observer)?;
            observer.result(result.to_json(links))?;
            results.push(result);
        }
    }
    let mut section = Section::new("Links: parent pointers on one inode");
    section.answer = answer(links, &results);
    section.paragraph(
        "Merged format: the attribute has the name of the file (15 bytes), and the directory's inode number and \
         generation as its value (12 bytes). Published design: the attribute's name is inode number, generation and \
         directory offset, and its value is the file's name. The format forbids NUL in names, so they are written in \
         hexadecimal, 32 bytes instead of 16. Each attribute is therefore 16 bytes larger than the design requires.",
    );
    sizes(&mut section, implementations, &results);
    section.tables.push(leaves(links, &results));
    section.tables.push(steps(links, &results));
    section.plots.push(plot(links, &results));
    Ok(section)
}

/// Runs one design: makes the links and counts the leaves. With parent pointers all later steps
/// follow.
fn run(
    links: u64,
    design: Design,
    settings: &Settings,
    implementation: Implementation,
    observer: &mut dyn Observer,
) -> io::Result<DesignResult> {
    let mut settings = settings.clone();
    settings.testbed.mkfs.parent = Some(design == Design::Merged);
    let mut volume = settings.volume(implementation)?;
    let storage = volume.storage().to_owned();
    let mut report = |step: Step| {
        let what = format!("{}, {}: {}", design.name(), implementation.name(), step.name());
        observer.progress(&format!("{links} {what}"))
    };
    report(Step::Made)?;
    let made = volume.run(&mut Work { step: Step::Made, design, links })?;
    let mut steps = Vec::from_iter(made);
    let leaves = Leaves::of(&volume.open_read_only()?, FILE)?;
    let later = if design == Design::Merged { &Step::LATER[..] } else { &[] };
    for &step in later {
        report(step)?;
        steps.extend(match step {
            Step::Checked => Some(step::check(&mut volume, settings.threads)?),
            _ => volume.run(&mut Work { step, design, links })?,
        });
    }
    Ok(DesignResult { design, implementation, storage, leaves, steps })
}

/// Returns the answer to the question of links, from the steps of the engine.
#[allow(clippy::cast_precision_loss)] // of rates
fn answer(links: u64, results: &[DesignResult]) -> Option<Answer> {
    let of_it = |implementation| {
        let merged =
            |r: &&DesignResult| r.design == Design::Merged && r.implementation == implementation;
        results.iter().find(merged)
    };
    let ours = of_it(Implementation::Engine)?;
    let each = |result: &DesignResult, step| {
        let usage = result.step(step)?.usage;
        Some(usage.wall.as_secs_f64() * 1e6 / links as f64)
    };
    let (made, removed) = (each(ours, Step::Made)?, each(ours, Step::Removed)?);
    let memory = ours.steps.iter().filter_map(|outcome| outcome.peak_memory).max();
    let kernel = of_it(Implementation::Kernel).and_then(|kernel| {
        let (made, removed) = (each(kernel, Step::Made)?, each(kernel, Step::Removed)?);
        Some(format!(" The kernel takes {made:.1} and {removed:.1} µs."))
    });
    Some(Answer {
        question: "Can one inode have a hundred million names, each with a parent pointer?".into(),
        verdict: format!(
            "{} were made, listed, found by path and removed, and the check found nothing.{}",
            Cell::Count(links),
            kernel.unwrap_or_default(),
        ),
        figure: format!(
            "{made:.1} µs to make one, {removed:.1} µs to remove it; peak memory {} MB.",
            memory.map_or(Cell::None, |bytes| Cell::Number(bytes as f64 / 1e6, 0)),
        ),
        published: "A goal of 100 million; not measured.".into(),
    })
}

/// Compares the bytes of the two designs.
fn sizes(section: &mut Section, implementations: &[Implementation], results: &[DesignResult]) {
    for &implementation in implementations {
        let of = |design| {
            let same = |r: &&DesignResult| r.design == design && r.implementation == implementation;
            results.iter().find(same).map(|result| result.leaves.used_each())
        };
        let (Some(merged), Some(published)) = (of(Design::Merged), of(Design::Published)) else {
            continue;
        };
        section.paragraph(format!(
            "Change of size, {}: {merged:.1} bytes each in the merged format, {published:.1} in the published design in hexadecimal ({:+.1}); \
             without hexadecimal it would be {:.1}.",
            implementation.name(),
            published - merged,
            published - HEX_MORE,
        ));
    }
}

fn leaves(links: u64, results: &[DesignResult]) -> Table {
    let mut table = Table::new(
        format!("{} links to one inode", Cell::Count(links)),
        &[
            ("attributes", ""),
            ("leaves", ""),
            ("all leaves", "MB"),
            ("bytes each", ""),
            ("wasted", "%"),
            ("free", "%"),
            ("processor", "µs each"),
            ("wall", "s"),
        ],
    );
    for result in results {
        let usage = result.step(Step::Made).map(|made| made.usage).unwrap_or_default();
        table.row(result.title(), &result.storage, cells(links, &result.leaves, usage));
    }
    table
}

#[allow(clippy::cast_precision_loss)] // of rates and shares
fn cells(links: u64, leaves: &Leaves, usage: Usage) -> Vec<Cell> {
    let each = |cell: f64, digits| match leaves.attributes {
        0 => Cell::None,
        _ => Cell::Number(cell, digits),
    };
    vec![
        Cell::Count(leaves.attributes),
        Cell::Count(leaves.leaves),
        Cell::Number(leaves.total() as f64 / 1e6, 1),
        each(leaves.used_each(), 1),
        each(leaves.percent(leaves.wasted), 2),
        each(leaves.percent(leaves.free), 2),
        Cell::Number(usage.processor.as_secs_f64() * 1e6 / links as f64, 2),
        Cell::Number(usage.wall.as_secs_f64(), 2),
    ]
}

/// Lists the steps of the links with parent pointers.
#[allow(clippy::cast_precision_loss)] // of rates
fn steps(links: u64, results: &[DesignResult]) -> Table {
    let mut table = Table::new(
        format!("{} links with parent pointers: steps", Cell::Count(links)),
        &[
            ("operations", ""),
            ("wall", "s"),
            ("processor", "s"),
            ("processor", "µs each"),
            ("peak memory", "MB"),
            ("space", "MB"),
            ("space", "bytes each"),
            ("caches", ""),
        ],
    );
    let merged: Vec<_> = results.iter().filter(|r| r.design == Design::Merged).collect();
    for step in [Step::Made].into_iter().chain(Step::LATER) {
        for (result, outcome) in merged.iter().filter_map(|r| Some((r, r.step(step)?))) {
            let StepOutcome { operations, usage, peak_memory, space, cold, .. } = outcome;
            let space = space.map(|bytes| bytes as f64).filter(|bytes| *bytes != 0.0);
            let number = |value: Option<f64>, digits| {
                value.map_or(Cell::None, |value| Cell::Number(value, digits))
            };
            let processor = usage.processor.as_secs_f64();
            let cells = vec![
                Cell::Count(*operations),
                Cell::Number(usage.wall.as_secs_f64(), 2),
                Cell::Number(processor, 2),
                Cell::Number(processor * 1e6 / *operations as f64, 2),
                number(peak_memory.map(|bytes| bytes as f64 / 1e6), 0),
                number(space.map(|bytes| bytes / 1e6), 1),
                number(space.map(|bytes| bytes / links as f64), 1),
                Cell::Text(if *cold { "cold" } else { "warm" }.into()),
            ];
            let title = format!("{}: {}", step.name(), result.implementation.name());
            table.row(title, &result.storage, cells);
        }
    }
    table.note(
        "Operations are links, of paths found those that were looked up from the root, of the check inodes. Every list was \
         complete: the count and the sum of the links' numbers are verified. Space is the change of the volume's used space: directory \
         entries and parent pointers. Peak memory is that of this process with its cache, and with the disk if that is in its memory; \
         the kernel's caches are not included. Both volumes are checked by check, for older versions of xfs_repair do not \
         know parent pointers. The kernel's list of parent pointers is not measured.",
    );
    table
}

fn plot(links: u64, results: &[DesignResult]) -> Plot {
    let line = |result: &DesignResult| Line {
        name: result.title(),
        source: Source::Measured,
        points: shares(&result.leaves.used_bytes),
    };
    Plot {
        title: format!("{} links: space used per leaf", Cell::Count(links)),
        x: Axis::linear("used bytes of a leaf, in steps of 128"),
        y: Axis::linear("leaves, % of all"),
        lines: results.iter().filter(|r| r.design != Design::Without).map(line).collect(),
    }
}
