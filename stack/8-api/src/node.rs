//! Files of every type created, with their owner.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xfskit_core::Error as Core;
use xfskit_vfs::{self as vfs, AtEnd, FileHandle, FileType};

use crate::file::Source;
use crate::{File, Permissions, Result, Volume};

/// What to create at a path: a builder. Without [`mode`](Self::mode) a file is writable by its
/// owner and readable by all, or the directory's default ACL applies.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// # let volume = xfskit::VolumeOptions::new().write(true).open("disk.img")?;
/// use xfskit::NewFile;
///
/// volume.create_node("/dev/null", &NewFile::char_device(1, 3).mode(0o666))?;
/// volume.create_node("/home/jane", &NewFile::dir().mode(0o700).owner(1000, 1000))?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "nothing is created until `create_node` is called"]
pub struct NewFile(pub(crate) vfs::NewNode);

impl NewFile {
    /// Returns an empty regular file.
    pub fn file() -> Self {
        Self(vfs::NewNode::usual(FileType::Regular))
    }

    /// Returns an empty directory.
    pub fn dir() -> Self {
        Self(vfs::NewNode::usual(FileType::Directory))
    }

    /// Returns a symbolic link to `target`.
    pub fn symlink(target: impl AsRef<Path>) -> Self {
        Self(vfs::NewNode::symlink(target.as_ref().as_os_str().as_bytes()))
    }

    /// Returns a named pipe.
    pub fn fifo() -> Self {
        Self(vfs::NewNode::usual(FileType::Fifo))
    }

    /// Returns a socket.
    pub fn socket() -> Self {
        Self(vfs::NewNode::usual(FileType::Socket))
    }

    /// Returns a character device.
    pub fn char_device(major: u32, minor: u32) -> Self {
        Self::device(FileType::CharDevice, major, minor)
    }

    /// Returns a block device.
    pub fn block_device(major: u32, minor: u32) -> Self {
        Self::device(FileType::BlockDevice, major, minor)
    }

    fn device(file_type: FileType, major: u32, minor: u32) -> Self {
        Self(vfs::NewNode { rdev: Some((major, minor)), ..vfs::NewNode::usual(file_type) })
    }

    /// Sets the permissions: `0o640`.
    pub fn mode(mut self, mode: u32) -> Self {
        const PERMISSIONS: u16 = 0o7777;
        self.0.mode = self.0.mode & !PERMISSIONS | Permissions::from_mode(mode).bits();
        self.0.umask = 0;
        self
    }

    /// Sets owner and group. Root's by default; a directory with the setgid bit gives its group.
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        (self.0.uid, self.0.gid) = (uid, gid);
        self
    }
}

impl Volume {
    /// Creates the file that `new` describes at `path`, and returns its inode number.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists),
    /// [`NotFound`](crate::ErrorKind::NotFound) for the directory;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what the format cannot hold.
    pub fn create_node(&self, path: impl AsRef<Path>, new: &NewFile) -> Result<u64> {
        let made =
            self.at("make", path.as_ref(), |fs, path| crate::names::create_node(fs, path, &new.0));
        made.map(|ino| ino.0)
    }

    /// Creates a regular file without a name, open for reading and writing, as `O_TMPFILE` does.
    /// [`File::link`] gives it a name; without one it goes when it is dropped. `dir` is the
    /// directory near which it is allocated.
    ///
    /// # Errors
    /// As [`create_node`](Self::create_node); [`InvalidInput`](crate::ErrorKind::InvalidInput) for
    /// what is no regular file.
    pub fn create_unnamed(&self, dir: impl AsRef<Path>, new: &NewFile) -> Result<File> {
        self.at("make a file in", dir.as_ref(), |owner, path| {
            let dir = owner.resolve(path, vfs::Follow::Yes)?;
            if !dir.core().is_dir() {
                return Err(Core::NotDirectory(dir.ino()).into());
            }
            let file = owner.make_unnamed(dir.ino(), &new.0)?;
            let handle = FileHandle::open(owner.clone(), file.ino(), AtEnd::Leave)?;
            Ok(File::new(owner.clone(), file.ino(), Source::Handle(handle), true, false))
        })
    }
}
