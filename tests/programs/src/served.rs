//! The process that serves a mount: `xfskit mount --foreground`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Finished, Log, run, tail};

/// Time in which a volume is mounted: a journal may have to be replayed.
const MOUNT: Duration = Duration::from_mins(2);
/// Time in which a mount ends: the kernel writes what it has cached.
const UNMOUNT: Duration = Duration::from_mins(5);
/// Time for which other programs may hold a mount.
const HELD: Duration = Duration::from_secs(10);
/// Time between looks.
const LOOK: Duration = Duration::from_millis(10);

/// Returns the built command: `XFSKIT` of the environment, or the one beside this program.
pub fn xfskit() -> PathBuf {
    if let Some(chosen) = std::env::var_os("XFSKIT") {
        return chosen.into();
    }
    let here = std::env::current_exe().expect("this program");
    here.with_file_name("xfskit")
}

/// A mount, and the process that serves it. The process is killed when this is dropped.
#[derive(Debug)]
pub struct Served {
    child: Child,
    dir: PathBuf,
    messages: PathBuf,
}

/// Returns whether something is mounted on `dir`.
pub fn is_mounted(dir: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dir = dir.to_string_lossy();
    table.lines().any(|line| line.split(' ').nth(4) == Some(&*dir))
}

/// How a mount could not be made.
#[derive(Debug)]
pub enum Refused {
    /// The command refused with this code and this message.
    Code(i32, String),
    /// Everything else, which is a fault.
    Fault(String),
}

impl From<Refused> for String {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Code(code, message) => format!("xfskit mount: code {code}: {message}"),
            Refused::Fault(message) => message,
        }
    }
}

impl Served {
    /// Mounts `target` on `dir` with `options`; `messages` is the file for what the process prints.
    ///
    /// # Errors
    /// The command refused, or did not mount in time.
    pub fn new(
        target: &str,
        dir: &Path,
        options: &str,
        messages: &Path,
        log: &Log,
    ) -> Result<Self, Refused> {
        let fault = |why: String| Refused::Fault(format!("xfskit mount: {why}"));
        let file = File::create(messages).map_err(|why| fault(why.to_string()))?;
        let mut command = Command::new(xfskit());
        command.args(["mount", "--foreground", "--cache", "256M", "-o", options, target]);
        command.arg(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.env("RUST_BACKTRACE", "1").spawn();
        let child = child.map_err(|why| fault(why.to_string()))?;
        log.line(&format!("mount -o {options} {target}"));
        let mut served = Self { child, dir: dir.to_owned(), messages: messages.to_owned() };
        let begun = Instant::now();
        while !is_mounted(dir) {
            if let Ok(Some(status)) = served.child.try_wait() {
                return Err(served.refusal(status));
            }
            if begun.elapsed() > MOUNT {
                return Err(fault(format!("not mounted in {} s", MOUNT.as_secs())));
            }
            std::thread::sleep(LOOK);
        }
        Ok(served)
    }

    fn refusal(&self, status: ExitStatus) -> Refused {
        let said = self.said();
        match status.code() {
            Some(code) if !said.contains("panicked") => Refused::Code(code, tail(&said).into()),
            _ => Refused::Fault(format!("xfskit mount: {status}: {}", tail(&said))),
        }
    }

    /// Returns what the process has printed.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.messages).unwrap_or_default()
    }

    /// Returns the most memory that the process had so far, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    fn wait(&mut self, bound: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if begun.elapsed() > bound {
                return None;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Unmounts by `xfskit umount`. Returns the code of the process that served the mount.
    ///
    /// # Errors
    /// The command failed, the process did not end, or a thread of it panicked.
    pub fn unmount(mut self, log: &Log) -> Result<i32, String> {
        let ended = self.umount(log)?;
        // 1: the volume has damage that the close found.
        if !matches!(ended.code, Some(0 | 1)) {
            return Err(ended.describe());
        }
        if is_mounted(&self.dir) {
            return Err("xfskit umount: still mounted".into());
        }
        let status = self.wait(UNMOUNT);
        let said = self.said();
        log.line(&format!("the mount has ended: {status:?}: {said}"));
        if said.contains("panicked") {
            return Err(format!("a thread of the mount panicked: {}", tail(&said)));
        }
        let code = status.and_then(|status| status.code());
        code.ok_or_else(|| format!("the process of the mount: {status:?}: {}", tail(&said)))
    }

    /// Runs `xfskit umount`, again while another program holds the mount: one that lists the sizes
    /// of all mounts, as df(1) does, holds each for a moment.
    fn umount(&self, log: &Log) -> Result<Finished, String> {
        let begun = Instant::now();
        loop {
            let ended = run(Command::new(xfskit()).arg("umount").arg(&self.dir), UNMOUNT, log)?;
            let is_busy = ended.code == Some(2) && ended.text.contains("resource busy");
            if !is_busy || begun.elapsed() > HELD {
                return Ok(ended);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills the process (`kill -9`), and removes the dead mount.
    ///
    /// # Errors
    /// The mount cannot be removed, or a thread had panicked before.
    pub fn kill(mut self, log: &Log) -> Result<(), String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        log.line("the process of the mount is killed");
        let ended = self.umount(log)?;
        if !matches!(ended.code, Some(0 | 1)) || is_mounted(&self.dir) {
            return Err(format!("a dead mount: {}", ended.describe()));
        }
        let said = self.said();
        if said.contains("panicked") {
            return Err(format!("a thread of the mount panicked: {}", tail(&said)));
        }
        Ok(())
    }

    /// Kills the process, so that everything that waits for the mount gets an error.
    pub fn release(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if is_mounted(&self.dir) {
            let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
        }
    }
}
