//! An open file.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use parking_lot::Mutex;
use xfskit_core::MappedExtent;
use xfskit_format::Fork;
use xfskit_format::inode::InodeFlags;
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, FileHandle, FileReader, SetAttr};

use crate::cause::Cause;
use crate::shared::Owner;
use crate::{Error, FileTimes, Metadata, Permissions, Result, Volume};

/// An open regular file, as [`std::fs::File`]. It keeps its volume, and outlives its name.
///
/// [`Read`], [`Write`] and [`Seek`] work at a position that all users of this value share;
/// [`read_at`](Self::read_at) and [`write_at`](Self::write_at) need none. All open files of one
/// inode see the same content.
///
/// Dropping a file writes nothing: what was written stays in memory until [`sync_all`],
/// [`Volume::sync`](crate::Volume::sync), [`Volume::close`](crate::Volume::close), or until memory
/// for such data runs out. None of it is lost but in a crash.
///
/// [`sync_all`]: Self::sync_all
#[derive(Debug)]
pub struct File {
    owner: Owner,
    ino: Ino,
    /// `None` once it is dropped.
    source: Option<Source>,
    readable: bool,
    append: bool,
    /// Where [`Read`] and [`Write`] go on, in bytes.
    position: Mutex<u64>,
}

/// Where content is read from and written to.
#[derive(Debug)]
pub(crate) enum Source {
    Reader(FileReader<Owner>),
    Handle(FileHandle<Owner>),
}

/// Bytes that [`File::copy_to`] reads at once.
const COPY_PIECE: u64 = 1 << 20;

/// A run of a file's content on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// Which bytes of the file, in whole blocks.
    pub range: Range<u64>,
    /// Where on the data device, or on the realtime device for content there, in bytes.
    pub device_offset: u64,
    /// The first block, in the numbers of xfs_db and xfs_bmap: the group in the high bits.
    pub startblock: u64,
    /// Allocated, and never written: it reads as zeroes.
    pub unwritten: bool,
    /// Other files, or other offsets of this one, have the same blocks.
    pub shared: bool,
}

/// One of the forks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFork {
    /// Its content; the entries of a directory.
    Data,
    /// Its extended attributes.
    Attr,
}

impl From<FileFork> for Fork {
    fn from(fork: FileFork) -> Self {
        match fork {
            FileFork::Data => Self::Data,
            FileFork::Attr => Self::Attr,
        }
    }
}

impl From<Fork> for FileFork {
    fn from(fork: Fork) -> Self {
        match fork {
            Fork::Data => Self::Data,
            Fork::Attr => Self::Attr,
        }
    }
}

/// The map of one fork of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtentMap {
    /// Where it lies on the device, ascending.
    pub extents: Vec<Extent>,
    /// Size of the file's content, in bytes. Extents may lie behind it.
    pub size: u64,
    /// The file may have space behind its content: by the flag of preallocated space, as after
    /// `fallocate`, or because realtime extents are longer than a block.
    pub preallocated: bool,
    /// It lies on the realtime device.
    pub realtime: bool,
}

impl File {
    pub(crate) fn new(
        owner: Owner,
        ino: Ino,
        source: Source,
        readable: bool,
        append: bool,
    ) -> Self {
        Self { owner, ino, source: Some(source), readable, append, position: Mutex::new(0) }
    }

    fn source(&self) -> &Source {
        self.source.as_ref().expect("there until it is dropped")
    }

    /// Returns the handle of a file that was opened for writing.
    fn handle(&self) -> Result<&FileHandle<Owner>> {
        match self.source() {
            Source::Handle(handle) => Ok(handle),
            Source::Reader(_) => Err(Error::new(Cause::OpenMode("writing"))),
        }
    }

    /// Runs `change` on a file that was opened for writing.
    fn change<T>(&self, change: impl FnOnce(&FileHandle<Owner>) -> vfs::Result<T>) -> Result<T> {
        let _running = self.owner.enter()?;
        change(self.handle()?).map_err(Error::new)
    }

    fn size(&self) -> u64 {
        match self.source() {
            Source::Reader(reader) => reader.size(),
            Source::Handle(handle) => handle.size(),
        }
    }

    /// Reads from byte `offset` into `buf`. Returns how many bytes there were: fewer than asked for
    /// only at the end of the file.
    ///
    /// # Errors
    /// Those of the device; [`Corrupt`](crate::ErrorKind::Corrupt).
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let _running = self.owner.enter()?;
        if !self.readable {
            return Err(Error::new(Cause::OpenMode("reading")));
        }
        let read = match self.source() {
            Source::Reader(reader) => reader.read_at(offset, buf),
            Source::Handle(handle) => handle.read(offset, buf),
        };
        read.map_err(Error::new)
    }

    /// Writes all of `buf` from byte `offset` on, and returns its length. A file that was opened
    /// for appending is written at its end.
    ///
    /// # Errors
    /// [`StorageFull`](crate::ErrorKind::StorageFull): then nothing has changed.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        self.write_from(buf, offset).map(|_end| buf.len())
    }

    /// Writes `buf`, and returns the byte behind it.
    fn write_from(&self, buf: &[u8], offset: u64) -> Result<u64> {
        self.change(|file| {
            let start = if self.append { file.append(buf)? } else { offset };
            if !self.append {
                file.write(offset, buf)?;
            }
            Ok(start.saturating_add(buf.len() as u64))
        })
    }

    /// Makes the file `len` bytes long: what is behind goes, what is missing reads as zeroes.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.change(|file| file.truncate(len))
    }

    /// Makes all that was written so far durable, with the metadata.
    ///
    /// # Errors
    /// Those of the device: the volume is then [shut down](crate::ErrorKind::Shutdown).
    pub fn sync_all(&self) -> Result<()> {
        let _running = self.owner.enter()?;
        let synced = match self.source() {
            Source::Handle(handle) => handle.fsync(),
            Source::Reader(_) if self.owner.is_writable() => self.owner.fsync(self.ino),
            // Nothing was changed.
            Source::Reader(_) => Ok(()),
        };
        synced.map_err(Error::new)
    }

    /// Makes the content durable, with the metadata that is needed to read it. The journal holds
    /// both, so this is [`sync_all`](Self::sync_all).
    ///
    /// # Errors
    /// As [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> Result<()> {
        self.sync_all()
    }

    /// Returns what is known about the file.
    ///
    /// # Errors
    /// Those of the device; [`Corrupt`](crate::ErrorKind::Corrupt).
    pub fn metadata(&self) -> Result<Metadata> {
        let _running = self.owner.enter()?;
        let inode = self.owner.inode(self.ino).map_err(Error::new)?;
        Ok(Metadata::of(self.owner.stat(&inode)))
    }

    /// Sets the permissions.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly).
    pub fn set_permissions(&self, permissions: Permissions) -> Result<()> {
        self.set(&SetAttr { perm: Some(permissions.bits()), ..SetAttr::default() })
    }

    /// Sets the times that `times` names.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly).
    pub fn set_times(&self, times: FileTimes) -> Result<()> {
        self.set(&times.set_attr())
    }

    fn set(&self, set: &SetAttr) -> Result<()> {
        let _running = self.owner.enter()?;
        self.owner.set_attr(self.ino, set).map_err(Error::new)
    }

    /// Allocates blocks for `range`: later writes there find space. Beyond its end the file grows.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.preallocate(range, false))
    }

    /// Allocates blocks for `range`, as [`allocate`](Self::allocate), and keeps the size.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn allocate_keep_size(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.preallocate(range, true))
    }

    /// Makes a hole of `range`: it reads as zeroes, and its blocks become free.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.punch(range))
    }

    /// Makes `range` read as zeroes, and keeps blocks for it. Beyond its end the file grows.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn zero_range(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.zero(range, false))
    }

    /// Makes `range` read as zeroes, as [`zero_range`](Self::zero_range), and keeps the size.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn zero_range_keep_size(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.zero(range, true))
    }

    /// Takes `range`, whole blocks, out of the file: what is behind moves forward.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where `range` does not consist of whole
    /// blocks or reaches the end.
    pub fn collapse_range(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.collapse(range))
    }

    /// Inserts a hole of `range`, whole blocks: what is there and behind moves back.
    ///
    /// # Errors
    /// As [`collapse_range`](Self::collapse_range).
    pub fn insert_range(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.insert(range))
    }

    /// Makes the bytes from `offset` on those of `range` of `source` by sharing its blocks
    /// (reflink): nothing is copied until one of the files is written. Whole blocks; `range` may
    /// end within one where `source` ends.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on a volume without reflink,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for ranges that cannot be shared, and for
    /// files of different volumes.
    pub fn clone_range(&self, offset: u64, source: &File, range: Range<u64>) -> Result<()> {
        let _running = self.owner.enter()?;
        let file = self.handle()?;
        source.with_handle(|source| file.share(offset, source, range)).map_err(Error::new)
    }

    /// Makes the bytes from `offset` on those of `range` of `source`, by sharing blocks where that
    /// is possible, else by copying. Returns how many bytes: fewer at the end of `source`, and
    /// where space runs out.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at); [`InvalidInput`](crate::ErrorKind::InvalidInput) where both
    /// ranges overlap in one file, and for files of different volumes.
    pub fn copy_range(&self, offset: u64, source: &File, range: Range<u64>) -> Result<u64> {
        let _running = self.owner.enter()?;
        let file = self.handle()?;
        source.with_handle(|source| file.copy_range(offset, source, range)).map_err(Error::new)
    }

    /// Exchanges all of the content with that of `other`, at once.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on a volume without the exchange feature.
    pub fn exchange(&self, other: &File) -> Result<()> {
        let _running = self.owner.enter()?;
        self.handle()?.exchange(other.handle()?).map_err(Error::new)
    }

    /// Gives `range` blocks of its own where other files share them.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn unshare(&self, range: Range<u64>) -> Result<()> {
        self.change(|file| file.unshare(range))
    }

    /// Runs `read` with a handle of this file, whatever it was opened for.
    fn with_handle<T>(
        &self,
        read: impl FnOnce(&FileHandle<Owner>) -> vfs::Result<T>,
    ) -> vfs::Result<T> {
        if let Source::Handle(handle) = self.source() {
            return read(handle);
        }
        read(&FileHandle::open(self.owner.clone(), self.ino, vfs::AtEnd::Release)?)
    }

    /// Returns the start of the next data from byte `offset` on; `None` where there is none before
    /// the end.
    ///
    /// # Errors
    /// Those of the device; [`Corrupt`](crate::ErrorKind::Corrupt).
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        Ok(self.data()?.into_iter().find(|data| data.end > offset).map(|d| d.start.max(offset)))
    }

    /// Returns the start of the next hole from byte `offset` on, which is the end of the file where
    /// there is no other; `None` from the end on.
    ///
    /// # Errors
    /// As [`seek_data`](Self::seek_data).
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        let (data, size) = (self.data()?, self.metadata()?.len());
        let within = data.into_iter().find(|data| data.contains(&offset));
        let hole = within.map_or(offset, |data| data.end);
        Ok((offset < size).then_some(hole.min(size)))
    }

    /// Returns the bytes from the position to the end.
    fn rest(&self) -> usize {
        let rest = self.size().saturating_sub(*self.position.lock());
        usize::try_from(rest).unwrap_or(usize::MAX)
    }

    /// Returns the ranges that hold data, ascending.
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let _running = self.owner.enter()?;
        let map = self.owner.inode(self.ino).and_then(|inode| self.owner.file_map(&inode));
        let data = map.map_err(Error::new)?.data();
        Ok(data.into_iter().map(|range| range.start.0..range.end.0).collect())
    }

    /// Returns where the content lies on the device, ascending. Writes content that is only in
    /// memory first.
    ///
    /// # Errors
    /// Those of the device; [`Corrupt`](crate::ErrorKind::Corrupt).
    pub fn extents(&self) -> Result<Vec<Extent>> {
        let _running = self.owner.enter()?;
        extents(&self.owner, self.ino, Fork::Data).map_err(Error::new)
    }

    /// Writes bytes `range` of the content to `out`, holes as zeroes, and returns their number:
    /// less than asked for only at the end of the file.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); those of `out`.
    pub fn copy_to(&self, range: Range<u64>, out: &mut impl Write) -> Result<u64> {
        let mut at = range.start;
        let piece = range.end.saturating_sub(at).min(COPY_PIECE);
        let mut buf = vec![0; usize::try_from(piece).unwrap_or_default()];
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buf.len());
            let len = self.read_at(&mut buf[..wanted], at)?;
            if len == 0 {
                break;
            }
            out.write_all(&buf[..len]).map_err(Error::new)?;
            at += len as u64;
        }
        Ok(at.saturating_sub(range.start))
    }

    /// Gives the file a name, or a further one, as `linkat` does for an open file.
    ///
    /// # Errors
    /// As [`Volume::hard_link`](crate::Volume::hard_link).
    pub fn link(&self, path: impl AsRef<Path>) -> Result<()> {
        Volume::of(self.owner.clone()).at("link to", path.as_ref(), |fs, path| {
            let (dir, name) = fs.hold_parent(path)?;
            fs.link(self.ino, dir.ino(), &name)
        })
    }
}

/// Returns where the content of one fork of inode `ino` lies.
pub(crate) fn extents(owner: &Owner, ino: Ino, fork: Fork) -> vfs::Result<Vec<Extent>> {
    let volume = owner.volume();
    let geo = volume.geo();
    let bytes = |blocks: u64| blocks.saturating_mul(1 << geo.blocklog);
    let is_realtime = fork == Fork::Data && owner.inode(ino)?.core().is_realtime();
    let place = |block| if is_realtime { geo.rtb_to_byte(block) } else { geo.fsb_to_byte(block) };
    let known = |MappedExtent { extent, shared }| {
        Some(Extent {
            range: bytes(extent.startoff.0)..bytes(extent.end().0),
            device_offset: place(extent.startblock)?.0,
            startblock: extent.startblock.0,
            unwritten: extent.unwritten,
            shared,
        })
    };
    Ok(volume.mapped_extents(ino, fork)?.into_iter().filter_map(known).collect())
}

/// Returns the map of one fork of inode `ino`.
pub(crate) fn extent_map(owner: &Owner, ino: Ino, fork: FileFork) -> vfs::Result<ExtentMap> {
    let extents = extents(owner, ino, fork.into())?;
    let inode = owner.inode(ino)?;
    let core = inode.core();
    let realtime = fork == FileFork::Data && core.is_realtime();
    let is_long = realtime && owner.volume().geo().rextsize > 1;
    let preallocated = core.flags().contains(InodeFlags::PREALLOC) || is_long;
    Ok(ExtentMap { extents, size: core.size().0, preallocated, realtime })
}

impl Drop for File {
    fn drop(&mut self) {
        let running = self.owner.enter_to_end();
        drop(self.source.take());
        drop(running);
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut position = self.position.lock();
        let len = self.read_at(buf, *position)?;
        *position += len as u64;
        Ok(len)
    }

    /// Reads to the end of the file. As with [`std::fs::File`], a file that is larger than memory
    /// fails with [`OutOfMemory`](io::ErrorKind::OutOfMemory) before anything is read.
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        buf.try_reserve(self.rest())?;
        self.take(u64::MAX).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        buf.try_reserve(self.rest())?;
        self.take(u64::MAX).read_to_string(buf)
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut position = self.position.lock();
        *position = self.write_from(buf, *position)?;
        Ok(buf.len())
    }

    /// Does nothing: no data waits in the file. See [`File::sync_all`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut position = self.position.lock();
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size().checked_add_signed(by),
            SeekFrom::Current(by) => position.checked_add_signed(by),
        };
        *position = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(*position)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(Self::read_at(self, buf, offset)?)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        Ok(Self::write_at(self, buf, offset)?)
    }
}
