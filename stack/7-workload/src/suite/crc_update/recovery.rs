//! Recovery of a full journal: the same dirty image, recovered by every implementation.
//!
//! One implementation makes files until the journal is almost as full as it lets it become, and
//! then stops as after a crash. Each turn recovers a new copy of that image with cold caches.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::Replay;
use xfskit_units::{ByteOffset, Lsn};

use crate::Driver;
use crate::driver::engine::Engine;
use crate::image::Image;
use crate::measure::usage::Stopwatch;
use crate::measure::{Decision, Samples, interval_note, short};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::{Implementation, Job, TestVolume};
use crate::{kernel, testbed};

/// The largest journal of the format, in bytes.
pub const LOG_MAX: u64 = 2038 << 20;
/// A smaller journal does not fit every volume, in bytes.
const LOG_MIN: u64 = 16 << 20;
/// Files in a directory, and between two looks at the journal.
const FILES: usize = 2000;
/// Bytes of a copy at once.
const COPY: usize = 1 << 20;
/// The directory must have room for the image and a copy: together this many bytes for each byte of
/// the journal.
const ROOM: u64 = 5;

/// A full journal has at least one of this many parts between tail and head. Both implementations
/// write changes in place before the last quarter is used, and hold more when that begins.
const FULL_MIN: u64 = 8;

/// A recovery that takes less time has no rate.
const LEAST: Duration = short::STEP_MIN;

/// Makes files until the filesystem has written this many bytes to its journal.
struct Fill {
    bytes: u64,
}

impl Job for Fill {
    type Output = u64;

    /// Returns the number of files.
    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<u64> {
        let no_counters = || io::Error::other("the filesystem does not count its journal");
        let written = |driver: &D| driver.counters().map(|counted| counted.log_bytes);
        let before = written(driver).ok_or_else(no_counters)?;
        let (root, mut files) = (driver.root()?, 0);
        for n in 0_u64.. {
            let name = format!("dir{n}");
            driver.make_dir(&root, name.as_bytes())?;
            let dir = driver.open_dir(&root, name.as_bytes())?;
            for file in 0..FILES {
                driver.create_empty(&dir, format!("a file of the journal, {file}").as_bytes())?;
            }
            files += FILES as u64;
            // Without a sync the changes are in memory still, and not counted.
            driver.sync_dir(&root)?;
            if written(driver).ok_or_else(no_counters)? - before >= self.bytes {
                break;
            }
        }
        Ok(files)
    }
}

/// A dirty image: a file if the kernel takes part, memory otherwise.
enum Dirty {
    File(Image),
    Memory(Arc<dyn BlockDevice>),
}

impl Dirty {
    fn device(&self) -> io::Result<Arc<dyn BlockDevice>> {
        match self {
            Self::File(image) => Ok(Arc::new(image.open()?)),
            Self::Memory(device) => Ok(Arc::clone(device)),
        }
    }

    /// Returns a copy without the holes.
    fn copy(&self, settings: &Settings) -> io::Result<Self> {
        let from = self.device()?;
        let copy = match &settings.testbed.dir {
            Some(dir) => Self::File(Image::new(dir, from.size())?),
            None => Self::Memory(Arc::new(MemDevice::new(from.size()))),
        };
        copy_data(&*from, &*copy.device()?)?;
        Ok(copy)
    }
}

/// Copies what is not zero.
fn copy_data(from: &dyn BlockDevice, to: &dyn BlockDevice) -> io::Result<()> {
    let (size, mut buf) = (from.size().0, vec![0; COPY]);
    let mut at = from.skip_hole(ByteOffset(0)).0;
    while at < size {
        let part = usize::try_from(size - at).map_or(COPY, |left| left.min(COPY));
        from.read_at(ByteOffset(at), &mut buf[..part]).map_err(io::Error::other)?;
        if buf[..part].iter().any(|byte| *byte != 0) {
            to.write_at(ByteOffset(at), &buf[..part]).map_err(io::Error::other)?;
        }
        at = from.skip_hole(ByteOffset(at + part as u64)).0;
    }
    to.flush().map_err(io::Error::other)
}

/// All recoveries by one implementation.
struct Row {
    implementation: Implementation,
    wall: Samples,
    /// Processor time of this process; of no meaning for the kernel.
    processor: Samples,
    /// Inodes after the recovery, by this program's checker.
    inodes: u64,
}

/// A journal before it is recovered.
struct Journal {
    size: u64,
    /// Bytes between tail and head.
    used: u64,
    files: u64,
    writer: Implementation,
}

/// Fills a journal of about `log` bytes, recovers it, and formats the section.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite. If the recovered volumes
/// are not clean, or do not hold the same inodes.
pub(super) fn section(
    log: u64,
    settings: &Settings,
    implementations: &[Implementation],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let mut settings = settings.clone();
    settings.verify_space(LOG_MIN * ROOM, "a journal of 16 MiB and its copies")?;
    let log = log.min(largest_log(settings.testbed.dir.as_deref())?);
    settings.testbed.set_log_size(log);
    observer.progress(&format!("a full journal of {} MiB", log >> 20))?;
    let writer = implementations.last().copied().unwrap_or(Implementation::Engine);
    let (dirty, files) = fill(&settings, writer, log)?;
    let mut journal = Journal { size: log, used: 0, files, writer };
    let mut rows: Vec<Row> = implementations
        .iter()
        .map(|&implementation| Row {
            implementation,
            wall: Samples::default(),
            processor: Samples::default(),
            inodes: 0,
        })
        .collect();
    for turn in 0..settings.repetitions {
        for n in 0..rows.len() {
            // Each is first in turn.
            let at = (n + turn) % implementations.len();
            let row = &mut rows[at];
            let name = row.implementation.name();
            observer.progress(&format!("recovery by {name}, turn {}", turn + 1))?;
            journal.used = row.recover(&dirty, &settings)?.unwrap_or(journal.used);
        }
    }
    verify(&rows, &journal)?;
    for row in &rows {
        observer.result(row.to_json(&journal, &settings.testbed.storage()))?;
    }
    Ok(report(&journal, &rows, &settings))
}

/// Returns the size of the largest journal for which `dir` has room.
fn largest_log(dir: Option<&Path>) -> io::Result<u64> {
    let Some(dir) = dir else { return Ok(LOG_MAX) };
    let space = rustix::fs::statvfs(dir)?;
    Ok((space.f_bavail.saturating_mul(space.f_frsize) / ROOM).min(LOG_MAX) >> 20 << 20)
}

/// Makes a volume whose journal is almost as full as `writer` lets it become. Returns its image,
/// and the number of files.
fn fill(settings: &Settings, writer: Implementation, log: u64) -> io::Result<(Dirty, u64)> {
    let mut settings = settings.clone();
    // Changes stay in memory until the journal needs the space, as far as memory allows.
    settings.testbed.open.cache_bytes = settings.testbed.open.cache_bytes.max(as_bytes(log));
    let _interval = match writer {
        Implementation::Engine | Implementation::Mount => None,
        // Every half a minute the kernel would write all changes in place and empty the journal.
        Implementation::Kernel => Some(kernel::LongSyncInterval::new()?),
    };
    let mut volume = settings.volume(writer)?;
    let bytes = match writer {
        // Both begin to write changes in place when a little more of the journal is used. Linux
        // 6.18 began at 55 percent of a journal of 2,038 MiB, and at 77 percent of one of 128 MiB.
        Implementation::Engine | Implementation::Mount => log / 8 * 3,
        Implementation::Kernel => log / 2,
    };
    let files = volume.run(&mut Fill { bytes })?;
    volume.run(&mut Sync)?;
    let dirty = crash(volume, &settings)?;
    Ok((dirty, files))
}

fn as_bytes(log: u64) -> usize {
    usize::try_from(log).unwrap_or(usize::MAX)
}

struct Sync;

impl Job for Sync {
    type Output = ();

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<()> {
        let root = driver.root()?;
        driver.sync_dir(&root)
    }
}

/// Stops the volume as after a crash: nothing that is only in memory reaches the image.
fn crash(mut volume: TestVolume, settings: &Settings) -> io::Result<Dirty> {
    match volume.implementation() {
        Implementation::Engine | Implementation::Mount => {
            // A copy of the open volume is what a crash would leave.
            let open = Dirty::Memory(volume.device()?);
            let copy = open.copy(settings)?;
            drop(volume);
            Ok(copy)
        }
        Implementation::Kernel => {
            let at = volume.mount_point().ok_or_else(|| io::Error::other("not mounted"))?;
            // The journal is complete, and nothing more is written in place.
            let out = Command::new("xfs_io").args(["-x", "-c", "shutdown -f"]).arg(at).output()?;
            if !out.status.success() {
                return Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned()));
            }
            volume.unmount()?;
            volume.into_image().map(Dirty::File).ok_or_else(|| io::Error::other("no image"))
        }
    }
}

impl Row {
    /// Recovers a copy once. Returns the used bytes of the journal, if they are known.
    fn recover(&mut self, dirty: &Dirty, settings: &Settings) -> io::Result<Option<u64>> {
        let copy = dirty.copy(settings)?;
        match kernel::drop_caches() {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {}
            dropped => dropped?,
        }
        let used = match (self.implementation, &copy) {
            (Implementation::Kernel, Dirty::File(image)) => {
                let watch = Stopwatch::start()?;
                let mount = kernel::Mount::new(image.path(), "logbsize=256k")?;
                self.wall.add_time(watch.read()?.wall);
                mount.unmount()?;
                None
            }
            (Implementation::Kernel, Dirty::Memory(_)) => {
                return Err(io::Error::other("the kernel cannot mount memory of a process"));
            }
            (Implementation::Engine | Implementation::Mount, _) => {
                let device = copy.device()?;
                let watch = Stopwatch::start()?;
                let engine = Engine::new(device, settings.testbed.open.clone(), "xfskit", "")?;
                let usage = watch.read()?;
                self.wall.add_time(usage.wall);
                self.processor.add_time(usage.processor);
                let size = u64::from(engine.fs().volume().geo().log_bbs());
                let used = engine.fs().volume().replay().map(|replay| used_bytes(replay, size));
                engine.close()?;
                used
            }
        };
        let checked = testbed::run_check(&*copy.device()?, settings.threads)?;
        if !checked.clean {
            let name = self.implementation.name();
            return Err(io::Error::other(format!(
                "the volume is not clean after recovery by {name}"
            )));
        }
        self.inodes = checked.inodes.unwrap_or(0);
        Ok(used)
    }

    /// Returns the times of the turns; none if they were too short.
    fn long(&self) -> &Samples {
        let is_short = short::is_too_short(&self.wall, LEAST);
        if is_short { Samples::none() } else { &self.wall }
    }

    fn to_json(&self, journal: &Journal, storage: &str) -> serde_json::Value {
        json!({ "recovery": {
            "driver": self.implementation.name(),
            "storage": storage,
            "written_by": journal.writer.name(),
            "journal_bytes": journal.size,
            "used_bytes": journal.used,
            "files": journal.files,
            "inodes": self.inodes,
            "wall_seconds": self.wall,
            "too_short": self.long().count() == 0,
            "processor_seconds": self.processor,
        }})
    }
}

/// Returns the bytes between tail and head. The log is a ring of `size` sectors.
pub(super) fn used_bytes(replay: &Replay, size: u64) -> u64 {
    let blocks = |lsn: Lsn| u64::from(lsn.block().0);
    let size = size.max(1);
    (blocks(replay.head) + size - blocks(replay.tail)) % size * 512
}

/// # Errors
/// If an implementation lost files, or the journal was nearly empty: its recovery shows nothing.
fn verify(rows: &[Row], journal: &Journal) -> io::Result<()> {
    for row in rows {
        let (inodes, first) = (row.inodes, rows[0].inodes);
        if inodes != first || inodes < journal.files {
            let name = row.implementation.name();
            return Err(io::Error::other(format!(
                "after recovery by {name} the volume has {inodes} inodes, {first} by {}, for {} files",
                rows[0].implementation.name(),
                journal.files
            )));
        }
    }
    if journal.used < journal.size / FULL_MIN {
        return Err(io::Error::other(format!(
            "{} left {} MB between tail and head in a journal of {} MB, which is not full: it wrote its changes in place",
            journal.writer.name(),
            Cell::Number(megabytes(journal.used), 1),
            Cell::Number(megabytes(journal.size), 0)
        )));
    }
    Ok(())
}

/// Describes how the times compare.
fn sentence(journal: &Journal, rows: &[Row]) -> String {
    if rows.iter().any(|row| row.long().count() == 0) {
        return short::not_measured("a recovery");
    }
    let of = |implementation| rows.iter().find(|row| row.implementation == implementation);
    let Some(ours) = of(Implementation::Engine) else { return String::new() };
    let used = Cell::Number(megabytes(journal.used), 0);
    let time = Cell::Number(ours.wall.median(), 2);
    let Some(kernel) = of(Implementation::Kernel) else {
        return format!(
            "xfskit recovers a journal with {used} MB between tail and head in {time} s."
        );
    };
    let times = kernel.wall.times(&ours.wall);
    let word = match times.above(1.0) {
        Decision::Shown => "xfskit is faster than the kernel",
        Decision::Refuted => "xfskit is slower than the kernel",
        Decision::Undecided => "The turns vary by more than the difference to the kernel",
        Decision::TooFewTurns => "The turns are too few to decide which is faster",
    };
    format!(
        "{word}: xfskit recovers a journal with {used} MB between tail and head in {time} s, the kernel in {} s ({} times).",
        Cell::Number(kernel.wall.median(), 2),
        times.range(|times| format!("{times:.2}"))
    )
}

/// Returns the answer to how long the recovery takes.
fn answer(journal: &Journal, rows: &[Row]) -> Option<Answer> {
    let rate = |row: &Row| {
        let name = row.implementation.name();
        format!("{name} {} MB/s", Cell::Number(megabytes(journal.used) / row.wall.median(), 0))
    };
    let long = rows.iter().filter(|row| row.long().count() > 0);
    let rates: Vec<String> = long.map(rate).collect();
    (!rows.is_empty()).then(|| Answer {
        question: "How long does the recovery of a full journal take?".into(),
        verdict: sentence(journal, rows),
        figure: rates.first().map_or(String::new(), |_| format!("{}.", rates.join(", "))),
        published: "no figures.".into(),
    })
}

#[allow(clippy::cast_precision_loss)] // of megabytes
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn report(journal: &Journal, rows: &[Row], settings: &Settings) -> Section {
    let mut section = Section::new("Recovery of a full journal");
    section.answer = answer(journal, rows);
    let full = if journal.size == LOG_MAX { ", the largest of the format" } else { "" };
    section.paragraph(format!(
        "The journal has {} MiB{full}. {} made {} files, and stopped as after a crash when the journal was almost as full as \
         it lets it become. Each turn recovers a new copy of that image with cold caches: xfskit by opening it for writing, the kernel \
         by mounting it, with the time of mount(8) and losetup(8). Each recovered volume is then checked, and holds the same \
         number of inodes.",
        journal.size >> 20,
        journal.writer.name(),
        Cell::Count(journal.files),
    ));
    section.tables.push(table(journal, rows, settings));
    section.plots.push(Plot {
        title: format!(
            "Recovery of {} MB of journal: time of each turn",
            Cell::Number(megabytes(journal.used), 0)
        ),
        x: Axis::linear("turn"),
        y: Axis::linear("time, s"),
        lines: rows.iter().map(line).collect(),
    });
    section
}

fn line(row: &Row) -> Line {
    let turns = (1..).map(f64::from).zip(row.long().values().iter().copied());
    Line {
        name: row.implementation.name().into(),
        source: Source::Measured,
        points: turns.collect(),
    }
}

fn table(journal: &Journal, rows: &[Row], settings: &Settings) -> Table {
    let columns = [
        ("journal", "MB"),
        ("recovered in", "s"),
        ("at least", "s"),
        ("at most", "s"),
        ("spread", "± %"),
        ("rate", "MB/s"),
        ("times as fast as the last", ""),
        ("at least", ""),
        ("at most", ""),
        ("processor", "s"),
        ("inodes", ""),
        ("turns", ""),
    ];
    let mut table = Table::new("Recovery of the same image", &columns);
    let last = rows.last().map(Row::long);
    for row in rows {
        let times = row.long();
        let ratio = last.map(|last| last.ratio_to(times)).filter(|_| rows.len() > 1);
        let [ratio, low, high] = ratio.map_or([f64::NAN; 3], |it| [it.ratio, it.low, it.high]);
        let wall = times.median_interval();
        let cells = vec![
            Cell::Number(megabytes(journal.used), 1),
            Cell::median(times, 3),
            Cell::Number(wall.low, 3),
            Cell::Number(wall.high, 3),
            Cell::Number(times.spread() * 100.0, 1),
            Cell::Number(megabytes(journal.used) / times.median(), 0),
            Cell::Number(ratio, 2),
            Cell::Number(low, 2),
            Cell::Number(high, 2),
            Cell::Number(row.processor.median(), 3),
            Cell::Count(row.inodes),
            Cell::Count(row.wall.count() as u64),
        ];
        table.row(row.implementation.name(), settings.testbed.storage(), cells);
    }
    if rows.iter().any(|row| row.long().count() == 0) {
        table.note(short::note("a recovery", LEAST));
    }
    table.note(interval_note(settings.repetitions));
    table
}

#[cfg(test)]
mod tests;
