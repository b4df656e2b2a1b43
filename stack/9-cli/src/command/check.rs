//! `xfskit check`: checks a volume and prints the findings.

mod findings;
mod scrub;

use parking_lot::Mutex;
use xfskit::md::{Compared, Doubtful, VerifiedArray};
use xfskit::target::Device;
use xfskit::{CheckPhase, CheckReport, Checked, ErrorKind, Finding, Snapshot, Volume};

use super::mount;
use super::open::{self, about};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar;
use crate::grammar::metadata::Check;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show;
use findings::Findings;

/// Progress by phases, a bar each.
pub(super) struct Phases<'a> {
    out: &'a Out,
    now: Mutex<Option<(CheckPhase, Progress)>>,
}

impl<'a> Phases<'a> {
    pub(super) fn new(out: &'a Out) -> Self {
        Self { out, now: Mutex::new(None) }
    }

    pub(super) fn show(&self, phase: CheckPhase, at: xfskit::Progress) {
        let mut now = self.now.lock();
        if now.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            *now = Some((phase, Progress::new(self.out, phase.title(), Unit::Count("done"))));
        }
        if let Some((_, progress)) = &*now {
            progress.set(at.done, at.total);
        }
    }
}

/// `xfskit check`: checks every structure of the volume, and prints the findings.
pub(crate) fn run(args: &Check, out: &Out) -> Outcome {
    let name = &*args.target.name;
    let snapshot = mount::snapshot(name)?;
    if snapshot.is_some() && args.scrub {
        return Err(Failure::cannot(format!(
            "{name}: a mounted volume is checked without --scrub"
        ))
        .hint("`xfskit md scrub` compares the members of an array in use"));
    }
    if !args.repair
        && snapshot.is_none()
        && let Some(error) = open::in_use(name)
    {
        out.note(&format!("{error}: what is found may be changes under way"));
    }
    let compared = if args.scrub { scrub::compare(args, out)? } else { None };
    // A volume too damaged to be opened is checked as it is.
    let volume = match &compared {
        _ if args.target.norecovery => None,
        Some(_) if args.repair => None,
        Some(compared) => open::volume_on(&args.target, &compared.device(), out).ok(),
        None => match &snapshot {
            Some(snapshot) => open::volume_in(&args.target, snapshot, out).ok(),
            None => open::volume(&args.target, out).ok(),
        },
    };
    let on = (compared.as_ref(), snapshot.as_ref(), volume.as_ref());
    let (checked, findings) = check_volume(args, on, out)?;
    if snapshot.as_ref().is_some_and(|snapshot| !snapshot.is_whole()) {
        return Err(Failure::cannot(format!("{name}: the snapshot was lost"))
            .hint("The mount has ended, or more was overwritten than there is room for."));
    }
    if !out.json() {
        out.raw(findings.folded().as_bytes())?;
    }
    if !out.quiet() && findings.have_paths() {
        let opened = || {
            let device = compared.as_ref().map(|compared| Ok(compared.device()));
            let device = device.or_else(|| snapshot.as_ref().map(|snapshot| Ok(snapshot.data())));
            let device = device.unwrap_or_else(|| Device::open(name)).ok()?;
            open::volume_quietly_on(&args.target, &device, out).ok()
        };
        if let Some(volume) = volume.or_else(opened) {
            findings.print_paths(&volume, out)?;
        }
    }
    let report = &checked.report;
    if out.json() {
        out.object(&serde_json::json!({ "report": report, "clean": report.clean() }))?;
    } else if !out.quiet() {
        out.raw(summary(name, report, snapshot.is_some()).as_bytes())?;
    }
    let agrees = match compared {
        Some(compared) => scrub::resolve(compared, name, report.clean(), out)?,
        None => true,
    };
    Ok(ExitStatus::of(report.clean() && agrees))
}

/// Checks the volume and prints findings as they are made.
fn check_volume(
    args: &Check,
    (compared, snapshot, volume): (Option<&Compared>, Option<&Snapshot>, Option<&Volume>),
    out: &Out,
) -> Result<(Checked, Findings), Failure> {
    let progress = Phases::new(out);
    let mut failed = None;
    let mut findings = Findings::new(args.all || out.json());
    let found = |finding: Finding| {
        if !findings.count(&finding) {
            return;
        }
        let print = || out.result(&finding, |finding| format!("{finding}\n"));
        let now = progress.now.lock();
        let printed = now.as_ref().map_or_else(print, |(_, bar)| bar.aside(print));
        failed = failed.take().or(printed.err());
    };
    let check = checker(&args.target).threads(args.threads).copies(args.scrub);
    let check = check.phases(|phase, at| progress.show(phase, at));
    let log = snapshot.and_then(Snapshot::log);
    let check = log.into_iter().fold(check, xfskit::Check::log_on);
    // In the middle of a replay the parts of a volume need not agree.
    let checked = match (compared, volume) {
        (Some(compared), _) => check.run_compared(compared, found),
        (None, Some(volume)) => check.run_volume(volume, found),
        (None, None) => match snapshot {
            Some(snapshot) => check.run_device_with(&snapshot.data(), found),
            None => check.run_with(&*args.target.name, found),
        },
    };
    drop(check);
    drop(progress);
    match failed {
        Some(failure) => Err(failure),
        None => match checked {
            Ok(checked) => Ok((checked, findings)),
            Err(error) => Err(check_failure(&args.target.name, &error)),
        },
    }
}

/// Returns a check of this volume.
fn checker<'c>(target: &grammar::Target) -> xfskit::Check<'c> {
    let check = xfskit::Check::new().recovery(!target.norecovery);
    target.log().iter().fold(check, xfskit::Check::log)
}

/// Finds the files that have content in pages on which members of `array` disagree. Findings of
/// this check are not printed. Returns `None` if the volume cannot be checked.
pub(super) fn doubtful_content(
    array: &VerifiedArray,
    target: &grammar::Target,
    out: &Out,
) -> Option<Doubtful> {
    let progress = Phases::new(out);
    let check = checker(target).phases(|phase, at| progress.show(phase, at));
    array.doubtful_content(&check).ok()
}

fn summary(name: &str, report: &CheckReport, is_mounted: bool) -> String {
    let status = match (report.clean(), report.warnings) {
        (true, 0) => "clean".to_owned(),
        (true, n) => format!("clean, with {}", counted(n, "warning")),
        (false, n) => {
            let errors = counted(report.errors + report.fatals, "error");
            format!("corrupt: {errors}, {}", counted(n, "warning"))
        }
    };
    let next = if report.clean() {
        ""
    } else {
        "  `xfskit repair -n` plans a repair; `xfskit get` copies out what can be read\n"
    };
    let journal = match (report.log_clean, is_mounted) {
        (true, _) => "",
        (false, true) => " (counters are not checked while open files have no name)",
        (false, false) => " (the journal waits for its replay)",
    };
    let healed = match report.healed {
        0 => String::new(),
        n => format!(" ({n} blocks read from other members)"),
    };
    let used = report.blocks.saturating_sub(report.blocks_free);
    format!(
        "{name}: {status}{journal}{healed}\n  {} inodes, {} directories, {} extents, {used} of {} blocks in use\n  \
         memory {}\n{next}",
        report.inodes,
        report.directories,
        report.extents,
        report.blocks,
        show::human(report.memory_peak),
    )
}

/// Formats a number and what it counts.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the failure of a check that could not run.
fn check_failure(name: &str, error: &xfskit::Error) -> Failure {
    let text = about(name, error);
    match error.kind() {
        ErrorKind::NotXfs => Failure::cannot(text).hint(open::no_superblock(name)),
        ErrorKind::Corrupt => Failure::problem(text),
        _ => open::hinted(Failure::cannot(text), error.hint().or_else(|| open::of_no_target(name))),
    }
}
