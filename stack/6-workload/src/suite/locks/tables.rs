//! What is shown of the study.

use std::time::Duration;

use xfskit_lock::Kind;

use super::model::Facts;
use super::probe::Costs;
use super::{Computed, Point};
use crate::measure::Samples;
use crate::report::{Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::inodes::published;

/// The section on what was measured.
#[allow(clippy::cast_precision_loss)] // of rates
pub(super) fn measured(points: &[Point], time: Duration) -> Section {
    let mut section = Section::new("Locks: concurrent creates with every kind of lock");
    section.say(format!(
        "Each thread creates empty files in a directory of its own for {:.2} s, on a new volume; no sync. The kind of lock is \
         that of the engine's mutexes; locks held over a whole transaction sleep whatever the kind. Who spins does not give \
         its processor away: with more threads than processors, holders of locks are preempted, as those of a virtual machine \
         are.",
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
        table.row(point.name(), &point.on, cells);
    }
    table.note("Rates are medians over the turns, all else is of the last turn. Waits are those for the engine's mutexes.");
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

/// A line for each name, in the order in which they come.
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

/// The section on the model.
pub(super) fn model(
    facts: &Facts,
    costs: &Costs,
    check: &[(&Point, Computed)],
    many: &[Computed],
    unsharded: &[Computed],
) -> Section {
    let mut section = Section::new("Locks: a model of hand-over for more processors");
    section.say(
        "A model, not a measurement: threads think, take one of the engine's mutexes, hold it, on so many processors with a \
         scheduler. How often each kind of mutex is taken, how long it is held, the rest of a file's time, and what handing \
         over costs were measured in this run, on this machine; how hand-over grows with waiting threads is assumed \
         (test-and-set: in proportion; ticket: by half of that; the others: not at all). Memory, that one thread writes the journal, \
         locks of groups and the distance between sockets are left out: the model says what locks alone would cost.",
    );
    section.say(error(check));
    section.tables.push(inputs(facts));
    section.tables.push(probed(costs));
    section.tables.push(checked(check));
    for (what, computed) in [
        ("The model, a thread on each processor", many),
        ("The model, were there but one mutex of each kind", unsharded),
    ] {
        section.tables.push(predicted(what, computed));
        let points =
            computed.iter().map(|point| (point.kind.name(), point.processors, point.lived.rate));
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

fn inputs(facts: &Facts) -> Table {
    let mut table = Table::new(
        "What a file takes: mutexes held, and the rest",
        &[
            ("mutexes", ""),
            ("taken", "for a file"),
            ("held", "ns each time"),
            ("held", "ns for a file"),
        ],
    );
    for class in &facts.classes {
        let cells = vec![
            Cell::Count(class.mutexes),
            Cell::Number(class.per_file, 2),
            Cell::Number(class.hold, 0),
            Cell::Number(class.per_file * class.hold, 0),
        ];
        table.row(&class.name, "one thread", cells);
    }
    let rest = |nanos| vec![Cell::None, Cell::None, Cell::None, Cell::Number(nanos, 0)];
    table.row("everything else", "one thread", rest(facts.think));
    table.row("the engine's own threads", "beside it", rest(facts.background));
    table.note(
        "Processor time. Held: with the clock's own time taken off. Everything else: of a run that did not look at the clock.",
    );
    table
}

fn probed(costs: &Costs) -> Table {
    let mut table = Table::new("What locks and threads cost", &[("time", "ns")]);
    let mut row = |name: String, cost: f64| {
        table.row(name, "this machine, no filesystem", vec![Cell::Number(cost, 1)]);
    };
    for (name, cost) in &costs.alone {
        row(format!("{name} lock taken and given back, one thread"), *cost);
    }
    for (name, cost) in &costs.contended {
        row(format!("{name} lock taken and given back, two threads at once"), *cost);
    }
    row("a pause while spinning".into(), costs.pause);
    row("what a parking lock tries before it sleeps".into(), costs.spin);
    row("from waking a thread until it runs".into(), costs.wake);
    row("a slice of the scheduler".into(), costs.slice);
    table
}

/// By how much the model is off, in percent of what was measured: files a second, and files for each second of
/// processor time.
fn off(point: &Point, computed: &Computed) -> [f64; 2] {
    let percent = |model: f64, measured: &Samples| (model / measured.median() - 1.0) * 100.0;
    [
        percent(computed.lived.rate, &point.rate),
        percent(computed.lived.per_processor, &point.per_processor),
    ]
}

/// The error of the model over all points, in words.
fn error(check: &[(&Point, Computed)]) -> String {
    let size = |which: usize| -> Samples {
        check.iter().map(|(point, computed)| off(point, computed)[which].abs()).collect()
    };
    let others: Samples = check.iter().map(|(point, _)| point.others.median() * 100.0).collect();
    let [wall, processor] = [size(0), size(1)];
    format!(
        "Against the {} points that were measured here the model is off by {:.0} % in the median and {:.0} % at most for each \
         second of processor time, by {:.0} % and {:.0} % for each second of the clock. Other programs had {:.0} % of the \
         processors meanwhile (median of the points); the model knows nothing of them.",
        check.len(),
        processor.median(),
        processor.max(),
        wall.median(),
        wall.max(),
        others.median(),
    )
}

fn checked(check: &[(&Point, Computed)]) -> Table {
    let mut table = Table::new(
        "The model against what was measured here",
        &[
            ("threads", ""),
            ("measured", "files/s"),
            ("model", "files/s"),
            ("off", "%"),
            ("measured", "files/processor s"),
            ("model", "files/processor s"),
            ("off", "%"),
            ("others", "% of processors"),
        ],
    );
    for (point, computed) in check {
        let [rate, per_processor] = off(point, computed);
        let cells = vec![
            Cell::Count(point.threads as u64),
            Cell::Number(point.rate.median(), 0),
            Cell::Number(computed.lived.rate, 0),
            Cell::Number(rate, 0),
            Cell::Number(point.per_processor.median(), 0),
            Cell::Number(computed.lived.per_processor, 0),
            Cell::Number(per_processor, 0),
            Cell::Number(point.others.median() * 100.0, 0),
        ];
        table.push(point.name(), &point.on, Source::Model, cells);
    }
    table.note(
        "The columns measured were measured. Where the model is above them, something else than these locks bounds the machine.",
    );
    table
}

fn predicted(title: &str, many: &[Computed]) -> Table {
    let mut processors: Vec<usize> = many.iter().map(|computed| computed.processors).collect();
    processors.sort_unstable();
    processors.dedup();
    let names: Vec<String> = processors.iter().map(|n| format!("{n} processors")).collect();
    let columns: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "files/s")).collect();
    let mut table = Table::new(title, &columns);
    for kind in Kind::ALL {
        let rate = |n: &usize| {
            let found = many.iter().find(|c| c.kind == kind && c.processors == *n);
            found.map_or(Cell::None, |computed| Cell::Number(computed.lived.rate, 0))
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
    table.note("In a virtual machine, whose locks were test-and-set without delay, the same work collapsed; with a delay it did not.");
    table
}
