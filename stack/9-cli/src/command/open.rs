//! Opens devices and volumes by the arguments of the command line, and turns errors into failures
//! that say what to do next.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use xfskit::target::{Device, Target};
use xfskit::{
    Closed, ErrorKind, Mount, Orphan, Replay, SecondarySuperblock, Snapshot, Superblock, Volume,
    VolumeOptions,
};

use crate::exit::Failure;
use crate::grammar;
use crate::out::{Out, chain};
use crate::progress::{Progress, Unit};
use crate::show;

/// Number of unfinished intents of a journal that are listed.
const UNFINISHED_MAX: usize = 10;

/// Adds a hint if there is one.
pub(crate) fn hinted(failure: Failure, hint: Option<String>) -> Failure {
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Formats an error, with the target's name in front unless the error has it.
pub(crate) fn about(name: &str, error: &dyn std::error::Error) -> String {
    let text = chain(error);
    if text.contains(name) { text } else { format!("{name}: {text}") }
}

/// Opens the volume `target`, with its journal replayed in memory if requested, and prints notes.
pub(crate) fn volume(target: &grammar::Target, out: &Out) -> Result<Volume, Failure> {
    Ok(with_notes(volume_quietly(target, out)?, target, out))
}

/// Opens the volume on a device that is open already, and prints notes.
pub(crate) fn volume_on(
    target: &grammar::Target,
    device: &Device,
    out: &Out,
) -> Result<Volume, Failure> {
    warn(&target.name, out)?;
    Ok(with_notes(volume_quietly_on(target, device, out)?, target, out))
}

/// Prints notes on an opened volume.
fn with_notes(volume: Volume, target: &grammar::Target, out: &Out) -> Volume {
    note_superblock(&volume, &target.name, out);
    for fault in volume.faults() {
        out.fault_at(&target.name, fault, Some(fault));
    }
    let missing = volume.missing_bytes();
    if missing > 0 {
        let name = &*target.name;
        out.note(&format!(
            "{name}: the device is shorter than the filesystem: {} are missing at its end; copy it \
             again, whole; `xfskit repair -n {name}` says what else helps",
            show::human(missing)
        ));
    }
    note_replay(&volume, out);
    volume
}

/// Prints a note if the volume is read by a secondary superblock.
pub(crate) fn note_superblock(volume: &Volume, name: &str, out: &Out) {
    if let Some(secondary) = volume.secondary_superblock() {
        note_secondary(name, secondary, out);
    }
}

/// Prints the secondary superblock by which a volume with a damaged primary is read.
fn note_secondary(name: &str, secondary: &SecondarySuperblock, out: &Out) {
    let SecondarySuperblock { agno, agreeing, compared, .. } = secondary;
    out.note(&format!(
        "{name}: the primary superblock is damaged; read by the copy in group {agno} ({agreeing} of \
         {compared} copies agree). `xfskit check {name}` says what is wrong with it"
    ));
}

/// Reads the superblock of the volume `name`.
pub(crate) fn superblock(name: &str, out: &Out) -> Result<Superblock, Failure> {
    let superblock = Superblock::read(name).map_err(|error| not_opened(name, &error))?;
    if let Some(secondary) = superblock.secondary() {
        note_secondary(name, secondary, out);
    }
    Ok(superblock)
}

/// Opens the volume `target` without notes.
pub(crate) fn volume_quietly(target: &grammar::Target, out: &Out) -> Result<Volume, Failure> {
    warn(&target.name, out)?;
    opened_to_read(target, |options| options.open(&*target.name), out)
}

/// Opens the volume on a device that is open already, without notes.
pub(crate) fn volume_quietly_on(
    target: &grammar::Target,
    device: &Device,
    out: &Out,
) -> Result<Volume, Failure> {
    opened_to_read(target, |options| options.open_on(device), out)
}

/// Opens the volume in a snapshot of the mount `target`, without notes: its journal is what the
/// mount has not written in place.
pub(crate) fn volume_in(
    target: &grammar::Target,
    snapshot: &Snapshot,
    out: &Out,
) -> Result<Volume, Failure> {
    let open =
        |options: &VolumeOptions| snapshot.options(options.clone()).open_on(&snapshot.data());
    opened_to_read(target, open, out)
}

fn opened_to_read(
    target: &grammar::Target,
    open: impl FnOnce(&VolumeOptions) -> xfskit::Result<Volume>,
    out: &Out,
) -> Result<Volume, Failure> {
    let options = VolumeOptions::new().recovery(!target.norecovery);
    let options = options.cache_bytes(target.cache.bytes());
    opened(&target.name, target.log(), options, open, out)
}

/// Opens the volume `name`, whose external journal is on `log`.
fn opened(
    name: &str,
    log: Option<String>,
    options: VolumeOptions,
    open: impl FnOnce(&VolumeOptions) -> xfskit::Result<Volume>,
    out: &Out,
) -> Result<Volume, Failure> {
    let options = log.iter().fold(options, VolumeOptions::log);
    let (options, progress) = show_replay(options, out);
    let volume = open(&options);
    progress.finish();
    let volume = volume.map_err(|error| not_opened(name, &error))?;
    out.watch(&volume);
    Ok(volume)
}

/// Opens the volume `target` for writing: a dirty journal is replayed onto it. Prints notes.
pub(crate) fn volume_for_writing(
    target: &grammar::change::Target,
    out: &Out,
) -> Result<Volume, Failure> {
    Ok(with_replay_notes(volume_to_change(target, out)?, target, out))
}

/// Opens the volume `target` for writing, as `mount` needs it, and prints notes.
pub(crate) fn volume_to_mount(
    target: &grammar::change::Target,
    mount: &Mount,
    out: &Out,
) -> Result<Volume, Failure> {
    let open = |options: &VolumeOptions| mount.volume_options(options.clone()).open(&*target.name);
    Ok(with_replay_notes(opened_to_change(target, open, out)?, target, out))
}

/// Opens the volume on a device that is open already for writing, and prints notes.
pub(crate) fn volume_for_writing_on(
    target: &grammar::change::Target,
    device: &Device,
    out: &Out,
) -> Result<Volume, Failure> {
    let volume = opened_to_change(target, |options| options.open_on(device), out)?;
    Ok(with_replay_notes(volume, target, out))
}

/// Prints notes on a volume that is open for writing: what its replay did, and orphans that stay.
/// Returns the volume.
fn with_replay_notes(volume: Volume, target: &grammar::change::Target, out: &Out) -> Volume {
    if let Some(replay) = volume.replay() {
        note_torn(replay, out);
        if !replay.clean {
            out.note(&format!("the journal was replayed ({} transactions)", replay.transactions));
            note_finished(replay, out);
        }
    }
    for orphan in volume.damaged_orphans() {
        out.note(&format!("{orphan}; `xfskit check {}` reports the damage", target.name));
    }
    volume
}

/// Opens the volume `target` for writing, without notes on its journal.
pub(crate) fn volume_to_change(
    target: &grammar::change::Target,
    out: &Out,
) -> Result<Volume, Failure> {
    opened_to_change(target, |options| options.open(&*target.name), out)
}

fn opened_to_change(
    target: &grammar::change::Target,
    open: impl FnOnce(&VolumeOptions) -> xfskit::Result<Volume>,
    out: &Out,
) -> Result<Volume, Failure> {
    if let Ok(parsed) = Target::parse(&*target.name) {
        warn_of_overlay(&target.name, &parsed, out)?;
    }
    target.cache.keep();
    let options = VolumeOptions::new().write(true).cache_bytes(target.cache.bytes());
    opened(&target.name, target.log(), options.journal(target.journal), open, out)
}

/// Shows the progress of the journal's replay while a volume is opened.
fn show_replay(options: VolumeOptions, out: &Out) -> (VolumeOptions, Arc<Progress>) {
    let progress = Arc::new(Progress::new(out, "replaying the journal", Unit::Count("blocks")));
    let shown = Arc::clone(&progress);
    (options.progress(move |at| shown.set(at.done, at.total)), progress)
}

/// Prints what the journal held, if it was not clean.
fn note_replay(volume: &Volume, out: &Out) {
    let Some(replay) = volume.replay() else { return };
    note_torn(replay, out);
    if replay.clean {
        return;
    }
    out.note(&format!(
        "the journal was replayed in memory ({} transactions); the target is unchanged",
        replay.transactions
    ));
    note_finished(replay, out);
    for intent in replay.unfinished.iter().take(UNFINISHED_MAX) {
        let name = intent.family.intent_name();
        out.note(&format!(
            "unfinished in the journal, and not finished here: {name} {:#x}",
            intent.id
        ));
    }
    if let Some(more @ 1..) = replay.unfinished.len().checked_sub(UNFINISHED_MAX) {
        out.note(&format!("and {more} more unfinished"));
    }
}

/// Prints what was cut off at the journal's head. A write that a power failure cut and later damage
/// there look the same.
fn note_torn(replay: &Replay, out: &Out) {
    if let Some(torn) = &replay.torn {
        out.note(&format!(
            "the journal ends at block {}, where a record is damaged or was not written to its end \
             ({}); what came behind it, up to block {}, is left out, as Linux leaves it out",
            torn.at.0, torn.corruption, torn.head.0
        ));
    }
}

/// Prints how many changes of the journal were finished.
fn note_finished(replay: &Replay, out: &Out) {
    match replay.finished {
        0 => {}
        1 => out.note("one change that it had begun was finished"),
        count => out.note(&format!("{count} changes that it had begun were finished")),
    }
}

/// Returns how the target is in use if it is mounted or open for writing, so that it may change
/// while it is read.
pub(crate) fn in_use(name: &str) -> Option<xfskit::Error> {
    let path = Target::parse(name).ok().and_then(|target| target.path().map(ToOwned::to_owned))?;
    Device::open_writable(path).err().filter(|error| error.kind() == ErrorKind::ResourceBusy)
}

/// Prints a note if the target is in use, so that it may change while it is read.
pub(crate) fn note_in_use(name: &str, out: &Out) {
    if let Some(error) = in_use(name) {
        out.note(&format!("{error}: what is read may be changes under way"));
    }
}

/// Returns the failure of opening a volume, with a hint.
pub(crate) fn not_opened(name: &str, error: &xfskit::Error) -> Failure {
    let failure = Failure::cannot(about(name, error.reason()));
    if let Some(hint) = error.hint().or_else(|| of_no_target(name)) {
        return failure.hint(hint);
    }
    match error.kind() {
        ErrorKind::JournalUnreadable => failure.hint(
            "--norecovery shows the volume without the journal; --logdev names an external one.",
        ),
        ErrorKind::JournalDamaged => failure.hint(
            "--norecovery reads the volume as it stands on disk, without the changes in the journal: \
             the newest are missing, and what they touched may be inconsistent. `xfskit log` prints \
             the records. `xfskit repair --zero-log` replays what is whole, says what is lost, and clears it.",
        ),
        ErrorKind::PrimaryDamaged => failure.hint(
            "`xfskit repair` writes it anew from a copy; `--dry-run` shows the plan.",
        ),
        ErrorKind::NotXfs => failure.hint(no_superblock(name)),
        ErrorKind::Corrupt | ErrorKind::Shutdown | ErrorKind::Other => {
            failure.hint(format!("`xfskit check {name}` reports all damage."))
        }
        _ => failure,
    }
}

/// Returns the hint for something in the place of a target that cannot be one.
pub(crate) fn of_no_target(name: &str) -> Option<String> {
    let kind = std::fs::metadata(name).ok()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return None;
    }
    let mounted = if kind.is_dir() { "xfskit has mounted no volume there. " } else { "" };
    Some(format!("{mounted}Name an image or a device."))
}

/// Returns the hint for a device with neither a superblock nor a secondary.
pub(crate) fn no_superblock(name: &str) -> String {
    if std::fs::metadata(name).is_ok_and(|file| file.is_file() && file.len() == 0) {
        return "The file is empty. `xfskit mkfs` makes a volume.".to_owned();
    }
    match Device::open(name).and_then(|device| device.contents()) {
        Ok(Some(table @ ("a partition table" | "a GPT partition table"))) => {
            return format!("It holds {table}: `xfskit targets {name}` lists the partitions.");
        }
        Ok(Some(what)) => {
            return format!("It holds {what}. `xfskit targets {name}` lists the volumes inside.");
        }
        _ => {}
    }
    format!(
        "No copy of an XFS superblock was found either. `xfskit targets {name}` lists partitions \
         and logical volumes; `xfskit md guess` puts members of an array in order."
    )
}

/// Returns the failure of an operation on a path: a problem (exit code 1), unless the device
/// failed.
pub(crate) fn failure(error: &xfskit::Error) -> Failure {
    let text = chain(error.reason());
    match error.kind() {
        ErrorKind::Device | ErrorKind::Unsupported => {
            Failure { hint: error.hint(), ..Failure::cannot(text) }
        }
        ErrorKind::NotFound => {
            Failure::problem(text).hint("`xfskit ls TARGET DIRECTORY` lists the names there.")
        }
        ErrorKind::StorageFull => {
            Failure::problem(text).hint("`xfskit df TARGET` shows how full it is.")
        }
        _ if error.corruption().is_some() => {
            Failure::problem(text).hint("`xfskit check TARGET` reports all damage.")
        }
        _ => Failure::problem(text),
    }
}

/// Returns a path inside the volume, which the user writes from the root.
pub(crate) fn inside(path: &OsStr) -> Result<&Path, Failure> {
    if path.as_bytes().first() == Some(&b'/') {
        return Ok(Path::new(path));
    }
    Err(Failure::cannot(not_absolute(path)))
}

/// Returns the message about a path that does not begin at the root.
pub(crate) fn not_absolute(path: &OsStr) -> String {
    let path = path.to_string_lossy();
    format!("{path:?} is not absolute: paths inside a volume begin with /")
}

/// Returns the failure of a command that `path` names a directory for, with a hint.
pub(crate) fn is_directory(path: &OsStr, hint: &str) -> Failure {
    Failure::problem(format!("{}: is a directory", path.to_string_lossy())).hint(hint)
}

/// Warns of changes below an overlay since it was made.
fn warn_of_overlay(name: &str, target: &Target, out: &Out) -> Result<(), Failure> {
    for warning in target.overlay_warnings().map_err(|e| not_opened(name, &e))? {
        out.note(&format!("{warning}; a new --overlay file begins from the target as it is now"));
    }
    Ok(())
}

/// Prints warnings on the array `name`.
pub(crate) fn warn(name: &str, out: &Out) -> Result<(), Failure> {
    let target = Target::parse(name).map_err(|e| not_opened(name, &e))?;
    warn_of_overlay(name, &target, out)?;
    for warning in target.array_warnings().map_err(|e| not_opened(name, &e))? {
        out.note(&warning);
    }
    Ok(())
}

/// A deleted file for which the journal of a volume that was closed is dirty.
#[derive(Debug, thiserror::Error)]
#[error("{orphan}; the journal stays dirty, so that the next opening for writing tries again")]
struct JournalLeftDirty<'o> {
    orphan: &'o Orphan,
}

/// Closes `volume`, the target `name`, and reports the orphans that keep its journal dirty.
pub(super) fn close(name: &str, volume: Volume, out: &Out) -> Result<Closed, Failure> {
    let closed = volume.close().map_err(|error| failure(&error))?;
    for orphan in &closed.orphans_left {
        out.fault_at(name, &JournalLeftDirty { orphan }, None);
    }
    Ok(closed)
}
