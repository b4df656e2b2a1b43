//! `xfskit repair` and `xfskit undo`.

use std::fmt::Write as _;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use serde_json::json;
use xfskit::target::{Device, Target};
use xfskit::{ErrorKind, PreparedRepair, RepairPhase, RepairPlan, Repaired};

use super::check::Phases;
use super::mount;
use super::open::{self, about};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::repair::{Repair, Undo};
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show;
use crate::stop::Stop;

/// Undo files beside an image.
const UNDO_FILES_MAX: usize = 1000;
/// Findings of a step that are printed without --explain.
const SHOWN_MAX: usize = 3;

/// `xfskit repair`.
pub(crate) fn repair(args: &Repair, out: &Out) -> Outcome {
    let name = &*args.target;
    refuse_mount(name)?;
    let undo = undo_path(args)?;
    let stop = Stop::on_signals()?;
    let progress = Phases::new(out);
    let repair = xfskit::Repair::new()
        .threads(args.threads)
        .phases(|phase, at| progress.show(phase, at))
        .cancel(stop.token());
    let plan_only = args.dry_run || args.explain.is_some();
    let repair = repair.accept_loss(args.accept_loss).zero_log(args.zero_log).plan_only(plan_only);
    let repair = args.memory.into_iter().fold(repair, xfskit::Repair::memory);
    let prepared = match repair.prepare(name) {
        // A plan needs no permission to write.
        Err(error) if plan_only && is_not_writable(&error) => {
            Device::open(name).and_then(|device| repair.prepare_device(&device))
        }
        prepared => prepared,
    };
    drop(repair);
    drop(progress);
    let prepared = prepared.map_err(|error| failed(name, &error))?;
    if let Some(id) = &args.explain {
        return explain(prepared.plan(), id, out);
    }
    let refused = !prepared.is_clean() || prepared.loses_too_much() || prepared.needs_zero_log();
    let status = if args.dry_run || refused {
        report(name, &prepared, None, out)?;
        ExitStatus::of(prepared.plan().is_empty())
    } else {
        let written = commit(name, &prepared, undo.as_deref(), (&stop, out))?;
        report(name, &prepared, Some((written, undo.as_deref())), out)?;
        ExitStatus::Success
    };
    Ok(status)
}

fn is_not_writable(error: &xfskit::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnly)
}

/// Writes the repair, with a bar for each phase. Returns nothing where there was nothing to do.
fn commit(
    name: &str,
    prepared: &PreparedRepair,
    undo: Option<&Path>,
    (stop, out): (&Stop, &Out),
) -> Result<Option<Repaired>, Failure> {
    if prepared.bytes() == 0 {
        return Ok(None);
    }
    let file = undo.map(|path| prepared.undo_file(path)).transpose();
    let mut file = file.map_err(|error| failed(name, &error))?;
    let mut now: Option<(RepairPhase, Progress)> = None;
    let written = prepared.commit_with(file.as_mut(), stop.token(), |phase, at| {
        let (_, progress) = match now.take() {
            Some(shown) if shown.0 == phase => now.insert(shown),
            _ => now.insert((phase, Progress::new(out, phase.title(), Unit::Bytes))),
        };
        progress.set(at.done, at.total);
    });
    drop(now);
    written.map(Some).map_err(|error| failed(name, &error))
}

/// Prints the plan and what was done.
fn report(
    name: &str,
    prepared: &PreparedRepair,
    done: Option<(Option<Repaired>, Option<&Path>)>,
    out: &Out,
) -> Result<(), Failure> {
    let (plan, clean) = (prepared.plan(), prepared.is_clean());
    if out.json() {
        let written = done.and_then(|(written, _)| written);
        return out.object(&json!({
            "target": name,
            "plan": plan,
            "clean": clean,
            "losses": plan.losses().count(),
            "left": prepared.left(),
            "unaccounted": prepared.unaccounted(),
            "unsupported": prepared.unsupported(),
            "written_bytes": written.map_or(0, |written| written.bytes),
            "undo_file": done.and_then(|(_, undo)| undo).filter(|_| written.is_some()),
        }));
    }
    out.raw(format!("{}{}", steps(plan), conclusion(name, prepared, done)).as_bytes())
}

/// Returns what became of the plan, in words.
fn conclusion(
    name: &str,
    prepared: &PreparedRepair,
    done: Option<(Option<Repaired>, Option<&Path>)>,
) -> String {
    let plan = prepared.plan();
    if plan.is_empty() {
        return format!("{name}: clean, nothing to repair\n");
    }
    if let Some((written, undo)) = done {
        let bytes = show::human(written.map_or(0, |written| written.bytes));
        let undo = undo.map_or(String::new(), |undo| {
            format!("  `xfskit undo {} {name}` takes it back\n", undo.display())
        });
        return format!("{name}: repaired, {bytes} written\n{undo}");
    }
    if let Some((why, advice)) = why_not(name, prepared) {
        return format!("{name}: {why}; nothing was written\n  {advice}\n");
    }
    let bytes = show::human(prepared.bytes());
    format!("{name}: can be repaired, {bytes} to write; nothing was written\n")
}

/// Returns why the plan is not written, and what can be done; `None` if it can be written.
fn why_not(name: &str, prepared: &PreparedRepair) -> Option<(String, String)> {
    let salvage = format!("`xfskit repair --salvage DEST {name}` copies out what can be read");
    let after = prepared.after();
    Some(if let Some(feature) = prepared.unsupported() {
        let why = format!("repairing a volume with {feature} is not written yet");
        (why, format!("{salvage}; `xfs_repair` repairs it"))
    } else if !prepared.unaccounted().is_empty() {
        (prepared.unaccounted().to_string(), format!("{salvage}; please report it"))
    } else if !prepared.is_clean() {
        let why = format!("{} errors would remain", after.errors + after.fatals);
        (why, format!("{salvage}; xfs_repair (`-n` first) may repair the rest"))
    } else if prepared.needs_zero_log() {
        let discard = "--zero-log --accept-loss all discards the rest of the journal, as the plan \
                       says, and repairs";
        ("the journal is damaged".to_owned(), format!("{salvage}; {discard}"))
    } else if prepared.loses_too_much() {
        let losses = prepared.plan().losses().count();
        let advice = "`xfskit get` copies out what can be read; --accept-loss all repairs all the \
                      same";
        (format!("{losses} losses, which are not accepted"), advice.to_owned())
    } else {
        return None;
    })
}

/// Returns the plan in words.
fn steps(plan: &RepairPlan) -> String {
    let mut text = String::new();
    for step in plan.steps.iter().chain(&plan.unwritten) {
        let _ = writeln!(text, "{step}");
        for finding in step.findings.iter().take(SHOWN_MAX) {
            let _ = writeln!(text, "  {finding}");
        }
        if let Some(more @ 1..) = step.findings.len().checked_sub(SHOWN_MAX) {
            let _ = writeln!(text, "  and {more} more: --explain {}", step.id);
        }
    }
    if !plan.beyond.is_empty() {
        let _ = writeln!(text, "no repair yet for {} findings:", plan.beyond.len());
        for finding in &plan.beyond {
            let _ = writeln!(text, "  {finding}");
        }
    }
    text
}

/// Prints one step, with all of its findings.
fn explain(plan: &RepairPlan, id: &str, out: &Out) -> Outcome {
    let Some(step) = plan.step(id) else {
        let steps = plan.steps.iter().chain(&plan.unwritten);
        let ids: Vec<&str> = steps.map(|step| &*step.id).collect();
        let known = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
        return Err(Failure::cannot(format!("{id}: the plan has no such step"))
            .hint(format!("Its steps: {known}")));
    };
    out.result(step, |step| {
        let mut text = format!("{step}\n");
        for finding in &step.findings {
            let _ = writeln!(text, "  {finding}");
        }
        text
    })?;
    Ok(ExitStatus::Success)
}

/// Returns where the undo file goes: beside an image, where nothing else is named.
fn undo_path(args: &Repair) -> Result<Option<PathBuf>, Failure> {
    if args.no_undo || args.dry_run || args.explain.is_some() {
        return Ok(None);
    }
    if let Some(file) = &args.undo_file {
        may_be_created(file)?;
        return Ok(Some(file.clone()));
    }
    let name = &*args.target;
    let target = Target::parse(name).map_err(|error| failed(name, &error))?;
    // The error of opening it says that it is missing, or a directory.
    let is_device =
        |path: &Path| path.metadata().is_ok_and(|target| target.file_type().is_block_device());
    let image = target.path().filter(|path| !is_device(path));
    let Some(image) = image else {
        return Err(Failure::cannot(format!(
            "{name}: there is no place for an undo file beside it"
        ))
        .hint("--undo-file names one; --no-undo does without."));
    };
    let place = |n: usize| {
        let mut place = image.as_os_str().to_owned();
        place.push(if n == 0 { ".undo".to_owned() } else { format!(".undo.{n}") });
        PathBuf::from(place)
    };
    match (0..UNDO_FILES_MAX).map(place).find(|place| !place.exists()) {
        Some(free) => Ok(Some(free)),
        None => Err(Failure::cannot(format!("{name}: there are too many undo files beside it"))
            .hint("--undo-file names another place.")),
    }
}

/// Fails where an undo file cannot be created: before the survey, not after it.
fn may_be_created(file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    if file.symlink_metadata().is_ok() {
        return Err(Failure::cannot(format!("the undo file {shown}: it exists already")).hint(
            "Nothing was written. Name a file that does not exist; --no-undo does without.",
        ));
    }
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !dir.is_dir() {
        return Err(Failure::cannot(format!("the undo file {shown}: there is no such directory"))
            .hint("Nothing was written. Make the directory first, or name another place."));
    }
    rustix::fs::access(dir, Access::WRITE_OK).map_err(|error| {
        let error = std::io::Error::from(error);
        Failure::cannot(format!("the undo file {shown}: {error}"))
            .hint("Nothing was written. --undo-file names another place; --no-undo does without.")
    })
}

/// `xfskit undo`.
pub(crate) fn undo(args: &Undo, out: &Out) -> Outcome {
    let name = &*args.target;
    refuse_mount(name)?;
    let undone = xfskit::undo(&args.file, name).map_err(|error| failed(name, &error))?;
    let report = json!({ "target": name, "ranges": undone.ranges, "bytes": undone.bytes });
    out.result(&report, |_| {
        format!("{name}: as before the repair, {} written\n", show::human(undone.bytes))
    })?;
    Ok(ExitStatus::Success)
}

/// Refuses the directory of a mount.
pub(super) fn refuse_mount(name: &str) -> Result<(), Failure> {
    if mount::is_mounted(name) {
        return Err(Failure::cannot(format!("{name}: a directory where a volume is mounted"))
            .hint("Unmount it first, and name what was mounted."));
    }
    Ok(())
}

pub(super) fn failed(name: &str, error: &xfskit::Error) -> Failure {
    let failure = Failure::cannot(about(name, error));
    match error.kind() {
        ErrorKind::Cancelled => Failure::stopped_and("nothing was written"),
        ErrorKind::NotXfs => failure.hint(open::no_superblock(name)),
        _ => open::hinted(failure, error.hint().or_else(|| open::of_no_target(name))),
    }
}
