//! Mounted filesystems side by side: the same programs on each of them.
//!
//! All sides use one image, one after the other, so that they have the same blocks of the same
//! disk.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`side`] | the filesystems that are measured, and their mounts |
//! | [`uring`] | has the kernel offer io_uring for FUSE |
//! | [`passthrough`] | builds passthrough_ll from Debian's example |
//! | [`server`] | the process that serves a mount: its start and end, its memory and time |
//! | [`requests`] | the kernel's requests to our mount |
//! | [`aim`] | figures to reach, and whether a run shows that they are |
//! | [`workload`] | steps of a workload, turns of all sides, and their tables |
//! | [`names`], [`stream`], [`dbench`], [`git`] | the workloads |
//! | [`degraded`] | readers of a degraded array through our mount |

pub mod aim;
pub mod dbench;
pub mod degraded;
pub mod git;
pub mod names;
pub mod passthrough;
pub mod requests;
pub mod server;
pub mod side;
pub mod stream;
pub mod uring;
pub mod workload;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::frame::Result;
use crate::kernel;
use side::{Mounted, Side};

/// Bytes that the image is filled with at a time.
const FILL: usize = 16 << 20;
/// Bytes of an image from which on it has 16 groups.
const GROUPS_FROM: u64 = 2 << 30;
/// Time between looks at a server that works off what it was told to forget.
const SETTLE: Duration = Duration::from_millis(100);
/// Looks at it, at most.
const SETTLE_LOOKS: usize = 100;

/// What all workloads of a run have in common.
#[derive(Debug)]
pub struct Bench {
    /// The directory of the image and of everything else.
    pub dir: PathBuf,
    /// The sides of this run.
    pub sides: Vec<Side>,
    /// Turns of each workload.
    pub turns: usize,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Options of our mount, as for `-o`.
    pub options: Option<String>,
    /// The caches of the machine are left alone: the figures mean nothing.
    pub keeps_caches: bool,
    /// The program `xfskit`.
    pub xfskit: PathBuf,
}

impl Bench {
    /// Returns the image that all sides use.
    pub fn image(&self) -> PathBuf {
        self.dir.join(format!("xfskit-bench-mount-{}.img", std::process::id()))
    }

    /// Returns the mount point of the sides that are served by a process.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join(format!("xfskit-bench-mount-{}", std::process::id()))
    }

    /// Writes the image from end to end, so that the filesystem below allocates nothing while a
    /// side is measured.
    ///
    /// # Errors
    /// If there is no space.
    pub fn fill_image(&self) -> io::Result<()> {
        let (mut file, zeroes) = (File::create(self.image())?, vec![0; FILL]);
        for _ in 0..self.image_bytes.div_ceil(FILL as u64) {
            file.write_all(&zeroes)?;
        }
        file.sync_all()
    }

    /// Returns the number of allocation groups of XFS on the image: two for each of eight writers,
    /// where they are large enough for that.
    pub fn groups(&self) -> u32 {
        if self.image_bytes < GROUPS_FROM { 4 } else { 16 }
    }

    /// Makes a volume of `side` on the image.
    ///
    /// # Errors
    /// If mkfs fails.
    pub fn format(&self, side: Side) -> Result<()> {
        let image = self.image();
        let image = image.to_string_lossy();
        if side == Side::Fuse2fs {
            kernel::run("mke2fs", &["-q", "-F", "-t", "ext4", "-E", "nodiscard", &image])?;
        } else {
            let groups = format!("agcount={}", self.groups());
            kernel::run("mkfs.xfs", &["-q", "-f", "-K", "-d", &groups, &image])?;
        }
        Ok(())
    }

    /// Checks the volume of our side, which is not mounted any more.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn check(&self) -> Result<()> {
        let out = Command::new(&self.xfskit).arg("check").arg(self.image()).output()?;
        if out.status.success() {
            return Ok(());
        }
        let texts =
            [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Err(format!("our volume is damaged: {}", texts.join("\n")).into())
    }

    /// Drops all caches of the machine.
    ///
    /// # Errors
    /// Without root.
    pub fn drop_caches(&self) -> io::Result<()> {
        if self.keeps_caches { Ok(()) } else { kernel::drop_caches() }
    }

    /// Drops the kernel's names and inodes of `mounted`. The server keeps in memory all that the
    /// kernel does not tell it to forget.
    ///
    /// # Errors
    /// Without root.
    pub fn drop_names(&self, mounted: &Mounted) -> Result<()> {
        mounted.write_back()?;
        if self.keeps_caches {
            return Ok(());
        }
        fs::write("/proc/sys/vm/drop_caches", "2")?;
        let mut before = None;
        for _ in 0..SETTLE_LOOKS {
            thread::sleep(SETTLE);
            let now = mounted.server_usage().map(|usage| usage.processor);
            if now == before {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Removes the image and the mount point.
    pub fn remove(&self) {
        let _ = fs::remove_file(self.image());
        let _ = fs::remove_dir(self.mount_point());
    }
}

/// Raises the limit of open files for the programs that are started from here, as far as it can be.
/// Returns it.
pub fn raise_descriptors() -> u64 {
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most: Option<u64> = most.and_then(|text| text.trim().parse().ok());
    let now = getrlimit(Resource::Nofile);
    for limit in [most, now.maximum].into_iter().flatten() {
        let wanted = Rlimit { current: Some(limit), maximum: Some(limit) };
        if setrlimit(Resource::Nofile, wanted).is_ok() {
            return limit;
        }
    }
    now.current.unwrap_or(u64::MAX)
}

/// Returns true if a program of this name is on the PATH, or in a directory of root's.
pub fn is_installed(program: &str) -> bool {
    find_program(program).is_some()
}

fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|path| path.is_file())
}
