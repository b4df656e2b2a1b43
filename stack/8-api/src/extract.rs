//! A tree copied out of a volume.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xfskit_copy::{self as copy, Event, GetOptions, SkippedCount};
use xfskit_vfs::{Follow, Inode};

use crate::builder::{cancel_method, notices_method, progress_method};
use crate::cause::Cause;
use crate::notice::{Notice, ProblemKind, Problems};
use crate::progress::Control;
use crate::shared::Owner;
use crate::{CancelToken, Error, Problem, Progress, Result, Volume};

/// Copies a file or a tree out of a volume, with owners, times, attributes, holes and links: a
/// builder.
///
/// Damage does not end a copy: [`Extracted::problems`] lists what could not be copied.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let volume = xfskit::Volume::open("disk.img")?;
/// xfskit::Extract::new(&volume, "/home").to_dir("./home")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is copied until `to_dir` or `to_tar` is called"]
pub struct Extract<'c> {
    volume: Volume,
    path: PathBuf,
    threads: usize,
    control: Control<'c>,
}

/// What an [`Extract`] copied.
#[derive(Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Extracted {
    /// Files, directories, links and devices.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// The counts of what could not be restored.
    pub skipped: Vec<SkippedCount>,
    /// What could not be copied, and why, unless [`Extract::notices`] received it.
    #[serde(skip)]
    pub problems: Vec<Problem>,
}

/// A running copy.
struct Run<'r, 'c> {
    owner: &'r Owner,
    control: &'r Control<'c>,
    problems: Problems<'r, 'c>,
    done: AtomicU64,
}

impl<'r, 'c> Run<'r, 'c> {
    fn of(extract: &'r Extract<'c>) -> Self {
        let (owner, control) = (&extract.volume.owner, &extract.control);
        Self { owner, control, problems: Problems::of(&control.notices), done: AtomicU64::new(0) }
    }

    fn take(&self, event: Event<'_>) {
        let _inside = self.owner.inside();
        let (path, kind) = match event {
            // Only a salvage looks beyond the names.
            Event::Found(_) | Event::GroupDamaged { .. } => return,
            Event::Done { .. } => {
                let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
                return self.control.report(done, 0);
            }
            Event::Damaged { path, error, .. } => (path, ProblemKind::Volume(Error::new(error))),
            Event::Refused { path, error } => (path, ProblemKind::Destination(error)),
            Event::Skipped { path, what } => (path, ProblemKind::Skipped(what)),
        };
        self.problems.add(path, kind);
    }

    fn end(self, report: copy::Report) -> Extracted {
        let copy::Report { files, bytes, skipped } = report;
        self.problems.skipped(&skipped);
        Extracted { files, bytes, skipped, problems: self.problems.end() }
    }
}

impl<'c> Extract<'c> {
    /// Returns a copy of what `path` names in `volume`. A symbolic link there is copied, not
    /// followed, unless the path ends with a slash.
    pub fn new(volume: &Volume, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        Self { volume: volume.clone(), path, threads: 0, control: Control::default() }
    }

    /// Copies with so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    progress_method! {
        /// Receives the progress, in files.
    }

    notices_method! {
        /// Receives what could not be copied, from many threads, as it is met.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled). What was
        /// copied is still there.
    }

    /// Copies to `dest`, which does not exist, or is an empty directory for a directory.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for the path in the volume,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for the destination; those of writing it.
    pub fn to_dir(&self, dest: impl AsRef<Path>) -> Result<Extracted> {
        let (running, inode) = (self.volume.owner.enter()?, self.start()?);
        let run = Run::of(self);
        let options =
            GetOptions { threads: self.threads, cancelled: Some(self.control.cancel.flag()) };
        let take = |event: Event<'_>| run.take(event);
        let path = crate::volume::inside(&self.path);
        let report = copy::get(&self.volume.owner, &path, inode, dest.as_ref(), options, &take);
        drop(running);
        let report = report.map_err(|error| self.failed(error))?;
        Ok(run.end(report))
    }

    /// Writes a tar archive to `out`.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for the path in the volume; those of `out`.
    pub fn to_tar(&self, out: impl Write) -> Result<Extracted> {
        let (running, inode) = (self.volume.owner.enter()?, self.start()?);
        let run = Run::of(self);
        let take = |event: Event<'_>| run.take(event);
        let out = Cancellable::new(out, &self.control.cancel);
        let path = crate::volume::inside(&self.path);
        let report = copy::archive(&self.volume.owner, &path, inode, out, &take);
        drop(running);
        let report = report.map_err(|error| self.failed(error))?;
        Ok(run.end(report))
    }

    fn start(&self) -> Result<Inode> {
        self.volume.at("copy", &self.path, |owner, path| owner.resolve(path, Follow::No))
    }

    fn failed(&self, error: impl Into<Cause>) -> Error {
        if self.control.cancel.is_cancelled() {
            return Error::new(Cause::Cancelled);
        }
        Error::new(error)
    }
}

/// A writer that fails once the copy is cancelled.
pub(crate) struct Cancellable<'c, W> {
    out: W,
    cancel: &'c CancelToken,
}

impl<'c, W> Cancellable<'c, W> {
    pub(crate) fn new(out: W, cancel: &'c CancelToken) -> Self {
        Self { out, cancel }
    }
}

impl<W: Write> Write for Cancellable<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            // `Interrupted` would be tried again.
            return Err(io::Error::other("cancelled"));
        }
        self.out.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
