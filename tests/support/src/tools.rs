//! The installed xfsprogs, and the newer version that `tests/setup-tools.sh` unpacks beside it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::image::Image;
use crate::repository;

/// One version of xfsprogs.
#[derive(Clone, Debug)]
pub struct Xfsprogs {
    /// Directory of the tools; `None` for the `PATH`.
    bin: Option<PathBuf>,
    /// Version that `mkfs.xfs -V` prints, for example `6.13.0`.
    pub version: String,
}

impl Xfsprogs {
    /// Returns the version on the `PATH`.
    pub fn installed() -> Option<Self> {
        static FOUND: OnceLock<Option<Xfsprogs>> = OnceLock::new();
        FOUND.get_or_init(|| Self::at(None)).clone()
    }

    /// Returns version 6.13, if `tests/setup-tools.sh` has unpacked it.
    pub fn newer() -> Option<Self> {
        static FOUND: OnceLock<Option<Xfsprogs>> = OnceLock::new();
        FOUND.get_or_init(|| Self::at(Some(&repository().join(".cache/xfsprogs-6.13/bin")))).clone()
    }

    /// Returns every available version, the installed one first.
    pub fn all() -> Vec<Self> {
        Self::installed().into_iter().chain(Self::newer()).collect()
    }

    fn at(bin: Option<&Path>) -> Option<Self> {
        let found = Self { bin: bin.map(Path::to_path_buf), version: String::new() };
        let output = found.command("mkfs.xfs").arg("-V").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Some(Self { version: text.split_whitespace().last()?.to_owned(), ..found })
    }

    /// Returns a command for the `tool` of this version.
    pub fn command(&self, tool: &str) -> Command {
        match &self.bin {
            Some(bin) => Command::new(bin.join(tool)),
            None => Command::new(tool),
        }
    }

    /// Formats a volume. Sizes below mkfs.xfs's policy of 300 MiB are allowed.
    pub fn mkfs(&self, image: &Image, options: &[&str]) -> Result<(), String> {
        let mut mkfs = self.command("mkfs.xfs");
        mkfs.args(["-q", "-f", "-K"]).args(options).arg(image.path());
        // These three variables lift the policy (not the format's rule) of 300 MiB and two groups.
        mkfs.envs([("TEST_DIR", "x"), ("TEST_DEV", "x"), ("QA_CHECK_FS", "x")]);
        run(&mut mkfs).map(drop)
    }

    /// Runs `xfs_repair -n`, which must exit with 0 and print nothing but the names of its phases.
    pub fn repair_n(&self, image: &Image, options: &[&str]) -> Result<(), String> {
        let mut repair = self.command("xfs_repair");
        repair.arg("-n").args(options);
        if let Some(log) = image.log() {
            repair.arg("-l").arg(log);
        }
        repair.arg(image.path());
        let output = repair.output().map_err(|error| format!("xfs_repair: {error}"))?;
        let text = everything(&output);
        let silent = text.lines().all(is_not_finding);
        if output.status.success() && silent {
            return Ok(());
        }
        Err(format!("xfs_repair {} -n, {}:\n{text}", self.version, output.status))
    }

    /// Returns the output of `xfs_db` for `commands`; `writable` opens in expert mode.
    pub fn db(&self, image: &Image, writable: bool, commands: &[&str]) -> Result<String, String> {
        let mut db = self.command("xfs_db");
        db.arg(if writable { "-x" } else { "-r" });
        for command in commands {
            db.args(["-c", command]);
        }
        db.arg(image.path());
        run(&mut db)
    }
}

/// Runs a command. Returns its output, or if it fails, the command and all its output.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}:\n{}", output.status, everything(&output)))
}

/// Returns whether a line of `xfs_repair -n` is not a finding: a phase, or a note that it does not
/// know the filesystem that holds the image.
pub fn is_not_finding(line: &str) -> bool {
    const BANNERS: [&str; 6] = [
        "Phase ",
        "        - ",
        "No modify flag set",
        "Cannot get host filesystem geometry.",
        "Repair may fail if there is a sector size mismatch between",
        "the image and the host filesystem.",
    ];
    line.trim().is_empty() || BANNERS.iter().any(|banner| line.starts_with(banner))
}

fn everything(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}
