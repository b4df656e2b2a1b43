//! Study B: the concurrent inode test.
//!
//! Files are created by many threads, the volume is judged, all inodes are listed by number, all names with their
//! inodes, all names, and everything is removed; caches are dropped before each step. Sides take turns within
//! each step.
//!
//! | module | what |
//! | --- | --- |
//! | [`shape`] | trees: made, walked, removed |
//! | [`step`] | the steps as jobs |
//! | `tables` | what is shown |
//! | [`published`] | what was published |

pub mod published;
pub mod shape;
pub mod step;
mod tables;

use std::io;

use serde_json::json;

use crate::driver::null::Null;
use crate::measure::Samples;
use crate::report::Section;
use crate::side::{Job, Side};
use crate::suite::{Audience, Settings};
use shape::{Plan, Shape};
use step::{Done, Step, Work};

/// What is studied.
#[derive(Clone, Debug)]
pub struct Options {
    /// Trees of these shapes, one after the other.
    pub shapes: Vec<Shape>,
    /// Files of each thread in an iteration.
    pub files: u64,
    /// Iterations.
    pub loops: u64,
    /// Bytes in a file.
    pub file_size: u64,
    /// Subdirectories of each directory.
    pub subdirs: usize,
}

/// All turns of one step on one side.
#[derive(Debug)]
struct Row {
    step: Step,
    who: String,
    on: String,
    /// The last turn.
    last: Done,
    wall: Samples,
    rate: Samples,
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
    let mut sections = Vec::new();
    for &shape in &options.shapes {
        let plan = Plan {
            shape,
            threads: settings.threads,
            files: options.files,
            loops: options.loops,
            size: options.file_size,
            subdirs: options.subdirs,
            seed: settings.seed,
        };
        let mut rows: Vec<Row> = Vec::new();
        for turn in 1..=settings.repetitions {
            let mut volumes: Vec<Side> =
                sides.iter().map(|&who| settings.side(who)).collect::<io::Result<_>>()?;
            for step in plan.steps() {
                for side in &mut volumes {
                    let (who, what) = (side.name().to_owned(), step.name());
                    audience.note(&format!("{}, turn {turn}: {what}, {who}", shape.describe()))?;
                    let on = side.on().to_owned();
                    if let Some(done) = step::on(side, step, &plan)? {
                        add(&mut rows, step, &who, &on, done);
                    }
                }
                if let (Step::Create, Some(done)) =
                    (step, Work { step, plan: &plan }.run(&mut Null)?)
                {
                    add(&mut rows, step, "harness alone", "nothing", done);
                }
            }
        }
        for row in &rows {
            audience.result(row.result(&plan))?;
        }
        sections.push(tables::section(&plan, &rows));
    }
    if let (Some(first), Some(why)) = (sections.first_mut(), refused) {
        first.text.insert(0, why);
    }
    Ok(sections)
}

impl Plan {
    /// The steps that make sense with this tree.
    fn steps(&self) -> Vec<Step> {
        match self.shape {
            Shape::Racing => vec![Step::Create, Step::Check],
            _ => Step::ALL.to_vec(),
        }
    }
}

fn add(rows: &mut Vec<Row>, step: Step, who: &str, on: &str, done: Done) {
    let seconds = done.usage.wall.as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // of a rate
    let rate = done.operations.map(|operations| operations as f64 / seconds);
    if let Some(row) = rows.iter_mut().find(|row| row.step == step && row.who == who) {
        row.wall.add(seconds);
        if let Some(rate) = rate {
            row.rate.add(rate);
        }
        row.last = done;
        return;
    }
    rows.push(Row {
        step,
        who: who.into(),
        on: on.into(),
        last: done,
        wall: [seconds].into_iter().collect(),
        rate: rate.into_iter().collect(),
    });
}

impl Row {
    fn result(&self, plan: &Plan) -> serde_json::Value {
        let Done { operations, usage, peak_memory, cold, counters, fs_mark, judge } = &self.last;
        json!({ "inodes": {
            "shape": plan.shape,
            "step": self.step,
            "driver": self.who,
            "on": self.on,
            "judge": judge,
            "threads": plan.threads,
            "cold": cold,
            "operations": operations,
            "wall_seconds": self.wall,
            "operations_per_second": self.rate,
            "user_seconds": usage.user.as_secs_f64(),
            "system_seconds": usage.system.as_secs_f64(),
            "commits": counters.as_ref().map(|counted| counted.commits),
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
mod tests {
    use super::*;
    use crate::driver::record::Recorder;
    use crate::suite::testing::{Heard, settings};

    const OPTIONS: Options =
        Options { shapes: Vec::new(), files: 40, loops: 2, file_size: 0, subdirs: 3 };

    fn told(shape: Shape, file_size: u64) -> Vec<(String, String, u64)> {
        let options = Options { shapes: vec![shape], file_size, ..OPTIONS };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        let word = |value: &serde_json::Value| value.as_str().expect("a word").to_owned();
        let rows = heard.0.iter().map(|row| &row["inodes"]);
        rows.filter(|row| row["driver"] != "harness alone")
            .map(|row| {
                let operations = row["operations"].as_u64().expect("a count");
                (word(&row["step"]), word(&row["driver"]), operations)
            })
            .collect()
    }

    #[test]
    fn every_step_meets_every_name() {
        // Two threads, 80 files each. Inodes: the root, its three companions, directories, files.
        for (shape, made, names, dirs) in [
            (Shape::Separate, 160, 166, 8),
            (Shape::Shared, 160, 160, 1),
            (Shape::Deep, 224, 224, 66),
        ] {
            let rows = told(shape, 1);
            let steps: Vec<(&str, u64)> =
                rows.iter().map(|(step, _, n)| (step.as_str(), *n)).collect();
            let inodes = 160 + dirs + 3;
            let expected = [
                ("create", made),
                ("check", inodes),
                ("bulkstat", inodes),
                ("find", names),
                ("list", names),
                ("remove", names),
            ];
            assert_eq!(steps, expected, "{shape:?}");
        }
    }

    #[test]
    fn the_engine_counts_commits_and_bytes_of_the_journal() {
        let options = Options { shapes: vec![Shape::Shared], ..OPTIONS };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        let create = &heard.0[0]["inodes"];
        let count = |what: &str| create[what].as_u64().expect("a count");
        assert!(count("commits") >= 160, "a transaction for each file: {create}");
        assert!(count("log_bytes") > 160 * 128, "at least a chunk of each inode: {create}");
    }

    #[test]
    fn removal_that_races_creation_leaves_nothing() {
        let rows = told(Shape::Racing, 0);
        // The root, its two companions, one directory.
        assert_eq!(rows.iter().map(|row| row.2).collect::<Vec<_>>(), [160, 4]);
    }

    #[test]
    fn the_same_seed_makes_the_same_calls() {
        for shape in [Shape::Separate, Shape::Shared, Shape::Deep, Shape::Racing] {
            let calls = |seed| {
                // One thread where all work in one directory: the order of several is not the seed's business.
                let threads = if shape == Shape::Shared { 1 } else { 2 };
                let plan = Plan { shape, threads, files: 30, loops: 2, size: 1, subdirs: 3, seed };
                let mut recorder = Recorder::default();
                Work { step: Step::Create, plan: &plan }.run(&mut recorder).expect("no errors");
                let mut calls = recorder.calls();
                if shape == Shape::Racing {
                    for calls in calls.values_mut() {
                        calls.sort();
                    }
                }
                calls
            };
            assert_eq!(calls(1), calls(1), "{shape:?}");
            assert_ne!(calls(1), calls(2), "{shape:?}");
        }
    }
}
