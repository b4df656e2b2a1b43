//! `xfskit bench compare`: two runs side by side.

use std::fs;
use std::path::Path;

use serde_json::json;
use xfskit_workload::Report;
use xfskit_workload::report::compare::{Comparison, compare};
use xfskit_workload::report::{Cell, Section, Table, html, text};

use super::destination::Destination;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::bench::Compare;
use crate::out::Out;

/// Compares two reports, and prints what differs beyond the noise.
pub(super) fn run(args: &Compare, out: &Out) -> Outcome {
    let page = args.html.as_deref().map(Destination::new).transpose()?;
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = compare(&a, &b);
    if comparison.is_empty() {
        let (a, b) = (args.a.display(), args.b.display());
        let message =
            format!("{a} and {b} cannot be compared: they have no measured figure in common");
        return Err(Failure::cannot(message).hint("Compare two runs of one study."));
    }
    let title = format!("{} and {}", args.a.display(), args.b.display());
    let sections = sections(&comparison, &a, &b);
    if let Some(page) = page {
        page.write(&html::page(&title, &sections))?;
    }
    if out.json() {
        out.object(&json!({ "comparison": comparison }))?;
    } else {
        let shown: Vec<String> = sections.iter().map(text::section).collect();
        out.raw(format!("{title}\n\n{}", shown.join("\n")).as_bytes())?;
    }
    Ok(ExitStatus::Success)
}

/// Returns the sections of the comparison. The first one tells the runs apart.
fn sections(comparison: &Comparison, a: &Report, b: &Report) -> Vec<Section> {
    let mut table = Table::new("The runs", &[("A", ""), ("B", "")]);
    for (name, of) in [
        ("title", Report::heading as fn(&Report) -> String),
        ("command", |report| report.environment.command.clone()),
        ("time", |report| report.environment.time.clone()),
        ("load average before", |report| report.environment.load.clone()),
    ] {
        table.row(name, "", [a, b].map(|report| Cell::Text(of(report))).to_vec());
    }
    let mut sections = comparison.sections();
    if let Some(first) = sections.first_mut() {
        first.tables.push(table);
    }
    sections
}

fn read(path: &Path) -> Result<Report, Failure> {
    let at = path.display();
    let text = fs::read_to_string(path).map_err(|err| Failure::cannot(format!("{at}: {err}")))?;
    Report::parse(&text).ok_or_else(|| {
        let failure = Failure::cannot(format!("{at}: not a report of bench"));
        failure.hint("`xfskit bench STUDY --report FILE` writes one.")
    })
}
