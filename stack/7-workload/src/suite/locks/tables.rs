//! The tables and plots of the study.

use std::time::Duration;

use xfskit_lock::Kind;

use super::model::ModelInputs;
use super::probe::Costs;
use super::{Model, ModelPoint, Point, Validated, fit, processors};
use crate::measure::{Decision, Samples};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
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
    section.answer = answer(points);
    section.text.extend(ticket_text(points, processors()));
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
        let each = |number, digits| match point.last.files {
            0 => Cell::None,
            _ => Cell::Number(number, digits),
        };
        let own = |number, digits| match point.kind {
            Some(_) => each(number, digits),
            None => Cell::None,
        };
        if point.is_too_short() {
            let mut cells = vec![Cell::None; table.columns.len()];
            cells[0] = Cell::Count(point.threads as u64);
            table.row(format!("{}, too short", point.name()), &point.storage, cells);
            continue;
        }
        let cells = vec![
            Cell::Count(point.threads as u64),
            Cell::median(&point.rate, 0),
            Cell::Number(point.rate.spread() * 100.0, 1),
            Cell::Number(point.rate.median() / parking, 3),
            each(point.last.usage.processor.as_secs_f64() * 1e6 / files, 2),
            own(waits as f64 * 1000.0 / files, 3),
            own(waited.as_secs_f64() * 1e6 / files, 3),
            Cell::Count(point.rate.count() as u64),
        ];
        table.row(point.name(), &point.storage, cells);
    }
    table.note("A turn in which each thread runs for fewer than ten time slices of 3 ms is too short and not counted.");
    table.note("Rates are medians over the turns; all other columns are of the last turn. Waits are those for the engine's mutexes.");
    section.tables.push(table);
    section.plots.push(Plot {
        title: format!("Locks: files created by threads, {} processors", processors()),
        x: Axis::logarithmic("threads"),
        y: Axis::logarithmic("files/s"),
        lines: with_published(lines(
            points
                .iter()
                .filter(|point| !point.is_too_short())
                .map(|point| (point.name(), point.threads, point.rate.median())),
            Source::Measured,
        )),
    });
    section
}

/// Threads of the published runs.
const PUBLISHED_THREADS: usize = 16;

/// Adds the median of the published rates of each kind of lock.
fn with_published(mut measured: Vec<Line>) -> Vec<Line> {
    for lock in ["queued", "ticket"] {
        let name = format!("{lock}, 120 processors, 2015");
        let median = published_rates(lock).median();
        let point = std::iter::once((name.as_str(), PUBLISHED_THREADS, median));
        measured.extend(lines(point, Source::Published));
    }
    measured
}

/// Returns the answer to the study's question, at the largest number of threads.
fn answer(points: &[Point]) -> Option<Answer> {
    let long = || points.iter().filter(|point| point.kind.is_some() && !point.is_too_short());
    let threads = long().map(|point| point.threads).max()?;
    let rate = |point: &&Point| point.rate.median();
    let mut kinds: Vec<&Point> = long().filter(|point| point.threads == threads).collect();
    kinds.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let (first, last) = (*kinds.first()?, *kinds.last()?);
    let times = first.rate.times(&last.rate);
    let claim = format!(
        "With {threads} threads on {} processors, {} is the fastest and {} the slowest",
        processors(),
        first.name(),
        last.name()
    );
    let range = if rate(&last) > 0.0 {
        format!("{} times", times.range(|times| format!("{times:.2}")))
    } else {
        format!("{} made no file in the time of a point", last.name())
    };
    let made = |point: &&Point| format!("{} {}", point.name(), Cell::Number(rate(point), 0));
    Some(Answer {
        question: "How does the kind of lock affect concurrent creates?".into(),
        verdict: times.above(1.0).sentence(&claim, &claim, &range, times.turns),
        figure: format!("{threads} threads: {} and {} files/s.", made(&first), made(&last)),
        published: format!("ticket {:.2} times queued.", published_ticket()),
    })
}

/// Returns the published rates of a kind of lock in files per second.
fn published_rates(lock: &str) -> Samples {
    published::LOCKS.iter().filter(|row| row.0.starts_with(lock)).map(|row| row.2).collect()
}

/// Returns the published rate of ticket locks over that of queued ones.
fn published_ticket() -> f64 {
    published_rates("ticket").median() / published_rates("queued").median()
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
pub(super) fn model(model: &Model, validated: &[Validated<'_>]) -> Section {
    let mut section = Section::new("Locks: a model of hand-over for more processors");
    section.paragraph(
        "A model, not a measurement: threads think, take one of the engine's mutexes and hold it, on a number of processors \
         with a scheduler. The frequency and the hold time of each mutex, the rest of a file's time, and the time of a \
         hand-over between two threads that alternate were measured in this run on this machine. The growth of the \
         hand-over with waiting threads is assumed: proportional for test-and-set, half of that for ticket, none for the \
         others. Memory, the single journal thread, group locks and the distance between sockets are left out: the model \
         gives the cost of locks alone.",
    );
    section.answer = Some(model_answer(validated));
    section.paragraph(error_text(validated));
    section.tables.push(validation(validated));
    section.tables.push(checked(validated));
    let many = of_all(validated, |one| &one.many);
    if !many.is_empty() {
        let what = "The model, a thread on each processor";
        section.tables.push(predicted(what, &many));
        let mut plot = plot_of_model(what, &many);
        plot.lines.extend(each_on_a_processor(validated, processors()));
        plot.lines = with_published(plot.lines);
        section.plots.push(plot);
    }
    let unsharded = of_all(validated, |one| &one.unsharded);
    if !unsharded.is_empty() {
        let what = "The model with one mutex of each kind";
        section.tables.push(predicted(what, &unsharded));
        section.plots.push(plot_of_model(what, &unsharded));
    }
    section.tables.push(input_table(&model.inputs));
    section.tables.push(probed(&model.costs));
    section.tables.push(publication());
    section
}

/// Processors of the published system.
const PUBLISHED_PROCESSORS: usize = 120;

/// Returns the answer to what the model says about the published number of processors, or the one
/// nearest to it.
pub(super) fn model_answer(validated: &[Validated<'_>]) -> Answer {
    let named = |valid: bool| -> Vec<&str> {
        let of = validated.iter().filter(|one| one.is_valid() == valid);
        of.map(|one| one.kind.name()).collect()
    };
    let (valid, refused) = (named(true), named(false));
    let verdict = match (valid.is_empty(), refused.is_empty()) {
        (true, _) => "Not known: the model is valid for no kind.".into(),
        (_, true) => "The model is valid for every kind.".into(),
        _ => format!(
            "The model is valid for {}, and refused for {}.",
            valid.join(", "),
            refused.join(", ")
        ),
    };
    let near = |point: &&ModelPoint| point.processors.abs_diff(PUBLISHED_PROCESSORS);
    let rates: Vec<String> = validated
        .iter()
        .filter_map(|one| one.many.iter().min_by_key(near))
        .map(|point| {
            let rate = Cell::Number(point.rates.rate, 0);
            format!("{} {rate}/s on {}", point.kind.name(), point.processors)
        })
        .collect();
    Answer {
        question: "What do locks alone leave of the creates on many processors?".into(),
        verdict,
        figure: if rates.is_empty() {
            String::new()
        } else {
            format!("{} (a model).", rates.join(", "))
        },
        published: format!(
            "queued {}/s, ticket {}/s, with 16 threads on {PUBLISHED_PROCESSORS}.",
            Cell::Number(published_rates("queued").median(), 0),
            Cell::Number(published_rates("ticket").median(), 0)
        ),
    }
}

fn plot_of_model(what: &str, computed: &[ModelPoint]) -> Plot {
    let points =
        computed.iter().map(|point| (point.kind.name(), point.processors, point.rates.rate));
    Plot {
        title: format!("{what}: files created"),
        x: Axis::logarithmic("processors, a thread on each"),
        y: Axis::logarithmic("files/s"),
        lines: lines(points, Source::Model),
    }
}

/// Returns the measured points in which each thread has a processor of this machine.
pub(super) fn each_on_a_processor(validated: &[Validated<'_>], processors: usize) -> Vec<Line> {
    let mut measured = lines(
        validated
            .iter()
            .flat_map(|one| &one.check)
            .filter(|(point, _)| point.threads <= processors)
            .map(|(point, _)| (point.name(), point.threads, point.rate.median())),
        Source::Measured,
    );
    for line in &mut measured {
        line.name = format!("{}, on {processors} processors", line.name);
    }
    measured
}

fn of_all(
    validated: &[Validated<'_>],
    points: impl for<'a> Fn(&'a Validated<'_>) -> &'a [ModelPoint],
) -> Vec<ModelPoint> {
    validated.iter().flat_map(|one| points(one).to_vec()).collect()
}

/// Compares ticket and queued locks with the publication, in the point with the most threads.
pub(super) fn ticket_text(points: &[Point], processors: usize) -> Option<String> {
    let of = |kind, threads: usize| {
        let same = |point: &&Point| point.kind == Some(kind) && point.threads == threads;
        points.iter().filter(|point| !point.is_too_short()).find(same)
    };
    let threads = points.iter().map(|point| point.threads).filter(|n| *n > processors).max()?;
    let (ticket, queued) = (of(Kind::Ticket, threads)?, of(Kind::Queued, threads)?);
    if let Some(none) = [ticket, queued].into_iter().find(|point| point.rate.median() <= 0.0) {
        return Some(format!(
            "Published: with 16 threads on 120 processors, ticket locks were {:.2} times as fast as queued ones. Here, with \
             {threads} threads on {processors} processors, {} locks made no file in the time of a point: the next in line has no \
             processor, and each hand-over waits for the scheduler.",
            published_ticket(),
            none.name()
        ));
    }
    let times = ticket.rate.times(&queued.rate);
    let (ratio, sure) = (times.middle, times.range(|times| format!("{times:.2}")));
    let published = published_ticket();
    let verdict = match times.above(1.0) {
        Decision::TooFewTurns => "So few turns do not decide which kind is faster here.",
        Decision::Undecided => "Neither kind is faster here beyond the noise.",
        Decision::Shown => "The direction is the same, the cause is not.",
        Decision::Refuted => "The direction is the opposite.",
    };
    Some(format!(
        "Published: with 16 threads on 120 processors, ticket locks were {published:.2} times as fast as queued ones. Here, \
         with {threads} threads on {processors} processors, they are {ratio:.2} times as fast ({sure}). {verdict} There each \
         thread had a processor, so the kinds differed by their hand-over. Here threads share processors: both kinds serve \
         in order of arrival, the next in line may have no processor, and most hand-overs wait for the scheduler.",
    ))
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
    for (name, cost) in &costs.hand_over {
        row(
            format!("{name} lock handed over to the other of two threads"),
            cost.unwrap_or(f64::NAN),
        );
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

/// Summarizes the error of the model, and for which kinds it is extrapolated.
fn error_text(validated: &[Validated<'_>]) -> String {
    let points = || validated.iter().flat_map(|one| &one.check);
    let others: Samples = points()
        .map(|(point, _)| point.other_programs.median())
        .filter(|percent| !percent.is_nan())
        .collect();
    let names = |valid: bool| -> Vec<&str> {
        let of = validated.iter().filter(|one| one.is_valid() == valid);
        of.map(|one| one.kind.name()).collect()
    };
    let list = |names: &[&str]| if names.is_empty() { "none".into() } else { names.join(", ") };
    let others = if others.count() == 0 {
        String::new()
    } else {
        format!(
            " Other programs used {:.0} % of the processors meanwhile (median of the points), which the model does not \
             include.",
            others.median()
        )
    };
    format!(
        "The model was fitted to points with up to 16 threads and validated on points that were held out. It is \
         extrapolated only for kinds whose error there, and at the points of the fit, is at most {:.0} %: {}. Refused: {}.{others}",
        fit::ERROR_MAX,
        list(&names(true)),
        list(&names(false)),
    )
}

fn validation(validated: &[Validated<'_>]) -> Table {
    let mut table = Table::new(
        "The model and its validation",
        &[
            ("work", "fitted factor"),
            ("hand-over", "fitted factor"),
            ("held out", "threads"),
            ("largest error there", "%"),
            ("of the fit", "%"),
            ("extrapolated", ""),
        ],
    );
    for kind in Kind::ALL {
        let Some(one) = validated.iter().find(|one| one.kind == kind) else {
            let mut cells = vec![Cell::None; 5];
            cells.push(Cell::Text("no: two threads did not alternate".into()));
            table.push(kind.name(), "this machine", Source::Model, cells);
            continue;
        };
        let held_out: Vec<String> = one.held_out.iter().map(ToString::to_string).collect();
        let word = match one.error {
            _ if one.is_valid() => "yes",
            Some(_) => "no: the error is too large",
            None => "no: no point to validate with",
        };
        let percent = |error: Option<f64>| error.map_or(Cell::None, |error| Cell::Number(error, 0));
        let cells = vec![
            Cell::Number(one.factors.work, 2),
            Cell::Number(one.factors.hand_over, 2),
            Cell::Text(held_out.join(", ")),
            percent(one.error),
            percent(one.fit_error),
            Cell::Text(word.into()),
        ];
        table.push(kind.name(), "this machine", Source::Model, cells);
    }
    table
}

fn checked(validated: &[Validated<'_>]) -> Table {
    let mut table = Table::new(
        "The model against the measurements",
        &[
            ("threads", ""),
            ("used to", ""),
            ("measured", "files/s"),
            ("model", "files/s"),
            ("error", "%"),
            ("measured", "files/processor s"),
            ("model", "files/processor s"),
            ("error", "%"),
            ("others", "% of processors"),
        ],
    );
    let points = validated
        .iter()
        .flat_map(|one| one.check.iter().map(move |(p, computed)| (one, p, computed)));
    for (one, point, computed) in points {
        let [rate, per_processor] = error_percent(point, computed);
        let role = if one.held_out.contains(&point.threads) { "validate" } else { "fit" };
        let cells = vec![
            Cell::Count(point.threads as u64),
            Cell::Text(role.into()),
            Cell::Number(point.rate.median(), 0),
            Cell::Number(computed.rates.rate, 0),
            Cell::Number(rate, 0),
            Cell::Number(point.per_processor.median(), 0),
            Cell::Number(computed.rates.per_processor, 0),
            Cell::Number(per_processor, 0),
            Cell::Number(point.other_programs.median(), 0),
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
    let computed = |kind: &Kind| many.iter().any(|point| point.kind == *kind);
    for kind in Kind::ALL.into_iter().filter(computed) {
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
