//! `xfskit mount` and `xfskit umount`.
//!
//! | module | what |
//! | --- | --- |
//! | [`daemon`] | starts the process that serves a mount |
//! | [`control`] | the socket by which other processes ask it |
//! | [`mounts`] | the mounts of this machine that are ours |
//! | [`requests`] | `stats` of a mount |
//! | [`umount`] | `umount` |

mod control;
mod daemon;
mod mounts;
mod requests;
mod umount;

use std::path::{Path, PathBuf};
use std::time::Duration;

use xfskit::{Mounted, Volume};

use super::open;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::mount::Mount;
use crate::out::Out;
use crate::stop::Stop;

pub(crate) use requests::{is_mounted, stats};
pub(crate) use umount::umount;

/// Time between looks at the request to stop.
const LOOK: Duration = Duration::from_millis(200);

/// `xfskit mount`: mounts a volume, in the background unless told otherwise.
pub(crate) fn mount(args: &Mount, out: &Out) -> Outcome {
    let mount = options(args)?;
    let dir = mount_point(&args.dir)?;
    if !args.foreground && !args.detach {
        return daemon::start(out);
    }
    let stop = Stop::on_signals()?;
    let volume = volume(args, &mount, out)?;
    let mounted = mount.start(volume, &dir).map_err(|error| not_mounted(&dir, &error))?;
    let control = control::Socket::serve(&dir)?;
    if args.detach {
        daemon::detach()?;
    } else {
        out.note(&format!("{}: mounted on {}", &*args.name, dir.display()));
    }
    serve(&mounted, &control, &stop)?;
    let waiting = control.close();
    let closed = mounted.close().map_err(|error| open::failure(&error));
    waiting.end(closed.as_ref().err());
    for orphan in closed?.iter().flat_map(|closed| &closed.orphans_left) {
        out.fault_at(&args.name, orphan, None);
    }
    Ok(out.status())
}

/// Waits for the end of the mount; a signal ends it.
fn serve(mounted: &Mounted, control: &control::Socket, stop: &Stop) -> Result<(), Failure> {
    while !mounted.wait(LOOK) {
        control.answer(mounted);
        if stop.check().is_err() {
            mounted.unmount().map_err(|error| Failure::cannot(format!("unmount: {error}")))?;
        }
    }
    // The command that unmounted has asked just before.
    control.answer(mounted);
    Ok(())
}

/// Returns the builder of the mount.
fn options(args: &Mount) -> Result<xfskit::Mount, Failure> {
    let mut mount = xfskit::Mount::new().source(args.name.to_string());
    for list in &args.options {
        mount = mount.options(list).map_err(|error| {
            Failure::cannot(error.to_string()).hint("`xfskit mount --help` lists the options")
        })?;
    }
    Ok(match &args.subdir {
        Some(dir) => mount.subdir(dir),
        None => mount,
    })
}

/// Verifies that something can be mounted on `dir`, and returns its absolute path.
fn mount_point(dir: &Path) -> Result<PathBuf, Failure> {
    let cannot = |why: String| Failure::cannot(format!("{}: {why}", dir.display()));
    let path = dir.canonicalize().map_err(|error| cannot(error.to_string()))?;
    if !path.is_dir() {
        return Err(cannot("not a directory".into()));
    }
    if mounts::find(&path)?.is_some() {
        return Err(cannot("a volume is mounted there by xfskit already".into())
            .hint(format!("`xfskit umount {}` unmounts it", dir.display())));
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(Failure::cannot("/dev/fuse is missing").hint("`modprobe fuse`, as root"));
    }
    Ok(path)
}

/// Opens the volume for the mount.
fn volume(args: &Mount, mount: &xfskit::Mount, out: &Out) -> Result<Volume, Failure> {
    if mount.is_read_only() {
        return open::volume(&args.to_read(mount.is_without_recovery()), out);
    }
    open::volume_for_writing(&args.to_change(), out)
}

fn not_mounted(dir: &Path, error: &xfskit::Error) -> Failure {
    let failure = Failure::cannot(format!("{}: {}", dir.display(), crate::out::chain(error)));
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
