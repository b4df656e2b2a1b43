//! git: a clone with its checkout, and its removal.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xfskit_workload::random::Random;

use super::aim::Bound::{self, AtLeast};
use super::side::Side;
use super::workload::{Step, Turn, Workload};
use crate::array::number;
use crate::contest::SECONDS;
use crate::frame::{Result, progress};

/// Files of a directory.
const EACH: u64 = 100;
/// Lines of a file at most.
const LINES: u64 = 500;
/// Inodes of `.git`, with room to spare.
const INODES: u64 = 200;
/// The clone.
const NAME: &str = "clone";

/// A repository that is cloned.
#[derive(Clone, Debug)]
pub struct Git {
    /// Files of its tree.
    pub files: u64,
    /// The directory in which it is made and kept.
    pub dir: PathBuf,
}

/// At most 1.5 times the kernel's time.
const AIM: &[(Side, Bound)] = &[(Side::Kernel, AtLeast(1.0 / 1.5))];

const fn step(title: &'static str) -> Step {
    Step { title, quantity: SECONDS, unit: "file", aims: AIM, round_trips: None }
}

const CLONE: usize = 0;
const REMOVE: usize = 1;
const STEPS: &[Step] = &[step("git clone and checkout, unmounted"), step("rm -r, unmounted")];

impl Workload for Git {
    fn title(&self) -> &'static str {
        "git"
    }

    fn text(&self) -> Vec<String> {
        vec![format!(
            "A repository with a tree of {} files of 0 to {} KB in {} directories, with one pack, is cloned with its checkout. \
             After the next mount, git status finds no difference, and rm -r removes the clone. Both times include the unmounting, \
             after which everything is durable.",
            self.files,
            LINES * 17 / 1000,
            self.files.div_ceil(EACH),
        )]
    }

    fn steps(&self) -> &'static [Step] {
        STEPS
    }

    fn programs(&self) -> &'static [&'static str] {
        &["git", "rm"]
    }

    fn inodes(&self) -> u64 {
        self.files + self.files.div_ceil(EACH) + INODES
    }

    fn turn(&self, turn: &mut Turn<'_>) -> Result<()> {
        let repository = self.repository()?;
        read_all(&repository.join(".git"))?;
        let (source, files) = (repository.to_string_lossy(), number(self.files));

        let mounted = turn.mount()?;
        turn.timed(CLONE, &mounted, || {
            git(mounted.path(), &["clone", "-q", "--no-hardlinks", &source, NAME])?;
            mounted.write_back()?;
            Ok(files)
        })?;
        turn.timed_unmount(CLONE, mounted)?;

        let mounted = turn.mount()?;
        let changed = git(&mounted.path().join(NAME), &["status", "--porcelain"])?;
        if !changed.is_empty() {
            return Err(format!("the clone is not the repository: {changed}").into());
        }
        turn.timed(REMOVE, &mounted, || {
            let ended = Command::new("rm").arg("-r").arg(mounted.path().join(NAME)).status()?;
            if ended.success() { Ok(files) } else { Err(format!("rm: {ended}").into()) }
        })?;
        turn.timed_unmount(REMOVE, mounted)
    }
}

impl Git {
    /// Returns the repository, which is made if it is missing.
    fn repository(&self) -> Result<PathBuf> {
        let repository = self.dir.join(format!("repository-{}", self.files));
        if !repository.exists() {
            progress(format!("a repository of {} files", self.files));
            // A run that is cut off leaves nothing under the last name.
            let making = self.dir.join(format!("repository-{}", std::process::id()));
            self.make(&making)?;
            fs::rename(&making, &repository)?;
        }
        Ok(repository)
    }

    fn make(&self, to: &Path) -> Result<()> {
        let (mut random, mut text) = (Random::new(1), String::new());
        for n in 0..self.files {
            let dir = to.join(format!("dir{}", n / EACH));
            if n % EACH == 0 {
                fs::create_dir_all(&dir)?;
            }
            text.clear();
            for _ in 0..random.below(LINES) {
                writeln!(text, "{:016x}", random.next_u64())?;
            }
            fs::write(dir.join(format!("file{n}")), &text)?;
        }
        for words in [
            &["init", "-q"][..],
            &["add", "."],
            &["commit", "-q", "-m", "files"],
            &["repack", "-a", "-d", "-q"],
        ] {
            git(to, words)?;
        }
        Ok(())
    }
}

/// Runs git in `dir` without the configuration of the machine, and returns its output.
fn git(dir: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(["-c", "gc.auto=0", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
    command.args(words).current_dir(dir).stdin(Stdio::null());
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let out = command.output().map_err(|error| format!("git: {error}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&out.stderr);
    Err(format!("git {}: {}", words.join(" "), errors.trim()).into())
}

/// Reads all files below `dir`, so that they are in the cache for each side.
fn read_all(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path)?;
        } else {
            fs::read(&path)?;
        }
    }
    Ok(())
}
