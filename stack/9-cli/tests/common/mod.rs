//! Runs the built command, on volumes that the kernel filled (kept compressed in `tests/images`)
//! and on damaged copies of them.

#![allow(unreachable_pub)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// A directory with images, removed at the end of the test.
pub struct Bench {
    dir: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Unpacks the kept image `name`.
    pub fn kept(&self, name: &str) -> PathBuf {
        xfskit_test_support::kept::file(name, self.dir.path())
    }

    /// Makes a file with these bytes.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// Writes `bytes` at `offset` of an image.
pub fn damage(image: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

/// Returns the number of the inode at `path` of `image`, and its first byte.
pub fn inode_at(image: &Path, path: &str) -> (u64, u64) {
    let stat = json(&["stat", "--json", &shown(image), path]);
    let ino = stat[0]["ino"].as_u64().unwrap();
    let geo = &json(&["info", "--json", &shown(image)])[0]["geometry"];
    let field = |name: &str| geo[name].as_u64().unwrap();
    let bits = field("agblklog") + field("inopblog");
    let (agno, agino) = (ino >> bits, ino & ((1 << bits) - 1));
    let block = (agno * field("agblocks")) << field("blocklog");
    (ino, block + (agino << field("inodelog")))
}

/// Damages the inode at `path` of `image`: removes its magic. Returns its number.
pub fn damage_inode(image: &Path, path: &str) -> u64 {
    let (ino, offset) = inode_at(image, path);
    damage(image, offset, b"XX");
    ino
}

pub fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The result of a run.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub bytes: Vec<u8>,
}

impl Run {
    pub fn of(Output { status, stdout, stderr }: Output) -> Self {
        let code = status.code().unwrap_or_else(|| panic!("killed: {status}"));
        let [out, err] = [&stdout, &stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        Self { code, stdout: out, stderr: err, bytes: stdout }
    }
}

/// Runs `xfskit` with these arguments, in UTC.
pub fn xfskit<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Run {
    let is_umount = args.first().is_some_and(|word| word.as_ref() == "umount");
    if is_umount { unless_busy(|| run(args)) } else { run(args) }
}

/// Unmounts. A child that another test starts has copies of this process's open files until its
/// execve(2), so a busy mount is tried again.
pub fn unless_busy(umount: impl Fn() -> Run) -> Run {
    let mut ended = umount();
    for _ in 0..100 {
        if ended.code == 0 || !ended.stderr.contains("busy") {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        ended = umount();
    }
    ended
}

fn run<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xfskit"));
    let run = Run::of(command.args(args).env("TZ", "UTC").output().unwrap());
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

/// Starts `xfskit` with its standard input piped; new volumes are of the year 2096. Signals have
/// their defaults, because a shell starts background jobs, and so these tests, with SIGINT ignored.
pub fn begin(args: &[&str]) -> Child {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP,QUIT", env!("CARGO_BIN_EXE_xfskit")]);
    command.args(args).env("SOURCE_DATE_EPOCH", "4000000000");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs `xfskit` with `input` on standard input, and expects `code`.
pub fn feed(code: i32, args: &[&str], input: &[u8]) {
    let mut child = begin(args);
    // A command that refuses does not read to the end.
    let _ = child.stdin.take().unwrap().write_all(input);
    ended(code, child, args);
}

/// Sends SIGINT, as Ctrl-C does.
pub fn interrupt(child: &Child) {
    signal(child, "INT");
}

/// Starts `xfskit`, interrupts it when it says `at` on standard error, and expects that it stops.
/// Returns what it printed until its end.
pub fn interrupted(args: &[&str], at: &str) -> Run {
    let mut child = begin(args);
    let mut told = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while !told.contains(at) {
        assert!(lines.read_line(&mut told).unwrap() > 0, "ended before {at}: {told}");
    }
    interrupt(&child);
    lines.read_to_string(&mut told).unwrap();
    let run = Run { stderr: told, ..Run::of(child.wait_with_output().unwrap()) };
    assert_eq!(run.code, 130, "{}", run.stderr);
    run
}

/// Sends a signal.
pub fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// Waits for the end, and expects `code`. Returns the output.
pub fn ended(code: i32, child: Child, args: &[&str]) -> String {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(code), "xfskit {}: {status}\n{stderr}", args.join(" "));
    stderr
}

/// Runs `xfskit`, and expects `code`.
pub fn expect(code: i32, args: &[&str]) -> Run {
    let run = xfskit(args);
    let said: Vec<&str> = run.stdout.lines().take(20).collect();
    assert_eq!(run.code, code, "xfskit {}\n{said:#?}\n{}", args.join(" "), run.stderr);
    run
}

/// Returns the objects that a run prints, one per line.
pub fn json(args: &[&str]) -> Vec<Value> {
    objects(&expect(0, args))
}

pub fn objects(run: &Run) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    run.stdout.lines().map(parse).collect()
}
