//! Figures without and with checksums, side by side.

use std::time::Duration;

use serde_json::json;

use super::{Column, published};
use crate::measure::{Interval, Samples, short};
use crate::report::{Axis, Cell, Line, Plot, Source, Table};
use crate::suite::Observer;

/// One quantity that was measured in all columns.
#[derive(Debug)]
struct Figure {
    name: String,
    /// Decimals to show.
    digits: u8,
    /// Samples in the order of [`Column::ALL`].
    columns: [Samples; 4],
    /// Wall time in seconds that each of them was measured in.
    seconds: [Samples; 4],
    /// With less time than this there is no figure.
    least: Duration,
}

/// All quantities of one program.
#[derive(Debug)]
pub(super) struct Figures {
    all: Vec<Figure>,
    /// With less time than this there is no figure.
    least: Duration,
}

impl Figures {
    /// Starts the figures of this number of threads.
    pub(super) fn of_threads(threads: usize) -> Self {
        Self { all: Vec::new(), least: short::time_min_here(threads) }
    }

    /// Adds the value of one turn, which was measured in this number of seconds.
    pub(super) fn add(
        &mut self,
        (name, digits): (&str, u8),
        column: Column,
        value: f64,
        seconds: f64,
    ) {
        let at = self.all.iter().position(|figure| figure.name == name).unwrap_or_else(|| {
            self.all.push(Figure::new(name, digits, self.least));
            self.all.len() - 1
        });
        self.all[at].columns[column as usize].add(value);
        self.all[at].seconds[column as usize].add(seconds);
    }

    fn find(&self, name: &str) -> Option<&Figure> {
        self.all.iter().find(|figure| figure.name == name)
    }

    /// Returns true if a figure is missing because it was measured in too short a time.
    pub(super) fn some_are_too_short(&self) -> bool {
        self.all.iter().any(|figure| Column::ALL.iter().any(|column| figure.is_too_short(*column)))
    }

    /// Sorts the quantities by a key of their names.
    pub(super) fn sort_by_key<K: Ord>(&mut self, key: impl Fn(&str) -> K) {
        self.all.sort_by_key(|figure| key(&figure.name));
    }

    /// Returns the difference with checksums in percent; `None` if it was not measured, or in too
    /// short a time.
    pub(super) fn difference(&self, name: &str) -> Option<Interval> {
        self.find(name)?.difference(Column::Best)
    }

    /// Formats the measured rows of the published table.
    pub(super) fn table(&self, title: &str, storage: &str) -> Table {
        let best = format!("CRC, {}", xfskit_crc::selected());
        let mut table = Table::new(
            title,
            &[
                ("no CRC", ""),
                (best.as_str(), ""),
                ("difference", "%"),
                ("at least", "%"),
                ("at most", "%"),
                ("CRC, table", ""),
                ("difference", "%"),
                ("kernel XFS, CRC", ""),
                ("turns", ""),
                ("difference as published", ""),
            ],
        );
        for figure in &self.all {
            let median = |column: Column| Cell::median(figure.long(column), figure.digits);
            let [middle, low, high] = figure.percent(Column::Best);
            let [of_table, ..] = figure.percent(Column::Table);
            let cells = vec![
                median(Column::Off),
                median(Column::Best),
                Cell::Number(middle, 1),
                Cell::Number(low, 1),
                Cell::Number(high, 1),
                median(Column::Table),
                Cell::Number(of_table, 1),
                median(Column::Kernel),
                Cell::Count(figure.long(Column::Best).count() as u64),
                Cell::None,
            ];
            table.row(&figure.name, storage, cells);
        }
        if self.some_are_too_short() {
            table.note(short::note("a measurement", self.least));
        }
        table
    }

    /// Plots the time of every turn of a step, a line for each column, as microseconds of a file:
    /// so the published times, which are of more files, stand beside them. Returns `None` if the
    /// step was not measured.
    pub(super) fn turns(&self, name: &str, step: &str, files: f64) -> Option<Plot> {
        let figure = self.find(name)?;
        let measured = |column: &Column| figure.long(*column).count() > 0;
        let turns = |values: Samples| (1..).map(f64::from).zip(values.values().to_vec()).collect();
        let line = |column: Column| Line {
            name: column.name().into(),
            source: Source::Measured,
            points: turns(figure.long(column).map(|seconds| seconds * 1e6 / files)),
        };
        let mut lines: Vec<Line> = Column::ALL.into_iter().filter(measured).map(line).collect();
        let count = lines.iter().map(|line| line.points.len()).max()?;
        let pair = published::FS_MARK.iter().find(|pair| pair.name == name);
        for (name, seconds) in pair.iter().flat_map(|pair| pair.sides()) {
            let each = seconds * 1e6 / published::FS_MARK_FILES;
            lines.push(Line {
                name: format!("{}, {name}", published::SHORT_ON),
                source: Source::Published,
                points: turns(std::iter::repeat_n(each, count).collect()),
            });
        }
        Some(Plot {
            title: format!("fs_mark, {step}: time of a file in each turn"),
            x: Axis::linear("turn"),
            y: Axis::linear("time of a file, µs"),
            lines,
        })
    }

    /// Plots the difference of these quantities; each pair is a quantity and its label in the plot.
    pub(super) fn differences(&self, names: &[(String, &str)]) -> Plot {
        let known: Vec<(&Figure, &str)> =
            names.iter().filter_map(|(row, name)| Some((self.find(row)?, *name))).collect();
        let line = |name: &str, column: Column| Line {
            name: name.into(),
            source: Source::Measured,
            points: (1..)
                .map(f64::from)
                .zip(known.iter().map(|(figure, _)| figure.percent(column)[0]))
                .collect(),
        };
        let pair = |name: &str| published::COMPILEBENCH.iter().find(|pair| pair.name == name);
        let published = (1..)
            .map(f64::from)
            .zip(&known)
            .filter_map(|(x, (figure, _))| Some((x, pair(&figure.name)?.difference_percent())));
        let short = |name: &str| {
            name.replace("initial create", "initial")
                .replace("compiled tree", "comp.")
                .replace(" tree", "")
        };
        Plot {
            title: "compilebench: with checksums against without, by operation".into(),
            x: Axis::named("operation", known.iter().map(|(_, name)| short(name)).collect()),
            y: Axis::linear("difference, %"),
            lines: vec![
                line(Column::Best.name(), Column::Best),
                line(Column::Table.name(), Column::Table),
                Line {
                    name: "kernel XFS, 2013".into(),
                    source: Source::Published,
                    points: published.collect(),
                },
            ],
        }
    }

    /// Reports all quantities.
    pub(super) fn report(&self, program: &str, observer: &mut dyn Observer) -> std::io::Result<()> {
        for figure in &self.all {
            let [off, best, table, kernel] = &figure.columns;
            observer.result(json!({ "checksum": {
                "program": program,
                "figure": figure.name,
                "off": off,
                "on": best,
                "routine": xfskit_crc::selected(),
                "table": table,
                "kernel": kernel,
                "difference_percent": figure.percent(Column::Best),
                "too_short": Column::ALL.map(|column| figure.is_too_short(column)),
            }}))?;
        }
        Ok(())
    }
}

impl Figure {
    fn new(name: &str, digits: u8, least: Duration) -> Self {
        let (columns, seconds) = Default::default();
        Self { name: name.into(), digits, columns, seconds, least }
    }

    /// Returns true if a column was measured, but in too short a time.
    fn is_too_short(&self, column: Column) -> bool {
        let seconds = &self.seconds[column as usize];
        seconds.count() > 0 && short::is_too_short(seconds, self.least)
    }

    /// Returns the turns of a column; none if they were too short.
    fn long(&self, column: Column) -> &Samples {
        if self.is_too_short(column) { Samples::none() } else { &self.columns[column as usize] }
    }

    /// Returns the difference to the figure without checksums in percent; `None` if one of the two
    /// was too short.
    fn difference(&self, column: Column) -> Option<Interval> {
        if self.is_too_short(column) || self.is_too_short(Column::Off) {
            return None;
        }
        let [of, off] = [column, Column::Off].map(|column| &self.columns[column as usize]);
        Some(of.paired_ratio_to(off).percent(of.count().min(off.count())))
    }

    /// Returns the difference and the ends of its interval; NaN without one.
    fn percent(&self, column: Column) -> [f64; 3] {
        let of = |it: Interval| [it.middle, it.low, it.high];
        self.difference(column).map_or([f64::NAN; 3], of)
    }
}

/// Adds the differences between version 4 and version 5 in an emulated machine, for the direction.
pub(super) fn emulated_rows(table: &mut Table) {
    for (step, differences) in published::EMULATED {
        let mut cells = vec![Cell::None, Cell::None];
        cells.extend(differences.map(|percent| Cell::Number(percent, 1)));
        cells.resize(table.columns.len(), Cell::None);
        table.push(step, published::EMULATED_ON, Source::Emulated, cells);
    }
}

/// Adds a row of published figures: without, with, the difference computed from them, and the
/// published difference.
pub(super) fn published_row(table: &mut Table, pair: &published::Pair, digits: u8) {
    let mut cells = vec![Cell::Number(pair.off, digits), Cell::Number(pair.on, digits)];
    cells.push(Cell::Number(pair.difference_percent(), 1));
    cells.resize(table.columns.len() - 1, Cell::None);
    cells.push(match pair.as_published {
        "" => Cell::None,
        words => Cell::Text(words.into()),
    });
    table.published(pair.name, published::ON, cells);
}
