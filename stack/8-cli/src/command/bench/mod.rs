//! `xfskit bench`: whole studies.
//!
//! | module | what |
//! | --- | --- |
//! | [`suites`] | which studies, in which sizes |

mod suites;

use std::fs;
use std::io;
use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};
use xfskit_workload::report::{Section, csv, html, text};
use xfskit_workload::suite::Observer;
use xfskit_workload::{Environment, Report};

use crate::exit::{Answer, Failure, Outcome};
use crate::grammar::bench::{
    All, Bench, Checksum, CrcUpdate, How, Inodes, Locks, Raid, Suite, Xattrs,
};
use crate::out::Out;
use crate::stop::Stop;

/// `xfskit bench`
pub(crate) fn run(args: &Bench, out: &Out) -> Outcome {
    match &args.suite {
        Suite::Checksum(args) => report("What checksums cost", &args.how, out, |observer| {
            suites::checksum(args, observer)
        }),
        Suite::Inodes(args) => report("The concurrent inode test", &args.how, out, |observer| {
            suites::inodes(args, observer)
        }),
        Suite::Locks(args) => {
            report("Kinds of locks", &args.how, out, |observer| suites::locks(args, observer))
        }
        Suite::Raid(args) => report("Reads from degraded arrays", &args.how, out, |observer| {
            suites::raid(args, observer)
        }),
        Suite::Xattrs(args) => {
            report("Extended attributes and links at scale", &args.how, out, |observer| {
                suites::xattrs(args, observer)
            })
        }
        Suite::CrcUpdate(args) => {
            report("Checksums brought up to date in one pass", &args.how, out, |observer| {
                suites::crc_update(args, observer)
            })
        }
        Suite::All(All { how }) => report("All studies", how, out, |observer| all(how, observer)),
    }
}

/// Every suite with what its command takes by itself.
fn all(how: &How, observer: &mut dyn Observer) -> io::Result<Vec<Section>> {
    let mut sections = suites::checksum(&Checksum { how: how.clone(), ..usual() }, observer)?;
    sections.extend(suites::inodes(&Inodes { how: how.clone(), ..usual() }, observer)?);
    sections.extend(suites::locks(&Locks { how: how.clone(), ..usual() }, observer)?);
    sections.extend(suites::raid(&Raid { how: how.clone(), ..usual() }, observer)?);
    sections.extend(suites::xattrs(&Xattrs { how: how.clone(), ..usual() }, observer)?);
    sections.extend(suites::crc_update(&CrcUpdate { how: how.clone(), ..usual() }, observer)?);
    Ok(sections)
}

/// The arguments of a command that got none.
fn usual<T: clap::Args>() -> T {
    /// Only these arguments.
    #[derive(Parser)]
    struct Only<T: clap::Args> {
        #[command(flatten)]
        args: T,
    }
    Only::<T>::parse_from(["bench"]).args
}

/// Runs a suite and shows its report in every form that was asked for.
fn report(
    title: &str,
    how: &How,
    out: &Out,
    suite: impl FnOnce(&mut dyn Observer) -> io::Result<Vec<Section>>,
) -> Outcome {
    let environment = Environment::now();
    let mut told = Told { out, stop: Stop::on_signals()?, failed: None };
    let sections = suite(&mut told);
    if let Some(failure) = told.failed {
        return Err(failure);
    }
    let sections = sections.map_err(|err| Failure::cannot(format!("bench: {err}")))?;
    let report = Report { title: title.into(), environment, sections };
    if let Some(path) = &how.html {
        write(path, &html::report(&report))?;
    }
    if let Some(path) = &how.csv {
        write(path, &csv::report(&report))?;
    }
    if out.json() {
        out.object(&json!({ "report": report }))?;
    } else {
        out.raw(text::report(&report).as_bytes())?;
    }
    Ok(Answer::Yes)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|err| Failure::cannot(format!("{}: {err}", path.display())))
}

/// Reports the progress of a suite to the user.
struct Told<'o> {
    out: &'o Out,
    stop: Stop,
    /// Why it was told to stop.
    failed: Option<Failure>,
}

impl Told<'_> {
    fn keep(&mut self, done: Result<(), Failure>) -> io::Result<()> {
        done.map_err(|failure| {
            self.failed = Some(failure);
            io::ErrorKind::Interrupted.into()
        })
    }
}

impl Observer for Told<'_> {
    fn progress(&mut self, text: &str) -> io::Result<()> {
        let asked = self.stop.check();
        self.keep(asked)?;
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
