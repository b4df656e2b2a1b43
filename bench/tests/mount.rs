//! `xfskit-bench mount` with few files: every workload runs on the sides that this machine has, and
//! the report has a figure for each.

use std::path::Path;
use std::process::Command;

use xfskit_test_support::image::Scratch;
use xfskit_test_support::need::{Need, needs};
use xfskit_test_support::skip;
use xfskit_workload::Report;
use xfskit_workload::report::{Cell, Table};

/// Sizes of a trial, which leaves the machine's caches alone.
const SMALL: &[&str] = &[
    "--keep-caches",
    "--turns=1",
    "--image=512",
    "--files=80",
    "--size=8",
    "--seconds=0.1",
    "--dbench-seconds=2",
    "--clients=2",
    "--tree=150",
    "--readers=2",
    "--speed=1000",
];

/// Returns whether the program can mount with the `xfskit` beside it.
fn possible() -> bool {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return false;
    }
    let xfskit = Path::new(env!("CARGO_BIN_EXE_xfskit-bench")).with_file_name("xfskit");
    for needed in [Path::new("/dev/fuse"), &xfskit] {
        if !needed.exists() {
            skip::skip(&needed.to_string_lossy());
            return false;
        }
    }
    true
}

fn run(scratch: &Scratch, workload: &str) -> Report {
    let report = scratch.path().join("report.json");
    let out = Command::new(env!("CARGO_BIN_EXE_xfskit-bench"))
        .arg("mount")
        .arg(scratch.path())
        .args(SMALL)
        .args(["--only", workload, "--report"])
        .arg(&report)
        .output()
        .expect("it runs");
    assert!(out.status.success(), "{workload}: {}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(report).expect("a report");
    Report::parse(&text).expect("a report")
}

fn table<'r>(report: &'r Report, title: &str) -> &'r Table {
    let mut tables = report.sections.iter().flat_map(|section| &section.tables);
    tables.find(|table| table.title == title).unwrap_or_else(|| panic!("{title}: {report:?}"))
}

/// Returns the median of our mount in the table of a step.
fn ours(report: &Report, title: &str) -> f64 {
    let row = table(report, title).rows.iter().find(|row| row.name == "xfskit mount");
    match &row.expect("our row").cells[0] {
        Cell::Turns { value, .. } => *value,
        other => panic!("{title}: {other:?}"),
    }
}

#[test]
fn names_are_measured_with_their_round_trips() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("xfskit-bench mount-names");
    let report = run(&scratch, "names");
    for title in
        ["create, one writer", "stat", "find", "find -size", "rm -r", "create, eight writers"]
    {
        assert!(ours(&report, title) > 0.0, "{title}");
        assert!(table(&report, title).rows.len() > 1, "{title}: no other side");
    }
    let requests = table(&report, "Requests to xfskit mount");
    assert_eq!(requests.rows.len(), 7);
    assert!(requests.columns.iter().any(|column| column.name == "create"), "{requests:?}");
    let aims = table(&report, "Aims");
    assert!(
        aims.rows.iter().any(|row| row.name.starts_with("create by open(2), round trips")),
        "{aims:?}"
    );
    let left = std::fs::read_dir(scratch.path()).expect("a directory").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "passthrough_ll" || name == "report.json"), "{left:?}");
}

#[test]
fn a_large_file_is_measured() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("xfskit-bench mount-stream");
    let report = run(&scratch, "stream");
    for title in [
        "sequential write, fsync",
        "sequential read, cold",
        "4 KiB from the cache",
        "4 KiB direct writes, eight threads, fsync",
    ] {
        assert!(ours(&report, title) > 0.0, "{title}");
    }
}

#[test]
fn programs_are_measured_or_named_as_missing() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("xfskit-bench mount-programs");
    for (workload, title) in [("dbench", "dbench"), ("git", "rm -r, unmounted")] {
        let report = run(&scratch, workload);
        let section = &report.sections[1];
        if section.tables.is_empty() {
            assert!(section.text.iter().any(|text| text.contains("is not installed")));
        } else {
            // A run of dbench that is this short may end before it has done anything.
            assert!(ours(&report, title) >= 0.0, "{title}");
        }
    }
}

#[test]
fn a_degraded_array_is_read_through_a_mount() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("xfskit-bench mount-degraded");
    let report = run(&scratch, "degraded");
    let table = table(&report, "Throughput and processor time");
    for cell in &table.rows[0].cells {
        assert!(matches!(cell, Cell::Turns { value, .. } if *value > 0.0), "{cell:?}");
    }
}
