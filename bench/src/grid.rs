//! A grid: several figures of each row, the median of all turns.

use xfskit_workload::measure::Samples;
use xfskit_workload::report::{Cell, Table};

/// Rows of figures that are measured turn by turn.
#[derive(Clone, Debug)]
pub struct Grid {
    table: Table,
    digits: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    name: String,
    storage: String,
    figures: Vec<Samples>,
}

impl Grid {
    /// Creates an empty grid with columns of these names, units and decimals.
    pub fn new<S: AsRef<str>>(title: impl Into<String>, columns: &[(S, &str, u8)]) -> Self {
        let named: Vec<_> = columns.iter().map(|(name, unit, _)| (name.as_ref(), *unit)).collect();
        let digits = columns.iter().map(|(.., digits)| *digits).collect();
        Self { table: Table::new(title, &named), digits, rows: Vec::new() }
    }

    /// Adds the figures of a turn to the row of this name and storage; NaN is no figure.
    ///
    /// # Panics
    /// If there is not one figure for each column.
    pub fn add(&mut self, name: impl Into<String>, storage: &str, figures: &[f64]) {
        assert_eq!(figures.len(), self.digits.len(), "one figure for each column");
        let name = name.into();
        let is_it = |row: &Row| row.name == name && row.storage == storage;
        let at = self.rows.iter().position(is_it).unwrap_or_else(|| {
            let figures = vec![Samples::default(); self.digits.len()];
            self.rows.push(Row { name, storage: storage.into(), figures });
            self.rows.len() - 1
        });
        for (samples, figure) in self.rows[at].figures.iter_mut().zip(figures) {
            samples.add(*figure);
        }
    }

    /// Returns the turns of a figure, by row and column.
    ///
    /// # Panics
    /// Without such a figure.
    pub fn samples(&self, row: usize, column: usize) -> &Samples {
        &self.rows[row].figures[column]
    }

    /// Returns the table of the medians.
    pub fn table(&self) -> Table {
        let mut table = self.table.clone();
        for Row { name, storage, figures } in &self.rows {
            let cells = figures
                .iter()
                .zip(&self.digits)
                .map(|(turns, digits)| Cell::median(turns, *digits));
            table.row(name, storage, cells.collect());
        }
        let all = || self.rows.iter().flat_map(|row| &row.figures);
        let turns = all().map(Samples::count).max().unwrap_or(0);
        let spread = all().map(Samples::spread).fold(f64::NAN, f64::max);
        if spread.is_finite() {
            let percent = spread * 100.0;
            table.note(format!(
                "Medians of {turns} turns, which differ by ± {percent:.0} % at most."
            ));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_the_median_of_its_turns() {
        let mut grid = Grid::new("t", &[("rate", "1/s", 0), ("share", "%", 1)]);
        for (rate, share) in [(90.0, 1.0), (110.0, 3.0), (100.0, 2.0)] {
            grid.add("a", "memory", &[rate, share]);
        }
        grid.add("b", "memory", &[5.0, f64::NAN]);
        let table = grid.table();
        let shown: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| row.cells.iter().map(ToString::to_string).collect())
            .collect();
        assert_eq!(shown, [["100", "2.0"], ["5", "–"]]);
        assert_eq!(table.notes, ["Medians of 3 turns, which differ by ± 50 % at most."]);
    }
}
