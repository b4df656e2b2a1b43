//! `xfskit bench`: runs whole studies.
//!
//! | module | what |
//! | --- | --- |
//! | [`suites`] | the studies and their sizes |
//! | [`session`] | a run: its progress, its report, and the run that it continues |
//! | [`compare`] | two runs side by side |
//! | [`destination`] | a file that is replaced as a whole |
//! | [`claims`] | the figures that the documentation states, measured again |

mod claims;
mod compare;
mod destination;
mod session;
mod suites;

use std::io;

use clap::{Parser, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value};
use xfskit_workload::suite::Observer;

use crate::exit::Outcome;
use crate::grammar::bench::{
    All, Bench, Checksum, CrcUpdate, Inodes, Locks, Raid, StudyName, Suite, Xattrs,
};
use crate::out::Out;
use session::Study;

/// `xfskit bench`: runs the chosen study, and prints its figures.
pub(crate) fn run(args: &Bench, out: &Out) -> Outcome {
    match &args.suite {
        Suite::Checksum(args) => {
            let study = study("What checksums cost", "checksum", args);
            session::run(study, &args.options, out, |observer| suites::checksum(args, observer))
        }
        Suite::Inodes(args) => {
            let study = study("The concurrent inode test", "inodes", args);
            session::run(study, &args.options, out, |observer| suites::inodes(args, observer))
        }
        Suite::Locks(args) => {
            let study = study("Kinds of locks", "locks", args).only(&args.only);
            session::run(study, &args.options, out, |observer| suites::locks(args, observer))
        }
        Suite::Raid(args) => {
            let study = study("Reads from degraded arrays", "raid", args).only(&args.only);
            session::run(study, &args.options, out, |observer| suites::raid(args, observer))
        }
        Suite::Xattrs(args) => {
            let study = study("Extended attributes and links at scale", "xattrs", args);
            session::run(study, &args.options, out, |observer| suites::xattrs(args, observer))
        }
        Suite::CrcUpdate(args) => {
            let title = "Checksums brought up to date in one pass";
            let study = study(title, "crc-update", args).only(&args.only);
            session::run(study, &args.options, out, |observer| suites::crc_update(args, observer))
        }
        Suite::Compare(args) => compare::run(args, out),
        Suite::All(args) => {
            let study = study("All studies", "all", args);
            session::run(study, &args.options, out, |observer| all(args, observer))
        }
        Suite::Claims(args) => claims::run(args, out),
    }
}

/// Returns a study with the options of its command.
fn study<'s>(title: &'s str, name: &'s str, args: &impl Serialize) -> Study<'s> {
    let options = match serde_json::to_value(args) {
        Ok(Value::Object(options)) => options,
        _ => Map::new(),
    };
    Study { title, name, options, only: Vec::new() }
}

impl Study<'_> {
    /// Limits the study to these of its parts; all if there are none.
    fn only(mut self, parts: &[impl ValueEnum]) -> Self {
        let names = parts.iter().filter_map(ValueEnum::to_possible_value);
        self.only = names.map(|part| format!("{}.{}", self.name, part.get_name())).collect();
        self
    }
}

/// Runs every suite with the defaults of its command.
fn all(args: &All, observer: &mut dyn Observer) -> io::Result<()> {
    for study in StudyName::value_variants() {
        if !args.only.is_empty() && !args.only.contains(study) {
            continue;
        }
        let options = args.options.clone();
        match study {
            StudyName::Checksum => {
                suites::checksum(&Checksum { options, ..usual("") }, observer)?;
            }
            StudyName::Inodes => suites::inodes(&Inodes { options, ..usual("") }, observer)?,
            StudyName::Locks => suites::locks(&Locks { options, ..usual("") }, observer)?,
            StudyName::Raid => suites::raid(&Raid { options, ..usual("") }, observer)?,
            StudyName::Xattrs => suites::xattrs(&Xattrs { options, ..usual("") }, observer)?,
            StudyName::CrcUpdate => {
                suites::crc_update(&CrcUpdate { options, ..usual("") }, observer)?;
            }
        }
    }
    Ok(())
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
