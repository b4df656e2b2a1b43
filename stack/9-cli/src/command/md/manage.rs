//! `xfskit md fail`, `remove`, `add`, `replace` and `rebuild`: managing the members of an array.

use std::path::Path;

use serde_json::json;
use xfskit::md::{Array, ArrayOptions, Freshness, NewDevices, Rebuild as SyncRebuild, Rebuilt};
use xfskit::md::{Level, SyncAction};
use xfskit::target::Target;
use xfskit::{Error, ErrorKind};

use super::{failed, run_on};
use crate::command::action::{Action, Job, NewMembers};
use crate::command::console::{Console, Step};
use crate::command::mount;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::md::manage::{Add, Fail, Rebuild, Remove, Replace};
use crate::out::Out;

/// Number of stripes that are printed in a note.
const NOTED_MAX: usize = 20;

/// Opens an array that has redundancy.
pub(super) fn open(name: &str, write: bool) -> Result<Array, Failure> {
    let options = ArrayOptions::new().write(write).time(super::now()?);
    let array = options.open(name).map_err(|e| failed(name, &e))?;
    match array.level() {
        level @ (Level::Linear | Level::Raid0) => Err(Failure::cannot(format!(
            "{}: {level} has no redundancy: there is nothing to manage",
            array.name()
        ))),
        _ => Ok(array),
    }
}

/// `xfskit md fail`.
pub(crate) fn fail(args: &Fail, out: &Out) -> Outcome {
    let action = Action::Fail { member: args.member.clone(), later: args.later };
    run_on(&args.array.target, &Job::new(action, args.rate_options.rate), out)
}

/// Takes a member out of use.
pub(super) fn fail_member(
    array: &mut Array,
    member: &str,
    later: bool,
    rate: Option<u64>,
    console: &dyn Console,
) -> Outcome {
    array.fail(member).map_err(|e| failed(&array.name(), &e))?;
    console.note(&format!("{member} is out of use"));
    complete(array, later, rate, console)?;
    Ok(ExitStatus::Success)
}

/// `xfskit md remove`.
pub(crate) fn remove(args: &Remove, out: &Out) -> Outcome {
    let action = Action::Remove { member: args.member.clone() };
    run_on(&args.array.target, &Job::new(action, None), out)
}

/// Removes a spare or a failed member.
pub(super) fn remove_member(array: &mut Array, member: &str, console: &dyn Console) -> Outcome {
    array.remove(member).map_err(|e| failed(&array.name(), &e))?;
    console.note(&format!("{member} was removed from the array"));
    Ok(ExitStatus::Success)
}

/// `xfskit md add`.
pub(crate) fn add(args: &Add, out: &Out) -> Outcome {
    let target = &args.array.target;
    let here = || std::env::current_dir().map_err(|e| Failure::cannot(format!("{target}: {e}")));
    let devices = NewMembers {
        names: args.devices.clone(),
        from: mount::is_mounted(target).then(here).transpose()?,
        force: args.force,
        member_size: args.member_size,
    };
    let action = Action::Add { devices, later: args.later };
    run_on(target, &Job::new(action, args.rate_options.rate), out)
}

/// Adds devices to an array, as spares or as members that come back.
pub(super) fn add_devices(
    array: &mut Array,
    new: &NewMembers,
    later: bool,
    rate: Option<u64>,
    console: &dyn Console,
) -> Outcome {
    let options = NewDevices::new().force(new.force);
    let options = new.member_size.into_iter().fold(options, NewDevices::create);
    for name in &new.names {
        let name = device_name(array, name, new.from.as_deref())?;
        let came_back = array.add(&name, &options).map_err(|e| not_taken(&array.name(), &e))?;
        console.note(&if came_back {
            format!("{name} was re-added, and lacks what the write-intent bitmap names")
        } else {
            format!("{name} is a spare now")
        });
    }
    complete(array, later, rate, console)?;
    Ok(ExitStatus::Success)
}

/// Returns the name of a device to add: that of a member, or else of a file in directory `from`.
fn device_name(array: &Array, name: &str, from: Option<&Path>) -> Result<String, Failure> {
    let target = Target::parse(name).map_err(|e| failed(name, &e))?;
    let shown = target.to_string();
    let is_member = array.members().iter().any(|member| member.name == shown);
    Ok(match from.zip(target.path()) {
        Some((from, path)) if !is_member && path.as_os_str() == name => {
            from.join(path).display().to_string()
        }
        _ => shown,
    })
}

/// Returns the failure of a device that is to become a member, with the option that helps.
pub(super) fn not_taken(name: &str, error: &Error) -> Failure {
    let failure = failed(name, error);
    match error.kind() {
        _ if failure.hint.is_some() => failure,
        ErrorKind::AlreadyExists => failure.hint("--force uses it anyway; its contents are lost."),
        ErrorKind::NotFound => failure.hint("--member-size SIZE makes missing files."),
        _ => failure,
    }
}

/// `xfskit md replace`.
pub(crate) fn replace(args: &Replace, out: &Out) -> Outcome {
    let (member, with) = (args.member.clone(), args.with.clone());
    let action = Action::Replace { member, with, later: args.later };
    run_on(&args.array.target, &Job::new(action, args.rate_options.rate), out)
}

/// Replaces a member by a spare while it stays in use.
pub(super) fn replace_member(
    array: &mut Array,
    (member, with): (&str, Option<&str>),
    later: bool,
    rate: Option<u64>,
    console: &dyn Console,
) -> Outcome {
    let spare = array.replace(member, with).map_err(|e| failed(&array.name(), &e))?;
    console.note(&format!("{spare} replaces {member}"));
    complete(array, later, rate, console)?;
    Ok(ExitStatus::Success)
}

/// `xfskit md rebuild`.
pub(crate) fn rebuild(args: &Rebuild, out: &Out) -> Outcome {
    run_on(&args.array.target, &Job::new(Action::Rebuild, args.rate_options.rate), out)
}

/// Completes an array: resync, spares for missing members, rebuild, replacements. Fails if a role
/// is left without a member.
pub(super) fn rebuild_array(
    array: &mut Array,
    rate: Option<u64>,
    console: &dyn Console,
) -> Outcome {
    let missing = complete(array, false, rate, console)?;
    if missing.is_empty() {
        return Ok(ExitStatus::Success);
    }
    let members = array.members();
    let left_out = members
        .iter()
        .filter(|member| matches!(member.freshness, Freshness::Stale { .. } | Freshness::Faulty));
    let left_out: Vec<String> =
        left_out.map(|member| format!("{} ({})", member.name, member.freshness)).collect();
    let left_out = left_out.join(", ");
    let named = if left_out.is_empty() { String::new() } else { format!("; left out: {left_out}") };
    Err(Failure::problem(format!("{}: roles {missing:?} have no member{named}", array.name()))
        .hint("`xfskit md add` adds a device, or a member that was left out."))
}

/// Gives roles without a member to spares. Then, unless `later`, resyncs and rebuilds the array,
/// and compares the remaining redundancy. Returns the roles that remain without a member. Fails if
/// members disagree and no member is known to be wrong.
fn complete(
    array: &mut Array,
    later: bool,
    rate: Option<u64>,
    console: &dyn Console,
) -> Result<Vec<usize>, Failure> {
    let name = array.name();
    for (role, spare) in array.activate_spares().map_err(|e| failed(&name, &e))? {
        console.note(&format!("{spare} takes role {role}"));
    }
    let rebuilt = if later {
        if array.needs_rebuild() {
            console.note("`xfskit md rebuild` continues from here");
        }
        Rebuilt::default()
    } else {
        run(array, rate, console)?
    };
    let missing = array.missing();
    array.mark_clean().map_err(|e| failed(&name, &e))?;
    let report = json!({
        "target": name,
        "needs_rebuild": array.needs_rebuild(),
        "missing": missing,
        "bad_sectors": rebuilt.bad_sectors,
        "corrected_pages": rebuilt.corrected.iter().map(|wrong| wrong.pages).sum::<u64>(),
        "undecided_pages": rebuilt.undecided_pages,
        "undecided_stripes": rebuilt.undecided_stripes,
        "undecided_unlisted_sectors": rebuilt.undecided_unlisted_sectors,
        "undecided_bytes":
            rebuilt.undecided_bytes.iter().map(|r| [r.start, r.end]).collect::<Vec<_>>(),
    });
    console.result(&report, "")?;
    for wrong in &rebuilt.corrected {
        let (pages, member) = (wrong.pages, wrong.member.as_deref().unwrap_or("a member"));
        console.note(&format!(
            "{pages} pages of {member} are wrong, as the other members show; they were not used: \
             `xfskit md scrub --repair` rewrites them"
        ));
    }
    if !missing.is_empty() {
        console.note(&format!("roles {missing:?} have no member: `xfskit md add` adds members"));
    }
    match undecided(&rebuilt, &name) {
        Some(failure) => Err(failure),
        None => Ok(missing),
    }
}

/// Resyncs and rebuilds the array.
fn run(array: &mut Array, rate: Option<u64>, console: &dyn Console) -> Result<Rebuilt, Failure> {
    let name = array.name();
    let shown = |action, at: xfskit::Progress| match action {
        SyncAction::Resync => console.progress(Step::Resync, at.done, at.total),
        _ => console.progress(Step::Rebuild, at.done, at.total),
    };
    let rebuild =
        SyncRebuild::new().rate(rate.unwrap_or(0)).progress(shown).cancel(console.token());
    let rebuilt = rebuild.run(array).map_err(|e| failed(&name, &e))?;
    if rebuilt.bad_sectors > 0 {
        console.note(&format!(
            "{} sectors could not be read from any member: they are bad blocks of the rebuilt members",
            rebuilt.bad_sectors
        ));
    }
    console.check()?;
    Ok(rebuilt)
}

/// Returns the failure that names the stripes on which no member is known to be wrong.
fn undecided(rebuilt: &Rebuilt, name: &str) -> Option<Failure> {
    (rebuilt.undecided_pages > 0).then_some(())?;
    let stripes = &rebuilt.undecided_stripes;
    let named: Vec<String> = stripes.iter().take(NOTED_MAX).map(ToString::to_string).collect();
    let more = if stripes.len() > NOTED_MAX { ", …" } else { "" };
    let outcome = match rebuilt.undecided_unlisted_sectors {
        0 => "they are bad blocks of the rebuilt members".to_owned(),
        sectors => format!(
            "{sectors} sectors of them are not in a bad-block log, which is full or missing: a \
             later scrub cannot tell that they are doubtful"
        ),
    };
    let message = format!(
        "{name}: {} pages were rebuilt from members that disagree, and which of them is wrong is \
         not known: stripes {}{more}; {outcome}",
        rebuilt.undecided_pages,
        named.join(", ")
    );
    Some(
        Failure::problem(message)
            .hint("Compare the files there with a backup; --json names the bytes of the array."),
    )
}
