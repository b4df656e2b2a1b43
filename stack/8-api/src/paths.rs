//! Paths looked up and read.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use xfskit_vfs::Follow;

use crate::{Error, ErrorKind, File, Metadata, OpenOptions, ReadDir, Result, Volume, WalkDir};

impl Volume {
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound), [`IsADirectory`](ErrorKind::IsADirectory).
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_with(path, OpenOptions::new().read(true))
    }

    /// Opens a regular file for writing, and makes it empty; creates it where it is missing.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly), [`NotFound`](ErrorKind::NotFound) for the directory,
    /// [`IsADirectory`](ErrorKind::IsADirectory).
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_with(path, OpenOptions::new().write(true).create(true).truncate(true))
    }

    /// Creates a regular file, and opens it for reading and writing.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`AlreadyExists`](ErrorKind::AlreadyExists).
    pub fn create_new(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_with(path, OpenOptions::new().read(true).write(true).create_new(true))
    }

    /// Opens a regular file as `options` say.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`InvalidInput`](ErrorKind::InvalidInput) for options that make
    /// no sense together.
    pub fn open_with(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<File> {
        self.at("open", path.as_ref(), |owner, path| options.open(owner, path))
    }

    /// Returns the whole content of a file, with what open files have written to it.
    ///
    /// # Errors
    /// [`FileTooLarge`](ErrorKind::FileTooLarge) beyond
    /// [`VolumeOptions::read_limit`](crate::VolumeOptions::read_limit); a [`File`] has no bound.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        self.at("read", path.as_ref(), |owner, path| {
            owner.reader(&owner.resolve(path, Follow::Yes)?)?.read_whole()
        })
    }

    /// Returns the whole content of a file as a string.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`InvalidInput`](ErrorKind::InvalidInput) where it is not UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?)
            .map_err(|_| Error::at(xfskit_core::Error::Limit("the content is not UTF-8"), path))
    }

    /// Returns what is known about a file. A symbolic link is followed.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound), [`Corrupt`](ErrorKind::Corrupt).
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.look(path.as_ref(), Follow::Yes)
    }

    /// Returns what is known about a file. A symbolic link is not followed.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.look(path.as_ref(), Follow::No)
    }

    fn look(&self, path: &Path, follow: Follow) -> Result<Metadata> {
        self.at("stat", path, |owner, path| Ok(owner.stat(&owner.resolve(path, follow)?).into()))
    }

    /// Returns true if the path names something that can be read. A symbolic link is followed.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_ok()
    }

    /// Returns whether the path names something. A symbolic link is followed.
    ///
    /// # Errors
    /// Where that cannot be found out: [`Corrupt`](ErrorKind::Corrupt), those of the device.
    pub fn try_exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns where a symbolic link points.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) where the path names something else.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let target = self.at("read the link", path.as_ref(), |owner, path| {
            owner.read_link(&owner.resolve(path, Follow::No)?)
        });
        target.map(|target| OsString::from_vec(target).into())
    }

    /// Returns the path without symbolic links, `.` and `..`.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn canonicalize(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let canonical = self.at("resolve", path.as_ref(), |owner, path| owner.canonicalize(path));
        canonical.map(|canonical| OsString::from_vec(canonical).into())
    }

    /// Returns the entries of a directory, in its own order: an iterator.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound), [`NotADirectory`](ErrorKind::NotADirectory). Damage is an
    /// item of the iterator.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let path = path.as_ref();
        let dir = self.at("list", path, |owner, inside| {
            let dir = owner.resolve(inside, Follow::Yes)?;
            if dir.core().is_dir() {
                return Ok(dir);
            }
            Err(xfskit_core::Error::NotDirectory(dir.ino()).into())
        })?;
        Ok(ReadDir::new(self.owner.clone(), path, dir))
    }

    /// Returns everything below a directory, the start included: an iterator, depth first, sorted
    /// by name. A symbolic link at the end of `path` is followed, those below are not.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound). Damage is an item of the iterator.
    pub fn walk_dir(&self, path: impl AsRef<Path>) -> Result<WalkDir> {
        let path = path.as_ref();
        let start = self.at("walk", path, |owner, inside| owner.resolve(inside, Follow::Yes))?;
        Ok(WalkDir::new(self.owner.clone(), &crate::volume::inside(path), start))
    }
}
