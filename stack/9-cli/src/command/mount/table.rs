//! The entry of a mount in the table of mount(8), `/run/mount/utab`.
//!
//! umount(8) of root unmounts FUSE mounts by itself, and returns before the volume is closed,
//! unless that table names a helper for the mount. Only mount(8) and umount(8) write the table:
//! they add and remove the entry, without a mount (`--fake`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::mounts;

/// What umount(8) calls for a mount with the entry.
const HELPER: &str = "/sbin/umount.fuse.xfskit";
/// … as the table has it.
const OPTION: &str = "helper=fuse.xfskit";

/// An entry that this process has added.
pub(super) struct Entry {
    dir: PathBuf,
}

impl Entry {
    /// Adds the entry of the mount on `dir`; `None` where there is no helper, or no right to add
    /// it. umount(8) does not wait then.
    pub(super) fn add(dir: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new(HELPER).exists() {
            return None;
        }
        let mount = mounts::find(dir).ok()??;
        let mut command = Command::new("mount");
        command.args(["--fake", "--internal-only", "--no-canonicalize"]);
        command.args(["-t", "fuse.xfskit", "-o", OPTION, "--"]).arg(&mount.source).arg(dir);
        run(command).then(|| Self { dir: dir.to_owned() })
    }

    /// Removes the entry of a mount that is gone, unless another has taken its place.
    pub(super) fn remove(self) {
        if !matches!(mounts::find(&self.dir), Ok(None)) {
            return;
        }
        let mut command = Command::new("umount");
        command.args(["--fake", "--internal-only", "--no-canonicalize", "--"]).arg(self.dir);
        run(command);
    }
}

/// Runs a command that has nothing to say; returns true if it succeeds.
fn run(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
