//! A load that is all fsync: threads append to files of their own and sync after each piece. Every fsync is a journal
//! record with a checksum.

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
use crate::side::{Job, Side, Who};
use crate::suite::{Audience, Settings};

/// Bytes that are summed at once, where nothing else is known: a journal record of an fsync.
const RECORD: usize = 4096;

/// Appends and syncs.
pub(super) struct Work {
    pub(super) threads: usize,
    pub(super) appends: u64,
    pub(super) bytes: usize,
}

/// What that took.
pub(super) struct Took {
    usage: Usage,
    counters: Option<Counters>,
}

fn file(thread: usize) -> Vec<u8> {
    format!("journal{thread}").into_bytes()
}

impl Job for Work {
    type Answer = Took;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Took> {
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
        Ok(Took { usage: measured.usage, counters })
    }
}

/// All turns on one side.
struct Row {
    who: &'static str,
    on: String,
    wall: Samples,
    processor: Samples,
    last: Took,
}

/// The section.
///
/// # Errors
/// Those of the volumes, and where the audience wants to stop.
pub(super) fn section(
    work: &Work,
    settings: &Settings,
    sides: &[Who],
    audience: &mut dyn Audience,
) -> io::Result<Section> {
    let mut rows: Vec<Row> = Vec::new();
    let mut recovery = None;
    for turn in 1..=settings.repetitions {
        for &who in sides {
            audience.note(&format!("appends and fsyncs on {}, turn {turn}", who.name()))?;
            let mut side = settings.side(who)?;
            let took = side.run(&mut Work { ..*work })?;
            if who == Who::Engine {
                recovery = recover(&mut side)?;
            }
            add(&mut rows, who.name(), side.on(), took);
        }
        let took = Work { ..*work }.run(&mut Null)?;
        add(&mut rows, Driver::name(&Null), Null.on(), took);
    }
    let seconds = seconds_per_byte(RECORD);
    for row in &rows {
        audience.result(json!({ "fsync": {
            "driver": row.who,
            "on": row.on,
            "threads": work.threads,
            "fsyncs": work.threads as u64 * work.appends,
            "wall_seconds": row.wall,
            "processor_seconds": row.processor,
            "log_bytes": row.last.counters.as_ref().map(|counted| counted.log_bytes),
            "checksum_seconds_per_byte": seconds,
        }}))?;
    }
    let mut section = Section::new("Appends, each synced");
    section.say(format!(
        "{} threads, each appending {} bytes and calling fsync, {} times, to a file of its own. The share of checksums is \
         computed: bytes of the journal as counted, times what a byte costs in blocks of {RECORD} bytes as measured in this \
         run (one pass, and split as it was before), over the processor time of the process.",
        work.threads,
        work.bytes,
        Cell::Count(work.appends),
    ));
    section.tables.push(fsyncs(work, &rows));
    section.tables.push(shares(&rows, seconds));
    section.tables.extend(recovery.map(|recovery| recovered(&recovery, seconds)));
    Ok(section)
}

fn add(rows: &mut Vec<Row>, who: &'static str, on: &str, took: Took) {
    let (wall, processor) = (took.usage.wall, took.usage.processor);
    match rows.iter_mut().find(|row| row.who == who) {
        Some(row) => {
            row.wall.add_time(wall);
            row.processor.add_time(processor);
            row.last = took;
        }
        None => rows.push(Row {
            who,
            on: on.to_owned(),
            wall: [wall.as_secs_f64()].into_iter().collect(),
            processor: [processor.as_secs_f64()].into_iter().collect(),
            last: took,
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
        table.row(row.who, row.on.clone(), cells);
    }
    table
}

/// Percent of `all` that checksums of `bytes` take in one pass, and split.
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
        table.push(row.who, row.on.clone(), Source::Model, cells);
    }
    let published = vec![Cell::Text("below 0.1".into()), Cell::Number(1.11, 2)];
    table.published("MySQL-like fsync load", "kernel XFS of 2016, Power8", published);
    table
}

/// What replaying the journal took.
struct Recovery {
    on: String,
    time: Duration,
    bytes: u64,
}

/// Replays the journal as it stands while the volume is open, in memory: as after a crash.
fn recover(side: &mut Side) -> io::Result<Option<Recovery>> {
    let on = side.on().to_owned();
    let device = side.device()?;
    let start = Instant::now();
    let volume = Volume::open(device, &OpenOptions::default()).map_err(io::Error::other)?;
    let time = start.elapsed();
    let Some(replay) = volume.replay() else { return Ok(None) };
    // A ring: the head may have gone round.
    let blocks = |lsn: Lsn| u64::from(lsn.block().0);
    let size = u64::from(volume.geo().log_bbs()).max(1);
    let bytes = (blocks(replay.head) + size - blocks(replay.tail)) % size * 512;
    Ok(Some(Recovery { on, time, bytes }))
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
    table.row("xfskit", recovery.on.clone(), cells);
    let shares = share(recovery.bytes, seconds, recovery.time);
    let words: Vec<String> = shares.iter().map(ToString::to_string).collect();
    table.note(format!(
        "Checksums of these bytes, computed as above: {} % of that time in one pass, {} % split.",
        words[0], words[1]
    ));
    table
}
