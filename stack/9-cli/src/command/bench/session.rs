//! A run of `xfskit bench`: what it measures, and what becomes of its sections.
//!
//! 1. A section is in every file of the report as soon as it is finished. Until the end the report
//!    says that it is not complete.
//! 2. A run that ends early prints the sections that are finished.
//! 3. A run continues another one only if everything that figures depend on is the same.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};
use xfskit_workload::report::{Section, csv, html, text};
use xfskit_workload::suite::estimate::Estimate;
use xfskit_workload::suite::{Observer, PartPlan, Wanted};
use xfskit_workload::{Environment, Report, full_dir};

use super::destination::Destination;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::bench::SuiteOptions;
use crate::out::Out;
use crate::stop::Stop;

/// What a report says until its run has ended.
const RUNNING: &str = "the run has not ended";

/// The study of a run, and what its figures depend on.
pub(super) struct Study<'s> {
    pub(super) title: &'s str,
    /// The subcommand.
    pub(super) name: &'s str,
    /// All options that figures depend on.
    pub(super) options: Map<String, Value>,
    /// Parts to measure, such as `raid.states`; all if empty.
    pub(super) only: Vec<String>,
}

/// Runs `suite`, and reports its sections in every requested form.
pub(super) fn run(
    study: Study<'_>,
    options: &SuiteOptions,
    out: &Out,
    suite: impl FnOnce(&mut dyn Observer) -> io::Result<()>,
) -> Outcome {
    let mut session = Session::new(study, options, out)?;
    let ended = suite(&mut session);
    session.end(ended)
}

/// A running study.
struct Session<'o> {
    out: &'o Out,
    stop: Stop,
    report: Report,
    only: Vec<String>,
    /// Parts that an earlier run has finished.
    finished: BTreeSet<String>,
    files: Files,
    /// The failure that stopped the suite.
    failed: Option<Failure>,
    begun: Instant,
    estimate: Estimate,
}

impl<'o> Session<'o> {
    /// Prepares a run, or the continuation of another one.
    fn new(study: Study<'_>, options: &SuiteOptions, out: &'o Out) -> Result<Self, Failure> {
        let mut report = Report::new(study.title, Environment::now(), Vec::new());
        report.options.insert("study".into(), study.name.into());
        report.options.extend(study.options);
        if let Some(path) = &options.resume {
            report.sections = sections_of(path, &report)?;
        }
        report.incomplete = Some(RUNNING.into());
        let finished = report.sections.iter().map(|section| section.part.clone()).collect();
        Ok(Self {
            out,
            stop: Stop::on_signals()?,
            report,
            only: study.only,
            finished,
            files: Files::new(options)?,
            failed: None,
            begun: Instant::now(),
            estimate: Estimate::default(),
        })
    }

    /// Prints the report, complete or not, and returns the status of the run.
    fn end(mut self, ended: io::Result<()>) -> Outcome {
        let failure = self.failed.take().or_else(|| {
            let err = ended.err()?;
            // The device that had no space, and what is above it, may only say that they failed.
            Some(Failure::cannot(match full_dir() {
                Some(full) => format!("bench: {full} ({err})"),
                None => format!("bench: {err}"),
            }))
        });
        let failure = failure.or_else(|| {
            let nothing = || Failure::cannot("bench: --only leaves nothing to measure");
            self.report.sections.is_empty().then(nothing)
        });
        self.report.incomplete = failure.as_ref().map(|failure| failure.message.clone());
        if self.report.sections.is_empty() {
            return failure.map_or(Ok(ExitStatus::Success), Err);
        }
        let saved = self.files.save(&self.report, true);
        if self.out.json() {
            self.out.object(&json!({ "report": self.report }))?;
        } else {
            self.out.raw(text::report(&self.report).as_bytes())?;
        }
        match failure {
            None => saved.map(|()| ExitStatus::Success),
            Some(failure) => Err(self.files.advise(failure)),
        }
    }

    fn keep(&mut self, done: Result<(), Failure>) -> io::Result<()> {
        done.map_err(|failure| {
            self.failed = Some(failure);
            io::ErrorKind::Interrupted.into()
        })
    }

    /// Fails if the user requested an end.
    fn check_stop(&mut self) -> io::Result<()> {
        let count = self.report.sections.len();
        let requested = self.stop.check().map_err(|failure| Failure {
            message: match count {
                1 => "stopped after 1 section".into(),
                _ => format!("stopped after {count} sections"),
            },
            ..failure
        });
        self.keep(requested)
    }
}

impl Observer for Session<'_> {
    fn wants(&self, part: &str) -> Wanted {
        if !self.only.is_empty() && !self.only.iter().any(|only| only == part) {
            return Wanted::No;
        }
        if self.finished.contains(part) { Wanted::Finished } else { Wanted::Yes }
    }

    fn plan(&mut self, study: &str, parts: Vec<PartPlan>) -> io::Result<()> {
        if !parts.is_empty() {
            self.estimate = Estimate::new(parts);
            self.out.note(&format!("{study}: {}", self.estimate.describe()));
        }
        Ok(())
    }

    fn begin(&mut self, part: &str) {
        self.estimate.begin(part, self.begun.elapsed());
    }

    fn progress(&mut self, text: &str) -> io::Result<()> {
        self.check_stop()?;
        match self.estimate.step(self.begun.elapsed()) {
            Some(step) => self.out.note(&format!("{step}: {text}")),
            None => self.out.note(text),
        }
        Ok(())
    }

    fn result(&mut self, result: Value) -> io::Result<()> {
        if !self.out.json() {
            return Ok(());
        }
        let done = self.out.object(&result).and_then(|()| self.out.flush());
        self.keep(done)
    }

    fn section(&mut self, section: Section) -> io::Result<()> {
        self.report.put(section);
        // A disk may be full for a while. Measurements go on, and the next section is tried.
        if let Err(failure) = self.files.save(&self.report, false) {
            self.out.note(&format!("{failure}; it is tried again after the next section"));
        }
        self.check_stop()
    }
}

/// The files of a report.
struct Files {
    report: Option<Destination>,
    html: Option<Destination>,
    csv: Option<Destination>,
}

impl Files {
    fn new(options: &SuiteOptions) -> Result<Self, Failure> {
        let of = |path: Option<&Path>| path.map(Destination::new).transpose();
        Ok(Self {
            report: of(options.report.as_deref().or(options.resume.as_deref()))?,
            html: of(options.html.as_deref())?,
            csv: of(options.csv.as_deref())?,
        })
    }

    /// Writes all files. The first failure is returned after all of them were tried.
    fn save(&self, report: &Report, is_last: bool) -> Result<(), Failure> {
        let write = |to: &Option<Destination>, text: &dyn Fn() -> String| match to {
            Some(to) if is_last || to.is_file() => to.write(&text()),
            _ => Ok(()),
        };
        let written = [
            write(&self.report, &|| report.to_line()),
            write(&self.html, &|| html::report(report)),
            write(&self.csv, &|| csv::report(report)),
        ];
        written.into_iter().collect()
    }

    /// Adds to the failure of a run how it is continued.
    fn advise(&self, failure: Failure) -> Failure {
        if failure.hint.is_some() {
            return failure;
        }
        match &self.report {
            Some(report) => failure.hint(format!(
                "What is finished is kept: --resume {} continues there.",
                report.path().display()
            )),
            None => failure.hint("A run with --report FILE can be continued with --resume FILE."),
        }
    }
}

/// Returns the sections of the report in `path`, for the run that `report` describes.
fn sections_of(path: &Path, report: &Report) -> Result<Vec<Section>, Failure> {
    let at = path.display();
    let text = fs::read_to_string(path).map_err(|err| Failure::cannot(format!("{at}: {err}")))?;
    let Some(earlier) = Report::parse(&text) else {
        let failure = Failure::cannot(format!("{at}: not a report of bench"));
        return Err(failure.hint("--report FILE writes one."));
    };
    let differences = earlier.differences(report);
    if differences.is_empty() {
        return Ok(earlier.sections);
    }
    let told: Vec<String> = differences
        .iter()
        .map(|differs| format!("{} is {} there and {} here", differs.name, differs.a, differs.b))
        .collect();
    let message = format!("{at}: this run is another one: {}", told.join("; "));
    Err(Failure::cannot(message).hint("Without --resume the study begins anew."))
}
