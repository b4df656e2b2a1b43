//! `xfskit check`: checks a volume and prints the findings.

mod findings;
mod scrub;

use std::sync::Arc;

use parking_lot::Mutex;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::block::{BlockDevice, Error as DeviceError, FileDevice, OpenMode};
use xfskit::raw::check::{self, Mismatches, Options, Phase, Report};
use xfskit::raw::format::Corruption;
use xfskit::raw::format::sb::SbError;
use xfskit::raw::target::{self, Base};

use super::open::{self, about, device_hint};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::Target;
use crate::grammar::metadata::Check;
use crate::out::Out;
use crate::progress::Progress;
use crate::show;
use findings::Findings;
pub(super) use findings::find_paths;
use scrub::Scrubbed;

/// Progress by phases, a bar each.
struct Phases<'a> {
    out: &'a Out,
    now: Mutex<Option<(Phase, Progress)>>,
}

impl check::Progress for Phases<'_> {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        let mut now = self.now.lock();
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
    if !args.repair {
        note_use(name, out);
    }
    let scrubbed = if args.scrub { Scrubbed::of(args, out)? } else { None };
    let checked = match &scrubbed {
        Some(scrubbed) if args.repair => CheckedVolume::as_it_lies(Arc::clone(&scrubbed.device)),
        Some(scrubbed) => device_to_check(&args.target, Arc::clone(&scrubbed.device), out),
        None => device_to_check(&args.target, open::device(&args.target.name)?, out),
    };
    let mismatches = scrubbed.as_ref().map(Scrubbed::mismatches);
    let (report, findings) =
        check_volume(args, &checked, scrubbed.is_none(), mismatches.as_ref(), out)?;
    if !out.json() {
        out.raw(findings.folded().as_bytes())?;
    }
    if !out.quiet()
        && findings.have_inodes()
        && let Ok(volume) = open::volume_quietly_on(&args.target, Arc::clone(&checked.device), out)
    {
        findings.print_paths(&volume, out)?;
    }
    if out.json() {
        out.object(&serde_json::json!({ "report": report, "clean": report.clean() }))?;
    } else if !out.quiet() {
        out.raw(summary(name, &report).as_bytes())?;
    }
    let agrees = match (scrubbed, mismatches) {
        (Some(scrubbed), Some(mismatches)) => scrubbed.resolve(args, &report, &mismatches, out)?,
        _ => true,
    };
    Ok(ExitStatus::of(report.clean() && agrees))
}

/// The volume to check.
struct CheckedVolume {
    device: Arc<dyn BlockDevice>,
    /// The corruption of the primary superblock, if the device no longer shows it.
    primary: Option<Corruption>,
}

impl CheckedVolume {
    fn as_it_lies(device: Arc<dyn BlockDevice>) -> Self {
        Self { device, primary: None }
    }
}

/// Checks the volume and prints findings as they are made. `copies`: compares every other copy of
/// each block as it is read, unless a scrub did so before.
fn check_volume(
    args: &Check,
    checked: &CheckedVolume,
    copies: bool,
    mismatches: Option<&Mismatches>,
    out: &Out,
) -> Result<(Report, Findings), Failure> {
    let log = args.target.log().as_deref().map(open::device_whole).transpose()?;
    let progress = Phases { out, now: Mutex::new(None) };
    let options = Options {
        threads: threads(args.threads),
        scrub: args.scrub && copies,
        heal: args.repair,
        primary: checked.primary.as_ref(),
        mismatches,
        progress: &progress,
    };
    let mut failed = None;
    let mut findings = Findings::new(args.all || out.json());
    let mut say = |finding: check::Finding| {
        if !findings.count(&finding) {
            return;
        }
        let print = || out.result(&finding, |finding| format!("{finding}\n"));
        let now = progress.now.lock();
        let printed = now.as_ref().map_or_else(print, |(_, bar)| bar.aside(print));
        failed = failed.take().or(printed.err());
    };
    let report = check::check(&*checked.device, log.as_deref(), &options, &mut say);
    drop(progress);
    match failed {
        Some(failure) => Err(failure),
        None => match report {
            Ok(report) => Ok((report, findings)),
            Err(error) => Err(check_failure(&args.target.name, &error)),
        },
    }
}

/// Finds the files that have content in mismatching ranges of a volume. Findings of this check are
/// not printed.
pub(super) fn find_files(
    target: &Target,
    device: Arc<dyn BlockDevice>,
    mismatches: &Mismatches,
    out: &Out,
) -> Result<(), Failure> {
    let log = target.log().as_deref().map(open::device_whole).transpose()?;
    let progress = Phases { out, now: Mutex::new(None) };
    let options = Options {
        threads: threads(0),
        mismatches: Some(mismatches),
        progress: &progress,
        ..Options::default()
    };
    let checked = device_to_check(target, device, out);
    check::check(&*checked.device, log.as_deref(), &options, &mut |_| {})
        .map_err(|error| check_failure(&target.name, &error))?;
    Ok(())
}

/// Returns the device, with its journal replayed in memory if that is requested and possible. In
/// the middle of a replay the parts of a volume need not agree.
fn device_to_check(target: &Target, device: Arc<dyn BlockDevice>, out: &Out) -> CheckedVolume {
    if target.norecovery {
        return CheckedVolume::as_it_lies(device);
    }
    // A volume too damaged to be opened is checked as it is.
    let Ok(volume) = open::volume_on(target, Arc::clone(&device), out) else {
        return CheckedVolume::as_it_lies(device);
    };
    let volume = volume.fs().volume();
    let replayed = volume.replay().is_some_and(|replay| !replay.clean);
    let secondary = volume.secondary_superblock().filter(|_| replayed);
    let primary = secondary.map(|secondary| (*secondary.corruption).clone());
    CheckedVolume { device: Arc::clone(volume.device()), primary }
}

/// Returns the number of threads; 0 requests one per processor.
pub(crate) fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

fn summary(name: &str, report: &Report) -> String {
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
        "  `xfskit get` copies out what can be read; xfs_repair (`-n` first) repairs the volume\n"
    };
    let journal = if report.log_clean { "" } else { " (the journal waits for its replay)" };
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

/// Warns if the target is mounted or open for writing: the volume may change during the check.
fn note_use(name: &str, out: &Out) {
    let Ok(target::Target { base: Base::File(path), .. }) = target::Target::parse(name) else {
        return;
    };
    if let Err(error @ DeviceError::InUse { .. }) = FileDevice::open(&path, OpenMode::ReadWrite) {
        out.note(&format!("{error}: what is found may be changes under way"));
    }
}

/// Returns the failure of a check that could not run. A superblock damaged beyond use is a
/// corruption.
fn check_failure(name: &str, error: &check::Error) -> Failure {
    let text = about(name, error);
    match error {
        check::Error::Device(error) => device_hint(Failure::cannot(text), error),
        check::Error::Superblock(SbError::NotXfs { .. }) => {
            Failure::problem(text).hint(open::no_superblock(name))
        }
        check::Error::Superblock(_) => Failure::problem(text),
        check::Error::TooSmall => Failure::cannot(text),
    }
}
