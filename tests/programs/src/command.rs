//! Programs that run within a bound, and the log of what they print.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use xfskit_test_support::repository;

/// Time between looks at a running program.
const LOOK: Duration = Duration::from_millis(20);
/// Time that a killed program has to end.
const LEAVE: Duration = Duration::from_secs(20);
/// Bytes of a program's output that a message quotes.
const QUOTED: usize = 2000;

/// The log of one program: every command with all its output.
#[derive(Debug)]
pub struct Log {
    file: Mutex<File>,
    path: PathBuf,
}

impl Log {
    /// Begins a log.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(path: PathBuf) -> Result<Self, String> {
        let options = OpenOptions::new().append(true).create(true).clone();
        let _ = std::fs::remove_file(&path);
        let file = options.open(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self { file: Mutex::new(file), path })
    }

    /// Adds a line.
    pub fn line(&self, text: &str) {
        // A log that cannot be written is no fault of the program.
        let _ = writeln!(self.file.lock().expect("no panic"), "{text}");
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All that it printed.
    pub text: String,
    command: String,
}

impl Finished {
    /// Returns the output, or an error if the code is not 0.
    ///
    /// # Errors
    /// The command, its code and the end of its output.
    pub fn success(self) -> Result<String, String> {
        if self.code == Some(0) { Ok(self.text) } else { Err(self.describe()) }
    }

    /// Returns the command, its code and the end of its output.
    pub fn describe(&self) -> String {
        let code = self.code.map_or_else(|| "a signal".into(), |code| format!("code {code}"));
        format!("{}: {code}:\n{}", self.command, tail(&self.text))
    }
}

/// Returns the end of a text.
pub fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(QUOTED);
    let start = (start..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text[start..].trim_end()
}

/// A program that runs in a process group of its own.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: File,
    command: String,
    begun: Instant,
}

impl Running {
    /// Starts a program. Its standard input is empty unless `command` has another.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let shown = shown(command);
        let failed = |why: std::io::Error| format!("{shown}: {why}");
        let output = tempfile::tempfile().map_err(failed)?;
        let copy = || output.try_clone().map(Stdio::from);
        command.stdout(copy().map_err(failed)?).stderr(copy().map_err(failed)?).process_group(0);
        let child = command.spawn().map_err(failed)?;
        Ok(Self { child, output, command: shown, begun: Instant::now() })
    }

    /// Returns the process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end, at most for `bound`.
    fn wait_for(&mut self, bound: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if begun.elapsed() > bound {
                return None;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for the end, at most for `bound`.
    ///
    /// # Errors
    /// The program still runs. It is killed if that is possible: a process that waits for a mount
    /// that hangs stays.
    pub fn wait(mut self, bound: Duration, log: &Log) -> Result<Finished, String> {
        let status = self.wait_for(bound);
        if status.is_none() {
            self.kill();
        }
        let text = self.text();
        let seconds = self.begun.elapsed().as_secs_f64();
        log.line(&format!("$ {}\n{text}= {status:?}, {seconds:.1} s", self.command));
        let Some(status) = status else {
            let bound = bound.as_secs();
            return Err(format!("{}: no end in {bound} s:\n{}", self.command, tail(&text)));
        };
        Ok(Finished { code: status.code(), text, command: std::mem::take(&mut self.command) })
    }

    /// Kills the program and its children, and waits some seconds for its end.
    pub fn kill(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.wait_for(LEAVE);
    }

    /// Returns what it has printed so far.
    pub fn text(&self) -> String {
        let len = self.output.metadata().map_or(0, |data| data.len());
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = self.output.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}

/// Runs a program to its end, at most for `bound`.
///
/// # Errors
/// It cannot be started, or does not end.
pub fn run(command: &mut Command, bound: Duration, log: &Log) -> Result<Finished, String> {
    command.stdin(Stdio::null());
    Running::start(command)?.wait(bound, log)
}

/// Formats a command as a shell's user would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Returns the path of a program: in `.cache/programs/bin`, where `setup.sh` installs some, or on
/// the `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let own = repository().join(".cache/programs/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(own)
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join(name))
        .find(|program| program.is_file())
}
