//! Operations on one tree.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use super::dataset::{Dataset, File};
use crate::driver::{Driver, Kind, tree};

/// Limit of open directories, below the limit of file descriptors.
const OPEN_MAX: usize = 200;

/// A tree in the directory `name` below the root.
pub(super) struct Tree<'t, D: Driver> {
    driver: &'t D,
    set: &'t Dataset,
    name: &'t [u8],
    buffer: &'t mut [u8],
    dirs: HashMap<usize, Rc<D::Dir>>,
}

impl<'t, D: Driver> Tree<'t, D> {
    pub(super) fn new(
        driver: &'t D,
        set: &'t Dataset,
        name: &'t [u8],
        buffer: &'t mut [u8],
    ) -> Self {
        Self { driver, set, name, buffer, dirs: HashMap::new() }
    }

    /// Opens directory `n` of the dataset.
    fn dir(&mut self, n: usize) -> io::Result<Rc<D::Dir>> {
        if let Some(dir) = self.dirs.get(&n) {
            return Ok(dir.clone());
        }
        let dir = if n == 0 {
            self.driver.open_dir(&self.driver.root()?, self.name)?
        } else {
            let parent = self.dir(self.set.dirs[n].parent)?;
            self.driver.open_dir(&parent, &self.set.dirs[n].name)?
        };
        if self.dirs.len() >= OPEN_MAX {
            self.dirs.clear();
        }
        let dir = Rc::new(dir);
        self.dirs.insert(n, dir.clone());
        Ok(dir)
    }

    /// Creates the directories.
    pub(super) fn make_dirs(&mut self) -> io::Result<()> {
        self.driver.make_dir(&self.driver.root()?, self.name)?;
        for n in 1..self.set.dirs.len() {
            let parent = self.dir(self.set.dirs[n].parent)?;
            self.driver.make_dir(&parent, &self.set.dirs[n].name)?;
        }
        Ok(())
    }

    /// Writes new files, and returns the number of bytes.
    pub(super) fn write(&mut self, files: &[File]) -> io::Result<u64> {
        for file in files {
            let dir = self.dir(file.dir)?;
            let open = self.driver.create(&dir, &file.name)?;
            self.fill(open, file.size)?;
        }
        Ok(super::dataset::bytes(files))
    }

    fn fill(&self, open: D::File<'_>, size: u64) -> io::Result<()> {
        let mut offset = 0;
        while offset < size {
            let length = usize::try_from(size - offset)
                .map_or(self.buffer.len(), |left| left.min(self.buffer.len()));
            self.driver.write(&open, offset, &self.buffer[..length])?;
            offset += length as u64;
        }
        self.driver.close(open)
    }

    /// Reads each of these files if it exists, and rewrites it. Returns the number of bytes
    /// written.
    pub(super) fn patch(&mut self, files: &[File], unlink_first: bool) -> io::Result<u64> {
        for file in files {
            let dir = self.dir(file.dir)?;
            let open = match self.driver.open(&dir, &file.name) {
                Err(err) if err.kind() == io::ErrorKind::NotFound => {
                    self.driver.create(&dir, &file.name)?
                }
                open => {
                    let open = open?;
                    self.read_all(&open)?;
                    if unlink_first {
                        self.driver.close(open)?;
                        self.driver.unlink(&dir, &file.name)?;
                        self.driver.create(&dir, &file.name)?
                    } else {
                        self.driver.truncate(&open, 0)?;
                        open
                    }
                }
            };
            self.fill(open, file.size)?;
        }
        Ok(super::dataset::bytes(files))
    }

    /// Removes these files, and returns the sum of their sizes.
    pub(super) fn unlink(&mut self, files: &[File]) -> io::Result<u64> {
        for file in files {
            let dir = self.dir(file.dir)?;
            self.driver.unlink(&dir, &file.name)?;
        }
        Ok(super::dataset::bytes(files))
    }

    fn read_all(&mut self, open: &D::File<'_>) -> io::Result<u64> {
        // The null driver's files never end.
        let size = self.driver.fstat(open)?.size;
        let mut offset = 0;
        while offset < size {
            match self.driver.read(open, offset, self.buffer)? {
                0 => break,
                read => offset += read as u64,
            }
        }
        Ok(offset)
    }

    /// Reads every file in directory order, and returns the number of bytes.
    pub(super) fn read(&mut self) -> io::Result<u64> {
        let (driver, mut bytes) = (self.driver, 0);
        let root = driver.open_dir(&driver.root()?, self.name)?;
        tree::walk(driver, &root, &mut |dir, name, kind| {
            if kind == Kind::Directory {
                return Ok(());
            }
            let open = driver.open(dir, name)?;
            bytes += self.read_all(&open)?;
            driver.close(open)
        })?;
        Ok(bytes)
    }

    /// Calls stat on every name, and returns the number of names.
    pub(super) fn stat(&mut self) -> io::Result<u64> {
        let (driver, mut names) = (self.driver, 0);
        let root = driver.open_dir(&driver.root()?, self.name)?;
        tree::walk(driver, &root, &mut |dir, name, _| {
            names += 1;
            driver.stat(dir, name).map(drop)
        })?;
        Ok(names)
    }

    /// Removes the tree, and returns the number of names.
    pub(super) fn remove(&mut self) -> io::Result<u64> {
        self.dirs.clear();
        tree::remove(self.driver, &self.driver.root()?, self.name)
    }

    /// Returns the position of each file in directory order.
    pub(super) fn order(&mut self) -> io::Result<HashMap<(usize, Vec<u8>), usize>> {
        let mut order = HashMap::new();
        for n in 0..self.set.dirs.len() {
            let dir = self.dir(n)?;
            let next = order.len();
            let mut names = Vec::new();
            self.driver.read_dir(&dir, &mut |name, kind| {
                if kind != Kind::Directory {
                    names.push(name.to_vec());
                }
            })?;
            order.extend(names.into_iter().enumerate().map(|(at, name)| ((n, name), next + at)));
        }
        Ok(order)
    }
}
