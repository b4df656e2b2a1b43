//! Study B: locks. An increasing number of threads create files, with every kind of lock in the
//! engine's contended places.
//!
//! The contended places are the engine's mutexes: shards of the caches, lists of committed items,
//! free-space indexes of directories, busy extents. Locks that are held over a whole transaction
//! (inodes, group headers) sleep in every system, and here too.
//!
//! | module | what |
//! | --- | --- |
//! | `creates` | the workload |
//! | `probe` | the cost of locks and threads on this machine |
//! | `model` | a simulation of many processors |
//! | `tables` | the tables and plots |

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
use crate::suite::{Observer, Settings};
use crate::testbed::Implementation;
use creates::{CreateOutcome, Creates};
use model::{Class, ModelInputs, ModelRates, Scenario};
use probe::Costs;

/// Locks that are taken less often per file are left out of the model.
const RARE: f64 = 0.05;
/// Limit of the simulated time in nanoseconds: many time slices.
const LIFE: f64 = 2e8;

/// The parameters of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of threads in ascending order. The first one, preferably 1, provides the input of
    /// the model.
    pub threads: Vec<usize>,
    /// Time of each point.
    pub time: Duration,
    /// Numbers of processors for the model.
    pub processors: Vec<usize>,
    /// Limit of simulated events per point.
    pub events: u64,
}

/// One kind of lock with one number of threads.
#[derive(Debug)]
struct Point {
    /// `None` for the kernel's own locks.
    kind: Option<Kind>,
    threads: usize,
    storage: String,
    rate: Samples,
    /// Files per second of processor time.
    per_processor: Samples,
    /// Fraction of the processors that other programs used.
    other_programs: Samples,
    /// The outcome of the last turn.
    last: CreateOutcome,
}

impl Point {
    fn new(kind: Option<Kind>, threads: usize, storage: String) -> Self {
        let empty = Samples::default;
        let (rate, per_processor, other_programs) = (empty(), empty(), empty());
        Self {
            kind,
            threads,
            storage,
            rate,
            per_processor,
            other_programs,
            last: CreateOutcome::default(),
        }
    }

    fn add(&mut self, done: CreateOutcome) {
        self.rate.add(done.rate());
        self.per_processor.add(done.per_processor());
        self.other_programs.add(done.other_programs(processors()));
        self.last = done;
    }

    fn name(&self) -> &'static str {
        self.kind.map_or("kernel XFS, its own", Kind::name)
    }
}

/// A point of the model.
#[derive(Clone, Copy, Debug)]
struct ModelPoint {
    kind: Kind,
    processors: usize,
    threads: usize,
    rates: ModelRates,
}

/// Returns the number of processors of this machine.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the study.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub fn run(
    options: &Options,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> io::Result<Vec<Section>> {
    let (implementations, skipped) = settings.implementations();
    let points =
        measure(options, settings, implementations.contains(&Implementation::Kernel), observer)?;
    for point in &points {
        observer.result(point.to_json())?;
    }
    let mut measured = tables::measured(&points, options.time);
    measured.text.extend(skipped);
    observer.progress("the cost of locks and threads")?;
    let costs = Costs::measure(options.time / 20);
    let timed = create(LockConfig { timed: true, ..LockConfig::default() }, 1, options, settings)?;
    let inputs = model_inputs(&timed.0, &points, &costs);
    observer.progress("the model")?;
    let model = |inputs: &ModelInputs, kind, processors, threads| {
        let inputs = ModelInputs { hand_over: costs.contended(kind), ..inputs.clone() };
        let (events, seed) = (options.events, settings.seed);
        let scenario = Scenario { kind, processors, threads, time: LIFE, events, seed };
        ModelPoint { kind, processors, threads, rates: model::simulate(&inputs, scenario) }
    };
    let mut check = Vec::new();
    for point in &points {
        if let Some(kind) = point.kind {
            check.push((point, model(&inputs, kind, processors(), point.threads)));
        }
    }
    let single = inputs.unsharded();
    let (mut many, mut unsharded) = (Vec::new(), Vec::new());
    for kind in Kind::ALL {
        observer.progress(&format!("the model: {}", kind.name()))?;
        many.extend(options.processors.iter().map(|&n| model(&inputs, kind, n, n)));
        unsharded.extend(options.processors.iter().map(|&n| model(&single, kind, n, n)));
    }
    for computed in check.iter().map(|(_, computed)| computed).chain(&many) {
        observer.result(computed.to_json(true))?;
    }
    for computed in &unsharded {
        observer.result(computed.to_json(false))?;
    }
    Ok(vec![measured, tables::model(&inputs, &costs, &check, &many, &unsharded)])
}

/// Measures every kind with every number of threads in interleaved turns.
fn measure(
    options: &Options,
    settings: &Settings,
    kernel: bool,
    observer: &mut dyn Observer,
) -> io::Result<Vec<Point>> {
    let mut points: Vec<Point> = Vec::new();
    let kinds: Vec<_> = Kind::ALL.map(Some).into_iter().chain(kernel.then_some(None)).collect();
    for turn in 1..=settings.repetitions {
        for &threads in &options.threads {
            for &kind in &kinds {
                let name = kind.map_or("kernel XFS", Kind::name);
                observer.progress(&format!("turn {turn}: {threads} threads, {name}"))?;
                let (last, storage) = match kind {
                    Some(kind) => {
                        create(LockConfig { kind, timed: false }, threads, options, settings)?
                    }
                    None => create_on(Implementation::Kernel, threads, options, settings)?,
                };
                let known = |point: &Point| point.kind == kind && point.threads == threads;
                let at = points.iter().position(known).unwrap_or_else(|| {
                    points.push(Point::new(kind, threads, storage));
                    points.len() - 1
                });
                points[at].add(last);
            }
        }
    }
    Ok(points)
}

/// Creates files on a new volume of the engine with this lock configuration.
fn create(
    config: LockConfig,
    threads: usize,
    options: &Options,
    settings: &Settings,
) -> io::Result<(CreateOutcome, String)> {
    with_config(config, || create_on(Implementation::Engine, threads, options, settings))
}

fn create_on(
    implementation: Implementation,
    threads: usize,
    options: &Options,
    settings: &Settings,
) -> io::Result<(CreateOutcome, String)> {
    let mut volume = settings.volume(implementation)?;
    let done = volume.run(&mut Creates { threads, time: options.time, seed: settings.seed })?;
    Ok((done, volume.storage().to_owned()))
}

/// Derives the inputs of the model. The hold times come from a run that reads the clock at each
/// acquisition. The rest of a file's time comes from the first point with parking locks, which does
/// not. All of it is processor time, so that the time of other programs is not charged to the file.
#[allow(clippy::cast_precision_loss)] // of means
fn model_inputs(timed: &CreateOutcome, points: &[Point], costs: &Costs) -> ModelInputs {
    let files = timed.files.max(1) as f64;
    let locks = timed.counters.iter().flat_map(|counters| &counters.locks);
    // The holder of a lock is preempted as often as any other thread.
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
    let each = |time: fn(&CreateOutcome) -> Duration| {
        first.map_or(0.0, |Point { last, .. }| {
            time(last).as_nanos() as f64 / last.files.max(1) as f64
        })
    };
    let held: f64 = classes.iter().map(|class| class.per_file * class.hold).sum();
    ModelInputs {
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
    fn to_json(&self) -> serde_json::Value {
        let CreateOutcome { files, usage, counters, .. } = &self.last;
        json!({ "locks": {
            "kind": self.name(),
            "storage": self.storage,
            "threads": self.threads,
            "files_per_second": self.rate,
            "files_per_processor_second": self.per_processor,
            "other_programs_share": self.other_programs,
            "files": files,
            "wall_seconds": usage.wall.as_secs_f64(),
            "processor_seconds": usage.processor.as_secs_f64(),
            "commits": counters.as_ref().map(|counters| counters.commits),
        }})
    }
}

impl ModelPoint {
    fn to_json(self, sharded: bool) -> serde_json::Value {
        json!({ "locks_model": {
            "sharded": sharded,
            "kind": self.kind.name(),
            "processors": self.processors,
            "threads": self.threads,
            "files_per_second": self.rates.rate,
            "files_per_processor_second": self.rates.per_processor,
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::testing::Recorder;
    use crate::suite::testing::{Heard, settings};
    use crate::testbed::Job;

    #[test]
    fn every_kind_is_measured_and_simulated() {
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
    fn locks_of_the_engine_are_counted_and_timed() {
        let config = LockConfig { timed: true, kind: Kind::Ticket };
        let options = Options {
            threads: Vec::new(),
            time: Duration::from_millis(20),
            processors: Vec::new(),
            events: 0,
        };
        let (done, _) = create(config, 1, &options, &settings()).expect("files");
        let counters = done.counters.expect("the engine counts");
        let lock = |name| counters.locks.iter().find(|lock| lock.name == name).expect("known");
        let cache = lock("buffer cache");
        assert!(cache.mutexes > 1 && cache.held > Duration::ZERO, "{cache:?}");
        assert_eq!(lock("agi").mutexes, 0, "no mutex");
    }

    #[test]
    fn the_same_seed_gives_the_same_names() {
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
