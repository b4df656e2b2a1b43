//! What trees look like, and the work on them: made, walked, removed, by several threads.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde::Serialize;

use crate::driver::Driver;
use crate::driver::tree::{Visit, remove_one, walk};
use crate::program::fs_mark::{Iteration, Options as FsMark, Run, Sync as SyncMethod};
use crate::random::Random;

/// Directories below each other in a deep tree.
const DEPTH: u64 = 32;
/// Time stamp in names: the same in every run.
const STAMP: u64 = 0x55e9_0000;

/// How files are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A directory for each thread, with subdirectories: the test as it was published.
    Separate,
    /// All threads in one directory.
    Shared,
    /// A chain of 32 directories for each thread, files in each.
    Deep,
    /// A directory for each two threads: one creates, the other removes what was created.
    Racing,
}

impl Shape {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Separate => "a directory for each thread",
            Self::Shared => "one directory for all threads",
            Self::Deep => "deep trees: 32 directories below each other for each thread",
            Self::Racing => "removal races creation: two threads in each directory",
        }
    }
}

/// Which tree.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How files are spread.
    pub shape: Shape,
    /// Threads.
    pub threads: usize,
    /// Files of each thread in an iteration.
    pub files: u64,
    /// Iterations.
    pub loops: u64,
    /// Bytes in a file.
    pub size: u64,
    /// Subdirectories of each directory, where it has some.
    pub subdirs: usize,
    /// The same seed makes the same names.
    pub seed: u64,
}

/// The directory of thread `n`.
fn dir_name(n: usize) -> Vec<u8> {
    n.to_string().into_bytes()
}

impl Plan {
    /// Directories in the root.
    fn dirs(&self) -> usize {
        match self.shape {
            Shape::Separate | Shape::Deep => self.threads,
            Shape::Shared => 1,
            Shape::Racing => self.threads.div_ceil(2),
        }
    }

    /// Makes the directories that everything is in.
    pub(super) fn prepare<D: Driver>(&self, driver: &D) -> io::Result<()> {
        let root = driver.root()?;
        (0..self.dirs()).try_for_each(|n| driver.make_dir(&root, &dir_name(n)))
    }

    fn open<D: Driver>(&self, driver: &D, thread: usize) -> io::Result<D::Dir> {
        driver.open_dir(&driver.root()?, &dir_name(thread % self.dirs()))
    }

    /// fs_mark with this plan.
    pub(super) fn fs_mark<'d, D: Driver>(&self, driver: &'d D) -> io::Result<Run<'d, D>> {
        let subdirs = if self.shape == Shape::Separate { self.subdirs } else { 0 };
        let options = FsMark {
            threads: self.threads,
            subdirs,
            per_subdir: if subdirs > 1 { self.files.div_ceil(subdirs as u64).max(1) } else { 0 },
            files: self.files,
            loops: self.loops,
            size: self.size,
            keep: true,
            sync: SyncMethod::Never,
            seed: self.seed,
            stamp: Some(STAMP),
            ..FsMark::default()
        };
        let dirs = (0..self.dirs()).map(|n| self.open(driver, n)).collect::<io::Result<_>>()?;
        Run::new(driver, dirs, options)
    }

    /// Makes the files of thread `thread` in a deep tree; answers how many names that were.
    pub(super) fn deep<D: Driver>(&self, driver: &D, thread: usize) -> io::Result<u64> {
        let mut random = Random::of(self.seed, thread as u64);
        let content = vec![b'x'; usize::try_from(self.size).unwrap_or(0)];
        let mut dir = self.open(driver, thread)?;
        let (mut made, all) = (0, self.files * self.loops);
        for level in 0..DEPTH {
            let name = format!("level{level:02}").into_bytes();
            driver.make_dir(&dir, &name)?;
            dir = driver.open_dir(&dir, &name)?;
            for n in 0..all / DEPTH + u64::from(level < all % DEPTH) {
                make_file(driver, &dir, &file_name(&mut random, n), &content)?;
                made += 1;
            }
        }
        Ok(made + DEPTH)
    }

    /// Thread `thread` creates, or removes behind the other; answers how many names that were.
    pub(super) fn racing<D: Driver>(
        &self,
        driver: &D,
        thread: usize,
        created: &[AtomicU64],
    ) -> io::Result<u64> {
        let dirs = self.dirs();
        let (pair, removes) = (thread % dirs, thread >= dirs);
        let (dir, created) = (self.open(driver, pair)?, &created[pair]);
        let content = vec![b'x'; usize::try_from(self.size).unwrap_or(0)];
        let mut random = Random::of(self.seed, pair as u64);
        for n in 0..self.files * self.loops {
            let name = file_name(&mut random, n);
            if !removes {
                let made = make_file(driver, &dir, &name, &content);
                // Who waits for it must not wait for ever.
                let reached = if made.is_ok() { n + 1 } else { u64::MAX };
                created.store(reached, Ordering::Release);
                made?;
                continue;
            }
            while created.load(Ordering::Acquire) <= n {
                thread::yield_now();
            }
            driver.unlink(&dir, &name)?;
        }
        Ok(self.files * self.loops)
    }

    /// The part of the tree that is thread `thread`'s: what lies below its directory; of one directory for all, its
    /// share of the names.
    fn part<D: Driver>(
        &self,
        driver: &D,
        thread: usize,
        visit: &mut Visit<'_, D>,
    ) -> io::Result<()> {
        let threads = u32::try_from(self.threads).unwrap_or(1);
        let hashed = |name: &[u8]| usize::try_from(xfskit_crc::crc32c(name) % threads).unwrap_or(0);
        let mine = |name: &[u8]| self.dirs() == self.threads || hashed(name) == thread;
        let dir = self.open(driver, thread)?;
        walk(driver, &dir, &mut |dir, name, kind| {
            if mine(name) { visit(dir, name, kind) } else { Ok(()) }
        })
    }

    /// Stats every name; answers how many there are.
    pub(super) fn find<D: Driver>(&self, driver: &D, thread: usize) -> io::Result<u64> {
        let (mut found, mut newest) = (0, i64::MIN);
        self.part(driver, thread, &mut |dir, name, _| {
            newest = newest.max(driver.stat(dir, name)?.ctime);
            found += 1;
            Ok(())
        })?;
        std::hint::black_box(newest);
        Ok(found)
    }

    /// Lists every directory; answers how many names there are.
    pub(super) fn list<D: Driver>(&self, driver: &D, thread: usize) -> io::Result<u64> {
        let mut found = 0;
        if thread < self.dirs() {
            let dir = self.open(driver, thread)?;
            walk(driver, &dir, &mut |_, name, _| {
                found += u64::from(!std::hint::black_box(name).is_empty());
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Removes everything; answers how many names that were.
    pub(super) fn remove<D: Driver>(&self, driver: &D, thread: usize) -> io::Result<u64> {
        let mut removed = 0;
        self.part(driver, thread, &mut |dir, name, kind| {
            removed += 1;
            remove_one(driver, dir, name, kind)
        })?;
        Ok(removed)
    }
}

fn file_name(random: &mut Random, n: u64) -> Vec<u8> {
    let mut name = format!("{n:012}");
    let _ = write!(name, "{:016x}", random.number());
    name.into_bytes()
}

fn make_file<D: Driver>(driver: &D, dir: &D::Dir, name: &[u8], content: &[u8]) -> io::Result<()> {
    if content.is_empty() {
        return driver.create_empty(dir, name);
    }
    let file = driver.create(dir, name)?;
    driver.write(&file, 0, content)?;
    driver.close(file)
}

/// All iterations of fs_mark.
pub(super) fn iterations<D: Driver>(run: &mut Run<'_, D>) -> io::Result<Vec<Iteration>> {
    let mut iterations = Vec::new();
    while let Some(iteration) = run.next_iteration()? {
        iterations.push(iteration);
    }
    Ok(iterations)
}

/// True for an error that says that a filesystem cannot do this at all.
pub(super) fn unsupported(err: &io::Error) -> bool {
    err.kind() == ErrorKind::Unsupported
}
