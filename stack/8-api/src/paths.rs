//! Paths looked up and read.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use xfskit_format::Fork;
use xfskit_vfs::{Follow, Inode};

use crate::{
    Error, ErrorKind, Extent, ExtentMap, File, FileFork, Metadata, OpenOptions, ReadDir, Result,
    Volume, WalkDir, WalkDirs,
};

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

    /// Opens a regular file with `options`.
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
        self.at("stat", path, |owner, path| {
            Ok(Metadata::of(owner.stat(&owner.resolve(path, follow)?)))
        })
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
        Ok(ReadDir::new(self.owner.clone(), path, self.directory("list", path)?))
    }

    /// Returns the inode of a directory.
    pub(crate) fn directory(&self, operation: &'static str, path: &Path) -> Result<Inode> {
        self.at(operation, path, |owner, inside| {
            let dir = owner.resolve(inside, Follow::Yes)?;
            if dir.core().is_dir() {
                return Ok(dir);
            }
            Err(xfskit_core::Error::NotDirectory(dir.ino()).into())
        })
    }

    /// Returns everything below a directory, the start included: an iterator, depth first, sorted
    /// by name. A symbolic link at the end of `path` is followed, those below are not.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound). Damage is an item of the iterator.
    pub fn walk_dir(&self, path: impl AsRef<Path>) -> Result<WalkDir> {
        self.walk_from(path.as_ref(), Follow::Yes)
    }

    /// Returns everything below a directory, as [`walk_dir`](Self::walk_dir) does. A symbolic link
    /// at the end of `path` is not followed: it is the only item.
    ///
    /// # Errors
    /// As [`walk_dir`](Self::walk_dir).
    pub fn walk_dir_nofollow(&self, path: impl AsRef<Path>) -> Result<WalkDir> {
        self.walk_from(path.as_ref(), Follow::No)
    }

    fn walk_from(&self, path: &Path, follow: Follow) -> Result<WalkDir> {
        let start = self.at("walk", path, |owner, inside| owner.resolve(inside, follow))?;
        Ok(WalkDir::new(self.owner.clone(), &crate::volume::inside(path), start))
    }

    /// Returns the directories below `path`, itself included, each with its entries: an iterator,
    /// as Python's `os.walk`, depth first, sorted by name. A symbolic link at the end of `path` is
    /// followed, those below are not.
    ///
    /// # Errors
    /// As [`read_dir`](Self::read_dir). Damage below is a part of the items.
    pub fn walk_dirs(&self, path: impl AsRef<Path>) -> Result<WalkDirs> {
        let path = path.as_ref();
        let dir = self.directory("walk", path)?;
        Ok(WalkDirs::new(self.owner.clone(), &crate::volume::inside(path), dir))
    }

    /// Returns where the content of a file lies on the device, ascending; for a directory its
    /// blocks, and for a long symbolic link those of its target. A symbolic link is followed. What
    /// is in memory is written first.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn extents(&self, path: impl AsRef<Path>) -> Result<Vec<Extent>> {
        self.extents_at(path.as_ref(), Follow::Yes)
    }

    /// Returns extents, as [`extents`](Self::extents) does. A symbolic link is not followed.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn extents_nofollow(&self, path: impl AsRef<Path>) -> Result<Vec<Extent>> {
        self.extents_at(path.as_ref(), Follow::No)
    }

    fn extents_at(&self, path: &Path, follow: Follow) -> Result<Vec<Extent>> {
        self.at("map", path, |owner, path| {
            crate::file::extents(owner, owner.resolve(path, follow)?.ino(), Fork::Data)
        })
    }

    /// Returns the map of one fork of a file, with what `xfs_bmap` needs to print it. A symbolic
    /// link is followed.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn extent_map(&self, path: impl AsRef<Path>, fork: FileFork) -> Result<ExtentMap> {
        self.at("map", path.as_ref(), |owner, path| {
            crate::file::extent_map(owner, owner.resolve(path, Follow::Yes)?.ino(), fork)
        })
    }
}
