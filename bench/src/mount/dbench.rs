//! Debian's dbench.

use std::fs;
use std::process::{Command, Stdio};

use super::aim::Bound::AtLeast;
use super::side::Side;
use super::workload::{Step, Turn, Workload};
use crate::array::number;
use crate::contest::Quantity;
use crate::frame::Result;

/// Inodes of a client's files and directories at most, with room to spare.
const INODES: u64 = 1500;

/// Clients of dbench.
#[derive(Clone, Debug)]
pub struct Dbench {
    /// Number of clients.
    pub clients: u64,
    /// Seconds of a run.
    pub seconds: u64,
    /// The loadfile.
    pub load: String,
}

const STEPS: &[Step] = &[Step {
    title: "dbench",
    quantity: Quantity::rate("MB/s", 0),
    unit: "MB",
    aims: &[(Side::Kernel, AtLeast(0.5)), (Side::Passthrough, AtLeast(1.5))],
    round_trips: None,
}];

impl Workload for Dbench {
    fn title(&self) -> &'static str {
        "dbench"
    }

    fn text(&self) -> Vec<String> {
        let Self { clients, seconds, load } = self;
        vec![format!(
            "dbench -t {seconds} -c {load} {clients}: the throughput that it prints. Requests are those of the \
             whole run, with its warm-up and its cleaning."
        )]
    }

    fn steps(&self) -> &'static [Step] {
        STEPS
    }

    fn programs(&self) -> &'static [&'static str] {
        &["dbench"]
    }

    fn inodes(&self) -> u64 {
        self.clients * INODES
    }

    fn turn(&self, turn: &mut Turn<'_>) -> Result<()> {
        let mounted = turn.mount()?;
        let work = mounted.path().join("work");
        fs::create_dir(&work)?;
        let mut command = Command::new("dbench");
        command.args(["-t", &self.seconds.to_string(), "-c", &self.load, "-D", "."]);
        command.arg(self.clients.to_string()).current_dir(&work).stdin(Stdio::null());
        let (mut rate, seconds) = (f64::NAN, number(self.seconds));
        turn.timed(0, &mounted, || {
            let out = command.output()?;
            let output = String::from_utf8_lossy(&out.stdout);
            let errors = || String::from_utf8_lossy(&out.stderr);
            let printed = throughput(&output).filter(|_| out.status.success());
            rate =
                printed.ok_or_else(|| format!("dbench: {}\n{output}{}", out.status, errors()))?;
            Ok(rate * seconds)
        })?;
        turn.set(0, rate);
        turn.unmount(mounted)
    }
}

/// Returns the throughput in dbench's output, in MB/s.
pub fn throughput(output: &str) -> Option<f64> {
    let line = output.lines().find_map(|line| line.strip_prefix("Throughput "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_throughput_is_parsed() {
        let output = "8 of 8 processes prepared\n\nThroughput 532.25 MB/sec  8 clients  8 procs\n";
        assert_eq!(super::throughput(output), Some(532.25));
        assert_eq!(super::throughput("Throughput"), None);
    }
}
