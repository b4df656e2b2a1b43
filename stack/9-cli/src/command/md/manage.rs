//! `xfskit md fail`, `remove`, `add`, `replace` and `rebuild`: managing the members of an array.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use xfskit::raw::block::{self, BlockDevice, OpenMode};
use xfskit::raw::md::array::sync_action::Progress as SyncProgress;
use xfskit::raw::md::array::{Array, MemberState};
use xfskit::raw::md::assemble::{self, AssembledMember, Freshness};
use xfskit::raw::md::create::{self, NewMember};
use xfskit::raw::md::{Assembly, Level, superblock};
use xfskit::raw::target::{self, ArrayName, Base, Target};
use xfskit::raw::units::{ByteLen, Uuid};

use super::create::{create_failure, new_file, open_empty};
use super::detail;
use super::disagreement::Disagreement;
use crate::command::open::{device_hint, target_failure};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::md::manage::{Add, Fail, RateOptions, Rebuild, Remove, Replace};
use crate::out::{Out, chain};
use crate::progress::Progress;
use crate::stop::Stop;

/// An array whose members are managed: its target and its assembly.
pub(super) struct ManagedArray {
    pub(super) name: ArrayName,
    pub(super) assembly: Assembly,
}

impl ManagedArray {
    /// Assembles the array without writing.
    pub(super) fn open(name: &str, mode: OpenMode) -> Result<Self, Failure> {
        let target = Target::parse(name).map_err(|e| target_failure(name, &e))?;
        match target.base {
            Base::Array(array) if array.manual.is_none() => Self::assemble(*array, mode),
            _ => Err(Failure::cannot(format!("{name} is not an array with superblocks"))
                .hint("Name an array by its members: md:MEMBER,MEMBER,…")),
        }
    }

    fn assemble(name: ArrayName, mode: OpenMode) -> Result<Self, Failure> {
        let assembly =
            target::assemble(&name, mode).map_err(|e| target_failure(&name.to_string(), &e))?;
        if matches!(assembly.geometry.level(), Level::Linear | Level::Raid0) {
            return Err(Failure::cannot(format!(
                "{name}: {} has no redundancy: there is nothing to manage",
                assembly.geometry.level()
            )));
        }
        Ok(Self { name, assembly })
    }

    /// Opens the array for reading.
    pub(super) fn to_read(&self) -> Result<Array, Failure> {
        self.assembly.open_array().map_err(|e| self.cannot("", &e))
    }

    /// Opens the array for writing.
    pub(super) fn array(&self) -> Result<Array, Failure> {
        if let Some(why) = self.assembly.write_refusal() {
            return Err(Failure::cannot(format!("{} cannot be written: {why}", self.name)));
        }
        let now = super::now()?;
        self.assembly.open_writable(now).map_err(|e| self.cannot(" cannot be written", &e))
    }

    /// Returns the failure of an array that cannot run.
    fn cannot(&self, what: &str, error: &assemble::Error) -> Failure {
        let failure = Failure::cannot(format!("{}{what}: {}", self.name, chain(error)));
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// Returns the member that an argument names.
    fn member(&self, word: &str) -> Result<&AssembledMember, Failure> {
        let name = Target::parse(word).map_err(|e| target_failure(word, &e))?.to_string();
        self.assembly.members.iter().find(|member| member.name == name).ok_or_else(|| {
            Failure::problem(format!("{word} is not a member of {}", self.name))
                .hint("Use the name in the target.")
        })
    }

    /// Returns the role that a member serves.
    fn role(&self, word: &str) -> Result<usize, Failure> {
        match self.member(word)?.freshness {
            Freshness::InSync { role } | Freshness::Rebuilding { role, .. } => {
                Ok(usize::try_from(role).unwrap_or(usize::MAX))
            }
            other => {
                Err(Failure::problem(format!("{word} serves no role: {}", detail::words(other))))
            }
        }
    }
}

/// Returns the failure of a change of the array.
fn failed(name: &ArrayName, error: &block::Error) -> Failure {
    device_hint(Failure::cannot(format!("{name}: {}", chain(error))), error)
}

/// `xfskit md fail`
pub(crate) fn fail(args: &Fail, out: &Out) -> Outcome {
    let managed = ManagedArray::open(&args.array.target, OpenMode::ReadWrite)?;
    let role = managed.role(&args.member)?;
    let array = managed.array()?;
    array.fail(role).map_err(|_| {
        let (geometry, member) = (&managed.assembly.geometry, &args.member);
        Failure::problem(format!(
            "{member}: {} of {} members cannot work without it",
            geometry.level(),
            geometry.raid_disks()
        ))
        .hint("Rebuild or add what is missing first.")
    })?;
    out.note(&format!("{} is out of use", args.member));
    complete_array(&managed.name, &array, args.later, &args.rate_options, out)?;
    Ok(ExitStatus::Success)
}

/// `xfskit md remove`
pub(crate) fn remove(args: &Remove, out: &Out) -> Outcome {
    let managed = ManagedArray::open(&args.array.target, OpenMode::ReadWrite)?;
    let member = managed.member(&args.member)?;
    match member.freshness {
        Freshness::Spare => {
            create::erase(&member.device, None).map_err(|e| failed(&managed.name, &e))?;
        }
        Freshness::Stale { .. } | Freshness::Faulty => {
            let array = managed.array()?;
            let number = member.superblock.dev_number();
            array
                .remove(number)
                .and_then(|()| array.close())
                .map_err(|e| failed(&managed.name, &e))?;
        }
        freshness => {
            let what = detail::words(freshness);
            return Err(Failure::problem(format!("{} is in use: {what}", args.member))
                .hint("`xfskit md fail` takes it out of use first."));
        }
    }
    out.note(&format!("{} was removed from the array", args.member));
    Ok(ExitStatus::Success)
}

/// `xfskit md add`
pub(crate) fn add(args: &Add, out: &Out) -> Outcome {
    if args.array.target.is_overlaid() {
        return Err(Failure::cannot(
            "an overlay holds the changes of the members that it was made for",
        )
        .hint("Add the device without --overlay, or try it on copies."));
    }
    let mut name = ManagedArray::open(&args.array.target, OpenMode::ReadWrite)?.name;
    let mut re_added = Vec::new();
    for word in &args.devices {
        // Members are locked while they are open, so each device is assembled separately.
        let (with, re_added_name) =
            add_one(ManagedArray::assemble(name, OpenMode::ReadWrite)?, word, args, out)?;
        re_added.extend(re_added_name);
        name = with;
    }
    let managed = ManagedArray::assemble(name, OpenMode::ReadWrite)?;
    let array = managed.array()?;
    for name in &re_added {
        let Some(candidate) = managed.assembly.re_add_candidate(name) else { continue };
        array.re_add(&candidate).map_err(|e| failed(&managed.name, &e))?;
        out.note(&format!("{name} was re-added, and lacks what the write-intent bitmap names"));
    }
    complete_array(&managed.name, &array, args.later, &args.rate_options, out)?;
    Ok(ExitStatus::Success)
}

/// Makes a device a spare. Returns the array with the device, and the device's name if it is a
/// member that can be re-added instead.
fn add_one(
    managed: ManagedArray,
    word: &str,
    args: &Add,
    out: &Out,
) -> Result<(ArrayName, Option<String>), Failure> {
    let target = Target::parse(word).map_err(|e| target_failure(word, &e))?;
    let name = target.to_string();
    let ManagedArray { name: mut array, assembly } = managed;
    let member = assembly.members.iter().find(|member| member.name == name);
    let device = match member.map(|member| (member.freshness, &member.device)) {
        Some(_) if assembly.re_add_candidate(&name).is_some() => return Ok((array, Some(name))),
        Some((Freshness::Stale { .. } | Freshness::Faulty, device)) => Arc::clone(device),
        Some((freshness, _)) => {
            let what = detail::words(freshness);
            return Err(Failure::problem(format!("{word} is a member already: {what}")));
        }
        None => {
            array.members.push(Some(target.clone()));
            if new_file(&target).is_none() && is_ours(&target, &assembly) {
                drop(assembly);
                return add_one(
                    ManagedArray::assemble(array, OpenMode::ReadWrite)?,
                    word,
                    args,
                    out,
                );
            }
            device(&target, args)?
        }
    };
    let new = NewMember { name: name.clone(), device, uuid: *Uuid::new_v4().as_bytes() };
    assembly.add(&new, super::now()?).map_err(|e| create_failure(&e))?;
    out.note(&format!("{name} is a spare now"));
    Ok((array, None))
}

/// Returns true if a device has a superblock of this array.
fn is_ours(target: &Target, assembly: &Assembly) -> bool {
    let Ok(device) = target::open_unchecked(target, OpenMode::ReadOnly) else { return false };
    let found = superblock::read(&device).ok().flatten();
    let uuid = assembly.superblock().set_uuid();
    found.is_some_and(|found| found.corruption.is_none() && found.superblock.set_uuid() == uuid)
}

/// Opens a device to be added.
fn device(target: &Target, args: &Add) -> Result<Arc<dyn BlockDevice>, Failure> {
    match (new_file(target), args.member_size) {
        (None, _) => open_empty(target, args.force),
        (Some(_), Some(size)) => target::create(target, ByteLen(size))
            .map_err(|e| target_failure(&target.to_string(), &e)),
        (Some(path), None) => Err(Failure::cannot(format!("{}: no such file", path.display()))
            .hint("--member-size SIZE makes missing files.")),
    }
}

/// `xfskit md replace`
pub(crate) fn replace(args: &Replace, out: &Out) -> Outcome {
    let managed = ManagedArray::open(&args.array.target, OpenMode::ReadWrite)?;
    let role = managed.role(&args.member)?;
    let with = args.with.as_deref().map(|word| managed.member(word)).transpose()?;
    let with = with.map(|member| member.name.as_str());
    let array = managed.array()?;
    let Some(spare) = array.replace(role, with).map_err(|e| failed(&managed.name, &e))? else {
        return Err(Failure::problem(format!(
            "there is no spare that could replace {}",
            args.member
        ))
        .hint("`xfskit md add` makes a device a spare."));
    };
    out.note(&format!("{spare} replaces {}", args.member));
    complete_array(&managed.name, &array, args.later, &args.rate_options, out)?;
    Ok(ExitStatus::Success)
}

/// `xfskit md rebuild`. Fails if a role is left without a member.
pub(crate) fn rebuild(args: &Rebuild, out: &Out) -> Outcome {
    let managed = ManagedArray::open(&args.array.target, OpenMode::ReadWrite)?;
    let array = managed.array()?;
    let missing = complete_array(&managed.name, &array, false, &args.rate_options, out)?;
    if missing.is_empty() {
        return Ok(ExitStatus::Success);
    }
    let left_out =
        managed.assembly.members.iter().filter(|member| {
            matches!(member.freshness, Freshness::Stale { .. } | Freshness::Faulty)
        });
    let left_out: Vec<String> = left_out
        .map(|member| format!("{} ({})", member.name, detail::words(member.freshness)))
        .collect();
    let left_out = left_out.join(", ");
    let named = if left_out.is_empty() { String::new() } else { format!("; left out: {left_out}") };
    Err(Failure::problem(format!("{}: roles {missing:?} have no member{named}", managed.name))
        .hint("`xfskit md add` adds a device, or a member that was left out."))
}

/// Gives roles without a member to spares. Then, unless `later`, resyncs and rebuilds the array,
/// and compares the remaining redundancy. Returns the roles that remain without a member. Fails if
/// members disagree and no member is known to be wrong.
fn complete_array(
    name: &ArrayName,
    array: &Array,
    later: bool,
    rate_options: &RateOptions,
    out: &Out,
) -> Result<Vec<usize>, Failure> {
    let failure = |e: block::Error| failed(name, &e);
    for (role, spare) in array.activate_spares().map_err(failure)? {
        out.note(&format!("{spare} takes role {role}"));
    }
    if later && array.needs_rebuild() {
        out.note("`xfskit md rebuild` continues from here");
    }
    let mut bad_sectors = 0;
    if !later {
        let stop = Stop::on_signals()?;
        let done = resync(array, rate_options, &stop, out).and_then(|()| {
            if array.needs_rebuild() && array.can_be_scrubbed() {
                array.verify_reads();
            }
            rebuild_all(array, rate_options, &stop, out)
        });
        bad_sectors = done.and_then(|bad| array.close().map(|()| bad)).map_err(failure)?;
        if bad_sectors > 0 {
            out.note(&format!(
                "{bad_sectors} sectors could not be read from any member: they are bad blocks of the rebuilt members"
            ));
        }
        stop.check()?;
    }
    array.close().map_err(failure)?;
    let absent = |state: &MemberState| matches!(state, MemberState::Missing | MemberState::Faulty);
    let states = array.states();
    let missing: Vec<usize> = (0..states.len()).filter(|role| absent(&states[*role])).collect();
    let disagreement = Disagreement::of(array);
    let report = json!({
        "target": name.to_string(),
        "needs_rebuild": array.needs_rebuild(),
        "missing": missing,
        "bad_sectors": bad_sectors,
        "corrected_pages": disagreement.corrected.values().sum::<u64>(),
        "undecided_pages": disagreement.undecided,
        "undecided_stripes": disagreement.stripes,
        "undecided_unlisted_sectors": disagreement.unlisted_sectors,
        "undecided_bytes": disagreement.bytes.iter().map(|r| [r.start.0, r.end.0]).collect::<Vec<_>>(),
    });
    out.result(&report, |_| String::new())?;
    disagreement.say(array, out);
    if !missing.is_empty() {
        out.note(&format!("roles {missing:?} have no member: `xfskit md add` adds members"));
    }
    match disagreement.failure(name) {
        Some(failure) => Err(failure),
        None => Ok(missing),
    }
}

/// Resyncs the array after a crash.
fn resync(
    array: &Array,
    rate_options: &RateOptions,
    stop: &Stop,
    out: &Out,
) -> Result<(), block::Error> {
    let progress = Progress::new(out, "resync", "bytes");
    let mut throttle = Throttle::new(rate_options);
    array.resync(|done, total| {
        progress.set(done, total);
        throttle.keep(done);
        stop.flow().is_continue()
    })?;
    Ok(())
}

/// Rebuilds members and replacements. Returns how many sectors no member could deliver.
fn rebuild_all(
    array: &Array,
    rate_options: &RateOptions,
    stop: &Stop,
    out: &Out,
) -> Result<u64, block::Error> {
    if stop.flow().is_break() {
        return Ok(0);
    }
    let mut bad_sectors = 0;
    let progress = Progress::new(out, "rebuild", "bytes");
    let mut throttle = Throttle::new(rate_options);
    array.rebuild(|SyncProgress { done, total, bad }| {
        progress.set(done, total);
        throttle.keep(done);
        bad_sectors = bad;
        stop.flow()
    })?;
    Ok(bad_sectors)
}

/// Limits the rate of a sync action.
pub(super) struct Throttle {
    rate: Option<u64>,
    begun: Option<(Instant, u64)>,
}

impl Throttle {
    pub(super) fn new(rate_options: &RateOptions) -> Self {
        Self { rate: rate_options.rate.filter(|rate| *rate > 0), begun: None }
    }

    /// Waits until `done` bytes are allowed by the rate.
    pub(super) fn keep(&mut self, done: u64) {
        let Some(rate) = self.rate else { return };
        let (begun, from) = *self.begun.get_or_insert_with(|| (Instant::now(), done));
        let micros = u128::from(done - from) * 1_000_000 / u128::from(rate);
        let due = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        thread::sleep(due.saturating_sub(begun.elapsed()));
    }
}
