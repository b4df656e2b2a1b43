//! Runs of `xfskit bench` that end early, are continued, and are compared.

use std::fs;
use std::process::Command;

use crate::common::{Bench, Run, expect, interrupted, json, shown, unless_busy};
use serde_json::{Value, json};
use xfskit_test_support::skip;

/// A small study of attributes with four sections, of which the third has six steps.
const STUDY: &str =
    "bench xattrs n1000-40 n500--s-50-60--D-100 --count 3000 --step 500 --links 100";

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn report(path: &str) -> Value {
    let text = fs::read_to_string(path).unwrap();
    let line: Value = serde_json::from_str(text.trim_end()).unwrap();
    line["report"].clone()
}

/// Replaces the figures of a report: numbers in cells and points, and digits in texts.
fn without_figures(value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::Null => json!("#"),
        Value::Array(items) => items.iter().map(without_figures).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| (name.clone(), without_figures(value));
            Value::Object(fields.iter().map(field).collect())
        }
        Value::String(text) => {
            let figure = |c: char| c.is_ascii_digit() || "+-.,".contains(c);
            let parts: Vec<&str> = text.split(figure).filter(|part| !part.is_empty()).collect();
            json!(parts.join("#"))
        }
        Value::Bool(_) => value.clone(),
    }
}

#[test]
fn an_interrupted_run_keeps_its_sections_and_its_continuation_gives_those_of_one_run() {
    let bench = Bench::new();
    let [whole, part, page, figures] =
        ["whole.json", "part.json", "part.html", "part.csv"].map(|name| shown(&bench.path(name)));
    expect(0, &[&words(STUDY)[..], &["--report", &whole]].concat());
    let files = ["--report", &part, "--html", &page, "--csv", &figures];
    let run = interrupted(&[&words(STUDY)[..], &files].concat(), "1000 attributes on xfskit");
    let (printed, told) = (run.stdout, run.stderr);
    assert!(told.contains("xattrs: 16 steps"), "{told}");
    assert!(told.contains("step 1 of 16: n1000-40"), "{told}");
    assert!(told.contains("stopped after 2 sections"), "{told}");
    assert!(told.contains(&format!("--resume {part} continues")), "{told}");
    assert!(printed.contains("(incomplete: stopped after 2 sections)"), "{printed}");
    assert!(printed.contains("Space: half removed") && !printed.contains("Cost:"), "{printed}");
    let sections = |path: &str| report(path)["sections"].as_array().unwrap().clone();
    assert_eq!(sections(&part).len(), 2);
    assert_eq!(report(&part)["incomplete"], "stopped after 2 sections");
    assert!(fs::read_to_string(&page).unwrap().contains("(incomplete: stopped"));
    assert!(fs::read_to_string(&figures).unwrap().contains("(incomplete),"));
    // The figures of the first sections are those of the first run.
    let kept = sections(&part);
    expect(0, &[&words(STUDY)[..], &["--resume", &part]].concat());
    assert_eq!(report(&part).get("incomplete"), None);
    let (all, expected) = (sections(&part), sections(&whole));
    assert_eq!(all[..2], kept);
    assert_eq!(all.len(), 4);
    for (section, expected) in all.iter().zip(&expected) {
        assert_eq!(without_figures(section), without_figures(expected));
    }
    // Nothing is left to do.
    let again = expect(0, &[&words(STUDY)[..], &["--resume", &part]].concat());
    assert!(!again.stderr.contains("step"), "{}", again.stderr);
    assert_eq!(sections(&part), all);
    assert_eq!(fs::read_dir(bench.path("")).unwrap().count(), 4, "no temporary file is left");
}

#[test]
fn an_interrupted_run_prints_what_it_has_as_json_too() {
    let run = interrupted(&[&words(STUDY)[..], &["--json"]].concat(), "1000 attributes on xfskit");
    let lines: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = &lines[lines.len() - 2]["report"];
    assert_eq!(report["sections"].as_array().unwrap().len(), 2);
    assert_eq!(lines.last().unwrap()["error"]["exit"], 130);
}

#[test]
fn a_run_under_other_circumstances_is_not_continued_and_the_refusal_names_them() {
    let bench = Bench::new();
    let file = shown(&bench.path("a.json"));
    let study = words("bench xattrs n1000-40 --seed 1 --report");
    expect(0, &[&study[..], &[&file]].concat());
    let kept = fs::read(&file).unwrap();
    let refused = |args: &str| {
        let run = expect(2, &[&words(args)[..], &["--resume", &file]].concat());
        assert_eq!(fs::read(&file).unwrap(), kept, "{args}");
        run.stderr
    };
    let other = refused("bench xattrs n1000-40 --seed 2");
    assert!(other.contains("seed is 1 there and 2 here"), "{other}");
    let other = refused("bench xattrs n1000-60 --seed 1 --repetitions 3");
    assert!(other.contains("repetitions is not given there and 3 here"), "{other}");
    assert!(other.contains("cases is [\"n1000-40\"] there and [\"n1000-60\"] here"), "{other}");
    let other = refused("bench crc-update --seed 1 --quick");
    assert!(other.contains("study is xattrs there and crc-update here"), "{other}");
    // Another machine.
    let text = String::from_utf8(kept.clone()).unwrap();
    let elsewhere =
        bench.file("b.json", text.replace("\"kernel\":\"", "\"kernel\":\"9").as_bytes());
    let run = expect(
        2,
        &[&words("bench xattrs n1000-40 --seed 1")[..], &["--resume", &shown(&elsewhere)]].concat(),
    );
    assert!(run.stderr.contains("kernel is 9"), "{}", run.stderr);
    let run = expect(2, &["bench", "xattrs", "n1000-40", "--resume", "/dev/null"]);
    assert!(run.stderr.contains("not a report of bench"), "{}", run.stderr);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_first_and_a_full_disk_loses_no_text() {
    let bench = Bench::new();
    let run = expect(2, &["bench", "xattrs", "n1000-40", "--report", "/nope/a.json"]);
    assert!(run.stderr.contains("/nope/a.json") && !run.stderr.contains("step"), "{}", run.stderr);
    let run = expect(2, &["bench", "xattrs", "n1000-40", "--report", "/dev/full"]);
    assert!(run.stderr.contains("/dev/full: No space left"), "{}", run.stderr);
    assert!(run.stdout.contains("n1000-40: xfskit"), "{}", run.stdout);
    assert_eq!(fs::read_dir(bench.path("")).unwrap().count(), 0);
}

/// A filesystem of 48 MiB, which is unmounted when this is dropped.
struct SmallDisk(String);

impl SmallDisk {
    /// Returns `None` if the user may not mount.
    fn new(bench: &Bench) -> Option<Self> {
        let dir = shown(&bench.path("small"));
        fs::create_dir(&dir).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=48M", "tmpfs", &dir];
        let mounted = Command::new("mount").args(mount).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let umount = || Command::new("umount").arg(&self.0).output().unwrap();
        let unmounted = unless_busy(|| Run::of(umount()));
        assert_eq!(unmounted.code, 0, "{}", unmounted.stderr);
    }
}

#[test]
fn a_disk_that_is_full_in_a_run_leaves_the_finished_sections() {
    let bench = Bench::new();
    let Some(small) = SmallDisk::new(&bench) else { return skip("mount of tmpfs") };
    let file = shown(&bench.path("a.json"));
    // The second case takes a hundred megabytes.
    let study = "bench xattrs n1000-40 n300000--s-50-255--N-1000 --only space --size 4G";
    let run = expect(2, &[&words(study)[..], &["--dir", &small.0, "--report", &file]].concat());
    assert!(run.stderr.contains(&format!("--resume {file} continues")), "{}", run.stderr);
    assert!(run.stdout.contains("(incomplete: "), "{}", run.stdout);
    let cause = format!("bench: no space left in {}: 48 MiB are free there", small.0);
    assert!(run.stderr.contains(&cause) && run.stderr.contains("(--dir)"), "{}", run.stderr);
    let kept = report(&file)["sections"].as_array().unwrap().clone();
    let parts: Vec<&str> = kept.iter().map(|of| of["part"].as_str().unwrap()).collect();
    assert_eq!(parts, ["xattrs.fresh"]);
    assert_eq!(fs::read_dir(&small.0).unwrap().count(), 0, "the images are gone");
}

#[test]
fn a_full_directory_is_named_by_every_study_and_no_other_failure_is_taken_for_it() {
    let bench = Bench::new();
    let Some(small) = SmallDisk::new(&bench) else { return skip("mount of tmpfs") };
    for study in [
        "bench checksum --quick --only compilebench --trees 20 --tree-files 2000 --repetitions 1",
        "bench inodes --quick --only find --threads 2 --files 100000",
    ] {
        let run = expect(2, &[&words(study)[..], &["--size", "4G", "--dir", &small.0]].concat());
        let cause = format!("bench: no space left in {}: 48 MiB are free there", small.0);
        assert!(run.stderr.contains(&cause), "{study}: {}", run.stderr);
    }
    // What takes a known space is refused before.
    for (study, what) in [
        ("bench raid --quick --only states --file-size 100M --dir", "24 members"),
        ("bench crc-update --only recovery --journal 64M --dir", "a journal of 16 MiB"),
    ] {
        let run = expect(2, &[&words(study)[..], &[&small.0]].concat());
        let cause = format!("{}: 48 MiB are free, and {what}", small.0);
        assert!(run.stderr.contains(&cause), "{study}: {}", run.stderr);
        assert!(run.stderr.contains("(--dir)"), "{study}: {}", run.stderr);
    }
    let study = "bench xattrs n1000-40 --only space --size 1M --dir";
    let run = expect(2, &[&words(study)[..], &[&small.0]].concat());
    assert!(!run.stderr.contains("no space left"), "{}", run.stderr);
}

#[test]
fn only_leaves_out_the_other_parts_of_every_suite() {
    let parts = |args: &str| -> Vec<String> {
        let results = json(&[&words(args)[..], &["--json"]].concat());
        let report = &results.last().unwrap()["report"];
        let sections = report["sections"].as_array().unwrap().iter();
        sections.map(|section| section["part"].as_str().unwrap().to_owned()).collect()
    };
    let some = "bench crc-update --quick --appends 3 --threads 2 --only fsync";
    assert_eq!(parts(some), ["crc-update.fsync"]);
    assert_eq!(parts("bench locks --quick --time 0.05 --at 1 --only creates"), ["locks.creates"]);
    assert_eq!(
        parts("bench raid --quick --time 0.01 --members 4 --file-size 1M --only routines"),
        ["raid.routines"]
    );
    let some = "bench inodes --quick --files 5 --loops 1 --threads 2 --size 4G --only find";
    assert_eq!(parts(some), ["inodes.separate"]);
    let all = "bench all --quick --only inodes --threads 1 --size 4G";
    assert_eq!(parts(all), ["inodes.separate"]);
    let run = expect(2, &["bench", "locks", "--only", "nothing"]);
    assert!(run.stderr.contains("creates, model"), "{}", run.stderr);
    let help = expect(0, &["bench", "raid", "--help"]).stdout;
    assert!(help.contains("routines:"), "values are explained: {help}");
}

/// Writes a report with one table of these rows and turns.
fn written(bench: &Bench, name: &str, seed: u64, rows: &[(&str, &[f64])]) -> String {
    let path = shown(&bench.path(name));
    // A small run gives the frame.
    expect(0, &["bench", "xattrs", "n100-40", "--report", &path]);
    let mut report = report(&path);
    report["options"]["seed"] = json!(seed);
    let rows: Vec<Value> = rows
        .iter()
        .map(|(name, turns)| {
            let cell = json!({ "value": turns[0], "digits": 1, "turns": { "values": turns } });
            json!({ "name": name, "storage": "memory", "source": "measured", "cells": [cell] })
        })
        .collect();
    report["sections"] = json!([{
        "part": "s.p", "title": "A section", "text": [], "plots": [],
        "tables": [{
            "title": "A table", "columns": [{ "name": "rate", "unit": "1/s" }], "rows": rows,
            "notes": [],
        }],
    }]);
    fs::write(&path, format!("{}\n", json!({ "report": report }))).unwrap();
    path
}

#[test]
fn two_runs_are_compared_figure_by_figure() {
    let bench = Bench::new();
    let noise = [100.0, 101.0, 99.0, 102.0, 98.0, 100.5];
    let twice = noise.map(|value| value * 2.0);
    let near = noise.map(|value| value * 1.001);
    let a = written(
        &bench,
        "a.json",
        1,
        &[("same", &noise), ("faster", &noise), ("one turn", &noise[..1]), ("gone", &noise)],
    );
    let b = written(
        &bench,
        "b.json",
        2,
        &[("same", &near), ("faster", &twice), ("one turn", &twice[..1]), ("new", &noise)],
    );
    let page = shown(&bench.path("page.html"));
    let run = expect(0, &["bench", "compare", &a, &b, "--html", &page]);
    let at = |text: &str| run.stdout.find(text).unwrap_or_else(|| panic!("{text}: {}", run.stdout));
    assert!(at("Circumstances that differ") < at("Beyond the noise: 1 of 3 figures"));
    assert!(at("  seed") < at("faster: rate, 1/s"));
    assert!(at("faster: rate") < at("Within the noise: 1 of 3") && at("same: rate") > at("Within"));
    assert!(at("No verdict: a single turn shows no spread: 1 of 3") < at("one turn: rate"));
    assert!(run.stdout.contains("2.000") && run.stdout.contains("A: A section: A table: gone"));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("faster: rate, 1/s"), "{page}");
    let compared = &json(&["bench", "compare", "--json", &a, &b])[0]["comparison"];
    let verdicts: Vec<(&str, &str)> = compared["figures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|figure| (figure["row"].as_str().unwrap(), figure["verdict"].as_str().unwrap()))
        .collect();
    let expected = [("same", "within_noise"), ("faster", "differs"), ("one turn", "no_spread")];
    assert_eq!(verdicts, expected);
    assert_eq!(compared["circumstances"], json!([{ "name": "seed", "a": "1", "b": "2" }]));
    let other = written(&bench, "c.json", 1, &[("another", &noise)]);
    let run = expect(2, &["bench", "compare", &a, &other]);
    assert!(run.stderr.contains("no measured figure in common"), "{}", run.stderr);
    let run = expect(2, &["bench", "compare", &a, "/dev/null"]);
    assert!(run.stderr.contains("not a report of bench"), "{}", run.stderr);
}

#[test]
fn a_run_equals_itself() {
    let bench = Bench::new();
    let path = shown(&bench.path("a.json"));
    let study =
        words("bench xattrs n1000-40 --count 200 --step 100 --links 100 --repetitions 4 --report");
    expect(0, &[&study[..], &[&path]].concat());
    let compared = &json(&["bench", "compare", "--json", &path, &path])[0]["comparison"];
    let figures = compared["figures"].as_array().unwrap();
    assert!(figures.len() > 10, "{compared}");
    assert!(figures.iter().all(|figure| figure["verdict"] == "within_noise"), "{compared}");
    assert_eq!(compared["circumstances"], json!([]));
    assert_eq!((&compared["only_a"], &compared["only_b"]), (&json!([]), &json!([])));
}
