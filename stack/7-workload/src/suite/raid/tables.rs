//! The tables and plots of the study.

use std::io;

use xfskit_md::array::IoStats;
use xfskit_parity::{Measured, Operation, measure};
use xfskit_units::ByteLen;

use super::members::Plan;
use super::readers::{Outcome, REQUESTS_MIN, Setup, State};
use super::{Point, Study, answers, published};
use crate::measure::{Decision, Interval};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};

/// Bytes of a block for the routines, which fits the processor's cache.
const BLOCK: usize = 4096;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// Formats the section on the array in every state.
///
/// # Errors
/// If a member was busy for longer than the time of the point.
pub(super) fn states(study: &Study<'_>, rows: &[Point], small: &[Point]) -> io::Result<Section> {
    let (plan, options) = (study.options.plan, study.options);
    let mut section = Section::new(format!("Degraded reads: {} of {}", plan.name(), plan.members));
    section.answer = answer(rows);
    section.paragraph(format!(
        "{} members, chunk {} KiB, {} concurrent readers. Each reads a file from start to end, and then another random \
         one. There are {} files around {} MB, which begin at a full stripe. MB are 10^6 bytes. The contents are not verified \
         here.",
        plan.members,
        plan.chunk >> 10,
        options.readers,
        study.content.files(),
        options.file_size / 1_000_000,
    ));
    section.paragraph(format!(
        "A turn in which the readers completed fewer than two requests each, or {REQUESTS_MIN} in all, is too short: it has \
         no figures and is not counted.",
    ));
    section.tables.push(of_states(
        "Requests of a full stripe",
        &study.member_set.storage,
        rows,
        true,
    ));
    let title = format!(
        "Requests of {} KiB, stripe cache of {} MiB",
        options.request >> 10,
        options.stripe_cache >> 20
    );
    section.tables.push(of_states(&title, &study.member_set.storage, small, false));
    let one_failed = |point: &&Point| point.setup.state == State::Missing(1);
    if let Some(point) = rows.iter().find(one_failed).filter(|point| !point.is_too_short()) {
        section.tables.push(members(point, &study.member_set.storage)?);
    }
    let lines = [("requests of a full stripe", rows), ("small requests", small)];
    let names = rows.iter().map(|point| point.setup.state.name()).collect();
    section.plots.push(Plot {
        title: format!("{}, {} readers: throughput by state", plan.describe(), options.readers),
        x: Axis::named("state", names),
        y: Axis::linear("throughput, MB/s"),
        lines: lines
            .map(|(name, points)| line(name, points.iter(), |n, _| n + 1))
            .into_iter()
            .chain([published_states()])
            .collect(),
    });
    Ok(section)
}

/// A degraded array with this part of the rate of a healthy one costs nothing worth mentioning.
const NOTHING: f64 = 0.9;

/// Returns the answer to the study's question, from the requests of a full stripe.
fn answer(rows: &[Point]) -> Option<Answer> {
    let of = |state| {
        rows.iter().find(|point| point.setup.state == state).filter(|point| !point.is_too_short())
    };
    let (healthy, failed) = (of(State::Missing(0))?, of(State::Missing(1))?);
    let kept = failed.rate.times(&healthy.rate);
    let [_, _, (_, _, published)] = published::READ;
    let (_, _, published_healthy) = published::READ[0];
    Some(Answer {
        question: "What does a read cost if a member is missing?".into(),
        verdict: verdict(kept, published / published_healthy, healthy.setup.plan.members),
        figure: format!(
            "{} of {} MB/s.",
            Cell::Number(failed.rate.median(), 0),
            Cell::Number(healthy.rate.median(), 0)
        ),
        published: "200 to 1,000 of about 8,000 MB/s.".into(),
    })
}

/// Describes what the degraded array keeps, how sure that is, and how it stands to the published
/// part.
fn verdict(kept: Interval, published: f64, members: u32) -> String {
    let claim = format!("the array reads {:.2} times what it reads healthy", kept.middle);
    let range = format!("{} times", kept.range(|times| format!("{times:.2}")));
    // Where members are the bound, one of them is missing.
    let due = f64::from(members - 1) / f64::from(members);
    let cheap = kept.at_least(NOTHING * due);
    if cheap == Decision::Refuted {
        let less = format!("A part of the rate, and less than published: {claim}");
        let more = format!("As much as published, or more: {claim}");
        return kept.above(published).sentence(&less, &more, &range, kept.turns);
    }
    let nothing = format!("Next to nothing: {claim}");
    cheap.sentence(&nothing, &nothing, &range, kept.turns)
}

/// Returns the published rates by state, with the largest cache.
pub(super) fn published_states() -> Line {
    let [(_, _, healthy), .., (_, _, failed)] = published::READ;
    let points = vec![(1.0, healthy), (2.0, failed)];
    Line { name: "md, 24 SSDs".into(), source: Source::Published, points }
}

/// Returns the published rates with one failed member, by stripe cache.
fn published_caches() -> Line {
    let point = |(_, stripes, rate): &(&str, Option<u64>, f64)| {
        Some((f64::from(u32::try_from((*stripes)?).ok()?), *rate))
    };
    let points = published::READ.iter().filter_map(point).collect();
    Line { name: "md, 24 SSDs, one failed".into(), source: Source::Published, points }
}

/// Returns the published rates by the speed of a member: healthy members were the bound, and each
/// had an equal part.
pub(super) fn published_roof(read: &[(&str, Option<u64>, f64)]) -> Vec<Line> {
    let Some((_, _, healthy)) = read.first() else { return Vec::new() };
    published_at(healthy / 24.0, read)
}

/// Returns the published rates at one place of an axis, a line for each.
fn published_at(x: f64, read: &[(&str, Option<u64>, f64)]) -> Vec<Line> {
    let line = |(state, stripes, rate): &(&str, Option<u64>, f64)| Line {
        name: match stripes {
            None => "md, 24 SSDs, healthy".into(),
            Some(stripes) => format!("md, 24 SSDs, {state}, stripe_cache_size {stripes}"),
        },
        source: Source::Published,
        points: vec![(x, *rate)],
    };
    read.iter().map(line).collect()
}

/// Converts MiB/s to MB/s.
pub(super) fn megabytes_of_mib(rate: f64) -> f64 {
    rate * MIB / 1e6
}

/// Makes a line of a plot; `x` gives the position of each point. Points that were too short are
/// left out.
#[allow(clippy::cast_precision_loss)] // of sizes
pub(super) fn line<'p>(
    name: &str,
    points: impl Iterator<Item = &'p Point>,
    x: impl Fn(usize, &Point) -> usize,
) -> Line {
    let point = |(n, point): (usize, &Point)| (x(n, point) as f64, point.rate.median());
    Line {
        name: name.into(),
        source: Source::Measured,
        points: points.enumerate().filter(|(_, point)| !point.is_too_short()).map(point).collect(),
    }
}

/// Returns the cells of rate, spread, ratio to the healthy array, and cost per byte.
pub(super) fn cost_cells(point: &Point, healthy: f64) -> Vec<Cell> {
    if point.is_too_short() {
        return [vec![Cell::None; COST.len() - 1], vec![Cell::Count(0)]].concat();
    }
    let Outcome { io_stats: IoStats { read, loaded, stored }, .. } = point.last;
    let each = |bytes: ByteLen| Cell::Number(point.last.per_byte(bytes.0), 2);
    vec![
        Cell::median(&point.rate, 0),
        Cell::Number(point.rate.spread() * 100.0, 1),
        Cell::Number(point.rate.median() / healthy, 3),
        Cell::Number(point.last.processor(), 3),
        each(read),
        each(loaded),
        each(stored),
        Cell::Count(point.rate.count() as u64),
    ]
}

pub(super) const COST: [(&str, &str); 8] = [
    ("read", "MB/s"),
    ("spread", "± %"),
    ("of healthy", "times"),
    ("processor", "ns/byte"),
    ("from members", "bytes/byte"),
    ("loaded", "bytes/byte"),
    ("stored", "bytes/byte"),
    ("turns", ""),
];

fn of_states(title: &str, storage: &str, points: &[Point], with_published: bool) -> Table {
    let columns: Vec<_> = [("rebuilt", "MB/s")].into_iter().chain(COST).collect();
    let mut table = Table::new(title, &columns);
    let healthy = points.first().map_or(f64::NAN, |point| point.rate.median());
    for point in points {
        let rebuilt = point.last.rebuild_rate().filter(|_| !point.is_too_short());
        let rebuilt = rebuilt.map_or(Cell::None, |rate| Cell::Number(rate, 0));
        let cells = [rebuilt].into_iter().chain(cost_cells(point, healthy)).collect();
        table.row(point.setup.state.name(), storage, cells);
    }
    if with_published {
        for (state, stripes, rate) in published::READ {
            let cache = stripes.map_or(String::new(), |n| format!(", stripe_cache_size {n}"));
            let mut cells = vec![Cell::None; columns.len()];
            (cells[1], cells[3]) = (Cell::Number(rate, 0), Cell::Number(rate / 8000.0, 3));
            table.published(format!("{state}{cache}"), published::ON, cells);
        }
        for (state, kept) in published::EMULATED {
            let mut cells = vec![Cell::None; columns.len()];
            cells[3] = Cell::Number(kept, 3);
            table.push(state, published::EMULATED_ON, Source::Emulated, cells);
        }
        let (whole, computed) = published::TRAFFIC;
        table.note(format!(
            "Loaded and stored count the accesses of the array's own code per byte read. A read from a member adds a store, \
             and its use by the reader adds a load. Published, other hardware: {whole} bytes of memory traffic per byte of a \
             healthy array, {computed} per byte that md computed."
        ));
    }
    table
}

/// Formats a table as iostat prints it: its MB are 2^20 bytes.
#[allow(clippy::cast_precision_loss)] // of rates
fn members(point: &Point, storage: &str) -> io::Result<Table> {
    let title = format!("Members, {}, requests of a full stripe", point.setup.state.name());
    let columns =
        [("r/s", ""), ("rMB/s", "MiB/s"), ("avgrq-sz", "sectors"), ("await", "ms"), ("util", "%")];
    let mut table = Table::new(title, &columns);
    for (role, reads) in point.last.members.iter().enumerate() {
        let (count, seconds) = ((reads.count as f64).max(1.0), reads.elapsed.as_secs_f64());
        let name = format!("m{role}");
        let cells = vec![
            Cell::Number(reads.count as f64 / seconds, 1),
            Cell::Number(reads.bytes as f64 / MIB / seconds, 2),
            Cell::Number(reads.bytes as f64 / 512.0 / count, 0),
            Cell::Number(reads.waited.as_secs_f64() * 1e3 / count, 3),
            Cell::Number(reads.utilisation(&name)?, 1),
        ];
        table.row(name, storage, cells);
    }
    let cells = published::MEMBER.map(|figure| Cell::Number(figure, 0)).to_vec();
    table.published("each member, stripe_cache_size 16384", published::ON, cells);
    table.note(
        "The reads of the array. A read that was announced before waits only for the rest of its transfer. Busy is the time \
         in which at least one thread waited.",
    );
    Ok(table)
}

/// Compares the array with others of the same members.
pub(super) fn comparison(study: &Study<'_>, arrays: &[&[Point]]) -> Table {
    let mut table =
        Table::new("The same members as RAID6 and as RAID50, requests of a full stripe", &COST);
    for points in arrays {
        let healthy = points.first().map_or(f64::NAN, |point| point.rate.median());
        for point in *points {
            let Setup { plan, state, .. } = point.setup;
            let name = format!("{}, {}", plan.describe(), state.name());
            table.row(name, &study.member_set.storage, cost_cells(point, healthy));
        }
    }
    table.note(
        "RAID50: several RAID5 with an equal part of the members each, striped by full stripes. Two failed means one failed \
         in each of two. At equal members RAID50 of two has the capacity of RAID6, and of four that of two members less.",
    );
    table
}

/// Plots the array and others of the same members by state.
pub(super) fn comparison_plot(study: &Study<'_>, arrays: &[&[Point]]) -> Plot {
    let states: Vec<String> = arrays
        .first()
        .map_or(Vec::new(), |points| points.iter().map(|point| point.setup.state.name()).collect());
    let at = |point: &Point| {
        let name = point.setup.state.name();
        states.iter().position(|state| *state == name).unwrap_or(states.len()) + 1
    };
    let line_of = |points: &&[Point]| {
        let name = points.first().map_or(String::new(), |point| point.setup.plan.describe());
        line(&name, points.iter(), |_, point| at(point))
    };
    Plot {
        title: format!(
            "The same {} members as RAID6 and as RAID50, {} readers: throughput by state",
            study.options.plan.members, study.options.readers
        ),
        lines: arrays.iter().map(line_of).collect(),
        x: Axis::named("state", states.clone()),
        y: Axis::linear("throughput, MB/s"),
    }
}

/// Formats the section on the stripe cache.
pub(super) fn caches(study: &Study<'_>, points: &[Point]) -> Section {
    let mut section = Section::new("Degraded reads: stripe cache");
    let members = u64::from(study.options.plan.members);
    let stripes = |point: &Point| point.setup.stripe_cache / 4096 / members;
    section.answer = answers::caches(points, stripes);
    let title = format!("By stripe cache, requests of {} KiB", study.options.request >> 10);
    let mut table =
        sweep(study, &title, "stripes of md", points, |point| stripes(point).to_string());
    for (state, stripes, rate) in published::READ {
        let Some(stripes) = stripes else { continue };
        let mut cells = vec![Cell::None; COST.len()];
        cells[0] = Cell::Number(rate, 0);
        table.published(format!("{stripes} stripes of md, {state}"), published::ON, cells);
    }
    table.note("A stripe of md is 4 KiB of every member. The stripe cache serves requests smaller than a full stripe of a degraded array.");
    section.tables.push(table);
    section.tables.push(cache_memory(study, points, stripes));
    let title = title_by(study, "stripe cache");
    let mut plot = sweep_plot(&title, "stripes of md", points, |_, point| size(stripes(point)));
    plot.lines.push(published_caches());
    section.plots.push(plot);
    section
}

fn title_by(study: &Study<'_>, what: &str) -> String {
    format!("{}: throughput by {what}", study.options.plan.describe())
}

/// Formats the section on chunks.
pub(super) fn chunks(study: &Study<'_>, points: &[Point]) -> Section {
    let mut section = Section::new("Degraded reads: chunks");
    section.answer = answers::chunks(points);
    let kib = |point: &Point| point.setup.plan.chunk >> 10;
    let title = "By chunk, requests of a full stripe";
    section.tables.push(sweep(study, title, "KiB", points, |point| kib(point).to_string()));
    let title = title_by(study, "chunk");
    let mut plot = sweep_plot(&title, "chunk, KiB", points, |_, point| size(kib(point)));
    plot.lines.extend(published_at(published::CHUNK_KIB, &published::READ));
    section.plots.push(plot);
    section
}

/// Formats the section on the number of readers.
pub(super) fn readers(study: &Study<'_>, points: &[Point]) -> Section {
    let mut section = Section::new("Degraded reads: readers");
    section.answer = answers::readers(points);
    let named = |point: &Point| {
        let pinned = if point.setup.pinned { " pinned" } else { "" };
        format!("{}{pinned}", point.setup.readers)
    };
    let title = "By readers, requests of a full stripe";
    let mut table = sweep(study, title, "readers", points, named);
    for (state, stripes, rate) in published::READ {
        let cache = stripes.map_or(String::new(), |n| format!(", stripe_cache_size {n}"));
        let mut cells = vec![Cell::None; COST.len()];
        cells[0] = Cell::Number(rate, 0);
        let name = format!("{} readers, {state}{cache}", published::READERS);
        table.published(name, published::ON, cells);
    }
    section.tables.push(table);
    let (pinned, free): (Vec<Point>, Vec<Point>) =
        points.iter().cloned().partition(|point| point.setup.pinned);
    let title = title_by(study, "readers");
    let mut plot = sweep_plot(&title, "readers", &free, |_, point| point.setup.readers);
    for mut line in sweep_plot("", "", &pinned, |_, point| point.setup.readers).lines {
        line.name.push_str(", pinned");
        plot.lines.push(line);
    }
    plot.lines.extend(published_at(published::READERS, &published::READ));
    section.plots.push(plot);
    section
}

/// Formats the memory of the stripe cache beside that of md's.
#[allow(clippy::cast_precision_loss)] // of megabytes
fn cache_memory(study: &Study<'_>, caches: &[Point], stripes: impl Fn(&Point) -> u64) -> Table {
    let columns = [("allowed", "MiB"), ("allocated", "MiB"), ("of allowed", "%")];
    let mut table = Table::new("Memory of the stripe cache, one failed member", &columns);
    let degraded = |point: &&Point| point.setup.state == State::Missing(1);
    for point in caches.iter().filter(degraded).filter(|point| !point.is_too_short()) {
        let (allowed, used) = (point.setup.stripe_cache as f64, point.last.cache.0 as f64);
        let cells = vec![
            Cell::Number(allowed / MIB, 0),
            Cell::Number(used / MIB, 0),
            Cell::Number(used * 100.0 / allowed, 0),
        ];
        table.row(format!("{} stripes of md", stripes(point)), &study.member_set.storage, cells);
    }
    for stripes in published::READ.iter().filter_map(|(_, stripes, _)| *stripes) {
        let all = (stripes * published::PAGE * published::MEMBERS) as f64 / MIB;
        let cells = vec![Cell::Number(all, 0), Cell::Number(all, 0), Cell::Number(100.0, 0)];
        table.push(
            format!("md, stripe_cache_size {stripes}: page times members times entries"),
            published::ON,
            Source::Model,
            cells,
        );
    }
    table.note(
        "Allocated is what the cache took in the last turn. It takes a stripe when a reader needs one, and keeps it. md \
         allocates its cache when stripe_cache_size is set.",
    );
    table
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Formats a table of points, which alternate between healthy and degraded.
fn sweep(
    study: &Study<'_>,
    title: &str,
    unit: &str,
    points: &[Point],
    name: impl Fn(&Point) -> String,
) -> Table {
    let mut table = Table::new(title, &COST);
    for pair in points.chunks(2) {
        for point in pair {
            let healthy = pair[0].rate.median();
            let name = format!("{} {unit}, {}", name(point), point.setup.state.name());
            table.row(name, &study.member_set.storage, cost_cells(point, healthy));
        }
    }
    table
}

/// Plots a line for healthy and one for degraded.
fn sweep_plot(
    title: &str,
    label: &str,
    points: &[Point],
    x: impl Fn(usize, &Point) -> usize,
) -> Plot {
    let of = |n: usize| {
        let state = State::Missing(n);
        let points = points.iter().filter(move |point| point.setup.state == state);
        line(&state.name(), points, &x)
    };
    Plot {
        title: title.into(),
        x: Axis::logarithmic(label),
        y: Axis::linear("throughput, MB/s"),
        lines: [0, 1].map(of).into(),
    }
}

/// Formats the section on parity routines.
pub(super) fn routines(plan: &Plan) -> Section {
    let parity = plan.tolerates() / usize::try_from(plan.legs).unwrap_or(1);
    let members = usize::try_from(plan.members / plan.legs).unwrap_or(2);
    let data = members.saturating_sub(parity).clamp(2, 255);
    let mut section = Section::new("Degraded reads: parity routines");
    let columns: Vec<(&str, &str)> =
        Operation::ALL.iter().map(|operation| (operation.name(), "MB/s")).collect();
    let title = format!("{data} members of data, blocks of {BLOCK} bytes, one processor");
    let mut table = Table::new(title, &columns);
    let measured = measure(data, BLOCK);
    section.answer = parity_answer(&measured, data);
    for routine in measured {
        let used = if routine.name == xfskit_parity::selected() { ", used" } else { "" };
        let cells = routine.rates.map(|rate| Cell::Number(rate / 1e6, 0)).to_vec();
        table.row(format!("{}{used}", routine.name), "processor's cache", cells);
    }
    for (name, xor, pq) in published::ROUTINES {
        let mut cells = vec![Cell::None; columns.len()];
        let cell = |rate: Option<f64>| rate.map_or(Cell::None, |rate| Cell::Number(rate, 0));
        (cells[0], cells[1]) = (cell(xor), cell(pq));
        table.published(name, "Linux when it boots, E5-2620 v3", cells);
    }
    table.note("MB of the blocks read, per second.");
    section.tables.push(table);
    section
}

/// Returns the answer to how fast the routine in use computes parity.
fn parity_answer(measured: &[Measured], data: usize) -> Option<Answer> {
    let used = measured.iter().find(|routine| routine.name == xfskit_parity::selected())?;
    let rate = |operation| {
        let at = Operation::ALL.iter().position(|one| *one == operation)?;
        Some(Cell::Number(used.rates[at] / 1e6, 0))
    };
    let published = published::ROUTINES.iter().filter_map(|row| row.2).fold(0.0, f64::max);
    Some(Answer {
        question: "How fast is parity computed?".into(),
        verdict: format!(
            "One processor computes P and Q of {data} blocks at {} MB/s by {}.",
            rate(Operation::Pq)?,
            used.name
        ),
        figure: format!(
            "{} MB/s; two blocks at once {}.",
            rate(Operation::Pq)?,
            rate(Operation::DAndD)?
        ),
        published: format!("{} MB/s.", Cell::Number(published, 0)),
    })
}

#[cfg(test)]
pub(crate) mod testing {
    //! Points for tests.

    use std::time::Duration;

    use super::super::readers::Outcome;
    use super::*;
    use crate::measure::Usage;

    /// A point of a healthy array that read this many MB in a second, a request for each.
    pub(crate) fn point(requests: u64) -> Point {
        let plan = Plan { level: xfskit_md::Level::Raid6, legs: 1, members: 24, chunk: 512 << 10 };
        let state = State::Missing(0);
        let setup = Setup {
            plan,
            state,
            readers: 50,
            request: 0,
            stripe_cache: 0,
            pinned: false,
            rebuild_limit: None,
            time: Duration::from_secs(1),
        };
        let usage = Usage { wall: Duration::from_secs(1), ..Usage::default() };
        let outcome = Outcome {
            bytes: requests * 1_000_000,
            requests,
            usage,
            io_stats: IoStats::default(),
            members: Vec::new(),
            rebuilt: None,
            cache: ByteLen(0),
        };
        Point::new(setup, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::point;
    use super::*;

    #[test]
    fn a_point_that_is_too_short_is_not_printed() {
        let (long, short) = (point(500), point(40));
        let shown: Vec<String> =
            cost_cells(&long, 500.0)[..3].iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["500", "–", "1.000"], "one turn shows no spread");
        let cells = cost_cells(&short, 500.0);
        assert_eq!(cells[..7], vec![Cell::None; 7]);
        assert_eq!(cells[7], Cell::Count(0));
        let plotted = line("", [&long, &short, &long].into_iter(), |n, _| n + 1).points;
        assert_eq!(plotted, [(1.0, 500.0), (3.0, 500.0)]);
        assert_eq!(cost_cells(&long, short.rate.median())[2].to_string(), "–", "no ratio to it");
        let mut turns = short;
        turns.add(point(300).last);
        assert_eq!((turns.rate.values(), turns.last.requests), (&[300.0][..], 300));
    }

    #[test]
    fn every_verdict_has_its_words() {
        let of = |low, high, turns| {
            verdict(Interval { middle: f64::midpoint(low, high), low, high, turns }, 0.125, 24)
        };
        assert_eq!(
            of(0.94, 0.96, 5),
            "Next to nothing: the array reads 0.95 times what it reads healthy (0.94 to 0.96 times)."
        );
        assert!(of(0.6, 0.7, 5).starts_with("A part of the rate, and less than published"));
        assert!(of(0.04, 0.06, 5).starts_with("As much as published, or more"));
        assert_eq!(of(0.7, 0.95, 5), "Not decided by this run: 0.70 to 0.95 times.");
        assert_eq!(of(0.94, 0.96, 3), "Not decided by 3 turns: 0.94 to 0.96 times.");
    }
}
