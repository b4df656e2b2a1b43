//! The share of processor time in checksums, and where the rest goes.

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xfskit_crc::meter::Cost;

use super::{STEPS, published};
use crate::Driver;
use crate::driver::Counters;
use crate::measure::profile::{Profile, Sampled, Scope};
use crate::measure::share::{Metering, TIME_MIN, of_time, percent_of};
use crate::measure::{Samples, profile};
use crate::report::{Answer, Axis, Cell, Line, Plot, Source, Table};
use crate::suite::inodes::shape::Plan;
use crate::suite::inodes::step::{self, Step};
use crate::testbed::{Implementation, Job, TestVolume};

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

/// Returns the answer to which share of the processor checksums have, with the best routine and by
/// table.
pub(super) fn answer(shares: &[Share]) -> Option<Answer> {
    let best = shares.first()?.routine;
    let range = |is_best: bool| {
        let of = shares.iter().filter(|share| (share.routine == best) == is_best);
        let percent: Samples = of.filter_map(|share| share.percent).collect();
        (percent.count() > 0).then(|| format!("{:.1} to {:.1} %", percent.min(), percent.max()))
    };
    let published: Vec<String> =
        published::SHARES.iter().map(|(step, percent)| format!("{step} {percent} %")).collect();
    let figure = range(true);
    let by_table = range(false)
        .map_or(String::new(), |range| format!(", and {range} by the portable routine"));
    Some(Answer {
        question: "Which part of the processor's time do checksums take?".into(),
        verdict: match &figure {
            Some(range) => format!("{range} by {best}{by_table}."),
            None => "Not measured: the steps were too short.".into(),
        },
        figure: figure.map_or(String::new(), |range| format!("{range}.")),
        published: format!("{}.", published.join(", ")),
    })
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

/// Functions in the tables of profiles.
const FUNCTIONS: usize = 10;
/// Locks, and functions of locks, in the tables of profiles.
const LOCKS: usize = 5;
/// Parts of the names of functions that take or wait for locks, in the kernel and in this program.
const LOCK_WORDS: [&str; 8] =
    ["spin_lock", "spin_trylock", "rwsem", "mutex", "osq_lock", "futex", "lock_slow", "lockref"];

/// Runs a step. Returns its most contended locks by the engine's counters and, if perf is
/// available, its most expensive functions and those of locks.
pub(super) fn profiles(volume: &mut TestVolume, step: Step, plan: &Plan) -> io::Result<Vec<Table>> {
    let (name, storage) = (volume.name().to_owned(), volume.storage().to_owned());
    let title = format!("{}, {name}", step.name());
    let is_kernel = volume.implementation() == Implementation::Kernel;
    // The kernel works in threads of its own, too.
    let profile = Profile::start(if is_kernel { Scope::Machine } else { Scope::Process });
    let done = step::run(volume, step, plan);
    let sampled = profile.and_then(Profile::stop);
    let counters = done?.and_then(|done| done.counters).unwrap_or_default();
    let mut tables = Vec::new();
    if !counters.locks.is_empty() {
        tables.push(locks(&title, &storage, &counters));
    }
    match sampled {
        Ok(sampled) => {
            let sampled = if is_kernel { profile::of_filesystem(sampled) } else { sampled };
            tables.extend(sampled_tables(&title, &storage, &sampled)?);
        }
        Err(err) => {
            let mut table = Table::new(format!("{title}: functions"), &[("samples", "")]);
            table.note(format!("No profile by function: {err}"));
            tables.push(table);
        }
    }
    Ok(tables)
}

/// Formats the most contended locks.
fn locks(title: &str, storage: &str, counters: &Counters) -> Table {
    let columns = [("taken", ""), ("waits", ""), ("waited", "ms")];
    let mut table = Table::new(format!("{title}: hottest locks"), &columns);
    let mut hottest: Vec<_> = counters.locks.iter().filter(|lock| lock.taken > 0).collect();
    hottest.sort_by_key(|lock| std::cmp::Reverse((lock.wait, lock.taken)));
    for lock in hottest.into_iter().take(LOCKS) {
        let waited = Cell::Number(lock.wait.as_secs_f64() * 1e3, 2);
        let cells = vec![Cell::Count(lock.taken), Cell::Count(lock.waits), waited];
        table.row(&lock.name, storage, cells);
    }
    table.note("By the engine's own counters.");
    table
}

/// Formats the functions with the most samples, and those of locks.
#[allow(clippy::cast_precision_loss)] // of a share
fn sampled_tables(title: &str, storage: &str, sampled: &[Sampled]) -> io::Result<Vec<Table>> {
    let all = profile::count(sampled);
    let functions = profile::by_function(sampled);
    let is_lock = |name: &str| LOCK_WORDS.iter().any(|word| name.contains(word));
    let of = |what: &str, functions: &[(String, u64)]| {
        let columns = [("samples", ""), ("share", "%")];
        let mut table = Table::new(format!("{title}: {what}, from perf"), &columns);
        for (name, samples) in functions {
            let share = percent_of(name, *samples as f64, all as f64)?;
            let cells = vec![Cell::Count(*samples), Cell::Number(share, 2)];
            table.row(name, storage, cells);
        }
        table.note(format!("{} samples in all.", Cell::Count(all)));
        Ok::<_, io::Error>(table)
    };
    if all < profile::SAMPLES_MIN {
        let mut table = of("processor time by function", &[])?;
        table.note(format!("Fewer than {} give no shares.", profile::SAMPLES_MIN));
        return Ok(vec![table]);
    }
    let most: Vec<_> = functions.iter().take(FUNCTIONS).cloned().collect();
    let locks: Vec<_> =
        functions.iter().filter(|(name, _)| is_lock(name)).take(LOCKS).cloned().collect();
    let chains: Vec<_> = profile::by_chain(sampled).into_iter().take(FUNCTIONS).collect();
    let mut calls = of("call graph", &chains)?;
    calls.note(
        "Each function with its nearest callers; functions that the compiler has inlined are a part of theirs. Of the kernel's \
         XFS, whose samples are of the whole machine, only callers in the kernel are known.",
    );
    let mut first = of("processor time by function", &most)?;
    first.note(
        "Of this process, with the kernel's time for its calls and for dropping caches; for the kernel's XFS also of kworkers, \
         xfsaild and loop devices.",
    );
    Ok(vec![first, calls, of("functions of locks", &locks)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_locks_have_a_table_and_few_samples_have_no_shares() {
        let one = |function: &str, samples| Sampled {
            samples,
            threads: "xfskit".into(),
            function: function.into(),
            callers: vec!["main".into()],
        };
        let sampled = [one("memcpy", 150), one("_raw_spin_lock", 40), one("rwsem_down_read", 10)];
        let [functions, calls, locks] =
            &sampled_tables("create", "memory", &sampled).expect("shares")[..]
        else {
            panic!("three tables")
        };
        assert_eq!(calls.rows[0].name, "memcpy ← main");
        assert_eq!(functions.rows[0].cells, [Cell::Count(150), Cell::Number(75.0, 2)]);
        let names: Vec<&str> = locks.rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["_raw_spin_lock", "rwsem_down_read"]);
        let few = sampled_tables("create", "memory", &sampled[..1]).expect("no shares");
        assert!(few.len() == 1 && few[0].rows.is_empty() && few[0].notes.len() == 2);
    }

    #[test]
    fn a_share_above_the_whole_fails_and_a_step_that_is_too_short_has_none() {
        let ms = Duration::from_millis;
        let share = |time, all| Share::new(Step::Create, "table", Cost::default(), time, all);
        let whole = share(ms(30), ms(200)).expect("a share");
        assert_eq!(whole.percent, Some(15.0));
        let shares = [whole, share(ms(20), ms(200)).expect("a share")];
        let answered = answer(&shares).expect("an answer");
        assert_eq!(answered.verdict, "10.0 to 15.0 % by table.");
        assert_eq!(answered.published, "create 1.65 %, walk 2.93 %.");
        let short = share(ms(5), ms(50)).expect("no share");
        let none = answer(std::slice::from_ref(&short)).expect("an answer");
        assert!(none.verdict.starts_with("Not measured") && none.figure.is_empty());
        assert_eq!(
            (short.percent, short.to_json()["checksum_share"]["percent"].clone()),
            (None, Value::Null)
        );
        assert_eq!(table(&[short], "memory").rows[0].cells[5], Cell::None);
        let error = share(ms(226), ms(200)).err().expect("an error").to_string();
        assert!(error.contains("create, table: 113.0 %"), "{error}");
    }
}
