//! The kernel side of a comparison: the I/O of a mounted volume, and the helpers of the workload
//! crate.

use std::io;

pub use xfskit_workload::kernel::{Mount, bulkstat, drop_caches, run};

/// I/O counters of a mounted volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct IoCounters {
    /// Flushes of the device. Writes with FUA are included, because loop devices have no FUA of
    /// their own.
    pub flushes: u64,
    /// Journal writes.
    pub log_writes: u64,
    /// Bytes written to the journal.
    pub log_bytes: u64,
}

impl IoCounters {
    /// Reads the kernel's counters of `mount`.
    ///
    /// # Errors
    /// If the kernel does not provide the counters.
    pub fn of(mount: &Mount) -> io::Result<Self> {
        let name = mount.device().name().trim_start_matches("/dev/");
        let read = |path: String| std::fs::read_to_string(path);
        let field = |line: &str, n: usize| -> u64 {
            line.split_whitespace().nth(n).and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        let device = read(format!("/sys/block/{name}/stat"))?;
        let xfs = read(format!("/sys/fs/xfs/{name}/stats/stats"))?;
        let log = xfs.lines().find(|line| line.starts_with("log ")).unwrap_or_default();
        let (log_writes, log_bytes) = (field(log, 1), field(log, 2) * 512);
        Ok(Self { flushes: field(&device, 15), log_writes, log_bytes })
    }
}
