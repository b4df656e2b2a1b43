//! The shapes of trees, and the work of several threads on them: create, walk, remove.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde::Serialize;

use crate::driver::Driver;
use crate::driver::tree::{Visit, remove_one, walk};
use crate::program::fs_mark::{Iteration, Options as FsMark, Run, Sync as SyncMethod};
use crate::random::Random;

/// Depth of the directory chain in a deep tree.
const DEPTH: u64 = 32;
/// The time stamp in file names, the same in every run.
const STAMP: u64 = 0x55e9_0000;

/// The distribution of files over directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A directory with subdirectories for each thread: the test as published.
    Separate,
    /// One directory for all threads.
    Shared,
    /// A chain of 32 directories for each thread, with files in each directory.
    Deep,
    /// A directory for each pair of threads: one creates files, the other removes them.
    Racing,
}

impl Shape {
    /// Returns the name of the shape.
    pub fn name(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Shared => "shared",
            Self::Deep => "deep",
            Self::Racing => "racing",
        }
    }

    /// Describes the shape in a phrase.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Separate => "a directory for each thread",
            Self::Shared => "one directory for all threads",
            Self::Deep => "deep trees: a chain of 32 directories for each thread",
            Self::Racing => "removal races with creation: two threads in each directory",
        }
    }
}

/// The parameters of a tree.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Distribution of files.
    pub shape: Shape,
    /// Number of threads.
    pub threads: usize,
    /// Files per thread and iteration.
    pub files: u64,
    /// Iterations.
    pub loops: u64,
    /// Bytes of a file.
    pub size: u64,
    /// Subdirectories of each directory, if the shape has any.
    pub subdirs: usize,
    /// The same seed gives the same names.
    pub seed: u64,
}

/// Returns the name of the directory of thread `n`.
fn dir_name(n: usize) -> Vec<u8> {
    n.to_string().into_bytes()
}

impl Plan {
    /// Returns the number of files that all threads create.
    pub(super) fn all_files(&self) -> u64 {
        self.files.saturating_mul(self.loops).saturating_mul(self.creators())
    }

    /// Returns the number of threads that create files.
    pub(super) fn creators(&self) -> u64 {
        match self.shape {
            Shape::Racing => self.dirs() as u64,
            _ => self.threads as u64,
        }
    }

    /// Returns the number of directories in the root.
    pub(super) fn dirs(&self) -> usize {
        match self.shape {
            Shape::Separate | Shape::Deep => self.threads,
            Shape::Shared => 1,
            Shape::Racing => self.threads.div_ceil(2),
        }
    }

    /// Creates the directories in the root.
    pub(super) fn prepare<D: Driver>(&self, driver: &D) -> io::Result<()> {
        let root = driver.root()?;
        (0..self.dirs()).try_for_each(|n| driver.make_dir(&root, &dir_name(n)))
    }

    fn open<D: Driver>(&self, driver: &D, thread: usize) -> io::Result<D::Dir> {
        driver.open_dir(&driver.root()?, &dir_name(thread % self.dirs()))
    }

    /// Prepares fs_mark with this plan.
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

    /// Creates the files of thread `thread` in a deep tree, and returns the number of names.
    pub(super) fn deep<D: Driver>(&self, driver: &D, thread: usize) -> io::Result<u64> {
        let mut random = Random::stream(self.seed, thread as u64);
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

    /// Creates files as thread `thread`, or removes them behind the creating thread. Returns the
    /// number of names.
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
        let mut random = Random::stream(self.seed, pair as u64);
        for n in 0..self.files * self.loops {
            let name = file_name(&mut random, n);
            if !removes {
                let made = make_file(driver, &dir, &name, &content);
                // After an error the removing thread must not wait forever.
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

    /// Visits the part of the tree that belongs to thread `thread`: the names below its directory,
    /// or, in one directory for all threads, the names whose hash selects the thread.
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

    /// Calls stat on every name, and returns the number of names.
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

    /// Lists every directory, and returns the number of names.
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

    /// Removes everything, and returns the number of names.
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
    let _ = write!(name, "{:016x}", random.next_u64());
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

/// Runs all iterations of fs_mark.
pub(super) fn iterations<D: Driver>(run: &mut Run<'_, D>) -> io::Result<Vec<Iteration>> {
    let mut iterations = Vec::new();
    while let Some(iteration) = run.next_iteration()? {
        iterations.push(iteration);
    }
    Ok(iterations)
}

/// Returns true if the filesystem does not support the operation at all.
pub(super) fn is_unsupported(err: &io::Error) -> bool {
    err.kind() == ErrorKind::Unsupported
}
