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

mod attributes;
mod content;
mod names;
mod put;
mod shell;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xfskit::target::Device;
use xfskit::{Error, Volume};

use super::open;
use super::work::Change;
use crate::exit::{Failure, Outcome};
pub(super) use crate::grammar::change::Target;
use crate::out::Out;
use crate::stop::Stop;

/// A volume that is open for a command.
pub(crate) struct Session<'s> {
    pub volume: &'s Volume,
    pub out: &'s Out,
    pub stop: &'s Stop,
}

/// Runs a command that changes the volume `target`, and closes the volume.
pub(crate) fn run(target: &Target, change: Change<'_>, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let volume = open::volume_for_writing(target, out)?;
    in_session(target, volume, change, out, &stop)
}

/// Runs a command like [`run`], on a device that is open already.
pub(crate) fn run_on(target: &Target, device: &Device, change: Change<'_>, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let volume = open::volume_for_writing_on(target, device, out)?;
    in_session(target, volume, change, out, &stop)
}

/// Runs a command on `volume`, and closes the volume even if that fails.
fn in_session(
    target: &Target,
    volume: Volume,
    change: Change<'_>,
    out: &Out,
    stop: &Stop,
) -> Outcome {
    let known = volume.damaged_orphans().len();
    let worked = Session { volume: &volume, out, stop }.run_command(change);
    for orphan in volume.damaged_orphans().iter().skip(known) {
        out.fault_at(&target.name, orphan, None);
    }
    let closed = worked.and(open::close(&target.name, volume, out))?;
    if target.stats {
        super::stats::counted(&closed.stats, out)?;
    }
    Ok(out.status())
}

impl Session<'_> {
    /// Runs a command that changes a volume.
    pub(crate) fn run_command(&self, change: Change<'_>) -> Result<(), Failure> {
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

    /// Runs `work` on each of `paths`. Failures are reported, and the others continue.
    fn each(
        &self,
        paths: &[OsString],
        mut work: impl FnMut(&Path) -> Result<(), Stopped>,
    ) -> Result<(), Failure> {
        for path in paths {
            self.stop.check()?;
            let Ok(inside) = open::inside(path) else {
                self.out.fault_in(path.as_bytes(), &NotAbsolute(path), None, None);
                continue;
            };
            match work(inside) {
                Ok(()) => {}
                Err(Stopped::Failed(error)) => self.out.fault(path.as_bytes(), &error),
                Err(Stopped::Refused(why, hint)) => {
                    self.out.fault_in(path.as_bytes(), &Refusal(why), None, hint);
                }
                Err(Stopped::Ended(failure)) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Returns true if `path` names a directory, perhaps through a symbolic link.
    fn is_dir(&self, path: &Path) -> bool {
        self.volume.metadata(path).is_ok_and(|metadata| metadata.is_dir())
    }
}

/// A path that does not begin at the root.
#[derive(Debug, thiserror::Error)]
#[error("{}", open::not_absolute(.0))]
struct NotAbsolute<'p>(&'p OsString);

/// A change that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(&'static str);

/// The reason why work on one path ended.
enum Stopped {
    /// The path or the volume failed. Other paths may work.
    Failed(Error),
    /// The change makes no sense for this path; with a hint.
    Refused(&'static str, Option<&'static str>),
    /// The whole command ends.
    Ended(Failure),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}

/// Returns the last name of a path.
fn last_name(path: &Path) -> &Path {
    let mut names = path.as_os_str().as_bytes().split(|&b| b == b'/');
    Path::new(OsStr::from_bytes(names.rfind(|name| !name.is_empty()).unwrap_or_default()))
}
