//! `xfskit bench`, with small numbers.

use std::fs;

use crate::common::{Bench, expect, json, shown};

/// The arguments of a small study of attributes.
const SMALL: [&str; 10] = [
    "bench",
    "xattrs",
    "n1000-40",
    "n500--s-50-60--D-100",
    "--count",
    "100",
    "--step",
    "50",
    "--links",
    "100",
];

#[test]
fn a_study_prints_each_result_and_then_the_report() {
    let results = json(&[&SMALL[..], &["--json"]].concat());
    let of = |key: &str| results.iter().filter(|result| result.get(key).is_some()).count();
    assert_eq!((of("xattrs"), of("xattr_cost"), of("links"), of("report")), (2, 4, 3, 1));
    let report = &results.last().unwrap()["report"];
    assert_eq!(report["sections"].as_array().unwrap().len(), 4);
}

#[test]
fn a_report_is_text_a_page_and_figures() {
    let bench = Bench::new();
    let (page, figures) = (shown(&bench.path("out.html")), shown(&bench.path("out.csv")));
    let how = ["--only", "space", "--html", &page, "--csv", &figures];
    let run = expect(0, &[&SMALL[..4], &how].concat());
    assert!(run.stdout.contains("\n  n1000-40: xfskit "), "{}", run.stdout);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"), "{page}");
    let figures = fs::read_to_string(figures).unwrap();
    assert!(figures.contains("n1000-40: xfskit,leaves,,"), "{figures}");
}

#[test]
fn the_inode_test_runs_all_its_steps() {
    let some = ["--threads", "2", "--files", "50", "--loops", "2", "--size", "4G"];
    let results = json(&[&["bench", "inodes", "--json", "--shape", "deep"][..], &some].concat());
    let steps: Vec<&str> = results
        .iter()
        .filter(|result| result["inodes"]["driver"] == "xfskit")
        .map(|result| result["inodes"]["step"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["create", "repair", "check", "bulkstat", "find", "list", "remove"]);
    let run = expect(0, &[&["bench", "inodes", "--shape", "racing"][..], &some].concat());
    assert!(run.stdout.contains("removal races with creation"), "{}", run.stdout);
}

#[test]
fn every_kind_of_lock_is_measured_and_a_model_without_validation_is_not_extrapolated() {
    let some = ["--quick", "--time", "0.05", "--at", "1", "--processors", "8", "--json"];
    let results = json(&[&["bench", "locks"][..], &some].concat());
    let of = |key: &str| results.iter().filter_map(|result| result.get(key)).collect::<Vec<_>>();
    let measured = of("locks");
    assert_eq!((measured.len(), of("report").len()), (5, 1));
    // One number of threads leaves no point to validate with.
    assert!(of("locks_model").iter().all(|point| point["threads"] == 1), "{results:?}");
    let tables = results.last().unwrap()["report"]["sections"][1]["tables"].as_array().unwrap();
    assert_eq!(tables[0]["title"], "The model and its validation");
    for row in tables[0]["rows"].as_array().unwrap() {
        assert_eq!(row["source"], "model");
        assert!(row["cells"][5].as_str().unwrap().starts_with("no: "), "{row}");
    }
}

#[test]
fn an_array_without_parity_is_only_read_whole() {
    let some = ["--level", "raid0", "--members", "3", "--readers", "2", "--file-size", "1M"];
    let some = [&some[..], &["--only", "states"]].concat();
    let results = json(&[&["bench", "raid", "--quick", "--json"][..], &some].concat());
    let states: Vec<_> =
        results.iter().filter_map(|result| result["raid"]["state"].as_str()).collect();
    assert_eq!(states, ["healthy", "healthy"], "requests of a full stripe, and small ones");
    for wrong in ["0", "-1", "NaN", "x"] {
        let run = expect(2, &["bench", "raid", "--quick", &format!("--time={wrong}")]);
        assert!(run.stderr.contains("not a number of seconds above 0"), "{}", run.stderr);
    }
    let run = expect(2, &["bench", "raid", "--quick", "--level", "raid7"]);
    assert!(run.stderr.contains("raid7 is not a level of md"), "{}", run.stderr);
}

#[test]
fn a_point_that_is_too_short_has_no_figures() {
    let some = ["--quick", "--time", "0.000001", "--members", "4", "--readers", "50"];
    // In memory: in so short a time simulated members may seem to deliver more than they can, by
    // what was cached before it, and that ends a run.
    let parts = ["--only", "states", "--only", "sizes", "--only", "caches", "--only", "readers"];
    let all = [&["bench", "raid", "--json", "--file-size", "4M"][..], &some, &parts].concat();
    let results = json(&all);
    let points: Vec<_> = results.iter().filter_map(|result| result.get("raid")).collect();
    assert!(points.len() > 8);
    for point in points {
        let count = |what: &str| point[what].as_u64().unwrap();
        let short = count("requests") < (2 * count("readers")).max(10);
        assert_eq!(point["too_short"], short, "{point}");
        let figures = point["mb_per_second"]["values"].as_array().unwrap();
        assert_eq!(figures.is_empty(), point["too_short"] == true, "{point}");
    }
}

#[test]
fn given_numbers_count_in_a_quick_run_and_no_result_is_0() {
    let some = ["bench", "inodes", "--quick", "--files", "5", "--loops", "3", "--threads", "2"];
    let results = json(&[&some[..], &["--shape", "racing", "--size", "4G", "--json"]].concat());
    assert_eq!(results[0]["inodes"]["operations"], 30);
    expect(2, &["bench", "inodes", "--files", "0"]);
    expect(2, &["bench", "crc-update", "--appends", "0"]);
}

#[test]
fn every_program_runs_without_and_with_checksums_and_shares_are_printed() {
    let mut some =
        "bench checksum --quick --json --repetitions 1 --threads 2 --files 60 --passes 1";
    let fs_mark: Vec<&str> = some.split(' ').chain(["--only", "fs-mark"]).collect();
    let results = json(&fs_mark);
    let shares: Vec<_> = results.iter().filter_map(|line| line.get("checksum_share")).collect();
    assert_eq!(shares.len(), 6, "three steps by two routines");
    assert!(shares.iter().all(|share| share["sums"].as_u64() > Some(0)), "{shares:?}");
    // None if the step was too short.
    let percent = shares.iter().filter_map(|share| share["percent"].as_f64());
    assert!(percent.into_iter().all(|percent| percent <= 100.0), "{shares:?}");
    some = "bench checksum --quick --json --repetitions 1 --only dbench --only compilebench \
            --runs 6 --trees 2 --tree-files 20 --threads 1";
    let results = json(&some.split(' ').collect::<Vec<_>>());
    let figures: Vec<_> = results.iter().filter_map(|line| line.get("checksum")).collect();
    assert_eq!(figures.iter().filter(|figure| figure["program"] == "dbench").count(), 6);
    for figure in figures {
        for way in ["off", "on", "table"] {
            assert!(!figure[way]["values"].as_array().unwrap().is_empty(), "{way}: {figure}");
        }
    }
    assert_eq!(results.last().unwrap()["report"]["sections"].as_array().unwrap().len(), 2);
}

#[test]
fn one_pass_and_split_checksums_are_measured_with_their_load() {
    let some = "bench crc-update --quick --appends 3 --threads 2 --journal 20M --json";
    let results = json(&some.split(' ').collect::<Vec<_>>());
    let of = |key: &str| results.iter().filter(|result| result.get(key).is_some()).count();
    assert!(of("crc") >= 48, "two ways, eight sizes, three alignments of at least one routine");
    assert_eq!((of("fsync"), of("report")), (2, 1));
}

#[test]
fn a_named_case_runs_alone() {
    let results = json(&["bench", "xattrs", "n1000-40-d25", "--json"]);
    let of = |key: &str| results.iter().filter(|result| result.get(key).is_some()).count();
    assert_eq!((of("xattrs"), of("xattr_cost"), of("links"), of("report")), (1, 0, 0, 1));
}

#[test]
fn an_invalid_case_is_refused_with_an_example() {
    let run = expect(2, &["bench", "xattrs", "n1000-4x"]);
    assert!(run.stderr.contains("n1000000-120-150-d25"), "{}", run.stderr);
}

#[test]
fn disks_in_a_directory_fit_its_filesystem_and_leave_nothing() {
    let bench = Bench::new();
    let dir = shown(&bench.path("disks"));
    fs::create_dir(&dir).unwrap();
    let some = ["bench", "inodes", "--threads", "1", "--files", "20", "--loops", "1", "--quick"];
    let some = [&some[..], &["--dir", &dir]].concat();
    // 500 TB as published, or the largest file here (16 TiB on ext4).
    expect(0, &some);
    let run = expect(2, &[&some[..], &["--size", "8388607T"]].concat());
    assert!(run.stderr.contains("--size sets a smaller disk"), "{}", run.stderr);
    let raid = ["bench", "raid", "--members", "3", "--level", "raid5", "--readers", "1"];
    expect(2, &[&raid[..], &["--file-size", "4000000T", "--dir", &dir]].concat());
    let links = ["bench", "xattrs", "--only", "links", "--links", "1000000000000000"];
    let run = expect(2, &[&links[..], &["--dir", &dir]].concat());
    assert!(run.stderr.contains("1000000000000000 links need at least"), "{}", run.stderr);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}
