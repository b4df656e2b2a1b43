//! An fsync load: threads append to files of their own, and sync after each append. Every fsync
//! writes a journal record with a checksum.

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use xfskit_core::{OpenOptions, Volume};
use xfskit_crc::meter;

use super::counts::Counts;
use super::passes::seconds_per_byte;
use super::recovery::used_bytes;
use crate::Driver;
use crate::driver::Counters;
use crate::driver::null::Null;
use crate::measure::phase::parallel;
use crate::measure::profile::{self, Profile, Scope};
use crate::measure::share::{Metering, TIME_MIN, of_time};
use crate::measure::usage::Usage;
use crate::measure::{Samples, interval_note, short};
use crate::report::{Answer, Cell, Section, Source, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::{Implementation, Job, TestVolume};

/// Assumed bytes of a journal record of an fsync, summed at once.
const RECORD: usize = 4096;

/// Appends and syncs.
pub(super) struct Work {
    pub(super) threads: usize,
    pub(super) appends: u64,
    pub(super) bytes: usize,
}

/// Time and counters of the load.
pub(super) struct LoadOutcome {
    usage: Usage,
    counters: Option<Counters>,
}

fn file(thread: usize) -> Vec<u8> {
    format!("journal{thread}").into_bytes()
}

impl Job for Work {
    type Output = LoadOutcome;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<LoadOutcome> {
        let driver = &*driver;
        let root = driver.root()?;
        (0..self.threads).try_for_each(|thread| driver.create_empty(&root, &file(thread)))?;
        driver.sync()?;
        let content = vec![b'x'; self.bytes];
        let before = driver.counters();
        let measured = parallel(
            self.threads,
            |thread| {
                let file = driver.open(&driver.root()?, &file(thread))?;
                for n in 0..self.appends {
                    driver.write(&file, n * self.bytes as u64, &content)?;
                    driver.fsync(&file)?;
                }
                driver.close(file)
            },
            || Ok(()),
        )?;
        let counters = driver.counters().map(|now| now.since(&before.unwrap_or_default()));
        Ok(LoadOutcome { usage: measured.usage, counters })
    }
}

/// All turns with one driver.
struct Row {
    driver: &'static str,
    storage: String,
    wall: Samples,
    processor: Samples,
    last: LoadOutcome,
}

/// Steps of a turn on each implementation: the load, and the share of checksums.
pub(super) const STEPS: usize = 2;

/// Runs the load and formats its section.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub(super) fn section(
    work: &Work,
    settings: &Settings,
    implementations: &[Implementation],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let mut rows: Vec<Row> = Vec::new();
    let mut shares = MeasuredShares::default();
    let mut recovery: Option<Recovery> = None;
    for turn in 1..=settings.repetitions {
        for &implementation in implementations {
            observer.progress(&format!(
                "appends and fsyncs on {}, turn {turn}",
                implementation.name()
            ))?;
            let mut volume = settings.volume(implementation)?;
            let outcome = volume.run(&mut Work { ..*work })?;
            if implementation == Implementation::Engine {
                let replayed = recover(&mut volume)?;
                recovery = match (recovery, replayed) {
                    (Some(earlier), Some(replayed)) => Some(earlier.join(replayed)),
                    (earlier, replayed) => replayed.or(earlier),
                };
            }
            add(&mut rows, implementation.name(), volume.storage(), outcome);
            volume.unmount()?;
            observer.progress(&format!(
                "share of checksums on {}, turn {turn}",
                implementation.name()
            ))?;
            shares.measure(work, settings, implementation)?;
        }
        let outcome = Work { ..*work }.run(&mut Null)?;
        add(&mut rows, Driver::name(&Null), Null.storage(), outcome);
    }
    let seconds = seconds_per_byte(RECORD);
    for row in &rows {
        observer.result(json!({ "fsync": {
            "driver": row.driver,
            "storage": row.storage,
            "threads": work.threads,
            "fsyncs": work.threads as u64 * work.appends,
            "wall_seconds": row.wall,
            "too_short": short::is_too_short(&row.wall, short::time_min_here(work.threads)),
            "processor_seconds": row.processor,
            "log_bytes": row.last.counters.as_ref().map(|counted| counted.log_bytes),
            "checksum_seconds_per_byte": seconds,
            "checksum_percent": shares.json(row.driver),
        }}))?;
    }
    let mut section = Section::new("Appends with fsync");
    section.paragraph(format!(
        "{} threads each append {} bytes to a file of their own and call fsync, {} times. The share of checksums is \
         measured in turns of its own: xfskit's by timing each checksum of the journal, the kernel's by sampling its \
         functions with perf. Beside it, the share is computed: counted journal bytes, times the cost of a byte in blocks \
         of {RECORD} bytes as measured in this run (one pass, and split as it was before), over the processor time of the \
         process.",
        work.threads,
        work.bytes,
        Cell::Count(work.appends),
    ));
    section.answer = Some(shares.answer());
    section.tables.push(fsyncs(work, &rows));
    let counts = shares.counted.and_then(|(sums, log_bytes)| Counts::of(sums, log_bytes));
    if let Some(counts) = &counts {
        section.paragraph(counts.sentence());
    }
    section.tables.push(shares_table(&rows, &shares, seconds)?);
    section.tables.extend(counts.as_ref().map(Counts::table));
    if let Some(recovery) = &recovery {
        section.tables.push(recovered(recovery, seconds)?);
    }
    Ok(section)
}

fn add(rows: &mut Vec<Row>, driver: &'static str, storage: &str, outcome: LoadOutcome) {
    let (wall, processor) = (outcome.usage.wall, outcome.usage.processor);
    match rows.iter_mut().find(|row| row.driver == driver) {
        Some(row) => {
            row.wall.add_time(wall);
            row.processor.add_time(processor);
            row.last = outcome;
        }
        None => rows.push(Row {
            driver,
            storage: storage.to_owned(),
            wall: [wall.as_secs_f64()].into_iter().collect(),
            processor: [processor.as_secs_f64()].into_iter().collect(),
            last: outcome,
        }),
    }
}

#[allow(clippy::cast_precision_loss)] // of rates
fn fsyncs(work: &Work, rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Fsyncs",
        &[
            ("fsyncs", ""),
            ("wall", "s"),
            ("at least", "s"),
            ("at most", "s"),
            ("rate", "1/s"),
            ("processor", "µs each"),
            ("at least", "µs"),
            ("at most", "µs"),
            ("journal", "bytes each"),
            ("turns", ""),
        ],
    );
    let (all, least) = (work.threads as u64 * work.appends, short::time_min_here(work.threads));
    let mut some_are_short = false;
    for row in rows {
        let is_short = short::is_too_short(&row.wall, least);
        some_are_short |= is_short;
        let log = row.last.counters.as_ref().map(|counted| counted.log_bytes as f64 / all as f64);
        let wall = if is_short { Samples::none() } else { &row.wall };
        let processor = if is_short { Samples::none() } else { &row.processor };
        let each = processor.map(|seconds| seconds * 1e6 / all as f64);
        let rate = wall.map(|seconds| all as f64 / seconds);
        let [long, processor] = [wall, &each].map(Samples::median_interval);
        let cells = vec![
            Cell::Count(all),
            Cell::median(wall, 3),
            Cell::Number(long.low, 3),
            Cell::Number(long.high, 3),
            Cell::median(&rate, 0),
            Cell::median(&each, 2),
            Cell::Number(processor.low, 2),
            Cell::Number(processor.high, 2),
            log.map_or(Cell::None, |bytes| Cell::Number(bytes, 0)),
            Cell::Count(row.wall.count() as u64),
        ];
        table.row(row.driver, row.storage.clone(), cells);
    }
    if some_are_short {
        table.note(short::note("a load", least));
    }
    table.note(interval_note(rows.first().map_or(0, |row| row.wall.count())));
    table
}

/// Returns the checksum time of `bytes` in percent of `all`: in one pass, and split.
///
/// # Errors
/// If it is longer than `all`.
#[allow(clippy::cast_precision_loss)] // of a share
fn computed_share(bytes: u64, seconds: [f64; 2], all: Duration) -> io::Result<Vec<Cell>> {
    let share = |each: f64| {
        let part = Duration::try_from_secs_f64(bytes as f64 * each).map_err(io::Error::other)?;
        let percent = of_time("checksums of the journal, computed", part, all)?;
        Ok(percent.map_or(Cell::None, |percent| Cell::Number(percent, 4)))
    };
    seconds.into_iter().map(share).collect()
}

/// The published share in one pass is below this, in percent.
const PUBLISHED: f64 = 0.1;

/// The measured shares of checksums in processor time, in percent, of all turns.
#[derive(Default)]
struct MeasuredShares {
    /// The checksums of xfskit's journal.
    engine: Samples,
    /// All CRC32c of the kernel.
    kernel: Samples,
    /// Why the kernel has no share.
    kernel_missing: Option<String>,
    /// The checksums of xfskit's journal in the last turn, and the bytes of the journal.
    counted: Option<(meter::Cost, u64)>,
}

impl MeasuredShares {
    /// Runs the load once more on a new volume and measures the share.
    fn measure(
        &mut self,
        work: &Work,
        settings: &Settings,
        implementation: Implementation,
    ) -> io::Result<()> {
        let mut volume = settings.volume(implementation)?;
        if implementation == Implementation::Kernel {
            match of_kernel(work, &mut volume)? {
                Ok(percent) => self.kernel.add(percent),
                Err(why) => self.kernel_missing = Some(why),
            }
            return volume.unmount();
        }
        let metering = Metering::start();
        let outcome = volume.run(&mut Work { ..*work })?;
        let counted = outcome.counters.unwrap_or_default();
        let (time, all) = (metering.time(counted.log_sums)?, outcome.usage.processor);
        self.counted = Some((counted.log_sums, counted.log_bytes));
        drop(metering);
        if let Some(percent) = of_time("checksums of the journal", time, all)? {
            self.engine.add(percent);
        }
        volume.unmount()
    }

    /// Returns the shares of `driver` for JSON.
    fn json(&self, driver: &str) -> serde_json::Value {
        match driver {
            "xfskit" => json!(self.engine),
            "kernel XFS" => json!(self.kernel),
            _ => serde_json::Value::Null,
        }
    }

    /// Returns the answer to the study's question.
    fn answer(&self) -> Answer {
        let question = "What do the journal's checksums cost a load of fsyncs, in one pass?".into();
        let published = "1.11 % split, below 0.1 % in one pass.".into();
        if self.engine.count() == 0 {
            let verdict = short::not_measured("the load");
            return Answer { question, verdict, figure: String::new(), published };
        }
        let share = self.engine.median_interval();
        let range = share.range(|percent| format!("{percent:.3} %"));
        Answer {
            question,
            verdict: share.at_most(PUBLISHED).sentence(
                "At most 0.1 % of the processor's time, as published",
                "More than the published 0.1 % of the processor's time",
                &range,
                share.turns,
            ),
            figure: format!("{:.3} %.", share.middle),
            published,
        }
    }

    fn rows(&self, rows: &[Row], table: &mut Table) {
        for (driver, name, samples) in [
            ("xfskit", "xfskit, the journal's, each one timed", &self.engine),
            ("kernel XFS", "kernel XFS, all CRC32c, sampled by perf", &self.kernel),
        ] {
            let Some(row) = rows.iter().find(|row| row.driver == driver) else { continue };
            let turns = samples.count() as u64;
            let share = samples.median_interval();
            let [low, high] = [share.low, share.high].map(|percent| Cell::Number(percent, 4));
            let cells = vec![Cell::median(samples, 4), low, high, Cell::None, Cell::Count(turns)];
            table.row(name, row.storage.clone(), cells);
        }
        if let Some(why) = &self.kernel_missing {
            table.note(format!("The kernel's share was not measured: {why}."));
        }
    }
}

/// Runs the load on the kernel's volume and returns the share of CRC32c in the samples of this
/// process and the kernel's threads, or why there is none.
fn of_kernel(work: &Work, volume: &mut TestVolume) -> io::Result<Result<f64, String>> {
    let profile = Profile::start(Scope::Machine);
    volume.run(&mut Work { ..*work })?;
    let sampled = match profile.and_then(Profile::stop) {
        Ok(sampled) => profile::of_filesystem(sampled),
        Err(err) => return Ok(Err(err.to_string())),
    };
    let few = || format!("{} samples are too few", profile::count(&sampled));
    Ok(profile::share(&sampled, "crc32c")?.ok_or_else(few))
}

fn shares_table(rows: &[Row], shares: &MeasuredShares, seconds: [f64; 2]) -> io::Result<Table> {
    let mut table = Table::new(
        "Checksums, share of processor time",
        &[
            ("one pass (now)", "%"),
            ("at least", "%"),
            ("at most", "%"),
            ("split (before)", "%"),
            ("turns", ""),
        ],
    );
    shares.rows(rows, &mut table);
    for row in rows {
        let Some(counted) = &row.last.counters else { continue };
        let mut cells = computed_share(counted.log_bytes, seconds, row.last.usage.processor)?;
        // The computed shares have no interval.
        cells.splice(1..1, [Cell::None, Cell::None]);
        cells.push(Cell::None);
        let name = format!("{}, the journal's, computed", row.driver);
        table.push(name, row.storage.clone(), Source::Model, cells);
    }
    let below = Cell::Text("below 0.1".into());
    let published = vec![below, Cell::None, Cell::None, Cell::Number(1.11, 2), Cell::None];
    table.published("MySQL-like fsync load", "kernel XFS of 2016, Power8", published);
    table.note(format!(
        "A turn with less than {} ms of processor time has no share. The kernel's is of the samples of this process, \
         kworkers, xfsaild and loop devices; it includes the checksums of metadata.",
        TIME_MIN.as_millis(),
    ));
    Ok(table)
}

/// Time and size of a journal replay.
struct Recovery {
    storage: String,
    /// Seconds of each turn.
    time: Samples,
    /// Bytes of the journal of the last turn.
    bytes: u64,
}

impl Recovery {
    /// Adds the times of a later turn.
    fn join(mut self, later: Self) -> Self {
        later.time.values().iter().for_each(|seconds| self.time.add(*seconds));
        Self { bytes: later.bytes, ..self }
    }
}

/// Replays the journal in memory while the volume is open, as after a crash.
fn recover(volume: &mut TestVolume) -> io::Result<Option<Recovery>> {
    let storage = volume.storage().to_owned();
    let device = volume.device()?;
    let start = Instant::now();
    let volume = Volume::open(device, &OpenOptions::default()).map_err(io::Error::other)?;
    let time = [start.elapsed().as_secs_f64()].into_iter().collect();
    let Some(replay) = volume.replay() else { return Ok(None) };
    let bytes = used_bytes(replay, u64::from(volume.geo().log_bbs()));
    Ok(Some(Recovery { storage, time, bytes }))
}

#[allow(clippy::cast_precision_loss)] // of megabytes
fn recovered(recovery: &Recovery, seconds: [f64; 2]) -> io::Result<Table> {
    let mut table = Table::new(
        "Recovery of that journal, in memory",
        &[
            ("journal", "MB"),
            ("opened in", "ms"),
            ("at least", "ms"),
            ("at most", "ms"),
            ("turns", ""),
        ],
    );
    let is_short = short::is_too_short(&recovery.time, short::STEP_MIN);
    let opened = if is_short { Samples::none() } else { &recovery.time };
    let opened = opened.map(|seconds| seconds * 1e3);
    let interval = opened.median_interval();
    let cells = vec![
        Cell::Number(recovery.bytes as f64 / 1e6, 2),
        Cell::median(&opened, 2),
        Cell::Number(interval.low, 2),
        Cell::Number(interval.high, 2),
        Cell::Count(recovery.time.count() as u64),
    ];
    table.row("xfskit", recovery.storage.clone(), cells);
    if is_short {
        table.note(short::note("a recovery", short::STEP_MIN));
    }
    table.note(interval_note(recovery.time.count()));
    let time = Duration::try_from_secs_f64(recovery.time.median()).map_err(io::Error::other)?;
    let shares = computed_share(recovery.bytes, seconds, time)?;
    if let [Cell::Number(one, _), Cell::Number(split, _)] = shares[..] {
        table.note(format!(
            "The checksums of these bytes, computed as above, take {one:.4} % of that time in one pass, and {split:.4} % \
             split.",
        ));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recoveries_of_all_turns_are_samples() {
        let of = |seconds: f64, bytes| Recovery {
            storage: "memory".into(),
            time: [seconds].into_iter().collect(),
            bytes,
        };
        let joined = of(0.25, 1).join(of(0.75, 2));
        assert_eq!((joined.time.values(), joined.bytes), (&[0.25, 0.75][..], 2));
        let table = recovered(&joined, [1e-12, 1e-12]).expect("a table");
        assert_eq!(table.rows[0].cells[1].to_string(), "500.00");
        let table = recovered(&of(0.009, 1), [1e-12, 1e-12]).expect("a table");
        assert_eq!(table.rows[0].cells[1].to_string(), "–");
        assert!(table.notes[0].contains("a recovery of less than 10 ms"), "{:?}", table.notes);
    }

    #[test]
    fn a_load_that_is_too_short_has_no_rate() {
        let work = Work { threads: 1, appends: 100, bytes: 512 };
        let shown = |wall: u64| {
            let mut rows = Vec::new();
            let wall = Duration::from_millis(wall);
            let usage = Usage { wall, processor: wall, ..Usage::default() };
            add(&mut rows, "xfskit", "memory", LoadOutcome { usage, counters: None });
            let table = fsyncs(&work, &rows);
            let cells = table.rows[0].cells.iter().map(ToString::to_string).collect::<Vec<_>>();
            (cells, table.notes)
        };
        let (long, notes) = shown(50);
        assert_eq!([&long[1], &long[4], &long[5]], ["0.050", "2,000", "500.00"]);
        assert_eq!(notes.len(), 1, "{notes:?}");
        let (short, notes) = shown(29);
        assert_eq!(short[1..9], ["–"; 8], "{short:?}");
        assert!(notes[0].contains("a load of less than 30 ms"), "{notes:?}");
    }

    #[test]
    fn a_computed_share_above_the_whole_is_an_error() {
        let second = Duration::from_secs(1);
        let cells = computed_share(1_000_000, [1e-9, 4e-9], second).expect("shares");
        assert_eq!(cells, [Cell::Number(0.1, 4), Cell::Number(0.4, 4)]);
        assert!(computed_share(1_000_000_000, [1e-9, 2e-9], second).is_err());
        let short = computed_share(1000, [1e-9, 2e-9], Duration::from_millis(1)).expect("none");
        assert_eq!(short, [Cell::None, Cell::None]);
    }
}
