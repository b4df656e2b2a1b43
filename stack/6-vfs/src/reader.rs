//! A regular file, open for reading: a stream, and reads at any offset.

use std::io::{self, Read, Seek, SeekFrom};

use xfskit_core::file::File;
use xfskit_units::{ByteOffset, index};

use crate::{Error, Fs, Handle, Inode, Result};

/// Bytes that are read at once, where all of a file is.
const CHUNK: u64 = 1 << 20;

/// A regular file, open for reading. It has no bound on the size of the file: holes are zeroes when
/// they are read, and take no memory before.
#[derive(Debug)]
pub struct Reader<'f> {
    source: Source<'f>,
    whole_max: u64,
    /// Where the stream goes on, in bytes.
    at: u64,
}

/// Where the content is.
#[derive(Debug)]
enum Source<'f> {
    /// On a volume that is open for reading: on the device, where it stays.
    Still(File<'f>),
    /// In memory or on the device, as all handles see it.
    Live(Handle<'f>),
}

impl Fs {
    /// Opens the regular file `inode` for reading.
    ///
    /// # Errors
    /// Where it is none, or its map is damaged; [`NoInode`](xfskit_core::Error::NoInode) where it
    /// is gone, or its number is another file's now.
    pub fn reader(&self, inode: &Inode) -> Result<Reader<'_>> {
        let source = if self.volume.engine().is_ok() {
            Source::Live(self.open_to_read(inode)?)
        } else {
            Source::Still(self.volume.open_file(inode)?)
        };
        Ok(Reader { source, whole_max: self.whole_max, at: 0 })
    }
}

impl Reader<'_> {
    /// Size of the file in bytes, as it is now.
    pub fn size(&self) -> u64 {
        match &self.source {
            Source::Still(file) => file.size().0,
            Source::Live(file) => file.size(),
        }
    }

    /// Reads from byte `offset`, and returns how many bytes there were before the end of the file.
    ///
    /// # Errors
    /// Where the device fails, or the map of the file is damaged.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match &self.source {
            Source::Still(file) => Ok(file.read_at(ByteOffset(offset), buf)?),
            Source::Live(file) => file.read(offset, buf),
        }
    }

    /// Returns all of the content.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`WHOLE_MAX`](crate::WHOLE_MAX), or what [`Fs::with_whole_max`]
    /// says; as [`read_at`](Self::read_at).
    pub fn read_whole(&self) -> Result<Vec<u8>> {
        let size = self.size();
        if size > self.whole_max {
            let (what, instead) = ("the content", "read it as a stream, with Reader");
            return Err(Error::TooLarge { what, bytes: size, max: self.whole_max, instead });
        }
        let mut content = Vec::new();
        // The size is the disk's word; memory is taken as content arrives.
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

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.at, buf).map_err(|error| {
            let kind = io::Error::from_raw_os_error(error.errno()).kind();
            io::Error::new(kind, error)
        })?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Reader<'_> {
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
