//! `chmod`, `chown`, `touch`, `xattr set`, `xattr rm`: change the metadata of files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use base64::Engine as _;
use xfskit::{ErrorKind, FileTimes, NewFile, Permissions, Result, SetXattrMode, WalkEntry};

use super::{Session, Stopped};
use crate::command::open;
use crate::exit::Failure;
use crate::grammar::change::{Chmod, Chown, Touch};
use crate::grammar::read::{XattrRm, XattrSet};
use crate::show;

/// `xfskit chmod`: sets permissions.
pub(super) fn chmod(session: &Session<'_>, args: &Chmod) -> Result<(), Failure> {
    let change = |file: &WalkEntry| {
        if file.file_type().is_symlink() {
            return Ok(());
        }
        let old = file.metadata().permissions().mode();
        let new = args.mode.apply(old, file.file_type().is_dir());
        file.set_permissions(Permissions::from_mode(new))
    };
    on_trees(session, &args.paths, args.recursive, true, &change)
}

/// `xfskit chown`: sets owners and groups.
pub(super) fn chown(session: &Session<'_>, args: &Chown) -> Result<(), Failure> {
    let follow = !args.no_dereference;
    let change = |file: &WalkEntry| {
        let (uid, gid) = (args.owner.uid, args.owner.gid);
        match file.depth() {
            0 if follow => session.volume.chown(file.path(), uid, gid),
            _ => file.chown(uid, gid),
        }
    };
    on_trees(session, &args.paths, args.recursive, follow, &change)
}

/// Applies `change` to each of `paths`, and to everything below if `recursive`. Symbolic links met
/// there are not followed.
fn on_trees(
    session: &Session<'_>,
    paths: &[OsString],
    recursive: bool,
    follow: bool,
    change: &dyn Fn(&WalkEntry) -> Result<()>,
) -> Result<(), Failure> {
    let volume = session.volume;
    session.each(paths, |path| {
        let walk = if follow { volume.walk_dir(path) } else { volume.walk_dir_nofollow(path) };
        for file in walk?.max_depth(if recursive { usize::MAX } else { 0 }) {
            session.stop.check()?;
            match file {
                Ok(file) => change(&file)?,
                Err(error) => session.out.fault_at_its_path(&error),
            }
        }
        Ok(())
    })
}

/// `xfskit touch`: sets times, and creates missing files.
pub(super) fn touch(session: &Session<'_>, args: &Touch) -> Result<(), Failure> {
    let time = args.date.unwrap_or_else(SystemTime::now);
    let mut times = FileTimes::new();
    if args.access || !args.modification {
        times = times.set_accessed(time);
    }
    if args.modification || !args.access {
        times = times.set_modified(time);
    }
    let new = NewFile::file().owner(args.owner.uid, args.owner.gid);
    let volume = session.volume;
    session.each(&args.paths, |path| {
        match volume.set_times(path, times) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            set => return Ok(set?),
        }
        if args.no_create {
            return Ok(());
        }
        volume.create_node(path, &new)?;
        Ok(volume.set_times(path, times)?)
    })
}

/// `xfskit xattr set`: sets an attribute of a file.
pub(super) fn set_xattr(session: &Session<'_>, args: &XattrSet) -> Result<(), Failure> {
    let value = value_of(args.value.as_bytes())?;
    let mode = match (args.create, args.replace) {
        (true, _) => SetXattrMode::Create,
        (_, true) => SetXattrMode::Replace,
        _ => SetXattrMode::Any,
    };
    session.each(std::slice::from_ref(&args.path), |path| {
        let set = session.volume.set_xattr_with_nofollow(path, &args.name, &value, mode);
        set.map_err(|error| of_xattr(error, &args.name))
    })
}

/// `xfskit xattr rm`: removes attributes of a file.
pub(super) fn remove_xattrs(session: &Session<'_>, args: &XattrRm) -> Result<(), Failure> {
    session.each(std::slice::from_ref(&args.path), |path| {
        for name in &args.names {
            let removed = session.volume.remove_xattr_nofollow(path, name);
            removed.map_err(|error| of_xattr(error, name))?;
        }
        Ok(())
    })
}

/// `xfskit label TARGET LABEL`: sets the label of the volume.
pub(super) fn label(session: &Session<'_>, label: &OsStr) -> Result<(), Failure> {
    session.volume.set_label(label).map_err(|error| open::failure(&error))
}

/// Returns the failure that names the attribute which is missing or exists.
fn of_xattr(error: xfskit::Error, name: &OsString) -> Stopped {
    let name = show::name(name.as_bytes());
    match error.kind() {
        ErrorKind::NoAttribute => Failure::problem(format!("no attribute {name}"))
            .hint("`xfskit xattr list TARGET PATH` lists the attributes.")
            .into(),
        ErrorKind::AlreadyExists => Failure::problem(format!("attribute {name} exists"))
            .hint("Without --create it is replaced.")
            .into(),
        _ => error.into(),
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
