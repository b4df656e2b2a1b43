//! `xfskit repair` and `xfskit undo`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use xfskit::target::Target;
use xfskit::{ErrorKind, PreparedRepair, RepairPlan, Repaired};

use super::check::Phases;
use super::mount;
use super::open::{self, about};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::repair::{Repair, Undo};
use crate::out::Out;
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
    let repair = repair.accept_loss(args.accept_loss).zero_log(args.zero_log);
    let repair = args.memory.into_iter().fold(repair, xfskit::Repair::memory);
    let prepared = repair.prepare(name);
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
        let written = commit(name, &prepared, undo.as_deref())?;
        report(name, &prepared, Some((written, undo.as_deref())), out)?;
        ExitStatus::Success
    };
    Ok(status)
}

/// Writes the repair. Returns nothing where there was nothing to do.
fn commit(
    name: &str,
    prepared: &PreparedRepair,
    undo: Option<&Path>,
) -> Result<Option<Repaired>, Failure> {
    if prepared.bytes() == 0 {
        return Ok(None);
    }
    let file = undo.map(|path| prepared.undo_file(path)).transpose();
    let mut file = file.map_err(|error| failed(name, &error))?;
    let written = prepared.commit(file.as_mut()).map_err(|error| failed(name, &error))?;
    Ok(Some(written))
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
            "written_bytes": written.map_or(0, |written| written.bytes),
            "undo_file": done.and_then(|(_, undo)| undo).filter(|_| written.is_some()),
        }));
    }
    let mut text = steps(plan);
    let _ = match done {
        _ if plan.is_empty() => writeln!(text, "{name}: clean, nothing to repair"),
        Some((written, undo)) => {
            let bytes = show::human(written.map_or(0, |written| written.bytes));
            let _ = writeln!(text, "{name}: repaired, {bytes} written");
            match undo {
                Some(undo) => {
                    writeln!(text, "  `xfskit undo {} {name}` takes it back", undo.display())
                }
                None => Ok(()),
            }
        }
        None if clean && prepared.needs_zero_log() => writeln!(
            text,
            "{name}: the journal is damaged; nothing was written\n  `xfskit repair --salvage DEST \
             {name}` copies out what can be read; --zero-log --accept-loss all discards the rest of \
             the journal, as the plan says, and repairs"
        ),
        None if clean && prepared.loses_too_much() => writeln!(
            text,
            "{name}: {} losses, which are not accepted; nothing was written\n  `xfskit get` copies \
             out what can be read; --accept-loss all repairs all the same",
            plan.losses().count()
        ),
        None if clean => {
            writeln!(
                text,
                "{name}: can be repaired, {} to write; nothing was written",
                show::human(prepared.bytes())
            )
        }
        None => writeln!(
            text,
            "{name}: {} errors would remain; nothing was written\n  `xfskit repair --salvage \
             DEST {name}` copies out what can be read; xfs_repair (`-n` first) may repair the rest",
            prepared.after().errors + prepared.after().fatals
        ),
    };
    out.raw(text.as_bytes())
}

/// Returns the plan in words.
fn steps(plan: &RepairPlan) -> String {
    let mut text = String::new();
    for step in &plan.steps {
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
        let ids: Vec<&str> = plan.steps.iter().map(|step| &*step.id).collect();
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
        return Ok(Some(file.clone()));
    }
    let name = &*args.target;
    let target = Target::parse(name).map_err(|error| failed(name, &error))?;
    // That it is missing says the error of opening it.
    let image = target.path().filter(|path| path.is_file() || !path.exists());
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
        ErrorKind::NotXfs => failure.hint(open::no_superblock(name)),
        _ => open::hinted(failure, error.hint()),
    }
}
