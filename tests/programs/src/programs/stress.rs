//! stress-ng: each of its stressors that uses files, with verification.
//!
//! A stressor that fails is run again on a volume that Linux has mounted: what fails there too is
//! the stressor's own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use xfskit_test_support::Mount;

use crate::stage::{Ran, Stage, installed};

/// Time beyond its own that a stressor may take: some end only after a whole pass.
const GRACE: Duration = Duration::from_mins(4);

/// The stressors, with their options.
const STRESSORS: &[&str] = &[
    "access",
    "aio",
    "aiol",
    "chattr",
    "chdir --chdir-dirs 512",
    "chmod",
    "chown",
    "copy-file --copy-file-bytes 128M",
    "dentry --dentries 1024",
    "dir --dir-dirs 1024",
    "dirdeep --dirdeep-bytes 1M --dirdeep-inodes 4096",
    "dirmany",
    "dnotify",
    "fallocate --fallocate-bytes 128M",
    "fanotify",
    "fcntl",
    "fiemap --fiemap-bytes 32M",
    "file-ioctl",
    "filename --filename-opts posix",
    "flock",
    "fpunch",
    "fsize",
    "fstat",
    "getdent",
    "handle",
    "hdd --hdd-bytes 64M",
    "hdd --hdd-bytes 64M --hdd-opts direct,wr-rnd,rd-rnd",
    "hdd --hdd-bytes 64M --hdd-opts sync,wr-seq,rd-seq,fadv-dontneed",
    "inode-flags",
    "inotify",
    "io",
    "io-uring",
    "iomix --iomix-bytes 64M",
    "lease",
    "link",
    "locka",
    "lockf",
    "lockofd",
    "mknod",
    "mmap --mmap-bytes 16M --mmap-file",
    "mmap --mmap-bytes 16M --mmap-file --mmap-async --mmap-odirect",
    "msync",
    "open",
    "readahead --readahead-bytes 64M",
    "rename",
    "revio --revio-bytes 64M",
    "seek --seek-size 64M --seek-punch",
    "sendfile --sendfile-size 1M",
    "splice",
    "symlink",
    "sync-file --sync-file-bytes 64M",
    "touch",
    "utime",
    "verity",
    "xattr",
];

/// Stressors of the same class that are left out, and why.
pub const LEFT_OUT: [(&str, &str); 7] = [
    ("bind-mount", "mounts the root of the machine, no file in the directory"),
    ("binderfs", "a filesystem of its own"),
    ("dup", "uses no file of the directory"),
    ("eventfd", "uses no file of the directory"),
    ("ioprio", "priorities of processes"),
    ("procfs", "reads /proc"),
    ("rmap", "uses no file of the directory"),
];

/// Exit codes of stress-ng.
const PASSED: i32 = 0;
const NO_RESOURCE: i32 = 3;
const NOT_IMPLEMENTED: i32 = 4;

/// Runs all stressors, one after the other.
pub(super) fn run(stage: &Stage) -> Ran {
    installed("stress-ng")?;
    let mut volume = stage.volume(6)?;
    volume.ignore_times();
    let mut linux: Option<Mount> = None;
    let (mut passed, mut not_possible, mut of_its_own) = (0, Vec::new(), Vec::new());
    for stressor in STRESSORS {
        let dir = volume.path();
        let ended = volume.run(&mut command(stage, stressor, &dir)?, bound(stage))?;
        match ended.code {
            Some(PASSED) => passed += 1,
            // An option that it does not know.
            Some(1) => return Err(ended.describe().into()),
            Some(NO_RESOURCE | NOT_IMPLEMENTED) => not_possible.push(*stressor),
            _ => {
                let mount = match linux.take() {
                    Some(mount) => mount,
                    None => stage.linux(6)?,
                };
                let mut again = command(stage, stressor, mount.path())?;
                let on_linux = crate::command::run(&mut again, bound(stage), &stage.log)?;
                linux = Some(mount);
                if on_linux.code == Some(PASSED) {
                    return Err(ended.describe().into());
                }
                of_its_own.push(*stressor);
            }
        }
        // An error of the cache is reported by the next sync, and by no other.
        volume.sync().map_err(|why| format!("{stressor}: {why}"))?;
        empty(&volume.path())?;
    }
    if let Some(mount) = linux {
        mount.unmount()?;
    }
    volume.end()?;
    let list = |names: &[&str]| if names.is_empty() { "none".into() } else { names.join(", ") };
    let (not_possible, of_its_own) = (list(&not_possible), list(&of_its_own));
    Ok(format!(
        "{passed} stressors passed; not possible here: {not_possible}; fail on Linux, too: \
         {of_its_own}"
    ))
}

fn bound(stage: &Stage) -> Duration {
    stage.seconds() + GRACE
}

fn command(stage: &Stage, stressor: &str, dir: &Path) -> Result<Command, crate::stage::Stop> {
    let mut words = stressor.split(' ');
    let name = words.next().unwrap_or_default();
    let mut command = installed("stress-ng")?;
    command.arg(format!("--{name}")).arg("2").args(words);
    command.args(["--timeout", &stage.amount.to_string(), "--verify", "--oomable"]);
    command.args(["--seed", &stage.seed.to_string(), "--temp-path"]).arg(dir);
    Ok(command)
}

/// Removes what a stressor left.
fn empty(dir: &Path) -> Result<(), crate::stage::Stop> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.symlink_metadata()?.is_dir() {
            std::fs::remove_dir_all(path)?;
        } else {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}
