//! The machine and the software that a report is of.

use std::fs;
use std::process::Command;
use std::thread;

use serde::Serialize;

/// What figures depend on besides the programs that were measured.
#[derive(Clone, Debug, Serialize)]
pub struct Circumstances {
    /// This package, with the commit where it was built from one.
    pub xfskit: String,
    /// The command that made the report.
    pub command: String,
    /// When, in UTC: `2026-11-21T18:00:00Z`.
    pub time: String,
    /// Processor, by its own name.
    pub processor: String,
    /// Processors that may be used.
    pub processors: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Kernel, as `uname -r` has it.
    pub kernel: String,
    /// xfsprogs on this machine; none where there is no mkfs.xfs.
    pub xfsprogs: Option<String>,
    /// Processes that wanted a processor over the last minute, before the run.
    pub load: String,
    /// The routine that sums checksums.
    pub crc: String,
}

impl Circumstances {
    /// Those of now.
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

/// Version, and commit where the build knew it (`build.rs`).
fn version() -> String {
    let commit = option_env!("XFSKIT_COMMIT").map(|commit| format!(" ({commit})"));
    format!("xfskit {}{}", env!("CARGO_PKG_VERSION"), commit.unwrap_or_default())
}

fn xfsprogs() -> Option<String> {
    let out = Command::new("mkfs.xfs").arg("-V").output().ok()?;
    let said = String::from_utf8_lossy(&out.stdout);
    said.trim().rsplit(' ').next().map(str::to_owned).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circumstances_are_known() {
        let now = Circumstances::now();
        assert!(now.processors > 0 && now.memory > 0 && !now.kernel.is_empty(), "{now:?}");
    }
}
