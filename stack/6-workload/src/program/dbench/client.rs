//! A client: does what the lines ask for, as a file server would.
//!
//! Names are looked up as a server does that must not mind case: where a name is not there as it is written, its
//! directory is read for one that differs in case only. Directories that were opened stay open, so that a path
//! costs its last component.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use super::load::{Line, Load, Op, PathId};
use super::tally::Tally;
use super::{Options, Shared};
use crate::driver::{Driver, Kind, Stat, tree};
use crate::random::Random;

/// The attribute that servers keep what DOS knew of a file in.
const DOS: &[u8] = b"user.DosAttrib";
/// Dispositions that make a file which is not there: supersede, create, open or create, overwrite or create.
const MAKES: [u32; 4] = [0, 2, 3, 5];
/// Those that empty one which is there.
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
            names: load.paths.iter().map(|place| place.name(number).into()).collect(),
            dirs: load.paths.iter().map(|_| None).collect(),
            opened: HashMap::new(),
            buf: Vec::new(),
            random: Random::of(options.seed, number as u64),
            tally: Tally::default(),
        }
    }

    /// Goes through the load again and again, until that is often enough or the time is over.
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
                self.hold_back(begun);
            }
            // A load may end with files that are open.
            self.opened.clear();
        }
        Ok(self.tally)
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let start = Instant::now();
        let done = self.op(&line.op);
        let took = start.elapsed();
        self.tally.add(line.op.index(), took);
        self.shared.note(took);
        match done {
            Ok(()) if line.succeeds || !self.options.checked => Ok(()),
            Err(_) if !line.succeeds || !self.options.checked => Ok(()),
            // What is looked for by a mask may well be there.
            Ok(()) if matches!(line.op, Op::Find { .. }) => Ok(()),
            Ok(()) => Err(self.failure(line, "succeeded, which it was not to")),
            Err(err) if err.kind() == io::ErrorKind::StorageFull => Err(err),
            Err(err) => Err(self.failure(line, &err.to_string())),
        }
    }

    fn failure(&self, line: &Line, why: &str) -> io::Error {
        let name = super::load::NAMES[line.op.index()];
        io::Error::other(format!("client {}, line {}: {name}: {why}", self.number, line.number))
    }

    /// Waits where this client has moved more than its share of the rate that was asked for.
    #[allow(clippy::cast_precision_loss)] // of a rate
    fn hold_back(&self, begun: Instant) {
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
                self.dos_of(handle)
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

    /// The open file of that number; `None` where it is a directory.
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

    /// The directory at `path`, open.
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

    /// The directory that `path` is in, open. Depth is that of the path, as the loadfile has it.
    fn parent(&mut self, path: PathId) -> io::Result<Rc<D::Dir>> {
        self.dir(self.load.paths[path].parent)
    }

    /// Looks a name up, as it is written and then without minding case.
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
            // Another client was first, or an earlier pass.
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
        if made { self.set_dos(handle) } else { self.dos_of(handle) }
    }

    /// Reads the attribute that servers keep, where that is wanted and it is there.
    fn dos_of(&self, handle: u32) -> io::Result<()> {
        if !self.options.xattr {
            return Ok(());
        }
        let mut value = vec![0; self.options.xattr_len];
        self.on_file(handle, |driver, file| match driver.xattr(file, DOS, &mut value) {
            // Not every file has one.
            Ok(_) | Err(_) => Ok(()),
        })
    }

    /// Sets it anew.
    fn set_dos(&mut self, handle: u32) -> io::Result<()> {
        self.dos_of(handle)?;
        if !self.options.xattr {
            return Ok(());
        }
        let mut value = vec![0; self.options.xattr_len];
        for (byte, chosen) in value.iter_mut().zip(self.random.number().to_le_bytes()) {
            *byte = chosen;
        }
        self.on_file(handle, |driver, file| driver.set_xattr(file, DOS, &value))
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
        self.set_dos(handle)
    }

    fn find(&mut self, path: PathId) -> io::Result<()> {
        let _ = self.resolve(path);
        let dir = self.parent(path)?;
        let mut found = 0_u64;
        self.driver.read_dir(&dir, &mut |name, _| found += u64::from(!name.is_empty()))?;
        std::hint::black_box(found);
        Ok(())
    }

    fn room(&mut self, size: usize) {
        if self.buf.len() < size {
            self.buf.resize(size, 0);
        }
    }

    fn write(&mut self, handle: u32, offset: u64, size: usize) -> io::Result<()> {
        self.room(size);
        let bytes = &self.buf[..size];
        self.on_file(handle, |driver, file| {
            driver.write(file, offset, bytes)?;
            if self.options.fsync { driver.fsync(file) } else { Ok(()) }
        })?;
        self.moved(size);
        Ok(())
    }

    fn read(&mut self, handle: u32, offset: u64, size: usize) -> io::Result<()> {
        self.room(size);
        let mut buf = std::mem::take(&mut self.buf);
        let read = self.on_file(handle, |driver, file| {
            let read = driver.read(file, offset, &mut buf[..size])?;
            if read < size && self.options.checked {
                return Err(io::Error::other(format!("{read} bytes of {size}")));
            }
            Ok(())
        });
        self.buf = buf;
        self.moved(size);
        read
    }

    fn moved(&mut self, size: usize) {
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

    /// Removes a tree, where it is.
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

/// Removes what client `number` has made.
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
