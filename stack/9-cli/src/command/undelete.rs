//! `xfskit undelete`: finds removed files, copies them out, gives them back in place.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use serde::Serialize;
use xfskit::target::Device;
use xfskit::{
    Confidence, CopiedOut, ErrorKind, FileType, LostReason, RemovedFile, RemovedFiles, RemovedSize,
    RestoredFile, Timestamp, Undelete, UndeletePhase, Volume,
};

use super::repair::refuse_mount;
use super::{dest, open, path};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::change::Target;
use crate::grammar::locate;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show::{self, Named};
use crate::stop::Stop;

/// One file, for JSON.
#[derive(Serialize)]
struct Object<'a> {
    confidence: &'static str,
    inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u32>,
    #[serde(flatten)]
    path: Option<Named<'a>>,
    #[serde(flatten)]
    name: Option<Named<'a>>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    file_type: Option<FileType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_at_most: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Timestamp>,
    #[serde(flatten)]
    target: Option<Named<'a>>,
    extents: Vec<Extent>,
    lost: Vec<Lost>,
    #[serde(flatten)]
    copy: Option<Named<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copied_bytes: Option<u64>,
    #[serde(flatten)]
    restored: Option<Named<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restored_inode: Option<u64>,
    /// The other paths of a file with several links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restored_links: Vec<Named<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_attributes: Option<bool>,
}

/// The treatment of one file.
#[derive(Clone, Copy)]
enum Done<'d> {
    Listed,
    Copied(&'d CopiedOut),
    /// Given back in place, or planned to be.
    Restored(&'d RestoredFile),
}

/// An extent, for JSON: all in bytes.
#[derive(Serialize)]
struct Extent {
    start: u64,
    end: u64,
    device_offset: u64,
    unwritten: bool,
}

/// A range that is lost, for JSON: in bytes.
#[derive(Serialize)]
struct Lost {
    start: u64,
    end: u64,
    reason: &'static str,
}

/// The problem with a file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Problem(String);

/// `xfskit undelete`: finds removed files, and copies them out, or plans to give them back in
/// place.
pub(crate) fn run(volume: &Volume, args: &locate::Undelete, out: &Out) -> Outcome {
    if let Some(dir) = &args.to {
        dest::refuse(&args.target.name, dir)?;
    }
    open::note_in_use(&args.target.name, out);
    let found = find(volume, args, None, out)?;
    let files = &found.files;
    let mut work = Undelete::new(volume);
    if let Some(device) = &args.rtdev {
        work = work.realtime(args.target.name.beside(device));
    }
    if let Some(dir) = &args.to {
        let copied = work.copy_to(dir, files).map_err(|error| not_copied(dir, &error))?;
        print_all(files, copied.iter().map(Done::Copied), out)?;
    } else if args.in_place {
        let planned = work.plan_restore(files).map_err(|error| open::failure(&error))?;
        print_all(files, planned.iter().map(Done::Restored), out)?;
    } else {
        print_all(files, std::iter::repeat(Done::Listed), out)?;
    }
    Ok(end(&found, out))
}

/// Returns the failure of copying anything at all: the directory cannot be made, or the realtime
/// device cannot be used.
fn not_copied(dir: &Path, error: &xfskit::Error) -> Failure {
    let is_of_device = error.kind() == ErrorKind::InvalidInput || error.hint().is_some();
    let text = if is_of_device { error.to_string() } else { format!("{}: {error}", dir.display()) };
    let hint = match error.kind() {
        ErrorKind::Cancelled => return Failure::stopped_and("what was copied until then is kept"),
        ErrorKind::InvalidInput if error.hint().is_none() => {
            Some("Name the realtime device of the volume: --rtdev".into())
        }
        ErrorKind::PermissionDenied if error.hint().is_none() => {
            Some("Choose a directory that you may write to.".into())
        }
        _ => error.hint(),
    };
    open::hinted(Failure::cannot(text), hint)
}

/// `xfskit undelete --in-place`: gives files back. From the search on the target is open for
/// writing, so that nothing else changes it; what is written first is the replay of its journal,
/// after the search.
pub(crate) fn restore(args: &locate::Undelete, out: &Out) -> Outcome {
    let name = &*args.target.name;
    refuse_mount(name)?;
    let stop = Stop::on_signals()?;
    let device = Device::open_writable(name).map_err(|error| open::not_opened(name, &error))?;
    let search = open::volume_quietly_on(&args.target, &device, out)?;
    let found = find(&search, args, Some(&stop), out)?;
    drop(search);
    if found.files.is_empty() {
        return Ok(end(&found, out));
    }
    let volume = open::volume_for_writing_on(&Target::of(&args.target), &device, out)?;
    let progress = Progress::new(out, "undelete", Unit::Count("files"));
    let work =
        Undelete::new(&volume).progress(|at| progress.set(at.done, at.total)).cancel(stop.token());
    let restored = work.restore(&found.files);
    drop(work);
    progress.finish();
    // Restored files are listed once they are durable.
    open::close(name, volume, out)?;
    let restored = restored.map_err(|error| match error.kind() {
        ErrorKind::Cancelled => Failure::stopped(),
        _ => open::failure(&error),
    })?;
    print_all(&found.files, restored.iter().map(Done::Restored), out)?;
    Ok(end(&found, out))
}

/// Finds the removed files that the arguments select, unless the user stops it.
fn find(
    volume: &Volume,
    args: &locate::Undelete,
    stop: Option<&Stop>,
    out: &Out,
) -> Result<RemovedFiles, Failure> {
    let pattern = args.pattern.as_deref().map(matcher).transpose()?;
    let progress = Progress::beside_output(out, "undelete", Unit::Count("read"));
    let search = Undelete::new(volume).free_space(!args.quick).phases(|phase, at| {
        // Of the phases the one that reads the groups takes the time.
        if phase == UndeletePhase::Groups {
            progress.set(at.done, at.total);
        }
    });
    let search = match stop {
        Some(stop) => search.cancel(stop.token()),
        None => search,
    };
    let mut found = search.run().map_err(|error| match error.kind() {
        ErrorKind::Cancelled => Failure::stopped_and("nothing was written"),
        _ => open::failure(&error),
    })?;
    progress.finish();
    let all = found.files.len();
    found.files.retain(|file| {
        let fits = pattern.as_ref().is_none_or(|pattern| pattern.matches(file));
        fits && (!args.good || file.confidence == Confidence::Good)
    });
    if found.files.is_empty() {
        out.note(&match all {
            0 => "no removed file was found".into(),
            all => format!("removed files found: {all}; PATTERN and --good select none of them"),
        });
    }
    Ok(found)
}

/// Prints all files, each with what was done with it.
fn print_all<'d>(
    files: &[RemovedFile],
    done: impl Iterator<Item = Done<'d>>,
    out: &Out,
) -> Result<(), Failure> {
    files.iter().zip(done).try_for_each(|(file, done)| print(file, done, out))
}

/// Prints notes on the search, and returns the status of the command.
fn end(found: &RemovedFiles, out: &Out) -> ExitStatus {
    if found.unidentified > 0 {
        out.note(&format!("{} freed inodes have neither name nor content", found.unidentified));
    }
    if found.given_back > 0 {
        out.note(&format!("{} files that were given back before are left out", found.given_back));
    }
    path::warn(&found.warnings, found.warnings_more, out);
    if found.files.is_empty() { ExitStatus::Problem } else { out.status() }
}

/// A pattern of names, or of paths.
struct Pattern {
    glob: GlobMatcher,
    whole: bool,
}

/// Parses a pattern. One of paths begins at the root directory, with or without the slash.
fn matcher(text: &str) -> Result<Pattern, Failure> {
    let whole = text.contains('/');
    let root = if whole && !text.starts_with(['/', '*']) { "/" } else { "" };
    let glob = GlobBuilder::new(&[root, text].concat())
        .build()
        .map_err(|error| Failure::cannot(error.to_string()))?;
    Ok(Pattern { glob: glob.compile_matcher(), whole })
}

impl Pattern {
    fn matches(&self, file: &RemovedFile) -> bool {
        if self.whole {
            return file.path.as_ref().is_some_and(|path| self.glob.is_match(path));
        }
        file.name.as_ref().is_some_and(|name| self.glob.is_match(name))
    }
}

/// Prints one file, and reports what is wrong with its copy or keeps it from being given back.
fn print(file: &RemovedFile, done: Done<'_>, out: &Out) -> Result<(), Failure> {
    if out.json() {
        out.object(&object(file, done))?;
    } else {
        out.line([line(file, out), new_place(done, out)].concat())?;
    }
    let at = label(file);
    let error = match done {
        Done::Listed => None,
        Done::Copied(copy) => copy.error.as_ref(),
        Done::Restored(restored) => restored.error.as_ref(),
    };
    if let Some(error) = error {
        out.fault_at(&at, error.reason(), error.corruption());
    }
    if matches!(done, Done::Restored(restored) if restored.lost_attributes) {
        let text = "blocks of its extended attributes were used again: some are lost";
        out.fault_at(&at, &Problem(text.into()), None);
    }
    if matches!(done, Done::Copied(copy) if copy.to.is_some()) {
        for lost in &file.lost {
            let (start, end) = (lost.range.start, lost.range.end);
            let text = format!("bytes {start}-{end} are a hole: {}", reason(lost.reason));
            out.fault_at(&at, &Problem(text), None);
        }
    }
    Ok(())
}

/// Returns where a file is given back, for the end of its line.
fn new_place(done: Done<'_>, out: &Out) -> Vec<u8> {
    let Done::Restored(RestoredFile { path: Some(path), links, ino, .. }) = done else {
        return Vec::new();
    };
    let mut text = b"  -> ".to_vec();
    text.extend(out.name(path.as_os_str().as_bytes()));
    for link in links {
        text.extend_from_slice(b", ");
        text.extend(out.name(link.as_os_str().as_bytes()));
    }
    text.extend(ino.map(|ino| format!(" (inode {ino})")).unwrap_or_default().bytes());
    text
}

/// Returns the line of one file.
fn line(file: &RemovedFile, out: &Out) -> Vec<u8> {
    let size = match file.size {
        RemovedSize::Exact(size) => size.to_string(),
        RemovedSize::AtMost(size) => format!("<={size}"),
        RemovedSize::Unknown => "?".into(),
    };
    let removed = file.removed.map_or("?".into(), |time| show::time_short(time.sec, show::now()));
    let kind = file.mode.map_or("?", show::kind);
    let kind = match (kind, file.file_type) {
        ("?", Some(FileType::File)) => "file",
        ("?", Some(FileType::Dir)) => "directory",
        ("?", Some(FileType::Symlink)) => "symbolic link",
        (kind, _) => kind,
    };
    let confidence = confidence(file.confidence);
    let head = format!("{confidence:<7} {:>12} {kind:<13} {size:>12} {removed:<12} ", file.ino);
    let name = match (&file.path, &file.name) {
        (Some(path), _) => out.name(path.as_os_str().as_bytes()),
        (None, Some(name)) => [b"(", &out.name(name.as_bytes())[..], b")"].concat(),
        (None, None) => b"()".to_vec(),
    };
    let lost = match file.lost_bytes() {
        0 => String::new(),
        lost => format!("  {} lost", show::human(lost)),
    };
    [head.as_bytes(), &name, lost.as_bytes()].concat()
}

/// Returns what messages call a file.
fn label(file: &RemovedFile) -> String {
    let name = file.path.as_ref().map(|path| path.as_os_str()).or(file.name.as_deref());
    name.map_or(format!("inode {}", file.ino), |name| show::name(name.as_bytes()))
}

fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Good => "good",
        Confidence::Partial => "partial",
        Confidence::NameOnly => "name",
    }
}

fn reason(reason: LostReason) -> &'static str {
    match reason {
        LostReason::InUse => "in use by others",
        LostReason::Reused => "of a file that was removed later",
    }
}

/// Returns a file for JSON.
fn object<'a>(file: &'a RemovedFile, done: Done<'a>) -> Object<'a> {
    let (copy, restored) = match done {
        Done::Listed => (None, None),
        Done::Copied(copy) => (Some(copy), None),
        Done::Restored(restored) => (None, Some(restored)),
    };
    let named = |key, path: &'a std::path::Path| Named(key, path.as_os_str().as_bytes());
    let (size, size_at_most) = match file.size {
        RemovedSize::Exact(size) => (Some(size), None),
        RemovedSize::AtMost(size) => (None, Some(size)),
        RemovedSize::Unknown => (None, None),
    };
    let extent = |extent: &xfskit::RemovedExtent| Extent {
        start: extent.range.start,
        end: extent.range.end,
        device_offset: extent.device_offset,
        unwritten: extent.unwritten,
    };
    let lost = |lost: &xfskit::LostRange| Lost {
        start: lost.range.start,
        end: lost.range.end,
        reason: reason(lost.reason),
    };
    Object {
        confidence: confidence(file.confidence),
        inode: file.ino,
        generation: file.generation,
        path: file.path.as_deref().map(|path| named("path", path)),
        name: file.name.as_ref().map(|name| Named("name", name.as_bytes())),
        file_type: file.file_type,
        mode: file.mode,
        uid: file.owner.map(|owner| owner.0),
        gid: file.owner.map(|owner| owner.1),
        size,
        size_at_most,
        mtime: file.mtime,
        removed: file.removed,
        target: file.target.as_deref().map(|target| named("target", target)),
        extents: file.extents.iter().map(extent).collect(),
        lost: file.lost.iter().map(lost).collect(),
        copy: copy.and_then(|copy| copy.to.as_deref()).map(|to| named("copy", to)),
        copied_bytes: copy.map(|copy| copy.bytes),
        restored: restored
            .and_then(|file| file.path.as_deref())
            .map(|path| named("restored", path)),
        restored_inode: restored.and_then(|file| file.ino),
        restored_links: restored
            .map_or(Vec::new(), |file| file.links.iter().map(|path| named("path", path)).collect()),
        lost_attributes: restored.map(|file| file.lost_attributes),
    }
}
