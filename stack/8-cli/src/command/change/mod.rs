//! Commands that change a volume: it is opened once and closed once, and each change between is
//! atomic.
//!
//! | module | commands |
//! | --- | --- |
//! | [`names`] | `mkdir`, `rm`, `mv`, `ln`, `mknod` |
//! | [`attributes`] | `chmod`, `chown`, `touch`, `xattr set`, `xattr rm`, `label` |
//! | [`put`] | `put`, `cp` |
//! | [`content`] | `truncate`, `fallocate` |
//! | [`shell`] | `shell` |
//! | [`mode`], [`arguments`] | permissions, owners and times as words |

pub(crate) mod arguments;
mod attributes;
mod content;
pub(crate) mod mode;
mod names;
mod put;
mod shell;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use xfskit::vfs::{self, Follow, Fs};
use xfskit::{Volume, core};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::Command;
use crate::grammar::change::{Label, Target};
use crate::grammar::read::XattrCommand;
use crate::out::Out;
use crate::stop::Stop;

/// A volume that is open for a command.
pub(crate) struct Session<'s> {
    pub volume: &'s Volume,
    pub out: &'s Out,
    pub stop: &'s Stop,
}

/// Returns the volume that a command changes; `None` for commands that change none.
pub(crate) fn target(command: &Command) -> Option<&Target> {
    Some(match command {
        Command::Mkdir(args) => &args.target,
        Command::Rm(args) => &args.target,
        Command::Mv(args) => &args.target,
        Command::Ln(args) => &args.target,
        Command::Mknod(args) => &args.target,
        Command::Chmod(args) => &args.target,
        Command::Chown(args) => &args.target,
        Command::Touch(args) => &args.target,
        Command::Put(args) => &args.target,
        Command::Cp(args) => &args.target,
        Command::Truncate(args) => &args.target,
        Command::Fallocate(args) => &args.target,
        Command::Label(Label { target, label: Some(_) }) => target,
        Command::Shell(args) => &args.target,
        Command::Xattr(args) => match &args.what {
            XattrCommand::Set { target, .. } | XattrCommand::Rm { target, .. } => target,
            XattrCommand::List { .. } | XattrCommand::Get { .. } => return None,
        },
        _ => return None,
    })
}

/// Runs a command that changes the volume `target`, and closes the volume.
pub(crate) fn run(target: &Target, command: &Command, out: &Out) -> Outcome {
    in_session(target, out, |session| session.run_command(command))
}

/// Opens the volume `target` for `work`, and closes it even if that fails.
fn in_session(
    target: &Target,
    out: &Out,
    work: impl FnOnce(&Session<'_>) -> Result<(), Failure>,
) -> Outcome {
    let stop = Stop::on_signals()?;
    let volume = open::volume_for_writing(target, out)?;
    let known = volume.fs().volume().damaged_orphans().len();
    let worked = work(&Session { volume: &volume, out, stop: &stop });
    for orphan in volume.fs().volume().damaged_orphans().iter().skip(known) {
        out.fault_at(&target.name, orphan, None);
    }
    let closed = volume.close_counted().map_err(|error| match &error {
        xfskit::Error::Volume(error) => open::failure(error),
        error => open::not_opened(&target.name, error),
    });
    let stats = worked.and(closed)?;
    if target.stats {
        super::stats::counted(&stats, out)?;
    }
    Ok(out.status())
}

impl Session<'_> {
    /// Runs a command that changes a volume.
    pub(crate) fn run_command(&self, command: &Command) -> Result<(), Failure> {
        match command {
            Command::Mkdir(args) => names::mkdir(self, args),
            Command::Rm(args) => names::rm(self, args),
            Command::Mv(args) => names::mv(self, args),
            Command::Ln(args) => names::ln(self, args),
            Command::Mknod(args) => names::mknod(self, args),
            Command::Chmod(args) => attributes::chmod(self, args),
            Command::Chown(args) => attributes::chown(self, args),
            Command::Touch(args) => attributes::touch(self, args),
            Command::Xattr(args) => attributes::xattr(self, &args.what),
            Command::Put(args) => put::run(self, args),
            Command::Cp(args) => put::cp(self, args),
            Command::Truncate(args) => content::truncate(self, args),
            Command::Fallocate(args) => content::fallocate(self, args),
            Command::Label(args) => attributes::label(self, args),
            Command::Shell(args) => shell::run(self, args),
            _ => Ok(()),
        }
    }

    fn fs(&self) -> &Fs {
        self.volume.fs()
    }

    /// Runs `work` on each of `paths`. Failures are reported, and the others continue.
    fn each(
        &self,
        paths: &[OsString],
        mut work: impl FnMut(&[u8]) -> Result<(), Stopped>,
    ) -> Result<(), Failure> {
        for path in paths {
            self.stop.check()?;
            match work(path.as_bytes()) {
                Ok(()) => {}
                Err(Stopped::Failed(error)) => {
                    let path = path.as_bytes();
                    self.out.fault(path, &error.by_path(path));
                }
                Err(Stopped::Hinted(error, hint)) => {
                    self.out.fault_with_hint(path.as_bytes(), &error, hint);
                }
                Err(Stopped::Ended(failure)) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Returns true if `path` names a directory, perhaps through a symbolic link.
    fn is_dir(&self, path: &[u8]) -> bool {
        self.fs().resolve(path, Follow::Yes).is_ok_and(|inode| inode.core().is_dir())
    }
}

/// The reason why work on one path ended.
enum Stopped {
    /// The path or the volume failed. Other paths may work.
    Failed(vfs::Error),
    /// The path or the volume failed, with a hint.
    Hinted(vfs::Error, &'static str),
    /// The whole command ends.
    Ended(Failure),
}

impl From<vfs::Error> for Stopped {
    fn from(error: vfs::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<core::Error> for Stopped {
    fn from(error: core::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}

/// Returns the last name of a path.
fn last_name(path: &[u8]) -> &[u8] {
    path.split(|&b| b == b'/').rfind(|name| !name.is_empty()).unwrap_or_default()
}
