//! `xfskit metadump`: copies the metadata of a volume to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind as IoKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use parking_lot::Mutex;
use xfskit::target::Target;
use xfskit::{
    ErrorKind, JournalHandling, MetadumpFormat, MetadumpJournal, MetadumpPhase, MetadumpReport,
    PreparedMetadump, Snapshot,
};

use super::mount;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::metadump::{Journal, Metadump};
use crate::out::{Out, io_cause};
use crate::progress::{Progress, Unit};
use crate::show;
use crate::stop::Stop;

/// Warnings that are printed without `--warnings`.
const WARNINGS_SHOWN: usize = 10;

/// `xfskit metadump`: copies the metadata of a volume to a file.
pub(crate) fn run(args: &Metadump, out: &Out) -> Outcome {
    let to_stdout = args.file.as_os_str() == "-";
    if to_stdout && out.json() {
        return Err(Failure::cannot("a metadump and JSON cannot share standard output")
            .hint("Write the metadump to a file: xfskit metadump --json TARGET FILE"));
    }
    let stop = Stop::on_signals()?;
    let name = &*args.target;
    let snapshot = mount::snapshot(name)?;
    if let Some(error) = open::in_use(name).filter(|_| snapshot.is_none()) {
        out.note(&format!("{error}: what changes meanwhile may not fit together in the file"));
    }
    let phases = Phases { out, now: Mutex::new(None) };
    let prepared = prepare(args, snapshot.as_ref(), (&phases, &stop))?;
    let report = if to_stdout {
        write(prepared, out.stream()?)?
    } else {
        let file = create(args)?;
        write(prepared, file).inspect_err(|_| remove(&args.file))?
    };
    phases.finish();
    if snapshot.is_some_and(|snapshot| !snapshot.is_whole()) {
        return Err(Failure::cannot(format!("{name}: the snapshot was lost"))
            .hint("The mount has ended, or more was overwritten than there is room for."));
    }
    show_warnings(args, &report, out);
    if to_stdout && report.journal == Some(JournalHandling::Replayed) {
        out.note(&format!("{name}: the dirty journal was replayed in memory, for the file only"));
    }
    if out.json() {
        out.object(&report)?;
    } else if !out.quiet() && !to_stdout {
        out.raw(summary(args, &report).as_bytes())?;
    }
    Ok(out.status())
}

/// Opens the volume. All that is refused is refused here.
fn prepare<'c>(
    args: &Metadump,
    snapshot: Option<&Snapshot>,
    (phases, stop): (&'c Phases<'c>, &Stop),
) -> Result<PreparedMetadump<'c>, Failure> {
    let mut metadump = xfskit::Metadump::new()
        .obfuscate(!args.no_obfuscate)
        .full_blocks(args.full_blocks)
        .strict(args.strict)
        .threads(args.threads)
        .journal(match args.journal {
            None => MetadumpJournal::Auto,
            Some(Journal::Copy) => MetadumpJournal::Copy,
            Some(Journal::Replay) => MetadumpJournal::Replay,
            Some(Journal::Omit) => MetadumpJournal::Omit,
        })
        .phases(|phase, at| phases.show(phase, at))
        .cancel(stop.token());
    if let Some(format) = args.format {
        let version = if format == 1 { MetadumpFormat::V1 } else { MetadumpFormat::V2 };
        metadump = metadump.format(version);
    }
    if let Some(log) = &args.logdev {
        metadump = metadump.log(args.target.beside(log));
    }
    let prepared = match snapshot {
        None => metadump.prepare(&*args.target),
        Some(snapshot) => {
            let log = snapshot.log();
            let metadump = log.into_iter().fold(metadump, xfskit::Metadump::log_on);
            metadump.prepare_device(&snapshot.data())
        }
    };
    prepared.map_err(|error| open::not_opened(&args.target, &error))
}

/// Creates the file. One that exists is overwritten only if that was asked for. Pipes and devices
/// such as /dev/null are just written to.
fn create(args: &Metadump) -> Result<File, Failure> {
    let path = &args.file;
    refuse_own(&args.target, path)?;
    if let Some(log) = &args.logdev {
        refuse_own(&args.target.beside(log), path)?;
    }
    let kind = path.metadata().ok().map(|file| file.file_type());
    if kind.is_some_and(|kind| kind.is_block_device()) && !args.force {
        return Err(Failure::cannot(format!(
            "{}: a block device, which has content",
            path.display()
        ))
        .hint("Give the name of a file, or overwrite it: --force."));
    }
    if let Some(error) = open::in_use(&path.to_string_lossy()).filter(|_| args.force) {
        return Err(open::hinted(Failure::cannot(error.to_string()), error.hint()));
    }
    let special = kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir());
    let mut options = OpenOptions::new();
    options.write(true);
    let opened = match (special, args.force) {
        (true, _) => options.open(path),
        (false, true) => options.create(true).truncate(true).open(path),
        (false, false) => options.create_new(true).open(path),
    };
    opened.map_err(|error| {
        let failure = Failure::cannot(format!("{}: {error}", path.display()));
        match error.kind() {
            IoKind::AlreadyExists => failure.hint("Give another name, or overwrite it: --force."),
            IoKind::NotFound => failure.hint("Make the directory that is to hold it first."),
            IoKind::PermissionDenied => failure.hint("Choose a directory that you may write to."),
            _ => failure,
        }
    })
}

/// Refuses a file that is a target, or has a part of it.
pub(super) fn refuse_own(target: &str, file: &Path) -> Result<(), Failure> {
    let target = Target::parse(target).map_err(|error| open::not_opened(target, &error))?;
    if target.is_on(file) {
        return Err(Failure::cannot(format!("{}: {target} is on it", file.display()))
            .hint("Give the name of another file."));
    }
    Ok(())
}

/// Removes an incomplete file.
fn remove(path: &Path) {
    if path.is_file() {
        let _ = std::fs::remove_file(path);
    }
}

fn write(prepared: PreparedMetadump<'_>, to: impl Write) -> Result<MetadumpReport, Failure> {
    prepared.write(to).map_err(|error| match (error.kind(), io_cause(&error)) {
        (ErrorKind::Cancelled, _) => Failure::stopped_and("no whole file was written"),
        (_, Some(cause)) if cause.kind() == IoKind::BrokenPipe => Failure::problem(
            "the reader of the metadump closed the pipe; what it got is incomplete",
        ),
        (_, cause) => {
            let failure = open::hinted(Failure::cannot(error.to_string()), error.hint());
            match cause.map(io::Error::kind) {
                Some(IoKind::StorageFull) => {
                    failure.hint("Free some space, or compress: xfskit metadump TARGET - | zstd")
                }
                _ => failure,
            }
        }
    })
}

/// Progress by phases, a bar each.
struct Phases<'a> {
    out: &'a Out,
    now: Mutex<Option<(MetadumpPhase, Progress)>>,
}

impl Phases<'_> {
    fn show(&self, phase: MetadumpPhase, at: xfskit::Progress) {
        let mut now = self.now.lock();
        if now.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            let (job, unit) = match phase {
                MetadumpPhase::Walk => ("groups", Unit::Count("groups")),
                MetadumpPhase::Groups => ("inodes", Unit::Bytes),
                MetadumpPhase::Files => ("directories", Unit::Bytes),
                MetadumpPhase::Journal => ("journal", Unit::Bytes),
            };
            *now = Some((phase, Progress::new(self.out, job, unit)));
        }
        if let Some((_, progress)) = &*now {
            progress.set(at.done, at.total);
        }
    }

    fn finish(&self) {
        *self.now.lock() = None;
    }
}

/// Prints the warnings, and how many of each kind there were.
fn show_warnings(args: &Metadump, report: &MetadumpReport, out: &Out) {
    let name = &*args.target;
    let shown = if args.warnings { usize::MAX } else { WARNINGS_SHOWN };
    for warning in report.warnings.iter().take(shown) {
        out.note(&format!("{name}: {warning}"));
    }
    let all: u64 = report.counts.iter().map(|(_, count)| count).sum();
    if all > report.warnings.len().min(shown) as u64 {
        for (kind, count) in &report.counts {
            out.note(&format!("{name}: {count} {}", kind.describe()));
        }
    }
}

fn summary(args: &Metadump, report: &MetadumpReport) -> String {
    let journal = match report.journal {
        Some(JournalHandling::Cleared) => "clean, old records left out",
        Some(JournalHandling::Replayed) => "dirty, replayed in memory; the volume is unchanged",
        Some(JournalHandling::Copied) if report.content.dirty_log => "dirty, copied as it is",
        Some(JournalHandling::Copied) => "copied as it is",
        Some(JournalHandling::Omitted) | None => "left out",
    };
    let names = if report.content.obfuscated { "obfuscated" } else { "as they are" };
    let state = if report.is_clean() { "" } else { "; the volume is damaged" };
    format!(
        "{}: {} of metadata, {} inodes{state}\n  names {names}, journal {journal}\n",
        args.file.display(),
        show::human(report.metadata_bytes),
        report.inodes,
    )
}
