//! The machine and the software that a report describes.

use std::fs;
use std::process::Command;
use std::thread;

use serde::{Deserialize, Serialize};

/// Everything that figures depend on besides the measured programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Version of this package, and its commit if the build knew it.
    pub xfskit: String,
    /// The command that made the report.
    pub command: String,
    /// Start time in UTC: `2026-11-21T18:00:00Z`.
    pub time: String,
    /// Model name of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Kernel release as in `uname -r`.
    pub kernel: String,
    /// Version of xfsprogs on this machine; `None` without mkfs.xfs.
    pub xfsprogs: Option<String>,
    /// Load average over the last minute before the run.
    pub load: String,
    /// The selected CRC32c routine.
    pub crc: String,
}

impl Environment {
    /// Reads the current environment.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let memory = after(&read("/proc/meminfo"), "MemTotal")
            .and_then(|kb| kb.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0);
        let uname = rustix::system::uname();
        Self {
            xfskit: version(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            time: jiff::Timestamp::now().strftime("%FT%TZ").to_string(),
            processor: after(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| uname.machine().to_string_lossy().into_owned()),
            processors: thread::available_parallelism().map_or(1, usize::from),
            memory: memory.saturating_mul(1024),
            kernel: uname.release().to_string_lossy().into_owned(),
            xfsprogs: xfsprogs(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            crc: xfskit_crc::selected().to_owned(),
        }
    }
}

/// Returns the version, and the commit if the build knew it (`build.rs`).
fn version() -> String {
    let commit = option_env!("XFSKIT_COMMIT").map(|commit| format!(" ({commit})"));
    format!("xfskit {}{}", env!("CARGO_PKG_VERSION"), commit.unwrap_or_default())
}

fn xfsprogs() -> Option<String> {
    let out = Command::new("mkfs.xfs").arg("-V").output().ok()?;
    let output = String::from_utf8_lossy(&out.stdout);
    output.trim().rsplit(' ').next().map(str::to_owned).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_known() {
        let now = Environment::now();
        assert!(now.processors > 0 && now.memory > 0 && !now.kernel.is_empty(), "{now:?}");
    }
}
