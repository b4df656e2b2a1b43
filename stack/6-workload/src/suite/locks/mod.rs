//! Study B: locks. Files are created by ever more threads, with every kind of lock in the engine's hot places.
//!
//! The hot places are the engine's mutexes: shards of the caches, lists of what was committed, room in
//! directories, extents lately freed. Locks that are held over a whole transaction (inodes, headers of groups) sleep in
//! every system, here too.
//!
//! | module | what |
//! | --- | --- |
//! | `creates` | the workload |
//! | `probe` | what locks and threads cost here |
//! | `model` | many processors, computed |
//! | `tables` | what is shown |

mod creates;
mod model;
mod probe;
mod tables;

use std::io;
use std::time::Duration;

use serde_json::json;
use xfskit_lock::{Kind, LockConfig, with_config};

use crate::measure::Samples;
use crate::report::Section;
use crate::side::Who;
use crate::suite::{Audience, Settings};
use creates::{Creates, Done};
use model::{Class, Facts, Lived, Question};
use probe::Costs;

/// Rarer locks, per file, are none that files wait for.
const RARE: f64 = 0.05;
/// Nanoseconds that the model lives through at most: a good many slices.
const LIFE: f64 = 2e8;

/// What is studied.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads at once, from few to many; the first is what the model is fed with, best 1.
    pub threads: Vec<usize>,
    /// How long files are created at each point.
    pub time: Duration,
    /// Processors that the model is asked about.
    pub processors: Vec<usize>,
    /// Events of the model at each point, at most.
    pub events: u64,
}

/// One kind with so many threads.
#[derive(Debug)]
struct Point {
    /// `None`: the kernel's own.
    kind: Option<Kind>,
    threads: usize,
    on: String,
    rate: Samples,
    /// Files for each second of processor time.
    per_processor: Samples,
    /// The share of the processors that other programs had.
    others: Samples,
    /// The last turn.
    last: Done,
}

impl Point {
    fn new(kind: Option<Kind>, threads: usize, on: String) -> Self {
        let empty = Samples::default;
        let (rate, per_processor, others) = (empty(), empty(), empty());
        Self { kind, threads, on, rate, per_processor, others, last: Done::default() }
    }

    fn add(&mut self, done: Done) {
        self.rate.add(done.rate());
        self.per_processor.add(done.per_processor());
        self.others.add(done.others(processors()));
        self.last = done;
    }

    fn name(&self) -> &'static str {
        self.kind.map_or("kernel XFS, its own", Kind::name)
    }
}

/// A point of the model.
#[derive(Clone, Copy, Debug)]
struct Computed {
    kind: Kind,
    processors: usize,
    threads: usize,
    lived: Lived,
}

/// Processors of this machine.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the study.
///
/// # Errors
/// Those of the volumes, and where the audience wants to stop.
pub fn run(
    options: &Options,
    settings: &Settings,
    audience: &mut dyn Audience,
) -> io::Result<Vec<Section>> {
    let (sides, refused) = settings.sides();
    let points = measure(options, settings, sides.contains(&Who::Kernel), audience)?;
    for point in &points {
        audience.result(point.result())?;
    }
    let mut measured = tables::measured(&points, options.time);
    measured.text.extend(refused);
    audience.note("what locks and threads cost")?;
    let costs = Costs::measure(options.time / 20);
    let timed = create(LockConfig { timed: true, ..LockConfig::default() }, 1, options, settings)?;
    let facts = facts(&timed.0, &points, &costs);
    audience.note("the model")?;
    let model = |facts: &Facts, kind, processors, threads| {
        let facts = Facts { hand_over: costs.contended(kind), ..facts.clone() };
        let (events, seed) = (options.events, settings.seed);
        let question = Question { kind, processors, threads, time: LIFE, events, seed };
        Computed { kind, processors, threads, lived: model::live(&facts, question) }
    };
    let mut check = Vec::new();
    for point in &points {
        if let Some(kind) = point.kind {
            check.push((point, model(&facts, kind, processors(), point.threads)));
        }
    }
    let single = facts.unsharded();
    let (mut many, mut unsharded) = (Vec::new(), Vec::new());
    for kind in Kind::ALL {
        audience.note(&format!("the model: {}", kind.name()))?;
        many.extend(options.processors.iter().map(|&n| model(&facts, kind, n, n)));
        unsharded.extend(options.processors.iter().map(|&n| model(&single, kind, n, n)));
    }
    for computed in check.iter().map(|(_, computed)| computed).chain(&many) {
        audience.result(computed.result(true))?;
    }
    for computed in &unsharded {
        audience.result(computed.result(false))?;
    }
    Ok(vec![measured, tables::model(&facts, &costs, &check, &many, &unsharded)])
}

/// Every kind with every number of threads, in turns.
fn measure(
    options: &Options,
    settings: &Settings,
    kernel: bool,
    audience: &mut dyn Audience,
) -> io::Result<Vec<Point>> {
    let mut points: Vec<Point> = Vec::new();
    let kinds: Vec<_> = Kind::ALL.map(Some).into_iter().chain(kernel.then_some(None)).collect();
    for turn in 1..=settings.repetitions {
        for &threads in &options.threads {
            for &kind in &kinds {
                let name = kind.map_or("kernel XFS", Kind::name);
                audience.note(&format!("turn {turn}: {threads} threads, {name}"))?;
                let (last, on) = match kind {
                    Some(kind) => {
                        create(LockConfig { kind, timed: false }, threads, options, settings)?
                    }
                    None => on_side(Who::Kernel, threads, options, settings)?,
                };
                let known = |point: &Point| point.kind == kind && point.threads == threads;
                let at = points.iter().position(known).unwrap_or_else(|| {
                    points.push(Point::new(kind, threads, on));
                    points.len() - 1
                });
                points[at].add(last);
            }
        }
    }
    Ok(points)
}

/// Files on a new volume of the engine, with locks of this choice.
fn create(
    choice: LockConfig,
    threads: usize,
    options: &Options,
    settings: &Settings,
) -> io::Result<(Done, String)> {
    with_config(choice, || on_side(Who::Engine, threads, options, settings))
}

fn on_side(
    who: Who,
    threads: usize,
    options: &Options,
    settings: &Settings,
) -> io::Result<(Done, String)> {
    let mut side = settings.side(who)?;
    let done = side.run(&mut Creates { threads, time: options.time, seed: settings.seed })?;
    Ok((done, side.on().to_owned()))
}

/// What the model is told: how long locks are held, from a run that looked at the clock each time; the rest of
/// a file's time from the first point with parking locks, which did not. All of it in processor time: what other
/// programs took from the wall's is not the file's.
#[allow(clippy::cast_precision_loss)] // of means
fn facts(timed: &Done, points: &[Point], costs: &Costs) -> Facts {
    let files = timed.files.max(1) as f64;
    let locks = timed.counters.iter().flat_map(|counters| &counters.locks);
    // Who holds a lock loses his processor as often as who does not.
    let running = (timed.own.as_secs_f64() / timed.usage.wall.as_secs_f64()).min(1.0);
    let class = |lock: &crate::driver::Lock| Class {
        name: lock.name.clone(),
        per_file: lock.taken as f64 / files,
        hold: (lock.held.as_nanos() as f64 * running / lock.taken as f64 - costs.clock).max(1.0),
        mutexes: lock.mutexes,
    };
    let classes: Vec<Class> = locks
        .filter(|lock| lock.mutexes > 0 && lock.taken as f64 / files > RARE)
        .map(class)
        .collect();
    let first = points.iter().find(|point| point.kind == Some(Kind::Parking));
    let each = |time: fn(&Done) -> Duration| {
        first.map_or(0.0, |Point { last, .. }| {
            time(last).as_nanos() as f64 / last.files.max(1) as f64
        })
    };
    let held: f64 = classes.iter().map(|class| class.per_file * class.hold).sum();
    Facts {
        classes,
        think: (each(|done| done.own) - held).max(1.0),
        background: each(|done| done.usage.processor.saturating_sub(done.own)),
        hand_over: 0.0,
        pause: costs.pause,
        spin: costs.spin,
        wake: costs.wake,
        slice: costs.slice,
    }
}

impl Point {
    fn result(&self) -> serde_json::Value {
        let Done { files, usage, counters, .. } = &self.last;
        json!({ "locks": {
            "kind": self.name(),
            "on": self.on,
            "threads": self.threads,
            "files_per_second": self.rate,
            "files_per_processor_second": self.per_processor,
            "others_share": self.others,
            "files": files,
            "wall_seconds": usage.wall.as_secs_f64(),
            "processor_seconds": usage.processor.as_secs_f64(),
            "commits": counters.as_ref().map(|counters| counters.commits),
        }})
    }
}

impl Computed {
    fn result(&self, sharded: bool) -> serde_json::Value {
        json!({ "locks_model": {
            "sharded": sharded,
            "kind": self.kind.name(),
            "processors": self.processors,
            "threads": self.threads,
            "files_per_second": self.lived.rate,
            "files_per_processor_second": self.lived.per_processor,
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::record::Recorder;
    use crate::side::Job;
    use crate::suite::testing::{Heard, settings};

    #[test]
    fn every_kind_is_measured_and_computed() {
        let options = Options {
            threads: vec![1, 2],
            time: Duration::from_millis(20),
            processors: vec![8, 16],
            events: 5_000,
        };
        let mut heard = Heard::default();
        let sections = run(&options, &settings(), &mut heard).expect("a study");
        let of = |what: &str| heard.0.iter().filter(|result| !result[what].is_null()).count();
        assert_eq!((of("locks"), of("locks_model")), (5 * 2, 5 * 2 + 2 * 5 * 2));
        assert!(
            heard.0.iter().filter_map(|result| result["locks"]["files"].as_u64()).all(|n| n > 0)
        );
        assert_eq!(sections.len(), 2);
    }

    #[test]
    fn locks_of_the_engine_are_seen_with_their_number_and_time() {
        let choice = LockConfig { timed: true, kind: Kind::Ticket };
        let options = Options {
            threads: Vec::new(),
            time: Duration::from_millis(20),
            processors: Vec::new(),
            events: 0,
        };
        let (done, _) = create(choice, 1, &options, &settings()).expect("files");
        let counters = done.counters.expect("the engine counts");
        let lock = |name| counters.locks.iter().find(|lock| lock.name == name).expect("known");
        let cache = lock("buffer cache");
        assert!(cache.mutexes > 1 && cache.held > Duration::ZERO, "{cache:?}");
        assert_eq!(lock("agi").mutexes, 0, "no mutex");
    }

    #[test]
    fn the_same_seed_makes_the_same_names() {
        let first = |seed| {
            let mut recorder = Recorder::default();
            let mut creates = Creates { threads: 1, time: Duration::from_millis(5), seed };
            creates.run(&mut recorder).expect("no errors");
            recorder.calls()["/0"][0].clone()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
