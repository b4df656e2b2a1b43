//! `xfskit bench`: runs whole studies.
//!
//! | module | what |
//! | --- | --- |
//! | [`suites`] | the studies and their sizes |

mod suites;

use std::fs;
use std::io;
use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};
use xfskit_workload::report::{Section, csv, html, text};
use xfskit_workload::suite::Observer;
use xfskit_workload::{Environment, Report};

use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::bench::{
    All, Bench, Checksum, CrcUpdate, Inodes, Locks, Raid, Suite, SuiteOptions, Xattrs,
};
use crate::out::Out;
use crate::stop::Stop;

/// `xfskit bench`: runs the chosen study, and prints its figures.
pub(crate) fn run(args: &Bench, out: &Out) -> Outcome {
    match &args.suite {
        Suite::Checksum(args) => report("What checksums cost", &args.options, out, |observer| {
            suites::checksum(args, observer)
        }),
        Suite::Inodes(args) => {
            report("The concurrent inode test", &args.options, out, |observer| {
                suites::inodes(args, observer)
            })
        }
        Suite::Locks(args) => {
            report("Kinds of locks", &args.options, out, |observer| suites::locks(args, observer))
        }
        Suite::Raid(args) => report("Reads from degraded arrays", &args.options, out, |observer| {
            suites::raid(args, observer)
        }),
        Suite::Xattrs(args) => {
            report("Extended attributes and links at scale", &args.options, out, |observer| {
                suites::xattrs(args, observer)
            })
        }
        Suite::CrcUpdate(args) => {
            report("Checksums brought up to date in one pass", &args.options, out, |observer| {
                suites::crc_update(args, observer)
            })
        }
        Suite::All(All { options }) => {
            report("All studies", options, out, |observer| all(options, observer))
        }
    }
}

/// Returns every suite with the defaults of its command.
fn all(options: &SuiteOptions, observer: &mut dyn Observer) -> io::Result<Vec<Section>> {
    let mut sections =
        suites::checksum(&Checksum { options: options.clone(), ..usual("") }, observer)?;
    sections.extend(suites::inodes(&Inodes { options: options.clone(), ..usual("") }, observer)?);
    sections.extend(suites::locks(&Locks { options: options.clone(), ..usual("") }, observer)?);
    sections.extend(suites::raid(&Raid { options: options.clone(), ..usual("") }, observer)?);
    sections.extend(suites::xattrs(&Xattrs { options: options.clone(), ..usual("") }, observer)?);
    sections.extend(suites::crc_update(
        &CrcUpdate { options: options.clone(), ..usual("") },
        observer,
    )?);
    Ok(sections)
}

/// Returns the arguments of a command line with these words.
fn usual<T: clap::Args>(words: &str) -> T {
    /// A parser of only these arguments.
    #[derive(Parser)]
    struct Only<T: clap::Args> {
        #[command(flatten)]
        args: T,
    }
    Only::<T>::parse_from(["bench"].into_iter().chain(words.split_whitespace())).args
}

/// Runs a suite, and writes its report in every requested form.
fn report(
    title: &str,
    options: &SuiteOptions,
    out: &Out,
    suite: impl FnOnce(&mut dyn Observer) -> io::Result<Vec<Section>>,
) -> Outcome {
    let environment = Environment::now();
    let mut reporter = SuiteReporter { out, stop: Stop::on_signals()?, failed: None };
    let sections = suite(&mut reporter);
    if let Some(failure) = reporter.failed {
        return Err(failure);
    }
    let sections = sections.map_err(|err| Failure::cannot(format!("bench: {err}")))?;
    let report = Report { title: title.into(), environment, sections };
    if let Some(path) = &options.html {
        write(path, &html::report(&report))?;
    }
    if let Some(path) = &options.csv {
        write(path, &csv::report(&report))?;
    }
    if out.json() {
        out.object(&json!({ "report": report }))?;
    } else {
        out.raw(text::report(&report).as_bytes())?;
    }
    Ok(ExitStatus::Success)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|err| Failure::cannot(format!("{}: {err}", path.display())))
}

/// Reports the progress of a suite to the user.
struct SuiteReporter<'o> {
    out: &'o Out,
    stop: Stop,
    /// The failure that stopped the suite.
    failed: Option<Failure>,
}

impl SuiteReporter<'_> {
    fn keep(&mut self, done: Result<(), Failure>) -> io::Result<()> {
        done.map_err(|failure| {
            self.failed = Some(failure);
            io::ErrorKind::Interrupted.into()
        })
    }
}

impl Observer for SuiteReporter<'_> {
    fn progress(&mut self, text: &str) -> io::Result<()> {
        let requested = self.stop.check();
        self.keep(requested)?;
        self.out.note(text);
        Ok(())
    }

    fn result(&mut self, result: Value) -> io::Result<()> {
        if !self.out.json() {
            return Ok(());
        }
        let done = self.out.object(&result).and_then(|()| self.out.flush());
        self.keep(done)
    }
}
