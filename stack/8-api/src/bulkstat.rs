//! Every inode of a volume, from the inode btrees.

use std::ops::ControlFlow;

use xfskit_core::chunks::Entry;
use xfskit_vfs::Stat;

use crate::{Error, Metadata, Result, Volume};

/// Lists every inode in use, in the order of the disk, without a look at a directory: a builder.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// # let volume = xfskit::Volume::open("disk.img")?;
/// xfskit::Bulkstat::new(&volume).run(|inodes| {
///     for inode in inodes {
///         println!("{} {:?}", inode.ino, inode.metadata.as_ref().map(xfskit::Metadata::len));
///     }
///     std::ops::ControlFlow::Continue(())
/// })?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is listed until `run` is called"]
pub struct Bulkstat {
    volume: Volume,
    threads: usize,
    internal: bool,
}

/// One inode of a [`Bulkstat`].
#[derive(Debug)]
#[non_exhaustive]
pub struct BulkstatEntry {
    /// The inode number.
    pub ino: u64,
    /// Its metadata, or the finding that keeps it from being read.
    pub metadata: Result<Metadata>,
}

impl Bulkstat {
    /// Returns a listing of all files of `volume`.
    pub fn new(volume: &Volume) -> Self {
        Self { volume: volume.clone(), threads: 0, internal: false }
    }

    /// Lists with so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Lists the inodes that the volume needs itself too: of quota, of the realtime device, of the
    /// metadata directory. Off by default, as in Linux.
    pub fn internal(mut self, internal: bool) -> Self {
        self.internal = internal;
        self
    }

    /// Calls `visit`, on many threads at once, with some thousand inodes. `Break` ends the listing.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where a damaged btree hides inodes; those of the
    /// device. An inode that fails its checks is passed to `visit` as such.
    pub fn run(&self, visit: impl Fn(&[BulkstatEntry]) -> ControlFlow<()> + Sync) -> Result<()> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        let volume = owner.volume();
        let entry = |entry: &Entry<'_>| {
            let metadata = match &entry.inode {
                Ok(core) if !self.internal && volume.is_internal(entry.ino, core) => return None,
                Ok(core) => Ok(Metadata::of(Stat::of(entry.ino, core, volume.geo()))),
                Err(fault) => Err(Error::new(xfskit_core::Error::Corrupt(fault.clone()))),
            };
            Some(BulkstatEntry { ino: entry.ino.0, metadata })
        };
        let pass = |some: &[Entry<'_>]| {
            let _inside = owner.inside();
            visit(&some.iter().filter_map(entry).collect::<Vec<_>>())
        };
        volume.bulkstat(crate::check::thread_count(self.threads), pass).map_err(Error::new)
    }
}
