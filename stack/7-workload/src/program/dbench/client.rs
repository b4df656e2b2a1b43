//! A client: performs the operations of the load as a file server would.
//!
//! Names are looked up as by a server that ignores case. If a name does not exist as written, its
//! directory is searched for one that differs only in case. Directories stay open once they were
//! opened, so a path costs a look-up of its last component only.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use super::load::{Line, Load, Op, PathId};
use super::tally::Tally;
use super::{Options, ServerAttr, Shared};
use crate::driver::{Driver, Kind, Stat, tree};
use crate::random::Random;

/// Create dispositions that create a missing file: supersede, create, open or create, overwrite or
/// create.
const MAKES: [u32; 4] = [0, 2, 3, 5];
/// Create dispositions that truncate an existing file.
const EMPTIES: [u32; 3] = [0, 4, 5];

enum Opened<'d, D: Driver + 'd> {
    File(D::File<'d>),
    Directory,
}

pub(super) struct Client<'r, D: Driver> {
    driver: &'r D,
    load: &'r Load,
    options: &'r Options,
    shared: &'r Shared,
    number: usize,
    /// The last component of each path.
    names: Vec<Rc<[u8]>>,
    /// Directories that are open, by path.
    dirs: Vec<Option<Rc<D::Dir>>>,
    opened: HashMap<u32, Opened<'r, D>>,
    buf: Vec<u8>,
    random: Random,
    tally: Tally,
}

impl<'r, D: Driver> Client<'r, D> {
    pub(super) fn new(
        driver: &'r D,
        load: &'r Load,
        options: &'r Options,
        shared: &'r Shared,
        number: usize,
    ) -> Self {
        Self {
            driver,
            load,
            options,
            shared,
            number,
            names: load.paths.iter().map(|node| node.name(number).into()).collect(),
            dirs: load.paths.iter().map(|_| None).collect(),
            opened: HashMap::new(),
            buf: Vec::new(),
            random: Random::stream(options.seed, number as u64),
            tally: Tally::default(),
        }
    }

    /// Repeats the load until the number of passes or the time is reached.
    pub(super) fn work(mut self) -> io::Result<Tally> {
        let mut counts = false;
        let begun = Instant::now();
        'passes: for _ in 0..self.options.loops.unwrap_or(u64::MAX) {
            for line in &self.load.lines {
                if self.shared.stop.load(Relaxed) {
                    break 'passes;
                }
                if !counts && self.shared.counts.load(Relaxed) {
                    (counts, self.tally) = (true, Tally::default());
                }
                self.line(line)?;
                self.throttle(begun);
            }
            // A load may end with open files.
            self.opened.clear();
        }
        Ok(self.tally)
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let start = Instant::now();
        let done = self.op(&line.op);
        let took = start.elapsed();
        self.tally.add(line.op.index(), took);
        self.shared.record(took);
        match done {
            Ok(()) if line.succeeds || !self.options.verify_status => Ok(()),
            Err(_) if !line.succeeds || !self.options.verify_status => Ok(()),
            // A search by mask may find names of earlier passes.
            Ok(()) if matches!(line.op, Op::Find { .. }) => Ok(()),
            Ok(()) => Err(self.failure(line, "succeeded, but the load expects a failure")),
            Err(err) if err.kind() == io::ErrorKind::StorageFull => Err(err),
            Err(err) => Err(self.failure(line, &err.to_string())),
        }
    }

    fn failure(&self, line: &Line, reason: &str) -> io::Error {
        let name = super::load::NAMES[line.op.index()];
        io::Error::other(format!("client {}, line {}: {name}: {reason}", self.number, line.number))
    }

    /// Throttles this client if it has exceeded its part of the requested rate.
    #[allow(clippy::cast_precision_loss)] // of a rate
    fn throttle(&self, begun: Instant) {
        let Some(rate) = self.options.rate else { return };
        let due = self.tally.bytes as f64 * self.options.clients as f64 / (rate * 1e6);
        let ahead = due - begun.elapsed().as_secs_f64();
        if ahead > 0.0 {
            thread::sleep(Duration::from_secs_f64(ahead.min(1.0)));
        }
    }

    fn op(&mut self, op: &Op) -> io::Result<()> {
        match *op {
            Op::Create { path, directory, disposition, handle } => {
                self.create(path, directory, disposition, handle)
            }
            Op::Close { handle } => match self.opened.remove(&handle) {
                Some(Opened::File(file)) => self.driver.close(file),
                Some(Opened::Directory) => Ok(()),
                None => Err(no_handle(handle)),
            },
            Op::Rename { from, to } => {
                self.resolve(from)?;
                let _ = self.resolve(to);
                let (from_dir, to_dir) = (self.parent(from)?, self.parent(to)?);
                self.driver.rename(&from_dir, &self.names[from], &to_dir, &self.names[to])?;
                self.sync_dirs([&from_dir, &to_dir])
            }
            Op::Unlink { path } => {
                let _ = self.resolve(path);
                let dir = self.parent(path)?;
                self.driver.unlink(&dir, &self.names[path])?;
                self.sync_dirs([&dir])
            }
            Op::Deltree { path } => self.remove(path),
            Op::Mkdir { path } => {
                let _ = self.resolve(path);
                self.make_dir(path)
            }
            Op::QueryPath { path } => self.resolve(path).map(drop),
            Op::QueryFile { handle } => {
                let Some(file) = self.file(handle)? else { return Ok(()) };
                self.driver.fstat(file)?;
                self.read_attrs(handle, self.options.xattrs)
            }
            Op::QuerySpace => self.driver.space().map(drop),
            Op::SetFile { handle } => self.set(handle),
            Op::Find { path } => self.find(path),
            Op::Write { handle, offset, size } => self.write(handle, offset, size),
            Op::Read { handle, offset, size } => self.read(handle, offset, size),
            Op::Lock { handle } => self.on_file(handle, |driver, file| driver.lock(file, true)),
            Op::Unlock { handle } => self.on_file(handle, |driver, file| driver.lock(file, false)),
            Op::Flush { handle } => self.on_file(handle, Driver::fsync),
        }
    }

    /// Returns the open file with this number; `None` if it is a directory.
    fn file(&self, handle: u32) -> io::Result<Option<&D::File<'r>>> {
        match self.opened.get(&handle) {
            Some(Opened::File(file)) => Ok(Some(file)),
            Some(Opened::Directory) => Ok(None),
            None => Err(no_handle(handle)),
        }
    }

    fn on_file(
        &self,
        handle: u32,
        act: impl FnOnce(&D, &D::File<'r>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.file(handle)?.map_or(Ok(()), |file| act(self.driver, file))
    }

    /// Returns the open directory at `path`.
    fn dir(&mut self, path: PathId) -> io::Result<Rc<D::Dir>> {
        if let Some(dir) = &self.dirs[path] {
            return Ok(dir.clone());
        }
        let dir = if path == 0 {
            self.driver.root()?
        } else {
            let parent = self.parent(path)?;
            self.driver.open_dir(&parent, &self.names[path])?
        };
        Ok(self.dirs[path].insert(Rc::new(dir)).clone())
    }

    /// Returns the open parent directory of `path`. The recursion is as deep as the path in the
    /// loadfile.
    fn parent(&mut self, path: PathId) -> io::Result<Rc<D::Dir>> {
        self.dir(self.load.paths[path].parent)
    }

    /// Looks up a name as written, and then ignoring case.
    fn resolve(&mut self, path: PathId) -> io::Result<Stat> {
        let dir = self.parent(path)?;
        let name = self.names[path].clone();
        match self.driver.stat(&dir, &name) {
            Err(err) if err.kind() == io::ErrorKind::NotFound && self.options.resolve => {
                let mut other = None;
                self.driver.read_dir(&dir, &mut |found, _| {
                    if found.eq_ignore_ascii_case(&name) {
                        other = Some(found.to_vec());
                    }
                })?;
                let Some(other) = other else { return Err(err) };
                self.names[path] = other.as_slice().into();
                self.driver.stat(&dir, &other)
            }
            found => found,
        }
    }

    fn make_dir(&mut self, path: PathId) -> io::Result<()> {
        let dir = self.parent(path)?;
        match self.driver.make_dir(&dir, &self.names[path]) {
            // Another client or an earlier pass created it.
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(err) => Err(err),
            Ok(()) => self.sync_dirs([&dir]),
        }
    }

    fn create(
        &mut self,
        path: PathId,
        directory: bool,
        disposition: u32,
        handle: u32,
    ) -> io::Result<()> {
        let there = self.resolve(path);
        if let Err(err) = &there
            && err.kind() != io::ErrorKind::NotFound
        {
            return there.map(drop);
        }
        let makes = MAKES.contains(&disposition);
        if directory && makes {
            self.make_dir(path)?;
        }
        let is_dir = there.as_ref().is_ok_and(|stat| stat.kind == Kind::Directory);
        if directory || is_dir {
            self.dir(path)?;
            self.opened.insert(handle, Opened::Directory);
            return Ok(());
        }
        let dir = self.parent(path)?;
        let file = match there {
            Err(_) if makes => self.driver.create(&dir, &self.names[path])?,
            _ => self.driver.open(&dir, &self.names[path])?,
        };
        let made = there.is_err();
        if !made && EMPTIES.contains(&disposition) {
            self.driver.truncate(&file, 0)?;
        }
        self.driver.fstat(&file)?;
        self.opened.insert(handle, Opened::File(file));
        let attrs = self.options.xattrs;
        if made { self.write_attrs(handle, attrs) } else { self.read_attrs(handle, attrs) }
    }

    /// Reads these attributes of an open file.
    fn read_attrs(&self, handle: u32, attrs: &[ServerAttr]) -> io::Result<()> {
        for attr in attrs {
            let mut value = vec![0; attr.len];
            let name = attr.name.as_bytes();
            self.on_file(handle, |driver, file| match driver.xattr(file, name, &mut value) {
                // A file need not have the attribute.
                Ok(_) | Err(_) => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Sets these attributes of an open file to new values.
    fn write_attrs(&mut self, handle: u32, attrs: &[ServerAttr]) -> io::Result<()> {
        self.read_attrs(handle, attrs)?;
        for attr in attrs {
            let mut value = vec![0; attr.len];
            for (byte, chosen) in value.iter_mut().zip(self.random.next_u64().to_le_bytes()) {
                *byte = chosen;
            }
            let name = attr.name.as_bytes();
            self.on_file(handle, |driver, file| driver.set_xattr(file, name, &value))?;
        }
        Ok(())
    }

    fn set(&mut self, handle: u32) -> io::Result<()> {
        // Some time in November 2023.
        let [atime, mtime] = [0, 1].map(|_| {
            1_700_000_000 + i64::try_from(self.random.below(1_000_000)).unwrap_or_default()
        });
        self.on_file(handle, |driver, file| {
            driver.fstat(file)?;
            driver.set_times(file, atime, mtime)
        })?;
        self.write_attrs(handle, self.options.xattrs.get(..1).unwrap_or(&[]))
    }

    fn find(&mut self, path: PathId) -> io::Result<()> {
        let _ = self.resolve(path);
        let dir = self.parent(path)?;
        let mut found = 0_u64;
        self.driver.read_dir(&dir, &mut |name, _| found += u64::from(!name.is_empty()))?;
        std::hint::black_box(found);
        Ok(())
    }

    fn grow_buffer(&mut self, size: usize) {
        if self.buf.len() < size {
            self.buf.resize(size, 0);
        }
    }

    fn write(&mut self, handle: u32, offset: u64, size: usize) -> io::Result<()> {
        self.grow_buffer(size);
        let bytes = &self.buf[..size];
        self.on_file(handle, |driver, file| {
            driver.write(file, offset, bytes)?;
            if self.options.fsync { driver.fsync(file) } else { Ok(()) }
        })?;
        self.count_bytes(size);
        Ok(())
    }

    fn read(&mut self, handle: u32, offset: u64, size: usize) -> io::Result<()> {
        self.grow_buffer(size);
        let mut buf = std::mem::take(&mut self.buf);
        let read = self.on_file(handle, |driver, file| {
            let read = driver.read(file, offset, &mut buf[..size])?;
            if read < size && self.options.verify_status {
                return Err(io::Error::other(format!("{read} bytes of {size}")));
            }
            Ok(())
        });
        self.buf = buf;
        self.count_bytes(size);
        read
    }

    fn count_bytes(&mut self, size: usize) {
        self.tally.bytes += size as u64;
        self.shared.bytes.fetch_add(size as u64, Relaxed);
    }

    fn sync_dirs<'a>(&self, dirs: impl IntoIterator<Item = &'a Rc<D::Dir>>) -> io::Result<()>
    where
        D::Dir: 'a,
    {
        if !self.options.sync_dirs {
            return Ok(());
        }
        dirs.into_iter().try_for_each(|dir| self.driver.sync_dir(dir))
    }

    /// Removes a tree if it exists.
    fn remove(&mut self, path: PathId) -> io::Result<()> {
        self.opened.clear();
        self.dirs.iter_mut().for_each(|dir| *dir = None);
        let parent = match self.parent(path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
            parent => parent?,
        };
        match tree::remove(self.driver, &parent, &self.names[path]) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map(drop),
        }
    }
}

/// Removes the files of client `number`.
pub(super) fn clean_up<D: Driver>(driver: &D, number: usize) -> io::Result<()> {
    let clients = match driver.open_dir(&driver.root()?, b"clients") {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        dir => dir?,
    };
    match tree::remove(driver, &clients, format!("client{number}").as_bytes()) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map(drop),
    }
}

fn no_handle(handle: u32) -> io::Error {
    io::Error::other(format!("file {handle} is not open"))
}
