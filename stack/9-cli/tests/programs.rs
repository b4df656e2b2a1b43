//! `xfskit dbench`, `xfskit compilebench` and `xfskit fs_mark`, with small numbers, compared with
//! the original programs.

use std::fs;
use std::process::Command;

use crate::common::{Bench, expect, json, shown};
use serde_json::Value;
use xfskit_test_support::skip;

/// Returns the counted operations of a dbench, and how often each ran.
fn counts(results: &[Value]) -> Vec<(String, u64)> {
    let operations = &results.last().unwrap()["dbench"]["operations"];
    let count = |one: &Value| {
        (one["operation"].as_str().unwrap().to_owned(), one["count"].as_u64().unwrap())
    };
    operations.as_array().unwrap().iter().map(count).collect()
}

#[test]
fn dbench_runs_the_same_in_a_directory_and_on_a_volume() {
    let bench = Bench::new();
    let some = ["dbench", "--json", "--loops", "1", "-x", "2"];
    let mounted = json(&[&some[..], &["-D", &shown(&bench.path("dir"))]].concat());
    let engine = json(&[&some[..], &["--engine", "mem:1G"]].concat());
    assert_eq!(counts(&mounted), counts(&engine));
    assert_eq!(counts(&engine).len(), 16, "every operation there is");
    assert!(engine.iter().any(|line| line["progress"]["stage"] == "cleanup"));
}

#[test]
fn dbench_reads_loadfiles_and_names_a_wrong_line() {
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
    assert!(run.stderr.contains("line 1: unknown operation Dance"), "{}", run.stderr);
}

#[test]
fn compilebench_runs_the_same_in_a_directory_and_on_a_volume() {
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
    let nowhere = shown(&bench.path("nowhere"));
    let run = expect(2, &["compilebench", "-i", "0", "-r", "0", "-D", &nowhere]);
    assert!(run.stderr.contains("nothing to do"), "{}", run.stderr);
    assert!(!bench.path("nowhere").exists());
}

#[test]
fn fs_mark_runs_the_same_in_a_directory_and_on_a_volume() {
    let bench = Bench::new();
    let image = shown(&bench.path("disk.img"));
    expect(0, &["mkfs", "-q", "--size", "1G", &image]);
    let some = ["fs_mark", "--json", "-n", "20", "-s", "100", "-S", "0", "-D", "2", "-N", "10"];
    let counts = |more: &[&str]| -> Vec<u64> {
        let results = json(&[&some[..], more].concat());
        results.iter().map(|line| line["count"].as_u64().unwrap()).collect()
    };
    let (one, other) = (shown(&bench.path("one")), shown(&bench.path("other")));
    let on_volume = counts(&["-L", "2", "--engine", &image, "-d", "/one", "-d", "other"]);
    assert_eq!(on_volume, counts(&["-L", "2", "-d", &one, "-d", &other]));
    assert_eq!(on_volume, [40, 80]);
    let files = |dir: &str| {
        let run = expect(0, &["ls", "-R", "--json", &image, dir]);
        run.stdout.lines().filter(|line| line.contains("\"type\":\"regular\"")).count()
    };
    assert_eq!((files("/one"), files("/other")), (40, 40), "-L keeps files, as fs_mark does");
    expect(0, &["check", &image]);
    let run = expect(2, &["fs_mark", "--engine", &image, "-d", "no/such"]);
    assert!(run.stderr.contains("no/such"), "{}", run.stderr);
}

#[test]
fn fs_mark_keeps_or_removes_its_files_by_option() {
    let bench = Bench::new();
    let files = |dir: &str| fs::read_dir(bench.path(dir)).unwrap().count();
    let cases: [(&[&str], usize); 4] =
        [(&[], 0), (&["-k"], 5), (&["-L", "1"], 5), (&["-L", "2", "-k"], 10)];
    for (n, (options, kept)) in cases.into_iter().enumerate() {
        let (ours, others) = (format!("ours{n}"), format!("theirs{n}"));
        let all = [&["-n", "5", "-s", "9", "-S", "0"], options].concat();
        expect(0, &[&["fs_mark", "-d", &shown(&bench.path(&ours))], &all[..]].concat());
        assert_eq!(files(&ours), kept, "{options:?}");
        if theirs(&bench, "fs_mark", &[&["-d", &others], &all[..]].concat()).is_some() {
            assert_eq!(files(&others), kept, "{options:?}");
        }
    }
}

/// Returns the output of Debian's program, or nothing if it is not installed.
fn theirs(bench: &Bench, program: &str, args: &[&str]) -> Option<String> {
    // fs_mark leaves a log in the working directory.
    let here = bench.path(".");
    let Ok(out) = Command::new(program).args(args).current_dir(here).output() else {
        skip(&format!("{program} (Debian packages fsmark, dbench)"));
        return None;
    };
    Some(String::from_utf8(out.stdout).unwrap())
}

/// Replaces every number by `N` and blanks by one blank.
fn shape(text: &str) -> Vec<String> {
    let word = |word: &str| {
        let (name, value) =
            word.split_once('=').map_or(("", word), |(name, _)| (name, &word[name.len() + 1..]));
        let number = value.parse::<f64>().is_ok();
        if number { format!("{name}N") } else { word.to_owned() }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[test]
fn fs_mark_prints_what_fs_mark_prints() {
    let bench = Bench::new();
    let some = ["-n", "50", "-s", "100", "-S", "0", "-L", "2", "-k", "-d"];
    let Some(theirs) =
        theirs(&bench, "fs_mark", &[&some[..], &[&shown(&bench.path("theirs"))]].concat())
    else {
        return;
    };
    let ours =
        expect(0, &[&["fs_mark"], &some[..], &[&shown(&bench.path("ours"))]].concat()).stdout;
    let heads = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(heads(&ours), heads(&theirs), "{ours}{theirs}");
    let table = |text: &str| {
        let at = text.find("FSUse%").unwrap();
        shape(&text[at..])
    };
    assert_eq!(table(&ours), table(&theirs));
    let columns = |text: &str| -> Vec<String> {
        let lines = text.lines().rev().take(2);
        lines
            .map(|line| line.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(columns(&ours), columns(&theirs), "Count and Size");
    let files = |dir: &str| fs::read_dir(bench.path(dir)).unwrap().count();
    assert_eq!(files("ours"), files("theirs"));
}

#[test]
fn dbench_prints_what_dbench_prints_of_the_same_load() {
    let bench = Bench::new();
    let load = expect(0, &["dbench", "--print-load"]).stdout;
    let load = shown(&bench.file("client.txt", load.as_bytes()));
    let (theirs_in, ours_in) = (bench.path("theirs"), bench.path("ours"));
    fs::create_dir(&theirs_in).unwrap();
    let some = ["-t", "2", "-c", &load];
    let Some(theirs) =
        theirs(&bench, "dbench", &[&some[..], &["-D", &shown(&theirs_in), "2"]].concat())
    else {
        return;
    };
    let ours = expect(0, &[&["dbench"], &some[..], &["-D", &shown(&ours_in), "2"]].concat()).stdout;
    // The operations in that time differ, and so do the lines before.
    let lines = |text: &str| -> Vec<String> {
        let known = |line: &String| {
            ["Operation", "-----", "Throughput", "N cleanup"]
                .iter()
                .any(|head| line.starts_with(head))
        };
        shape(text).into_iter().filter(known).collect()
    };
    assert_eq!(lines(&ours), lines(&theirs), "{ours}{theirs}");
    let second = |text: &str| shape(text).into_iter().find(|line| line.contains("execute"));
    assert_eq!(second(&ours), second(&theirs));
    assert!(!theirs.contains("failed for handle"), "dbench takes our load: {theirs}");
}
