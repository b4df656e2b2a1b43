//! What is shown of the study.

use super::published;
use super::shape::Plan;
use super::step::{Done, Step};
use super::{Row, Shape};
use crate::driver::Lock;
use crate::measure::usage::Usage;
use crate::report::{Axis, Cell, Line, Plot, Section, Source, Table};

/// Locks that are shown.
const HOTTEST: usize = 10;

/// The section on one tree.
pub(super) fn section(plan: &Plan, rows: &[Row]) -> Section {
    let mut section = Section::new(format!("Concurrent inodes: {}", plan.shape.describe()));
    section.say(format!(
        "{} threads, {} iterations of {} files of {} bytes each. Caches are dropped before each step (cold), sides take \
         turns within it; the final sync is in the time of create and rm. Files/sec of fs_mark counts time in calls \
         only, so look at the wall time too.",
        plan.threads,
        plan.loops,
        Cell::Count(plan.files),
        Cell::Count(plan.size),
    ));
    section.text.extend(rows.iter().filter_map(|row| bound(row, rows)));
    section.tables.push(steps(plan, rows));
    section.plots.push(rates(rows));
    section.tables.extend(ratios(rows));
    section.tables.extend(fs_mark(plan, rows));
    section.tables.extend(locks(rows));
    if plan.shape == Shape::Separate {
        section.tables.push(published_steps());
    }
    section
}

#[allow(clippy::cast_precision_loss)] // of rates
fn steps(plan: &Plan, rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Steps",
        &[
            ("operations", ""),
            ("wall", "s"),
            ("spread", "± %"),
            ("user", "s"),
            ("system", "s"),
            ("rate", "op/s"),
            ("commits", "1/s"),
            ("log", "MB"),
            ("peak memory", "MB"),
            ("turns", ""),
            ("caches", ""),
        ],
    );
    for row in rows {
        let Done { operations, usage, peak_memory, cold, counters, judge, .. } = &row.last;
        let own = !judge.is_some_and(|judge| judge != "check");
        let seconds = |time: std::time::Duration| {
            if own { Cell::Number(time.as_secs_f64(), 2) } else { Cell::None }
        };
        let counted =
            |number: Option<f64>, digits| number.map_or(Cell::None, |n| Cell::Number(n, digits));
        let commits = counters.as_ref().map(|c| c.commits as f64 / usage.wall.as_secs_f64());
        let cells = vec![
            operations.map_or(Cell::None, Cell::Count),
            Cell::Number(row.wall.median(), 3),
            Cell::Number(row.wall.spread() * 100.0, 1),
            seconds(usage.user),
            seconds(usage.system),
            Cell::Number(row.rate.median(), 0),
            counted(commits, 0),
            counted(counters.as_ref().map(|c| c.log_bytes as f64 / 1e6), 1),
            counted(peak_memory.map(|bytes| bytes as f64 / 1e6), 0),
            Cell::Count(row.wall.count() as u64),
            Cell::Text(if *cold { "cold" } else { "warm" }.into()),
        ];
        // Who judges is not who has worked on the volume.
        let who = judge.map_or(row.who.clone(), |judge| format!("{}, {judge}", row.who));
        table.row(format!("{}: {who}", row.step.name()), &row.on, cells);
    }
    let counted: Vec<String> =
        plan.steps().iter().map(|step| format!("{}: {}", step.name(), step.operation())).collect();
    table.note(format!("Operations are {}.", counted.join(", ")));
    table.note(
        "Wall time and rate are medians over the turns, all else is of the last turn. Peak memory is that of this process \
         with its cache, and of everybody's disks where these are memory of this process; the kernel's caches are not in it.",
    );
    table
}

/// How many times the kernel's rate is to be reached.
fn goal(step: Step) -> Option<f64> {
    match step {
        Step::Create | Step::Remove => Some(10.0),
        Step::Find => Some(5.0),
        Step::Check | Step::Bulkstat | Step::List => None,
    }
}

/// Creates that are to be made in a second, on two processors.
const CREATES: f64 = 350_000.0;

/// Whether a step of xfskit's reached its figure, and what bounds it where it did not.
#[allow(clippy::cast_precision_loss)] // of rates
fn bound(row: &Row, rows: &[Row]) -> Option<String> {
    let kernel = rows.iter().find(|other| other.step == row.step && other.who == "kernel XFS")?;
    let goal = goal(row.step).filter(|_| row.who == "xfskit")?;
    let (times, rate) = (kernel.wall.over(&row.wall).ratio, row.rate.median());
    let created = row.step != Step::Create || rate >= CREATES;
    let also = if row.step == Step::Create { " and 350,000/s" } else { "" };
    let told = format!(
        "The figure to reach for {} is {goal} times the kernel's rate{also}: {times:.1} times, {}/s",
        row.step.name(),
        Cell::Number(rate, 0),
    );
    if times >= goal && created {
        return Some(format!("{told}, reached."));
    }
    let Usage { wall, processor, machine, .. } = row.last.usage;
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let busy = machine.max(processor).as_secs_f64() / (wall.as_secs_f64() * processors) * 100.0;
    let each = row.last.operations.map_or(0.0, |n| processor.as_secs_f64() * 1e6 / n.max(1) as f64);
    let locks = row.last.counters.iter().flat_map(|counters| &counters.locks);
    let hottest = locks.max_by_key(|lock| lock.wait).filter(|lock| !lock.wait.is_zero());
    let waited = hottest.map_or(String::new(), |lock| {
        let ms = lock.wait.as_secs_f64() * 1e3;
        format!(", and all threads together waited {ms:.0} ms for the lock {}", lock.name)
    });
    Some(format!(
        "{told}, not reached. What bounds it: each takes {each:.1} µs of a processor; the processors were {busy:.0} % busy in the last \
         turn{waited}."
    ))
}

/// Rates beside each other, where several were measured.
#[allow(clippy::cast_precision_loss)] // a handful of steps
fn rates(rows: &[Row]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    let mut steps = Vec::new();
    for row in rows.iter().filter(|row| row.who != "harness alone" && row.rate.count() > 0) {
        if !steps.contains(&row.step) {
            steps.push(row.step);
        }
        let at = steps.iter().position(|step| *step == row.step).unwrap_or(0) + 1;
        let point = (at as f64, row.rate.median());
        match lines.iter_mut().find(|line| line.name == row.who) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: row.who.clone(),
                source: Source::Measured,
                points: vec![point],
            }),
        }
    }
    let names = steps.iter().map(|step| step.name().to_owned()).collect();
    Plot {
        title: "Operations per second".into(),
        x: Axis::named("step", names),
        y: Axis::logarithmic("operations/s"),
        lines,
    }
}

/// The engine in terms of the kernel.
fn ratios(rows: &[Row]) -> Option<Table> {
    let mut table = Table::new(
        "xfskit against kernel XFS: wall time of the kernel over that of xfskit",
        &[("faster", "times"), ("at least", ""), ("at most", ""), ("turns", "")],
    );
    for row in rows.iter().filter(|row| row.who == "kernel XFS") {
        let ours = rows.iter().find(|other| other.step == row.step && other.who == "xfskit");
        let Some(ours) = ours else { continue };
        let ratio = row.wall.over(&ours.wall);
        let cells = vec![
            Cell::Number(ratio.ratio, 2),
            Cell::Number(ratio.low, 2),
            Cell::Number(ratio.high, 2),
            Cell::Count(row.wall.count() as u64),
        ];
        table.row(row.step.name(), row.on.clone(), cells);
    }
    table.note("At least and at most: with a confidence of 95 percent, as far as the number of turns bears it.");
    (!table.rows.is_empty()).then_some(table)
}

fn fs_mark(plan: &Plan, rows: &[Row]) -> Option<Table> {
    let mut table = Table::new(
        "fs_mark's own lines, of the last turn",
        &[("FSUse%", ""), ("Count", ""), ("Size", ""), ("Files/sec", ""), ("App Overhead", "µs")],
    );
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    for row in rows {
        for line in &row.last.fs_mark {
            let cells = vec![
                Cell::Count(line.space.used_percent()),
                Cell::Count(line.count),
                Cell::Count(line.size),
                Cell::Number(line.rate, 1),
                Cell::Count(micros(line.overhead)),
            ];
            table.row(&row.who, row.on.clone(), cells);
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    if plan.shape == Shape::Separate {
        for (lock, count, rate, overhead) in published::LOCKS {
            let cells = vec![
                Cell::None,
                Cell::Count(count),
                Cell::Count(0),
                Cell::Number(rate, 1),
                Cell::Count(overhead),
            ];
            table.published(lock, published::LOCKS_ON, cells);
        }
    }
    Some(table)
}

/// The locks that were waited for longest.
#[allow(clippy::cast_precision_loss)] // of a share
fn locks(rows: &[Row]) -> Option<Table> {
    let mut table = Table::new(
        "Hottest locks",
        &[("taken", ""), ("waits", ""), ("waits", "%"), ("waited", "ms")],
    );
    for row in rows {
        let Some(counters) = &row.last.counters else { continue };
        let mut locks: Vec<&Lock> = counters.locks.iter().filter(|lock| lock.taken > 0).collect();
        locks.sort_by_key(|lock| std::cmp::Reverse((lock.wait, lock.taken)));
        for lock in locks.into_iter().take(HOTTEST) {
            let cells = vec![
                Cell::Count(lock.taken),
                Cell::Count(lock.waits),
                Cell::Number(lock.waits as f64 * 100.0 / lock.taken as f64, 3),
                Cell::Number(lock.wait.as_secs_f64() * 1e3, 2),
            ];
            table.row(format!("{}: {}", row.step.name(), lock.name), &row.who, cells);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn published_steps() -> Table {
    let mut table = Table::new(
        "Published wall times of the steps",
        &[("v4", "s"), ("v5", "s"), ("v5 with change 8f80587bacb6", "s")],
    );
    for (step, seconds) in published::STEPS {
        table.published(step, "kernel XFS", seconds.map(|s| Cell::Number(s, 0)).to_vec());
    }
    table
}
