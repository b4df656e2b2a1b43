//! Loop devices of files and devices.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tools::run;

/// Time until a device is detached, at most: another process may have it open.
const DETACHED: Duration = Duration::from_secs(20);

/// A loop device, detached when this is dropped.
#[derive(Debug)]
pub struct Loop(PathBuf);

impl Loop {
    /// Attaches a free loop device to `file`, with options of losetup(8).
    ///
    /// # Errors
    /// The words of losetup.
    pub fn attach(file: &Path, options: &[&str]) -> Result<Self, String> {
        let mut attach = Command::new("losetup");
        let device = run(attach.args(["--find", "--show"]).args(options).arg(file))?;
        Ok(Self(PathBuf::from(device.trim())))
    }

    /// Returns the path of the device.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns true if the device has a file, or while it is being detached from one.
    fn is_attached(&self) -> bool {
        let name = self.0.file_name().unwrap_or_default();
        Path::new("/sys/block").join(name).join("loop/backing_file").exists()
    }
}

impl Drop for Loop {
    /// The kernel detaches a device when its last opener closes it. That may be the child of
    /// another test, which has its copies of descriptors until its execve(2).
    fn drop(&mut self) {
        let detached = run(Command::new("losetup").arg("--detach").arg(&self.0));
        let end = Instant::now() + DETACHED;
        // A device that is free already may be another test's by now.
        while detached.is_ok() && self.is_attached() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs until it succeeds, as another process may hold what it needs for a moment.
pub(crate) fn retried(
    time: Duration,
    mut attempt: impl FnMut() -> Result<(), String>,
) -> Result<(), String> {
    let end = Instant::now() + time;
    for n in 0.. {
        let done = attempt();
        if done.is_ok() || Instant::now() > end {
            return done;
        }
        std::thread::sleep(Duration::from_millis(2 << n.min(9)));
    }
    Ok(())
}
