//! The page of all claims, in Markdown.

use std::fmt::Write;

use xfskit_workload::report::Cell;

use super::data::{Aim, Circumstances, Claim, Claims, Last, Needs, Run};

const OPENING: &str = "\
# Claims: the figures that this project states

<!-- `xfskit bench claims` makes this page from bench/claims.toml. -->

Each figure that a page of this project states about speed, memory or space belongs to a claim in
`bench/claims.toml`. The claim names the command that measures the figure. `xfskit bench claims` runs these
commands again, renews the figures here, and fails if one misses its aim. `docs/experiments/` has figures of
earlier versions; design pages have figures of other machines, profiles, and roads not taken. Those are records,
not claims.

The load average is that of the minute before the command: in a series it still counts the command before.

Low and high are the range of the turns. For a ratio they are the ends of its interval; with fewer than six
turns the interval has less than 95 percent. One turn has neither.
";

/// Returns the whole page.
pub(super) fn page(claims: &Claims) -> String {
    let mut page = OPENING.to_owned();
    for run in &claims.runs {
        let _ = write!(page, "\n## {}\n\n`{}`\n\n", run.id, run.command);
        let _ = writeln!(page, "Needs {}. {}\n", needs(&run.needs), circumstances(run));
        page.push_str("| claim | stated | median | low | high | turns | aim | in |\n");
        page.push_str("| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n");
        run.claims.iter().for_each(|claim| page.push_str(&row(claim)));
    }
    page
}

fn row(claim: &Claim) -> String {
    let Claim { id, file, stated, last, .. } = claim;
    let figure =
        |of: fn(&Last) -> Option<f64>| last.as_ref().and_then(of).map_or("–".into(), number);
    let turns = last.and_then(|last| last.turns).map_or("–".into(), |turns| turns.to_string());
    format!(
        "| `{id}` | {stated} | {} | {} | {} | {turns} | {} | [{file}](../{file}) |\n",
        figure(|last| Some(last.median)),
        figure(|last| last.low),
        figure(|last| last.high),
        aim(claim),
    )
}

/// Formats the aim of a claim, and whether it is reached.
pub(super) fn aim(claim: &Claim) -> String {
    let Some(aim) = claim.aim else { return String::new() };
    let Aim { at_least, at_most } = aim;
    let limit =
        |word: &str, limit: Option<f64>| limit.map(|limit| format!("{word} {}", number(limit)));
    let limits = [limit("at least", at_least), limit("at most", at_most)];
    let limits = limits.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let state = match claim.last {
        None => "not measured",
        Some(last) if aim.is_reached(last.median) => "reached",
        Some(_) => "**missed**",
    };
    format!("{limits}: {state}")
}

/// Formats the needs of a command.
pub(super) fn needs(needs: &Needs) -> String {
    let Needs { root, disk_gb, memory_gb, idle, programs, minutes } = needs;
    let mut parts = Vec::new();
    if *root {
        parts.push("root".to_owned());
    }
    if *disk_gb > 0 {
        parts.push(format!("{disk_gb} GB of disk"));
    }
    if *memory_gb > 0 {
        parts.push(format!("{memory_gb} GB of memory"));
    }
    if *idle {
        parts.push("an idle machine".into());
    }
    parts.extend(programs.iter().cloned());
    let minutes = if *minutes == 1 { "a minute".into() } else { format!("{minutes} minutes") };
    parts.push(format!("about {minutes}"));
    parts.join(", ")
}

fn circumstances(run: &Run) -> String {
    let Some(measured) = &run.measured else { return "Not measured yet.".into() };
    let Circumstances { date, processor, kernel, version, xfsprogs, load } = measured;
    let known = |name: &str, value: &Option<String>| match value {
        Some(value) => format!("{name}{value}"),
        None => format!("{}not recorded", if name.is_empty() { "date " } else { name }),
    };
    let mut parts = vec![
        known("", date),
        known("processor ", processor),
        known("Linux ", kernel),
        known("version ", version),
        known("load ", load),
    ];
    parts.extend(xfsprogs.as_ref().map(|version| format!("xfsprogs {version}")));
    format!("Measured: {}.", parts.join("; "))
}

/// Formats a figure with three digits or more.
pub(super) fn number(figure: f64) -> String {
    let digits = match figure.abs() {
        0.0 | 100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    Cell::Number(figure, digits).to_string()
}
