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
//! | `fit` | its fit to measured points, and its validation |
//! | `tables` | the tables and plots |

mod creates;
mod fit;
mod model;
mod probe;
mod tables;

use std::io;
use std::time::Duration;

use serde_json::json;
use xfskit_lock::{Kind, LockConfig, with_config};

use crate::measure::Samples;
use crate::measure::short::time_min_here;
use crate::report::Section;
use crate::suite::{Observer, PartPlan, Parts, Settings};
use crate::testbed::Implementation;
use creates::{CreateOutcome, Creates};
use fit::Factors;
use model::{Class, ModelInputs, ModelRates, Scenario};
use probe::Costs;

/// Locks that are taken less often per file are left out of the model.
const RARE: f64 = 0.05;
/// Limit of the simulated time in nanoseconds: many time slices.
const LIFE: f64 = 2e8;
/// The fit simulates this part of the events of a point.
const FIT_EVENTS_PART: u64 = 5;

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
    /// Part of the processors that other programs used, in percent.
    other_programs: Samples,
    /// The outcome of the last turn, of those that were long enough if any was.
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

    /// # Errors
    /// If more time was used than there was.
    fn add(&mut self, done: CreateOutcome) -> io::Result<()> {
        if done.usage.wall < time_min_here(self.threads) {
            if self.is_too_short() {
                self.last = done;
            }
            return Ok(());
        }
        self.rate.add(done.rate());
        self.per_processor.add(done.per_processor());
        if let Some(percent) = done.usage.others_percent()? {
            self.other_programs.add(percent);
        }
        self.last = done;
        Ok(())
    }

    /// Returns true if no turn was long enough: the point has no figures.
    fn is_too_short(&self) -> bool {
        self.rate.count() == 0
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
pub fn run(options: &Options, settings: &Settings, observer: &mut dyn Observer) -> io::Result<()> {
    let (implementations, skipped) = settings.implementations_below();
    let kernel = implementations.contains(&Implementation::Kernel);
    let kinds = Kind::ALL.len() + usize::from(kernel);
    let count = settings.repetitions * options.threads.len() * kinds;
    let plan = vec![
        PartPlan::timed("creates", count, options.time),
        PartPlan::new("model", 1 + Kind::ALL.len()),
    ];
    let mut parts = Parts::begin("locks", plan, skipped, observer)?;
    // The model is made from the points, so a run that lacks it measures them again.
    if !parts.wants("creates") && !parts.wants("model") {
        return Ok(());
    }
    let observer = parts.start("creates");
    let points = measure(options, settings, kernel, observer)?;
    for point in &points {
        observer.result(point.to_json())?;
    }
    parts.add("creates", tables::measured(&points, options.time))?;
    parts.measure("model", |observer| extrapolate(options, settings, &points, observer))
}

/// Makes the model from measured points, and formats its section.
fn extrapolate(
    options: &Options,
    settings: &Settings,
    points: &[Point],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    observer.progress("the cost of locks and threads")?;
    let costs = Costs::measure(options.time / 20);
    let timed = create(LockConfig { timed: true, ..LockConfig::default() }, 1, options, settings)?;
    let model = Model {
        inputs: model_inputs(&timed.0, points, &costs),
        costs,
        events: options.events,
        seed: settings.seed,
    };
    let mut validated = Vec::new();
    for kind in Kind::ALL {
        observer.progress(&format!("the model: {}", kind.name()))?;
        validated.extend(model.validate(kind, points, &options.processors));
    }
    for one in &validated {
        for computed in one.check.iter().map(|(_, computed)| computed).chain(&one.many) {
            observer.result(computed.to_json(true))?;
        }
        for computed in &one.unsharded {
            observer.result(computed.to_json(false))?;
        }
    }
    Ok(tables::model(&model, &validated))
}

/// The model of all kinds of locks.
struct Model {
    inputs: ModelInputs,
    costs: Costs,
    events: u64,
    seed: u64,
}

/// The model of one kind, fitted and validated.
struct Validated<'p> {
    kind: Kind,
    factors: Factors,
    /// Numbers of threads that the model was not fitted to.
    held_out: Vec<usize>,
    /// Largest error at these, in percent.
    error: Option<f64>,
    /// Largest error at the others, in percent.
    fit_error: Option<f64>,
    /// All points with what the model computes for them.
    check: Vec<(&'p Point, ModelPoint)>,
    /// More processors, with the mutexes as they are and with one of each kind; empty if the error
    /// is too large.
    many: Vec<ModelPoint>,
    unsharded: Vec<ModelPoint>,
}

impl Validated<'_> {
    /// Returns true if the model of this kind may be extrapolated: it describes the points that it
    /// was fitted to, and those that it has not seen.
    fn is_valid(&self) -> bool {
        fit::is_valid(self.error) && fit::is_valid(self.fit_error)
    }
}

impl Model {
    /// Fits the model of one kind, validates it and, if it is valid, computes more processors.
    /// `None` if the hand-over of the kind could not be measured.
    fn validate<'p>(
        &self,
        kind: Kind,
        points: &'p [Point],
        many: &[usize],
    ) -> Option<Validated<'p>> {
        let hand_over = self.costs.hand_over(kind)?;
        let inputs = ModelInputs { hand_over, ..self.inputs.clone() };
        let points: Vec<&Point> =
            points.iter().filter(|p| p.kind == Some(kind) && !p.is_too_short()).collect();
        let threads: Vec<usize> = points.iter().map(|point| point.threads).collect();
        let (fitted, held_out) = fit::split(&threads);
        let known: Vec<(usize, f64)> = points
            .iter()
            .filter(|point| fitted.contains(&point.threads))
            .map(|point| (point.threads, point.rate.median()))
            .collect();
        let compute = |inputs: &ModelInputs, processors, threads, events| {
            let scenario =
                Scenario { kind, processors, threads, time: LIFE, events, seed: self.seed };
            ModelPoint { kind, processors, threads, rates: model::simulate(inputs, scenario) }
        };
        let factors = fit::fit(&known, |factors, threads| {
            let events = self.events / FIT_EVENTS_PART;
            compute(&inputs.scaled(factors), processors(), threads, events).rates.rate
        });
        let inputs = inputs.scaled(factors);
        let check: Vec<(&Point, ModelPoint)> = points
            .iter()
            .map(|point| (*point, compute(&inputs, processors(), point.threads, self.events)))
            .collect();
        let error_at = |threads: &[usize]| {
            let these = check.iter().filter(|(point, _)| threads.contains(&point.threads));
            let rates = |(point, computed): &(&Point, ModelPoint)| {
                (point.rate.median(), computed.rates.rate)
            };
            fit::error(&these.map(rates).collect::<Vec<_>>())
        };
        let (error, fit_error) = (error_at(&held_out), error_at(&fitted));
        let mut validated = Validated {
            kind,
            factors,
            held_out,
            error,
            fit_error,
            check,
            many: Vec::new(),
            unsharded: Vec::new(),
        };
        if validated.is_valid() {
            let more = |inputs: &ModelInputs| {
                many.iter().map(|&n| compute(inputs, n, n, self.events)).collect()
            };
            (validated.many, validated.unsharded) = (more(&inputs), more(&inputs.unsharded()));
        }
        Some(validated)
    }
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
                points[at].add(last)?;
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
            "other_programs_percent": self.other_programs,
            "too_short": self.is_too_short(),
            "files": files,
            "wall_seconds": usage.wall.as_secs_f64(),
            "processor_seconds": usage.processor.as_secs_f64(),
            "changes": counters.as_ref().and_then(|counters| counters.changes),
            "commits": counters.as_ref().map(|counters| counters.commits),
            "checkpoints": counters.as_ref().and_then(|counters| counters.checkpoints),
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
mod tests;
