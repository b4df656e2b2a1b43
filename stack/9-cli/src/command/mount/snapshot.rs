//! Mounted volumes as targets of commands that read: a snapshot of each, which the process of the
//! mount serves.

use std::fs::File;
use std::path::Path;

use xfskit::target::Target;
use xfskit::{Snapshot, Volume};

use super::mounts::{self, MountEntry};
use super::protocol::{Client, Reply, Request};
use crate::command::open;
use crate::exit::Failure;
use crate::grammar;
use crate::out::Out;

/// Returns a snapshot of the volume that is mounted on `target` by xfskit. Returns `None` if
/// `target` is anything else: only a directory of a mount means the mount.
pub(crate) fn snapshot(target: &str) -> Result<Option<Snapshot>, Failure> {
    match entry(target)? {
        Some(entry) => take(&entry, Path::new(target)).map(Some),
        None => Ok(None),
    }
}

/// Opens the volume `target` to be read, and prints notes. A directory of a mount by xfskit means a
/// snapshot of the mounted volume.
pub(crate) fn volume_to_read(target: &grammar::Target, out: &Out) -> Result<Volume, Failure> {
    match snapshot(&target.name)? {
        Some(snapshot) => open::volume_in(target, &snapshot, out),
        None => open::volume(target, out),
    }
}

/// Returns true if `target` is a directory of a mount by xfskit.
pub(crate) fn is_mounted(target: &str) -> bool {
    matches!(entry(target), Ok(Some(_)))
}

/// Returns true if `dir`, or the first directory above it that exists, is on a mount by xfskit of
/// the volume `target`: a write there changes it. If the name of what is mounted is relative, it
/// may be any that is in use.
pub(crate) fn holds(target: &str, dir: &Path) -> bool {
    let exists = |dir: &&Path| dir.exists();
    let on = dir.ancestors().find(exists).unwrap_or(Path::new("."));
    let Ok(Some(mount)) = mounts::of(on) else { return false };
    if let Ok(Some(own)) = entry(target) {
        return own.device == mount.device;
    }
    let (Ok(source), Ok(parsed)) = (Target::parse(&mount.source), Target::parse(target)) else {
        return false;
    };
    let is_absolute = source.path().is_none_or(Path::is_absolute);
    parsed.shares_files_with(&source) || !is_absolute && open::in_use(target).is_some()
}

/// Returns the mount whose directory `target` is.
pub(super) fn entry(target: &str) -> Result<Option<MountEntry>, Failure> {
    let path = Path::new(target);
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => mounts::of(path),
        Ok(_) => Ok(None),
        // The root of a mount whose process is gone cannot be looked at.
        Err(_) => match mounts::absolute(path) {
            Ok(dir) => mounts::find(&dir),
            Err(_) => Ok(None),
        },
    }
}

fn take(entry: &MountEntry, dir: &Path) -> Result<Snapshot, Failure> {
    // The kernel sends what it caches. A frozen mount takes nothing.
    if !Client::state(entry)?.frozen
        && let Ok(root) = File::open(dir)
    {
        let _ = rustix::fs::syncfs(&root);
    }
    let mut client = Client::ask(entry, Request::Snapshot)?;
    match client.reply()? {
        Reply::Snapshot => Snapshot::connect(client.into_stream()).map_err(|error| {
            Failure::cannot(format!("{}: the snapshot: {error}", entry.dir.display()))
        }),
        _ => Err(client.unexpected()),
    }
}
