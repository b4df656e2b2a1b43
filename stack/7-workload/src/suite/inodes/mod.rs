//! Study B: the concurrent inode test.
//!
//! The steps: many threads create files; the volume is checked; all inodes are listed by number;
//! all names are listed with their inodes, and then without; everything is removed. Caches are
//! dropped before each step. The implementations alternate within each step.
//!
//! | module | what |
//! | --- | --- |
//! | [`shape`] | trees: created, walked, removed |
//! | [`step`] | the steps as jobs |
//! | `tables` | the tables and plots |
//! | [`published`] | published figures |

pub mod published;
pub mod shape;
pub mod step;
mod tables;

use std::io;

use serde_json::json;

use crate::driver::null::Null;
use crate::measure::Samples;
use crate::report::Section;
use crate::suite::{Observer, Settings};
use crate::testbed::{Job, TestVolume};
use shape::{Plan, Shape};
use step::{Step, StepOutcome, Work};

/// The parameters of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shapes of the trees; each shape gives a section.
    pub shapes: Vec<Shape>,
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
pub fn run(
    options: &Options,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> io::Result<Vec<Section>> {
    let (implementations, skipped) = settings.implementations();
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
            let mut volumes: Vec<TestVolume> = implementations
                .iter()
                .map(|&implementation| settings.volume(implementation))
                .collect::<io::Result<_>>()?;
            for step in plan.steps() {
                for volume in &mut volumes {
                    let (driver, what) = (volume.name().to_owned(), step.name());
                    observer.progress(&format!(
                        "{}, turn {turn}: {what}, {driver}",
                        shape.describe()
                    ))?;
                    let storage = volume.storage().to_owned();
                    if let Some(done) = step::run(volume, step, &plan)? {
                        add(&mut rows, step, &driver, &storage, done);
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
            observer.result(row.to_json(&plan))?;
        }
        sections.push(tables::section(&plan, &rows)?);
    }
    if let (Some(first), Some(why)) = (sections.first_mut(), skipped) {
        first.text.insert(0, why);
    }
    Ok(sections)
}

impl Plan {
    /// Returns the steps that this tree supports.
    fn steps(&self) -> Vec<Step> {
        match self.shape {
            Shape::Racing => vec![Step::Create, Step::Check],
            _ => Step::ALL.to_vec(),
        }
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
    use crate::driver::testing::Recorder;
    use crate::suite::testing::{Heard, settings};

    const OPTIONS: Options =
        Options { shapes: Vec::new(), files: 40, loops: 2, file_size: 0, subdirs: 3 };

    fn results(shape: Shape, file_size: u64) -> Vec<(String, String, u64)> {
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
    fn every_step_visits_every_name() {
        // Two threads, 80 files each. The inodes are the root, three internal ones, directories,
        // and files.
        for (shape, made, names, dirs) in [
            (Shape::Separate, 160, 166, 8),
            (Shape::Shared, 160, 160, 1),
            (Shape::Deep, 224, 224, 66),
        ] {
            let rows = results(shape, 1);
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
    fn the_engine_counts_changes_commits_and_checkpoints_apart() {
        let options = Options { shapes: vec![Shape::Shared], ..OPTIONS };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        let create = &heard.0[0]["inodes"];
        let count = |what: &str| create[what].as_u64().expect("a count");
        assert!(count("changes") >= 160, "a change for each file: {create}");
        let [changes, commits, checkpoints] = ["changes", "commits", "checkpoints"].map(count);
        assert!(commits < changes, "a commit holds several changes: {create}");
        assert!((1..=commits).contains(&checkpoints), "{create}");
        assert!(count("log_bytes") > 160 * 128, "at least a chunk of each inode: {create}");
    }

    #[test]
    fn published_rates_stand_beside_rates_by_wall_time_only() {
        let options = Options { shapes: vec![Shape::Separate], ..OPTIONS };
        let sections = run(&options, &settings(), &mut Heard::default()).expect("a study");
        let published = |table: &&crate::report::Table| {
            table.rows.iter().any(|row| row.source == crate::report::Source::Published)
        };
        let titles: Vec<&str> =
            sections[0].tables.iter().filter(published).map(|table| table.title.as_str()).collect();
        let expected = [
            "Creates: files over wall time, final sync included",
            "Published wall times of the steps",
        ];
        assert_eq!(titles, expected);
        let lines =
            sections[0].tables.iter().find(|table| table.title.starts_with("Output of fs_mark"));
        assert!(lines.is_some_and(|table| table.rows.len() >= 2));
    }

    #[test]
    fn racing_removal_leaves_no_file() {
        let rows = results(Shape::Racing, 0);
        // The root, two internal inodes, one directory.
        assert_eq!(rows.iter().map(|row| row.2).collect::<Vec<_>>(), [160, 4]);
    }

    #[test]
    fn the_same_seed_gives_the_same_calls() {
        for shape in [Shape::Separate, Shape::Shared, Shape::Deep, Shape::Racing] {
            let calls = |seed| {
                // One thread if all work in one directory: the seed does not determine the order of
                // several.
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
