//! One error for everything, with the kind, the errno, the path and the finding behind it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use xfskit_format::Corruption;

use crate::cause::Cause;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// [`kind`](Self::kind) says what a program can act on, [`errno`](Self::errno) what a system call
/// would return, [`corruption`](Self::corruption) which check found the volume damaged, and
/// [`path`](Self::path) where. It converts into [`std::io::Error`], so that `?` works in functions
/// that return [`std::io::Result`].
#[derive(Debug)]
pub struct Error(Box<Repr>);

#[derive(Debug)]
struct Repr {
    path: Option<PathBuf>,
    cause: Cause,
}

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing has this name.
    NotFound,
    /// The file has no extended attribute of this name.
    NoAttribute,
    /// The name is taken.
    AlreadyExists,
    /// A directory was needed.
    NotADirectory,
    /// The path names a directory, and something else was needed.
    IsADirectory,
    /// The directory has entries.
    DirectoryNotEmpty,
    /// Symbolic links lead in a circle, or through too many others.
    FilesystemLoop,
    /// A name is too long, or no entry can have it.
    InvalidFilename,
    /// An argument makes no sense, or exceeds a limit of the format.
    InvalidInput,
    /// The file was removed, and its inode given back, while the call ran.
    StaleHandle,
    /// The volume is open for reading only.
    ReadOnly,
    /// No space is left on the volume.
    StorageFull,
    /// More was asked for than one call returns, or the file would be larger than one can be or
    /// have too many extents.
    FileTooLarge,
    /// The file has as many links as one can have.
    TooManyLinks,
    /// The files are on different volumes.
    CrossesDevices,
    /// A check found the volume damaged: see [`Error::corruption`].
    Corrupt,
    /// The primary superblock is damaged. By a secondary one the volume can be read, not changed.
    PrimaryDamaged,
    /// The superblock is damaged, and no other one can take its place.
    SuperblockDamaged,
    /// The journal is damaged. [Without recovery](crate::VolumeOptions::recovery) the volume can be
    /// read as it stands on disk.
    JournalDamaged,
    /// The journal cannot be read: it is on a device that
    /// [was not named](crate::VolumeOptions::log), or belongs to another volume.
    JournalUnreadable,
    /// The target holds no XFS volume.
    NotXfs,
    /// The device is no member of the array, or not one with which this can be done now.
    Member,
    /// A feature of the volume or of the request is not supported.
    Unsupported,
    /// The target is mounted, or open for writing elsewhere.
    ResourceBusy,
    /// The system denies access to the target.
    PermissionDenied,
    /// A device failed.
    Device,
    /// An earlier failure shut the volume down: nothing is written any more.
    Shutdown,
    /// The volume was closed.
    Closed,
    /// The caller cancelled the operation.
    Cancelled,
    /// Something else.
    Other,
}

impl Error {
    pub(crate) fn new(cause: impl Into<Cause>) -> Self {
        Self(Box::new(Repr { path: None, cause: cause.into() }))
    }

    pub(crate) fn at(cause: impl Into<Cause>, path: &Path) -> Self {
        Self(Box::new(Repr { path: Some(path.to_owned()), cause: cause.into() }))
    }

    pub(crate) fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.cause.kind()
    }

    /// Returns the number that a system call would return: `ENOENT`, `EISDIR`, `EUCLEAN` for
    /// corruption.
    pub fn errno(&self) -> i32 {
        self.0.cause.errno()
    }

    /// Returns the path inside the volume that the failed call was about.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref().or_else(|| self.0.cause.path())
    }

    /// Returns the error without the operation that failed and its path: the error of the part that
    /// failed, which [downcasts](std::error::Error#method.downcast_ref) to [`SourceError`],
    /// [`BuildError`] or [`MkfsError`] where it is one.
    ///
    /// [`SourceError`]: crate::SourceError
    /// [`BuildError`]: crate::BuildError
    /// [`MkfsError`]: crate::MkfsError
    pub fn reason(&self) -> &(dyn std::error::Error + 'static) {
        self.0.cause.reason()
    }

    /// Returns what to do about it, as a sentence for people, if there is advice. It may name
    /// commands of the tool `xfskit`.
    pub fn hint(&self) -> Option<String> {
        self.0.cause.hint()
    }

    /// Returns the finding, if a check found the volume damaged.
    pub fn corruption(&self) -> Option<&Corruption> {
        self.0.cause.corruption()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.cause, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.cause)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(io::Error::from_raw_os_error(error.errno()).kind(), error)
    }
}
