//! `chmod`, `chown`, `touch`, `xattr set`, `xattr rm`: change the metadata of files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use base64::Engine as _;
use xfskit::raw::core::Error as Core;
use xfskit::raw::vfs::{Error, FileType, Follow, Ino, NewNode, SetAttr, SetMode, Stat, Timestamp};

use super::{Session, Stopped};
use crate::command::open;
use crate::exit::Failure;
use crate::grammar::change::{Chmod, Chown, Touch};
use crate::grammar::read::{XattrRm, XattrSet};
use crate::show;

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o010;
const CAPABILITIES: &[u8] = b"security.capability";

/// `xfskit chmod`
pub(super) fn chmod(session: &Session<'_>, args: &Chmod) -> Result<(), Failure> {
    let change = |ino: Ino, stat: &Stat| {
        if stat.file_type == FileType::Symlink {
            return Ok(());
        }
        let is_dir = stat.file_type == FileType::Directory;
        let perm = Some(args.mode.apply(stat.mode & 0o7777, is_dir));
        session.fs().set_attr(ino, &SetAttr { perm, ..SetAttr::default() })
    };
    on_trees(session, &args.paths, args.recursive, Follow::Yes, &change)
}

/// `xfskit chown`
pub(super) fn chown(session: &Session<'_>, args: &Chown) -> Result<(), Failure> {
    let fs = session.fs();
    let change = |ino: Ino, stat: &Stat| {
        let mut set = SetAttr { uid: args.owner.uid, gid: args.owner.gid, ..SetAttr::default() };
        if stat.file_type == FileType::Regular {
            // Without execution by the group, setgid has another meaning.
            let setgid = if stat.mode & GROUP_EXECUTES != 0 { SETGID } else { 0 };
            set.perm = Some(stat.mode & !SETUID & !setgid);
        }
        fs.set_attr(ino, &set)?;
        match fs.remove_xattr(ino, CAPABILITIES) {
            Err(Error::Core(Core::NoEntry)) => Ok(()),
            other => other,
        }
    };
    let follow = if args.no_dereference { Follow::No } else { Follow::Yes };
    on_trees(session, &args.paths, args.recursive, follow, &change)
}

/// Applies `change` to each of `paths`, and to everything below if `recursive`. Symbolic links met
/// there are not followed.
fn on_trees(
    session: &Session<'_>,
    paths: &[OsString],
    recursive: bool,
    follow: Follow,
    change: &dyn Fn(Ino, &Stat) -> Result<(), Error>,
) -> Result<(), Failure> {
    let fs = session.fs();
    session.each(paths, |path| {
        let top = fs.resolve(path, follow)?;
        for step in fs.walk(path, top, if recursive { usize::MAX } else { 0 }) {
            session.stop.check()?;
            match step {
                Ok(entry) => change(entry.inode.ino(), &fs.stat(&entry.inode))?,
                Err(fault) => session.out.fault(&fault.path, &fault.error),
            }
        }
        Ok(())
    })
}

/// `xfskit touch`
pub(super) fn touch(session: &Session<'_>, args: &Touch) -> Result<(), Failure> {
    let fs = session.fs();
    let (sec, nsec) = show::now_exact();
    let time = args.date.unwrap_or(Timestamp { sec, nsec });
    let set = SetAttr {
        atime: (args.access || !args.modification).then_some(time),
        mtime: (args.modification || !args.access).then_some(time),
        ..SetAttr::default()
    };
    let new = NewNode::usual(FileType::Regular).owner(args.owner.uid, args.owner.gid);
    session.each(&args.paths, |path| {
        let ino = match fs.resolve(path, Follow::Yes) {
            Err(Error::NotFound { .. }) if args.no_create => return Ok(()),
            Err(Error::NotFound { .. }) => {
                let (dir, name) = fs.resolve_parent(path)?;
                fs.make(dir, &name, &new)?
            }
            found => found?.ino(),
        };
        Ok(fs.set_attr(ino, &set)?)
    })
}

/// `xfskit xattr set`
pub(super) fn set_xattr(session: &Session<'_>, args: &XattrSet) -> Result<(), Failure> {
    let (fs, name) = (session.fs(), &args.name);
    let value = value_of(args.value.as_bytes())?;
    let mode = match (args.create, args.replace) {
        (true, _) => SetMode::Create,
        (_, true) => SetMode::Replace,
        _ => SetMode::Any,
    };
    session.each(std::slice::from_ref(&args.path), |path| {
        let ino = fs.resolve(path, Follow::No)?.ino();
        fs.set_xattr(ino, name.as_bytes(), &value, mode).map_err(|e| no_entry(e, name))
    })
}

/// `xfskit xattr rm`
pub(super) fn remove_xattrs(session: &Session<'_>, args: &XattrRm) -> Result<(), Failure> {
    let fs = session.fs();
    session.each(std::slice::from_ref(&args.path), |path| {
        let ino = fs.resolve(path, Follow::No)?.ino();
        for name in &args.names {
            fs.remove_xattr(ino, name.as_bytes()).map_err(|e| no_entry(e, name))?;
        }
        Ok(())
    })
}

/// `xfskit label TARGET LABEL`
pub(super) fn label(session: &Session<'_>, label: &OsStr) -> Result<(), Failure> {
    let set = session.fs().volume().set_label(label.as_bytes());
    set.map_err(|e| open::failure(&e.into()))
}

/// Returns the failure that names the attribute which is missing or exists.
fn no_entry(error: Error, name: &OsString) -> Stopped {
    let name = show::name(name.as_bytes());
    match error {
        Error::Core(Core::NoEntry) => Failure::problem(format!("no attribute {name}"))
            .hint("`xfskit xattr list TARGET PATH` lists the attributes.")
            .into(),
        Error::Core(Core::Exists) => Failure::problem(format!("attribute {name} exists"))
            .hint("Without --create it is replaced.")
            .into(),
        error => error.into(),
    }
}

/// Parses a value as setfattr does: text, or `0x` and hexadecimal, or `0s` and base64.
fn value_of(text: &[u8]) -> Result<Vec<u8>, Failure> {
    let bad = |what: &str| Failure::cannot(format!("{}: not {what}", show::name(text)));
    if let Some(hex) = text.strip_prefix(b"0x") {
        let digit = |b: &u8| char::from(*b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = hex.chunks(2).map(byte).collect();
        return bytes.ok_or_else(|| bad("hexadecimal"));
    }
    match text.strip_prefix(b"0s") {
        Some(text) => {
            base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| bad("base64"))
        }
        None => Ok(text.to_vec()),
    }
}
