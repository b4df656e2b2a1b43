//! An fsync load: threads append to files of their own, and sync after each append. Every fsync
//! writes a journal record with a checksum.

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use xfskit_core::{OpenOptions, Volume};
use xfskit_units::Lsn;

use super::passes::seconds_per_byte;
use crate::Driver;
use crate::driver::Counters;
use crate::driver::null::Null;
use crate::measure::Samples;
use crate::measure::phase::parallel;
use crate::measure::usage::Usage;
use crate::report::{Cell, Section, Source, Table};
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
    let mut recovery = None;
    for turn in 1..=settings.repetitions {
        for &implementation in implementations {
            observer.progress(&format!(
                "appends and fsyncs on {}, turn {turn}",
                implementation.name()
            ))?;
            let mut volume = settings.volume(implementation)?;
            let outcome = volume.run(&mut Work { ..*work })?;
            if implementation == Implementation::Engine {
                recovery = recover(&mut volume)?;
            }
            add(&mut rows, implementation.name(), volume.storage(), outcome);
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
            "processor_seconds": row.processor,
            "log_bytes": row.last.counters.as_ref().map(|counted| counted.log_bytes),
            "checksum_seconds_per_byte": seconds,
        }}))?;
    }
    let mut section = Section::new("Appends with fsync");
    section.paragraph(format!(
        "{} threads each append {} bytes to a file of their own and call fsync, {} times. The share of checksums is \
         computed: counted journal bytes, times the cost of a byte in blocks of {RECORD} bytes as measured in this run \
         (one pass, and split as it was before), over the processor time of the process.",
        work.threads,
        work.bytes,
        Cell::Count(work.appends),
    ));
    section.tables.push(fsyncs(work, &rows));
    section.tables.push(shares(&rows, seconds));
    section.tables.extend(recovery.map(|recovery| recovered(&recovery, seconds)));
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
            ("spread", "± %"),
            ("rate", "1/s"),
            ("processor", "µs each"),
            ("journal", "bytes each"),
            ("turns", ""),
        ],
    );
    let all = work.threads as u64 * work.appends;
    for row in rows {
        let log = row.last.counters.as_ref().map(|counted| counted.log_bytes as f64 / all as f64);
        let cells = vec![
            Cell::Count(all),
            Cell::Number(row.wall.median(), 3),
            Cell::Number(row.wall.spread() * 100.0, 1),
            Cell::Number(all as f64 / row.wall.median(), 0),
            Cell::Number(row.processor.median() * 1e6 / all as f64, 2),
            log.map_or(Cell::None, |bytes| Cell::Number(bytes, 0)),
            Cell::Count(row.wall.count() as u64),
        ];
        table.row(row.driver, row.storage.clone(), cells);
    }
    table
}

/// Returns the checksum time of `bytes` in percent of `all`: in one pass, and split.
#[allow(clippy::cast_precision_loss)] // of a share
fn share(bytes: u64, seconds: [f64; 2], all: Duration) -> Vec<Cell> {
    let share = |each: f64| Cell::Number(bytes as f64 * each * 100.0 / all.as_secs_f64(), 4);
    seconds.map(share).to_vec()
}

fn shares(rows: &[Row], seconds: [f64; 2]) -> Table {
    let mut table = Table::new(
        "Journal checksums, share of processor time",
        &[("one pass (now)", "%"), ("split (before)", "%")],
    );
    for row in rows {
        let Some(counted) = &row.last.counters else { continue };
        let cells = share(counted.log_bytes, seconds, row.last.usage.processor);
        table.push(row.driver, row.storage.clone(), Source::Model, cells);
    }
    let published = vec![Cell::Text("below 0.1".into()), Cell::Number(1.11, 2)];
    table.published("MySQL-like fsync load", "kernel XFS of 2016, Power8", published);
    table
}

/// Time and size of a journal replay.
struct Recovery {
    storage: String,
    time: Duration,
    bytes: u64,
}

/// Replays the journal in memory while the volume is open, as after a crash.
fn recover(volume: &mut TestVolume) -> io::Result<Option<Recovery>> {
    let storage = volume.storage().to_owned();
    let device = volume.device()?;
    let start = Instant::now();
    let volume = Volume::open(device, &OpenOptions::default()).map_err(io::Error::other)?;
    let time = start.elapsed();
    let Some(replay) = volume.replay() else { return Ok(None) };
    // The log is a ring: the head may have wrapped around.
    let blocks = |lsn: Lsn| u64::from(lsn.block().0);
    let size = u64::from(volume.geo().log_bbs()).max(1);
    let bytes = (blocks(replay.head) + size - blocks(replay.tail)) % size * 512;
    Ok(Some(Recovery { storage, time, bytes }))
}

#[allow(clippy::cast_precision_loss)] // of megabytes
fn recovered(recovery: &Recovery, seconds: [f64; 2]) -> Table {
    let mut table = Table::new(
        "Recovery of that journal, in memory",
        &[("journal", "MB"), ("opened in", "ms")],
    );
    let cells = vec![
        Cell::Number(recovery.bytes as f64 / 1e6, 2),
        Cell::Number(recovery.time.as_secs_f64() * 1e3, 2),
    ];
    table.row("xfskit", recovery.storage.clone(), cells);
    let shares = share(recovery.bytes, seconds, recovery.time);
    let words: Vec<String> = shares.iter().map(ToString::to_string).collect();
    table.note(format!(
        "The checksums of these bytes, computed as above, take {} % of that time in one pass, and {} % split.",
        words[0], words[1]
    ));
    table
}
