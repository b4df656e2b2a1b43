//! The tables and plots of the study.

use std::io;

use super::published;
use super::shape::Plan;
use super::step::{Step, StepOutcome};
use super::{Row, Shape};
use crate::driver::{Counters, Lock};
use crate::measure::{Decision, Samples, interval_note, short};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};

/// Number of locks in the table.
const HOTTEST: usize = 10;

/// Formats the section of one tree.
///
/// # Errors
/// If a part is larger than its whole.
pub(super) fn section(plan: &Plan, rows: &[Row]) -> io::Result<Section> {
    let mut section = Section::new(format!("Concurrent inodes: {}", plan.shape.describe()));
    section.paragraph(format!(
        "{} files in {} directories: {} threads, {} iterations of {} files of {} bytes each. Caches are dropped before each step (cold), and the \
         drivers alternate within it. The time of create and rm includes the final sync.",
        Cell::Count(plan.all_files()),
        Cell::Count(plan.dirs() as u64),
        plan.threads,
        plan.loops,
        Cell::Count(plan.files),
        Cell::Count(plan.size),
    ));
    section.answer = answer(rows);
    for row in rows {
        section.text.extend(goal_text(row, rows)?);
    }
    section.tables.push(steps(plan, rows));
    section.plots.push(rates(plan, rows));
    section.tables.extend(ratios(rows));
    section.tables.extend(fs_mark(rows));
    section.tables.extend(creates(plan, rows));
    section.tables.extend(locks(rows));
    if plan.shape == Shape::Separate {
        section.tables.push(published_steps());
    }
    Ok(section)
}

/// Columns of the table of steps.
const RATE_COLUMN: usize = 5;
const COMMITS_COLUMN: usize = 7;

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
            ("changes", "1/s"),
            ("commits", "1/s"),
            ("checkpoints", ""),
            ("waits", "1/s"),
            ("log", "MB"),
            ("peak memory", "MB"),
            ("turns", ""),
            ("caches", ""),
        ],
    );
    for row in rows {
        let StepOutcome { operations, usage, peak_memory, cold, counters, checker, .. } = &row.last;
        let own = checker.is_none_or(|checker| !checker.starts_with("xfs_repair"));
        let seconds = |time: std::time::Duration| {
            if own { Cell::Number(time.as_secs_f64(), 2) } else { Cell::None }
        };
        let counted =
            |number: Option<f64>, digits| number.map_or(Cell::None, |n| Cell::Number(n, digits));
        let rate = |count: Option<u64>| {
            count.filter(|_| !row.is_too_short()).map(|n| n as f64 / usage.wall.as_secs_f64())
        };
        let counters = counters.as_ref();
        let cells = vec![
            operations.map_or(Cell::None, Cell::Count),
            Cell::median(&row.wall, 3),
            Cell::Number(row.wall.spread() * 100.0, 1),
            seconds(usage.user),
            seconds(usage.system),
            if row.is_too_short() { Cell::None } else { Cell::median(&row.rate, 0) },
            counted(rate(counters.and_then(|c| c.changes)), 0),
            counted(rate(counters.map(|c| c.commits)), 0),
            counters.and_then(|c| c.checkpoints).map_or(Cell::None, Cell::Count),
            counted(rate(counters.and_then(Counters::waits)), 0),
            counted(counters.map(|c| c.log_bytes as f64 / 1e6), 1),
            counted(peak_memory.map(|bytes| bytes as f64 / 1e6), 0),
            Cell::Count(row.wall.count() as u64),
            Cell::Text(if *cold { "cold" } else { "warm" }.into()),
        ];
        // The checker is a different program from the driver.
        let driver =
            checker.map_or(row.driver.clone(), |checker| format!("{}, {checker}", row.driver));
        table.row(format!("{}: {driver}", row.step.name()), &row.storage, cells);
    }
    if plan.shape == Shape::Separate {
        add_published(&mut table, rows);
    }
    let counted: Vec<String> = plan
        .steps(&[])
        .iter()
        .map(|step| format!("{}: {}", step.name(), step.operation()))
        .collect();
    table.note(format!("Operations are {}.", counted.join(", ")));
    table.note(
        "A change is one operation, such as a new file. xfskit keeps a transaction open for its thread's next changes, so one \
         commit holds several. Commits are transactions committed, what Linux counts as trans; Linux rolls a transaction \
         within an operation, and counts each part. A checkpoint writes all commits since the last one to the journal. \
         Linux counts neither changes nor checkpoints. Waits of xfskit are those of all threads for locks; Linux counts none of these, \
         and its figure is the waits for the journal (for a free buffer, and for space).",
    );
    table.note(
        "Steps of less than 10 ms have no rates. Wall time and rate are medians over the turns; all other columns are of the last turn. Peak memory is that of \
         this process with its cache, and with all disks if they are in its memory; the kernel's caches are not included. That of xfs_repair is \
         its own, read every 2 ms. Both repairs find nothing to repair.",
    );
    table
}

/// Adds what was published of the steps that were measured.
fn add_published(table: &mut Table, rows: &[Row]) {
    let text = |text: &str| Cell::Text(text.into());
    let (wall, user, system) = published::REMOVAL;
    let commits = (COMMITS_COLUMN, text(published::COMMITS));
    let times = vec![
        (0, text("each process")),
        (1, text(wall)),
        (3, Cell::Number(user, 1)),
        (4, Cell::Number(system, 0)),
    ];
    for (step, on, figures) in [
        (Step::Create, published::SPARSE_ON, vec![commits.clone()]),
        (Step::Bulkstat, published::SPARSE_ON, vec![(RATE_COLUMN, text(published::BULKSTAT))]),
        (Step::Remove, published::SPARSE_ON, vec![commits]),
        (Step::Remove, published::LOCKS_ON, times),
    ] {
        if rows.iter().any(|row| row.step == step) {
            let mut cells = vec![Cell::None; table.columns.len()];
            for (column, cell) in figures {
                cells[column] = cell;
            }
            table.published(step.name(), on, cells);
        }
    }
}

/// Returns the factor over the kernel's rate that is the goal.
fn goal(step: Step) -> Option<f64> {
    match step {
        Step::Create | Step::Remove => Some(10.0),
        Step::Find => Some(5.0),
        Step::Repair | Step::Check | Step::Bulkstat | Step::List => None,
    }
}

/// Goal of creates per second, on two processors.
const CREATES: f64 = 350_000.0;

/// Compares a step of xfskit with its goal, and names the bottleneck if the goal is missed.
#[allow(clippy::cast_precision_loss)] // of rates
fn goal_text(row: &Row, rows: &[Row]) -> io::Result<Option<String>> {
    let kernel = rows.iter().find(|other| other.step == row.step && other.driver == "kernel XFS");
    let goal = goal(row.step).filter(|_| row.driver == "xfskit");
    let (Some(kernel), Some(goal)) = (kernel, goal) else { return Ok(None) };
    if row.is_too_short() || kernel.is_too_short() {
        return Ok(None);
    }
    let (times, rate) = (kernel.wall.times(&row.wall), row.rate.median());
    let mut decision = times.at_least(goal);
    if row.step == Step::Create {
        decision = decision.and(row.rate.median_interval().at_least(CREATES));
    }
    let rate_goal = if row.step == Step::Create { " and 350,000/s" } else { "" };
    let text = format!(
        "The goal for {} is {goal} times the kernel's rate{rate_goal}. Measured: {:.1} times ({}), {}/s",
        row.step.name(),
        times.middle,
        times.range(|times| format!("{times:.1}")),
        Cell::Number(rate, 0),
    );
    match decision {
        Decision::Shown => return Ok(Some(format!("{text}. The goal is reached."))),
        Decision::Refuted => (),
        Decision::Undecided => return Ok(Some(format!("{text}. This run does not decide."))),
        Decision::TooFewTurns => {
            let turns = times.turns;
            return Ok(Some(format!("{text}. Turns: {turns}, too few to decide.")));
        }
    }
    let processor = row.last.usage.processor;
    let busy = row.last.usage.busy_percent()?.map_or(String::new(), |percent| {
        format!(", and the processors were {percent:.0} % busy in the last turn")
    });
    let each = row.last.operations.map_or(0.0, |n| processor.as_secs_f64() * 1e6 / n.max(1) as f64);
    let locks = row.last.counters.iter().flat_map(|counters| &counters.locks);
    let hottest = locks.max_by_key(|lock| lock.wait).filter(|lock| !lock.wait.is_zero());
    let waited = hottest.map_or(String::new(), |lock| {
        let ms = lock.wait.as_secs_f64() * 1e3;
        format!(". All threads together waited {ms:.0} ms for the lock {}", lock.name)
    });
    Ok(Some(format!(
        "{text}. The goal is missed. Bottleneck: each operation takes {each:.1} µs of processor time{busy}{waited}."
    )))
}

/// Returns the answer to the study's question, from the rates of creates.
fn answer(rows: &[Row]) -> Option<Answer> {
    let created = |driver: &str| {
        let same = |row: &&Row| row.step == Step::Create && row.driver == driver;
        rows.iter().find(same).filter(|row| !row.is_too_short())
    };
    let ours = created("xfskit")?;
    let verdict = match created("kernel XFS") {
        Some(kernel) => {
            let times = kernel.wall.times(&ours.wall);
            let claim = format!("{:.1} times as many as the kernel", times.middle);
            let range = times.range(|times| format!("{times:.1}"));
            times.above(1.0).sentence(&claim, &claim, &format!("{range} times"), times.turns)
        }
        None => "The kernel was not measured.".into(),
    };
    let published: Samples = published::LOCKS.iter().map(|(_, _, rate, _)| *rate).collect();
    Some(Answer {
        question: "How many files do many threads create in a second?".into(),
        verdict,
        figure: format!("{}/s.", Cell::Number(ours.rate.median(), 0)),
        published: format!("{}/s on 120 processors.", Cell::Number(published.median(), 0)),
    })
}

/// Plots the rates of all drivers by step.
#[allow(clippy::cast_precision_loss)] // a handful of steps
fn rates(plan: &Plan, rows: &[Row]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    let mut steps = Vec::new();
    let plotted =
        |row: &&Row| row.driver != "harness alone" && row.rate.count() > 0 && !row.is_too_short();
    for row in rows.iter().filter(plotted) {
        if !steps.contains(&row.step) {
            steps.push(row.step);
        }
        let at = steps.iter().position(|step| *step == row.step).unwrap_or(0) + 1;
        let point = (at as f64, row.rate.median());
        match lines.iter_mut().find(|line| line.name == row.driver) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: row.driver.clone(),
                source: Source::Measured,
                points: vec![point],
            }),
        }
    }
    let created = steps.iter().position(|step| *step == Step::Create);
    if let Some(at) = created.filter(|_| plan.shape == Shape::Separate) {
        let rates: Samples = published::LOCKS.iter().map(|(_, _, rate, _)| *rate).collect();
        lines.push(Line {
            name: "120 processors, 2015".into(),
            source: Source::Published,
            points: vec![((at + 1) as f64, rates.median())],
        });
    }
    let names = steps.iter().map(|step| step.name().to_owned()).collect();
    Plot {
        title: format!(
            "Inodes, {}, {} threads: operations per second",
            plan.shape.describe(),
            plan.threads
        ),
        x: Axis::named("step", names),
        y: Axis::logarithmic("operations/s"),
        lines,
    }
}

/// Compares the engine with the kernel.
fn ratios(rows: &[Row]) -> Option<Table> {
    let mut table = Table::new(
        "xfskit against kernel XFS: wall time of the kernel over that of xfskit",
        &[("faster", "times"), ("at least", ""), ("at most", ""), ("turns", "")],
    );
    for row in rows.iter().filter(|row| row.driver == "kernel XFS") {
        let ours = rows.iter().find(|other| other.step == row.step && other.driver == "xfskit");
        let Some(ours) = ours.filter(|ours| !ours.is_too_short() && !row.is_too_short()) else {
            continue;
        };
        let ratio = row.wall.ratio_to(&ours.wall);
        let cells = vec![
            Cell::Number(ratio.ratio, 2),
            Cell::Number(ratio.low, 2),
            Cell::Number(ratio.high, 2),
            Cell::Count(row.wall.count() as u64),
        ];
        table.row(row.step.name(), row.storage.clone(), cells);
    }
    let turns = rows.iter().map(|row| row.wall.count()).min().unwrap_or(0);
    table.note(interval_note(turns));
    (!table.rows.is_empty()).then_some(table)
}

/// Formats the output of fs_mark as it prints it. Its Files/sec is the sum of the rates of the
/// threads, each over its own time, so it is not compared with anything.
fn fs_mark(rows: &[Row]) -> Option<Table> {
    let mut table = Table::new(
        "Output of fs_mark in the last turn",
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
            table.row(&row.driver, row.storage.clone(), cells);
        }
    }
    table.note(
        "Files/sec is the sum over the threads, each over the time in its own calls. On a machine with fewer processors than \
         threads it is many times the rate by wall time. The next table has the rates to compare.",
    );
    (!table.rows.is_empty()).then_some(table)
}

/// Sets the rates of creates by wall time beside the published ones.
fn creates(plan: &Plan, rows: &[Row]) -> Option<Table> {
    let mut table = Table::new(
        "Creates: files over wall time, final sync included",
        &[("Count", ""), ("files/s", ""), ("turns", "")],
    );
    let created = |row: &&Row| row.step == Step::Create && row.driver != "harness alone";
    for row in rows.iter().filter(created) {
        let cells = vec![
            row.last.operations.map_or(Cell::None, Cell::Count),
            if row.is_too_short() { Cell::None } else { Cell::median(&row.rate, 0) },
            Cell::Count(row.rate.count() as u64),
        ];
        table.row(&row.driver, row.storage.clone(), cells);
    }
    if plan.shape != Shape::Separate || table.rows.is_empty() {
        return None;
    }
    for (lock, count, rate, _) in published::LOCKS {
        let cells = vec![Cell::Count(count), Cell::Number(rate, 1), Cell::None];
        table.published(lock, published::LOCKS_ON, cells);
    }
    table.note("The published rates are fs_mark's, of 16 processes on 120 processors.");
    Some(table)
}

/// Lists the locks with the longest total wait.
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
            table.row(format!("{}: {}", row.step.name(), lock.name), &row.driver, cells);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

impl Row {
    /// Returns true if the step was over too soon to have a rate.
    fn is_too_short(&self) -> bool {
        short::is_too_short(&self.wall, short::STEP_MIN)
    }
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
