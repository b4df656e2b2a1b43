//! The share of processor time in checksums, and where the rest goes.

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xfskit_crc::meter::Cost;

use super::{STEPS, published};
use crate::Driver;
use crate::measure::share::{Metering, TIME_MIN, of_time, percent_of};
use crate::measure::{Samples, profile};
use crate::report::{Axis, Cell, Line, Plot, Source, Table};
use crate::suite::inodes::shape::Plan;
use crate::suite::inodes::step::{self, Step};
use crate::testbed::{Job, TestVolume};

/// The checksums of one step.
pub(super) struct Share {
    step: Step,
    routine: &'static str,
    sums: Cost,
    /// Processor time in checksums, of all threads.
    time: Duration,
    /// Processor time of the step.
    processor: Duration,
    /// `time` in percent of `processor`; `None` if the step was too short.
    percent: Option<f64>,
}

impl Share {
    /// # Errors
    /// If the checksums took more time than the step.
    fn new(
        step: Step,
        routine: &'static str,
        sums: Cost,
        time: Duration,
        processor: Duration,
    ) -> io::Result<Self> {
        let percent =
            of_time(&format!("checksums of {}, {routine}", step.name()), time, processor)?;
        Ok(Self { step, routine, sums, time, processor, percent })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "checksum_share": {
            "step": self.step,
            "routine": self.routine,
            "sums": self.sums.sums,
            "bytes": self.sums.bytes,
            "interrupted_sums": self.sums.interrupted_sums,
            "seconds": self.time.as_secs_f64(),
            "processor_seconds": self.processor.as_secs_f64(),
            "percent": self.percent,
        }})
    }
}

/// Writes all dirty data, so that its checksums are not charged to the step.
struct WriteBack;

impl Job for WriteBack {
    type Output = ();

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<()> {
        match driver.drop_caches() {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            dropped => dropped,
        }
    }
}

/// Runs a step and times its checksums. Checksums and processor time are of the same interval.
pub(super) fn of_step(volume: &mut TestVolume, step: Step, plan: &Plan) -> io::Result<Share> {
    volume.run(&mut WriteBack)?;
    let metering = Metering::start();
    let done = step::run(volume, step, plan)?;
    let done = done.ok_or_else(|| io::Error::other("the engine cannot do this step"))?;
    let time = metering.time(done.sums)?;
    Share::new(step, xfskit_crc::selected(), done.sums, time, done.usage.processor)
}

#[allow(clippy::cast_precision_loss)] // of megabytes
pub(super) fn table(shares: &[Share], storage: &str) -> Table {
    let mut table = Table::new(
        "Share of the processor in checksums",
        &[
            ("sums", ""),
            ("interrupted", ""),
            ("summed", "MB"),
            ("in sums", "ms"),
            ("processor", "ms"),
            ("share", "%"),
        ],
    );
    for share in shares {
        let cells = vec![
            Cell::Count(share.sums.sums),
            Cell::Count(share.sums.interrupted_sums),
            Cell::Number(share.sums.bytes as f64 / 1e6, 1),
            Cell::Number(share.time.as_secs_f64() * 1e3, 2),
            Cell::Number(share.processor.as_secs_f64() * 1e3, 1),
            share.percent.map_or(Cell::None, |percent| Cell::Number(percent, 2)),
        ];
        table.row(format!("{}, {}", share.step.name(), share.routine), storage, cells);
    }
    for (step, percent) in published::SHARES {
        let mut cells = vec![Cell::None; 5];
        cells.push(Cell::Number(percent, 2));
        table.push(step, published::ON, Source::Published, cells);
    }
    table.note(format!(
        "Interrupted are checksums whose thread lost its processor meanwhile. They are recognised by their length; their \
         time is not counted, and that of the others is scaled to all bytes. A step with less than {} ms of processor time \
         has no share.",
        TIME_MIN.as_millis(),
    ));
    table
}

/// Plots the shares.
pub(super) fn plot(shares: &[Share]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    let steps = || STEPS.iter().zip((1..).map(f64::from));
    for share in shares {
        let Some((_, x)) = steps().find(|(step, _)| **step == share.step) else { continue };
        let Some(percent) = share.percent else { continue };
        let point = (x, percent);
        match lines.iter_mut().find(|line| line.name == share.routine) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: share.routine.into(),
                source: Source::Measured,
                points: vec![point],
            }),
        }
    }
    let published = steps().zip(published::SHARES).map(|((_, x), (_, percent))| (x, percent));
    lines.push(Line {
        name: "software, 2013".into(),
        source: Source::Published,
        points: published.collect(),
    });
    Plot {
        title: "fs_mark: share of the processor in checksums, by step".into(),
        x: Axis::named("step", STEPS.iter().map(|step| step.name().to_owned()).collect()),
        y: Axis::linear("share, %"),
        lines,
    }
}

/// Repeats the self-test of the kernel at boot: sums the same number of bytes in pieces of a few
/// kilobytes.
#[allow(clippy::cast_precision_loss)] // of a rate
pub(super) fn self_test() -> Table {
    /// Length of the pieces.
    const PIECE: u64 = 4096;
    let (bytes, published) = published::SELF_TEST;
    let data: Vec<u8> = (0_u8..=250).cycle().take(4096).collect();
    let mut table =
        Table::new("crc32c: self-test", &[("summed", "bytes"), ("in", "µs"), ("rate", "GB/s")]);
    let mut add = |name: &str, storage: &str, source, micros: f64| {
        let rate = bytes as f64 / micros / 1e3;
        let cells = vec![Cell::Count(bytes), Cell::Number(micros, 1), Cell::Number(rate, 2)];
        table.push(name, storage, source, cells);
    };
    let chosen = xfskit_crc::selected();
    for routine in xfskit_crc::measure() {
        xfskit_crc::select(routine.name);
        let turn = |_| {
            let (start, mut left) = (Instant::now(), bytes);
            while left > 0 {
                let piece = usize::try_from(left.min(PIECE)).unwrap_or(0);
                std::hint::black_box(xfskit_crc::crc32c(&data[..piece]));
                left -= piece as u64;
            }
            start.elapsed().as_secs_f64() * 1e6
        };
        let micros: Samples = (0..20).map(turn).collect();
        let word = if routine.passed { "passed" } else { "failed" };
        add(
            &format!("{}: {word}", routine.name),
            "the processor's cache",
            Source::Measured,
            micros.median(),
        );
    }
    xfskit_crc::select(chosen);
    add("software, at boot", published::ON, Source::Published, published);
    table
}

/// Runs a step. Returns its most contended locks and, if perf is available, its most expensive
/// functions.
#[allow(clippy::cast_precision_loss)] // of a share
pub(super) fn profiles(volume: &mut TestVolume, step: Step, plan: &Plan) -> io::Result<Vec<Table>> {
    let storage = volume.storage().to_owned();
    let profile = profile::Profile::start(profile::Scope::Process);
    let done = step::run(volume, step, plan);
    let hot = profile.and_then(profile::Profile::stop);
    let done = done?;
    let mut locks = Table::new(
        format!("{}: hottest locks", step.name()),
        &[("taken", ""), ("waits", ""), ("waited", "ms")],
    );
    let counters = done.and_then(|done| done.counters).unwrap_or_default();
    let mut hottest: Vec<_> = counters.locks.iter().filter(|lock| lock.taken > 0).collect();
    hottest.sort_by_key(|lock| std::cmp::Reverse((lock.wait, lock.taken)));
    for lock in hottest.into_iter().take(5) {
        let waited = Cell::Number(lock.wait.as_secs_f64() * 1e3, 2);
        locks.row(
            &lock.name,
            &storage,
            vec![Cell::Count(lock.taken), Cell::Count(lock.waits), waited],
        );
    }
    let mut tables = vec![locks];
    match hot {
        Ok(hot) => {
            let all = profile::count(&hot);
            let mut table = Table::new(
                format!("{}: processor time by function, from perf", step.name()),
                &[("samples", ""), ("share", "%")],
            );
            for (name, samples) in profile::by_function(&hot).into_iter().take(10) {
                let share = percent_of(name, samples as f64, all as f64)?;
                table.row(name, &storage, vec![Cell::Count(samples), Cell::Number(share, 2)]);
            }
            table.note(format!(
                "{} samples of this process. They include the kernel and the dropping of caches.",
                Cell::Count(all)
            ));
            tables.push(table);
        }
        Err(err) => tables[0].note(format!("No profile by function: {err}")),
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_above_the_whole_fails_and_a_step_that_is_too_short_has_none() {
        let ms = Duration::from_millis;
        let share = |time, all| Share::new(Step::Create, "table", Cost::default(), time, all);
        let whole = share(ms(30), ms(200)).expect("a share");
        assert_eq!(whole.percent, Some(15.0));
        let short = share(ms(5), ms(50)).expect("no share");
        assert_eq!(
            (short.percent, short.to_json()["checksum_share"]["percent"].clone()),
            (None, Value::Null)
        );
        assert_eq!(table(&[short], "memory").rows[0].cells[5], Cell::None);
        let error = share(ms(226), ms(200)).err().expect("an error").to_string();
        assert!(error.contains("create, table: 113.0 %"), "{error}");
    }
}
