//! Files open for reading and writing at an offset.
//!
//! Written data stays in memory until it is flushed: by [`Handle::fsync`], by [`Handle::close`],
//! by [`Fs::sync`], or when memory runs out. All handles of a file see the same content.

use std::ops::{Deref, Range};
use std::sync::Arc;

use xfskit_core::Inode;
use xfskit_core::file::{Content, Seek};
use xfskit_units::{ByteLen, ByteOffset, Ino};

use super::hold::InodeHold;
use crate::{Fs, Result};

/// An open regular file. It outlives its name. `F` is the reference to the filesystem: a borrow
/// ([`Handle`]), or an owner.
#[derive(Debug)]
pub struct FileHandle<F: Deref<Target = Fs>> {
    content: Option<Arc<Content>>,
    hold: InodeHold<F>,
    at_end: AtEnd,
}

/// A handle that borrows the filesystem.
pub type Handle<'f> = FileHandle<&'f Fs>;

/// Handling of content in memory when a handle ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// It is written to the device, and becomes durable with the next sync.
    Flush,
    /// It stays in memory until the next sync, or until memory runs out.
    Leave,
    /// The handle only reads: content that other handles wrote stays in memory.
    Release,
}

impl Fs {
    /// Opens the regular file `ino` for reading and writing.
    ///
    /// # Errors
    /// The inode is not a regular file, or the volume is open for reading only.
    pub fn open(&self, ino: Ino) -> Result<Handle<'_>> {
        FileHandle::open(self, ino, AtEnd::Flush)
    }

    /// Opens the regular file `inode` for reading and writing: this file, not another that got its
    /// number since.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`NoInode`](xfskit_core::Error::NoInode) if it is gone.
    pub fn open_inode(&self, inode: &Inode) -> Result<Handle<'_>> {
        FileHandle::open_inode(self, inode, AtEnd::Flush)
    }

    /// Opens the file for reading only, on a volume that is open for writing.
    pub(crate) fn open_to_read(&self, inode: &Inode) -> Result<Handle<'_>> {
        FileHandle::open_inode(self, inode, AtEnd::Release)
    }

    /// Writes `bytes` to the file `ino` from byte `offset` on. Several writes to one file are
    /// faster through a [`Handle`].
    ///
    /// # Errors
    /// As [`Handle::write`] and [`Handle::close`].
    pub fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        let handle = self.open(ino)?;
        handle.write(offset, bytes)?;
        handle.close()
    }

    /// Reads from byte `offset` of the file `ino`, as it is now. Returns the number of bytes read.
    ///
    /// # Errors
    /// As [`Handle::read`].
    pub fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.volume.engine().is_ok() {
            return FileHandle::open(self, ino, AtEnd::Release)?.read(offset, buf);
        }
        let inode = self.inode(ino)?;
        Ok(self.volume.read_at(&inode, ByteOffset(offset), buf)?)
    }

    /// Makes the file `ino` `size` bytes long.
    ///
    /// # Errors
    /// As [`Handle::truncate`].
    pub fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        let handle = self.open(ino)?;
        handle.truncate(size)?;
        handle.close()
    }
}

impl<F: Deref<Target = Fs>> FileHandle<F> {
    /// Opens the regular file `ino` of the volume that `fs` refers to.
    ///
    /// # Errors
    /// As [`Fs::open`].
    pub fn open(fs: F, ino: Ino, at_end: AtEnd) -> Result<Self> {
        let hold = InodeHold::of_content(fs, ino)?;
        let content = Some(hold.fs.volume.open_content(ino)?);
        Ok(Self { content, hold, at_end })
    }

    /// Opens the regular file `inode`: this file, not another that got its number since.
    ///
    /// # Errors
    /// As [`Fs::open_inode`].
    pub fn open_inode(fs: F, inode: &Inode, at_end: AtEnd) -> Result<Self> {
        let file = Self::open(fs, inode.ino(), at_end)?;
        if file.content().generation() == inode.core().generation() {
            return Ok(file);
        }
        Err(xfskit_core::Error::NoInode(inode.ino()).into())
    }

    /// Returns the filesystem that the file is in.
    pub fn fs(&self) -> &Fs {
        &self.hold.fs
    }

    pub(super) fn content(&self) -> &Arc<Content> {
        self.content.as_ref().expect("open until it is closed")
    }

    /// Returns its inode number.
    pub fn ino(&self) -> Ino {
        self.hold.ino()
    }

    /// Returns its size in bytes, with content that is only in memory.
    pub fn size(&self) -> u64 {
        self.content().size().0
    }

    /// Reads from byte `offset`. Returns the number of bytes before the end of the file.
    ///
    /// # Errors
    /// The device fails, or the map of the file is damaged.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.content().read(&self.fs().volume, ByteOffset(offset), buf)?)
    }

    /// Reads as [`read`](Self::read) does, and calls `take` with the bytes, once. They are in
    /// `buf`, or in memory of the device, which saves a copy.
    ///
    /// # Errors
    /// As [`read`](Self::read); then `take` was not called.
    pub fn read_with(
        &self,
        offset: u64,
        buf: &mut [u8],
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> Result<()> {
        Ok(self.content().read_with(&self.fs().volume, ByteOffset(offset), buf, take)?)
    }

    /// Writes `bytes` from byte `offset` on.
    ///
    /// # Errors
    /// There is no space, or the file would be too large. Nothing has changed then.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let now = self.fs().clock.now();
        Ok(self.content().write(&self.fs().volume, ByteOffset(offset), bytes, now)?)
    }

    /// Writes `bytes` at the end of the file. Returns the offset where they start.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        let now = self.fs().clock.now();
        Ok(self.content().append(&self.fs().volume, bytes, now)?.0)
    }

    /// Sets the size to `size` bytes: data behind it are removed, and new bytes read as zeroes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn truncate(&self, size: u64) -> Result<()> {
        let now = self.fs().clock.now();
        Ok(self.content().truncate(&self.fs().volume, ByteLen(size), now)?)
    }

    /// Makes a hole of `range`: it reads as zeroes, and its blocks are freed.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn punch(&self, range: Range<u64>) -> Result<()> {
        let now = self.fs().clock.now();
        Ok(self.content().punch(&self.fs().volume, bytes(&range), now)?)
    }

    /// Allocates blocks for `range`, which read as zeroes. The file grows if the range is beyond
    /// its end, unless `keep_size`.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn preallocate(&self, range: Range<u64>, keep_size: bool) -> Result<()> {
        let now = self.fs().clock.now();
        Ok(self.content().preallocate(&self.fs().volume, bytes(&range), keep_size, now)?)
    }

    /// Makes `range` read as zeroes, with blocks allocated.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn zero(&self, range: Range<u64>, keep_size: bool) -> Result<()> {
        let now = self.fs().clock.now();
        Ok(self.content().zero(&self.fs().volume, bytes(&range), keep_size, now)?)
    }

    /// Removes `range`, whole blocks, from the file: the data behind it move forward.
    ///
    /// # Errors
    /// `range` is not whole blocks or reaches the end; as [`write`](Self::write).
    pub fn collapse(&self, range: Range<u64>) -> Result<()> {
        let now = self.fs().clock.now();
        Ok(self.content().collapse(&self.fs().volume, bytes(&range), now)?)
    }

    /// Inserts a hole of `range`, whole blocks: the data from its start on move back.
    ///
    /// # Errors
    /// As [`collapse`](Self::collapse).
    pub fn insert(&self, range: Range<u64>) -> Result<()> {
        let now = self.fs().clock.now();
        Ok(self.content().insert(&self.fs().volume, bytes(&range), now)?)
    }

    /// Returns the next data, or hole, from byte `offset` on; `None` if there is none before the
    /// end.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn seek(&self, offset: u64, what: Seek) -> Result<Option<u64>> {
        let found = self.content().seek(&self.fs().volume, ByteOffset(offset), what)?;
        Ok(found.map(|offset| offset.0))
    }

    /// Makes all writes so far durable.
    ///
    /// # Errors
    /// The data or the journal cannot be written.
    pub fn fsync(&self) -> Result<()> {
        Ok(self.content().fsync(&self.fs().volume)?)
    }

    /// Ends the handle. Content in memory goes to the device; it is durable with the next sync.
    ///
    /// # Errors
    /// The content cannot be written. It stays in memory then.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(content) = self.content.take() else { return Ok(()) };
        let volume = &self.fs().volume;
        // A closed volume has written everything.
        match self.at_end {
            _ if volume.check_open().is_err() => {}
            AtEnd::Release => volume.release_content(content),
            AtEnd::Leave => volume.leave_content(content),
            AtEnd::Flush => volume.close_content(content)?,
        }
        Ok(())
    }
}

impl<F: Deref<Target = Fs>> Drop for FileHandle<F> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(ino = %self.hold.ino(), %error, "content stays in memory");
        }
    }
}

pub(super) fn bytes(range: &Range<u64>) -> Range<ByteOffset> {
    ByteOffset(range.start)..ByteOffset(range.end)
}
