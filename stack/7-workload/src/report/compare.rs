//! Two reports side by side: what differs beyond the noise.
//!
//! A figure is found in both reports by its section, table, row and column. Only figures that carry
//! their turns are compared. A figure differs if the confidence interval of the ratio of its
//! medians excludes 1, and if so many turns would rarely lie apart by chance. A single turn never
//! differs.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::{Cell, Column, Report, Row, Section, Source, Table};
use crate::measure::{Ratio, Samples};

/// Turns of equal programs are all on different sides with a probability of at most this, or there
/// are too few of them for a verdict.
const CHANCE_MAX: f64 = 0.05;

/// A circumstance that is not the same in two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The option, or the part of the environment.
    pub name: String,
    /// Its value in the first run.
    pub a: String,
    /// Its value in the second run.
    pub b: String,
}

/// What two runs say about a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The figures differ beyond the noise.
    Differs,
    /// The difference is within the noise.
    WithinNoise,
    /// All turns of one run are above those of the other, but so few are by chance.
    TooFewTurns,
    /// A run has a single turn, which shows no spread.
    NoSpread,
}

/// A figure of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Title of the section.
    pub section: String,
    /// Title of the table.
    pub table: String,
    /// The row.
    pub row: String,
    /// The column.
    pub column: String,
    /// Its unit.
    pub unit: String,
    /// The figure of the first run.
    pub a: f64,
    /// The figure of the second run.
    pub b: f64,
    /// Turns of the first run.
    pub a_turns: usize,
    /// Turns of the second run.
    pub b_turns: usize,
    /// The second figure over the first one: the ratio of the medians.
    pub ratio: Ratio,
    /// What that means.
    pub verdict: Verdict,
    #[serde(skip)]
    digits: u8,
}

/// Two runs side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Circumstances that differ.
    pub circumstances: Vec<Difference>,
    /// All figures that both runs have, in the order of the first one.
    pub figures: Vec<Compared>,
    /// Tables and rows with figures that only the first run has.
    pub only_a: Vec<String>,
    /// Tables and rows with figures that only the second run has.
    pub only_b: Vec<String>,
}

impl Report {
    /// Returns the circumstances of `other` that differ from those of this report: machine,
    /// software, study and options. Time, load and the words of the command do not count.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let (here, there) = (circumstances(self), circumstances(other));
        let value = |of: &[(String, String)], name: &str| {
            let found = of.iter().find(|(known, _)| known == name);
            found.map_or_else(|| NOT_GIVEN.into(), |(_, value)| value.clone())
        };
        let mut names: Vec<&String> = Vec::new();
        for (name, _) in here.iter().chain(&there) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let difference = |name: &String| {
            let (a, b) = (value(&here, name), value(&there, name));
            (a != b).then(|| Difference { name: name.clone(), a, b })
        };
        names.into_iter().filter_map(difference).collect()
    }
}

/// The value of an option that is not given.
const NOT_GIVEN: &str = "not given";

/// Returns everything that the figures of a report depend on, by name.
fn circumstances(report: &Report) -> Vec<(String, String)> {
    let c = &report.environment;
    let machine = [
        ("processor", c.processor.clone()),
        ("processors", c.processors.to_string()),
        ("memory", format!("{} GiB", c.memory >> 30)),
        ("kernel", c.kernel.clone()),
        ("xfskit", c.xfskit.clone()),
        ("xfsprogs", c.xfsprogs.clone().unwrap_or_else(|| "not installed".into())),
        ("crc32c", c.crc.clone()),
    ];
    let machine = machine.map(|(name, value)| (name.to_owned(), value));
    let options = report.options.iter().map(|(name, value)| {
        let value = match value {
            Value::Null => NOT_GIVEN.into(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (name.replace('_', "-"), value)
    });
    machine.into_iter().chain(options).collect()
}

/// Sets two reports side by side.
pub fn compare(a: &Report, b: &Report) -> Comparison {
    let mut comparison = Comparison {
        circumstances: a.differences(b),
        figures: Vec::new(),
        only_a: Vec::new(),
        only_b: Vec::new(),
    };
    let (of_a, of_b) = (tables(a), tables(b));
    for (place, table) in &of_a {
        match of_b.iter().find(|(other, _)| other == place) {
            Some((_, other)) => comparison.tables(place, table, other),
            None if has_turns(table) => comparison.only_a.push(place.shown()),
            None => (),
        }
    }
    let missing = of_b
        .iter()
        .filter(|(place, table)| has_turns(table) && !of_a.iter().any(|(other, _)| other == place));
    comparison.only_b.extend(missing.map(|(place, _)| place.shown()));
    comparison
}

/// A table of a report. Tables of one section with the same title are counted.
#[derive(Debug)]
struct Place<'r> {
    section: &'r Section,
    title: &'r str,
    number: usize,
}

impl PartialEq for Place<'_> {
    fn eq(&self, other: &Self) -> bool {
        let name = |section: &Section| match section.part.as_str() {
            "" => section.title.clone(),
            part => part.to_owned(),
        };
        name(self.section) == name(other.section)
            && (self.title, self.number) == (other.title, other.number)
    }
}

impl Place<'_> {
    fn shown(&self) -> String {
        format!("{}: {}", self.section.title, self.title)
    }
}

/// Returns all tables with their places.
fn tables(report: &Report) -> Vec<(Place<'_>, &Table)> {
    let mut found: Vec<(Place<'_>, &Table)> = Vec::new();
    for section in &report.sections {
        for table in &section.tables {
            let mut place = Place { section, title: &table.title, number: 0 };
            while found.iter().any(|(known, _)| *known == place) {
                place.number += 1;
            }
            found.push((place, table));
        }
    }
    found
}

fn has_turns(table: &Table) -> bool {
    table.rows.iter().any(|row| turns(row).next().is_some())
}

/// Returns the measured figures of a row, with the positions of their columns.
fn turns(row: &Row) -> impl Iterator<Item = (usize, (f64, u8, &Samples))> {
    let cells = row.cells.iter().enumerate().filter(|_| row.source == Source::Measured);
    cells.filter_map(|(n, cell)| match cell {
        Cell::Turns { value, digits, turns } => Some((n, (*value, *digits, turns))),
        _ => None,
    })
}

/// Returns the rows with figures by name. Rows with the same name, in this table or in `other`, are
/// told apart by the counts before their first figure, such as the number of threads.
fn rows<'t>(table: &'t Table, other: &Table) -> Vec<(String, &'t Row)> {
    let twice = |of: &Table, name: &str| of.rows.iter().filter(|row| row.name == name).count() > 1;
    let name = |row: &Row| {
        let mut name = row.name.clone();
        if twice(table, &name) || twice(other, &name) {
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                match cell {
                    Cell::Count(_) | Cell::Text(_) => {
                        let _ = write!(name, ", {} {cell}", column.name);
                    }
                    _ => break,
                }
            }
        }
        name
    };
    table
        .rows
        .iter()
        .filter(|row| turns(row).next().is_some())
        .map(|row| (name(row), row))
        .collect()
}

/// Finds a column by name, unit and, if there are several such columns, their order.
fn column_like(of: &[Column], n: usize, table: &[Column]) -> Option<usize> {
    let same = |a: &Column, b: &Column| (&a.name, &a.unit) == (&b.name, &b.unit);
    let before = of[..n].iter().filter(|column| same(column, &of[n])).count();
    let like = table.iter().enumerate().filter(|(_, column)| same(column, &of[n]));
    like.map(|(n, _)| n).nth(before)
}

impl Comparison {
    /// Adds the figures of a table of both reports.
    fn tables(&mut self, place: &Place<'_>, a: &Table, b: &Table) {
        let (rows_a, rows_b) = (rows(a, b), rows(b, a));
        let count = |rows: &[(String, &Row)]| {
            let mut count: HashMap<String, usize> = HashMap::new();
            for (name, _) in rows {
                *count.entry(name.clone()).or_default() += 1;
            }
            count
        };
        let (count_a, count_b) = (count(&rows_a), count(&rows_b));
        let alone = |name: &str, count: &HashMap<String, usize>| count.get(name) == Some(&1);
        for (name, row) in &rows_a {
            let other = rows_b.iter().find(|(other, _)| other == name);
            // Rows that cannot be told apart are not compared.
            let Some((_, other)) = other.filter(|_| alone(name, &count_a) && alone(name, &count_b))
            else {
                self.only_a.push(format!("{}: {name}", place.shown()));
                continue;
            };
            self.row(place, name, (a, row), (b, other));
        }
        for (name, _) in &rows_b {
            if !(alone(name, &count_a) && alone(name, &count_b)) {
                self.only_b.push(format!("{}: {name}", place.shown()));
            }
        }
    }

    fn row(&mut self, place: &Place<'_>, name: &str, a: (&Table, &Row), b: (&Table, &Row)) {
        for (n, (value, digits, turns)) in turns(a.1) {
            let like = column_like(&a.0.columns, n, &b.0.columns);
            let Some(Cell::Turns { value: other, turns: others, .. }) =
                like.and_then(|n| b.1.cells.get(n)).filter(|_| b.1.source == Source::Measured)
            else {
                continue;
            };
            if !value.is_finite() || !other.is_finite() {
                continue;
            }
            let Column { name: column, unit } = a.0.columns[n].clone();
            let (ratio, verdict) = judged(turns, others);
            self.figures.push(Compared {
                section: place.section.title.clone(),
                table: place.title.into(),
                row: name.into(),
                column,
                unit,
                a: value,
                b: *other,
                a_turns: turns.count(),
                b_turns: others.count(),
                ratio,
                verdict,
                digits,
            });
        }
    }

    /// Returns true if no figure is in both reports.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// Formats the comparison as sections of a report.
    pub fn sections(&self) -> Vec<Section> {
        let mut first = Section::new("Circumstances that differ");
        let mut table = Table::new("Circumstances", &[("A", ""), ("B", "")]);
        for Difference { name, a, b } in &self.circumstances {
            table.row(name, "", [a, b].map(|value| Cell::Text(value.clone())).to_vec());
        }
        if table.rows.is_empty() {
            first.paragraph("None: machine, software, study and options are the same.");
        } else {
            first.tables.push(table);
        }
        let mut sections = vec![first];
        for (verdict, title) in [
            (Verdict::Differs, "Beyond the noise"),
            (Verdict::TooFewTurns, "Apart, but in too few turns"),
            (Verdict::WithinNoise, "Within the noise"),
            (Verdict::NoSpread, "No verdict: a single turn shows no spread"),
        ] {
            sections.extend(self.section(verdict, title));
        }
        let mut rest = Section::new("In one report only");
        for (name, only) in [("A", &self.only_a), ("B", &self.only_b)] {
            for what in only {
                rest.paragraph(format!("{name}: {what}"));
            }
        }
        if !rest.text.is_empty() {
            sections.push(rest);
        }
        sections
    }

    fn section(&self, verdict: Verdict, title: &str) -> Option<Section> {
        let these: Vec<&Compared> =
            self.figures.iter().filter(|figure| figure.verdict == verdict).collect();
        if these.is_empty() && verdict != Verdict::Differs {
            return None;
        }
        let (count, all) = (these.len(), self.figures.len());
        let mut section = Section::new(format!("{title}: {count} of {all} figures"));
        section.paragraph(self.explanation(verdict));
        for figure in these {
            let title = format!("{}: {}", figure.section, figure.table);
            if section.tables.last().is_none_or(|table| table.title != title) {
                section.tables.push(Table::new(title, &COLUMNS));
            }
            if let Some(table) = section.tables.last_mut() {
                table.row(figure.name(), "", figure.cells());
            }
        }
        Some(section)
    }

    fn explanation(&self, verdict: Verdict) -> String {
        let decided =
            |figure: &&Compared| matches!(figure.verdict, Verdict::Differs | Verdict::WithinNoise);
        match verdict {
            Verdict::Differs => format!(
                "The 95 percent confidence interval of the ratio excludes 1. Between equal programs, about {} of these {} \
                 decided figures would do so by chance. The noise is that within the runs: a load on the machine that is \
                 different from run to run is not part of it.",
                self.figures.iter().filter(decided).count().div_ceil(20),
                self.figures.iter().filter(decided).count(),
            ),
            Verdict::TooFewTurns => "All turns of one run are above all of the other, but so few turns are in more than 5 of \
                 100 runs of equal programs. Four turns of each run decide (--repetitions 4)."
                .into(),
            Verdict::WithinNoise => "The interval of the ratio contains 1.".into(),
            Verdict::NoSpread => "At least one of the runs has a single turn (--repetitions).".into(),
        }
    }
}

/// The columns of a comparison.
const COLUMNS: [(&str, &str); 6] =
    [("A", ""), ("B", ""), ("B over A", "times"), ("at least", ""), ("at most", ""), ("turns", "")];

impl Compared {
    fn name(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(", {}", self.unit) };
        format!("{}: {}{unit}", self.row, self.column)
    }

    fn cells(&self) -> Vec<Cell> {
        let Ratio { ratio, low, high } = self.ratio;
        vec![
            Cell::Number(self.a, self.digits),
            Cell::Number(self.b, self.digits),
            Cell::Number(ratio, 3),
            Cell::Number(low, 3),
            Cell::Number(high, 3),
            Cell::Text(format!("{}, {}", self.a_turns, self.b_turns)),
        ]
    }
}

/// Returns the ratio of `b` to `a`, and whether they differ.
fn judged(a: &Samples, b: &Samples) -> (Ratio, Verdict) {
    let ratio = b.ratio_to(a);
    if a.count().min(b.count()) < 2 {
        return (ratio, Verdict::NoSpread);
    }
    let is_apart = if ratio.low.is_finite() && ratio.high.is_finite() {
        ratio.low > 1.0 || ratio.high < 1.0
    } else {
        // The ratio to zero is not defined.
        a.max() < b.min() || b.max() < a.min()
    };
    let verdict = match is_apart {
        false => Verdict::WithinNoise,
        true if chance(a.count(), b.count()) > CHANCE_MAX => Verdict::TooFewTurns,
        true => Verdict::Differs,
    };
    (ratio, verdict)
}

/// Returns the probability that all of `n` turns lie on one side of all of `m` turns, if all are of
/// one distribution: two of the orders, of all ways to choose n places of n + m.
fn chance(n: usize, m: usize) -> f64 {
    let real = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let ways: f64 = (1..=n.min(m)).map(|k| real(n.max(m) + k) / real(k)).product();
    2.0 / ways
}

#[cfg(test)]
mod tests;
