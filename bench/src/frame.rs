//! The frame of every benchmark: its arguments, its turns, and where its report goes.
//!
//! A benchmark gives [`run`] its title, its usual number of turns, and a function that measures.
//! The function returns sections of a report of `xfskit-workload`, as the suites of `xfskit bench`
//! do.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use xfskit_workload::report::{Section, Table, csv, html, text};
use xfskit_workload::{Environment, Report};

/// Any error that ends a benchmark.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of a measurement.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The command line of a benchmark.
#[derive(Parser)]
struct CommandLine<A: Args> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    options: Options,
}

/// Options of every benchmark.
#[derive(Args, Debug)]
struct Options {
    /// Turns of each measurement. One turn shows no spread
    #[arg(long, value_name = "NUMBER")]
    turns: Option<NonZeroUsize>,
    /// Write the report to this file, a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the figures to this file, one on each line
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the report to this file, with the samples of each figure
    #[arg(long, value_name = "FILE.json")]
    report: Option<PathBuf>,
    /// Check the arguments, and measure nothing
    #[arg(long)]
    dry_run: bool,
}

/// Parses the arguments, measures, prints the report, and writes it to the requested files.
/// `measure` gets the benchmark's own arguments and the number of turns; `turns` is the usual one.
pub fn run<A: Args>(
    title: &str,
    turns: usize,
    measure: impl FnOnce(&A, usize) -> Result<Vec<Section>>,
) -> ExitCode {
    let usual = format!("{title}\n\nUsual number of turns: {turns}.");
    let matches = CommandLine::<A>::command().about(usual).get_matches_from(arguments());
    let parsed = CommandLine::<A>::from_arg_matches(&matches);
    let CommandLine { own, options } = parsed.unwrap_or_else(|err| err.exit());
    if options.dry_run {
        return ExitCode::SUCCESS;
    }
    let environment = Environment::now();
    let turns = options.turns.map_or(turns, NonZeroUsize::get);
    let done = measure(&own, turns).and_then(|sections| {
        let report = Report::new(title, environment, sections);
        print!("{}", text::report(&report));
        options.write(&report)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the program's name and the arguments of the benchmark, whose name is the program's first
/// argument.
pub fn arguments() -> Vec<OsString> {
    let mut words = std::env::args_os();
    let program = words.by_ref().take(2).collect::<Vec<_>>().join(OsStr::new(" "));
    std::iter::once(program).chain(words).collect()
}

impl Options {
    fn write(&self, report: &Report) -> Result<()> {
        let write = |path: &Option<PathBuf>, form: &dyn Fn(&Report) -> Result<String>| match path {
            Some(path) => put(path, &form(report)?),
            None => Ok(()),
        };
        write(&self.html, &|report| Ok(html::report(report)))?;
        write(&self.csv, &|report| Ok(csv::report(report)))?;
        write(&self.report, &|report| Ok(report.to_line()))
    }
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Prints the next step to standard error.
pub fn progress(step: impl fmt::Display) {
    eprintln!("  {step}");
}

/// Returns the elapsed time of `work` and its result.
///
/// # Errors
/// Those of `work`.
pub fn time<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(Duration, T), E> {
    let start = Instant::now();
    let result = work()?;
    Ok((start.elapsed(), result))
}

/// Creates a section of paragraphs and tables.
pub fn section(title: impl Into<String>, text: &[&str], tables: Vec<Table>) -> Section {
    let text = text.iter().map(|paragraph| (*paragraph).to_owned()).collect();
    Section { text, tables, ..Section::new(title) }
}

/// Returns the only value, if all are equal.
///
/// # Errors
/// If the contenders of a comparison did different things. `what` says what they do.
pub fn agreed<T: Copy + fmt::Debug + PartialEq>(what: &str, values: &[T]) -> Result<T> {
    match values {
        [first, rest @ ..] if rest.iter().all(|value| value == first) => Ok(*first),
        _ => Err(format!("the contenders {what}: {values:?}").into()),
    }
}
