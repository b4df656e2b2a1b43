//! A source directory, and opening files in it by path: of any length, never through a symbolic
//! link.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::SourceError;

/// Length of the longest path that one call takes, with its closing zero.
pub(super) const PATH_MAX: usize = 4096;
const PATH_ONLY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Not blocking: a named pipe that replaced a file must not block the reader.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Appends `path` to that of its directory, which may end in a slash, as `/` does.
pub(super) fn push_path(dir: &mut Vec<u8>, path: &[u8]) {
    if !dir.ends_with(b"/") {
        dir.push(b'/');
    }
    dir.extend_from_slice(path);
}

/// The root of a source directory.
#[derive(Debug)]
pub(super) struct Root {
    fd: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens the directory `path`, which may be a symbolic link to one.
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        let flags = PATH_ONLY.difference(OFlags::NOFOLLOW);
        let fd = fs::open(path, flags, Mode::empty())
            .map_err(|error| SourceError::io(path.as_os_str().as_bytes(), error))?;
        Ok(Self { fd, path: path.to_path_buf() })
    }

    /// Returns `path` below it, as messages print it.
    pub(super) fn shown(&self, path: &[u8]) -> Vec<u8> {
        let mut shown = Vec::new();
        self.show(&mut shown, path);
        shown
    }

    /// Appends `path` below it to `to`, as programs know it.
    pub(super) fn show(&self, to: &mut Vec<u8>, path: &[u8]) {
        to.extend_from_slice(self.path.as_os_str().as_bytes());
        if !path.is_empty() {
            push_path(to, path);
        }
    }

    /// Opens the regular file at `path` below it. Returns its size in bytes, too.
    pub(super) fn open_file(&self, path: &[u8]) -> Result<(File, u64), SourceError> {
        let fd = self.open_at(path, FILE).map_err(|errno| match errno {
            Errno::LOOP | Errno::NOENT | Errno::NOTDIR | Errno::NXIO => {
                SourceError::Changed { path: self.shown(path) }
            }
            errno => SourceError::io(&self.shown(path), errno),
        })?;
        let stat = fs::fstat(&fd).map_err(|error| SourceError::io(&self.shown(path), error))?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        match u64::try_from(stat.st_size) {
            Ok(size) if regular => Ok((fd.into(), size)),
            _ => Err(SourceError::Changed { path: self.shown(path) }),
        }
    }

    /// Opens `path` below it. Reading does not change the access time if the caller may prevent
    /// that.
    pub(super) fn open_at(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut from = None;
        let mut rest = path;
        while rest.len() >= PATH_MAX {
            let cut =
                rest[..PATH_MAX].iter().rposition(|&b| b == b'/').ok_or(Errno::NAMETOOLONG)?;
            let at = from.as_ref().unwrap_or(&self.fd);
            from = Some(fs::openat(at, &rest[..cut], PATH_ONLY, Mode::empty())?);
            rest = &rest[cut + 1..];
        }
        let at = from.as_ref().unwrap_or(&self.fd);
        let rest = if rest.is_empty() { b"." } else { rest };
        match fs::openat(at, rest, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => fs::openat(at, rest, flags, Mode::empty()),
            other => other,
        }
    }
}

/// Splits a path into its directory and its name.
pub(super) fn split(path: &Path) -> Result<(&Path, &[u8]), SourceError> {
    let Some(name) = path.file_name() else {
        let path = path.as_os_str().as_bytes().to_vec();
        return Err(SourceError::Unfit { path, what: "not the name of a file".into() });
    };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    Ok((dir.unwrap_or(Path::new(".")), name.as_bytes()))
}

/// Returns device and inode number of the file `path`; `None` if there is none.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
