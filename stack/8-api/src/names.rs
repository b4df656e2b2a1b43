//! Names created, moved and removed.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xfskit_core::Error as Core;
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, FileType, Follow, Fs, Handle, NewNode, RenameMode};

use crate::remove_all::remove_all;
use crate::{OpenOptions, Result, Volume};

/// Returns `error` of `operation` on `path`. An inode that is gone stays what it is: the path is
/// resolved again.
fn of(error: vfs::Error, operation: &'static str, path: &[u8]) -> vfs::Error {
    if error.is_stale() { error } else { error.by_path(path).at(operation, path) }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Creates `new` at `path`, and returns its number.
pub(crate) fn create_node(fs: &Fs, path: &[u8], new: &NewNode) -> vfs::Result<Ino> {
    let (dir, name) = fs.hold_parent(path)?;
    fs.make(dir.ino(), &name, new)
}

/// Creates the directory that the first `end` bytes of `path` name, unless it is there.
fn create_dir_up_to(fs: &Fs, path: &[u8], end: usize, new: &NewNode) -> vfs::Result<()> {
    let way = &path[..end];
    let created = match fs.resolve(way, Follow::Yes) {
        Err(vfs::Error::NotFound { .. }) => create_node(fs, way, new).map(drop),
        Ok(there) if there.core().is_dir() => return Ok(()),
        Ok(_) => Err(Core::Exists.into()),
        Err(error) => return Err(error),
    };
    match created {
        Err(vfs::Error::Core(Core::Exists)) => {
            let is_dir = fs.resolve(way, Follow::Yes).is_ok_and(|there| there.core().is_dir());
            let is_last = path[end..].iter().all(|&b| b == b'/');
            match (is_dir, is_last) {
                // Another thread made it meanwhile.
                (true, _) => Ok(()),
                (false, true) => Err(Core::Exists.into()),
                (false, false) => Err(vfs::Error::NotDirectory { path: shown(way) }),
            }
        }
        created => created,
    }
}

/// Replaces the content of an open file.
fn fill(file: Handle<'_>, content: &[u8]) -> vfs::Result<()> {
    file.write(0, content)?;
    file.truncate(content.len() as u64)?;
    file.close()
}

impl Volume {
    /// Makes `content` the whole content of a file, which is created where it is missing. A file
    /// that is created appears with its content; one that is there keeps everything else.
    ///
    /// # Errors
    /// [`StorageFull`](crate::ErrorKind::StorageFull): then the file is as it was.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let content = content.as_ref();
        self.at("write", path.as_ref(), |fs, path| match fs.resolve(path, Follow::Yes) {
            Err(vfs::Error::NotFound { .. }) => {
                let (dir, name) = fs.hold_parent(path)?;
                let new = NewNode::usual(FileType::Regular);
                let file = fs.make_unnamed(dir.ino(), &new)?;
                fill(Fs::open(fs, file.ino())?, content)?;
                fs.link(file.ino(), dir.ino(), &name)
            }
            there => fill(fs.open_inode(&there?)?, content),
        })
    }

    /// Creates a directory, whose parent exists.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists),
    /// [`NotFound`](crate::ErrorKind::NotFound).
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let new = NewNode::usual(FileType::Directory);
        self.at("make", path.as_ref(), |fs, path| create_node(fs, path, &new).map(drop))
    }

    /// Creates a directory with those on the way to it, as far as they are missing.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) and
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) where something else is there.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let new = NewNode::usual(FileType::Directory);
        self.at("make", path.as_ref(), |fs, path| {
            let mut ends = (1..path.len()).filter(|&end| path[end] == b'/').chain([path.len()]);
            ends.try_for_each(|end| create_dir_up_to(fs, path, end, &new))
        })
    }

    /// Creates a file of the type in `mode`: `S_IFIFO | 0o600`, a regular file, a socket, or a
    /// device with major and minor number `rdev`.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists);
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a mode without a type, and for device
    /// numbers that the format cannot hold.
    pub fn mknod(&self, path: impl AsRef<Path>, mode: u32, rdev: Option<(u32, u32)>) -> Result<()> {
        // A mode that is too large has no file type.
        let mode = u16::try_from(mode).unwrap_or(0);
        let new = NewNode { mode, rdev, ..NewNode::default() };
        self.at("make", path.as_ref(), |fs, path| create_node(fs, path, &new).map(drop))
    }

    /// Creates the symbolic link `link`, which points to `original`.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists);
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a target of more than 1023 bytes.
    pub fn symlink(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let new = NewNode::symlink(original.as_ref().as_os_str().as_bytes());
        self.at("make", link.as_ref(), |fs, path| create_node(fs, path, &new).map(drop))
    }

    /// Gives the file `original` the further name `link`. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists),
    /// [`NotFound`](crate::ErrorKind::NotFound); [`InvalidInput`](crate::ErrorKind::InvalidInput)
    /// for a directory.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let original = crate::volume::inside(original.as_ref());
        self.at("link to", link.as_ref(), |fs, link| {
            let find = || fs.hold_inode(&fs.resolve(&original, Follow::No)?);
            let file = find().map_err(|error| of(error, "link", &original))?;
            let (dir, name) = fs.hold_parent(link)?;
            fs.link(file.ino(), dir.ino(), &name)
        })
    }

    /// Renames `from` to `to`. A file at `to` is replaced, and an empty directory if `from` is a
    /// directory.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound),
    /// [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty),
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory),
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory);
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where a directory would come below itself.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// Renames, as [`rename`](Self::rename) does; `mode` decides what happens to a file at `to`.
    ///
    /// # Errors
    /// As [`rename`](Self::rename); [`AlreadyExists`](crate::ErrorKind::AlreadyExists).
    pub fn rename_with(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        mode: RenameMode,
    ) -> Result<()> {
        let from = crate::volume::inside(from.as_ref());
        self.at("rename to", to.as_ref(), |fs, to| {
            let source = fs.hold_parent(&from).map_err(|error| of(error, "rename", &from))?;
            let target = fs.hold_parent(to)?;
            let (from_dir, to_dir) = (source.0.ino(), target.0.ino());
            let renamed = fs.rename(from_dir, &source.1, to_dir, &target.1, mode);
            renamed.map_err(|error| match error {
                vfs::Error::Core(Core::NoEntry) => of(error, "rename", &from),
                error => error,
            })
        })
    }

    /// Copies the content and the permissions of the file `from` to the file `to`, which is created
    /// where it is missing. Blocks are shared where the volume has reflink. Returns the number of
    /// bytes.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file) and [`create`](Self::create);
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where both are one file,
    /// [`StorageFull`](crate::ErrorKind::StorageFull).
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64> {
        let source = self.open_file(from)?;
        let metadata = source.metadata()?;
        let to = to.as_ref();
        let target = self.open_with(to, OpenOptions::new().write(true).create(true))?;
        let len = metadata.len();
        let copied = target.copy_range(0, &source, 0..len)?;
        if copied < len && source.metadata()?.len() >= len {
            return Err(crate::Error::at(Core::NoSpace("space"), to));
        }
        target.set_len(copied)?;
        target.set_permissions(metadata.permissions())?;
        Ok(copied)
    }

    /// Removes a name of a file, which is no directory. The file goes with its last name, or with
    /// its last open [`File`](crate::File).
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), [`IsADirectory`](crate::ErrorKind::IsADirectory).
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.at("remove", path.as_ref(), |fs, path| {
            let (dir, name) = fs.hold_parent(path)?;
            fs.unlink(dir.ino(), &name)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound),
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory),
    /// [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty).
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.at("remove", path.as_ref(), |fs, path| {
            let (dir, name) = fs.hold_parent(path)?;
            fs.rmdir(dir.ino(), &name)
        })
    }

    /// Removes a directory with everything below it. Symbolic links are removed, not followed. Each
    /// removal is a change of its own: after an error the rest is still there.
    ///
    /// # Errors
    /// As [`remove_dir`](Self::remove_dir); [`Corrupt`](crate::ErrorKind::Corrupt) for a directory
    /// that cannot be listed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        self.at("remove", path.as_ref(), |fs, path| remove_all(fs, path))
    }
}
