//! `xfskit put`: copies files, trees and archives into a volume; `xfskit cp`: within one.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xfskit::raw::copy::put::{Put as Done, put_stream};
use xfskit::raw::copy::source::{self, Labels, Owners, Source, SourceError, SourceOptions};
use xfskit::raw::copy::{self, Destination, PutError, PutOptions};
use xfskit::raw::target::{Base, Target};
use xfskit::raw::vfs::{self, FileType, Follow, Ino, NewNode};

use super::{Session, last_name};
use crate::command::mkfs::{report_notes, report_unread, source_failure};
use crate::command::open;
use crate::exit::Failure;
use crate::grammar::change::{Cp, Put};
use crate::out::without_path;
use crate::progress::Progress;
use crate::show;

/// `xfskit put`
pub(super) fn run(session: &Session<'_>, args: &Put) -> Result<(), Failure> {
    let Some((dest, sources)) = args.paths.split_last() else { return Ok(()) };
    let dest = dest.as_os_str().as_bytes();
    let options = options(args)?;
    if sources.len() > 1 && !session.is_dir(dest) {
        return Err(Failure::problem(format!("{}: not a directory", show::name(dest)))
            .hint("Several sources can only go into a directory."));
    }
    let progress = Progress::new(session.out, "put", "names");
    let mut all = Done::default();
    for source in sources {
        session.stop.check()?;
        let done = one(session, args, source, dest, &options, &progress, all.names)?;
        all.names += done.names;
        all.bytes += done.bytes;
    }
    progress.finish();
    if session.out.json() {
        session.out.object(&all)?;
    }
    Ok(())
}

/// Returns owners and labels from the options.
fn options(args: &Put) -> Result<PutOptions, Failure> {
    let bad = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::cannot(format!("{}: {error}", path.display()))
    };
    let read = |path: &PathBuf| fs::read(path).map_err(|e| bad(path, &e));
    let mut options = PutOptions::default();
    if let Some(owner) = args.owner {
        options.owners = Some(Owners::all(owner.uid, owner.gid));
    }
    if let Some(path) = &args.owner_map {
        options.owners = Some(Owners::parse(&read(path)?).map_err(|e| bad(path, &e))?);
    }
    if let Some(path) = &args.selinux_contexts {
        options.labels = Some(Labels::parse(&read(path)?).map_err(|e| bad(path, &e))?);
    }
    Ok(options)
}

/// Copies one source; `written` names were copied before it.
fn one(
    session: &Session<'_>,
    args: &Put,
    source: &Path,
    dest: &[u8],
    options: &PutOptions,
    progress: &Progress,
    written: u64,
) -> Result<Done, Failure> {
    let is_stdin = source.as_os_str() == "-";
    if is_stdin && !args.tar {
        return stdin(session, args, dest, progress);
    }
    let layer = match (args.tar, is_stdin, names_inside(source)) {
        (true, true, _) => Source::Stdin,
        (true, false, _) => Source::Tar(source.to_path_buf()),
        (false, _, true) => Source::Dir(source.to_path_buf()),
        (false, _, false) => Source::Name(source.to_path_buf()),
    };
    let is_inside = !matches!(layer, Source::Name(_));
    let set_root = matches!(layer, Source::Dir(_));
    let tree = {
        let reading = Progress::new(session.out, "reading", "names");
        let on_progress = |done: source::Progress| {
            reading.set(done.names, 0);
            session.stop.flow()
        };
        let options = SourceOptions {
            whiteouts: args.whiteouts,
            exclude: image(args).into_iter().collect(),
            strict: args.strict,
            memory_limit: args.limit,
            content_limit: Some(session.fs().volume().geo().data_bytes().0),
            stdin: session.stop.stdin(),
            ..SourceOptions::default()
        };
        let read = source::read_tree(&[layer], &options, &on_progress);
        read.map_err(|error| {
            // A stream that was stopped while waiting is incomplete.
            let stopped = session.stop.check().err().map(|stopped| match written {
                0 => Failure { message: "stopped; nothing was written".into(), ..stopped },
                names => after(stopped, names, None),
            });
            stopped.unwrap_or_else(|| failure(PutError::Source(error)))
        })?
    };
    report_notes(&tree, session.out);
    let (dir, path, name) = if session.is_dir(dest) {
        (ino(session, dest)?, dest.to_vec(), None)
    } else if is_inside {
        let (parent, name) = parent(session, dest)?;
        let new = NewNode { brings_acls: set_root, ..NewNode::usual(FileType::Directory) };
        let dir = session.fs().make(parent, &name, &new).map_err(|e| open::failure(&e))?;
        (dir, dest.to_vec(), None)
    } else {
        let (dir, name) = parent(session, dest)?;
        (dir, above(dest).to_vec(), Some(name))
    };
    let to = Destination { dir, path: &path, name: name.as_deref(), set_root };
    let total = tree.len() as u64;
    let names = AtomicU64::new(0);
    let on_progress = |done: Done| {
        names.store(done.names, Ordering::Relaxed);
        progress.set(done.names, total);
        session.stop.flow()
    };
    let put = copy::put(session.fs(), &tree, &to, options, &on_progress);
    report_unread(&tree, session.out);
    put.map_err(|error| match failure(error) {
        stopped if stopped.exit == Failure::stopped().exit => {
            after(stopped, written + names.into_inner(), Some(written + total))
        }
        failed => failed,
    })
}

/// Adds to `stopped` how many names are on the volume.
fn after(stopped: Failure, names: u64, of: Option<u64>) -> Failure {
    let of = of.map(|total| format!(" of {total}")).unwrap_or_default();
    let verb = if names == 1 { "is" } else { "are" };
    Failure { message: format!("stopped; {names}{of} names {verb} written"), ..stopped }
}

/// Copies standard input into the file `dest`. An existing one keeps mode and owner.
fn stdin(
    session: &Session<'_>,
    args: &Put,
    dest: &[u8],
    progress: &Progress,
) -> Result<Done, Failure> {
    let fs = session.fs();
    let (dir, name) = parent(session, dest)?;
    let mut new = NewNode::usual(FileType::Regular);
    match fs.resolve(dest, Follow::No) {
        Ok(inode) if inode.core().file_type() == Some(FileType::Regular) => {
            let core = inode.core();
            new = NewNode { mode: core.mode(), brings_acls: true, ..NewNode::default() }
                .owner(core.uid(), core.gid());
        }
        Ok(_) | Err(vfs::Error::NotFound { .. }) => {}
        Err(error) => return Err(open::failure(&error)),
    }
    if let Some(owner) = args.owner {
        new = new.owner(owner.uid, owner.gid);
    }
    let on_progress = |_: Done| session.stop.flow();
    let put = put_stream(fs, (dir, &name), &mut session.stop.stdin(), &new, &on_progress);
    session.stop.check()?;
    let bytes = put.map_err(|error| failure(error.at(dest)))?;
    progress.add(1);
    Ok(Done { names: 1, bytes })
}

/// `xfskit cp`
pub(super) fn cp(session: &Session<'_>, args: &Cp) -> Result<(), Failure> {
    let fs = session.fs();
    let (from, to) = (args.from.as_bytes(), args.to.as_bytes());
    let source = fs.resolve(from, Follow::No).map_err(|e| open::failure(&e))?;
    if source.core().is_dir() && !args.recursive {
        let path = show::name(from);
        return Err(Failure::problem(vfs::Error::IsDirectory { path }.to_string())
            .hint("-r copies a directory with its contents."));
    }
    if args.reflink && !fs.volume().geo().features.reflink() {
        return Err(Failure::cannot("--reflink on a volume without reflink is not supported")
            .hint("Without --reflink the content is copied."));
    }
    let to = if session.is_dir(to) { vfs::join(to, last_name(from)) } else { to.to_vec() };
    let (dir, name) = parent(session, &to)?;
    if fs.resolve(&to, Follow::No).is_ok_and(|there| there.ino() == source.ino()) {
        return Err(Failure::problem(format!(
            "{} and {} are the same",
            show::name(from),
            show::name(&to)
        )));
    }
    let progress = Progress::new(session.out, "cp", "names");
    let on_progress = |done: Done| {
        progress.set(done.names, 0);
        session.stop.flow()
    };
    copy::copy_within(fs, source.ino(), (dir, &name), &to, args.reflink, &on_progress)
        .map_err(failure)?;
    Ok(())
}

/// Returns true for `DIR/.` and the like: the contents of the directory are meant, without its
/// name.
fn names_inside(source: &Path) -> bool {
    let path = source.as_os_str().as_bytes();
    let last = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
    matches!(last, b"." | b"..") || path.iter().all(|&b| b == b'/')
}

/// Returns the file that is written, which is left out of every tree.
fn image(args: &Put) -> Option<PathBuf> {
    match Target::parse(&args.target.name).ok()?.base {
        Base::File(path) | Base::Overlay(path, _) => Some(path),
        Base::Array(array) => array.overlay,
        Base::Memory(_) => None,
    }
}

/// Returns the path of the parent directory of `path`.
fn above(path: &[u8]) -> &[u8] {
    let trimmed = path.len() - path.iter().rev().take_while(|&&b| b == b'/').count();
    &path[..trimmed - last_name(path).len()]
}

fn ino(session: &Session<'_>, path: &[u8]) -> Result<Ino, Failure> {
    let inode = session.fs().resolve(path, Follow::Yes).map_err(|e| open::failure(&e))?;
    Ok(inode.ino())
}

fn parent(session: &Session<'_>, path: &[u8]) -> Result<(Ino, Vec<u8>), Failure> {
    session.fs().resolve_parent(path).map_err(|e| open::failure(&e))
}

/// Returns the failure of a copy, with a hint.
fn failure(error: PutError) -> Failure {
    match error {
        PutError::Stopped | PutError::Source(SourceError::Stopped) => Failure::stopped(),
        PutError::Volume { path, error } => {
            let failure = open::failure(&error);
            let path = show::name(&path);
            let what = without_path(&failure.message, &path);
            Failure { message: format!("{path}: {what}"), ..failure }
        }
        PutError::Clash { .. } => {
            Failure::problem(error.to_string()).hint("Remove it first, or give another name.")
        }
        PutError::BelowItself { .. } => Failure::problem(error.to_string()),
        PutError::Source(error) => source_failure(&error),
        error => Failure::cannot(error.to_string()),
    }
}
