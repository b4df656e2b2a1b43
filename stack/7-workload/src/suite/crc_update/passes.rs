//! One pass against split: every routine sums the same block in both ways, with the field counted
//! as zero.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::measure::{Samples, interval_note, short};
use crate::random::Random;
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::{Observer, Settings};

/// Block sizes in bytes.
const SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Offsets of the block from a multiple of 64, in bytes.
const ALIGNMENTS: [usize; 3] = [0, 8, 1];
/// Offset of the checksum in the block: as in an inode.
const FIELD: usize = 100;
/// Measurements of each method in a turn; the methods alternate. Their median is one sample,
/// because they share a block of memory.
const MEASUREMENTS: usize = 30;
/// Rounds between two readings of the clock.
const ROUNDS: usize = 16;

/// A method to sum a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Zeroes the field and sums the whole block, which only the owner of the block may do.
    OnePass,
    /// Sums the bytes before the field, four zero bytes, and the bytes after it.
    Split,
}

impl Method {
    const ALL: [Self; 2] = [Self::OnePass, Self::Split];

    fn name(self) -> &'static str {
        match self {
            Self::OnePass => "one pass",
            Self::Split => "split",
        }
    }

    pub(super) fn run(self, block: &mut [u8]) {
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

    /// Returns the seconds per block.
    #[allow(clippy::cast_precision_loss)] // of a time
    pub(super) fn time(self, block: &mut [u8], turn: Duration) -> f64 {
        let (start, mut rounds) = (Instant::now(), 0);
        while start.elapsed() < turn {
            (0..ROUNDS).for_each(|_| self.run(black_box(&mut *block)));
            rounds += ROUNDS;
        }
        start.elapsed().as_secs_f64() / rounds as f64
    }
}

/// Returns the seconds per byte of records of `size` bytes: one pass, split.
#[allow(clippy::cast_precision_loss)] // of a time
pub(super) fn seconds_per_byte(size: usize) -> [f64; 2] {
    let mut block = vec![0x5a; size];
    Method::ALL.map(|method| {
        let times = (0..MEASUREMENTS).map(|_| method.time(&mut block, Duration::from_micros(300)));
        times.collect::<Samples>().median() / size as f64
    })
}

/// The rate of one routine, method, size and alignment.
struct Rate {
    routine: &'static str,
    method: Method,
    size: usize,
    align: usize,
    gigabytes: Samples,
}

/// Runs the part and formats its section.
///
/// # Errors
/// If the observer stops the suite.
pub(super) fn section(
    turn: Duration,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let chosen = xfskit_crc::selected();
    let mut rates = rates();
    for turn_number in 1..=settings.repetitions {
        observer.progress(&format!("checksums in one pass and split, turn {turn_number}"))?;
        for pair in rates.chunks_exact_mut(Method::ALL.len()) {
            xfskit_crc::select(pair[0].routine);
            measure(pair, turn, settings.seed);
        }
    }
    xfskit_crc::select(chosen);
    let mut section = Section::new("One pass against split");
    section.paragraph(format!(
        "A block with its checksum at byte {FIELD}, in the processor's cache. One pass zeroes the field and sums the \
         whole block, which only its owner may do. Split sums the bytes before the field, four zero bytes, and the bytes \
         after it. This program uses {chosen}.",
    ));
    for rate in &rates {
        observer.result(json!({ "crc": {
            "routine": rate.routine,
            "method": rate.method.name(),
            "block_bytes": rate.size,
            "align": rate.align,
            "gigabytes_per_second": rate.gigabytes,
        }}))?;
    }
    if turn < short::LOOP_MIN {
        section.paragraph(format!(
            "Each block was summed for {} µs at a time, which is too short to mean anything: there are no figures.",
            turn.as_secs_f64() * 1e6,
        ));
        return Ok(section);
    }
    section.answer = answer(&rates, chosen);
    section.tables.push(table(&rates));
    section.plots.push(plot(&rates, chosen));
    Ok(section)
}

/// Returns all rates, without figures. Both methods of a block follow each other.
fn rates() -> Vec<Rate> {
    let mut rates: Vec<Rate> = Vec::new();
    for routine in xfskit_crc::routines().iter().filter(|routine| routine.available()) {
        for size in SIZES {
            for align in ALIGNMENTS {
                rates
                    .extend(Method::ALL.map(|method| Rate::new(routine.name, method, size, align)));
            }
        }
    }
    rates
}

/// Returns the time of all measurements of a turn.
pub(super) fn turn_time(turn: Duration) -> Duration {
    turn * u32::try_from(rates().len() * MEASUREMENTS).unwrap_or(u32::MAX)
}

impl Rate {
    fn new(routine: &'static str, method: Method, size: usize, align: usize) -> Self {
        Self { routine, method, size, align, gigabytes: Samples::default() }
    }
}

/// Measures both methods, alternating, on new memory. Adds a sample to each.
#[allow(clippy::cast_precision_loss)] // of a rate
fn measure(rates: &mut [Rate], turn: Duration, seed: u64) {
    let Rate { size, align, .. } = rates[0];
    let mut random = Random::new(seed);
    let mut memory: Vec<u8> = (0..size + 128).map(|_| random.next_u64().to_le_bytes()[0]).collect();
    let start = memory.as_ptr().align_offset(64) + align;
    let block = &mut memory[start..start + size];
    let mut of_turn = vec![Samples::default(); rates.len()];
    for _ in 0..MEASUREMENTS {
        for (rate, samples) in rates.iter().zip(&mut of_turn) {
            samples.add(size as f64 / rate.method.time(block, turn) / 1e9);
        }
    }
    for (rate, samples) in rates.iter_mut().zip(of_turn) {
        rate.gigabytes.add(samples.median());
    }
}

/// Returns the rates of one routine, size, method and alignment.
fn find<'r>(
    rates: &'r [Rate],
    routine: &str,
    size: usize,
    method: Method,
    align: usize,
) -> Option<&'r Samples> {
    let same = |rate: &&Rate| {
        rate.routine == routine && rate.size == size && rate.method == method && rate.align == align
    };
    rates.iter().find(same).map(|rate| &rate.gigabytes)
}

/// Bytes of the block that the answer is about: an inode.
const INODE: usize = 512;

/// Returns the answer to how much faster one pass is, by the routine in use.
fn answer(rates: &[Rate], chosen: &str) -> Option<Answer> {
    let [one, split] = Method::ALL.map(|method| find(rates, chosen, INODE, method, 0));
    let (one, split) = (one?, split?);
    let times = one.times(split);
    let claim = |word: &str| format!("One pass over an inode is {word}");
    let range = format!("{} times", times.range(|times| format!("{times:.2}")));
    Some(Answer {
        question: "How much faster is a checksum in one pass than around its field?".into(),
        verdict: times.above(1.0).sentence(&claim("faster"), &claim("slower"), &range, times.turns),
        figure: format!(
            "{INODE} bytes by {chosen}: {:.1} GB/s in one pass, {:.1} GB/s split.",
            one.median(),
            split.median()
        ),
        published: "11 times less of the processor.".into(),
    })
}

fn table(rates: &[Rate]) -> Table {
    let mut table = Table::new(
        "Blocks at a multiple of 64 bytes, and 8 and 1 bytes after one",
        &[
            ("block", "bytes"),
            ("one pass", "GB/s"),
            ("at least", ""),
            ("at most", ""),
            ("split", "GB/s"),
            ("at least", ""),
            ("at most", ""),
            ("one pass, + 8", "GB/s"),
            ("one pass, + 1", "GB/s"),
            ("one pass over split", "times"),
            ("at least", ""),
            ("at most", ""),
            ("turns", ""),
        ],
    );
    let find = |routine, size, method, align| find(rates, routine, size, method, align);
    let median =
        |samples: Option<&Samples>| samples.map_or(Cell::None, |samples| Cell::median(samples, 2));
    for rate in rates.iter().filter(|rate| rate.align == 0 && rate.method == Method::OnePass) {
        let Some(split) = find(rate.routine, rate.size, Method::Split, 0) else { continue };
        let ratio = rate.gigabytes.ratio_to(split);
        let [one, apart] = [&rate.gigabytes, split].map(Samples::median_interval);
        let behind = |align| median(find(rate.routine, rate.size, Method::OnePass, align));
        let cells = vec![
            Cell::Count(rate.size as u64),
            median(Some(&rate.gigabytes)),
            Cell::Number(one.low, 2),
            Cell::Number(one.high, 2),
            median(Some(split)),
            Cell::Number(apart.low, 2),
            Cell::Number(apart.high, 2),
            behind(8),
            behind(1),
            Cell::Number(ratio.ratio, 2),
            Cell::Number(ratio.low, 2),
            Cell::Number(ratio.high, 2),
            Cell::Count(rate.gigabytes.count() as u64),
        ];
        table.row(rate.routine, "processor's cache", cells);
    }
    table.note(format!(
        "The figure of a turn is the median of {MEASUREMENTS} measurements, in which the methods alternate."
    ));
    table.note(interval_note(rates.first().map_or(0, |rate| rate.gigabytes.count())));
    table
}

/// Plots the routine in use and the portable one.
#[allow(clippy::cast_precision_loss)] // of a size
fn plot(rates: &[Rate], chosen: &str) -> Plot {
    let mut lines = Vec::new();
    for routine in [chosen, "table"] {
        for method in Method::ALL {
            let of =
                |rate: &&Rate| rate.routine == routine && rate.method == method && rate.align == 0;
            let points: Vec<(f64, f64)> = rates
                .iter()
                .filter(of)
                .map(|rate| (rate.size as f64, rate.gigabytes.median()))
                .collect();
            let name = format!("{routine}, {}", method.name());
            if !points.is_empty() && !lines.iter().any(|line: &Line| line.name == name) {
                lines.push(Line { name, source: Source::Measured, points });
            }
        }
    }
    Plot {
        title: format!("One pass against split, by size of the block: {chosen} and table"),
        x: Axis::logarithmic("block, bytes"),
        y: Axis::logarithmic("GB/s"),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_sample() {
        let mut rates = Method::ALL.map(|method| Rate::new("table", method, 512, 1));
        for turns in 1..=2 {
            measure(&mut rates, Duration::ZERO, 7);
            assert!(rates.iter().all(|rate| rate.gigabytes.count() == turns), "{turns}");
        }
    }

    #[test]
    fn the_answer_is_that_of_the_routine_in_use() {
        let mut rates = Method::ALL.map(|method| Rate::new("table", method, INODE, 0));
        for (rate, gigabytes) in rates.iter_mut().zip([3.0, 2.0]) {
            (0..4).for_each(|_| rate.gigabytes.add(gigabytes));
        }
        let of = answer(&rates, "table").expect("an answer");
        assert_eq!(of.verdict, "One pass over an inode is faster (1.50 to 1.50 times).");
        assert_eq!(of.figure, "512 bytes by table: 3.0 GB/s in one pass, 2.0 GB/s split.");
        assert!(answer(&rates, "another").is_none());
    }

    #[test]
    fn both_methods_give_the_same_checksum() {
        let mut one: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let mut other = one.clone();
        Method::OnePass.run(&mut one);
        Method::Split.run(&mut other);
        assert_eq!(one, other);
        assert!(xfskit_crc::verify(&one, FIELD));
    }
}
