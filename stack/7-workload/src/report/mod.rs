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
//!
//! [`compare`] sets two reports side by side.

pub mod compare;
pub mod csv;
mod escape;
pub mod html;
pub mod svg;
pub mod text;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::Environment;
use crate::measure::Samples;

/// A report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Title of the study.
    pub title: String,
    /// Why sections are missing; `None` if all are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// The machine and software of the run.
    pub environment: Environment,
    /// The study and the options that its figures depend on.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// Sections in reading order.
    pub sections: Vec<Section>,
}

/// One question and its results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Section {
    /// The study and its part: `raid.states`. Empty outside of suites.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The question, or the title of the results.
    pub title: String,
    /// The answer to the question of the study, if this section has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Explanations and conclusions, a paragraph each.
    pub text: Vec<String>,
    /// Tables of figures.
    pub tables: Vec<Table>,
    /// Plots of the figures.
    pub plots: Vec<Plot>,
}

/// The question of a study, and its answers in a few words each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Measured in this run.
    Measured,
    /// Published by others, on other hardware.
    Published,
    /// Measured earlier in an emulated machine, for the direction only.
    Emulated,
    /// Computed from measurements.
    Model,
}

impl Source {
    /// Returns the label of such figures; `None` for those of this run.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Measured => None,
            Self::Published => Some("published, other hardware"),
            Self::Emulated => Some("emulated, for the direction"),
            Self::Model => Some("a model, not measured"),
        }
    }
}

/// A table. Every row names the storage that it was measured on.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Unit; empty for text and plain numbers.
    pub unit: String,
}

/// One row of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Not measured, or not applicable.
    None,
    /// A whole number.
    Count(u64),
    /// A number, and the decimals to show.
    Number(#[serde(deserialize_with = "real")] f64, u8),
    /// A figure with the turns that it was measured in.
    Turns {
        /// The figure to show, usually the median of the turns.
        #[serde(deserialize_with = "real")]
        value: f64,
        /// Decimals to show.
        digits: u8,
        /// The same figure of each turn.
        turns: Samples,
    },
    /// Text.
    Text(String),
}

/// Reads a number; JSON has null where it is not finite.
fn real<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Reads the points of a line, as [`real`] reads numbers.
fn points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let points: Vec<(Option<f64>, Option<f64>)> = Vec::deserialize(from)?;
    let real = |x: Option<f64>| x.unwrap_or(f64::NAN);
    Ok(points.into_iter().map(|(x, y)| (real(x), real(y))).collect())
}

impl Cell {
    /// Makes the cell of a figure that was measured in these turns: their median, with `digits`
    /// decimals. Without turns the cell is empty.
    pub fn median(turns: &Samples, digits: u8) -> Self {
        if turns.count() == 0 {
            return Self::None;
        }
        Self::Turns { value: turns.median(), digits, turns: turns.clone() }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("–"),
            Self::Count(n) => f.write_str(&grouped(&n.to_string())),
            Self::Number(x, _) | Self::Turns { value: x, .. } if !x.is_finite() => f.write_str("–"),
            Self::Number(x, digits) | Self::Turns { value: x, digits, .. } => {
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
#[derive(Clone, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// Quantity and unit: "threads", "throughput, MB/s".
    pub label: String,
    /// The scale is logarithmic.
    pub logarithmic: bool,
    /// Names at 1, 2, … if the axis has names instead of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name of the line in the legend.
    pub name: String,
    /// Origin of the figures; lines that were not measured in this run are dashed.
    pub source: Source,
    /// Points in order of `x`.
    #[serde(deserialize_with = "points")]
    pub points: Vec<(f64, f64)>,
}

impl Report {
    /// Creates a report of these sections.
    pub fn new(title: impl Into<String>, environment: Environment, sections: Vec<Section>) -> Self {
        let title = title.into();
        Self { title, incomplete: None, environment, options: Map::new(), sections }
    }

    /// Reads a report from the text of its file: the last line with a field `report`, as `--json`
    /// and `--report` write it. `None` if there is no report in it.
    pub fn parse(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Written {
            report: Report,
        }
        let written = |line: &str| serde_json::from_str::<Written>(line).ok();
        text.lines().rev().find_map(written).map(|written| written.report)
    }

    /// Formats the report as a line of JSON that [`Self::parse`] reads.
    pub fn to_line(&self) -> String {
        format!("{}\n", serde_json::json!({ "report": self }))
    }

    /// Returns the title, with a mark if sections are missing.
    pub fn heading(&self) -> String {
        match &self.incomplete {
            None => self.title.clone(),
            Some(why) => format!("{} (incomplete: {why})", self.title),
        }
    }

    /// Adds a section, or replaces the one of the same part.
    pub fn put(&mut self, section: Section) {
        match self.sections.iter_mut().find(|known| known.part == section.part) {
            Some(known) if !section.part.is_empty() => *known = section,
            _ => self.sections.push(section),
        }
    }

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
    /// Returns true if the plot shows more than the tables do: a line with two points, or two bars,
    /// and among them something of this run.
    pub fn has_shape(&self) -> bool {
        let finite = |line: &Line| {
            line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).count()
        };
        let is_own = |line: &Line| matches!(line.source, Source::Measured | Source::Model);
        if !self.lines.iter().any(|line| is_own(line) && finite(line) > 0) {
            return false;
        }
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
        let published = Line { source: Source::Published, ..line(&[(1.0, 2.0), (2.0, 2.0)]) };
        assert!(!plot(linear(), vec![published.clone(), line(&[])]).has_shape(), "nothing of ours");
        assert!(plot(linear(), vec![published, line(&[(1.0, 3.0)])]).has_shape());
    }

    #[test]
    fn a_report_is_read_back_unchanged() {
        let mut section = Section { part: "raid.states".into(), ..Section::new("states") };
        section.paragraph("a text");
        let mut table = Table::new("t", &[("a", "s"), ("b", "s"), ("c", ""), ("d", ""), ("e", "")]);
        let cells = vec![
            Cell::None,
            Cell::Count(u64::MAX),
            Cell::Number(f64::NAN, 2),
            Cell::median(&[0.1 + 0.2, f64::NAN, 1e-7].into_iter().collect(), 3),
            Cell::Text("1".into()),
        ];
        table.published("row", "elsewhere", cells);
        section.tables.push(table);
        let points = vec![(1.0, 2.0 / 3.0), (2.0, f64::NAN)];
        let lines = vec![Line { name: "l".into(), source: Source::Model, points }];
        let axes = (Axis::named("x", vec!["one".into()]), Axis::logarithmic("y"));
        section.plots.push(Plot { title: "p".into(), x: axes.0, y: axes.1, lines });
        let mut report = Report::new("title", Environment::now(), vec![section]);
        report.options.insert("seed".into(), 7.into());
        report.incomplete = Some("stopped".into());
        let line = report.to_line();
        let noise = format!("{{\"raid\": {{}}}}\n{line}{{\"error\": {{}}}}\n");
        for text in [&line, &noise] {
            let read = Report::parse(text).expect("a report");
            assert_eq!(read.to_line(), line);
            let [_, _, nan, turns, _] = &read.sections[0].tables[0].rows[0].cells[..] else {
                panic!("{read:?}")
            };
            assert!(matches!(nan, Cell::Number(x, 2) if x.is_nan()), "{nan:?}");
            let Cell::Turns { turns, .. } = turns else { panic!("{turns:?}") };
            assert_eq!(turns.values()[0].to_bits(), (0.1_f64 + 0.2).to_bits());
            assert!(
                turns.values()[1].is_nan()
                    && read.sections[0].plots[0].lines[0].points[1].1.is_nan()
            );
        }
        assert!(Report::parse("{}\n").is_none());
    }

    #[test]
    fn a_section_replaces_that_of_its_part() {
        let of = |part: &str, title| Section { part: part.into(), ..Section::new(title) };
        let mut report = Report::new("r", Environment::now(), vec![of("a.b", "old"), of("", "x")]);
        report.put(of("a.b", "new"));
        report.put(of("", "y"));
        let titles: Vec<&str> = report.sections.iter().map(|part| part.title.as_str()).collect();
        assert_eq!(titles, ["new", "x", "y"]);
    }

    #[test]
    #[should_panic(expected = "cells of row short")]
    fn a_row_has_a_cell_for_each_column() {
        Table::new("t", &[("a", ""), ("b", "s")]).row("short", "memory", vec![Cell::None]);
    }
}
