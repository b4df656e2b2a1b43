//! dbench: clients of a file server, without the network and without the server.
//!
//! The procedure is that of dbench 4.0. Each client repeats a [loadfile](load) in a directory of
//! its own, and performs on the filesystem what a server would do for each line. The clock starts
//! after a warm-up. Each second has a line of progress. At the end stand the operations with their
//! latencies, and the throughput of bytes read and written. Clients are threads of one process.
//!
//! | module | what |
//! | --- | --- |
//! | [`load`] | loadfiles |
//! | [`mix`] | the built-in load |
//! | `client` | the operations of a line |
//! | [`tally`] | counts, latencies, lines of output |

mod client;
pub mod load;
pub mod mix;
pub mod tally;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Driver;
use crate::measure::usage::Stopwatch;
use client::Client;
use load::Load;
use tally::{Outcome, Progress, Stage, Tally};

/// Time between two lines of progress.
const TICK: Duration = Duration::from_secs(1);

/// An extended attribute that a server keeps for every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAttr {
    /// The full name.
    pub name: &'static str,
    /// Bytes of the value.
    pub len: usize,
}

/// The attribute of dbench's option `-x`: the DOS attributes of a file.
pub const DOS: [ServerAttr; 1] = [ServerAttr { name: "user.DosAttrib", len: 44 }];

/// The attributes of a Samba 4 that keeps access control lists of Windows: the DOS attributes, and
/// a security descriptor of a few entries with its hashes. XFS keeps values of more than 255 bytes
/// outside of the inode, however large that is.
pub const SAMBA: [ServerAttr; 2] = [
    ServerAttr { name: "user.DOSATTRIB", len: 56 },
    ServerAttr { name: "security.NTACL", len: 252 },
];

/// The parameters, named after dbench's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of clients.
    pub clients: usize,
    /// `-t`: measured time. A warm-up of a fifth of it precedes it.
    pub time: Duration,
    /// Passes of each client, without a warm-up, instead of a time.
    pub loops: Option<u64>,
    /// `-F`, `-s`: fsync after each write.
    pub fsync: bool,
    /// `-S`: directory changes are synced.
    pub sync_dirs: bool,
    /// The extended attributes of each file, [`DOS`] with `-x`. New files get all of them, opened
    /// files have them read, and a change of a file's times changes the first one.
    pub xattrs: &'static [ServerAttr],
    /// Names are looked up ignoring case; `--no-resolve` turns it off.
    pub resolve: bool,
    /// `-R`: limit of megabytes per second.
    pub rate: Option<f64>,
    /// Created files are removed; `--skip-cleanup` turns it off.
    pub cleanup: bool,
    /// The status of each operation is compared with the load. The null driver needs this off.
    pub verify_status: bool,
    /// The same seed gives the same times and attributes.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clients: 1,
            time: Duration::from_secs(600),
            loops: None,
            fsync: false,
            sync_dirs: false,
            xattrs: &[],
            resolve: true,
            rate: None,
            cleanup: true,
            verify_status: true,
            seed: 0,
        }
    }
}

impl Options {
    /// Returns the time of the warm-up.
    pub fn warmup(&self) -> Duration {
        if self.loops.is_some() { Duration::ZERO } else { self.time / 5 }
    }
}

/// State that the clients share with the monitor.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    lines: AtomicU64,
    bytes: AtomicU64,
    /// Nanoseconds of the slowest operation since the last line of progress.
    latency: AtomicU64,
    counts: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn record(&self, took: Duration) {
        self.lines.fetch_add(1, Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if took > self.latency.load(Relaxed) {
            self.latency.fetch_max(took, Relaxed);
        }
    }
}

/// Runs the benchmark, and passes the progress to `report` each second.
///
/// # Errors
/// The errors of the filesystem, and a status that differs from the load.
///
/// # Panics
/// If a client panics.
pub fn run<D: Driver>(
    driver: &D,
    load: &Load,
    options: &Options,
    report: &mut dyn FnMut(&Progress) -> io::Result<()>,
) -> io::Result<Outcome> {
    let shared = Shared { counts: options.loops.is_some().into(), ..Shared::default() };
    let (ended, ends) = channel();
    let (clients, (elapsed, bytes, usage)) = thread::scope(|scope| {
        let clients: Vec<_> = (0..options.clients)
            .map(|number| {
                let (shared, ended) = (&shared, ended.clone());
                scope.spawn(move || {
                    let tally = Client::new(driver, load, options, shared, number).work();
                    // After a failure of another client the receiver no longer reads.
                    let _ = ended.send(tally.is_ok());
                    tally
                })
            })
            .collect();
        let monitored = monitor_run(options, &shared, &ends, report);
        shared.stop.store(true, Relaxed);
        let tallies: io::Result<Vec<Tally>> =
            clients.into_iter().map(|client| client.join().expect("no panic")).collect();
        Ok::<_, io::Error>((tallies?, monitored?))
    })?;
    if options.cleanup {
        let cleanup = |clients| Progress {
            stage: Stage::Cleanup,
            clients,
            lines: 0,
            rate: 0.0,
            seconds: elapsed.as_secs(),
            latency: Duration::ZERO,
        };
        report(&cleanup(options.clients))?;
        (0..options.clients).try_for_each(|number| client::clean_up(driver, number))?;
        report(&cleanup(0))?;
    }
    Ok(Outcome { clients, elapsed, bytes, usage })
}

/// Monitors the whole run. Returns the length, the bytes and the cost of the measured part.
fn monitor_run(
    options: &Options,
    shared: &Shared,
    ends: &Receiver<bool>,
    report: &mut dyn FnMut(&Progress) -> io::Result<()>,
) -> io::Result<(Duration, u64, crate::measure::Usage)> {
    let mut monitor = Monitor { options, shared, ends, running: options.clients };
    let mut before = 0;
    if options.loops.is_none() {
        monitor.run(Stage::Warmup, Some(options.warmup()), report)?;
        before = shared.bytes.load(Relaxed);
        shared.counts.store(true, Relaxed);
    }
    let watch = Stopwatch::start()?;
    let time = options.loops.is_none().then_some(options.time);
    let elapsed = monitor.run(Stage::Execute, time, report)?;
    Ok((elapsed, shared.bytes.load(Relaxed) - before, watch.read()?))
}

struct Monitor<'l> {
    options: &'l Options,
    shared: &'l Shared,
    ends: &'l Receiver<bool>,
    running: usize,
}

impl Monitor<'_> {
    /// Monitors for `time`, or until all clients have ended. Returns the elapsed time.
    #[allow(clippy::cast_precision_loss)] // of a rate
    fn run(
        &mut self,
        stage: Stage,
        time: Option<Duration>,
        report: &mut dyn FnMut(&Progress) -> io::Result<()>,
    ) -> io::Result<Duration> {
        let (start, before) = (Instant::now(), self.shared.bytes.load(Relaxed));
        let mut ticks = 1;
        while self.running > 0 {
            let elapsed = start.elapsed();
            if time.is_some_and(|time| elapsed >= time) {
                break;
            }
            let next = (TICK * ticks).min(time.unwrap_or(Duration::MAX));
            match self.ends.recv_timeout(next.saturating_sub(elapsed)) {
                Ok(true) => self.running -= 1,
                // The client's own result has the error.
                Ok(false) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if start.elapsed() < TICK * ticks => {}
                Err(RecvTimeoutError::Timeout) => {
                    let bytes = self.shared.bytes.load(Relaxed) - before;
                    report(&Progress {
                        stage,
                        clients: self.options.clients,
                        lines: self.shared.lines.load(Relaxed) / self.options.clients as u64,
                        rate: bytes as f64 / 1e6 / start.elapsed().as_secs_f64(),
                        seconds: ticks.into(),
                        latency: Duration::from_nanos(self.shared.latency.swap(0, Relaxed)),
                    })?;
                    ticks += 1;
                }
            }
        }
        Ok(start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::mounted::Mounted;
    use crate::driver::null::Null;
    use crate::driver::testing::Recorder;

    fn quietly<D: Driver>(driver: &D, load: &Load, options: &Options) -> io::Result<Outcome> {
        run(driver, load, options, &mut |_| Ok(()))
    }

    #[test]
    fn every_line_of_the_built_in_load_has_the_expected_status() {
        let dir = tempfile::tempdir().expect("a directory");
        let driver = Mounted::new(dir.path(), "here", "a file").expect("open");
        let load = Load::parse(&mix::text(1)).expect("a load");
        let options =
            Options { clients: 2, loops: Some(2), xattrs: &SAMBA[..1], ..Options::default() };
        let outcome = quietly(&driver, &load, &options).expect("as expected");
        let all = outcome.all();
        assert_eq!(all.lines, load.operations() as u64 * 4);
        assert_eq!((outcome.bytes, all.latencies().count()), (all.bytes, 16));
        let left: Vec<_> = std::fs::read_dir(dir.path().join("clients")).expect("there").collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn an_unexpected_status_ends_the_run_and_names_the_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let driver = Mounted::new(dir.path(), "here", "a file").expect("open");
        let load = "Mkdir \"\\clients\" NT_STATUS_OK\n\
                    QUERY_PATH_INFORMATION \"\\clients\\none\" 1004 NT_STATUS_OK\n";
        let load = Load::parse(load).expect("a load");
        let options = Options { loops: Some(1), ..Options::default() };
        let err = quietly(&driver, &load, &options).expect_err("not there").to_string();
        assert!(err.starts_with("client 0, line 2: Qpathinfo: No such file"), "{err}");
    }

    #[test]
    fn the_same_seed_gives_the_same_calls() {
        let calls = |seed| {
            let recorder = Recorder::default();
            let load = Load::parse(&mix::text(seed)).expect("a load");
            let options = Options {
                clients: 2,
                loops: Some(1),
                xattrs: &SAMBA,
                verify_status: false,
                seed,
                ..Options::default()
            };
            quietly(&recorder, &load, &options).expect("no errors");
            let mut calls = recorder.calls();
            // All clients create these.
            calls.remove("");
            calls.remove("/clients");
            calls
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
    }

    #[test]
    fn a_run_ends_after_its_time_and_excludes_the_warm_up() {
        let load = Load::parse(&mix::text(0)).expect("a load");
        let time = Duration::from_millis(100);
        let options = Options { clients: 2, time, verify_status: false, ..Options::default() };
        let mut reports = 0;
        let outcome = run(&Null, &load, &options, &mut |_| {
            reports += 1;
            Ok(())
        });
        let outcome = outcome.expect("no errors");
        assert!(outcome.elapsed >= time && outcome.bytes > 0);
        assert_eq!(reports, 2, "only the cleanup: less than a second");
    }
}
