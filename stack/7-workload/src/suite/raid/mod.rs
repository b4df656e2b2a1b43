//! Study C: sequential readers of a degraded array.
//!
//! Many readers each read a file from start to end and then another one. The array is healthy,
//! lacks one or two members, or is being rebuilt. The study varies the size of the stripe cache,
//! the chunk size, the size of requests, the number of readers, and whether they are pinned to
//! processors. It also arranges the same members as a RAID50.
//!
//! | module | what |
//! | --- | --- |
//! | `member` | a device with the counters of iostat |
//! | [`members`] | members and arrays of them |
//! | `content` | what is read: ranges of the array, or files of a volume on it |
//! | `volume` | an XFS volume on the array, and its files |
//! | `readers` | the workload |
//! | `files` | readers of files of the volume |
//! | `roofline` | members of every speed, until processors are the bound |
//! | `sizes` | requests of every size |
//! | `rebuild` | a rebuild under load, with limits |
//! | `tables` | the tables and plots of the rest |
//! | `answers` | the answers of the sections |
//! | [`published`] | published figures |

mod answers;
mod content;
mod files;
mod member;
pub mod members;
pub mod published;
mod readers;
mod rebuild;
mod roofline;
mod sizes;
mod tables;
mod volume;

use std::io;
use std::time::Duration;

use serde_json::json;

use crate::image;
use crate::measure::Samples;
use crate::report::Section;
use crate::suite::{Observer, PartPlan, Parts, Settings};
use crate::testbed::Implementation;
use content::Content;
use members::{MemberKind, MemberSet, Plan};
use readers::{Outcome, Setup, State};

/// The size of members is a multiple of this many bytes, and so of any chunk size in the study.
const ROUND: u64 = 4 << 20;

/// The parameters of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The array.
    pub plan: Plan,
    /// The kind of members.
    pub members: MemberKind,
    /// Number of readers.
    pub readers: usize,
    /// Mean size of a file in bytes.
    pub file_size: u64,
    /// Bytes of a small request; large requests are full stripes.
    pub request: u64,
    /// Bytes of the stripe cache unless it is varied.
    pub stripe_cache: u64,
    /// Time of each point.
    pub time: Duration,
    /// Sizes of the stripe cache to measure, in stripes as md counts them.
    pub caches: Vec<u64>,
    /// Chunk sizes to measure, in bytes.
    pub chunks: Vec<u64>,
    /// Numbers of readers to measure.
    pub threads: Vec<usize>,
    /// Sizes of requests to measure, in bytes.
    pub requests: Vec<u64>,
    /// Speeds of simulated members to measure, in bytes per second.
    pub speeds: Vec<u64>,
    /// Limits of a rebuild to measure, in bytes per second of a member.
    pub rebuild_limits: Vec<u64>,
    /// Read files of an XFS volume on the array, too.
    pub volume: bool,
    /// Measure the same members as RAID50, too: as two arrays and as four.
    pub raid50: bool,
}

/// A point of measurement with all its turns.
#[derive(Clone, Debug)]
struct Point {
    setup: Setup,
    /// MB/s of the turns that were long enough.
    rate: Samples,
    /// The last turn that was long enough, if any was.
    last: Outcome,
}

/// The context of all points.
struct Study<'s> {
    member_set: MemberSet,
    content: Content,
    options: &'s Options,
    settings: &'s Settings,
}

impl Study<'_> {
    /// Returns the default setup: all readers, requests of a full stripe.
    fn default_setup(&self) -> Setup {
        Setup {
            plan: self.options.plan,
            state: State::Missing(0),
            readers: self.options.readers,
            request: 0,
            stripe_cache: self.options.stripe_cache,
            pinned: false,
            rebuild_limit: None,
            time: self.options.time,
        }
    }

    /// Returns the states that the plan supports, up to two failed members.
    fn states(plan: &Plan) -> Vec<State> {
        let most = plan.tolerates().min(2);
        let mut states: Vec<State> = (0..=most).map(State::Missing).collect();
        if most > 0 {
            states.push(State::Rebuilding);
        }
        states
    }

    /// Measures these points in interleaved turns.
    fn measure(
        &self,
        what: &str,
        setups: Vec<Setup>,
        observer: &mut dyn Observer,
    ) -> io::Result<Vec<Point>> {
        self.measure_on(&self.member_set, what, setups, observer)
    }

    /// Measures these points on other members.
    fn measure_on(
        &self,
        member_set: &MemberSet,
        what: &str,
        setups: Vec<Setup>,
        observer: &mut dyn Observer,
    ) -> io::Result<Vec<Point>> {
        let mut points: Vec<Point> = Vec::new();
        for turn in 1..=self.settings.repetitions {
            for (n, &setup) in setups.iter().enumerate() {
                let state = setup.state.name();
                observer
                    .progress(&format!("{what}, turn {turn}: {}, {state}", setup.plan.name()))?;
                let last = readers::run(member_set, &self.content, setup, self.settings.seed)?;
                if points.len() == n {
                    points.push(Point::new(setup, last));
                } else {
                    points[n].add(last);
                }
            }
        }
        for point in &points {
            observer.result(point.to_json(what, &member_set.storage))?;
        }
        Ok(points)
    }
}

impl Point {
    fn new(setup: Setup, first: Outcome) -> Self {
        let mut point = Self { setup, rate: Samples::default(), last: first.clone() };
        point.add(first);
        point
    }

    /// Adds a turn, unless it was too short to mean anything.
    fn add(&mut self, turn: Outcome) {
        if !turn.is_too_short(self.setup.readers) {
            self.rate.add(turn.rate());
            self.last = turn;
        }
    }

    /// Returns true if no turn was long enough: the point has no figures.
    fn is_too_short(&self) -> bool {
        self.rate.count() == 0
    }

    fn to_json(&self, what: &str, storage: &str) -> serde_json::Value {
        let Setup { plan, state, readers, request, stripe_cache, pinned, rebuild_limit, .. } =
            self.setup;
        let Outcome { bytes, requests, usage, io_stats, rebuilt, cache, .. } = &self.last;
        json!({ "raid": {
            "table": what,
            "array": plan.name(),
            "legs": plan.legs,
            "members": plan.members,
            "chunk_bytes": plan.chunk,
            "state": state.name(),
            "storage": storage,
            "readers": readers,
            "request_bytes": if request == 0 { json!("stripe") } else { json!(request) },
            "stripe_cache_bytes": stripe_cache,
            "stripe_cache_used_bytes": cache,
            "pinned": pinned,
            "rebuild_limit": rebuild_limit,
            "mb_per_second": self.rate,
            "too_short": self.is_too_short(),
            "bytes": bytes,
            "requests": requests,
            "wall_seconds": usage.wall.as_secs_f64(),
            "processor_seconds": usage.processor.as_secs_f64(),
            "read_bytes": io_stats.read,
            "loaded_bytes": io_stats.loaded,
            "stored_bytes": io_stats.stored,
            "rebuilt_bytes": rebuilt.map(|rebuilt| rebuilt.bytes),
        }})
    }
}

/// Why the kernel has no column.
const KERNEL_SKIPPED: &str =
    "The kernel was not measured: its md needs members and a kernel of its own.";

/// Runs the study.
///
/// # Errors
/// If members cannot be made or do not form the array, and if the observer stops the suite.
pub fn run(options: &Options, settings: &Settings, observer: &mut dyn Observer) -> io::Result<()> {
    let plan = options.plan;
    let files = readers::files(options.readers.max(1), options.file_size, settings.seed);
    let room = files.last().map_or(0, |file| file.end);
    // The array with the most parity holds all files as well.
    let parity = plan.raid50s().iter().map(Plan::tolerates).max().unwrap_or(0);
    let parity = u64::try_from(parity.max(plan.tolerates())).unwrap_or(0);
    let data = u64::from(plan.members).saturating_sub(parity).max(1);
    let size = room.div_ceil(data).next_multiple_of(ROUND);
    let what = format!("{} members of {} MB", plan.members, size / 1_000_000);
    if let MemberKind::Files(dir) = &options.members {
        let bytes = size.saturating_mul(plan.members.into());
        image::verify_space(dir, xfskit_units::ByteLen(bytes), &what)?;
    }
    let skipped = settings.wants(Implementation::Kernel).then(|| KERNEL_SKIPPED.into());
    let mut parts = Parts::begin("raid", part_plans(options, settings), skipped, observer)?;
    if OF_MEMBERS.iter().any(|part| parts.wants(part)) {
        let content = Content::Ranges(files.clone());
        let member_set = MemberSet::new(&options.members, plan.members, size, settings.seed)?;
        measure_members(&Study { member_set, content, options, settings }, &mut parts)?;
    }
    // The volume has members of its own. The memory of the others is free by now.
    if options.volume {
        parts.measure("volume", |observer| files::section(options, settings, &files, observer))?;
    }
    parts.measure("routines", |_| Ok(tables::routines(&plan)))
}

/// The parts that share a set of members.
const OF_MEMBERS: [&str; 8] =
    ["states", "raid50", "speeds", "sizes", "caches", "chunks", "readers", "rebuild"];

/// Measures the parts that share a set of members.
fn measure_members(study: &Study<'_>, parts: &mut Parts<'_>) -> io::Result<()> {
    let mut rows = None;
    parts.measure("states", |observer| {
        let (section, measured) = states(study, observer)?;
        rows = Some(measured);
        Ok(section)
    })?;
    if !fifties(study.options).is_empty() {
        parts.measure("raid50", |observer| raid50(study, rows, observer))?;
    }
    if roofline::applies(study.options) {
        parts.measure("speeds", |observer| roofline::section(study, observer))?;
    }
    if study.options.plan.tolerates() > 0 {
        parts.measure("sizes", |observer| sizes::section(study, observer))?;
        parts.measure("caches", |observer| caches(study, observer))?;
        parts.measure("chunks", |observer| chunks(study, observer))?;
        parts.measure("readers", |observer| by_readers(study, observer))?;
        parts.measure("rebuild", |observer| rebuild::section(study, observer))?;
    }
    Ok(())
}

/// Returns the arrangements of the members as RAID50 that are measured.
fn fifties(options: &Options) -> Vec<Plan> {
    if options.raid50 { options.plan.raid50s() } else { Vec::new() }
}

/// Returns the parts with their steps. A step is a point.
fn part_plans(options: &Options, settings: &Settings) -> Vec<PartPlan> {
    let (plan, time) = (options.plan, options.time);
    let part =
        |name: &str, points: usize| PartPlan::timed(name, points * settings.repetitions, time);
    let mut parts = vec![part("states", 2 * Study::states(&plan).len())];
    let fifties: usize = fifties(options).iter().map(|fifty| Study::states(fifty).len()).sum();
    if fifties > 0 {
        parts.push(part("raid50", fifties));
    }
    let missing = 1 + plan.tolerates().min(2);
    if roofline::applies(options) {
        let steps = roofline::times(options)
            .flat_map(|time| std::iter::repeat_n(time, missing * settings.repetitions));
        parts.push(PartPlan::of_times("speeds", steps));
    }
    if plan.tolerates() > 0 {
        parts.push(part("sizes", sizes::points(options)));
        parts.push(part("caches", 2 * options.caches.len()));
        parts.push(part("chunks", 2 * options.chunks.len()));
        parts.push(part("readers", 2 * 2 * options.threads.len()));
        parts.push(part("rebuild", 3 + options.rebuild_limits.len()));
    }
    if options.volume {
        let ways = 2 + usize::from(settings.wants(Implementation::Mount));
        parts.push(part("volume", ways * missing));
    }
    parts.push(PartPlan::new("routines", 0));
    parts
}

/// Returns the setups of an array in every state.
fn in_every_state(study: &Study<'_>, plan: Plan, request: u64) -> Vec<Setup> {
    let setup = |state| Setup { plan, state, request, ..study.default_setup() };
    Study::states(&plan).into_iter().map(setup).collect()
}

/// Measures the array in every state. Returns the points with requests of a full stripe, too.
fn states(study: &Study<'_>, observer: &mut dyn Observer) -> io::Result<(Section, Vec<Point>)> {
    let plan = study.options.plan;
    let rows = study.measure(FULL_STRIPE, in_every_state(study, plan, 0), observer)?;
    let small = in_every_state(study, plan, study.options.request);
    let small = study.measure("states, small requests", small, observer)?;
    Ok((tables::states(study, &rows, &small)?, rows))
}

/// What the points of an array in every state are called.
const FULL_STRIPE: &str = "states, requests of a full stripe";

/// Compares the array with the same members as RAID50. `rows` are its points, if they were measured
/// in this run.
fn raid50(
    study: &Study<'_>,
    rows: Option<Vec<Point>>,
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let plan = study.options.plan;
    let rows = match rows {
        Some(rows) => rows,
        None => study.measure(FULL_STRIPE, in_every_state(study, plan, 0), observer)?,
    };
    let mut arrays = vec![rows];
    for fifty in fifties(study.options) {
        let what = format!("{}, requests of a full stripe", fifty.describe());
        arrays.push(study.measure(&what, in_every_state(study, fifty, 0), observer)?);
    }
    let mut section = Section::new("Degraded reads: the same members as RAID50");
    let arrays: Vec<&[Point]> = arrays.iter().map(Vec::as_slice).collect();
    section.answer = answers::raid50(&arrays);
    section.tables.push(tables::comparison(study, &arrays));
    section.plots.push(tables::comparison_plot(study, &arrays));
    Ok(section)
}

/// Returns a setup healthy and with one failed member.
fn both(setup: Setup) -> [Setup; 2] {
    [0, 1].map(|n| Setup { state: State::Missing(n), ..setup })
}

/// Varies the stripe cache.
fn caches(study: &Study<'_>, observer: &mut dyn Observer) -> io::Result<Section> {
    let (default_setup, options) = (study.default_setup(), study.options);
    let setup = |stripes: &u64| Setup {
        request: options.request,
        stripe_cache: stripes * 4096 * u64::from(default_setup.plan.members),
        ..default_setup
    };
    let setups = options.caches.iter().map(setup).flat_map(both).collect();
    Ok(tables::caches(study, &study.measure("stripe cache", setups, observer)?))
}

/// Varies the size of chunks.
fn chunks(study: &Study<'_>, observer: &mut dyn Observer) -> io::Result<Section> {
    let default_setup = study.default_setup();
    let setup =
        |bytes: &u64| Setup { plan: Plan { chunk: *bytes, ..default_setup.plan }, ..default_setup };
    let setups = study.options.chunks.iter().map(setup).flat_map(both).collect();
    Ok(tables::chunks(study, &study.measure("chunks", setups, observer)?))
}

/// Varies the number of readers, free and pinned.
fn by_readers(study: &Study<'_>, observer: &mut dyn Observer) -> io::Result<Section> {
    let default_setup = study.default_setup();
    let threads =
        |pinned| move |readers: &usize| both(Setup { readers: *readers, pinned, ..default_setup });
    let free = study.options.threads.iter().flat_map(threads(false));
    let setups = free.chain(study.options.threads.iter().flat_map(threads(true))).collect();
    Ok(tables::readers(study, &study.measure("readers", setups, observer)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::testing::{Heard, settings};
    use xfskit_md::Level;

    fn options(members: MemberKind) -> Options {
        Options {
            plan: Plan { level: Level::Raid6, legs: 1, members: 6, chunk: 64 << 10 },
            members,
            readers: 2,
            file_size: 1 << 20,
            request: 32 << 10,
            stripe_cache: 8 << 20,
            time: Duration::from_millis(4),
            caches: vec![64, 256],
            chunks: vec![16 << 10, 256 << 10],
            threads: vec![1, 3],
            requests: vec![4096, 1 << 20],
            speeds: vec![4_000_000_000],
            rebuild_limits: vec![1_000_000],
            volume: true,
            raid50: true,
        }
    }

    fn points(members: MemberKind) -> Vec<serde_json::Value> {
        let mut heard = Heard::default();
        let count = if matches!(members, MemberKind::Memory) { 10 } else { 9 };
        run(&options(members), &settings(), &mut heard).expect("a study");
        heard.assert_steps();
        assert_eq!(heard.1.len(), count);
        heard.1.iter().filter(|section| section.part == "raid.readers").for_each(has_published);
        heard.0.into_iter().map(|result| result["raid"].clone()).collect()
    }

    /// Verifies that the published rates of 50 readers are in the table and in the plot.
    fn has_published(section: &crate::report::Section) {
        let rates = [8000.0, 200.0, 1000.0];
        let is_published = |source| source == crate::report::Source::Published;
        let lines = section.plots[0].lines.iter().filter(|line| is_published(line.source));
        let points: Vec<_> = lines.flat_map(|line| line.points.clone()).collect();
        assert_eq!(points, rates.map(|rate| (50.0, rate)));
        let rows = section.tables[0].rows.iter().filter(|row| is_published(row.source));
        let cells: Vec<_> = rows.map(|row| row.cells[0].clone()).collect();
        assert_eq!(cells, rates.map(|rate| crate::report::Cell::Number(rate, 0)));
    }

    #[test]
    fn every_state_and_every_sweep_is_measured() {
        let points = points(MemberKind::Memory);
        // Four states three ways; two values each of caches, chunks, readers and pinned readers, in
        // two states; three states without a limit and at one speed; two sizes three ways; a
        // rebuild without and with a limit, beside two states; a volume in three states two ways.
        assert_eq!(points.len(), 4 * 3 + 4 * 4 + 3 * 2 + 2 * 3 + 4 + 3 * 2);
        let rebuilt = |point: &&serde_json::Value| point["state"] == "rebuilding";
        assert!(points.iter().filter(rebuilt).all(|point| point["rebuilt_bytes"].is_u64()));
        assert!(points.iter().any(|point| point["array"] == "RAID50"));
    }

    #[test]
    fn member_files_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(points(MemberKind::Files(dir.path().into())).len() > 4);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_files() {
        let files = |seed| readers::files(50, 500_000_000, seed);
        assert_eq!(files(1), files(1));
        assert_ne!(files(1), files(2));
        let sizes = files(1).into_iter().map(|file| file.end - file.start);
        assert!(sizes.clone().min() >= Some(100_000_000) && sizes.max() <= Some(2_500_000_000));
    }
}
