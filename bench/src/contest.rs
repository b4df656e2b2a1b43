//! A contest: one measurement of several contenders, which alternate turn by turn, so that other
//! load on the machine meets all of them.

use std::time::Duration;

use xfskit_workload::measure::{Interval, Ratio, Samples, interval_note};
use xfskit_workload::report::{Cell, Table};

/// A quantity that contenders are compared by.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Unit of the values.
    pub unit: &'static str,
    /// Decimals to show.
    pub digits: u8,
    /// A larger value is the better one, as of a rate.
    pub larger_is_better: bool,
}

impl Quantity {
    /// Returns a quantity of which less is better.
    pub const fn cost(unit: &'static str, digits: u8) -> Self {
        Self { unit, digits, larger_is_better: false }
    }

    /// Returns a quantity of which more is better.
    pub const fn rate(unit: &'static str, digits: u8) -> Self {
        Self { unit, digits, larger_is_better: true }
    }
}

/// Wall time.
pub const SECONDS: Quantity = Quantity::cost("s", 3);

/// One measurement of several contenders.
#[derive(Clone, Debug)]
pub struct Contest {
    title: String,
    quantity: Quantity,
    contenders: Vec<Contender>,
    /// The one that the others are compared with.
    ours: usize,
}

#[derive(Clone, Debug)]
struct Contender {
    name: String,
    storage: String,
    samples: Samples,
}

impl Contest {
    /// Creates a contest of these contenders, each with its name and its storage. They are compared
    /// with `ours`.
    pub fn new<S: AsRef<str>>(
        title: impl Into<String>,
        quantity: Quantity,
        ours: usize,
        contenders: &[(S, &str)],
    ) -> Self {
        let contender = |(name, storage): &(S, &str)| Contender {
            name: name.as_ref().into(),
            storage: (*storage).into(),
            samples: Samples::default(),
        };
        let contenders = contenders.iter().map(contender).collect();
        Self { title: title.into(), quantity, contenders, ours }
    }

    /// Adds the value of a turn of contender number `of`.
    ///
    /// # Panics
    /// Without such a contender.
    pub fn add(&mut self, of: usize, value: f64) {
        self.contenders[of].samples.add(value);
    }

    /// Adds the time of a turn in seconds.
    ///
    /// # Panics
    /// Without such a contender.
    pub fn add_time(&mut self, of: usize, time: Duration) {
        self.add(of, time.as_secs_f64());
    }

    /// Returns the table of the contest. Contenders without turns have no row.
    pub fn table(&self) -> Table {
        let unit = self.quantity.unit;
        let columns = ["median", "best", "worst"].map(|name| (name, unit));
        let ratios = [("ours is", "times as good"), ("at least", ""), ("at most", "")];
        let mut table = Table::new(&self.title, &[&columns[..], &ratios].concat());
        let ours = &self.contenders[self.ours].samples;
        for (n, contender) in self.contenders.iter().enumerate() {
            let samples = &contender.samples;
            if samples.count() > 0 {
                let ratio = if n == self.ours { none() } else { cells(self.ratio(ours, samples)) };
                let cells = self.figures(samples).into_iter().chain(ratio).collect();
                table.row(&contender.name, &contender.storage, cells);
            }
        }
        table.note(interval_note(ours.count()));
        table
    }

    /// Returns median, best and worst; one turn shows no spread.
    fn figures(&self, samples: &Samples) -> [Cell; 3] {
        let digits = self.quantity.digits;
        let mut ends = [samples.min(), samples.max()];
        if self.quantity.larger_is_better {
            ends.reverse();
        }
        let ends = ends.map(|end| match samples.count() {
            1 => Cell::None,
            _ => Cell::Number(end, digits),
        });
        let [best, worst] = ends;
        [Cell::median(samples, digits), best, worst]
    }

    /// Returns how many times as good ours is as contender number `of`; `None` if one of them has
    /// no turn.
    ///
    /// # Panics
    /// Without such a contender.
    pub fn times_as_good(&self, of: usize) -> Option<Interval> {
        let [ours, theirs] = [self.ours, of].map(|n| &self.contenders[n].samples);
        let turns = ours.count().min(theirs.count());
        (turns > 0).then(|| self.ratio(ours, theirs).interval(turns))
    }

    /// Returns how many times as good `ours` is, with the interval.
    fn ratio(&self, ours: &Samples, theirs: &Samples) -> Ratio {
        if self.quantity.larger_is_better {
            ours.paired_ratio_to(theirs)
        } else {
            theirs.paired_ratio_to(ours)
        }
    }
}

fn none() -> [Cell; 3] {
    [Cell::None, Cell::None, Cell::None]
}

fn cells(ratio: Ratio) -> [Cell; 3] {
    [ratio.ratio, ratio.low, ratio.high].map(|ratio| Cell::Number(ratio, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(quantity: Quantity, turns: [&[f64]; 2]) -> Vec<Vec<String>> {
        let names = [("kernel", "a file"), ("xfskit", "a file")];
        let mut contest = Contest::new("t", quantity, 1, &names);
        for (n, turns) in turns.iter().enumerate() {
            turns.iter().for_each(|turn| contest.add(n, *turn));
        }
        let table = contest.table();
        table.rows.iter().map(|row| row.cells.iter().map(Cell::to_string).collect()).collect()
    }

    #[test]
    fn the_best_time_is_the_shortest_and_the_best_rate_the_highest() {
        let turns: [&[f64]; 2] = [&[4.0, 6.0, 8.0], &[2.0, 3.0, 4.0]];
        let times = shown(Quantity::cost("s", 0), turns);
        assert_eq!(times[0], ["6", "4", "8", "2.00", "2.00", "2.00"]);
        assert_eq!(times[1], ["3", "2", "4", "–", "–", "–"]);
        let rates = shown(Quantity::rate("1/s", 0), turns);
        assert_eq!(rates[0], ["6", "8", "4", "0.50", "0.50", "0.50"]);
    }

    #[test]
    fn one_turn_shows_no_spread() {
        let once = shown(SECONDS, [&[4.0], &[2.0]]);
        assert_eq!(once[0], ["4.000", "–", "–", "2.00", "–", "–"]);
        assert_eq!(once[1], ["2.000", "–", "–", "–", "–", "–"]);
    }

    #[test]
    fn a_ratio_needs_turns_of_both() {
        let names = [("kernel", "a file"), ("xfskit", "a file"), ("absent", "a file")];
        let mut contest = Contest::new("t", SECONDS, 1, &names);
        contest.add(0, 6.0);
        contest.add(1, 2.0);
        assert_eq!(
            contest.times_as_good(0).map(|times| (times.middle, times.turns)),
            Some((3.0, 1))
        );
        assert_eq!(contest.times_as_good(2), None);
    }

    #[test]
    fn a_contender_that_did_not_run_has_no_row() {
        assert_eq!(shown(SECONDS, [&[], &[2.0]]).len(), 1);
    }
}
