//! The data of a report and its formats.
//!
//! A report consists of tables and plots with the environment of the run. It is plain data. Text
//! for a terminal, JSON and CSV for programs, and an HTML page for readers are views of it.
//!
//! | module | view |
//! | --- | --- |
//! | [`text`] | aligned columns |
//! | [`csv`] | one figure per line, with all its labels |
//! | [`html`] | one self-contained page |
//! | [`svg`] | a plot |

pub mod csv;
mod escape;
pub mod html;
pub mod svg;
pub mod text;

use std::fmt;

use serde::Serialize;

use crate::Environment;

/// A report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Title of the study.
    pub title: String,
    /// The machine and software of the run.
    pub environment: Environment,
    /// Sections in reading order.
    pub sections: Vec<Section>,
}

/// One question and its results.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    /// The question, or the title of the results.
    pub title: String,
    /// Explanations and conclusions, a paragraph each.
    pub text: Vec<String>,
    /// Tables of figures.
    pub tables: Vec<Table>,
    /// Plots of the figures.
    pub plots: Vec<Plot>,
}

/// The origin of figures. Everything without a label was measured in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Measured in this run.
    Measured,
    /// Published by others, on other hardware.
    Published,
    /// Computed from measurements.
    Model,
}

impl Source {
    /// Returns the label of such figures; `None` for those of this run.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Measured => None,
            Self::Published => Some("published, other hardware"),
            Self::Model => Some("a model, not measured"),
        }
    }
}

/// A table. Every row names the storage that it was measured on.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What the table shows.
    pub title: String,
    /// The columns after the row's name.
    pub columns: Vec<Column>,
    /// The rows in order.
    pub rows: Vec<Row>,
    /// Notes that a reader needs.
    pub notes: Vec<String>,
}

/// One column.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Unit; empty for text and plain numbers.
    pub unit: String,
}

/// One row of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the row.
    pub name: String,
    /// The storage: "memory", "a file", "simulated members".
    pub storage: String,
    /// Origin of the figures.
    pub source: Source,
    /// One cell for each column.
    pub cells: Vec<Cell>,
}

/// The content of a table cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Not measured, or not applicable.
    None,
    /// A whole number.
    Count(u64),
    /// A number, and the decimals to show.
    Number(f64, u8),
    /// Text.
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
                // A value that rounds to zero has no sign.
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

/// Groups digits in threes.
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
    /// What the plot shows.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// An axis, with its unit.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Quantity and unit: "threads", "throughput, MB/s".
    pub label: String,
    /// The scale is logarithmic.
    pub logarithmic: bool,
    /// Names at 1, 2, … if the axis has names instead of numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: false, names: Vec::new() }
    }

    /// Creates a logarithmic axis.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: true, names: Vec::new() }
    }

    /// Creates an axis with a name at each of 1, 2, ….
    pub fn named(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { label: label.into(), logarithmic: false, names }
    }
}

/// One line of a plot.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Name of the line in the legend.
    pub name: String,
    /// Origin of the figures; lines that were not measured in this run are dashed.
    pub source: Source,
    /// Points in order of `x`.
    pub points: Vec<(f64, f64)>,
}

impl Table {
    /// Creates an empty table with columns of these names and units.
    pub fn new(title: impl Into<String>, columns: &[(&str, &str)]) -> Self {
        let column =
            |(name, unit): &(&str, &str)| Column { name: (*name).into(), unit: (*unit).into() };
        let columns = columns.iter().map(column).collect();
        Self { title: title.into(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row of measured figures.
    pub fn row(&mut self, name: impl Into<String>, storage: impl Into<String>, cells: Vec<Cell>) {
        self.push(name, storage, Source::Measured, cells);
    }

    /// Adds a row of published figures.
    pub fn published(
        &mut self,
        name: impl Into<String>,
        storage: impl Into<String>,
        cells: Vec<Cell>,
    ) {
        self.push(name, storage, Source::Published, cells);
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If `cells` does not have one cell for each column.
    pub fn push(
        &mut self,
        name: impl Into<String>,
        storage: impl Into<String>,
        source: Source,
        cells: Vec<Cell>,
    ) {
        let name = name.into();
        assert_eq!(cells.len(), self.columns.len(), "cells of row {name}");
        self.rows.push(Row { name, storage: storage.into(), source, cells });
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl Section {
    /// Creates an empty section.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: impl Into<String>) {
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
