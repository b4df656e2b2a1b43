//! dbench: clients of a file server, without the network and without the server.
//!
//! As dbench 4.0 does it: every client goes through a [loadfile](load) over and over, in a directory of its own, and
//! does to the filesystem what a server would for each line. After a warm-up the clock starts; each second tells how
//! it goes, and at the end stand operations with their latencies and the throughput, bytes read and written.
//! Clients are threads of one process.
//!
//! | module | what |
//! | --- | --- |
//! | [`load`] | loadfiles |
//! | [`mix`] | the one that is built in |
//! | `client` | what a line does |
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
use crate::measure::usage::Watch;
use client::Client;
use load::Load;
use tally::{Outcome, Progress, Stage, Tally};

/// Between two lines of progress.
const TICK: Duration = Duration::from_secs(1);

/// Bytes of the attribute that servers keep what DOS knew of a file in.
pub const DOS_LEN: usize = 44;

/// What is to be done, in the words of dbench's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clients at once.
    pub clients: usize,
    /// `-t`: time that counts; a fifth of it goes before, as a warm-up.
    pub time: Duration,
    /// Instead of a time: so many passes of each client, without a warm-up.
    pub loops: Option<u64>,
    /// `-F`, `-s`: fsync after each write.
    pub fsync: bool,
    /// `-S`: what changes in a directory is synced.
    pub sync_dirs: bool,
    /// `-x`: extended attributes as Samba 4 keeps them.
    pub xattr: bool,
    /// Bytes of such an attribute.
    pub xattr_len: usize,
    /// Names are looked up without minding case; off with `--no-resolve`.
    pub resolve: bool,
    /// `-R`: at most so many megabytes in a second.
    pub rate: Option<f64>,
    /// What was made is removed; off with `--skip-cleanup`.
    pub cleanup: bool,
    /// Answers are held against what the load expects. Not with who answers nothing.
    pub checked: bool,
    /// The same seed makes the same times and attributes.
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
            xattr: false,
            xattr_len: DOS_LEN,
            resolve: true,
            rate: None,
            cleanup: true,
            checked: true,
            seed: 0,
        }
    }
}

impl Options {
    /// Time before anything counts.
    pub fn warmup(&self) -> Duration {
        if self.loops.is_some() { Duration::ZERO } else { self.time / 5 }
    }
}

/// What clients and their watch share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    lines: AtomicU64,
    bytes: AtomicU64,
    /// Nanoseconds of the slowest operation since the last line.
    latency: AtomicU64,
    counts: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn note(&self, took: Duration) {
        self.lines.fetch_add(1, Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if took > self.latency.load(Relaxed) {
            self.latency.fetch_max(took, Relaxed);
        }
    }
}

/// Runs it; `say` is told each second how it goes.
///
/// # Errors
/// Those of the filesystem, and answers that the load does not expect.
///
/// # Panics
/// Where a client does.
pub fn run<D: Driver>(
    driver: &D,
    load: &Load,
    options: &Options,
    say: &mut dyn FnMut(&Progress) -> io::Result<()>,
) -> io::Result<Outcome> {
    let shared = Shared { counts: options.loops.is_some().into(), ..Shared::default() };
    let (ended, ends) = channel();
    let (clients, (elapsed, bytes, usage)) = thread::scope(|scope| {
        let clients: Vec<_> = (0..options.clients)
            .map(|number| {
                let (shared, ended) = (&shared, ended.clone());
                scope.spawn(move || {
                    let tally = Client::new(driver, load, options, shared, number).work();
                    // Nobody listens any more after a failure of another one.
                    let _ = ended.send(tally.is_ok());
                    tally
                })
            })
            .collect();
        let watched = watch(options, &shared, &ends, say);
        shared.stop.store(true, Relaxed);
        let tallies: io::Result<Vec<Tally>> =
            clients.into_iter().map(|client| client.join().expect("no panic")).collect();
        Ok::<_, io::Error>((tallies?, watched?))
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
        say(&cleanup(options.clients))?;
        (0..options.clients).try_for_each(|number| client::clean_up(driver, number))?;
        say(&cleanup(0))?;
    }
    Ok(Outcome { clients, elapsed, bytes, usage })
}

/// Looks on for as long as the run takes; answers how long what counts took, its bytes, and its cost.
fn watch(
    options: &Options,
    shared: &Shared,
    ends: &Receiver<bool>,
    say: &mut dyn FnMut(&Progress) -> io::Result<()>,
) -> io::Result<(Duration, u64, crate::measure::Usage)> {
    let mut look = Look { options, shared, ends, running: options.clients };
    let mut before = 0;
    if options.loops.is_none() {
        look.on(Stage::Warmup, Some(options.warmup()), say)?;
        before = shared.bytes.load(Relaxed);
        shared.counts.store(true, Relaxed);
    }
    let watch = Watch::start()?;
    let time = options.loops.is_none().then_some(options.time);
    let elapsed = look.on(Stage::Execute, time, say)?;
    Ok((elapsed, shared.bytes.load(Relaxed) - before, watch.read()?))
}

struct Look<'l> {
    options: &'l Options,
    shared: &'l Shared,
    ends: &'l Receiver<bool>,
    running: usize,
}

impl Look<'_> {
    /// Looks on for `time`, or until no client is at work; answers how long that was.
    #[allow(clippy::cast_precision_loss)] // of a rate
    fn on(
        &mut self,
        stage: Stage,
        time: Option<Duration>,
        say: &mut dyn FnMut(&Progress) -> io::Result<()>,
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
                // The client's own answer says why.
                Ok(false) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if start.elapsed() < TICK * ticks => {}
                Err(RecvTimeoutError::Timeout) => {
                    let bytes = self.shared.bytes.load(Relaxed) - before;
                    say(&Progress {
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
    use crate::driver::record::Recorder;

    fn quietly<D: Driver>(driver: &D, load: &Load, options: &Options) -> io::Result<Outcome> {
        run(driver, load, options, &mut |_| Ok(()))
    }

    #[test]
    fn every_line_of_the_built_in_load_is_answered_as_it_expects() {
        let dir = tempfile::tempdir().expect("a directory");
        let driver = Mounted::new(dir.path(), "here", "a file").expect("open");
        let load = Load::parse(&mix::text(1)).expect("a load");
        let options = Options { clients: 2, loops: Some(2), xattr: true, ..Options::default() };
        let outcome = quietly(&driver, &load, &options).expect("as expected");
        let all = outcome.all();
        assert_eq!(all.lines, load.operations() as u64 * 4);
        assert_eq!((outcome.bytes, all.latencies().count()), (all.bytes, 16));
        let left: Vec<_> = std::fs::read_dir(dir.path().join("clients")).expect("there").collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn an_answer_that_is_not_expected_ends_the_run_and_names_the_line() {
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
    fn the_same_seed_makes_the_same_calls() {
        let calls = |seed| {
            let recorder = Recorder::default();
            let load = Load::parse(&mix::text(seed)).expect("a load");
            let options = Options {
                clients: 2,
                loops: Some(1),
                xattr: true,
                checked: false,
                seed,
                ..Options::default()
            };
            quietly(&recorder, &load, &options).expect("no errors");
            let mut calls = recorder.calls();
            // All clients make it.
            calls.remove("");
            calls.remove("/clients");
            calls
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
    }

    #[test]
    fn time_ends_a_run_and_the_warm_up_does_not_count() {
        let load = Load::parse(&mix::text(0)).expect("a load");
        let time = Duration::from_millis(100);
        let options = Options { clients: 2, time, checked: false, ..Options::default() };
        let mut said = 0;
        let outcome = run(&Null, &load, &options, &mut |_| {
            said += 1;
            Ok(())
        });
        let outcome = outcome.expect("no errors");
        assert!(outcome.elapsed >= time && outcome.bytes > 0);
        assert_eq!(said, 2, "only the cleanup: less than a second");
    }
}
