//! `xfskit check`: the judge, with its findings and progress.

mod scrub;

use std::sync::{Arc, Mutex, PoisonError};

use xfskit::block::BlockDevice;
use xfskit::check::{self, Options, Phase, Report, Suspects};

use super::open::{self, about, device_hint};
use crate::exit::{Answer, Failure, Outcome};
use crate::grammar::judge::Check;
use crate::out::Out;
use crate::progress::Progress;
use crate::show;
use scrub::Scrubbed;

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
    let name = &*args.target.name;
    let scrubbed = if args.scrub { Scrubbed::of(args, out)? } else { None };
    let device = match &scrubbed {
        Some(scrubbed) if args.repair => Arc::clone(&scrubbed.device),
        Some(scrubbed) => judged_device(args, Arc::clone(&scrubbed.device), out),
        None => judged_device(args, open::device(&args.target.name)?, out),
    };
    let suspects = scrubbed.as_ref().map(Scrubbed::suspects);
    let report = judge(args, &*device, scrubbed.is_none(), suspects.as_ref(), out)?;
    if out.json() {
        out.object(&serde_json::json!({ "report": report, "clean": report.clean() }))?;
    } else if !out.quiet() {
        out.raw(summary(name, &report).as_bytes())?;
    }
    let agrees = match (scrubbed, suspects) {
        (Some(scrubbed), Some(suspects)) => scrubbed.settle(args, &report, &suspects, out)?,
        _ => true,
    };
    Ok(Answer::of(report.clean() && agrees))
}

/// Judges the volume on `device`, and prints findings as they are made. `copies`: every other copy of each block
/// is compared as it is read, for nobody has compared them all before.
fn judge(
    args: &Check,
    device: &dyn BlockDevice,
    copies: bool,
    suspects: Option<&Suspects>,
    out: &Out,
) -> Result<Report, Failure> {
    let log = args.target.log().as_deref().map(open::device_whole).transpose()?;
    let progress = Phases { out, now: Mutex::new(None) };
    let options = Options {
        threads: threads(args.threads),
        scrub: args.scrub && copies,
        mend: args.repair,
        suspects,
        progress: &progress,
    };
    let mut failed = None;
    let mut say = |finding: check::Finding| {
        let print = || out.answer(&finding, |finding| format!("{finding}\n"));
        let now = progress.now.lock().unwrap_or_else(PoisonError::into_inner);
        let said = now.as_ref().map_or_else(print, |(_, bar)| bar.aside(print));
        failed = failed.take().or(said.err());
    };
    let report = check::check(device, log.as_deref(), &options, &mut say);
    drop(progress);
    match failed {
        Some(failure) => Err(failure),
        None => report.map_err(|error| check_failure(&args.target.name, &error)),
    }
}

/// What is to be judged: the device, with its journal replayed in memory where that is wanted and
/// possible. In the middle of a replay the parts of a volume need not agree.
fn judged_device(args: &Check, device: Arc<dyn BlockDevice>, out: &Out) -> Arc<dyn BlockDevice> {
    if args.target.norecovery {
        return device;
    }
    // A volume too damaged to be opened is judged as it lies.
    let replayed = open::volume_on(&args.target, Arc::clone(&device), out);
    replayed.map_or(device, |volume| Arc::clone(volume.fs().volume().device()))
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
    let healed = match report.healed {
        0 => String::new(),
        n => format!(" ({n} blocks as other members have them)"),
    };
    let used = report.blocks.saturating_sub(report.blocks_free);
    format!(
        "{name}: {verdict}{journal}{healed}\n  {} inodes, {} directories, {} extents, {used} of {} blocks in use\n  \
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
