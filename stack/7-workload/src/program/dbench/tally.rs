//! The operations of the clients, and the output that dbench prints.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::load::NAMES;
use crate::measure::Usage;

/// Latency of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of operations.
    pub count: u64,
    /// Total time.
    pub total: Duration,
    /// Time of the slowest operation.
    pub max: Duration,
}

impl Latency {
    pub(super) fn add(&mut self, took: Duration) {
        self.count += 1;
        self.total += took;
        self.max = self.max.max(took);
    }

    /// Returns the mean time in milliseconds.
    #[allow(clippy::cast_precision_loss)] // of a mean
    pub fn average_ms(&self) -> f64 {
        self.total.as_secs_f64() * 1e3 / self.count.max(1) as f64
    }
}

/// The operations of one client, or of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines of the loadfile that were executed.
    pub lines: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Latencies by operation, in the order of the table.
    pub(super) latencies: [Latency; NAMES.len()],
}

impl Tally {
    pub(super) fn add(&mut self, operation: usize, took: Duration) {
        self.lines += 1;
        self.latencies[operation].add(took);
    }

    /// Returns the latencies of all operations that occurred, with the names of the table.
    pub fn latencies(&self) -> impl Iterator<Item = (&'static str, Latency)> + '_ {
        NAMES.iter().copied().zip(self.latencies).filter(|(_, latency)| latency.count > 0)
    }

    pub(super) fn join(mut self, other: &Self) -> Self {
        self.lines += other.lines;
        self.bytes += other.bytes;
        for (one, other) in self.latencies.iter_mut().zip(&other.latencies) {
            one.count += other.count;
            one.total += other.total;
            one.max = one.max.max(other.max);
        }
        self
    }

    /// Returns the time of the slowest operation.
    pub fn max(&self) -> Duration {
        self.latencies.iter().map(|latency| latency.max).max().unwrap_or_default()
    }

    /// Formats the table of operations as dbench prints it; latencies are in milliseconds.
    pub fn table(&self) -> String {
        let mut table = String::from(
            " Operation      Count    AvgLat    MaxLat\n ----------------------------------------\n",
        );
        for (name, latency) in self.latencies() {
            let (average, max) = (latency.average_ms(), latency.max.as_secs_f64() * 1e3);
            let _ = writeln!(table, " {name:<12} {:>7} {average:>9.3} {max:>9.3}", latency.count);
        }
        table
    }
}

/// The stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is measured yet.
    Warmup,
    /// The measured part.
    Execute,
    /// Created files are removed.
    Cleanup,
}

/// The line of progress of one second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Current stage.
    pub stage: Stage,
    /// Running clients.
    pub clients: usize,
    /// Mean number of lines that each client has executed so far.
    pub lines: u64,
    /// Megabytes (10^6 bytes, read and written) per second since this stage began.
    pub rate: f64,
    /// Seconds since this stage began.
    pub seconds: u64,
    /// Time of the slowest operation since the last line.
    pub latency: Duration,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, clients, lines, rate, seconds, latency } = self;
        let word = match stage {
            Stage::Warmup => "warmup ",
            Stage::Execute => "execute",
            Stage::Cleanup => return write!(f, "{clients:>4}  cleanup {seconds:>3} sec"),
        };
        let latency = latency.as_secs_f64() * 1e3;
        write!(
            f,
            "{clients:>4}  {lines:>8}  {rate:>7.2} MB/sec  {word} {seconds:>3} sec  latency {latency:.3} ms"
        )
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations of each client after the warm-up.
    pub clients: Vec<Tally>,
    /// Time after the warm-up.
    pub elapsed: Duration,
    /// Bytes read and written in that time.
    pub bytes: u64,
    /// Time used in that part.
    pub usage: Usage,
}

impl Outcome {
    /// Returns the sum over all clients.
    pub fn all(&self) -> Tally {
        self.clients.iter().fold(Tally::default(), Tally::join)
    }

    /// Returns megabytes (10^6 bytes, read and written) per second.
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub fn throughput(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }

    /// Formats the last line.
    pub fn summary(&self) -> String {
        let (clients, max) = (self.clients.len(), self.all().max().as_secs_f64() * 1e3);
        format!(
            "Throughput {:.3} MB/sec  {clients} clients  {clients} procs  max_latency={max:.3} ms",
            self.throughput()
        )
    }

    /// Formats the operations of each client, for `--per-client-results`.
    pub fn per_client(&self) -> String {
        let mut text = String::from(" Per client results:\n");
        for (n, client) in self.clients.iter().enumerate() {
            let Tally { lines, bytes, .. } = client;
            let _ = write!(
                text,
                "Client {n} did {lines} lines and {bytes} bytes\n{}\n",
                client.table()
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_format_of_dbench() {
        let progress = Progress {
            stage: Stage::Execute,
            clients: 2,
            lines: 41_809,
            rate: 269.24,
            seconds: 1,
            latency: Duration::from_micros(100_067),
        };
        let line = "   2     41809   269.24 MB/sec  execute   1 sec  latency 100.067 ms";
        assert_eq!(progress.to_string(), line);
        let warm = Progress { stage: Stage::Warmup, ..progress }.to_string();
        assert_eq!(warm, line.replace("execute", "warmup "));
        let cleanup = Progress { stage: Stage::Cleanup, seconds: 6, ..progress }.to_string();
        assert_eq!(cleanup, "   2  cleanup   6 sec");
        let mut tally = Tally::default();
        tally.add(0, Duration::from_micros(64_101));
        assert!(
            tally.table().ends_with("\n NTCreateX          1    64.101    64.101\n"),
            "{}",
            tally.table()
        );
    }
}
