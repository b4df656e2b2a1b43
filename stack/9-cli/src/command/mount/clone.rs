//! `xfskit clone`: a file that shares the blocks of another one on the same mount.
//!
//! copy_file_range(2) shares blocks where both files have whole ones, and the kernel keeps what it
//! caches of both files true.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::io::Errno;

use super::mounts;
use super::protocol::Client;
use crate::exit::{Failure, Outcome};
use crate::grammar::mount::CloneFile;
use crate::out::Out;

/// Runs the command.
pub(crate) fn clone(args: &CloneFile, out: &Out) -> Outcome {
    let CloneFile { source, dest } = args;
    let entry = mounts::on(source)?;
    if !Client::state(&entry)?.reflink {
        let shown = source.display();
        let why = "the volume has no reflink: files cannot share blocks";
        return Err(Failure::cannot(format!("{shown}: {why}")).hint("cp copies the content"));
    }
    let from = File::open(source).map_err(|error| failed(source, &error))?;
    let metadata = from.metadata().map_err(|error| failed(source, &error))?;
    if !metadata.is_file() {
        return Err(Failure::cannot(format!("{}: not a regular file", source.display())));
    }
    let to = destination(dest, &metadata)?;
    share(&from, &to).map_err(|error| failed(dest, &error))?;
    Ok(out.status())
}

/// Opens the file that becomes the clone: it is created, or emptied.
fn destination(dest: &Path, source: &std::fs::Metadata) -> Result<File, Failure> {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev());
    let parent = dest.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(dest) {
        Ok(there) if (there.dev(), there.ino()) == (source.dev(), source.ino()) => {
            return Err(Failure::cannot(format!("{}: both are one file", dest.display())));
        }
        Ok(there) if there.dev() == source.dev() => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if device(parent).map_err(|error| failed(parent, &error))? != source.dev() {
                return Err(other_mount(dest));
            }
        }
        Ok(_) => return Err(other_mount(dest)),
        Err(error) => return Err(failed(dest, &error)),
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(source.mode() & 0o777);
    options.open(dest).map_err(|error| failed(dest, &error))
}

/// Shares all blocks of `from` with the empty file `to`.
fn share(from: &File, to: &File) -> io::Result<()> {
    // What the kernel caches has its blocks then, and the size is what was written.
    from.sync_all()?;
    let size = from.metadata()?.len();
    let (mut read, mut written) = (0, 0);
    while written < size {
        let len = usize::try_from(size - written).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), len) {
            // The file became shorter.
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn other_mount(dest: &Path) -> Failure {
    let shown = dest.display();
    Failure::cannot(format!("{shown}: files of two filesystems cannot share blocks"))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::cannot(format!("{}: {error}", path.display()))
}
