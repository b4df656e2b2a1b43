//! Copies a tree to a directory, on several threads, in the order of the disk.
//!
//! The volume is swept ([`xfskit_vfs::sweep`]): whole groups of directories, their inodes in one
//! batch. The content of small files is read in batches too, in disk order, before the files are
//! made. Files are not flushed one by one.
//!
//! 1. A directory's own metadata is set after everything in it is done, when the last handle to its
//!    `DirNode` is dropped.
//! 2. A file with several names is made once; its other names are links to the first one.
//! 3. No name from the volume leads out of the destination: names are single components, made
//!    relative to an open directory, and never through a symbolic link.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs;
use rustix::io::Errno;
use serde::Serialize;
use xfskit_units::{ByteLen, ByteOffset};
use xfskit_vfs::{
    Child, Entry, Error, FileMap, FileType, Fs, Ino, Inode, ReadAhead, Stat, Visitor, Xattr, join,
};

use crate::Event;
use crate::dest::{Dir, finish_opened};
use crate::links::Links;
use crate::skipped::{Skipped, SkippedCount};

/// Bytes of content read ahead for one batch of small files.
const AHEAD: u64 = 8 << 20;
/// Files up to this size are read in batches.
const SMALL: u64 = 256 << 10;

/// Options of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions<'a> {
    /// Number of threads; 0 is one per processor.
    pub threads: usize,
    /// Ends the copy early once it is true: [`GetError::Stopped`].
    pub cancelled: Option<&'a AtomicBool>,
}

/// Counts of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files, directories, links and devices made.
    pub files: u64,
    /// Bytes of content written.
    pub bytes: u64,
    /// What could not be restored.
    pub skipped: Vec<SkippedCount>,
}

/// The reason why a copy could not begin, or ended early. Damage in the volume does not end a copy.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The destination exists and is not an empty directory.
    #[error("{} exists and is not an empty directory", .0.display())]
    Exists(PathBuf),
    /// Something else is copied into the destination.
    #[error("another copy into {} is under way", .0.display())]
    Busy(PathBuf),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// The destination cannot be written any more: full, removed, read-only.
    #[error("writing {}: {error}", path.display())]
    Destination {
        /// Path of the destination.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

pub(crate) type Events<'e> = &'e (dyn Fn(Event<'_>) + Sync);

/// State that all threads of a copy share.
pub(crate) struct Shared<'e> {
    events: Events<'e>,
    skipped: Skipped,
    links: Links,
    files: AtomicU64,
    bytes: AtomicU64,
    /// The directory that the copy's paths are relative to.
    pub(crate) root: Dir,
    stop: AtomicBool,
    cancelled: Option<&'e AtomicBool>,
    /// The error that ended the copy; a leaf lock.
    fatal: Mutex<Option<io::Error>>,
}

/// Copies `inode`, whose path in the volume is `path`, to `dest`. An existing empty directory is
/// filled.
///
/// # Errors
/// The destination exists or fails. Damage in the volume goes to `events`.
pub fn get(
    vfs: &Fs,
    path: &[u8],
    inode: Inode,
    dest: &Path,
    options: GetOptions<'_>,
    events: Events<'_>,
) -> Result<Report, GetError> {
    let failed = |error| GetError::Destination { path: dest.to_owned(), error };
    let (parent, name) = parent_and_name(dest);
    let is_dir = inode.core().is_dir();
    let there = if dest.symlink_metadata().is_ok() { Some(fillable(dest, is_dir)?) } else { None };
    let root = match &there {
        Some(dir) => dir.try_clone(),
        None => Dir::open(&parent),
    };
    let copy = Copy::new(vfs, root.map_err(failed)?, options, events);
    let shared = &copy.shared;
    if is_dir {
        let (dir, below) = match there {
            Some(dir) => (dir, Vec::new()),
            None => (locked(shared.root.make_dir(&name).map_err(failed)?, dest)?, name.clone()),
        };
        let node = copy.node(dir, None, path.to_vec(), below, &inode);
        vfs.sweep((path, inode), node, options.threads, &copy);
    } else {
        if let Some(error) = vfs.time_fault(&inode) {
            shared.fault(path, inode.ino(), error);
        }
        let parent_path = path.strip_suffix(name_of(path)).unwrap_or(b"/").to_vec();
        copy.one(&shared.root, &parent_path, b"", (name_of(path), &name), &inode, &copy.nothing());
    }
    copy.end(dest)
}

/// Locks `dir`, the destination `dest`, against other copies.
pub(crate) fn locked(dir: Dir, dest: &Path) -> Result<Dir, GetError> {
    if dir.lock() { Ok(dir) } else { Err(GetError::Busy(dest.to_owned())) }
}

/// Opens the directory `dest`, which must be empty, to be filled with the content of a directory.
/// The handle that is used afterwards is the one that was checked: another program may replace the
/// name.
pub(crate) fn fillable(dest: &Path, with_dir: bool) -> Result<Dir, GetError> {
    let failed = |error| GetError::Destination { path: dest.to_owned(), error };
    if with_dir && dest.is_dir() {
        let dir = locked(Dir::open(dest).map_err(failed)?, dest)?;
        if dir.is_empty().map_err(failed)? {
            return Ok(dir);
        }
    }
    Err(GetError::Exists(dest.to_owned()))
}

/// Returns the directory that will hold `dest`, and the name in it.
pub(crate) fn parent_and_name(dest: &Path) -> (PathBuf, Vec<u8>) {
    use std::os::unix::ffi::OsStrExt;
    let name = dest.file_name().unwrap_or_default().as_bytes().to_vec();
    let parent = dest.parent().filter(|p| !p.as_os_str().is_empty());
    (parent.unwrap_or(Path::new(".")).to_owned(), name)
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Raises the limit on open files, because a handle stays open for every directory on the path.
fn raise_handle_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If the system refuses, the limit stays as it is, which is enough for ordinary trees.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A directory of the destination whose contents are not finished (invariant 1).
pub(crate) struct DirNode<'e> {
    dir: Dir,
    /// Path in the volume.
    path: Vec<u8>,
    /// Path below the destination's root.
    dest: Vec<u8>,
    stat: Stat,
    xattrs: Vec<Xattr>,
    shared: Arc<Shared<'e>>,
    parent: Option<Arc<DirNode<'e>>>,
    finished: bool,
}

impl DirNode<'_> {
    fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            let done = self.dir.finish(&self.stat, &self.xattrs, &self.shared.skipped);
            self.shared.made(&self.path, done.map(|()| 0));
        }
    }
}

impl Drop for DirNode<'_> {
    /// Finishes this directory, and every parent that waited only for it. This is a loop, because a
    /// tree may be deeper than a stack.
    fn drop(&mut self) {
        self.finish();
        let mut next = self.parent.take();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            node.finish();
            next = node.parent.take();
        }
    }
}

impl Shared<'_> {
    pub(crate) fn fault(&self, path: &[u8], ino: Ino, error: Error) {
        (self.events)(Event::damaged(path, ino, error));
    }

    /// Reports that a file of this many bytes is made, or that the destination refused it.
    pub(crate) fn made(&self, path: &[u8], result: io::Result<u64>) {
        match result {
            Ok(bytes) => {
                self.files.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                (self.events)(Event::Done { bytes });
            }
            Err(error) if ends_the_copy(&error) => {
                self.stop.store(true, Ordering::Relaxed);
                let mut fatal = self.fatal.lock();
                fatal.get_or_insert(error);
            }
            Err(error) => (self.events)(Event::Refused { path, error }),
        }
    }
}

/// Returns true if the next file will fail with the same error.
fn ends_the_copy(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO | Errno::MFILE | Errno::NFILE)
    )
}

/// The visitor that copies.
pub(crate) struct Copy<'a, 'e> {
    vfs: &'a Fs,
    pub(crate) shared: Arc<Shared<'e>>,
}

impl<'e> Visitor for Copy<'_, 'e> {
    type Dir = Arc<DirNode<'e>>;

    fn children(&self, dir: &Self::Dir, children: &[Child]) -> Vec<(usize, Self::Dir)> {
        let mut enter = Vec::new();
        let maps: Vec<Option<FileMap>> = children.iter().map(|c| self.small_map(c)).collect();
        for batch in batches(&maps) {
            let ahead = self.vfs.read_ahead_content(maps[batch.clone()].iter().flatten());
            for index in batch {
                if self.stopped() {
                    return Vec::new();
                }
                let Child { entry, inode: Some(inode) } = &children[index] else { continue };
                (self.shared.events)(Event::Found(entry.ino));
                let name = (entry.name.as_slice(), entry.name.as_slice());
                if inode.core().is_dir() {
                    enter.extend(self.make_dir(dir, name.0, inode).map(|node| (index, node)));
                } else {
                    self.one(&dir.dir, &dir.path, &dir.dest, name, inode, &ahead);
                }
            }
        }
        enter
    }

    fn fault(&self, dir: &Self::Dir, entry: Option<&Entry>, error: Error) {
        match entry {
            None => self.shared.fault(&dir.path, dir.stat.ino, error),
            Some(entry) => self.shared.fault(&join(&dir.path, &entry.name), entry.ino, error),
        }
    }

    fn stopped(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.shared.stop) || self.shared.cancelled.is_some_and(is_set)
    }
}

/// Splits children into batches of at most [`AHEAD`] bytes of content.
fn batches(maps: &[Option<FileMap>]) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, map) in maps.iter().enumerate() {
        let more = map.as_ref().map_or(0, |map| map.size().0);
        if more > AHEAD.saturating_sub(bytes) && index > start {
            batches.push(start..index);
            (start, bytes) = (index, 0);
        }
        // Sparse files may be 8 EiB long each.
        bytes = more.saturating_add(bytes);
    }
    batches.push(start..maps.len());
    batches
}

impl<'a, 'e> Copy<'a, 'e> {
    /// Begins a copy into `root`.
    pub(crate) fn new(vfs: &'a Fs, root: Dir, options: GetOptions<'e>, events: Events<'e>) -> Self {
        raise_handle_limit();
        let shared = Arc::new(Shared {
            events,
            skipped: Skipped::default(),
            links: Links::default(),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            root,
            stop: AtomicBool::new(false),
            cancelled: options.cancelled,
            fatal: Mutex::new(None),
        });
        Self { vfs, shared }
    }

    /// Ends the copy to `dest`.
    ///
    /// # Errors
    /// The one that ended it early.
    pub(crate) fn end(self, dest: &Path) -> Result<Report, GetError> {
        let shared = &self.shared;
        let fatal = shared.fatal.lock().take();
        if let Some(error) = fatal {
            return Err(GetError::Destination { path: dest.to_owned(), error });
        }
        if self.stopped() {
            return Err(GetError::Stopped);
        }
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Ok(Report {
            files: count(&shared.files),
            bytes: count(&shared.bytes),
            skipped: shared.skipped.counts(),
        })
    }

    /// Returns the extents of a small regular file. An error is found again when the file is made.
    fn small_map(&self, child: &Child) -> Option<FileMap> {
        let inode = child.inode.as_ref()?;
        let small = inode.core().is_regular() && self.vfs.stat(inode).size <= SMALL;
        small.then(|| self.vfs.file_map(inode).ok()).flatten()
    }

    pub(crate) fn nothing(&self) -> ReadAhead {
        self.vfs.read_ahead_content(std::iter::empty())
    }

    /// Returns the attributes of `inode`. Damaged ones are reported and left out.
    fn xattrs(&self, path: &[u8], inode: &Inode) -> Vec<Xattr> {
        let (xattrs, errors) = self.vfs.xattrs(inode);
        for error in errors {
            self.shared.fault(path, inode.ino(), error);
        }
        xattrs
    }

    pub(crate) fn node(
        &self,
        dir: Dir,
        parent: Option<Arc<DirNode<'e>>>,
        path: Vec<u8>,
        dest: Vec<u8>,
        inode: &Inode,
    ) -> Arc<DirNode<'e>> {
        let xattrs = self.xattrs(&path, inode);
        let stat = self.vfs.stat(inode);
        let shared = Arc::clone(&self.shared);
        Arc::new(DirNode { dir, path, dest, stat, xattrs, shared, parent, finished: false })
    }

    fn make_dir(
        &self,
        parent: &Arc<DirNode<'e>>,
        name: &[u8],
        inode: &Inode,
    ) -> Option<Arc<DirNode<'e>>> {
        let path = join(&parent.path, name);
        match parent.dir.make_dir(name) {
            Ok(dir) => {
                let dest = below(&parent.dest, name);
                Some(self.node(dir, Some(Arc::clone(parent)), path, dest, inode))
            }
            Err(error) => {
                self.shared.made(&path, Err(error));
                None
            }
        }
    }

    /// Makes one file that is not a directory. `names` are its names in the volume and in `dir`.
    pub(crate) fn one(
        &self,
        dir: &Dir,
        path: &[u8],
        dest: &[u8],
        names: (&[u8], &[u8]),
        inode: &Inode,
        ahead: &ReadAhead,
    ) {
        let path = join(path, names.0);
        let name = names.1;
        let stat = self.vfs.stat(inode);
        let make = || self.make(dir, &path, name, inode, &stat, ahead);
        let made = if stat.nlink > 1 {
            let link = |first: &[u8]| dir.make_link(name, &self.shared.root, first).map(|()| 0);
            self.shared.links.name(stat.ino, &below(dest, name), make, link)
        } else {
            make().map(Option::unwrap_or_default)
        };
        self.shared.made(&path, made);
    }

    /// Makes a file under its first name. Returns its size, or `None` if it was left out.
    fn make(
        &self,
        dir: &Dir,
        path: &[u8],
        name: &[u8],
        inode: &Inode,
        stat: &Stat,
        ahead: &ReadAhead,
    ) -> io::Result<Option<u64>> {
        let xattrs = self.xattrs(path, inode);
        let skipped = &self.shared.skipped;
        match stat.file_type {
            FileType::Regular => {
                let file = dir.make_file(name)?;
                let bytes = self.content(&file, path, inode, ahead)?;
                finish_opened(&file, stat, &xattrs, skipped)?;
                Ok(Some(bytes))
            }
            FileType::Symlink => match self.vfs.read_link(inode) {
                Ok(target) => {
                    dir.make_symlink(name, &target, stat, &xattrs, skipped)?;
                    Ok(Some(0))
                }
                Err(error) => {
                    self.shared.fault(path, stat.ino, error);
                    Ok(None)
                }
            },
            _ => Ok(dir.make_node(name, stat, &xattrs, skipped)?.then_some(0)),
        }
    }

    /// Writes the content, leaving holes as holes. A range that cannot be read becomes a hole and
    /// an event.
    fn content(
        &self,
        file: &OwnedFd,
        path: &[u8],
        inode: &Inode,
        ahead: &ReadAhead,
    ) -> io::Result<u64> {
        let lose = |lost| (self.shared.events)(Event::lost(path, inode.ino(), lost));
        let (map, lost) = self.vfs.salvage_map(inode);
        lost.into_iter().for_each(lose);
        let mut written = 0;
        let mut end = ByteOffset(0);
        for piece in map.pieces() {
            let write = &mut |offset: ByteOffset, bytes: &[u8]| {
                write_all_at(file, offset.0, bytes)?;
                written += bytes.len() as u64;
                end = offset.plus(ByteLen::of(bytes));
                Ok(())
            };
            self.vfs.salvage_piece(inode, piece, ahead, write, &mut |lost| lose(lost))?;
        }
        if end < ByteOffset(map.size().0) {
            fs::ftruncate(file, map.size().0)?;
        }
        Ok(written)
    }
}

/// Returns `dest/name`, relative to the destination's root.
fn below(dest: &[u8], name: &[u8]) -> Vec<u8> {
    if dest.is_empty() { name.to_vec() } else { join(dest, name) }
}

fn write_all_at(file: &OwnedFd, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
