//! `xfskit put`: copies files, trees and archives into a volume; `xfskit cp`: within one.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use xfskit::{Copied, CopyTree, ErrorKind, Notice, SourceError};

use super::{Session, names};
use crate::command::mkfs::{Reported, source_failure};
use crate::command::open;
use crate::exit::Failure;
use crate::grammar::change::{Cp, Put};
use crate::out::without_path;
use crate::progress::{Progress, Unit};
use crate::show;

/// `xfskit put`: copies files, trees and archives into the volume.
pub(super) fn run(session: &Session<'_>, args: &Put) -> Result<(), Failure> {
    let Some((dest, sources)) = args.paths.split_last() else { return Ok(()) };
    let dest = open::inside(dest.as_os_str())?;
    if sources.len() > 1 && !session.is_dir(dest) {
        let dest = show::name(dest.as_os_str().as_bytes());
        return Err(Failure::problem(format!("{dest}: not a directory"))
            .hint("Several sources can only go into a directory."));
    }
    let progress = Progress::new(session.out, "put", Unit::Count("names"));
    let mut all = Copied::default();
    for source in sources {
        session.stop.check()?;
        let done = one(session, args, source, dest, &progress, all.names)?;
        all.names += done.names;
        all.bytes += done.bytes;
    }
    progress.finish();
    if session.out.json() {
        session.out.object(&all)?;
    }
    Ok(())
}

/// Returns a copy with owners and labels from the options.
fn copy<'c>(session: &Session<'_>, args: &Put) -> Result<xfskit::Put<'c>, Failure> {
    let bad = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::cannot(format!("{}: {error}", path.display()))
    };
    let mut put = xfskit::Put::new(session.volume)
        .whiteouts(args.whiteouts)
        .strict(args.strict)
        .exclude(&*args.target.name)
        .cancel(session.stop.token());
    if let Some(bytes) = args.limit {
        put = put.memory_limit(bytes);
    }
    if let Some(owner) = args.owner {
        put = put.owner(owner.uid, owner.gid);
    }
    if let Some(path) = &args.owner_map {
        let rules = fs::read(path).map_err(|e| bad(path, &e))?;
        put = put.owner_map(rules).map_err(|e| bad(path, &e))?;
    }
    if let Some(path) = &args.selinux_contexts {
        let contexts = fs::read(path).map_err(|e| bad(path, &e))?;
        put = put.selinux_contexts(contexts).map_err(|e| bad(path, &e))?;
    }
    Ok(put)
}

/// Copies one source; `written` names were copied before it.
fn one(
    session: &Session<'_>,
    args: &Put,
    source: &Path,
    dest: &Path,
    progress: &Progress,
    written: u64,
) -> Result<Copied, Failure> {
    let put = copy(session, args)?;
    let is_stdin = source.as_os_str() == "-";
    if is_stdin && !args.tar {
        let copied = put.stream_to(&mut session.stop.stdin(), dest).map_err(|e| failure(&e))?;
        progress.add(1);
        return Ok(copied);
    }
    let put = match (args.tar, is_stdin, names_inside(source)) {
        (true, true, _) => put.tar_stdin(),
        (true, false, _) => put.tar(source),
        (false, _, true) => put.dir(source),
        (false, _, false) => put.entry(source),
    };
    let reading = Progress::new(session.out, "reading", Unit::Count("names"));
    let (names, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let reported = Reported::new(session.out);
    let copied = put
        .progress(|at| {
            if at.total == 0 {
                return reading.set(at.done, 0);
            }
            reading.finish();
            names.store(at.done, Ordering::Relaxed);
            total.store(at.total, Ordering::Relaxed);
            progress.set(at.done, at.total);
        })
        .notices(|notice: Notice<'_>| reported.notice(notice))
        .to(dest);
    copied.map_err(|error| match (failure(&error), total.into_inner()) {
        (stopped, total) if stopped.exit == Failure::stopped().exit => match (written, total) {
            (0, 0) => Failure { message: "stopped; nothing was written".into(), ..stopped },
            (names, 0) => after(stopped, names, None),
            (before, total) => after(stopped, before + names.into_inner(), Some(before + total)),
        },
        (failed, _) => failed,
    })
}

/// Adds to `stopped` how many names are on the volume.
fn after(stopped: Failure, names: u64, of: Option<u64>) -> Failure {
    let of = of.map(|total| format!(" of {total}")).unwrap_or_default();
    let verb = if names == 1 { "is" } else { "are" };
    Failure { message: format!("stopped; {names}{of} names {verb} written"), ..stopped }
}

/// `xfskit cp`: copies within the volume.
pub(super) fn cp(session: &Session<'_>, args: &Cp) -> Result<(), Failure> {
    let volume = session.volume;
    let (from, to) = (open::inside(&args.from)?, open::inside(&args.to)?);
    let source = volume.symlink_metadata(from).map_err(|e| open::failure(&e))?;
    if source.is_dir() && !args.recursive {
        let hint = "-r copies a directory with its contents.";
        return Err(open::is_directory(&args.from, hint));
    }
    if args.reflink && !volume.has_reflink() {
        return Err(Failure::cannot("--reflink on a volume without reflink is not supported")
            .hint("Without --reflink the content is copied."));
    }
    let to = names::into_dir(session, to, from);
    if volume.symlink_metadata(&to).is_ok_and(|there| there.ino() == source.ino()) {
        let [from, to] = [from, &to].map(|path| show::name(path.as_os_str().as_bytes()));
        return Err(Failure::problem(format!("{from} and {to} are the same")));
    }
    let progress = Progress::new(session.out, "cp", Unit::Count("names"));
    CopyTree::new(volume, from)
        .reflink(args.reflink)
        .progress(|at| progress.set(at.done, 0))
        .cancel(session.stop.token())
        .to(&to)
        .map_err(|error| failure(&error))?;
    Ok(())
}

/// Returns true for `DIR/.` and the like: the contents of the directory are meant, without its
/// name.
fn names_inside(source: &Path) -> bool {
    let path = source.as_os_str().as_bytes();
    let last = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
    matches!(last, b"." | b"..") || path.iter().all(|&b| b == b'/')
}

/// Returns the failure of a copy, with a hint.
fn failure(error: &xfskit::Error) -> Failure {
    if let Some(error) = error.reason().downcast_ref::<SourceError>() {
        return source_failure(error);
    }
    match error.kind() {
        ErrorKind::Cancelled => Failure::stopped(),
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            Failure::problem(text(error)).hint("Remove it first, or give another name.")
        }
        _ => Failure { message: text(error), ..open::failure(error) },
    }
}

/// Formats an error with its path in front, written so that a terminal is safe. An error of a
/// look-up names its path itself.
fn text(error: &xfskit::Error) -> String {
    let message = open::failure(error).message;
    match error.path() {
        Some(path) if !message.starts_with('/') => {
            let path = show::name(path.as_os_str().as_bytes());
            format!("{path}: {}", without_path(&message, &path))
        }
        _ => message,
    }
}
