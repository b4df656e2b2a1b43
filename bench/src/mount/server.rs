//! The process that serves a mount, which stays a child of this one.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::frame::Result;

/// Time in which a mount appears.
const START: Duration = Duration::from_mins(1);
/// Time in which the server of an unmounted filesystem ends.
const END: Duration = Duration::from_mins(10);
/// Time between looks at it.
const LOOK: Duration = Duration::from_millis(1);
/// Milliseconds of a tick of the times in `/proc`.
const TICK: u64 = 10;

/// Memory and time of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerUsage {
    /// Its peak memory in bytes.
    pub peak_memory: u64,
    /// Its user and system time.
    pub processor: Duration,
}

impl ServerUsage {
    /// Returns the usage of two servers, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            peak_memory: self.peak_memory.max(other.peak_memory),
            processor: self.processor + other.processor,
        }
    }
}

/// A process that serves a mount in the foreground.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// What it said on standard error.
    log: PathBuf,
}

impl Server {
    /// Starts `command`, and waits until it has mounted something on `dir`.
    ///
    /// # Errors
    /// If it ends before.
    pub fn start(command: &mut Command, dir: &Path) -> Result<Self> {
        let log = dir.with_extension("log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let shown = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("{shown}: {error}"))?;
        let mut server = Self { child, log };
        let start = Instant::now();
        while !is_mounted(dir)? {
            if server.child.try_wait()?.is_some() || start.elapsed() > START {
                return Err(format!("{shown} mounts nothing: {}", server.said()).into());
            }
            thread::sleep(LOOK);
        }
        Ok(server)
    }

    /// Returns its peak memory and its processor time so far.
    pub fn usage(&self) -> ServerUsage {
        let read = |name| fs::read_to_string(format!("/proc/{}/{name}", self.child.id()));
        let peak_memory = read("status").ok().and_then(|text| peak(&text)).unwrap_or(0);
        let processor = read("stat").ok().and_then(|text| processor(&text)).unwrap_or_default();
        ServerUsage { peak_memory, processor }
    }

    /// Waits until the server of an unmounted filesystem has ended. Returns its processor time to
    /// the end.
    ///
    /// # Errors
    /// If it does not end, or fails.
    pub fn wait(&mut self) -> Result<Duration> {
        let pid =
            i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("no process")?;
        let start = Instant::now();
        // The times of a process can be read until it is waited for.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while waitid(WaitId::Pid(pid), look)?.is_none() {
            if start.elapsed() > END {
                return Err("the server of an unmounted filesystem does not end".into());
            }
            thread::sleep(LOOK);
        }
        let processor = self.usage().processor;
        let ended = self.child.wait()?;
        if ended.success() {
            return Ok(processor);
        }
        Err(format!("the server of a mount: {ended}: {}", self.said()).into())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = fs::remove_file(&self.log);
    }
}

/// Returns true if a filesystem is mounted on `dir`.
fn is_mounted(dir: &Path) -> Result<bool> {
    let parent = dir.parent().ok_or("a mount point has a parent")?;
    Ok(fs::metadata(dir)?.dev() != fs::metadata(parent)?.dev())
}

/// Returns VmHWM of proc(5) in bytes.
fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns utime and stime of proc(5), fields 14 and 15. Field 2, in parentheses, may have blanks.
fn processor(stat: &str) -> Option<Duration> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?).saturating_mul(TICK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_of_a_process_are_parsed() {
        assert_eq!(peak("VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\n"), Some(2 << 20));
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 120 30 0 0 20 0 4 0 1";
        assert_eq!(processor(stat), Some(Duration::from_millis(1500)));
        assert_eq!((peak(""), processor("7 (a) S")), (None, None));
    }

    #[test]
    fn a_server_that_mounts_nothing_is_an_error() {
        let dir = std::env::temp_dir().join(format!("xfskit-server-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let mut command = Command::new("sh");
        let error = Server::start(command.args(["-c", "echo why >&2; exit 1"]), &dir).unwrap_err();
        fs::remove_dir(&dir).unwrap();
        assert!(error.to_string().ends_with("mounts nothing: why"), "{error}");
    }
}
