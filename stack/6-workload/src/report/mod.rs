//! What was measured, and how it is shown.
//!
//! A report is tables and plots with their circumstances. It is data: text for a terminal, JSON and
//! CSV for programs, and a page for people are views of it.
//!
//! | module | view |
//! | --- | --- |
//! | [`text`] | aligned columns |
//! | [`csv`] | one figure on a line, with everything that names it |
//! | [`html`] | one page that needs no other file |
//! | [`svg`] | a plot |

pub mod csv;
pub mod html;
pub mod svg;
pub mod text;

use std::fmt;

use serde::Serialize;

use crate::Circumstances;

/// A report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was studied.
    pub title: String,
    /// Under what.
    pub circumstances: Circumstances,
    /// In reading order.
    pub sections: Vec<Section>,
}

/// One question and its answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    /// The question, or what is shown.
    pub title: String,
    /// What to know before reading the figures, and what they say: a paragraph each.
    pub text: Vec<String>,
    /// Figures.
    pub tables: Vec<Table>,
    /// Pictures of them.
    pub plots: Vec<Plot>,
}

/// Where figures come from. Nothing is shown that was not measured in the run, unless it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// This run.
    Measured,
    /// Somebody else, on other hardware.
    Published,
    /// Computed from what was measured.
    Model,
}

impl Source {
    /// What stands beside such figures; nothing beside those of this run.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Measured => None,
            Self::Published => Some("published, other hardware"),
            Self::Model => Some("a model, not measured"),
        }
    }
}

/// A table. Every row says on what it ran.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The columns behind the row's name.
    pub columns: Vec<Column>,
    /// In order.
    pub rows: Vec<Row>,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

/// One column.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// What it holds.
    pub name: String,
    /// In what unit; empty for words and bare numbers.
    pub unit: String,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which.
    pub name: String,
    /// What it ran on: "memory", "a file", "simulated members".
    pub on: String,
    /// Who says so.
    pub source: Source,
    /// One for each column.
    pub cells: Vec<Cell>,
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Nothing was measured, or it makes no sense here.
    None,
    /// A whole number.
    Count(u64),
    /// A number, shown with so many digits behind the point.
    Number(f64, u8),
    /// Words.
    Text(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("–"),
            Self::Count(n) => f.write_str(&grouped(&n.to_string())),
            Self::Number(x, _) if !x.is_finite() => f.write_str("–"),
            Self::Number(x, digits) => {
                let shown = format!("{x:.*}", usize::from(*digits));
                // What rounds to zero has no sign.
                let is_zero = shown.bytes().all(|byte| b"-0.".contains(&byte));
                let shown = if is_zero { shown.trim_start_matches('-') } else { &shown };
                let (whole, fraction) = shown.split_once('.').unwrap_or((shown, ""));
                let point = if fraction.is_empty() { "" } else { "." };
                write!(f, "{}{point}{fraction}", grouped(whole))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Digits in groups of three.
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut shown = String::from(sign);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A plot of one or more lines over a common axis.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// An axis, with its unit.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What, in what unit: "threads", "throughput, MB/s".
    pub label: String,
    /// Equal ratios are equally far.
    pub logarithmic: bool,
    /// What stands at 1, 2, …, where these are not numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// An axis of equal steps.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: false, names: Vec::new() }
    }

    /// An axis of equal ratios.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: true, names: Vec::new() }
    }

    /// An axis with a name at each of 1, 2, ….
    pub fn named(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { label: label.into(), logarithmic: false, names }
    }
}

/// One line of a plot.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Who says so; what was not measured here is dashed.
    pub source: Source,
    /// In order of `x`.
    pub points: Vec<(f64, f64)>,
}

impl Table {
    /// An empty table with columns of these names and units.
    pub fn new(title: impl Into<String>, columns: &[(&str, &str)]) -> Self {
        let column =
            |(name, unit): &(&str, &str)| Column { name: (*name).into(), unit: (*unit).into() };
        let columns = columns.iter().map(column).collect();
        Self { title: title.into(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// A further row of what was measured.
    pub fn row(&mut self, name: impl Into<String>, on: impl Into<String>, cells: Vec<Cell>) {
        self.push(name, on, Source::Measured, cells);
    }

    /// A further row of what somebody else has published.
    pub fn published(&mut self, name: impl Into<String>, on: impl Into<String>, cells: Vec<Cell>) {
        self.push(name, on, Source::Published, cells);
    }

    /// A further row.
    ///
    /// # Panics
    /// Where it has not a cell for each column.
    pub fn push(
        &mut self,
        name: impl Into<String>,
        on: impl Into<String>,
        source: Source,
        cells: Vec<Cell>,
    ) {
        let name = name.into();
        assert_eq!(cells.len(), self.columns.len(), "cells of row {name}");
        self.rows.push(Row { name, on: on.into(), source, cells });
    }

    /// A further note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl Section {
    /// An empty section.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A further paragraph.
    pub fn say(&mut self, text: impl Into<String>) {
        self.text.push(text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_groups_of_three() {
        assert_eq!(Cell::Count(1_234_567).to_string(), "1,234,567");
        assert_eq!(Cell::Count(12).to_string(), "12");
        assert_eq!(Cell::Number(-123_456.789, 1).to_string(), "-123,456.8");
        assert_eq!(Cell::Number(0.5, 0).to_string(), "0");
        assert_eq!(Cell::Number(-0.04, 1).to_string(), "0.0");
        assert_eq!(Cell::Number(f64::NAN, 2).to_string(), "–");
    }

    #[test]
    #[should_panic(expected = "cells of row short")]
    fn a_row_has_a_cell_for_each_column() {
        Table::new("t", &[("a", ""), ("b", "s")]).row("short", "memory", vec![Cell::None]);
    }
}
