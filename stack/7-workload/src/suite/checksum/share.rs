//! The share of processor time in checksums, and where the rest goes.

use std::io;
use std::time::Instant;

use serde_json::{Value, json};
use xfskit_crc::meter;

use super::{STEPS, published};
use crate::Driver;
use crate::measure::{Samples, profile};
use crate::report::{Axis, Cell, Line, Plot, Source, Table};
use crate::suite::inodes::shape::Plan;
use crate::suite::inodes::step::{self, Step};
use crate::testbed::{Job, TestVolume};

/// The checksums of one step.
pub(super) struct Share {
    step: Step,
    routine: &'static str,
    sums: u64,
    bytes: u64,
    /// Seconds in checksums, of all threads.
    seconds: f64,
    /// Processor time of the step.
    processor: f64,
}

impl Share {
    fn percent(&self) -> f64 {
        self.seconds * 100.0 / self.processor
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "checksum_share": {
            "step": self.step,
            "routine": self.routine,
            "sums": self.sums,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "processor_seconds": self.processor,
            "percent": self.percent(),
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

/// Runs a step and times its checksums.
#[allow(clippy::cast_precision_loss)] // of a share
pub(super) fn of_step(volume: &mut TestVolume, step: Step, plan: &Plan) -> io::Result<Share> {
    volume.run(&mut WriteBack)?;
    let (start, first, before) = (Instant::now(), meter::now(), meter::cost());
    meter::turn_on(true);
    let done = step::run(volume, step, plan);
    meter::turn_on(false);
    let (cycles, seconds) = (meter::now().saturating_sub(first), start.elapsed().as_secs_f64());
    let after = meter::cost();
    let done = done?.ok_or_else(|| io::Error::other("the engine cannot do this step"))?;
    Ok(Share {
        step,
        routine: xfskit_crc::selected(),
        sums: after.sums - before.sums,
        bytes: after.bytes - before.bytes,
        seconds: (after.cycles - before.cycles) as f64 * seconds / cycles.max(1) as f64,
        processor: done.usage.processor.as_secs_f64(),
    })
}

#[allow(clippy::cast_precision_loss)] // of megabytes
pub(super) fn table(shares: &[Share], storage: &str) -> Table {
    let mut table = Table::new(
        "Share of the processor in checksums",
        &[("sums", ""), ("summed", "MB"), ("in sums", "ms"), ("processor", "ms"), ("share", "%")],
    );
    for share in shares {
        let cells = vec![
            Cell::Count(share.sums),
            Cell::Number(share.bytes as f64 / 1e6, 1),
            Cell::Number(share.seconds * 1e3, 2),
            Cell::Number(share.processor * 1e3, 1),
            Cell::Number(share.percent(), 2),
        ];
        table.row(format!("{}, {}", share.step.name(), share.routine), storage, cells);
    }
    for (step, percent) in published::SHARES {
        let mut cells = vec![Cell::None; 4];
        cells.push(Cell::Number(percent, 2));
        table.push(step, published::ON, Source::Published, cells);
    }
    table.note(
        "The time of a preempted checksum includes the wait, so shares are too high on a busy machine.",
    );
    table
}

/// Plots the shares.
pub(super) fn plot(shares: &[Share]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    let steps = || STEPS.iter().zip((1..).map(f64::from));
    for share in shares {
        let Some((_, x)) = steps().find(|(step, _)| **step == share.step) else { continue };
        let point = (x, share.percent());
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
        title: "Share of the processor in checksums".into(),
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
    let profile = profile::Profile::start();
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
            let mut table = Table::new(
                format!("{}: processor time by function, from perf", step.name()),
                &[("share", "%")],
            );
            for (name, percent) in hot.into_iter().take(10) {
                table.row(name, &storage, vec![Cell::Number(percent, 2)]);
            }
            table.note(
                "Samples of this process. They include the kernel and the dropping of caches.",
            );
            tables.push(table);
        }
        Err(err) => tables[0].note(format!("No profile by function: {err}")),
    }
    Ok(tables)
}
