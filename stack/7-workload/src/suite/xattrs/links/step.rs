//! The steps of the part on links, as jobs on any driver. None holds more in memory than the names
//! of one directory.

use std::io;
use std::ops::Range;

use serde::Serialize;

use super::Design;
use crate::Driver;
use crate::driver::Space;
use crate::driver::engine::MEMORY;
use crate::kernel::drop_clean;
use crate::measure::usage::{Stopwatch, Usage, peak_memory, reset_peak_memory};
use crate::suite::xattrs::space::FILE;
use crate::testbed::{CheckResult, Job, TestVolume};

/// Links per directory.
const IN_DIRECTORY: u64 = 100_000;
/// Offset between two directory entries in units of 8 bytes, for the published design. An entry
/// with a name of this length takes 32 bytes.
const ENTRY_STEP: u64 = 4;
/// Paths that are looked up from the root.
const PATHS: usize = 10_000;

/// A step. Each begins with empty caches, if that is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Step {
    /// Makes the links, and syncs.
    Made,
    /// Lists the names in all directories.
    Listed,
    /// Lists the parent pointers of the inode.
    Parents,
    /// Returns paths of the inode by its parent pointers, and looks each of them up.
    Found,
    /// Removes the links, and syncs.
    Removed,
    /// Checks the unmounted volume.
    Checked,
}

impl Step {
    /// The steps after the links were made.
    pub(super) const LATER: [Self; 5] =
        [Self::Listed, Self::Parents, Self::Found, Self::Removed, Self::Checked];

    /// Returns the name that reports use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Listed => "directories listed",
            Self::Parents => "parent pointers listed",
            Self::Found => "paths found",
            Self::Removed => "removed",
            Self::Checked => "checked",
        }
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct StepOutcome {
    pub(super) step: Step,
    /// Links, or paths, or inodes for the check.
    pub(super) operations: u64,
    pub(super) usage: Usage,
    /// Peak memory of this process in bytes.
    pub(super) peak_memory: Option<u64>,
    /// Change of the used space of the volume in bytes; `None` for the check.
    pub(super) space: Option<i64>,
    /// Caches were empty when the step began.
    pub(super) cold: bool,
}

/// A step as a job; returns `None` if the driver does not support it.
pub(super) struct Work {
    pub(super) step: Step,
    pub(super) design: Design,
    pub(super) links: u64,
}

fn link_name(n: u64) -> Vec<u8> {
    format!("link{n:011}").into_bytes()
}

fn dir_name(n: u64) -> Vec<u8> {
    format!("dir{n:03}").into_bytes()
}

/// Returns the number of a link with this name.
fn number_of(name: &[u8]) -> Option<u64> {
    std::str::from_utf8(name).ok()?.strip_prefix("link")?.parse().ok()
}

impl Job for Work {
    type Output = Option<StepOutcome>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Option<StepOutcome>> {
        if self.step == Step::Made {
            let root = driver.root()?;
            driver.create_empty(&root, FILE)?;
            self.dirs().try_for_each(|n| driver.make_dir(&root, &dir_name(n)))?;
        }
        let cold = match driver.drop_caches() {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => false,
            dropped => dropped.map(|()| true)?,
        };
        let driver = &*driver;
        let before = used(driver)?;
        reset_peak_memory();
        let watch = Stopwatch::start()?;
        let done = match self.step {
            Step::Made => self.make(driver),
            Step::Listed => self.list(driver),
            Step::Parents => self.list_parents(driver),
            Step::Found => find(driver),
            Step::Removed => self.remove(driver),
            Step::Checked => Err(io::ErrorKind::Unsupported.into()),
        };
        let operations = match done {
            Err(err) if err.kind() == io::ErrorKind::Unsupported => return Ok(None),
            done => done?,
        };
        driver.sync()?;
        let (usage, peak_memory) = (watch.read()?, peak_memory());
        let space = i64::try_from(i128::from(used(driver)?) - i128::from(before)).ok();
        Ok(Some(StepOutcome { step: self.step, operations, usage, peak_memory, space, cold }))
    }
}

/// Returns the used bytes of the volume.
fn used<D: Driver>(driver: &D) -> io::Result<u64> {
    let Space { total, free } = driver.space()?;
    Ok(total.saturating_sub(free))
}

impl Work {
    /// Returns the numbers of the directories.
    fn dirs(&self) -> Range<u64> {
        0..self.links.div_ceil(IN_DIRECTORY)
    }

    /// Returns the numbers of the links in directory `dir`.
    fn links_in(&self, dir: u64) -> Range<u64> {
        let start = dir * IN_DIRECTORY;
        start..self.links.min(start + IN_DIRECTORY)
    }

    fn make<D: Driver>(&self, driver: &D) -> io::Result<u64> {
        let root = driver.root()?;
        let file = driver.open(&root, FILE)?;
        for number in self.dirs() {
            let dir = driver.open_dir(&root, &dir_name(number))?;
            let ino = driver.stat(&root, &dir_name(number))?.ino;
            for n in self.links_in(number) {
                if self.design == Design::Published {
                    // The driver's stat has no generation, and any number serves.
                    let (generation, offset) = (0x5eed_u32, n % IN_DIRECTORY * ENTRY_STEP);
                    let name = format!("trusted.{ino:016x}{generation:08x}{offset:08x}");
                    driver.set_xattr(&file, name.as_bytes(), &link_name(n))?;
                } else {
                    driver.link(&root, FILE, &dir, &link_name(n))?;
                }
            }
        }
        driver.close(file)?;
        Ok(self.links)
    }

    fn list<D: Driver>(&self, driver: &D) -> io::Result<u64> {
        let root = driver.root()?;
        let mut met = Met::default();
        for number in self.dirs() {
            let dir = driver.open_dir(&root, &dir_name(number))?;
            let expected = self.links_in(number);
            driver.read_dir(&dir, &mut |name, _| {
                met.add(number_of(name).filter(|n| expected.contains(n)));
            })?;
        }
        met.verify("the directories", self.links)
    }

    fn list_parents<D: Driver>(&self, driver: &D) -> io::Result<u64> {
        let root = driver.root()?;
        let ino_of = |n| driver.stat(&root, &dir_name(n)).map(|stat| stat.ino);
        let dirs: Vec<u64> = self.dirs().map(ino_of).collect::<io::Result<_>>()?;
        let (mut met, mut first_names) = (Met::default(), 0_u64);
        let file = driver.open(&root, FILE)?;
        driver.parents(&file, &mut |dir, name| {
            if name == FILE {
                first_names += 1;
                return;
            }
            let number = number_of(name);
            let expected = number.and_then(|n| dirs.get(usize::try_from(n / IN_DIRECTORY).ok()?));
            met.add(number.filter(|_| expected == Some(&dir)));
        })?;
        driver.close(file)?;
        if first_names != 1 {
            return Err(io::Error::other("the parent pointer of the first name is not there once"));
        }
        met.verify("the parent pointers", self.links)
    }

    fn remove<D: Driver>(&self, driver: &D) -> io::Result<u64> {
        let root = driver.root()?;
        for number in self.dirs() {
            let dir = driver.open_dir(&root, &dir_name(number))?;
            self.links_in(number).try_for_each(|n| driver.unlink(&dir, &link_name(n)))?;
        }
        match driver.stat(&root, FILE)?.nlink {
            1 => Ok(self.links),
            left => Err(io::Error::other(format!("{left} names are left instead of one"))),
        }
    }
}

/// The links that a list contained: their count and the sum of their numbers, so that a missing one
/// and one listed twice are noticed without the memory for all of them.
#[derive(Default)]
struct Met {
    count: u64,
    sum: u128,
    /// Names that are not links, or not in this place.
    strange: u64,
}

impl Met {
    fn add(&mut self, number: Option<u64>) {
        match number {
            Some(n) => (self.count, self.sum) = (self.count + 1, self.sum + u128::from(n)),
            None => self.strange += 1,
        }
    }

    /// Fails if the list was not that of all `links`.
    fn verify(&self, what: &str, links: u64) -> io::Result<u64> {
        let sum = u128::from(links) * u128::from(links.saturating_sub(1)) / 2;
        if (self.count, self.sum, self.strange) == (links, sum, 0) {
            return Ok(links);
        }
        let Self { count, strange, .. } = self;
        Err(io::Error::other(format!(
            "{what} list {count} links of {links}, some of them wrong, and {strange} other names"
        )))
    }
}

/// Looks paths of the file up from the root: each must lead to the file.
fn find<D: Driver>(driver: &D) -> io::Result<u64> {
    let root = driver.root()?;
    let file = driver.open(&root, FILE)?;
    let (ino, paths) = (driver.fstat(&file)?.ino, driver.paths(&file, PATHS)?);
    driver.close(file)?;
    for path in &paths {
        let mut names = path.split(|byte| *byte == b'/').skip(1);
        let (first, second) = (names.next().unwrap_or_default(), names.next());
        let found = match second {
            Some(name) => driver.stat(&driver.open_dir(&root, first)?, name)?.ino,
            None => driver.stat(&root, first)?.ino,
        };
        if found != ino {
            let path = String::from_utf8_lossy(path);
            return Err(io::Error::other(format!(
                "{path} leads to inode {found} instead of {ino}"
            )));
        }
    }
    Ok(paths.len() as u64)
}

/// Unmounts and checks `volume` with `check`: older versions of `xfs_repair` do not know parent
/// pointers.
///
/// # Errors
/// If it is not clean.
pub(super) fn check(volume: &mut TestVolume, threads: usize) -> io::Result<StepOutcome> {
    volume.unmount()?;
    let cold = volume.storage() == MEMORY || drop_clean().is_ok();
    let CheckResult { clean, inodes, usage, peak_memory, .. } = volume.check_by_xfskit(threads)?;
    if !clean {
        let name = volume.name();
        return Err(io::Error::other(format!("check found corruption on the volume of {name}")));
    }
    let operations = inodes.unwrap_or(0);
    Ok(StepOutcome { step: Step::Checked, operations, usage, peak_memory, space: None, cold })
}
