//! Study B: the concurrent inode test.
//!
//! The steps: many threads create files; the volume is repaired, though it is not damaged, and then
//! checked; all inodes are listed by number; all names are listed with their inodes, and then
//! without; everything is removed. Caches are dropped before each step. The implementations
//! alternate within each step.
//!
//! | module | what |
//! | --- | --- |
//! | [`shape`] | trees: created, walked, removed |
//! | [`step`] | the steps as jobs |
//! | `capacity` | the number of files for which there is space |
//! | `tables` | the tables and plots |
//! | [`published`] | published figures |

mod capacity;
pub mod published;
pub mod shape;
pub mod step;
mod tables;

use std::io;

use serde_json::json;

use crate::driver::Counters;
use crate::driver::null::Null;
use crate::measure::Samples;
use crate::report::Section;
use crate::suite::{Observer, PartPlan, Parts, Settings};
use crate::testbed::{Implementation, Job, TestVolume};
use shape::{Plan, Shape};
use step::{Step, StepOutcome, Work};

/// The parameters of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shapes of the trees; each shape gives a section.
    pub shapes: Vec<Shape>,
    /// Steps to measure; all if empty. The first one always runs.
    pub steps: Vec<Step>,
    /// Files per thread and iteration.
    pub files: u64,
    /// Iterations.
    pub loops: u64,
    /// Bytes of a file.
    pub file_size: u64,
    /// Subdirectories of each directory.
    pub subdirs: usize,
}

/// All turns of one step with one driver.
#[derive(Debug)]
struct Row {
    step: Step,
    driver: String,
    storage: String,
    /// The outcome of the last turn.
    last: StepOutcome,
    wall: Samples,
    rate: Samples,
}

/// Runs the study.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub fn run(options: &Options, settings: &Settings, observer: &mut dyn Observer) -> io::Result<()> {
    let (implementations, skipped) = settings.implementations();
    let plan = |shape| Plan {
        shape,
        threads: settings.threads,
        files: options.files,
        loops: options.loops,
        size: options.file_size,
        subdirs: options.subdirs,
        seed: settings.seed,
    };
    let planned = options.shapes.iter().map(|&shape| {
        let steps = plan(shape).steps(&options.steps).len();
        PartPlan::new(shape.name(), settings.repetitions * steps * implementations.len())
    });
    let mut parts = Parts::begin("inodes", planned.collect(), skipped, observer)?;
    for &shape in &options.shapes {
        parts.measure(shape.name(), |observer| {
            measure(&plan(shape), &options.steps, &implementations, settings, observer)
        })?;
    }
    Ok(())
}

/// Runs the steps on one tree, and formats its section.
fn measure(
    plan: &Plan,
    only: &[Step],
    implementations: &[Implementation],
    settings: &Settings,
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    capacity::verify(plan, &settings.testbed, implementations.len())?;
    let mut rows: Vec<Row> = Vec::new();
    for turn in 1..=settings.repetitions {
        let mut volumes: Vec<TestVolume> = implementations
            .iter()
            .map(|&implementation| settings.volume(implementation))
            .collect::<io::Result<_>>()?;
        for step in plan.steps(only) {
            for volume in &mut volumes {
                let (driver, what) = (volume.name().to_owned(), step.name());
                let shape = plan.shape.describe();
                observer.progress(&format!("{shape}, turn {turn}: {what}, {driver}"))?;
                let storage = volume.storage().to_owned();
                if let Some(done) = step::run(volume, step, plan)? {
                    add(&mut rows, step, &driver, &storage, done);
                }
            }
            if let (Step::Create, Some(done)) = (step, Work { step, plan }.run(&mut Null)?) {
                add(&mut rows, step, "harness alone", "nothing", done);
            }
        }
    }
    for row in &rows {
        observer.result(row.to_json(plan))?;
    }
    tables::section(plan, &rows)
}

impl Plan {
    /// Returns the steps that this tree supports, of those in `only` unless that is empty. All
    /// others need the files of the first one.
    fn steps(&self, only: &[Step]) -> Vec<Step> {
        let mut steps = match self.shape {
            Shape::Racing => vec![Step::Create, Step::Repair, Step::Check],
            _ => Step::ALL.to_vec(),
        };
        steps.retain(|step| only.is_empty() || *step == Step::Create || only.contains(step));
        steps
    }
}

fn add(rows: &mut Vec<Row>, step: Step, driver: &str, storage: &str, done: StepOutcome) {
    let seconds = done.usage.wall.as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // of a rate
    let rate = done.operations.map(|operations| operations as f64 / seconds);
    if let Some(row) = rows.iter_mut().find(|row| row.step == step && row.driver == driver) {
        row.wall.add(seconds);
        if let Some(rate) = rate {
            row.rate.add(rate);
        }
        row.last = done;
        return;
    }
    rows.push(Row {
        step,
        driver: driver.into(),
        storage: storage.into(),
        last: done,
        wall: [seconds].into_iter().collect(),
        rate: rate.into_iter().collect(),
    });
}

impl Row {
    fn to_json(&self, plan: &Plan) -> serde_json::Value {
        let StepOutcome {
            operations, usage, peak_memory, cold, counters, fs_mark, checker, ..
        } = &self.last;
        json!({ "inodes": {
            "shape": plan.shape,
            "step": self.step,
            "driver": self.driver,
            "storage": self.storage,
            "checker": checker,
            "threads": plan.threads,
            "cold": cold,
            "operations": operations,
            "wall_seconds": self.wall,
            "operations_per_second": self.rate,
            "user_seconds": usage.user.as_secs_f64(),
            "system_seconds": usage.system.as_secs_f64(),
            "changes": counters.as_ref().and_then(|counted| counted.changes),
            "commits": counters.as_ref().map(|counted| counted.commits),
            "checkpoints": counters.as_ref().and_then(|counted| counted.checkpoints),
            "waits": counters.as_ref().and_then(Counters::waits),
            "log_bytes": counters.as_ref().map(|counted| counted.log_bytes),
            "peak_memory_bytes": peak_memory,
            "fs_mark": fs_mark.iter().map(|line| json!({
                "fs_use_percent": line.space.used_percent(),
                "count": line.count,
                "size": line.size,
                "files_per_second": line.rate,
                "app_overhead_us": u64::try_from(line.overhead.as_micros()).unwrap_or(u64::MAX),
            })).collect::<Vec<_>>(),
        }})
    }
}

#[cfg(test)]
mod tests;
