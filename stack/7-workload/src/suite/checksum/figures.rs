//! Figures without and with checksums, side by side.

use serde_json::json;

use super::{Column, published};
use crate::measure::{Interval, Samples};
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
}

/// All quantities of one program.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<Figure>);

impl Figures {
    /// Adds the value of one turn.
    pub(super) fn add(&mut self, name: &str, digits: u8, column: Column, value: f64) {
        let at = self.0.iter().position(|figure| figure.name == name).unwrap_or_else(|| {
            self.0.push(Figure { name: name.into(), digits, columns: Default::default() });
            self.0.len() - 1
        });
        self.0[at].columns[column as usize].add(value);
    }

    /// Sorts the quantities by a key of their names.
    pub(super) fn sort_by_key<K: Ord>(&mut self, key: impl Fn(&str) -> K) {
        self.0.sort_by_key(|figure| key(&figure.name));
    }

    /// Returns the difference with checksums in percent.
    pub(super) fn difference(&self, name: &str) -> Option<Interval> {
        let figure = self.0.iter().find(|figure| figure.name == name)?;
        Some(figure.difference(Column::Best))
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
        for figure in &self.0 {
            let median =
                |column: Column| Cell::median(&figure.columns[column as usize], figure.digits);
            let Interval { middle, low, high, .. } = figure.difference(Column::Best);
            let of_table = figure.difference(Column::Table).middle;
            let cells = vec![
                median(Column::Off),
                median(Column::Best),
                Cell::Number(middle, 1),
                Cell::Number(low, 1),
                Cell::Number(high, 1),
                median(Column::Table),
                Cell::Number(of_table, 1),
                median(Column::Kernel),
                Cell::Count(figure.columns[Column::Best as usize].count() as u64),
                Cell::None,
            ];
            table.row(&figure.name, storage, cells);
        }
        table
    }

    /// Plots the value of every turn of one quantity, a line for each column. Returns `None` if it
    /// was not measured.
    pub(super) fn turns(&self, name: &str, title: &str, unit: &str) -> Option<Plot> {
        let figure = self.0.iter().find(|figure| figure.name == name)?;
        let measured = |column: &Column| !figure.columns[*column as usize].values().is_empty();
        let line = |column: Column| Line {
            name: column.name().into(),
            source: Source::Measured,
            points: (1..)
                .map(f64::from)
                .zip(figure.columns[column as usize].values().iter().copied())
                .collect(),
        };
        Some(Plot {
            title: title.into(),
            x: Axis::linear("turn"),
            y: Axis::linear(unit),
            lines: Column::ALL.into_iter().filter(measured).map(line).collect(),
        })
    }

    /// Plots the difference of these quantities; each pair is a quantity and its label in the plot.
    pub(super) fn differences(&self, names: &[(String, &str)]) -> Plot {
        let known: Vec<(&Figure, &str)> = names
            .iter()
            .filter_map(|(row, name)| {
                Some((self.0.iter().find(|figure| figure.name == *row)?, *name))
            })
            .collect();
        let line = |name: &str, column: Column| Line {
            name: name.into(),
            source: Source::Measured,
            points: (1..)
                .map(f64::from)
                .zip(known.iter().map(|(figure, _)| figure.difference(column).middle))
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
        for figure in &self.0 {
            let [off, best, table, kernel] = &figure.columns;
            let Interval { middle, low, high, .. } = figure.difference(Column::Best);
            observer.result(json!({ "checksum": {
                "program": program,
                "figure": figure.name,
                "off": off,
                "on": best,
                "routine": xfskit_crc::selected(),
                "table": table,
                "kernel": kernel,
                "difference_percent": [middle, low, high],
            }}))?;
        }
        Ok(())
    }
}

impl Figure {
    fn difference(&self, column: Column) -> Interval {
        let [of, off] = [column, Column::Off].map(|column| &self.columns[column as usize]);
        of.paired_ratio_to(off).percent(of.count().min(off.count()))
    }
}

/// Adds the differences between version 4 and version 5 in an emulated machine, for the direction.
pub(super) fn emulated_rows(table: &mut Table) {
    for (step, differences) in published::EMULATED {
        let mut cells = vec![Cell::None, Cell::None];
        cells.extend(differences.map(|percent| Cell::Number(percent, 1)));
        cells.resize(table.columns.len(), Cell::None);
        table.published(step, published::EMULATED_ON, cells);
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
