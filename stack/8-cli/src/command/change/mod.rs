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

use xfskit::Volume;
use xfskit::raw::block::BlockDevice;
use xfskit::raw::vfs::{self, Follow, Fs};
use xfskit::raw::{Cause, VolumeExt as _, cause, core};

use super::open;
use super::work::Change;
use crate::exit::{Failure, Outcome};
pub(super) use crate::grammar::change::Target;
use crate::out::Out;
use crate::stop::Stop;

/// A volume that is being changed.
pub(crate) struct Session<'s> {
    pub volume: &'s Volume,
    pub out: &'s Out,
    pub stop: &'s Stop,
}

/// Carries out a command that changes the volume `target`, and closes it.
pub(crate) fn run(target: &Target, change: Change<'_>, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let volume = open::volume_for_writing(target, out)?;
    in_session(target, volume, change, out, &stop)
}

/// Does what [`run`] does, on a device that is open already.
pub(crate) fn run_on(
    target: &Target,
    device: Arc<dyn BlockDevice>,
    change: Change<'_>,
    out: &Out,
) -> Outcome {
    let stop = Stop::on_signals()?;
    let volume = open::volume_for_writing_on(target, device, out)?;
    in_session(target, volume, change, out, &stop)
}

/// Carries out a command on `volume`, and closes it whatever comes of that.
fn in_session(
    target: &Target,
    volume: Volume,
    change: Change<'_>,
    out: &Out,
    stop: &Stop,
) -> Outcome {
    let known = volume.fs().volume().damaged_orphans().len();
    let worked = Session { volume: &volume, out, stop }.carry_out(change);
    for orphan in volume.fs().volume().damaged_orphans().iter().skip(known) {
        out.fault_at(&target.name, orphan, None);
    }
    let closed = volume.close_counted().map_err(|error| match cause(&error) {
        Cause::Volume(error) => open::failure(error),
        _ => open::not_opened(&target.name, &error),
    });
    let stats = worked.and(closed)?;
    if target.stats {
        super::stats::counted(&stats, out)?;
    }
    Ok(out.verdict())
}

impl Session<'_> {
    /// Carries out a command that changes a volume.
    pub(crate) fn carry_out(&self, change: Change<'_>) -> Result<(), Failure> {
        match change {
            Change::Mkdir(args) => names::mkdir(self, args),
            Change::Rm(args) => names::rm(self, args),
            Change::Mv(args) => names::mv(self, args),
            Change::Ln(args) => names::ln(self, args),
            Change::Mknod(args) => names::mknod(self, args),
            Change::Chmod(args) => attributes::chmod(self, args),
            Change::Chown(args) => attributes::chown(self, args),
            Change::Touch(args) => attributes::touch(self, args),
            Change::XattrSet(args) => attributes::set_xattr(self, args),
            Change::XattrRm(args) => attributes::remove_xattrs(self, args),
            Change::Put(args) => put::run(self, args),
            Change::Cp(args) => put::cp(self, args),
            Change::Truncate(args) => content::truncate(self, args),
            Change::Fallocate(args) => content::fallocate(self, args),
            Change::Label(label) => attributes::label(self, label),
            Change::Shell(args) => shell::run(self, args),
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
