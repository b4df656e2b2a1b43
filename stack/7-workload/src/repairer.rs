//! Repairs of volumes: by this program, and by `xfs_repair`.
//!
//! The repair of this program is on the same floor as this crate: a caller from above hands it in.

use std::fmt::Debug;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use xfskit_block::BlockDevice;

use crate::measure::usage::peak_memory_of;

/// Time between two looks at the memory of another program.
const LOOK: Duration = Duration::from_millis(2);

/// Repairs volumes.
pub trait Repairer: Debug + Send + Sync {
    /// Repairs the volume on `device` with so many threads. Nothing else uses it meanwhile.
    ///
    /// # Errors
    /// The volume cannot be repaired, or the device fails.
    fn repair(&self, device: Arc<dyn BlockDevice>, threads: usize) -> io::Result<Repaired>;
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Inodes in use.
    pub inodes: u64,
    /// Bytes that were written; 0 if there was nothing to repair.
    pub written: u64,
}

/// A program that ran to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// What it wrote to standard error.
    pub(crate) errors: String,
    /// Its peak memory in bytes, as read every few milliseconds.
    pub(crate) peak_memory: Option<u64>,
}

/// Runs a program, and watches its memory.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn run_watched(command: &mut Command) -> io::Result<Ended> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stderr = child.stderr.take();
    thread::scope(|scope| {
        // A full pipe would stop the program.
        let errors = scope.spawn(move || {
            let mut bytes = Vec::new();
            stderr.map_or(Ok(0), |mut stderr| stderr.read_to_end(&mut bytes)).map(|_| bytes)
        });
        let mut peak_memory = None;
        let status = loop {
            // The number belongs to the program until it is waited for.
            peak_memory = peak_memory.max(peak_memory_of(child.id()));
            match child.try_wait()? {
                Some(status) => break status,
                None => thread::sleep(LOOK),
            }
        };
        let errors = errors.join().map_err(|_| io::Error::other("a panic"))??;
        Ok(Ended { status, errors: String::from_utf8_lossy(&errors).into_owned(), peak_memory })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_watched_until_it_ends() {
        // More than a pipe holds, and long enough to be looked at while it runs.
        let script = "head -c 300000 /dev/zero >&2; sleep 0.3; exit 4";
        let ended = run_watched(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!((ended.status.code(), ended.errors.len()), (Some(4), 300_000));
        assert!(ended.peak_memory.is_some_and(|bytes| bytes > 64 << 10), "{:?}", ended.peak_memory);
        let missing = run_watched(&mut Command::new("/nowhere/xfs_repair")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
