//! `xfskit dbench` and `xfskit compilebench`, with small numbers.

mod common;

use std::fs;

use common::{Bench, expect, json, shown};
use serde_json::Value;

/// Those of the operations of a dbench that each counts, and how often.
fn counts(results: &[Value]) -> Vec<(String, u64)> {
    let operations = &results.last().unwrap()["dbench"]["operations"];
    let count = |one: &Value| {
        (one["operation"].as_str().unwrap().to_owned(), one["count"].as_u64().unwrap())
    };
    operations.as_array().unwrap().iter().map(count).collect()
}

#[test]
fn dbench_does_the_same_in_a_directory_and_on_a_volume() {
    let bench = Bench::new();
    let some = ["dbench", "--json", "--loops", "1", "-x", "2"];
    let mounted = json(&[&some[..], &["-D", &shown(&bench.path("dir"))]].concat());
    let engine = json(&[&some[..], &["--engine", "mem:1G"]].concat());
    assert_eq!(counts(&mounted), counts(&engine));
    assert_eq!(counts(&engine).len(), 16, "every operation there is");
    assert!(engine.iter().any(|line| line["progress"]["stage"] == "cleanup"));
}

#[test]
fn dbench_reads_loadfiles_and_names_the_line_that_went_wrong() {
    let bench = Bench::new();
    let load =
        shown(&bench.file("client.txt", expect(0, &["dbench", "--print-load"]).stdout.as_bytes()));
    let dir = shown(&bench.path("dir"));
    let run = expect(0, &["dbench", "--loops", "1", "-c", &load, "-D", &dir, "1"]);
    assert!(run.stdout.contains("\n Operation      Count    AvgLat    MaxLat\n"), "{}", run.stdout);
    assert!(run.stdout.contains("\nThroughput ") && run.stdout.contains("  1 clients  1 procs"));
    let bad = shown(&bench.file("bad.txt", b"Close 7 NT_STATUS_OK\n"));
    let run = expect(2, &["dbench", "--loops", "1", "-c", &bad, "-D", &dir, "1"]);
    assert!(run.stderr.contains("client 0, line 1: Close: file 7 is not open"), "{}", run.stderr);
    fs::write(&bad, "Dance 7\n").unwrap();
    let run = expect(2, &["dbench", "-c", &bad, "-D", &dir, "1"]);
    assert!(run.stderr.contains("line 1: there is no operation Dance"), "{}", run.stderr);
}

#[test]
fn compilebench_does_the_same_in_a_directory_and_on_a_volume() {
    let bench = Bench::new();
    let some = ["compilebench", "--json", "-i", "2", "-r", "30", "--files", "60", "-n"];
    let runs = |more: [&str; 2]| -> Vec<String> {
        let results = json(&[&some[..], &more].concat());
        let what = |run: &Value| format!("{} {} {}", run["operation"], run["tree"], run["bytes"]);
        results.iter().map(what).collect()
    };
    let (dir, image) = (shown(&bench.path("dir")), shown(&bench.path("disk.img")));
    expect(0, &["mkfs", "-q", "--size", "1G", &image]);
    let mounted = runs(["-D", &dir]);
    assert_eq!(mounted.len(), 32);
    assert_eq!(mounted, runs(["--engine", &image]));
    let run = expect(
        0,
        &["compilebench", "-i", "1", "-r", "1", "--files", "20", "-n", "--engine", "mem:"],
    );
    assert!(run.stdout.contains("\ninitial create total runs 1 avg "), "{}", run.stdout);
    let run = expect(0, &["check", &image]);
    assert!(run.stdout.contains("clean"), "{}", run.stdout);
}
