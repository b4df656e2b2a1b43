//! The claims of this repository, and a report that was made by hand.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use xfskit_workload::measure::Samples;
use xfskit_workload::report::{Cell, Report, Section, Table};

use super::data::{Aim, Circumstances, Claim, ClaimsFile, Last};
use super::idle::Load;
use super::{figure, page, problem, words};
use crate::grammar::Cli;

fn kept() -> ClaimsFile {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/claims.toml");
    ClaimsFile::read(&file).expect("the claims of the repository")
}

fn claims(file: &ClaimsFile) -> impl Iterator<Item = &Claim> {
    file.claims.runs.iter().flat_map(|run| &run.claims)
}

/// Returns the text with single blanks, because lines of prose break anywhere.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_claim_is_stated_where_it_says() {
    let file = kept();
    let mut wrong = Vec::new();
    for Claim { id, file: page, sentence, stated, .. } in claims(&file) {
        let text = fs::read_to_string(file.of_root(page)).expect("a page");
        if !joined(&text).contains(&joined(sentence)) {
            wrong.push(format!("{id}: {page} has no {sentence:?}"));
        }
        if !sentence.contains(stated.as_str()) {
            wrong.push(format!("{id}: {sentence:?} does not state {stated}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_of_runs_and_claims_are_unique() {
    let file = kept();
    let runs = file.claims.runs.iter().map(|run| format!("run {}", run.id));
    let mut names: Vec<String> = runs.chain(claims(&file).map(|claim| claim.id.clone())).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_page_is_that_of_the_file() {
    let file = kept();
    let kept = fs::read_to_string(file.of_root(&file.claims.page)).expect("the page");
    let made = page::page(&file.claims);
    assert!(made == kept, "docs/claims.md is old: `xfskit bench claims --page` makes it");
}

#[test]
fn every_command_of_xfskit_parses() {
    let file = kept();
    let mut seen = 0;
    for run in &file.claims.runs {
        let mut words = words(&run.command, Path::new("/nowhere"));
        words.extend(["--report".into(), "report.json".into()]);
        if words[0] == "xfskit" {
            seen += 1;
            let parsed = Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{}: {}", run.command, parsed.unwrap_err());
        }
    }
    assert!(seen > 0, "no command of xfskit");
}

/// Words behind a number that make it a measured figure.
const UNITS: [&str; 7] = ["times", "percent", "%", "files/s", "MB/s", "GB/s", "µs"];

/// Returns the figures of a page: rows of tables with numbers behind their first cell, and numbers
/// with a unit in prose.
fn figures_of(text: &str) -> Vec<String> {
    let has_number = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let is_row = |line: &&str| {
        line.starts_with('|')
            && line.split('|').skip(2).any(|cell| has_number(cell.trim_start_matches('`')))
    };
    let rows = text.lines().filter(is_row).map(str::to_owned);
    let prose = text.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>().join(" ");
    let words: Vec<&str> = prose.split_whitespace().collect();
    let figures = words.windows(2).filter(|pair| {
        let unit = pair[1].trim_end_matches([',', '.', ';', ':', ')']);
        pair[0].starts_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit)
    });
    let figures: Vec<String> = figures.map(|pair| pair.join(" ")).collect();
    rows.chain(figures).collect()
}

#[test]
fn every_figure_of_the_readmes_belongs_to_a_claim() {
    let file = kept();
    let mut missing = Vec::new();
    for (name, from) in [("README.md", ""), ("bench/README.md", "## Results")] {
        let text = fs::read_to_string(file.of_root(name)).expect("a page");
        let results = &text[text.find(from).expect("results")..];
        let stated: Vec<String> = claims(&file)
            .filter(|claim| claim.file == name)
            .map(|claim| joined(&claim.sentence))
            .collect();
        assert!(!stated.is_empty(), "{name} has no claims");
        let figures = figures_of(results).into_iter().map(|figure| joined(&figure));
        missing.extend(
            figures
                .filter(|figure| !stated.iter().any(|sentence| sentence.contains(figure.as_str())))
                .map(|figure| format!("{name}: {figure}")),
        );
    }
    assert!(missing.is_empty(), "no claim has:\n{}", missing.join("\n"));
}

#[test]
fn figures_are_found_in_rows_and_in_prose() {
    let text = "It is 5.1 times\nas fast, in 8 directories.\n\n| | median |\n| --- | ---: |\n| x | 4.2 |\n";
    assert_eq!(figures_of(text), ["| x | 4.2 |", "5.1 times"]);
}

const SAMPLE: &str = r#"# A comment that stays.
root = "."
page = "page.md"

[[run]] # and another one
id = "r"
command = "bench-x $DIR"
needs = { minutes = 1 }

[[run.claim]]
id = "r.rate"
file = "page.md"
sentence = "The rate is 5 files/s."
stated = "5"
figure = { table = "t", row = "xfskit", column = "median" }
aim = { at_least = 4 }

[[run.claim]]
id = "r.times"
file = "page.md"
sentence = "It is 2 times as fast."
stated = "2"
figure = { table = "t", row = "xf…", column = "median", unit = "1/s" }
to = { row = "kernel" }
aim = { at_least = 3 }
last = { median = 2.5, turns = 1 }
"#;

fn sample(dir: &Path) -> (PathBuf, ClaimsFile) {
    let path = dir.join("claims.toml");
    fs::write(&path, SAMPLE).expect("written");
    let file = ClaimsFile::read(&path).expect("claims");
    (path, file)
}

fn report() -> Report {
    let mut table = Table::new("t", &[("median", "ms"), ("median", "1/s")]);
    for (name, turns) in [("kernel", [2.0, 3.0, 4.0]), ("xfskit", [5.0, 6.0, 7.0])] {
        let turns: Samples = turns.into_iter().collect();
        table.row(name, "memory", vec![Cell::Text("none".into()), Cell::median(&turns, 1)]);
    }
    let section = Section { tables: vec![table], ..Section::new("s") };
    Report::new("r", xfskit_workload::Environment::now(), vec![section])
}

#[test]
fn a_figure_is_found_and_a_ratio_has_its_interval() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_, file) = sample(dir.path());
    let [rate, times] = &file.claims.runs[0].claims[..] else { panic!("{file:?}") };
    let of = |claim| figure::measured(&report(), claim);
    let last = Last { median: 6.0, low: Some(5.0), high: Some(7.0), turns: Some(3) };
    assert_eq!(of(rate), Ok(last));
    let last = of(times).expect("a ratio");
    assert_eq!((last.median, last.low, last.high), (2.0, Some(1.75), Some(2.5)));
    let mut missing = rate.clone();
    missing.figure.row = Some("nothing".into());
    let why = of(&missing).expect_err("no such row");
    assert!(why.contains("t / nothing / median"), "{why}");
}

#[test]
fn a_missed_aim_is_a_problem_and_names_the_claim() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_, file) = sample(dir.path());
    let [rate, times] = &file.claims.runs[0].claims[..] else { panic!("{file:?}") };
    assert_eq!(problem(rate, &figure::measured(&report(), rate)), None);
    let why = problem(times, &figure::measured(&report(), times)).expect("2 is not 3");
    assert_eq!(why, "r.times: 2.00 (1.75 to 2.50); at least 3.00: missed");
    assert_eq!(problem(rate, &Err("no".into())), Some("r.rate: no".into()));
    let aim = Aim { at_least: None, at_most: Some(1.15) };
    assert!(aim.is_reached(1.15) && !aim.is_reached(1.2) && !aim.is_reached(f64::NAN));
}

#[test]
fn circumstances_say_whether_the_machine_was_idle() {
    let load = |busy| Load { busy, ..Load::default() };
    let of = |load: Option<&Load>| {
        let environment =
            xfskit_workload::Environment { load: "1.50".into(), ..report().environment };
        Circumstances::of(&environment).beside(load).load.expect("known")
    };
    assert_eq!(of(None), "average 1.50 before");
    let idle = "average 1.50 before: other programs take 1 % of the processors";
    assert_eq!(of(Some(&load(1.2))), idle);
    let busy = "average 1.50 before: not idle, other programs take 60 % of the processors";
    assert_eq!(of(Some(&load(60.0))), busy);
}

#[test]
fn renewed_figures_change_nothing_else_of_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, mut file) = sample(dir.path());
    let now = Circumstances::of(&report().environment);
    let last = Last { median: 2.0, low: Some(1.75), high: None, turns: Some(3) };
    let rate = Last { median: 6.0, low: None, high: None, turns: None };
    file.renew(0, now, &[rate, last]);
    file.write(&page::page(&file.claims)).expect("written");
    let text = fs::read_to_string(&path).expect("written");
    let added = |line: &&str| !SAMPLE.lines().any(|old| old == *line);
    let new: Vec<&str> = text.lines().filter(added).collect();
    let [measured, first, figure] = new[..] else { panic!("{text}") };
    assert!(measured.starts_with("measured = { date = "), "{measured}");
    assert!(first.contains("last = { median = 6.0 }"), "{first}");
    assert_eq!(figure, "last = { median = 2.0, low = 1.75, turns = 3 }");
    let again = ClaimsFile::read(&path).expect("claims");
    assert_eq!(again.claims.runs[0].claims[1].last, Some(last));
    assert_eq!(again.claims.runs[0].claims[0].last, Some(rate));
    let page = fs::read_to_string(dir.path().join("page.md")).expect("a page");
    assert!(
        page.contains("| `r.times` | 2 | 2.00 | 1.75 | – | 3 | at least 3.00: **missed** |"),
        "{page}"
    );
    assert!(
        page.contains("| `r.rate` | 5 | 6.00 | – | – | – | at least 4.00: reached |"),
        "{page}"
    );
}

#[test]
fn a_stated_figure_outside_of_the_range_is_far() {
    let range = Last { median: 5.0, low: Some(4.5), high: Some(5.5), turns: Some(5) };
    assert!(!range.is_far_from("5.1") && range.is_far_from("6") && range.is_far_from("5,000"));
    let once = Last { low: None, high: None, turns: Some(1), ..range };
    assert!(!once.is_far_from("5.9") && once.is_far_from("6.1") && !once.is_far_from("a fraction"));
}
