//! A volume made from a tree.

use std::path::Path;

use xfskit_copy::build::{self, Blueprint, WriteOptions};
use xfskit_copy::source::{self, Owners, Source, SourceOptions, Tree};
use xfskit_mkfs::{self as mkfs, DeviceFacts, Plan};
use xfskit_target::Target;
use xfskit_units::ByteLen;

use crate::cause::Cause;
use crate::mkfs::{data_device, image_path};
use crate::progress::{Control, Report};
use crate::volume_options::parse;
use crate::{CancelToken, Error, Mkfs, Progress, Result};

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
    control: Control<'c>,
}

/// What a [`Build`] made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Built {
    /// Inodes of the tree.
    pub inodes: u64,
    /// Bytes of the volume.
    pub size: u64,
    /// Bytes that are free, as users of the volume see them.
    pub free: u64,
    /// Files that changed or failed while they were read, in sentences: their content is not whole.
    pub unread: Vec<String>,
    /// What could not be read and was left out, in sentences.
    pub left_out: Vec<String>,
}

impl<'c> Build<'c> {
    /// Returns a build without sources: an empty volume.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory with everything below it. A later source replaces entries of earlier ones.
    pub fn dir(mut self, path: impl AsRef<Path>) -> Self {
        self.sources.push(Source::Dir(path.as_ref().to_owned()));
        self
    }

    /// Adds a tar archive: plain, or compressed with gzip, zstd or xz.
    pub fn tar(mut self, path: impl AsRef<Path>) -> Self {
        self.sources.push(Source::Tar(path.as_ref().to_owned()));
        self
    }

    /// Gives everything this owner and group.
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.options.owners = Some(Owners::all(uid, gid));
        self
    }

    /// Applies the whiteouts of OCI layers in place of copying them as files.
    pub fn whiteouts(mut self, whiteouts: bool) -> Self {
        self.options.whiteouts = whiteouts;
        self
    }

    /// Fails where something cannot be read, in place of leaving it out.
    pub fn strict(mut self, strict: bool) -> Self {
        self.options.strict = strict;
        self
    }

    /// Makes the volume as `mkfs` says: its size, label, features, time.
    pub fn mkfs(mut self, mkfs: Mkfs) -> Self {
        self.mkfs = mkfs;
        self
    }

    /// Leaves so many bytes free. A tenth of the volume by default.
    pub fn free_bytes(mut self, bytes: u64) -> Self {
        self.free = Some(build::Free::Bytes(bytes));
        self
    }

    /// Receives the progress: names that were read, then inodes that were written.
    pub fn progress(mut self, report: impl Fn(Progress) + Sync + 'c) -> Self {
        self.control.report = Report::new(report);
        self
    }

    /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled). A new image
    /// is removed then.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.control.cancel = token.clone();
        self
    }

    /// Makes the volume on `target`.
    ///
    /// # Errors
    /// As [`Mkfs::create`]; [`StorageFull`](crate::ErrorKind::StorageFull) where the tree does not
    /// fit, and those of reading the sources.
    pub fn create(&self, target: impl AsRef<Path>) -> Result<Built> {
        let target = parse(target.as_ref().as_os_str())?;
        let is_new = image_path(&target).filter(|path| !path.exists());
        let created = self.create_on(&target);
        if let (Err(_), Some(path)) = (&created, is_new) {
            // An image that cannot be removed is marked as unfinished.
            let _ignored = std::fs::remove_file(path);
        }
        created
    }

    fn create_on(&self, target: &Target) -> Result<Built> {
        let tree = self.read(target)?;
        let plan = self.plan(target, &tree)?;
        let blueprint = Blueprint::new(&tree, &plan)?;
        let data = data_device(target, blueprint.data_bytes())?;
        let log = self.mkfs.log_device()?;
        let options = WriteOptions { threads: None };
        let on_progress = |at: build::Progress| self.control.at(at.inodes, at.total);
        build::write(&*data, log.as_deref(), &blueprint, options, &on_progress)
            .map_err(|error| self.failed(error))?;
        let unread = tree.take_unread().iter().map(ToString::to_string).collect();
        Ok(Built {
            inodes: blueprint.inodes(),
            size: blueprint.data_bytes().0,
            free: blueprint.free_bytes(),
            unread,
            left_out: tree.notes().left_out.iter().map(ToString::to_string).collect(),
        })
    }

    fn read(&self, target: &Target) -> Result<Tree> {
        let options = SourceOptions {
            exclude: image_path(target).cloned().into_iter().collect(),
            content_limit: self.mkfs.wanted_size().map(|size| size.0),
            ..self.options.clone()
        };
        let on_progress = |at: source::Progress| self.control.at(at.names, 0);
        source::read_tree(&self.sources, &options, &on_progress)
            .map_err(|error| self.failed(build::BuildError::Source(error)))
    }

    fn plan(&self, target: &Target, tree: &Tree) -> Result<Plan> {
        let (options, stamp) = (self.mkfs.options(), self.mkfs.stamp());
        let is_new = image_path(target).is_some_and(|path| !path.exists());
        if self.mkfs.wanted_size().is_some() || options.agsize.is_some() || !is_new {
            return Ok(mkfs::plan(&options, &self.mkfs.facts(target)?, stamp)?);
        }
        let facts = DeviceFacts::file(ByteLen(u64::MAX >> 1));
        let free = self.free.unwrap_or(build::Free::Percent(FREE_PERCENT));
        Ok(build::fit(tree, &options, &facts, stamp, free)?)
    }

    /// Returns the error of a build: a source that was cut off by the cancellation is that.
    fn failed(&self, error: build::BuildError) -> Error {
        if self.control.cancel.is_cancelled() {
            return Error::new(Cause::Cancelled);
        }
        error.into()
    }
}
