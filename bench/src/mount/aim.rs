//! Figures to reach. The interval of a figure decides whether a run shows that its aim is reached.

use xfskit_workload::measure::{Decision, Interval};
use xfskit_workload::report::{Cell, Table};

/// What a figure has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// More than this.
    Above(f64),
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Bound {
    fn decide(self, found: &Interval) -> Decision {
        match self {
            Self::Above(limit) => found.above(limit),
            Self::AtLeast(limit) => found.at_least(limit),
            Self::AtMost(limit) => found.at_most(limit),
        }
    }

    fn text(self) -> String {
        let (words, limit) = match self {
            Self::Above(limit) => ("more than", limit),
            Self::AtLeast(limit) => ("at least", limit),
            Self::AtMost(limit) => ("at most", limit),
        };
        format!("{words} {}", (limit * 1000.0).round() / 1000.0)
    }
}

/// The table of the aims of a section.
#[derive(Debug)]
pub struct Aims(Table);

impl Default for Aims {
    fn default() -> Self {
        let columns = ["aim", "measured", "at least", "at most", "outcome"];
        Self(Table::new("Aims", &columns.map(|name| (name, ""))))
    }
}

impl Aims {
    /// Adds an aim, with the figure that was measured, if it was. `unit` says what is compared.
    pub fn add(
        &mut self,
        what: impl Into<String>,
        unit: &str,
        bound: Bound,
        found: Option<Interval>,
    ) {
        let number = |figure| Cell::Number(figure, 2);
        let aim = Cell::Text(bound.text());
        let cells = match found.filter(|found| found.middle.is_finite()) {
            Some(found) => {
                let outcome = match bound.decide(&found) {
                    Decision::Shown => "reached",
                    Decision::Refuted => "missed",
                    Decision::Undecided => "not decided by this run",
                    Decision::TooFewTurns => "not decided by so few turns",
                };
                let [middle, low, high] = [found.middle, found.low, found.high].map(number);
                vec![aim, middle, low, high, Cell::Text(outcome.into())]
            }
            None => {
                vec![aim, Cell::None, Cell::None, Cell::None, Cell::Text("not measured".into())]
            }
        };
        self.0.row(what, unit, cells);
    }

    /// Returns the table; `None` without aims.
    pub fn table(self) -> Option<Table> {
        (!self.0.rows.is_empty()).then_some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(bound: Bound, found: Option<(f64, f64)>) -> Vec<String> {
        let interval =
            |(low, high)| Interval { middle: f64::midpoint(low, high), low, high, turns: 6 };
        let mut aims = Aims::default();
        aims.add("a", "times", bound, found.map(interval));
        aims.table().unwrap().rows[0].cells.iter().map(Cell::to_string).collect()
    }

    #[test]
    fn the_interval_decides() {
        let reached = outcome(Bound::AtLeast(0.5), Some((0.5, 0.7)));
        assert_eq!(reached, ["at least 0.5", "0.60", "0.50", "0.70", "reached"]);
        let last = |bound, found| outcome(bound, found).pop().unwrap();
        assert_eq!(last(Bound::Above(1.0), Some((0.9, 1.1))), "not decided by this run");
        assert_eq!(last(Bound::AtMost(2.0), Some((2.1, 3.0))), "missed");
        assert_eq!(last(Bound::AtMost(2.0), Some((f64::NAN, f64::NAN))), "not measured");
        assert_eq!(outcome(Bound::AtLeast(1.0 / 1.5), None)[0], "at least 0.667");
        assert!(Aims::default().table().is_none());
    }
}
