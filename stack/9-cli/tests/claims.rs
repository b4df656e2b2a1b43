//! `xfskit bench claims`, on files of claims about a small study.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{Bench, expect, interrupted, json, shown};

/// Returns a file of claims with one run of this command, and two claims about its leaves. The
/// first one has this aim.
fn claims(command: &str, aim: &str) -> String {
    format!(
        r#"# Leaves of a thousand attributes.
root = "."
page = "claims.md"

[[run]]
id = "space"
command = "{command}"
needs = {{ minutes = 1 }}
measured = {{ kernel = "6.1" }}

[[run.claim]]
id = "space.leaves"
file = "page.md"
sentence = "There are 5 leaves."
stated = "5"
figure = {{ table = "Leaves", row = "n1000-40: xfskit", column = "leaves" }}
aim = {{ {aim} }}
last = {{ median = 5, turns = 1 }}

[[run.claim]]
id = "space.wasted"
file = "page.md"
sentence = "Nothing is wasted."
stated = "Nothing"
figure = {{ table = "Leaves", column = "wasted", unit = "%" }}
"#
    )
}

const SMALL: &str = "xfskit bench xattrs n1000-40 --only space";

/// Writes a file of claims, and returns its arguments.
fn file(bench: &Bench, text: &str) -> [String; 4] {
    let file = bench.file("claims.toml", text.as_bytes());
    ["--file".into(), shown(&file), "--dir".into(), shown(&bench.path("volumes"))]
}

fn with<'a>(words: &[&'a str], file: &'a [String; 4]) -> Vec<&'a str> {
    let claims = ["bench", "claims"];
    claims.iter().chain(words).copied().chain(file.iter().map(String::as_str)).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn figures_are_measured_and_file_and_page_are_renewed() {
    let bench = Bench::new();
    let file = file(&bench, &claims(SMALL, "at_least = 1"));
    let run = expect(0, &with(&[], &file));
    assert!(run.stdout.contains("space.leaves: "), "{}", run.stdout);
    assert!(run.stderr.contains("1 of 1: space (about a minute)"), "{}", run.stderr);
    let renewed = text(&bench.path("claims.toml"));
    assert!(renewed.starts_with("# Leaves of a thousand attributes.\n"), "{renewed}");
    assert!(renewed.contains("measured = { date = "), "{renewed}");
    assert_eq!(renewed.matches("\nlast = { median = ").count(), 2, "{renewed}");
    let page = text(&bench.path("claims.md"));
    assert!(page.contains("at least 1.00: reached"), "{page}");
    assert!(!page.contains("not recorded"), "{page}");
    assert_eq!(fs::read_dir(bench.path("volumes")).unwrap().count(), 0, "a report was left");
}

#[test]
fn a_missed_aim_is_exit_code_1_and_the_figure_is_kept() {
    let bench = Bench::new();
    let file = file(&bench, &claims(SMALL, "at_least = 1000000"));
    let run = expect(1, &with(&["--only", "space.leaves"], &file));
    assert!(run.stderr.contains("space.leaves: "), "{}", run.stderr);
    assert!(run.stderr.contains("at least 1,000,000: missed"), "{}", run.stderr);
    assert!(!run.stderr.contains("space.wasted"), "{}", run.stderr);
    assert!(text(&bench.path("claims.md")).contains("at least 1,000,000: **missed**"));
}

#[test]
fn a_command_that_fails_leaves_the_old_figures() {
    for command in ["xfskit bench xattrs no-such-case", "bench-nothing $DIR"] {
        let bench = Bench::new();
        let before = claims(command, "at_least = 1");
        let file = file(&bench, &before);
        let run = expect(1, &with(&[], &file));
        assert!(run.stderr.contains("space: "), "{}", run.stderr);
        assert_eq!(text(&bench.path("claims.toml")), before);
    }
}

#[test]
fn a_figure_that_the_report_has_not_is_named() {
    let bench = Bench::new();
    let file = file(&bench, &claims(SMALL, "at_least = 1").replace("\"Leaves\"", "\"Twigs\""));
    let run = expect(1, &with(&[], &file));
    assert!(
        run.stderr.contains("no figure at Twigs / n1000-40: xfskit / leaves"),
        "{}",
        run.stderr
    );
    let file = text(&bench.path("claims.toml"));
    assert!(file.contains("last = { median = 5, turns = 1 }"), "old and new figures mixed: {file}");
}

#[test]
fn too_little_space_is_said_before_the_command_runs() {
    let bench = Bench::new();
    let needs = claims(SMALL, "at_least = 1")
        .replace("minutes = 1 }", "minutes = 1, disk_gb = 999999999 }");
    let run = expect(1, &with(&[], &file(&bench, &needs)));
    assert!(run.stderr.contains("GB of free space, and 999999999 are needed"), "{}", run.stderr);
    assert_eq!(text(&bench.path("claims.toml")), needs);
}

/// A program that takes all time of a processor until this is dropped: where that is allowed, more
/// than the tests beside this one, for only the programs with most time are named.
struct Busy(Child);

impl Busy {
    fn new() -> Self {
        let shell = ["-n", "-10", "sh", "-c", "while :; do :; done"];
        Self(Command::new("nice").args(shell).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_busy_machine_is_named_and_measured_only_if_that_is_allowed() {
    let bench = Bench::new();
    let before = claims(SMALL, "at_least = 1").replace("minutes = 1", "idle = true, minutes = 1");
    let file = file(&bench, &before);
    // More than a twentieth of all processors.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _busy: Vec<Busy> = (0..processors.div_ceil(8)).map(|_| Busy::new()).collect();
    let told = interrupted(&with(&[], &file), "waiting up to").stderr;
    assert!(told.contains("space: waiting up to 120 s for an idle machine: other"), "{told}");
    assert!(told.contains(" % of the processors") && told.contains("sh ("), "{told}");
    assert_eq!(text(&bench.path("claims.toml")), before);
    expect(0, &with(&["--allow-busy"], &file));
    let renewed = text(&bench.path("claims.toml"));
    assert!(renewed.contains("before: not idle, other programs take "), "{renewed}");
    assert!(text(&bench.path("claims.md")).contains("before: not idle, other"));
}

#[test]
fn a_list_and_a_plan_measure_nothing() {
    let bench = Bench::new();
    let before = claims("bench-nothing $DIR --all", "at_most = 4");
    let file = file(&bench, &before);
    let run = expect(0, &with(&["--list"], &file));
    assert!(
        run.stdout.contains("space.leaves: last 5.00; at most 4.00: missed\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("space.wasted: not measured\n"), "{}", run.stdout);
    let run = expect(0, &with(&["--dry-run"], &file));
    let volumes = shown(&bench.path("volumes"));
    assert!(run.stdout.contains(&format!("\n  bench-nothing {volumes} --all\n")), "{}", run.stdout);
    let plans = json(&with(&["--dry-run", "--json"], &file));
    assert_eq!(plans[0]["run"]["claims"].as_array().unwrap().len(), 2);
    assert_eq!(text(&bench.path("claims.toml")), before);
    assert!(!bench.path("volumes").exists() && !bench.path("claims.md").exists());
}

#[test]
fn a_page_is_made_from_the_file_alone() {
    let bench = Bench::new();
    let before = claims("bench-nothing", "at_most = 4");
    expect(0, &with(&["--page"], &file(&bench, &before)));
    assert_eq!(text(&bench.path("claims.toml")), before);
    assert!(text(&bench.path("claims.md")).contains("at most 4.00: **missed**"));
}

#[test]
fn a_wrong_file_and_an_unknown_name_are_refused() {
    let bench = Bench::new();
    let good = file(&bench, &claims(SMALL, "at_least = 1"));
    let run = expect(2, &with(&["--only", "speed"], &good));
    assert!(run.stderr.contains("speed: no claim and no run has this name"), "{}", run.stderr);
    let wrong = file(&bench, &claims(SMALL, "at_leats = 1"));
    let run = expect(2, &with(&["--list"], &wrong));
    assert!(run.stderr.contains("at_leats"), "{}", run.stderr);
    let run = expect(2, &["bench", "claims", "--list", "--file", "/nowhere/claims.toml"]);
    assert!(run.stderr.contains("/nowhere/claims.toml"), "{}", run.stderr);
}
