//! Unmounts a mount that is not in use.
//!
//! For root, the kernel says whether it was (`MNT_EXPIRE`): a first call marks the mount, any use
//! takes the mark away, and a second call unmounts a mount that still has it. So a mount is taken
//! down after one to two times the time that it may be idle. Users other than root unmount by
//! fusermount3, which has no such flag: for them, requests of the kernel are use, and what the
//! kernel replies from its caches is not.
//!
//! A mount with an open file or the working directory of a process is in use (`EBUSY`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::ended::Ended;
use crate::statistics::Statistics;

/// A mount that is unmounted when it was not in use for some time.
#[derive(Debug)]
pub(crate) struct Idle {
    /// The mount point, as the table of mounts has it.
    dir: PathBuf,
    /// Device number of the mount: no other mount has it.
    device: String,
    timeout: Duration,
    statistics: Arc<Statistics>,
    /// Requests until the last look.
    requests: u64,
}

/// What a look at the mount found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// It is in use, or was since the last look.
    InUse,
    /// It is not there any more.
    Gone,
}

impl Idle {
    /// Begins to watch the mount on `dir`; `None` if there is none.
    pub(crate) fn new(dir: &Path, timeout: Duration, statistics: &Arc<Statistics>) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        let (device, requests) = (device_on(&dir)?, statistics.total());
        Some(Self { dir, device, timeout, statistics: Arc::clone(statistics), requests })
    }

    /// Unmounts when the mount was idle for so long; returns when it is gone.
    pub(crate) fn watch(mut self, ended: &Ended) {
        while !ended.wait(self.timeout) {
            if self.look() == Found::Gone {
                return;
            }
        }
    }

    /// Unmounts if the mount was not in use since the last look.
    fn look(&mut self) -> Found {
        // Unmounting another filesystem that was mounted there since would be a mistake.
        if device_on(&self.dir).as_ref() != Some(&self.device) {
            return Found::Gone;
        }
        match unmount(&self.dir, UnmountFlags::EXPIRE) {
            Ok(()) => {
                self.unmounted();
                Found::Gone
            }
            Err(Errno::INVAL) => Found::Gone,
            Err(Errno::PERM) => self.look_as_user(),
            Err(_) => Found::InUse,
        }
    }

    fn look_as_user(&mut self) -> Found {
        let before = std::mem::replace(&mut self.requests, self.statistics.total());
        if self.requests != before {
            return Found::InUse;
        }
        let unmounted = xfskit_devfuse::mount::unmount(&self.dir, false).is_ok();
        // It may have looked at the mount.
        self.requests = self.statistics.total();
        if !unmounted {
            return Found::InUse;
        }
        self.unmounted();
        Found::Gone
    }

    fn unmounted(&self) {
        tracing::info!("unmounted: not in use for {} seconds", self.timeout.as_secs());
    }
}

/// Returns the device number of the topmost mount on `dir`, from the table of mounts: a look at the
/// directory itself would be use.
fn device_on(dir: &Path) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    device_in(&table, &escaped(dir.as_os_str().as_bytes()))
}

/// Returns the device number of the last mount on `dir` in `table`; proc(5) has its fields.
fn device_in(table: &[u8], dir: &[u8]) -> Option<String> {
    let mut lines = table.split(|&byte| byte == b'\n');
    lines.rfind(|line| line.split(|&byte| byte == b' ').nth(4) == Some(dir)).and_then(|line| {
        let device = line.split(|&byte| byte == b' ').nth(2)?;
        String::from_utf8(device.to_vec()).ok()
    })
}

/// Returns a path as the table of mounts has it: blanks, tabs, newlines and backslashes are `\ooo`.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(path.len());
    for &byte in path {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\\') {
            escaped.extend(format!("\\{byte:03o}").bytes());
        } else {
            escaped.push(byte);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_mount_on_a_directory_is_found() {
        let table = b"99 26 0:53 / /srv/my\\040disk rw shared:3 - fuse.xfskit a.img rw\n\
            98 26 0:50 / /srv rw - ext4 a rw\n\
            97 26 0:54 / /srv/my\\040disk rw - tmpfs a rw\n";
        assert_eq!(device_in(table, &escaped(b"/srv/my disk")), Some("0:54".into()));
        assert_eq!(device_in(table, b"/srv"), Some("0:50".into()));
        assert_eq!(device_in(table, b"/"), None);
    }
}
