//! `xfskit mount` and `xfskit umount`, and commands on what is mounted.
//!
//! | module | what |
//! | --- | --- |
//! | [`daemon`] | starts the process that serves a mount |
//! | [`protocol`] | what other processes ask it |
//! | [`control`] | the socket by which they do |
//! | [`options`] | the options of a mount, in `-o` and beside it |
//! | [`log`] | the log of that process |
//! | [`protect`] | keeps that process from waiting for its own mount |
//! | [`table`] | the table of mount(8), by which umount(8) waits |
//! | [`mounts`] | the mounts of this machine that are ours |
//! | [`requests`] | `stats` of a mount |
//! | [`snapshot`] | a mounted volume as the target of commands that read |
//! | [`extents`] | `extents` of files on a mount |
//! | [`freeze`], [`clone`] | `freeze` and `thaw`; `clone` |
//! | [`array`] | `md` commands on the array below a mount |
//! | [`umount`] | `umount` |

mod array;
mod clone;
mod control;
mod daemon;
mod extents;
mod freeze;
mod log;
mod mounts;
mod options;
mod protect;
mod protocol;
mod requests;
mod snapshot;
mod table;
mod umount;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::Access;
use xfskit::{Mounted, Volume};

use super::action::Runner;
use super::open;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::mount::Mount;
use crate::out::Out;
use crate::stop::Stop;

pub(crate) use array::run_on_array;
pub(crate) use clone::clone;
pub(crate) use extents::{Listed, extents, is_on_mount};
pub(crate) use freeze::{freeze, thaw};
pub(crate) use protocol::{Extent, FileEnd, Layout};
pub(crate) use requests::stats;
pub(crate) use snapshot::{holds, is_mounted, snapshot, volume_to_read};
pub(crate) use umount::umount;

/// Directories that a mount must not hide from the process that serves it.
const NEEDED: &[&str] = &["/", "/dev", "/proc"];
/// Time between looks at the request to stop.
const LOOK: Duration = Duration::from_millis(200);

/// `xfskit mount`: mounts a volume, in the background unless told otherwise.
/// Jobs on an array below are run by `runner`.
pub(crate) fn mount(args: &Mount, runner: Runner, out: &Out) -> Outcome {
    let (args, mount) = &options::resolve(args)?;
    let dir = mount_point(&args.dir)?;
    if args.fake {
        return Ok(out.status());
    }
    if !args.foreground && !args.detach {
        let status = daemon::start(out)?;
        if args.verbose {
            out.note(&format!("{}: mounted on {}", &*args.name, dir.display()));
        }
        return Ok(status);
    }
    log::begin(args)?;
    run(args, mount, &dir, runner, out).inspect_err(|failure| log::failed(args, failure))
}

/// Mounts a volume, and serves it until it is unmounted.
fn run(args: &Mount, mount: &xfskit::Mount, dir: &Path, runner: Runner, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    protect::protect();
    let volume = volume(args, mount, out)?;
    let mounted = mount.start(volume, dir).map_err(|error| not_mounted(dir, &error))?;
    let control = control::Socket::open(dir)?;
    let entry = if args.no_mtab { None } else { table::Entry::add(dir) };
    tracing::info!("mounted on {}", dir.display());
    if args.detach {
        daemon::detach()?;
    } else {
        out.note(&format!("{}: mounted on {}", &*args.name, dir.display()));
    }
    thread::scope(|scope| {
        scope.spawn(|| control.run(scope, &mounted, runner));
        let served = serve(&mounted, &control, &stop);
        control.end();
        served
    })?;
    if let Some(entry) = entry {
        entry.remove();
    }
    let waiting = control.close();
    let closed = mounted.close().map_err(|error| open::failure(&error));
    waiting.end(closed.as_ref().err());
    for orphan in closed?.iter().flat_map(|closed| &closed.orphans_left) {
        tracing::error!(%orphan, "the journal stays dirty");
        out.fault_at(&args.name, orphan, None);
    }
    tracing::info!("the volume is closed");
    Ok(out.status())
}

/// Waits for the end of the mount; a signal ends it.
fn serve(mounted: &Mounted, control: &control::Socket, stop: &Stop) -> Result<(), Failure> {
    while !mounted.wait(LOOK) {
        if stop.check().is_err() {
            tracing::info!("a signal asks for the end of the mount");
            mounted.unmount().map_err(|error| Failure::cannot(format!("unmount: {error}")))?;
        }
        // The kernel writes what it caches before the mount ends, which no command can thaw then.
        if mounted.is_frozen() && !control.is_listed() {
            mounted.thaw();
        }
    }
    tracing::info!("the mount is gone");
    Ok(())
}

/// Verifies that something can be mounted on `dir`, and returns its absolute path.
fn mount_point(dir: &Path) -> Result<PathBuf, Failure> {
    let cannot = |why: String| Failure::cannot(format!("{}: {why}", dir.display()));
    let path = dir.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            cannot(error.to_string()).hint(format!("`mkdir {}` makes it", dir.display()))
        }
        _ => cannot(error.to_string()),
    })?;
    if NEEDED.iter().any(|needed| path == Path::new(needed)) {
        return Err(cannot("the process that serves the mount needs what is there".into())
            .hint("Mount on another directory"));
    }
    if mounts::find(&path)?.is_some() {
        return Err(cannot("a volume is mounted there by xfskit already".into())
            .hint(format!("`xfskit umount {}` unmounts it", dir.display())));
    }
    // Behind a mount without a process there is nothing that could be looked at.
    if !path.is_dir() {
        return Err(cannot("not a directory".into()));
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(Failure::cannot("/dev/fuse is missing").hint("`modprobe fuse`, as root"));
    }
    if !rustix::process::geteuid().is_root() && !has_fusermount() {
        return Err(Failure::cannot("fusermount3 is missing")
            .hint("Users other than root mount with it; Debian has it in the package fuse3"));
    }
    Ok(path)
}

/// Returns true if the program that mounts for users other than root is there. mount(8) of such
/// users calls its helper without PATH; programs are then executed from the system's default.
fn has_fusermount() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_there = |path: PathBuf| rustix::fs::access(path, Access::EXEC_OK).is_ok();
    std::env::split_paths(&path).map(|dir| dir.join("fusermount3")).any(is_there)
}

/// Opens the volume for the mount.
fn volume(args: &Mount, mount: &xfskit::Mount, out: &Out) -> Result<Volume, Failure> {
    if mount.is_read_only() {
        return open::volume(&args.to_read(mount.is_without_recovery()), out);
    }
    open::volume_to_mount(&args.to_change(), mount, out)
}

fn not_mounted(dir: &Path, error: &xfskit::Error) -> Failure {
    let message = format!("{}: {}", dir.display(), crate::out::chain(error));
    let failure = Failure::cannot(message.trim_end());
    if rustix::process::geteuid().is_root() {
        return failure;
    }
    failure.hint(
        "Users other than root need fusermount3 (Debian: fuse3), a mount point of their own, and \
         for allow_other the line user_allow_other in /etc/fuse.conf",
    )
}

/// The end of a command that another process ran.
fn status_of(code: i32) -> ExitStatus {
    ExitStatus::of(code == 0)
}
