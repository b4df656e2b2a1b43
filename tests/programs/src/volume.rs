//! A volume: made, mounted by `xfskit mount`, unmounted, and verified by all tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use xfskit_test_support::{Image, Manifest, Scratch, verify};

use crate::command::{Finished, Log, Running, run};
use crate::served::{Served, xfskit};
use crate::tree::{self, Compare};

/// Time for one command of ours or of xfsprogs on a volume that is not mounted.
const SOON: Duration = Duration::from_mins(10);
/// Calls of syncfs(2) that may fail because of killed processes.
const SYNCS: usize = 4;

/// Options of every mount: as root's mounts of other filesystems are.
const OPTIONS: &str = "allow_other,dev,suid";

/// A program that makes volumes, with its options.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    /// The command, without the name of the image.
    command: &'static [&'static str],
    /// Shown in the report.
    pub name: &'static str,
}

/// The makers, which volumes use in turns.
pub const MAKERS: [Maker; 4] = [
    Maker { command: &["xfskit", "mkfs", "-q"], name: "xfskit mkfs" },
    Maker { command: &["mkfs.xfs", "-q"], name: "mkfs.xfs" },
    Maker {
        command: &["xfskit", "mkfs", "-q", "-b", "size=1024", "-m", "rmapbt=0"],
        name: "xfskit mkfs, blocks of 1 KiB",
    },
    Maker {
        command: &["mkfs.xfs", "-q", "-m", "rmapbt=1", "-i", "nrext64=1"],
        name: "mkfs.xfs, rmapbt",
    },
];

/// A volume that xfskit has mounted.
#[derive(Debug)]
pub struct Volume<'s> {
    scratch: &'s Scratch,
    log: &'s Log,
    /// Base of the names of its files.
    name: String,
    target: String,
    served: Option<Served>,
    options: String,
    compare: Compare,
}

impl<'s> Volume<'s> {
    /// Makes an empty volume of `bytes` bytes in a sparse file, and mounts it.
    ///
    /// # Errors
    /// It cannot be made or mounted.
    pub fn new(
        scratch: &'s Scratch,
        log: &'s Log,
        name: &str,
        bytes: u64,
        maker: Maker,
    ) -> Result<Self, String> {
        let image = Image::sparse(scratch, &format!("{name}.img"), bytes);
        let target = image.path().display().to_string();
        Self::make(log, &target, maker)?;
        Self::mounted(scratch, log, name, &target)
    }

    /// Makes a volume on `target`.
    ///
    /// # Errors
    /// The maker refuses.
    pub fn make(log: &Log, target: &str, maker: Maker) -> Result<(), String> {
        let (program, options) = maker.command.split_first().expect("a command");
        let mut command = match *program {
            "xfskit" => Command::new(xfskit()),
            other => Command::new(other),
        };
        run(command.args(options).arg(target), SOON, log)?.success().map(drop)
    }

    /// Mounts the volume on `target`.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn mounted(
        scratch: &'s Scratch,
        log: &'s Log,
        name: &str,
        target: &str,
    ) -> Result<Self, String> {
        let (name, target) = (name.to_owned(), target.to_owned());
        let options = OPTIONS.to_owned();
        let compare = Compare::default();
        let mut volume = Self { scratch, log, name, target, served: None, options, compare };
        fs::create_dir(volume.path()).map_err(|why| why.to_string())?;
        volume.mount()?;
        Ok(volume)
    }

    /// Returns the mount point.
    pub fn path(&self) -> PathBuf {
        self.scratch.path().join(format!("{}.mnt", self.name))
    }

    /// Returns the name of the volume for commands of xfskit.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Mounts the volume again, after [`Self::kill`] or [`Self::unmount`].
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn mount(&mut self) -> Result<(), String> {
        let messages = self.scratch.path().join(format!("{}.messages", self.name));
        let (dir, options) = (self.path(), &self.options);
        self.served = Some(Served::new(&self.target, &dir, options, &messages, self.log)?);
        Ok(())
    }

    /// Unmounts the volume. Neither the device nor a structure of the volume may have failed, and
    /// the process that served it must end with code 0.
    ///
    /// # Errors
    /// One of them did not.
    pub fn unmount(&mut self) -> Result<(), String> {
        let Some(served) = self.served.take() else { return Ok(()) };
        let mut stats = Command::new(xfskit());
        let stats = run(stats.args(["stats", "--json"]).arg(self.path()), SOON, self.log)?;
        let stats = stats.success()?;
        if !stats.contains(r#""first_failure":null"#) {
            return Err(format!("an operation failed: {stats}"));
        }
        match served.unmount(self.log)? {
            0 => Ok(()),
            code => Err(format!("the process of the mount ended with code {code}")),
        }
    }

    /// Unmounts, and mounts with `more` options.
    ///
    /// # Errors
    /// One of them failed.
    pub fn remount(&mut self, more: &str) -> Result<(), String> {
        self.unmount()?;
        let comma = if more.is_empty() { "" } else { "," };
        self.options = format!("{OPTIONS}{comma}{more}");
        self.mount()
    }

    /// Kills the process that serves the mount, and removes the mount.
    ///
    /// # Errors
    /// The mount cannot be removed.
    pub fn kill(&mut self) -> Result<(), String> {
        self.served.take().map_or(Ok(()), |served| served.kill(self.log))
    }

    /// Kills the process that serves the mount; [`Self::kill`] removes the mount.
    pub fn crash(&mut self) {
        self.served.iter_mut().for_each(Served::release);
    }

    /// From now on, the tree is compared without times of change.
    pub fn ignore_times(&mut self) {
        self.compare = Compare::WithoutTimes;
    }

    /// Runs a program in the mount, at most for `bound`.
    ///
    /// # Errors
    /// It does not end.
    pub fn run(&mut self, command: &mut Command, bound: Duration) -> Result<Finished, String> {
        let finished = run(command, bound, self.log);
        self.ended(finished)
    }

    /// Runs a program in the mount, which must succeed within `bound`. Returns its output.
    ///
    /// # Errors
    /// It does not.
    pub fn succeed(&mut self, command: &mut Command, bound: Duration) -> Result<String, String> {
        self.run(command, bound)?.success()
    }

    /// Waits for a program in the mount, at most for `bound`.
    ///
    /// # Errors
    /// It does not end.
    pub fn wait(&mut self, running: Running, bound: Duration) -> Result<Finished, String> {
        let finished = running.wait(bound, self.log);
        self.ended(finished)
    }

    /// After a program that does not end, the mount may hang, and all that uses it: its process is
    /// killed.
    fn ended(&mut self, finished: Result<Finished, String>) -> Result<Finished, String> {
        if finished.is_err() {
            self.crash();
        }
        finished
    }

    /// Writes what the kernel has cached.
    ///
    /// The kernel keeps an error for the next call, EINTR and then EIO, when a process is killed
    /// that waits for the times of a file to be written (after unlink, rename, fallocate). Nothing
    /// has failed then: the mount itself knows of no failure, as [`Self::unmount`] verifies.
    ///
    /// # Errors
    /// Something could not be written since the last call.
    pub fn sync(&self) -> Result<(), String> {
        for _ in 0..SYNCS {
            let root = fs::File::open(self.path()).map_err(|why| why.to_string())?;
            match rustix::fs::syncfs(&root) {
                Err(why @ (Errno::INTR | Errno::IO)) => self.log.line(&format!("syncfs: {why}")),
                synced => return synced.map_err(|why| format!("syncfs: {why}")),
            }
        }
        Err(format!("syncfs fails {SYNCS} times"))
    }

    /// Writes what the kernel has cached, and returns the tree that the mount shows.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn tree(&self) -> Result<Manifest, String> {
        self.sync()?;
        tree::shown(&self.path())
    }

    /// Verifies a volume that is unmounted. Returns the tree that Linux shows.
    ///
    /// # Errors
    /// The first finding.
    pub fn verify(&self) -> Result<Manifest, String> {
        let mut check = Command::new(xfskit());
        let report = run(check.args(["check", &self.target]), SOON, self.log)?.success()?;
        if report.lines().any(|line| line.contains(" [")) {
            return Err(format!("xfskit check: {report}"));
        }
        let image = self.image()?;
        verify::repair(&image)?;
        verify::shown(&image, self.scratch)
    }

    /// Returns the image: that of an array is a copy.
    fn image(&self) -> Result<Image<'s>, String> {
        let name = format!("{}.img", self.name);
        if !Path::new(&self.target).is_file() {
            let out = self.scratch.path().join(&name);
            let mut dump = Command::new("sh");
            dump.args(["-c", r#""$0" md dump "$1" | cp --sparse=always /dev/stdin "$2""#]);
            dump.arg(xfskit()).arg(&self.target).arg(&out);
            run(&mut dump, SOON, self.log)?.success()?;
        }
        Ok(Image::existing(self.scratch, &name))
    }

    /// Records the tree, unmounts, verifies the volume, and compares the tree with the one that
    /// Linux shows. Returns the number of its entries.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn end(mut self) -> Result<usize, String> {
        let ours = self.tree()?;
        self.unmount()?;
        let linux = self.verify()?;
        let count = linux.entries.len();
        tree::same(ours, linux, self.compare)?;
        Ok(count)
    }
}
