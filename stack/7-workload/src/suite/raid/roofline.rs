//! The roofline: how fast members may be until processors are the bound.
//!
//! The array is read with members of several speeds, and with members in memory, whose rate is the
//! bound of processors and memory. The roof is a model: the smaller of that bound and of what the
//! remaining members deliver together.

use std::io;
use std::time::{Duration, Instant};

use xfskit_md::Level;
use xfskit_units::ByteOffset;

use super::members::{MemberKind, MemberSet};
use super::readers::{Setup, State};
use super::{Options, Point, Study, published, tables};
use crate::measure::share::percent_of;
use crate::measure::{Samples, together};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::Observer;

/// Latency of simulated members.
pub(super) const LATENCY: Duration = Duration::from_micros(100);
/// Turns of reading the members without an array.
const TURNS: usize = 5;
/// Time of such a turn.
const TURN: Duration = Duration::from_millis(100);
/// Bytes of such a read.
const READ: usize = 1 << 20;
/// Readers of slower members read for longer, so that as many bytes are read: the last requests run
/// beside fewer others.
const SLOW: u64 = 200_000_000;
/// At most this many times as long.
const LONGER_MAX: u32 = 8;
/// The aim: this part of the roof.
const AIM: f64 = 0.9;

/// The rates that limit a state of the array, in MB/s.
#[derive(Clone, Copy, Debug)]
struct Roof {
    /// Members that can be read.
    remaining: f64,
    /// Measured with members in memory.
    processors: f64,
}

impl Roof {
    /// Returns what members of `speed` MB/s deliver together. Parity rotates, so over many stripes
    /// each remaining member delivers an equal part of the data.
    fn members(self, speed: f64) -> f64 {
        self.remaining * speed
    }

    fn at(self, speed: f64) -> f64 {
        self.members(speed).min(self.processors)
    }

    /// Returns the speed of a member above which processors are the bound.
    fn ridge(self) -> f64 {
        self.processors / self.remaining
    }
}

/// One state at all speeds.
struct Rise {
    state: State,
    roof: Roof,
    /// Speed of a member in MB/s, and the point.
    points: Vec<(f64, Point)>,
    /// With members in memory.
    unlimited: Point,
}

/// Returns true if the level rotates parity, and members are in memory: the speed of files is not
/// known.
pub(super) fn applies(options: &Options) -> bool {
    matches!(options.plan.level, Level::Raid5 | Level::Raid6)
        && !matches!(options.members, MemberKind::Files(_))
}

/// Returns the time of a point with members of `speed` bytes per second.
fn time_at(time: Duration, speed: u64) -> Duration {
    let longer = u32::try_from(SLOW.div_ceil(speed.max(1))).unwrap_or(LONGER_MAX);
    time * longer.min(LONGER_MAX)
}

/// Returns the time of a point without a limit, and at each speed.
pub(super) fn times(options: &Options) -> impl Iterator<Item = Duration> {
    let limited = options.speeds.iter().map(|speed| time_at(options.time, *speed));
    std::iter::once(options.time).chain(limited)
}

/// Measures the states at all speeds.
pub(super) fn section(study: &Study<'_>, observer: &mut dyn Observer) -> io::Result<Section> {
    let plan = study.options.plan;
    let files = || io::Error::other("members in files have no speed that is known");
    let memory = study.member_set.as_kind(&MemberKind::Memory).ok_or_else(files)?;
    let states: Vec<State> = (0..=plan.tolerates().min(2)).map(State::Missing).collect();
    let setup = |state: &State| Setup { state: *state, ..study.default_setup() };
    let setups = || states.iter().map(setup).collect::<Vec<_>>();
    let unlimited = study.measure_on(&memory, "members without a limit", setups(), observer)?;
    let mut rises = Vec::new();
    for (state, unlimited) in states.iter().zip(unlimited) {
        let remaining =
            f64::from(plan.members) - f64::from(u8::try_from(state.missing()).unwrap_or(0));
        let roof = Roof { remaining, processors: unlimited.rate.median() };
        rises.push(Rise { state: *state, roof, points: Vec::new(), unlimited });
    }
    for speed in &study.options.speeds {
        let kind = MemberKind::Simulated { speed: *speed, latency: LATENCY };
        let Some(limited) = memory.as_kind(&kind) else { continue };
        let time = time_at(study.options.time, *speed);
        let setups = setups().into_iter().map(|setup| Setup { time, ..setup }).collect();
        let points = study.measure_on(&limited, "speed of members", setups, observer)?;
        for (rise, point) in rises.iter_mut().zip(points) {
            rise.points.push((megabytes(*speed), point));
        }
    }
    let direct = direct(&memory)?;
    let array = plan.describe();
    let mut section = Section::new("Degraded reads: speed of members");
    section.answer = answer(&rises);
    for sentence in sentences(&rises, direct.as_ref()) {
        section.paragraph(sentence);
    }
    section.tables.push(table(&rises, direct.as_ref())?);
    section.plots.push(Plot {
        title: format!(
            "{array}, {} readers: throughput by speed of a member",
            study.options.readers
        ),
        x: Axis::logarithmic("speed of a member, MB/s"),
        y: Axis::logarithmic("throughput, MB/s"),
        lines: lines(&rises),
    });
    Ok(section)
}

#[allow(clippy::cast_precision_loss)] // of a rate
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Reads the members with a thread on every processor and without an array. Returns MB/s, or
/// `None` if the threads did not run at the same time.
#[allow(clippy::cast_precision_loss)] // of megabytes
fn direct(memory: &MemberSet) -> io::Result<Option<Samples>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (disks, size) = (memory.disks(), memory.size());
    let work = |thread: usize, since: Instant| -> io::Result<together::Piece> {
        let (mut buf, mut n, mut failed) = (vec![0; READ * disks.len()], thread, None);
        let piece = together::Piece::of(since, TURN, || {
            let at = (n * READ) as u64 % size.saturating_sub(READ as u64).max(1);
            for (disk, part) in disks.iter().zip(buf.chunks_exact_mut(READ)) {
                if let Err(err) = disk.read_at(ByteOffset(at), part) {
                    failed = Some(io::Error::other(err));
                }
            }
            n += threads;
            buf.len() as f64 / 1e6
        });
        failed.map_or(Ok(piece), Err)
    };
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let since = Instant::now();
        let pieces = std::thread::scope(|scope| {
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || work(thread, since))).collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect::<io::Result<Vec<_>>>()
        })?;
        turns.push(pieces);
    }
    Ok(together::rates(&turns))
}

/// Describes what bounds each state, and whether the aim is reached.
fn sentences(rises: &[Rise], direct: Option<&Samples>) -> Vec<String> {
    let mut texts = vec![format!(
        "Ceiling: the smaller of what the remaining members deliver together, and of what these processors deliver from \
         members in memory. It is a model (the roof in the plot). Aim: {:.0} % of it in every state and at every speed.",
        AIM * 100.0
    )];
    if let Some(direct) = direct {
        texts.push(format!(
            "Without an array all processors together read {} MB/s from these members in memory.",
            Cell::Number(direct.median(), 0)
        ));
    }
    let answered = answered(rises).map(|rise| rise.state);
    let others = rises.iter().filter(|rise| Some(rise.state) != answered);
    texts.extend(others.filter(|rise| !rise.unlimited.is_too_short()).map(sentence));
    texts
}

/// Returns the state that the answer is about: one failed member, if that was measured.
fn answered(rises: &[Rise]) -> Option<&Rise> {
    let long = || rises.iter().filter(|rise| !rise.unlimited.is_too_short());
    long().find(|rise| rise.state == State::Missing(1)).or_else(|| long().next())
}

/// Returns the answer to up to which speed of members the array keeps up.
fn answer(rises: &[Rise]) -> Option<Answer> {
    let rise = answered(rises)?;
    let [.., (_, _, failed)] = published::READ;
    let [_, mib, ..] = published::MEMBER;
    Some(Answer {
        question: "From which speed of a member on are the processors the bound?".into(),
        verdict: sentence(rise),
        figure: format!(
            "{} MB/s of each member, {} MB/s in all.",
            Cell::Number(rise.roof.ridge(), 0),
            Cell::Number(rise.roof.processors, 0)
        ),
        published: format!(
            "{} MB/s of each member with one failed, {} MB/s in all.",
            Cell::Number(tables::megabytes_of_mib(mib), 0),
            Cell::Number(failed, 0)
        ),
    })
}

fn sentence(rise: &Rise) -> String {
    let Rise { state, roof, points, .. } = rise;
    let missed: Vec<String> = points
        .iter()
        .filter(|(speed, point)| point.rate.median() < AIM * roof.at(*speed))
        .map(|(speed, _)| Cell::Number(*speed, 0).to_string())
        .collect();
    let measured = points.iter().filter(|(_, point)| !point.is_too_short()).count();
    let aim = match (measured, missed.len()) {
        (0, _) => "No speed was measured for long enough".into(),
        (_, 0) => "The aim is reached at every speed".into(),
        (n, missed) if missed == n => "The aim is missed at every speed".into(),
        _ => format!("The aim is missed with members of {} MB/s", missed.join(", ")),
    };
    let fastest = points.iter().map(|(speed, _)| *speed).fold(0.0, f64::max);
    let ridge = Cell::Number(roof.ridge(), 0);
    let bound = if fastest > roof.ridge() {
        format!("members of more than {ridge} MB/s each are faster than these processors")
    } else {
        format!("these processors would be the bound from {ridge} MB/s on, which was not measured")
    };
    let mut name = state.name();
    name[..1].make_ascii_uppercase();
    format!("{name}: {bound}. {aim}.")
}

fn table(rises: &[Rise], direct: Option<&Samples>) -> io::Result<Table> {
    let columns = [
        ("read", "MB/s"),
        ("spread", "± %"),
        ("members' bound", "MB/s"),
        ("processors' bound", "MB/s"),
        ("to the roof", "times"),
        ("processor", "ns/byte"),
        ("turns", ""),
    ];
    let mut table = Table::new("By speed of a member, requests of a full stripe", &columns);
    for rise in rises {
        for (speed, point) in &rise.points {
            let name = format!("{} MB/s, {}", Cell::Number(*speed, 0), rise.state.name());
            table.row(name.clone(), "simulated members", cells(&name, rise.roof, *speed, point)?);
        }
        let name = format!("no limit, {}", rise.state.name());
        table.row(name, "members in memory", unlimited_cells(&rise.unlimited));
    }
    if let Some(direct) = direct {
        let mut cells = vec![Cell::None; columns.len()];
        cells[0] = Cell::Number(direct.median(), 0);
        cells[1] = Cell::Number(direct.spread() * 100.0, 1);
        cells[6] = Cell::Count(direct.count() as u64);
        table.row("all processors, without an array", "members in memory", cells);
    }
    table.note(
        "Members' bound: remaining members times their speed, computed. Processors' bound: the rate with members in memory. \
         The roof is the smaller one. A stripe that two readers want at once is read once, so readers may get a little more \
         than the members' bound; the members themselves never deliver more. The roof counts no parity, because a healthy read skips it at no cost; a disk that transfers \
         the parity between two chunks as well delivers only the part of its data.",
    );
    Ok(table)
}

fn cells(name: &str, roof: Roof, speed: f64, point: &Point) -> io::Result<Vec<Cell>> {
    let bounds = [roof.members(speed), roof.processors].map(|rate| Cell::Number(rate, 0));
    let [members, processors] = bounds;
    if point.is_too_short() {
        return Ok(vec![
            Cell::None,
            Cell::None,
            members,
            processors,
            Cell::None,
            Cell::None,
            Cell::Count(0),
        ]);
    }
    let rate = point.rate.median();
    // The stripe cache may serve a second reader without the members.
    let delivered = point.last.rate() * point.last.per_byte(point.last.io_stats.read.0);
    let what = format!("what members deliver, {name}, of their bound");
    percent_of(&what, delivered, roof.members(speed))?;
    Ok(vec![
        Cell::Number(rate, 0),
        Cell::Number(point.rate.spread() * 100.0, 1),
        members,
        processors,
        Cell::Number(rate / roof.at(speed), 2),
        Cell::Number(point.last.processor(), 3),
        Cell::Count(point.rate.count() as u64),
    ])
}

fn unlimited_cells(point: &Point) -> Vec<Cell> {
    let mut cells = vec![Cell::None; 6];
    cells.push(Cell::Count(point.rate.count() as u64));
    if !point.is_too_short() {
        cells[0] = Cell::Number(point.rate.median(), 0);
        cells[1] = Cell::Number(point.rate.spread() * 100.0, 1);
        cells[5] = Cell::Number(point.last.processor(), 3);
    }
    cells
}

fn lines(rises: &[Rise]) -> Vec<Line> {
    let measured = |rise: &Rise| Line {
        name: rise.state.name(),
        source: Source::Measured,
        points: rise
            .points
            .iter()
            .filter(|(_, point)| !point.is_too_short())
            .map(|(speed, point)| (*speed, point.rate.median()))
            .collect(),
    };
    let model = |rise: &Rise| Line {
        name: format!("{}: the roof", rise.state.name()),
        source: Source::Model,
        points: roof_points(rise.roof, &rise.points),
    };
    let lines = rises.iter().map(measured).chain(rises.iter().map(model));
    lines.chain(tables::published_roof(&published::READ)).collect()
}

/// Returns the corners of the roof over the measured speeds.
fn roof_points(roof: Roof, points: &[(f64, Point)]) -> Vec<(f64, f64)> {
    let speeds = || points.iter().map(|(speed, _)| *speed);
    let (least, most) = (speeds().fold(f64::MAX, f64::min), speeds().fold(0.0, f64::max));
    let ridge = Some(roof.ridge()).filter(|ridge| (least..most).contains(ridge));
    [Some(least), ridge, Some(most)].into_iter().flatten().map(|at| (at, roof.at(at))).collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // of values that are exact
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
mod tests {
    use xfskit_units::ByteLen;

    use super::super::tables::testing::point;
    use super::*;

    fn rise(rates: &[(f64, u64)]) -> Rise {
        let points = rates.iter().map(|(speed, rate)| (*speed, point(*rate))).collect();
        let roof = Roof { remaining: 20.0, processors: 8000.0 };
        Rise { state: State::Missing(1), roof, points, unlimited: point(8000) }
    }

    #[test]
    fn the_roof_is_the_smaller_of_both_bounds() {
        let roof = Roof { remaining: 20.0, processors: 8000.0 };
        assert_eq!((roof.at(100.0), roof.ridge(), roof.at(1000.0)), (2000.0, 400.0, 8000.0));
        let rise = rise(&[(100.0, 2000), (800.0, 7900)]);
        assert_eq!(
            roof_points(roof, &rise.points),
            [(100.0, 2000.0), (400.0, 8000.0), (800.0, 8000.0)]
        );
        let slow = [(100.0, point(2000)), (200.0, point(4000))];
        assert_eq!(roof_points(roof, &slow), [(100.0, 2000.0), (200.0, 4000.0)], "no corner");
    }

    #[test]
    fn slow_members_are_read_for_longer() {
        let time = |speed| time_at(Duration::from_secs(1), speed).as_secs();
        assert_eq!(
            [0, 1, 50, 100, 150, 200, 3200].map(|mb| time(mb * 1_000_000)),
            [8, 8, 4, 2, 2, 1, 1]
        );
    }

    /// Returns a point of `rate` MB/s, for which members delivered `delivered` per byte.
    fn delivered(rate: u64, delivered: f64) -> Point {
        let mut point = point(rate);
        let read = delivered * point.last.bytes as f64;
        point.last.io_stats.read = ByteLen(read as u64);
        point
    }

    #[test]
    fn members_that_deliver_more_than_they_can_fail() {
        let roof = Roof { remaining: 20.0, processors: 8000.0 };
        let shown = cells("a", roof, 100.0, &delivered(2000, 1.0)).expect("as fast as the members");
        assert_eq!(shown[4].to_string(), "1.00");
        let error = cells("100 MB/s, healthy", roof, 100.0, &delivered(2010, 1.0));
        let error = error.expect_err("too much").to_string();
        assert!(error.contains("what members deliver, 100 MB/s, healthy"), "{error}");
        cells("a", roof, 100.0, &delivered(2010, 0.99)).expect("a stripe went to two readers");
        let short = cells("a", roof, 100.0, &point(40)).expect("no figures");
        assert_eq!((&short[0], &short[4]), (&Cell::None, &Cell::None));
    }

    #[test]
    fn the_answer_is_about_one_failed_member_and_is_not_said_twice() {
        let healthy = Rise { state: State::Missing(0), ..rise(&[(100.0, 2000)]) };
        let rises = [healthy, rise(&[(100.0, 1990)])];
        let answer = answer(&rises).expect("an answer");
        assert!(answer.verdict.starts_with("One failed: "), "{}", answer.verdict);
        assert_eq!(answer.figure, "400 MB/s of each member, 8,000 MB/s in all.");
        let texts = sentences(&rises, None);
        assert!(texts.len() == 2 && texts[1].starts_with("Healthy: "), "{texts:?}");
    }

    #[test]
    fn every_outcome_has_its_sentence() {
        let text = |rates: &[(f64, u64)]| sentence(&rise(rates));
        assert!(text(&[(100.0, 1990), (800.0, 7500)]).ends_with("reached at every speed."));
        assert!(text(&[(100.0, 1990), (800.0, 5000)]).ends_with("with members of 800 MB/s."));
        assert!(text(&[(100.0, 1000), (800.0, 5000)]).ends_with("missed at every speed."));
        assert!(text(&[]).contains("No speed was measured"));
        assert!(text(&[(100.0, 1990)]).starts_with("One failed: these processors would be the"));
        assert!(text(&[(800.0, 8000)]).contains("more than 400 MB/s each are faster"));
    }
}
