//! Profiles this process by function with perf, if it is installed and permitted.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Samples per second and thread.
const RATE: &str = "499";

/// The time that perf may take to write its data and exit.
const PERF_EXIT_MAX: Duration = Duration::from_secs(60);

/// A running perf.
#[derive(Debug)]
pub struct Profile {
    perf: Child,
    data: PathBuf,
}

impl Profile {
    /// Starts perf on this process.
    ///
    /// # Errors
    /// If perf cannot be started.
    pub fn start() -> io::Result<Self> {
        let own = std::process::id().to_string();
        let data = std::env::temp_dir().join(format!("xfskit-perf-{own}.data"));
        let perf = Command::new("perf")
            .args(["record", "-q", "-F", RATE, "-p", &own, "-o"])
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|err| io::Error::other(format!("perf: {err}")))?;
        Ok(Self { perf, data })
    }

    /// Stops perf, and returns functions with their percentage of the samples, largest first.
    ///
    /// # Errors
    /// If perf was not permitted to sample, or took no samples.
    pub fn stop(mut self) -> io::Result<Vec<(String, f64)>> {
        self.end_sampling()?;
        let report = Command::new("perf")
            .args(["report", "-q", "--stdio", "--no-inline", "-F", "overhead,symbol", "-i"])
            .arg(&self.data)
            .output()?;
        let functions = functions(&String::from_utf8_lossy(&report.stdout));
        if functions.is_empty() {
            return Err(io::Error::other("perf took no samples"));
        }
        Ok(functions)
    }

    /// Makes perf write its data and waits until it has exited.
    ///
    /// The signal is SIGTERM, because a shell starts background jobs with SIGINT ignored. perf may
    /// miss a signal while it starts, so the signal is repeated.
    fn end_sampling(&mut self) -> io::Result<()> {
        let start = Instant::now();
        while self.perf.try_wait()?.is_none() {
            if start.elapsed() > PERF_EXIT_MAX {
                return Err(io::Error::other("perf does not end"));
            }
            kill_process(Pid::from_child(&self.perf), Signal::TERM)?;
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = self.perf.kill();
        let _ = self.perf.wait();
        let _ = std::fs::remove_file(&self.data);
    }
}

/// Parses lines such as `  12.34%  [.] function`.
fn functions(report: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (percent, rest) = line.trim().split_once('%')?;
        let name = rest.split_once(']')?.1.trim();
        Some((name.to_owned(), percent.parse().ok()?))
    };
    report.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_lines_give_functions_and_percentages() {
        let report = "# nothing\n\n    12.34%  [.] alpha::beta\n     0.50%  [k] do_syscall_64\n";
        let expected = [("alpha::beta".to_owned(), 12.34), ("do_syscall_64".to_owned(), 0.5)];
        assert_eq!(functions(report), expected);
    }
}
