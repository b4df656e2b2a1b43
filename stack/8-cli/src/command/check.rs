//! `xfskit check`: the judge, with its findings and progress.

use std::sync::{Arc, Mutex, PoisonError};

use xfskit::block::BlockDevice;
use xfskit::check::{self, Options, Phase, Report};

use super::open::{self, about, device_hint};
use crate::exit::{Answer, Failure, Outcome};
use crate::grammar::judge::Check;
use crate::out::Out;
use crate::progress::Progress;
use crate::show;

/// Progress by phases: a bar each.
struct Phases<'a> {
    out: &'a Out,
    now: Mutex<Option<(Phase, Progress)>>,
}

impl check::Progress for Phases<'_> {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            *now = Some((phase, Progress::new(self.out, phase.title(), "done")));
        }
        if let Some((_, progress)) = &*now {
            progress.set(done, total);
        }
    }
}

/// `xfskit check`
pub(crate) fn run(args: &Check, out: &Out) -> Outcome {
    let name = args.target.name.as_str();
    let device = judged_device(args, out)?;
    let log = args.target.logdev.as_deref().map(open::device).transpose()?;
    let progress = Phases { out, now: Mutex::new(None) };
    let options =
        Options { threads: threads(args.threads), scrub: args.scrub, progress: &progress };
    let mut failed = None;
    let mut say = |finding: check::Finding| {
        let print = || out.answer(&finding, |finding| format!("{finding}\n"));
        let now = progress.now.lock().unwrap_or_else(PoisonError::into_inner);
        let said = now.as_ref().map_or_else(print, |(_, bar)| bar.aside(print));
        failed = failed.take().or(said.err());
    };
    let report = check::check(&*device, log.as_deref(), &options, &mut say);
    drop(progress);
    if let Some(failure) = failed {
        return Err(failure);
    }
    let report = report.map_err(|error| check_failure(name, &error))?;
    if out.json() {
        out.object(&serde_json::json!({ "report": report, "clean": report.clean() }))?;
    } else if !out.quiet() {
        out.raw(summary(name, &report).as_bytes())?;
    }
    Ok(Answer::of(report.clean()))
}

/// What is to be judged: the device, with its journal replayed in memory where that is wanted and
/// possible. In the middle of a replay the parts of a volume need not agree.
fn judged_device(args: &Check, out: &Out) -> Result<Arc<dyn BlockDevice>, Failure> {
    let device = open::device(&args.target.name)?;
    if args.target.norecovery {
        return Ok(device);
    }
    // A volume too damaged to be opened is judged as it lies.
    let replayed = open::volume(&args.target, out);
    Ok(replayed.map_or(device, |volume| Arc::clone(volume.fs().volume().device())))
}

/// As many threads as were asked for; 0 is one per processor.
pub(crate) fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

fn summary(name: &str, report: &Report) -> String {
    let verdict = match (report.clean(), report.warnings) {
        (true, 0) => "clean".to_owned(),
        (true, n) => format!("clean, with {n} warnings"),
        (false, n) => {
            format!("corrupt: {} errors, {n} warnings", report.errors + report.fatals)
        }
    };
    let journal = if report.log_clean { "" } else { " (the journal waits for its replay)" };
    let used = report.blocks.saturating_sub(report.blocks_free);
    format!(
        "{name}: {verdict}{journal}\n  {} inodes, {} directories, {} extents, {used} of {} blocks in use\n  \
         memory {}\n",
        report.inodes,
        report.directories,
        report.extents,
        report.blocks,
        show::human(report.memory_peak),
    )
}

/// Nothing to judge. A superblock that is damaged beyond use is an answer: corrupt.
fn check_failure(name: &str, error: &check::Error) -> Failure {
    let text = about(name, error);
    match error {
        check::Error::Device(error) => device_hint(Failure::cannot(text), error),
        check::Error::Superblock(_) => Failure::no(text).hint(format!(
            "If this is a whole disk, `xfskit targets {name}` lists the volumes on it."
        )),
        check::Error::TooSmall => Failure::cannot(text),
    }
}
