//! One pass against split: the same block, the field counting as zero, summed in two ways by every routine.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::measure::Samples;
use crate::random::Random;
use crate::report::{Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::{Audience, Settings};

/// Sizes of blocks, in bytes.
const SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Where blocks begin, in bytes behind a multiple of 64.
const ALIGNMENTS: [usize; 3] = [0, 8, 1];
/// Where the checksum stands in a block: as in an inode.
const FIELD: usize = 100;
/// Turns of each way, in turn.
const TURNS: usize = 30;
/// Rounds between two looks at the clock.
const ROUNDS: usize = 16;

/// How a block is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The field is zeroed, and the block summed at once: who changes a block may do that.
    OnePass,
    /// What stands before the field, four zero bytes, and what stands behind it.
    Split,
}

impl How {
    const ALL: [Self; 2] = [Self::OnePass, Self::Split];

    fn name(self) -> &'static str {
        match self {
            Self::OnePass => "one pass",
            Self::Split => "split",
        }
    }

    fn run(self, block: &mut [u8]) {
        match self {
            Self::OnePass => xfskit_crc::update(block, FIELD),
            Self::Split => {
                let (before, rest) = block.split_at(FIELD);
                let behind = &rest[xfskit_crc::CRC_LEN..];
                let crc = xfskit_crc::append(xfskit_crc::crc32c(before), &[0; xfskit_crc::CRC_LEN]);
                let crc = xfskit_crc::append(crc, behind);
                block[FIELD..FIELD + xfskit_crc::CRC_LEN].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }

    /// Seconds that a block of `block`'s size takes.
    #[allow(clippy::cast_precision_loss)] // of a time
    fn time(self, block: &mut [u8], turn: Duration) -> f64 {
        let (start, mut rounds) = (Instant::now(), 0);
        while start.elapsed() < turn {
            (0..ROUNDS).for_each(|_| self.run(black_box(&mut *block)));
            rounds += ROUNDS;
        }
        start.elapsed().as_secs_f64() / rounds as f64
    }
}

/// Seconds for each byte of records of `size` bytes: one pass, split.
#[allow(clippy::cast_precision_loss)] // of a time
pub(super) fn seconds_per_byte(size: usize) -> [f64; 2] {
    let mut block = vec![0x5a; size];
    How::ALL.map(|how| {
        let turns = (0..TURNS).map(|_| how.time(&mut block, Duration::from_micros(300)));
        turns.collect::<Samples>().median() / size as f64
    })
}

/// What was measured of one routine and size.
struct Rate {
    routine: &'static str,
    how: How,
    size: usize,
    align: usize,
    gigabytes: Samples,
}

/// The section.
///
/// # Errors
/// Where the audience wants to stop.
pub(super) fn section(
    turn: Duration,
    settings: &Settings,
    audience: &mut dyn Audience,
) -> io::Result<Section> {
    audience.note("checksums in one pass and split")?;
    let chosen = xfskit_crc::selected();
    let mut rates = Vec::new();
    for routine in xfskit_crc::routines().iter().filter(|routine| routine.available()) {
        xfskit_crc::select(routine.name);
        for size in SIZES {
            for align in ALIGNMENTS {
                rates.extend(measure(routine.name, size, align, turn, settings.seed));
            }
        }
    }
    xfskit_crc::select(chosen);
    let mut section = Section::new("One pass against split");
    section.say(format!(
        "A block whose checksum stands at byte {FIELD}, in the processor's cache. One pass: the field is zeroed and the \
         whole block summed, which only its owner may do. Split: before the field, four zero bytes, behind it. This \
         program sums with {chosen}.",
    ));
    for rate in &rates {
        audience.result(json!({ "crc": {
            "routine": rate.routine,
            "how": rate.how.name(),
            "block_bytes": rate.size,
            "align": rate.align,
            "gigabytes_per_second": rate.gigabytes,
        }}))?;
    }
    section.tables.push(table(&rates));
    section.plots.push(plot(&rates, chosen));
    Ok(section)
}

/// Both ways, in turn.
#[allow(clippy::cast_precision_loss)] // of a rate
fn measure(
    routine: &'static str,
    size: usize,
    align: usize,
    turn: Duration,
    seed: u64,
) -> [Rate; 2] {
    let mut random = Random::new(seed);
    let mut memory: Vec<u8> = (0..size + 128).map(|_| random.number().to_le_bytes()[0]).collect();
    let start = memory.as_ptr().align_offset(64) + align;
    let block = &mut memory[start..start + size];
    let mut rates =
        How::ALL.map(|how| Rate { routine, how, size, align, gigabytes: Samples::default() });
    for _ in 0..TURNS {
        for rate in &mut rates {
            rate.gigabytes.add(size as f64 / rate.how.time(block, turn) / 1e9);
        }
    }
    rates
}

fn table(rates: &[Rate]) -> Table {
    let mut table = Table::new(
        "Blocks that begin at a multiple of 64 bytes, and 8 and 1 bytes behind one",
        &[
            ("block", "bytes"),
            ("one pass", "GB/s"),
            ("spread", "± %"),
            ("split", "GB/s"),
            ("spread", "± %"),
            ("one pass, + 8", "GB/s"),
            ("one pass, + 1", "GB/s"),
            ("one pass over split", "times"),
            ("at least", ""),
            ("turns", ""),
        ],
    );
    let find = |routine, size, how, align| {
        let same = |rate: &&Rate| {
            rate.routine == routine && rate.size == size && rate.how == how && rate.align == align
        };
        rates.iter().find(same).map(|rate| &rate.gigabytes)
    };
    let median = |samples: Option<&Samples>| {
        samples.map_or(Cell::None, |samples| Cell::Number(samples.median(), 2))
    };
    for rate in rates.iter().filter(|rate| rate.align == 0 && rate.how == How::OnePass) {
        let Some(split) = find(rate.routine, rate.size, How::Split, 0) else { continue };
        let ratio = rate.gigabytes.over(split);
        let behind = |align| median(find(rate.routine, rate.size, How::OnePass, align));
        let cells = vec![
            Cell::Count(rate.size as u64),
            median(Some(&rate.gigabytes)),
            Cell::Number(rate.gigabytes.spread() * 100.0, 0),
            median(Some(split)),
            Cell::Number(split.spread() * 100.0, 0),
            behind(8),
            behind(1),
            Cell::Number(ratio.ratio, 2),
            Cell::Number(ratio.low, 2),
            Cell::Count(TURNS as u64),
        ];
        table.row(rate.routine, "processor's cache", cells);
    }
    table.note("At least: with a confidence of 95 percent.");
    table
}

/// The routine in use and the portable one.
#[allow(clippy::cast_precision_loss)] // of a size
fn plot(rates: &[Rate], chosen: &str) -> Plot {
    let mut lines = Vec::new();
    for routine in [chosen, "table"] {
        for how in How::ALL {
            let of = |rate: &&Rate| rate.routine == routine && rate.how == how && rate.align == 0;
            let points: Vec<(f64, f64)> = rates
                .iter()
                .filter(of)
                .map(|rate| (rate.size as f64, rate.gigabytes.median()))
                .collect();
            let name = format!("{routine}, {}", how.name());
            if !points.is_empty() && !lines.iter().any(|line: &Line| line.name == name) {
                lines.push(Line { name, source: Source::Measured, points });
            }
        }
    }
    Plot {
        title: "Checksums of a block".into(),
        x: Axis::logarithmic("block, bytes"),
        y: Axis::logarithmic("GB/s"),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_come_to_the_same_sum() {
        let mut one: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let mut other = one.clone();
        How::OnePass.run(&mut one);
        How::Split.run(&mut other);
        assert_eq!(one, other);
        assert!(xfskit_crc::verify(&one, FIELD));
    }
}
