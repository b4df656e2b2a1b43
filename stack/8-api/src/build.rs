//! A volume made from a tree.

use std::num::NonZero;
use std::path::Path;
use std::time::SystemTime;

use xfskit_copy::SkippedCount;
use xfskit_copy::build::{self, Blueprint, WriteOptions};
use xfskit_copy::source::{self, Labels, Owners, Source, SourceOptions, Tree};
use xfskit_mkfs::{self as mkfs, DeviceFacts, Plan, Summary};
use xfskit_target::Target;
use xfskit_units::ByteLen;

use crate::builder::{cancel_method, notices_method, progress_method, source_methods};
use crate::cause::Cause;
use crate::mkfs::{data_device, image_path};
use crate::notice::{Notice, Problems};
use crate::progress::Control;
use crate::volume_options::parse;
use crate::{CancelToken, Error, Mkfs, Problem, Progress, Result};

/// Space that is left free by default, in percent of the volume.
const FREE_PERCENT: u8 = 10;

/// Makes a volume with a tree in it: a builder. Nothing is mounted and no root privileges are
/// needed; the volume is as large as the tree takes unless [`mkfs`](Self::mkfs) gives a size.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// xfskit::Build::new().tar("rootfs.tar.zst").create("root.img")?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is made until `create` is called"]
pub struct Build<'c> {
    sources: Vec<Source>,
    options: SourceOptions,
    mkfs: Mkfs,
    free: Option<build::Free>,
    fit: bool,
    dry_run: bool,
    keep: bool,
    threads: Option<NonZero<usize>>,
    control: Control<'c>,
}

/// What a [`Build`] made.
#[derive(Debug)]
#[non_exhaustive]
pub struct Built {
    /// Inodes of the tree.
    pub inodes: u64,
    /// Bytes of the volume.
    pub size: u64,
    /// Bytes that are free, as users of the volume see them.
    pub free: u64,
    /// The properties of the volume in the words of mkfs.xfs.
    pub summary: Summary,
    /// What could not be read, or not as it was found, unless [`Build::notices`] received it.
    pub problems: Vec<Problem>,
    /// The counts of what is not part of the volume.
    pub skipped: Vec<SkippedCount>,
}

impl<'c> Build<'c> {
    /// Returns a build without sources: an empty volume.
    pub fn new() -> Self {
        Self::default()
    }

    source_methods!(owners and labels in options);

    /// Adds what `path` names: a directory as [`dir`](Self::dir), `-` an archive on standard input,
    /// and anything else an archive.
    pub fn source(mut self, path: impl AsRef<Path>) -> Self {
        self.sources.push(Source::named(path.as_ref().to_owned()));
        self
    }

    /// Sets all times after `time` to it, as `SOURCE_DATE_EPOCH` asks for, and access times, which
    /// every reading changes, to the modification times.
    pub fn clamp_times(mut self, time: SystemTime) -> Self {
        self.options.epoch = Some(crate::time::timestamp(time));
        self
    }

    /// Writes with so many threads. By default there are two for each processor.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = NonZero::new(threads);
        self
    }

    /// Makes the volume as large as the tree takes even where the target exists or
    /// [`mkfs`](Self::mkfs) gives a size.
    pub fn fit(mut self, fit: bool) -> Self {
        self.fit = fit;
        self
    }

    /// Reads the sources and decides everything, and writes nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Keeps a new image that could not be finished. Its superblock marks it as unfinished.
    pub fn keep_unfinished(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    notices_method! {
        /// Receives what is not part of the volume, as it is met.
    }

    /// Gives everything this owner and group.
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.options.owners = Some(Owners::all(uid, gid));
        self
    }

    /// Makes the volume with the options of `mkfs`: size, label, features, time.
    pub fn mkfs(mut self, mkfs: Mkfs) -> Self {
        self.mkfs = mkfs;
        self
    }

    /// Leaves so many bytes free. A tenth of the volume by default.
    pub fn free_bytes(mut self, bytes: u64) -> Self {
        self.free = Some(build::Free::Bytes(bytes));
        self
    }

    /// Leaves so much of the volume free, in percent: at most 99. 10 by default.
    pub fn free_percent(mut self, percent: u8) -> Self {
        self.free = Some(build::Free::Percent(percent.min(99)));
        self
    }

    progress_method! {
        /// Receives the progress: with a total of 0 the names that were read, then the inodes that
        /// were written.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled). A new
        /// image is removed then.
    }

    /// Returns true if the tree decides the size of the volume on `target`: what
    /// [`fit`](Self::fit) asks for, and the case of a new image without a size.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where the name leads to no target.
    pub fn tree_decides(&self, target: impl AsRef<Path>) -> Result<bool> {
        Ok(self.is_fitted(&parse(target.as_ref().as_os_str())?))
    }

    fn is_fitted(&self, target: &Target) -> bool {
        let has_size = self.mkfs.wanted_size().is_some() || self.mkfs.options.agsize.is_some();
        self.fit || (is_new(target) && !has_size)
    }

    /// Makes the volume on `target`.
    ///
    /// # Errors
    /// As [`Mkfs::create`]; [`StorageFull`](crate::ErrorKind::StorageFull) where the tree does not
    /// fit, and those of reading the sources.
    pub fn create(&self, target: impl AsRef<Path>) -> Result<Built> {
        let target = parse(target.as_ref().as_os_str())?;
        let problems = Problems::of(&self.control.notices);
        let mut tree = self.read(&target)?;
        let mut skipped = problems.of_reading(&mut tree);
        let plan = self.plan(&target, &tree)?;
        plan.notes.iter().for_each(|note| problems.note(note));
        let blueprint = Blueprint::new(&tree, &plan).map_err(Error::new)?;
        blueprint.notes.iter().for_each(|note| problems.note(note));
        if !self.dry_run {
            self.write(&target, &blueprint)?;
        }
        skipped.extend(problems.of_content(&tree));
        let log = self.mkfs.options.log_name.as_deref();
        Ok(Built {
            inodes: blueprint.inodes(),
            size: blueprint.data_bytes().0,
            free: blueprint.free_bytes(),
            summary: Summary::of(&plan.geometry, &target.to_string(), log),
            problems: problems.end(),
            skipped,
        })
    }

    /// Writes the volume. A new image that is not finished is removed, unless it is to be kept.
    fn write(&self, target: &Target, blueprint: &Blueprint<'_>) -> Result<()> {
        let new = image_path(target).filter(|path| !path.exists());
        let written = self.write_to(target, blueprint);
        if let (Err(_), Some(path), false) = (&written, new, self.keep) {
            // An image that cannot be removed is marked as unfinished.
            let _ignored = std::fs::remove_file(path);
        }
        written
    }

    fn write_to(&self, target: &Target, blueprint: &Blueprint<'_>) -> Result<()> {
        let data = data_device(target, blueprint.data_bytes())?;
        let log = self.mkfs.log_device()?;
        let options = WriteOptions { threads: self.threads };
        let on_progress = |at: build::Progress| self.control.at(at.inodes, at.total);
        build::write(&*data, log.as_deref(), blueprint, options, &on_progress)
            .map_err(|error| self.failed(error))
    }

    fn read(&self, target: &Target) -> Result<Tree> {
        let options = SourceOptions {
            exclude: image_path(target).cloned().into_iter().collect(),
            content_limit: self.content_limit(target)?,
            stdin: self.control.cancel.stdin(),
            ..self.options.clone()
        };
        let on_progress = |at: source::Progress| self.control.at(at.names, 0);
        source::read_tree(&self.sources, &options, &on_progress)
            .map_err(|error| self.failed(build::BuildError::Source(error)))
    }

    /// Returns the bytes of the volume; `None` if the tree decides.
    fn content_limit(&self, target: &Target) -> Result<Option<u64>> {
        if self.is_fitted(target) {
            return Ok(None);
        }
        Ok(Some(match self.mkfs.wanted_size() {
            Some(size) => size.0,
            None => self.mkfs.facts(target)?.size.0,
        }))
    }

    fn plan(&self, target: &Target, tree: &Tree) -> Result<Plan> {
        let stamp = self.mkfs.stamp();
        if !self.is_fitted(target) {
            let facts = self.mkfs.facts(target)?;
            return mkfs::plan(&self.mkfs.options(), &facts, stamp).map_err(Error::new);
        }
        let any_size = ByteLen(u64::MAX >> 1);
        let mut options = self.mkfs.options();
        options.data_size = None;
        let facts = DeviceFacts { size: any_size, ..self.mkfs.sector_facts(target, any_size)? };
        let free = self.free.unwrap_or(build::Free::Percent(FREE_PERCENT));
        build::fit(tree, &options, &facts, stamp, free).map_err(Error::new)
    }

    /// Returns the error of a build: a source that was cut off by the cancellation is that.
    fn failed(&self, error: build::BuildError) -> Error {
        if self.control.cancel.is_cancelled() {
            return Error::new(Cause::Cancelled);
        }
        Error::new(error)
    }
}

/// Returns true if the target is an image file that does not exist.
fn is_new(target: &Target) -> bool {
    image_path(target).is_some_and(|path| !path.exists())
}
