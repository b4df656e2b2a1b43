//! The tables and plots of the study.

use std::time::Duration;

use xfskit_lock::Kind;

use super::model::ModelInputs;
use super::probe::Costs;
use super::{ModelPoint, Point};
use crate::measure::Samples;
use crate::report::{Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::inodes::published;

/// Formats the section on the measurements.
#[allow(clippy::cast_precision_loss)] // of rates
pub(super) fn measured(points: &[Point], time: Duration) -> Section {
    let mut section = Section::new("Locks: concurrent creates with every kind of lock");
    section.paragraph(format!(
        "Each thread creates empty files in a directory of its own for {:.2} s, on a new volume, without sync. The kind of \
         lock is that of the engine's mutexes; locks held over a whole transaction sleep with every kind. A spinning thread \
         keeps its processor. With more threads than processors, lock holders are therefore preempted, as in a virtual \
         machine.",
        time.as_secs_f64()
    ));
    let mut table = Table::new(
        "Files created",
        &[
            ("threads", ""),
            ("rate", "files/s"),
            ("spread", "± %"),
            ("of parking", "times"),
            ("processor", "µs each"),
            ("waits", "for 1,000 files"),
            ("waited", "µs each"),
            ("turns", ""),
        ],
    );
    for point in points {
        let same =
            |other: &&Point| other.kind == Some(Kind::Parking) && other.threads == point.threads;
        let parking = points.iter().find(same).map_or(f64::NAN, |other| other.rate.median());
        let files = point.last.files.max(1) as f64;
        let mutexes = || {
            let counters = point.last.counters.iter().flat_map(|counters| &counters.locks);
            counters.filter(|lock| lock.mutexes > 0)
        };
        let waits: u64 = mutexes().map(|lock| lock.waits).sum();
        let waited: Duration = mutexes().map(|lock| lock.wait).sum();
        let own = |number, digits| match point.kind {
            Some(_) => Cell::Number(number, digits),
            None => Cell::None,
        };
        let cells = vec![
            Cell::Count(point.threads as u64),
            Cell::Number(point.rate.median(), 0),
            Cell::Number(point.rate.spread() * 100.0, 1),
            Cell::Number(point.rate.median() / parking, 3),
            Cell::Number(point.last.usage.processor.as_secs_f64() * 1e6 / files, 2),
            own(waits as f64 * 1000.0 / files, 3),
            own(waited.as_secs_f64() * 1e6 / files, 3),
            Cell::Count(point.rate.count() as u64),
        ];
        table.row(point.name(), &point.storage, cells);
    }
    table.note("Rates are medians over the turns; all other columns are of the last turn. Waits are those for the engine's mutexes.");
    section.tables.push(table);
    section.plots.push(Plot {
        title: "Files created, by threads".into(),
        x: Axis::logarithmic("threads"),
        y: Axis::logarithmic("files/s"),
        lines: lines(
            points.iter().map(|point| (point.name(), point.threads, point.rate.median())),
            Source::Measured,
        ),
    });
    section
}

/// Makes a line for each name, in order of appearance.
#[allow(clippy::cast_precision_loss)] // of some threads
fn lines<'p>(points: impl Iterator<Item = (&'p str, usize, f64)>, source: Source) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, x, rate) in points {
        let point = (x as f64, rate);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name: name.into(), source, points: vec![point] }),
        }
    }
    lines
}

/// Formats the section on the model.
pub(super) fn model(
    inputs: &ModelInputs,
    costs: &Costs,
    check: &[(&Point, ModelPoint)],
    many: &[ModelPoint],
    unsharded: &[ModelPoint],
) -> Section {
    let mut section = Section::new("Locks: a model of hand-over for more processors");
    section.paragraph(
        "A model, not a measurement: threads think, take one of the engine's mutexes and hold it, on a number of processors \
         with a scheduler. The frequency and the hold time of each mutex, the rest of a file's time, and the cost of a \
         hand-over were measured in this run on this machine. The growth of the hand-over with waiting threads is assumed: \
         proportional for test-and-set, half of that for ticket, none for the others. Memory, the single journal thread, \
         group locks and the distance between sockets are left out: the model gives the cost of locks alone.",
    );
    section.paragraph(error_text(check));
    section.tables.push(input_table(inputs));
    section.tables.push(probed(costs));
    section.tables.push(checked(check));
    for (what, computed) in [
        ("The model, a thread on each processor", many),
        ("The model with one mutex of each kind", unsharded),
    ] {
        section.tables.push(predicted(what, computed));
        let points =
            computed.iter().map(|point| (point.kind.name(), point.processors, point.rates.rate));
        section.plots.push(Plot {
            title: format!("{what}: files created"),
            x: Axis::logarithmic("processors"),
            y: Axis::logarithmic("files/s"),
            lines: lines(points, Source::Model),
        });
    }
    section.tables.push(publication());
    section
}

fn input_table(inputs: &ModelInputs) -> Table {
    let mut table = Table::new(
        "The time of a file: mutexes held, and the rest",
        &[
            ("mutexes", ""),
            ("taken", "for a file"),
            ("held", "ns each time"),
            ("held", "ns for a file"),
        ],
    );
    for class in &inputs.classes {
        let cells = vec![
            Cell::Count(class.mutexes),
            Cell::Number(class.per_file, 2),
            Cell::Number(class.hold, 0),
            Cell::Number(class.per_file * class.hold, 0),
        ];
        table.row(&class.name, "one thread", cells);
    }
    let rest = |nanos| vec![Cell::None, Cell::None, Cell::None, Cell::Number(nanos, 0)];
    table.row("everything else", "one thread", rest(inputs.think));
    table.row("the engine's own threads", "beside it", rest(inputs.background));
    table.note(
        "Processor time. The time of the clock itself is subtracted from held. Everything else is of a run without timed locks.",
    );
    table
}

fn probed(costs: &Costs) -> Table {
    let mut table = Table::new("The cost of locks and threads", &[("time", "ns")]);
    let mut row = |name: String, cost: f64| {
        table.row(name, "this machine, no filesystem", vec![Cell::Number(cost, 1)]);
    };
    for (name, cost) in &costs.uncontended {
        row(format!("{name} lock taken and released, one thread"), *cost);
    }
    for (name, cost) in &costs.contended {
        row(format!("{name} lock taken and released, two threads"), *cost);
    }
    row("a pause while spinning".into(), costs.pause);
    row("spinning of a parking lock before it sleeps".into(), costs.spin);
    row("from the wake-up of a thread until it runs".into(), costs.wake);
    row("a time slice of the scheduler".into(), costs.slice);
    table
}

/// Returns the error of the model in percent of the measurement: in files per second, and in files
/// per second of processor time.
fn error_percent(point: &Point, computed: &ModelPoint) -> [f64; 2] {
    let percent = |model: f64, measured: &Samples| (model / measured.median() - 1.0) * 100.0;
    [
        percent(computed.rates.rate, &point.rate),
        percent(computed.rates.per_processor, &point.per_processor),
    ]
}

/// Summarizes the error of the model over all points.
fn error_text(check: &[(&Point, ModelPoint)]) -> String {
    let size = |which: usize| -> Samples {
        check.iter().map(|(point, computed)| error_percent(point, computed)[which].abs()).collect()
    };
    let other_programs: Samples =
        check.iter().map(|(point, _)| point.other_programs.median() * 100.0).collect();
    let [wall, processor] = [size(0), size(1)];
    format!(
        "Over the {} measured points, the error of the model is {:.0} % in the median and {:.0} % at most per second of \
         processor time, and {:.0} % and {:.0} % per second of wall time. Other programs used {:.0} % of the processors \
         meanwhile (median of the points), which the model does not include.",
        check.len(),
        processor.median(),
        processor.max(),
        wall.median(),
        wall.max(),
        other_programs.median(),
    )
}

fn checked(check: &[(&Point, ModelPoint)]) -> Table {
    let mut table = Table::new(
        "The model against the measurements",
        &[
            ("threads", ""),
            ("measured", "files/s"),
            ("model", "files/s"),
            ("error", "%"),
            ("measured", "files/processor s"),
            ("model", "files/processor s"),
            ("error", "%"),
            ("others", "% of processors"),
        ],
    );
    for (point, computed) in check {
        let [rate, per_processor] = error_percent(point, computed);
        let cells = vec![
            Cell::Count(point.threads as u64),
            Cell::Number(point.rate.median(), 0),
            Cell::Number(computed.rates.rate, 0),
            Cell::Number(rate, 0),
            Cell::Number(point.per_processor.median(), 0),
            Cell::Number(computed.rates.per_processor, 0),
            Cell::Number(per_processor, 0),
            Cell::Number(point.other_programs.median() * 100.0, 0),
        ];
        table.push(point.name(), &point.storage, Source::Model, cells);
    }
    table.note(
        "The columns named measured are measurements. If the model is above them, something other than these locks is the bottleneck.",
    );
    table
}

fn predicted(title: &str, many: &[ModelPoint]) -> Table {
    let mut processors: Vec<usize> = many.iter().map(|computed| computed.processors).collect();
    processors.sort_unstable();
    processors.dedup();
    let names: Vec<String> = processors.iter().map(|n| format!("{n} processors")).collect();
    let columns: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "files/s")).collect();
    let mut table = Table::new(title, &columns);
    for kind in Kind::ALL {
        let rate = |n: &usize| {
            let found = many.iter().find(|c| c.kind == kind && c.processors == *n);
            found.map_or(Cell::None, |computed| Cell::Number(computed.rates.rate, 0))
        };
        let cells = processors.iter().map(rate).collect();
        table.push(kind.name(), "computed", Source::Model, cells);
    }
    table
}

fn publication() -> Table {
    let mut table = Table::new(
        "Published: fs_mark, 16 directories",
        &[("Count", ""), ("Files/sec", ""), ("App Overhead", "µs")],
    );
    for (lock, count, rate, overhead) in published::LOCKS {
        let cells = vec![Cell::Count(count), Cell::Number(rate, 1), Cell::Count(overhead)];
        table.published(lock, published::LOCKS_ON, cells);
    }
    table.note("In a virtual machine, whose locks were test-and-set without a delay, the same work collapsed; with a delay it did not.");
    table
}
