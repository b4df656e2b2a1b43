use super::*;
use crate::driver::testing::Recorder;
use crate::suite::testing::{Heard, settings};

const OPTIONS: Options = Options {
    shapes: Vec::new(),
    steps: Vec::new(),
    files: 40,
    loops: 2,
    file_size: 0,
    subdirs: 3,
};

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
    for (shape, made, names, dirs) in
        [(Shape::Separate, 160, 166, 8), (Shape::Shared, 160, 160, 1), (Shape::Deep, 224, 224, 66)]
    {
        let rows = results(shape, 1);
        let steps: Vec<(&str, u64)> = rows.iter().map(|(step, _, n)| (step.as_str(), *n)).collect();
        let inodes = 160 + dirs + 3;
        let expected = [
            ("create", made),
            ("repair", inodes),
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
    let mut heard = Heard::default();
    run(&options, &settings(), &mut heard).expect("a study");
    heard.assert_steps();
    let sections = heard.1;
    let published = |table: &&crate::report::Table| {
        table.rows.iter().any(|row| row.source == crate::report::Source::Published)
    };
    let titles: Vec<&str> =
        sections[0].tables.iter().filter(published).map(|table| table.title.as_str()).collect();
    let expected = [
        "Steps",
        "Creates: files over wall time, final sync included",
        "Published wall times of the steps",
    ];
    assert_eq!(titles, expected);
    let steps = &sections[0].tables[0];
    let of_kernel = |row: &&crate::report::Row| row.source == crate::report::Source::Published;
    let rows: Vec<_> = steps.rows.iter().filter(of_kernel).collect();
    assert_eq!(rows.len(), 4);
    let shown = |row: usize, column: &str| {
        let at = steps.columns.iter().position(|it| it.name == column).expect("a column");
        rows[row].cells[at].to_string()
    };
    assert_eq!(shown(0, "commits"), "400,000 to 500,000");
    assert_eq!(shown(1, "rate"), "near 1,000,000");
    assert_eq!(shown(3, "system"), "177");
    let lines =
        sections[0].tables.iter().find(|table| table.title.starts_with("Output of fs_mark"));
    assert!(lines.is_some_and(|table| table.rows.len() >= 2));
}

#[test]
fn some_steps_run_alone_with_the_creation_that_they_need() {
    let steps = vec![Step::Find, Step::Remove];
    let options = Options { shapes: vec![Shape::Separate], steps, ..OPTIONS };
    let mut heard = Heard::default();
    run(&options, &settings(), &mut heard).expect("a study");
    heard.assert_steps();
    let steps: Vec<&str> = heard
        .0
        .iter()
        .filter(|row| row["inodes"]["driver"] == "xfskit")
        .filter_map(|row| row["inodes"]["step"].as_str())
        .collect();
    assert_eq!(steps, ["create", "find", "remove"]);
}

#[test]
fn racing_removal_leaves_no_file() {
    let rows = results(Shape::Racing, 0);
    // The root, two internal inodes, one directory.
    assert_eq!(rows.iter().map(|row| row.2).collect::<Vec<_>>(), [160, 4, 4]);
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
