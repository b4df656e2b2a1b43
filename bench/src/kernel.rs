//! The kernel's side of a comparison: what a mounted volume has cost, beside what the workloads have.

use std::io;

pub use xfskit_workload::kernel::{Mount, bulkstat, drop_caches, run};

/// What a mounted volume has cost so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Flushes of the device, those of writes with FUA included: loop devices have no FUA of their own.
    pub flushes: u64,
    /// Writes of the journal.
    pub log_writes: u64,
    /// Bytes of the journal.
    pub log_bytes: u64,
}

impl Costs {
    /// Those of `mount` so far, as the kernel counts.
    ///
    /// # Errors
    /// Where the kernel does not count.
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
