//! Commands that change a volume: one open, one close, and between them changes that each happen as
//! a whole or not at all.
//!
//! | module | commands |
//! | --- | --- |
//! | [`names`] | `mkdir`, `rm`, `mv`, `ln`, `mknod` |
//! | [`attributes`] | `chmod`, `chown`, `touch`, `xattr set`, `xattr rm`, `label` |
//! | [`put`] | `put`, `cp` |
//! | [`content`] | `truncate`, `fallocate` |
//! | [`shell`] | `shell` |
//! | [`mode`], [`words`] | permissions, owners and times as words |

mod attributes;
mod content;
pub(crate) mod mode;
mod names;
mod put;
mod shell;
pub(crate) mod words;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use xfskit::block::BlockDevice;
use xfskit::vfs::{self, Follow, Fs};
use xfskit::{Volume, core};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::Command;
use crate::grammar::change::Label;
pub(super) use crate::grammar::change::Target;
use crate::grammar::look::XattrCommand;
use crate::out::Out;
use crate::stop::Stop;

/// A deleted file for which the journal of a volume that was closed is dirty.
#[derive(Debug, thiserror::Error)]
#[error("{orphan}; the journal stays dirty, so that the next opening for writing tries again")]
struct JournalLeftDirty<'o> {
    orphan: &'o core::Orphan,
}

/// A volume that is being changed.
pub(crate) struct Session<'s> {
    pub volume: &'s Volume,
    pub out: &'s Out,
    pub stop: &'s Stop,
}

/// The volume that a command changes; `None` for commands that change none.
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

/// Carries out a command that changes the volume `target`, and closes it.
pub(crate) fn run(target: &Target, command: &Command, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let volume = open::volume_for_writing(target, out)?;
    in_session(target, volume, command, out, &stop)
}

/// The same on a device that is open already.
pub(crate) fn run_on(
    target: &Target,
    device: Arc<dyn BlockDevice>,
    command: &Command,
    out: &Out,
) -> Outcome {
    let stop = Stop::on_signals()?;
    let volume = open::volume_for_writing_on(target, device, out)?;
    in_session(target, volume, command, out, &stop)
}

/// Carries out a command on `volume`, and closes it whatever comes of that.
fn in_session(
    target: &Target,
    volume: Volume,
    command: &Command,
    out: &Out,
    stop: &Stop,
) -> Outcome {
    let known = volume.fs().volume().damaged_orphans().len();
    let worked = Session { volume: &volume, out, stop }.carry_out(command);
    for orphan in volume.fs().volume().damaged_orphans().iter().skip(known) {
        out.fault_at(&target.name, orphan, None);
    }
    let closed = volume.close_counted().map_err(|error| match &error {
        xfskit::Error::Volume(error) => open::failure(error),
        error => open::not_opened(&target.name, error),
    });
    for orphan in closed.iter().flat_map(|closed| &closed.orphans_left) {
        let left = JournalLeftDirty { orphan };
        out.fault_at(&target.name, &left, None);
    }
    let closed = worked.and(closed)?;
    if target.stats {
        super::stats::counted(&closed.stats, out)?;
    }
    Ok(out.verdict())
}

impl Session<'_> {
    /// Carries out a command that changes a volume.
    pub(crate) fn carry_out(&self, command: &Command) -> Result<(), Failure> {
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

    /// Does `work` on each of `paths`. What fails is reported, and the others are done.
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

    /// True where `path` names a directory, perhaps through a symbolic link.
    fn is_dir(&self, path: &[u8]) -> bool {
        self.fs().resolve(path, Follow::Yes).is_ok_and(|inode| inode.core().is_dir())
    }
}

/// Why work on one path ended.
enum Stopped {
    /// The path, or the volume: others may do better.
    Failed(vfs::Error),
    /// The same, and what to do next.
    Hinted(vfs::Error, &'static str),
    /// The whole command is over.
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

/// The last name of a path.
fn last_name(path: &[u8]) -> &[u8] {
    path.split(|&b| b == b'/').rfind(|name| !name.is_empty()).unwrap_or_default()
}
