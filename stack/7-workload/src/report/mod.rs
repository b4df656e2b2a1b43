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
    /// The answer to the question of the study, if this section has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Explanations and conclusions, a paragraph each.
    pub text: Vec<String>,
    /// Tables of figures.
    pub tables: Vec<Table>,
    /// Plots of the figures.
    pub plots: Vec<Plot>,
}

/// The question of a study, and its answers in a few words each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// The answer that follows from the figures of this run.
    pub verdict: String,
    /// The figure that carries the answer, with its unit.
    pub figure: String,
    /// The published answer, which was found on other hardware.
    pub published: String,
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

impl Report {
    /// Returns the sections that answer a question, with their positions.
    pub fn answers(&self) -> Vec<(usize, &Answer)> {
        self.sections
            .iter()
            .enumerate()
            .filter_map(|(n, section)| Some((n, section.answer.as_ref()?)))
            .collect()
    }

    /// Returns the table of all answers; `None` without any.
    pub fn summary(&self) -> Option<Table> {
        let columns = [("verdict", ""), ("figure", ""), ("published", "other hardware")];
        let mut table = Table::new("Summary", &columns);
        for (n, answer) in self.answers() {
            let Answer { question, verdict, figure, published } = answer.clone();
            let cells = [verdict, figure, published].map(Cell::Text).to_vec();
            table.row(question, format!("see {}", self.sections[n].title), cells);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

impl Plot {
    /// Returns true if the plot shows more than the tables do: a line with two points, or two bars.
    pub fn has_shape(&self) -> bool {
        let finite = |line: &Line| {
            line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).count()
        };
        if self.x.names.is_empty() {
            return self.lines.iter().any(|line| finite(line) > 1);
        }
        self.lines.iter().map(finite).sum::<usize>() > 1
    }
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
    fn one_dot_is_no_plot() {
        let line = |points: &[(f64, f64)]| Line {
            name: "a".into(),
            source: Source::Measured,
            points: points.to_vec(),
        };
        let plot = |x: Axis, lines| Plot { title: "p".into(), x, y: Axis::linear("s"), lines };
        let linear = || Axis::linear("turn");
        assert!(!plot(linear(), vec![line(&[(1.0, 2.0)]), line(&[(1.0, 3.0)])]).has_shape());
        assert!(!plot(linear(), vec![line(&[(1.0, 2.0), (2.0, f64::NAN)])]).has_shape());
        assert!(plot(linear(), vec![line(&[(1.0, 2.0), (2.0, 2.0)])]).has_shape());
        let named = || Axis::named("step", vec!["a".into()]);
        assert!(!plot(named(), vec![line(&[(1.0, 2.0)])]).has_shape());
        assert!(plot(named(), vec![line(&[(1.0, 2.0)]), line(&[(1.0, 3.0)])]).has_shape());
    }

    #[test]
    #[should_panic(expected = "cells of row short")]
    fn a_row_has_a_cell_for_each_column() {
        Table::new("t", &[("a", ""), ("b", "s")]).row("short", "memory", vec![Cell::None]);
    }
}
