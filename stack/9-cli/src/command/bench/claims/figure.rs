//! Figures of a report: where they are, and how good they are.

use xfskit_workload::Report;
use xfskit_workload::measure::Samples;
use xfskit_workload::report::{Cell, Column, Row, Section, Table};

use super::data::{Claim, Last, Place};

/// Returns the figure of a claim in the report of its command.
pub(super) fn measured(report: &Report, claim: &Claim) -> Result<Last, String> {
    let figure = turns(report, &claim.figure)?;
    let Some(to) = &claim.to else {
        let median = figure.median();
        return Ok(last(median, figure.min(), figure.max(), figure.count()));
    };
    let base = turns(report, &to.or(&claim.figure))?;
    let ratio = figure.paired_ratio_to(&base);
    Ok(last(ratio.ratio, ratio.low, ratio.high, figure.count().min(base.count())))
}

fn last(median: f64, low: f64, high: f64, turns: usize) -> Last {
    let end = |end: f64| (turns > 1 && end.is_finite()).then_some(end);
    let turns = u64::try_from(turns).ok();
    Last { median, low: end(low), high: end(high), turns }
}

/// Returns the turns of the figure at a place.
fn turns(report: &Report, place: &Place) -> Result<Samples, String> {
    let sections = report.sections.iter().filter(|section| place.has_section(section));
    let tables = sections.flat_map(|section| &section.tables);
    let mut figures = tables.filter(|table| place.has_table(table)).flat_map(|table| {
        table.rows.iter().filter(|row| place.has_row(row)).flat_map(|row| {
            let cells = table.columns.iter().zip(&row.cells);
            cells
                .filter(|(column, _)| place.has_column(column))
                .filter_map(|(_, cell)| turns_of(cell))
        })
    });
    let figure = figures.next();
    figure.ok_or_else(|| format!("its report has no figure at {}", place.shown()))
}

/// Returns the turns of a cell; `None` if it has no figure.
#[allow(clippy::cast_precision_loss)] // of a count
fn turns_of(cell: &Cell) -> Option<Samples> {
    let turns = match cell {
        Cell::Turns { turns, .. } => turns.clone(),
        Cell::Number(figure, _) => [*figure].into_iter().collect(),
        Cell::Count(count) => [*count as f64].into_iter().collect(),
        Cell::None | Cell::Text(_) => return None,
    };
    turns.median().is_finite().then_some(turns)
}

impl Place {
    /// Returns this place with what is left out as in `other`.
    pub(super) fn or(&self, other: &Self) -> Self {
        let or =
            |own: &Option<String>, other: &Option<String>| own.as_ref().or(other.as_ref()).cloned();
        Self {
            section: or(&self.section, &other.section),
            table: or(&self.table, &other.table),
            row: or(&self.row, &other.row),
            with: or(&self.with, &other.with),
            column: or(&self.column, &other.column),
            unit: or(&self.unit, &other.unit),
        }
    }

    /// Formats the place.
    pub(super) fn shown(&self) -> String {
        let Self { section, table, row, with, column, unit } = self;
        let parts = [section, table, row, with, column, unit];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join(" / ")
    }

    fn has_section(&self, section: &Section) -> bool {
        is(self.section.as_deref(), &section.title)
    }

    fn has_table(&self, table: &Table) -> bool {
        is(self.table.as_deref(), &table.title)
    }

    fn has_row(&self, row: &Row) -> bool {
        is(self.row.as_deref(), &row.name)
            && (self.with.is_none()
                || row.cells.iter().any(|cell| is(self.with.as_deref(), &cell.to_string())))
    }

    fn has_column(&self, column: &Column) -> bool {
        is(self.column.as_deref(), &column.name) && is(self.unit.as_deref(), &column.unit)
    }
}

/// Returns whether `name` is the wanted one. A wanted name that ends in `…` is a beginning.
fn is(wanted: Option<&str>, name: &str) -> bool {
    wanted.is_none_or(|wanted| match wanted.strip_suffix('…') {
        Some(beginning) => name.starts_with(beginning),
        None => name == wanted,
    })
}
