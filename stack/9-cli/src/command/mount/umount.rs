//! `xfskit umount`: unmounts, and waits until the volume is closed.

use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::mounts::{self, MountEntry};
use super::protocol::{Client, Ended, Reply, Request};
use super::status_of;
use crate::exit::{Failure, Outcome};
use crate::grammar::mount::Umount;
use crate::out::Out;

/// Runs the command.
pub(crate) fn umount(args: &Umount, out: &Out) -> Outcome {
    let dir = mounts::absolute(&args.dir)?;
    let Some(entry) = mounts::find(&dir)? else {
        if args.helper {
            return by_umount(args);
        }
        let shown = args.dir.display();
        return Err(Failure::cannot(format!("{shown}: xfskit has mounted nothing there"))
            .hint("`findmnt -t fuse.xfskit` lists its mounts"));
    };
    // Before the mount is gone: its number may be another's afterwards.
    let waiting = Client::connect(&entry, Request::Wait);
    take_down(&entry, args.lazy)?;
    match waiting {
        _ if args.lazy => {}
        Some(mut waiting) => match waiting.reply() {
            Ok(Reply::Ended(Ended { error: None })) => {}
            Ok(Reply::Ended(Ended { error: Some(error) })) => return Err(Failure::problem(error)),
            _ => {
                return Err(Failure::problem("the process that served the mount ended early")
                    .hint("the next opening for writing replays the journal"));
            }
        },
        None => out.note("no process served the mount; `xfskit recover` replays the journal"),
    }
    if args.verbose {
        out.note(&format!("{}: unmounted", dir.display()));
    }
    Ok(out.status())
}

/// Lets umount(8), which has called this program by an entry that is out of date, do it itself.
fn by_umount(args: &Umount) -> Outcome {
    let mut command = Command::new("umount");
    command.arg("--internal-only").args(args.lazy.then_some("--lazy")).arg("--").arg(&args.dir);
    let status = command.status().map_err(|error| Failure::cannot(format!("umount: {error}")))?;
    Ok(status_of(status.code().unwrap_or(1)))
}

/// Takes the mount out of the tree: by the system call for root, else by fusermount3.
fn take_down(entry: &MountEntry, lazy: bool) -> Result<(), Failure> {
    let shown = entry.dir.display();
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&entry.dir, flags) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) => {
            let failure = Failure::cannot(format!("{shown}: {error}"));
            let hint =
                format!("`fuser -vm {shown}` lists the processes; --lazy does not wait for them");
            return Err(if error == Errno::BUSY { failure.hint(hint) } else { failure });
        }
    }
    let mut command = Command::new("fusermount3");
    command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(&entry.dir).stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        Failure::cannot(format!("fusermount3: {error}")).hint("Debian has it in the package fuse3")
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::cannot(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
