//! Profiles by function with perf, if it is installed and permitted: of this process, or of the
//! whole machine, whose samples include the threads of the kernel.

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

/// Samples per second and thread.
const RATE: &str = "499";

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

/// A running perf.
#[derive(Debug)]
pub struct Profile {
    perf: Child,
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

/// The samples of one function in the threads of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Number of samples.
    pub samples: u64,
    /// Name of the threads.
    pub threads: String,
    /// Name of the function.
    pub function: String,
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
        let perf = Command::new("perf")
            .args(["record", "-q", "-F", RATE])
            .args(of)
            .args(["--delay=-1", &format!("--control=fifo:{commands},{answers}"), "-o"])
            .arg(&files.data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|err| io::Error::other(format!("perf: {err}")))?;
        let mut profile = Self { perf, files };
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
        let report = Command::new("perf")
            .args(["report", "-q", "--stdio", "--no-inline", "-F", "sample,comm,symbol", "-i"])
            .arg(&self.files.data)
            .output()?;
        let sampled = parse(&String::from_utf8_lossy(&report.stdout));
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

/// Parses lines such as `  12  threads  [.] function`.
fn parse(report: &str) -> Vec<Sampled> {
    let line = |line: &str| {
        let (samples, rest) = line.trim().split_once(char::is_whitespace)?;
        let (threads, function) = rest.split_once(" [")?;
        let function = function.split_once(']')?.1.trim().to_owned();
        Some(Sampled {
            samples: samples.parse().ok()?,
            threads: threads.trim().to_owned(),
            function,
        })
    };
    report.lines().filter_map(line).collect()
}

/// Returns the functions with their samples in all threads, most samples first.
pub fn by_function(sampled: &[Sampled]) -> Vec<(&str, u64)> {
    let mut functions: Vec<(&str, u64)> = Vec::new();
    for one in sampled {
        match functions.iter_mut().find(|(name, _)| *name == one.function) {
            Some((_, samples)) => *samples += one.samples,
            None => functions.push((&one.function, one.samples)),
        }
    }
    functions.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    functions
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
mod tests {
    use super::*;

    const REPORT: &str = "# nothing\n\n   150  xfskit          [.] alpha::beta\n     \
        50  kworker/1:2-xfs  [k] crc32c_x86_3way\n   100  loop3  [k] do_syscall_64\n     \
        80  rustc  [.] alpha::beta\n";

    #[test]
    fn report_lines_give_samples_threads_and_functions() {
        let sampled = parse(REPORT);
        assert_eq!(sampled.len(), 4);
        let second = Sampled {
            samples: 50,
            threads: "kworker/1:2-xfs".into(),
            function: "crc32c_x86_3way".into(),
        };
        assert_eq!(sampled[1], second);
        let expected = [("alpha::beta", 230), ("do_syscall_64", 100), ("crc32c_x86_3way", 50)];
        assert_eq!(by_function(&sampled), expected);
    }

    #[test]
    fn shares_are_of_samples_and_need_enough_of_them() {
        let sampled = parse(REPORT);
        assert_eq!(share(&sampled, "do_syscall").unwrap(), Some(100.0 / 380.0 * 100.0));
        assert_eq!(share(&sampled[1..3], "crc32c").unwrap(), None, "150 samples");
    }

    #[test]
    fn a_profile_begins_when_it_is_started() {
        let profile = match Profile::start(Scope::Process) {
            Ok(profile) => profile,
            Err(err) => return eprintln!("skipped: perf cannot sample here: {err}"),
        };
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        // A busy machine gives this thread a part of the time.
        let samples = count(&profile.stop().expect("samples"));
        assert!(samples >= 10, "{samples} samples");
    }

    #[test]
    fn other_programs_are_no_part_of_the_filesystem() {
        let threads: Vec<String> =
            of_filesystem(parse(REPORT)).into_iter().map(|one| one.threads).collect();
        assert!(threads.contains(&"loop3".into()) && threads.contains(&"kworker/1:2-xfs".into()));
        assert!(!threads.contains(&"rustc".into()));
    }
}
