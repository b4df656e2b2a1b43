//! `mkdir`, `rm`, `mv`, `ln`, `mknod`: make, move and remove names.

use std::path::{Path, PathBuf};

use xfskit::{ErrorKind, NewFile, RenameMode, Result};

use super::{Session, Stopped, last_name};
use crate::command::open;
use crate::exit::Failure;
use crate::grammar::change::{Ln, Mkdir, Mknod, Mv, NodeKind, Rm};
use crate::grammar::mode::ModeChange;
use crate::show;

/// `xfskit mkdir`: creates directories.
pub(super) fn mkdir(session: &Session<'_>, args: &Mkdir) -> Result<(), Failure> {
    let (uid, gid) = (args.owner.uid, args.owner.gid);
    let between = NewFile::dir().owner(uid, gid);
    let new = with_mode(NewFile::dir().owner(uid, gid), args.mode.as_ref(), true);
    session.each(&args.paths, |path| {
        if args.parents {
            make_missing(session, path, &between)?;
            if session.is_dir(path) {
                return Ok(());
            }
        }
        session.volume.create_node(path, &new)?;
        Ok(())
    })
}

/// Makes the missing directories before the last name of `path`. A file among them is not replaced;
/// what would come below it fails.
fn make_missing(session: &Session<'_>, path: &Path, new: &NewFile) -> Result<()> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.pop(); // the root
    for dir in above.into_iter().rev() {
        if !session.is_dir(dir)
            && let Err(error) = session.volume.create_node(dir, new)
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Returns `new` with the permissions that the user asked for.
fn with_mode(new: NewFile, mode: Option<&ModeChange>, is_dir: bool) -> NewFile {
    match mode {
        Some(mode) => new.mode(mode.of_new(is_dir)),
        None => new,
    }
}

/// `xfskit mknod`: creates a special file.
pub(super) fn mknod(session: &Session<'_>, args: &Mknod) -> Result<(), Failure> {
    let new = match (args.kind, args.major.zip(args.minor)) {
        (NodeKind::Block, Some((major, minor))) => NewFile::block_device(major, minor),
        (NodeKind::Character, Some((major, minor))) => NewFile::char_device(major, minor),
        (NodeKind::Pipe, None) => NewFile::fifo(),
        (NodeKind::Socket, None) => NewFile::socket(),
        (_, numbers) => {
            return Err(Failure::cannot(if numbers.is_none() {
                "a device needs its major and minor number"
            } else {
                "only a device has a major and a minor number"
            })
            .hint("Write for example: xfskit mknod TARGET /dev/null c 1 3"));
        }
    };
    let new = with_mode(new, args.mode.as_ref(), false).owner(args.owner.uid, args.owner.gid);
    session.each(std::slice::from_ref(&args.path), |path| {
        session.volume.create_node(path, &new)?;
        Ok(())
    })
}

/// `xfskit ln`: creates links.
pub(super) fn ln(session: &Session<'_>, args: &Ln) -> Result<(), Failure> {
    let old = Path::new(&args.old);
    session.each(std::slice::from_ref(&args.new), |new| {
        let new = into_dir(session, new, old);
        if args.symbolic {
            let link = NewFile::symlink(old).owner(args.owner.uid, args.owner.gid);
            session.volume.create_node(new, &link)?;
            return Ok(());
        }
        let old = open::inside(&args.old)?;
        Ok(session.volume.hard_link(old, new)?)
    })
}

/// Returns the path that `file` gets at `to`: below it, if that is a directory.
pub(super) fn into_dir(session: &Session<'_>, to: &Path, file: &Path) -> PathBuf {
    if session.is_dir(to) { to.join(last_name(file)) } else { to.to_owned() }
}

/// `xfskit mv`: renames files, or moves them into a directory.
pub(super) fn mv(session: &Session<'_>, args: &Mv) -> Result<(), Failure> {
    let Some((to, from)) = args.paths.split_last() else { return Ok(()) };
    let to = open::inside(to)?;
    let into = !args.exchange && session.is_dir(to);
    if from.len() > 1 && !into {
        let to = show::name(to.as_os_str().as_encoded_bytes());
        return Err(Failure::problem(format!("{to}: not a directory"))
            .hint("Several names can only be moved into a directory."));
    }
    let mode = match (args.exchange, args.no_replace) {
        (true, _) => RenameMode::Exchange,
        (_, true) => RenameMode::NoReplace,
        _ => RenameMode::Replace,
    };
    session.each(from, |from| {
        let to = if into { to.join(last_name(from)) } else { to.to_owned() };
        Ok(session.volume.rename_with(from, to, mode)?)
    })
}

/// `xfskit rm`: removes files and trees.
pub(super) fn rm(session: &Session<'_>, args: &Rm) -> Result<(), Failure> {
    let volume = session.volume;
    session.each(&args.paths, |path| {
        match volume.remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && args.force => return Ok(()),
            Err(error) if error.kind() == ErrorKind::IsADirectory => {}
            removed => return Ok(removed?),
        }
        if !args.recursive {
            let hint = "-r removes a directory with its contents.";
            return Err(Stopped::Refused("is a directory", Some(hint)));
        }
        match volume.remove_dir(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                remove_tree(session, path)
            }
            removed => Ok(removed?),
        }
    })
}

/// A directory that is removed once it is empty.
struct RemovedDir {
    path: PathBuf,
    /// True if something in it could not be read, and stays.
    kept: bool,
}

/// Removes the directory `path` with everything below it, the deepest first. What cannot be read is
/// reported and stays, and so do the directories above it.
fn remove_tree(session: &Session<'_>, path: &Path) -> Result<(), Stopped> {
    let mut open: Vec<RemovedDir> = Vec::new();
    let leave = |open: &mut Vec<RemovedDir>, depth: usize| {
        open.drain(depth..).rev().filter(|left| !left.kept).try_for_each(|left| {
            session.stop.check()?;
            Ok::<_, Stopped>(session.volume.remove_dir(&left.path)?)
        })
    };
    for file in session.volume.walk_dir_nofollow(path)? {
        session.stop.check()?;
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                session.out.fault_at_its_path(&error);
                for dir in &mut open {
                    dir.kept = true;
                }
                continue;
            }
        };
        leave(&mut open, file.depth())?;
        if file.file_type().is_dir() {
            open.push(RemovedDir { path: file.into_path(), kept: false });
        } else {
            session.volume.remove_file(file.path())?;
        }
    }
    leave(&mut open, 0)
}
