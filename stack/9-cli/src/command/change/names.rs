//! `mkdir`, `rm`, `mv`, `ln`, `mknod`: make, move and remove names.

use std::os::unix::ffi::OsStrExt;

use xfskit::raw::core::Error as Core;
use xfskit::raw::vfs::{self, Error, FileType, Follow, Ino, Inode, NewNode, RenameMode, join};

use super::{Session, Stopped, last_name};
use crate::exit::Failure;
use crate::grammar::change::{Ln, Mkdir, Mknod, Mv, NodeKind, Rm};
use crate::grammar::mode::ModeChange;
use crate::show;

/// `xfskit mkdir`
pub(super) fn mkdir(session: &Session<'_>, args: &Mkdir) -> Result<(), Failure> {
    let (uid, gid) = (args.owner.uid, args.owner.gid);
    let between = NewNode::usual(FileType::Directory).owner(uid, gid);
    let new = new_node(FileType::Directory, args.mode.as_ref()).owner(uid, gid);
    session.each(&args.paths, |path| {
        if args.parents {
            make_missing(session, path, &between)?;
            if session.is_dir(path) {
                return Ok(());
            }
        }
        make(session, path, &new)?;
        Ok(())
    })
}

/// Makes the missing directories before the last name of `path`.
fn make_missing(session: &Session<'_>, path: &[u8], new: &NewNode) -> vfs::Result<()> {
    for (end, _) in path.iter().enumerate().filter(|&(end, &b)| b == b'/' && end > 0) {
        let (way, rest) = path.split_at(end);
        if rest.iter().all(|&b| b == b'/') {
            break;
        }
        if !session.is_dir(way) {
            make(session, way, new)?;
        }
    }
    Ok(())
}

fn make(session: &Session<'_>, path: &[u8], new: &NewNode) -> vfs::Result<Ino> {
    let (dir, name) = session.fs().resolve_parent(path)?;
    session.fs().make(dir, &name, new)
}

/// Returns a new file of this type, with the given permissions.
fn new_node(file_type: FileType, perm: Option<&ModeChange>) -> NewNode {
    let usual = NewNode::usual(file_type);
    let Some(perm) = perm else { return usual };
    let perm = perm.of_new(file_type == FileType::Directory);
    NewNode { mode: file_type.mode() | perm, umask: 0, ..usual }
}

/// `xfskit mknod`
pub(super) fn mknod(session: &Session<'_>, args: &Mknod) -> Result<(), Failure> {
    let is_device = matches!(args.kind, NodeKind::Block | NodeKind::Character);
    let rdev = args.major.zip(args.minor);
    if is_device != rdev.is_some() {
        return Err(Failure::cannot(if is_device {
            "a device needs its major and minor number"
        } else {
            "only a device has a major and a minor number"
        })
        .hint("Write for example: xfskit mknod TARGET /dev/null c 1 3"));
    }
    let file_type = match args.kind {
        NodeKind::Block => FileType::BlockDevice,
        NodeKind::Character => FileType::CharDevice,
        NodeKind::Pipe => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
    };
    let new = NewNode { rdev, ..new_node(file_type, args.mode.as_ref()) };
    let new = new.owner(args.owner.uid, args.owner.gid);
    session.each(std::slice::from_ref(&args.path), |path| {
        make(session, path, &new)?;
        Ok(())
    })
}

/// `xfskit ln`
pub(super) fn ln(session: &Session<'_>, args: &Ln) -> Result<(), Failure> {
    let fs = session.fs();
    let old = args.old.as_bytes();
    session.each(std::slice::from_ref(&args.new), |new| {
        let new = if session.is_dir(new) { join(new, last_name(old)) } else { new.to_vec() };
        if args.symbolic {
            make(session, &new, &NewNode::symlink(old).owner(args.owner.uid, args.owner.gid))?;
            return Ok(());
        }
        let ino = fs.resolve(old, Follow::No)?.ino();
        let (dir, name) = fs.resolve_parent(&new)?;
        Ok(fs.link(ino, dir, &name)?)
    })
}

/// `xfskit mv`
pub(super) fn mv(session: &Session<'_>, args: &Mv) -> Result<(), Failure> {
    let fs = session.fs();
    let Some((to, from)) = args.paths.split_last() else { return Ok(()) };
    let to = to.as_bytes();
    let into = !args.exchange && session.is_dir(to);
    if from.len() > 1 && !into {
        return Err(Failure::problem(format!("{}: not a directory", show::name(to)))
            .hint("Several names can only be moved into a directory."));
    }
    let mode = match (args.exchange, args.no_replace) {
        (true, _) => RenameMode::Exchange,
        (_, true) => RenameMode::NoReplace,
        _ => RenameMode::Replace,
    };
    session.each(from, |from| {
        let to = if into { join(to, last_name(from)) } else { to.to_vec() };
        let (from_dir, from_name) = fs.resolve_parent(from)?;
        let (to_dir, to_name) = fs.resolve_parent(&to)?;
        match fs.rename(from_dir, &from_name, to_dir, &to_name, mode) {
            Err(error @ Error::Core(Core::NoEntry)) => Err(error.by_path(from).into()),
            renamed => Ok(renamed.map_err(|error| error.by_path(&to))?),
        }
    })
}

/// `xfskit rm`
pub(super) fn rm(session: &Session<'_>, args: &Rm) -> Result<(), Failure> {
    let fs = session.fs();
    session.each(&args.paths, |path| {
        let found = fs.resolve_parent(path).and_then(|(dir, name)| {
            let inode = fs.resolve(path, Follow::No)?;
            Ok((dir, name, inode))
        });
        let (dir, name, inode) = match found {
            Err(Error::NotFound { .. }) if args.force => return Ok(()),
            found => found?,
        };
        if !inode.core().is_dir() {
            return Ok(fs.unlink(dir, &name)?);
        }
        if !args.recursive {
            let error = Error::IsDirectory { path: show::name(path) };
            return Err(Stopped::Hinted(error, "-r removes a directory with its contents."));
        }
        remove_tree(session, path, (dir, name), inode)
    })
}

/// A directory that is removed once it is empty.
struct RemovedDir {
    /// Its parent directory.
    dir: Ino,
    name: Vec<u8>,
    /// True if something in it could not be read, and stays.
    kept: bool,
}

/// Removes the directory `name` of `dir` with everything below it, the deepest first. What cannot
/// be read is reported and stays, and so do the directories above it.
fn remove_tree(
    session: &Session<'_>,
    path: &[u8],
    (dir, name): (Ino, Vec<u8>),
    inode: Inode,
) -> Result<(), Stopped> {
    let fs = session.fs();
    let mut open: Vec<RemovedDir> = Vec::new();
    let leave = |open: &mut Vec<RemovedDir>, depth: usize| {
        open.drain(depth..).rev().filter(|left| !left.kept).try_for_each(|left| {
            session.stop.check()?;
            Ok::<_, Stopped>(fs.rmdir(left.dir, &left.name)?)
        })
    };
    for step in fs.walk(path, inode, usize::MAX) {
        session.stop.check()?;
        let entry = match step {
            Ok(entry) => entry,
            Err(fault) => {
                session.out.fault(&fault.path, &fault.error);
                for dir in &mut open {
                    dir.kept = true;
                }
                continue;
            }
        };
        leave(&mut open, entry.depth)?;
        let (dir, name) = match entry.depth {
            0 => (dir, name.clone()),
            _ => (entry.parent, last_name(&entry.path).to_vec()),
        };
        if entry.inode.core().is_dir() {
            open.push(RemovedDir { dir, name, kept: false });
        } else {
            fs.unlink(dir, &name)?;
        }
    }
    leave(&mut open, 0)
}
