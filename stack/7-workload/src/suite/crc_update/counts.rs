//! Passes over the bytes of journal records, counted: why the published share fell eleven times.
//!
//! One pass and split sum the same bytes once each. The split makes three sums of one, and a fast
//! routine needs long pieces. So the published fall is no matter of passes, but of the routine that
//! the pieces get. Both are measured here for records as long as those of this run.

use std::time::Duration;

use xfskit_crc::meter::{self, Cost};

use super::passes::Method;
use crate::measure::Samples;
use crate::report::{Cell, Source, Table};

/// The published fall: 1.11 % of the processor, and 0.1 % afterwards.
const PUBLISHED: f64 = 1.11 / 0.1;
/// A fall of this part of the published one explains it.
const MOST: f64 = 0.5;
/// Ratios up to this one are no difference.
const SAME: f64 = 1.1;
/// Measurements of each way, and the time of each.
const MEASUREMENTS: usize = 30;
const TURN: Duration = Duration::from_micros(300);

/// One way to sum a record.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    /// Sums and bytes of one record.
    cost: Cost,
    /// Seconds for a record.
    seconds: f64,
}

/// The ways to sum a record of the mean length of a run.
#[derive(Debug)]
pub(super) struct Counts {
    /// Bytes of a record.
    record: usize,
    /// Bytes summed for each byte of the journal.
    passes: f64,
    one_pass: Way,
    split: Way,
    /// Split, with the portable routine: no piece is long enough for a fast one.
    slow: Way,
}

impl Counts {
    /// Counts and measures records of the mean length of these sums, which stand for `log_bytes` of
    /// journal. Returns `None` if nothing was summed.
    #[allow(clippy::cast_precision_loss)] // of a ratio
    pub(super) fn of(sums: Cost, log_bytes: u64) -> Option<Self> {
        let record = usize::try_from(sums.bytes.checked_div(sums.sums)?).ok()?.max(512);
        let chosen = xfskit_crc::selected();
        let one_pass = way("one pass", Method::OnePass, record);
        let split = way("split", Method::Split, record);
        xfskit_crc::select("table");
        let slow = way("split, portable routine", Method::Split, record);
        xfskit_crc::select(chosen);
        let passes = sums.bytes as f64 / log_bytes.max(1) as f64;
        Some(Self { record, passes, one_pass, split, slow })
    }

    fn times(&self, way: &Way) -> f64 {
        way.seconds / self.one_pass.seconds
    }

    /// Explains the published fall by what was counted.
    pub(super) fn sentence(&self) -> String {
        let (split, slow) = (self.times(&self.split), self.times(&self.slow));
        let counted = format!(
            "The share fell from 1.11 to below 0.1 % as published: {PUBLISHED:.0} times. The number of passes does not explain \
             that: each byte of the journal is summed {:.2} times here, and a split sums {:.2} times the bytes of one pass, in \
             {} pieces instead of {}.",
            self.passes,
            ratio(self.split.cost.bytes, self.one_pass.cost.bytes),
            self.split.cost.sums,
            self.one_pass.cost.sums,
        );
        let why = if split >= MOST * PUBLISHED {
            "the pieces alone explain most of the fall"
        } else if split > SAME {
            "the pieces explain a part of the fall"
        } else {
            "this processor's routine is as fast on the pieces"
        };
        let rest = if slow >= MOST * PUBLISHED {
            "as much as published: there the pieces were too short for the fast routine"
        } else {
            "less than published: on this processor the fast routine gains less"
        };
        format!(
            "{counted} In records of {} bytes the split takes {split:.2} times as long as one pass: {why}. With the portable \
             routine for all pieces it takes {slow:.1} times as long, {rest}.",
            self.record
        )
    }

    pub(super) fn table(&self) -> Table {
        let columns = [
            ("pieces", "of a record"),
            ("summed", "bytes of a record"),
            ("time", "ns a record"),
            ("of one pass", "times"),
        ];
        let title = format!("Passes over a record of {} bytes, the mean of this run", self.record);
        let mut table = Table::new(title, &columns);
        for way in [&self.one_pass, &self.split, &self.slow] {
            let cells = vec![
                Cell::Count(way.cost.sums),
                Cell::Count(way.cost.bytes),
                Cell::Number(way.seconds * 1e9, 0),
                Cell::Number(self.times(way), 2),
            ];
            table.row(way.name, "processor's cache", cells);
        }
        let cells = vec![Cell::None, Cell::None, Cell::None, Cell::Number(PUBLISHED, 1)];
        let on = "kernel XFS of 2016, Power8";
        table.push("split, by the share of the processor", on, Source::Published, cells);
        table.note(
            "Pieces and bytes are counted by the meter of checksums while one record is summed.",
        );
        table
    }
}

#[allow(clippy::cast_precision_loss)] // of a ratio
fn ratio(part: u64, of: u64) -> f64 {
    part as f64 / of as f64
}

/// Counts one sum of a record, and measures it.
fn way(name: &'static str, method: Method, record: usize) -> Way {
    let mut block = vec![0x5a; record];
    meter::turn_on(true);
    let before = meter::of_thread();
    method.run(&mut block);
    let cost = meter::of_thread() - before;
    meter::turn_on(false);
    let times: Samples = (0..MEASUREMENTS).map(|_| method.time(&mut block, TURN)).collect();
    Way { name, cost, seconds: times.median() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(split: f64, slow: f64) -> Counts {
        let way = |name, sums, seconds| Way {
            name,
            cost: Cost { sums, bytes: 4096, ..Cost::default() },
            seconds,
        };
        Counts {
            record: 4096,
            passes: 1.0,
            one_pass: way("one pass", 1, 1e-7),
            split: way("split", 3, split * 1e-7),
            slow: way("slow", 3, slow * 1e-7),
        }
    }

    #[test]
    fn every_outcome_has_its_sentence() {
        for (split, slow, why, rest) in [
            (9.0, 30.0, "explain most of the fall", "as much as published"),
            (1.4, 20.0, "explain a part", "as much as published"),
            (1.05, 3.0, "as fast on the pieces", "less than published"),
        ] {
            let text = counts(split, slow).sentence();
            assert!(text.contains(why) && text.contains(rest), "{text}");
            assert!(text.contains("1.00 times the bytes of one pass, in 3 pieces instead of 1"));
        }
    }
}
