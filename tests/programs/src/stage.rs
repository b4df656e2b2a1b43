//! What a program is given: space, an amount of work, volumes.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use xfskit_test_support::{Image, Mount, Random, Scratch, Xfsprogs};

use crate::command::{Log, find};
use crate::volume::{MAKERS, Volume};

/// Why a program did not pass.
#[derive(Debug)]
pub enum Stop {
    /// It could not run, for this reason.
    Skipped(String),
    /// Something was wrong.
    Failed(String),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Skipped(why) | Self::Failed(why)) = self;
        out.write_str(why)
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for Stop {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

impl From<std::io::Error> for Stop {
    fn from(why: std::io::Error) -> Self {
        Self::Failed(why.to_string())
    }
}

impl From<rustix::io::Errno> for Stop {
    fn from(why: rustix::io::Errno) -> Self {
        Self::Failed(why.to_string())
    }
}

/// The result of a program: what was done.
pub type Ran = Result<String, Stop>;

/// Space, an amount of work, and volumes for one program.
#[derive(Debug)]
pub struct Stage {
    /// A directory on a disk, outside of all mounts.
    pub scratch: Scratch,
    /// What programs print.
    pub log: Log,
    /// The amount of work, in the unit of the program.
    pub amount: u64,
    /// Whether the run is a long one.
    pub is_long: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Volumes made so far.
    made: Cell<usize>,
}

impl Stage {
    /// Returns the stage of program `number`.
    pub fn new(scratch: Scratch, log: Log, amount: u64, is_long: bool, number: usize) -> Self {
        let seed = xfskit_test_support::seed(1);
        let first = number + usize::try_from(seed).unwrap_or(0);
        Self { scratch, log, amount, is_long, seed, made: Cell::new(first) }
    }

    /// Returns random numbers.
    pub fn random(&self) -> Random {
        Random::new(self.seed)
    }

    /// Makes a volume of `gib` GiB and mounts it. Each call takes the next maker of [`MAKERS`].
    ///
    /// # Errors
    /// That fails.
    pub fn volume(&self, gib: u64) -> Result<Volume<'_>, String> {
        let number = self.made.replace(self.made.get() + 1);
        let maker = MAKERS[number % MAKERS.len()];
        self.log.line(&format!("a volume by {}", maker.name));
        Volume::new(&self.scratch, &self.log, &format!("v{number}"), gib << 30, maker)
    }

    /// Makes a volume of `gib` GiB and lets Linux mount it, for programs that are compared.
    ///
    /// # Errors
    /// That fails.
    pub fn linux(&self, gib: u64) -> Result<Mount, String> {
        let number = self.made.replace(self.made.get() + 1);
        let image = Image::sparse(&self.scratch, &format!("linux{number}.img"), gib << 30);
        Xfsprogs::installed().ok_or("mkfs.xfs is missing")?.mkfs(&image, &[])?;
        Mount::read_write(&image, &self.scratch)
    }

    /// Returns the path of a file outside of all mounts.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the amount as seconds.
    pub fn seconds(&self) -> Duration {
        Duration::from_secs(self.amount)
    }
}

/// Returns a command for an installed program.
///
/// # Errors
/// The program is missing.
pub fn installed(name: &str) -> Result<Command, Stop> {
    let missing = || Stop::Skipped(format!("{name} is missing (tests/programs/setup.sh)"));
    find(name).map(Command::new).ok_or_else(missing)
}
