//! A regular file, open for reading: as a stream, or at any offset.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Deref;

use xfskit_core::file::FileExtents;
use xfskit_units::{ByteOffset, index};

use crate::change::handle::{AtEnd, FileHandle};
use crate::{Error, Fs, Inode, Result};

/// Number of bytes read at once when a whole file is read.
const CHUNK: u64 = 1 << 20;

/// A regular file, open for reading. Its size has no bound: holes become zeroes when they are read,
/// and take no memory before.
#[derive(Debug)]
pub struct FileReader<F: Deref<Target = Fs>> {
    source: Source<F>,
    whole_max: u64,
    /// Position of the stream, in bytes.
    at: u64,
}

/// A reader that borrows the filesystem.
pub type Reader<'f> = FileReader<&'f Fs>;

/// The location of the content.
#[derive(Debug)]
enum Source<F: Deref<Target = Fs>> {
    /// On a volume that is open for reading: on the device, where it does not move.
    Still(F, FileExtents),
    /// In memory or on the device, as all handles see it.
    Live(FileHandle<F>),
}

impl Fs {
    /// Opens the regular file `inode` for reading.
    ///
    /// # Errors
    /// The inode is not a regular file, or its map is damaged;
    /// [`NoInode`](xfskit_core::Error::NoInode) if it is gone, or its number is another file's now.
    pub fn reader(&self, inode: &Inode) -> Result<Reader<'_>> {
        FileReader::open(self, inode)
    }
}

impl<F: Deref<Target = Fs>> FileReader<F> {
    /// Opens the regular file `inode` of the volume that `fs` refers to.
    ///
    /// # Errors
    /// As [`Fs::reader`].
    pub fn open(fs: F, inode: &Inode) -> Result<Self> {
        let whole_max = fs.whole_max;
        let source = if fs.volume.engine().is_ok() {
            Source::Live(FileHandle::open_inode(fs, inode, AtEnd::Release)?)
        } else {
            let file = fs.volume.file_extents(inode)?;
            Source::Still(fs, file)
        };
        Ok(Self { source, whole_max, at: 0 })
    }

    /// Returns the size of the file in bytes, as it is now.
    pub fn size(&self) -> u64 {
        match &self.source {
            Source::Still(_, file) => file.size().0,
            Source::Live(file) => file.size(),
        }
    }

    /// Reads from byte `offset`. Returns the number of bytes before the end of the file.
    ///
    /// # Errors
    /// The device fails, or the map of the file is damaged.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match &self.source {
            Source::Still(fs, file) => Ok(file.read_at(&fs.volume, ByteOffset(offset), buf)?),
            Source::Live(file) => file.read(offset, buf),
        }
    }

    /// Reads as [`read_at`](Self::read_at) does, and calls `take` with the bytes, once. They are in
    /// `buf`, or in memory of the device, which saves a copy.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); then `take` was not called.
    pub fn read_with(
        &self,
        offset: u64,
        buf: &mut [u8],
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> Result<()> {
        match &self.source {
            Source::Still(fs, file) => {
                Ok(file.read_with(&fs.volume, ByteOffset(offset), buf, take)?)
            }
            Source::Live(file) => file.read_with(offset, buf, take),
        }
    }

    /// Returns all of the content.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if it exceeds [`WHOLE_MAX`](crate::WHOLE_MAX), or the maximum of
    /// [`Fs::with_whole_max`]; as [`read_at`](Self::read_at).
    pub fn read_whole(&self) -> Result<Vec<u8>> {
        let size = self.size();
        if size > self.whole_max {
            let (what, instead) = ("the content", "read it as a stream, with Reader");
            return Err(Error::TooLarge { what, bytes: size, max: self.whole_max, instead });
        }
        let mut content = Vec::new();
        // The size comes from the disk and may be wrong; memory is taken as content arrives.
        while (content.len() as u64) < size {
            let start = content.len();
            let len = (size - start as u64).min(CHUNK);
            content.resize(start + index(len), 0);
            let read = self.read_at(start as u64, &mut content[start..])?;
            content.truncate(start + read);
            if read == 0 {
                break;
            }
        }
        Ok(content)
    }
}

impl<F: Deref<Target = Fs>> Read for FileReader<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.at, buf).map_err(|error| {
            let kind = io::Error::from_raw_os_error(error.errno()).kind();
            io::Error::new(kind, error)
        })?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<F: Deref<Target = Fs>> Seek for FileReader<F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
