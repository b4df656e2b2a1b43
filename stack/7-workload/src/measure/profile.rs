//! Profiles by function and caller with perf, if it is installed and permitted: of this process, or
//! of the whole machine, whose samples include the threads of the kernel.
//!
//! Callers of this process are found by its unwind tables (`.eh_frame`), those in the kernel by the
//! kernel's. Of the whole machine only callers in the kernel are known: programs have no frame
//! pointers, and stacks of all of them would be too much.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use super::share::percent_of;

/// Samples per second of a processor, at most.
const RATE: usize = 499;

/// Samples with a stack per second, of all processors.
const STACKS: usize = 1000;

/// How perf finds the callers of this process: it copies the top of the stack, and unwinds it later
/// by `.eh_frame`, which a release build has.
///
/// With `fp` there were none: neither a release build nor std nor libc has frame pointers. It was
/// measured with a release build, two threads that create files on two processors. Of 1,353 samples
/// by `fp` the largest groups had no caller outside of the kernel, or an unknown one. Of 4,740 in
/// 8 s by `dwarf,8192` the largest groups had theirs (`run_range ← direct ← Names::create ← …`). A
/// sample has 9.6 KB: 45 MB here, 340 MB a minute. `perf script` took 0.2 s for them, with five
/// frames and without inlined functions.
const STACK: &str = "dwarf,8192";

/// The most that perf writes. When it is reached, perf stops, and the profile is that of the time
/// until then.
const DATA_MAX: &str = "--max-size=1G";

/// The time that perf may take to write its data and exit.
const PERF_EXIT_MAX: Duration = Duration::from_secs(60);

/// The time that perf may take until it samples.
const PERF_START_MAX: Duration = Duration::from_secs(20);

/// Fewer samples than these give no shares.
pub const SAMPLES_MIN: u64 = 200;

/// What perf samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This process, with the time that the kernel spends on its calls.
    Process,
    /// Everything that runs on the machine.
    Machine,
}

impl Scope {
    /// Returns the rate of samples of each processor, and how callers are found.
    fn sampling(self, processors: usize) -> (usize, &'static str) {
        match self {
            Self::Process => ((STACKS / processors.max(1)).clamp(10, RATE), STACK),
            Self::Machine => (RATE, "fp"),
        }
    }
}

/// A running perf.
#[derive(Debug)]
pub struct Profile {
    perf: Child,
    scope: Scope,
    files: Files,
}

/// The files of a run of perf. Dropping it removes them.
#[derive(Debug)]
struct Files {
    data: PathBuf,
    /// Named pipes: commands to perf, and its answers.
    control: [PathBuf; 2],
}

impl Files {
    fn new() -> io::Result<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let own = std::process::id();
        let path = |kind| std::env::temp_dir().join(format!("xfskit-perf-{own}-{run}.{kind}"));
        let files = Self { data: path("data"), control: [path("control"), path("ack")] };
        for pipe in &files.control {
            mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for file in self.control.iter().chain([&self.data]) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Frames of a sample that are kept: the function, and its nearest callers.
const FRAMES: usize = 5;

/// The samples of one function with the same callers, in the threads of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Number of samples.
    pub samples: u64,
    /// Name of the threads.
    pub threads: String,
    /// Name of the function.
    pub function: String,
    /// The functions that called it, the nearest one first.
    pub callers: Vec<String>,
}

impl Profile {
    /// Starts perf, and returns when it samples.
    ///
    /// # Errors
    /// If perf cannot be started or is not permitted to sample.
    pub fn start(scope: Scope) -> io::Result<Self> {
        let files = Files::new()?;
        let own = std::process::id().to_string();
        let of: &[&str] = match scope {
            Scope::Process => &["-p", &own],
            Scope::Machine => &["-a"],
        };
        let [commands, answers] = files.control.each_ref().map(|pipe| pipe.display().to_string());
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let (rate, callers) = scope.sampling(processors);
        let perf = Command::new("perf")
            .args(["record", "-q", "--call-graph", callers, "-F", &rate.to_string(), DATA_MAX])
            .args(of)
            .args(["--delay=-1", &format!("--control=fifo:{commands},{answers}"), "-o"])
            .arg(&files.data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|err| io::Error::other(format!("perf: {err}")))?;
        let mut profile = Self { perf, scope, files };
        profile.enable()?;
        Ok(profile)
    }

    /// Makes perf sample: its start takes half a second and more, which a short step would miss.
    fn enable(&mut self) -> io::Result<()> {
        // Open for both directions, because perf may not have opened its ends yet.
        let open = |pipe| File::options().read(true).write(true).open(pipe);
        let [commands, answers] = self.files.control.each_ref().map(open);
        let (mut commands, mut answers) = (commands?, answers?);
        commands.write_all(b"enable\n")?;
        let start = Instant::now();
        loop {
            let mut ready = [PollFd::new(&answers, PollFlags::IN)];
            let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            if poll(&mut ready, Some(&wait))? > 0 {
                // The answer is "ack".
                return answers.read_exact(&mut [0; 4]);
            }
            if self.perf.try_wait()?.is_some() {
                return Err(io::Error::other("perf ended before it took samples"));
            }
            if start.elapsed() > PERF_START_MAX {
                return Err(io::Error::other("perf does not begin"));
            }
        }
    }

    /// Stops perf, and returns the functions with their samples.
    ///
    /// # Errors
    /// If perf was not permitted to sample, or took no samples.
    pub fn stop(mut self) -> io::Result<Vec<Sampled>> {
        self.end_sampling()?;
        let script = Command::new("perf")
            .args(["script", "-F", "comm,ip,sym", "--no-inline", "--max-stack"])
            .arg(FRAMES.to_string())
            .arg("-i")
            .arg(&self.files.data)
            .output()?;
        let sampled = parse(&String::from_utf8_lossy(&script.stdout), self.scope);
        if sampled.is_empty() {
            return Err(io::Error::other("perf took no samples"));
        }
        Ok(sampled)
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
    }
}

/// Parses samples, each a line with the name of the thread, lines such as `  ffff1234 function`,
/// the innermost first, and an empty line. Of the whole machine, callers outside of the kernel are
/// left out: what is found without frame pointers is no caller.
fn parse(script: &str, scope: Scope) -> Vec<Sampled> {
    let mut counts: HashMap<(&str, Vec<&str>), u64> = HashMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(threads) = lines.next() else { continue };
        let frames = lines.filter_map(|line| line.trim().split_once(' '));
        let is_known =
            |n: usize, address: &str| n == 0 || scope == Scope::Process || is_in_kernel(address);
        let frames = frames.enumerate().take_while(|(n, (address, _))| is_known(*n, address));
        let frames = frames.map(|(_, (_, name))| name.trim());
        let frames: Vec<&str> = frames.take_while(|name| *name != UNKNOWN).take(FRAMES).collect();
        // A function without a name counts, too.
        let frames = if frames.is_empty() { vec![UNKNOWN] } else { frames };
        *counts.entry((threads.trim(), frames)).or_default() += 1;
    }
    let mut sampled: Vec<Sampled> = counts
        .into_iter()
        .map(|((threads, frames), samples)| {
            let mut frames = frames.into_iter().map(str::to_owned);
            Sampled {
                samples,
                threads: threads.to_owned(),
                function: frames.next().unwrap_or_default(),
                callers: frames.collect(),
            }
        })
        .collect();
    sampled.sort_by(|a, b| {
        (b.samples, &a.function, &a.callers).cmp(&(a.samples, &b.function, &b.callers))
    });
    sampled
}

/// Returns true if an address, in hexadecimal, is one of the kernel: in the upper half.
fn is_in_kernel(address: &str) -> bool {
    u64::from_str_radix(address, 16).is_ok_and(|address| address >> 63 == 1)
}

/// The name that perf prints for a function without one.
const UNKNOWN: &str = "[unknown]";

/// Returns the functions with their samples in all threads, most samples first.
pub fn by_function(sampled: &[Sampled]) -> Vec<(String, u64)> {
    most(sampled.iter().map(|one| (one.function.clone(), one.samples)))
}

/// Returns the chains of calls that are known, with their samples in all threads, most samples
/// first. A chain begins with the function that ran.
pub fn by_chain(sampled: &[Sampled]) -> Vec<(String, u64)> {
    let known = sampled.iter().filter(|one| !one.callers.is_empty());
    most(known.map(|one| {
        let frames = std::iter::once(&one.function).chain(&one.callers);
        (frames.cloned().collect::<Vec<_>>().join(" ← "), one.samples)
    }))
}

/// Adds up the samples of each name, and sorts the names by them.
fn most(samples: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, samples) in samples {
        *counts.entry(name).or_default() += samples;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    counts
}

/// Returns the number of samples.
pub fn count(sampled: &[Sampled]) -> u64 {
    sampled.iter().map(|one| one.samples).sum()
}

/// Returns the samples whose function's name contains `word`, in percent of `sampled`. `None` if
/// there are fewer than [`SAMPLES_MIN`] samples.
///
/// # Errors
/// As [`percent_of`].
#[allow(clippy::cast_precision_loss)] // of a share
pub fn share(sampled: &[Sampled], word: &str) -> io::Result<Option<f64>> {
    let all = count(sampled);
    if all < SAMPLES_MIN {
        return Ok(None);
    }
    let part: u64 =
        sampled.iter().filter(|one| one.function.contains(word)).map(|one| one.samples).sum();
    percent_of(word, part as f64, all as f64).map(Some)
}

/// Returns the samples of this process and of the kernel's threads that work for its filesystem:
/// workers, the AIL's, and those of loop devices.
pub fn of_filesystem(sampled: Vec<Sampled>) -> Vec<Sampled> {
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let kernel = ["kworker", "xfsaild", "loop"];
    let counts =
        |name: &str| name == own.trim() || kernel.iter().any(|prefix| name.starts_with(prefix));
    sampled.into_iter().filter(|one| counts(&one.threads)).collect()
}

#[cfg(test)]
mod tests;
