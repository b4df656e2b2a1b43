//! The errors of this floor, in terms of paths, and the errno of each.

use rustix::io::Errno;

use crate::path::shown;

/// An error of following a path or reading a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The volume refused or failed.
    #[error(transparent)]
    Core(#[from] xfskit_core::Error),
    /// An operation on a path failed.
    #[error("cannot {operation} {path}: {}", without(path, source))]
    At {
        /// The path as it was given.
        path: String,
        /// The operation: a verb, perhaps with an object.
        operation: &'static str,
        /// The cause.
        source: Box<Error>,
    },
    /// No entry has this name.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path up to the missing name.
        path: String,
    },
    /// A path continues behind something that is not a directory.
    #[error("{path}: not a directory")]
    NotDirectory {
        /// The path up to that.
        path: String,
    },
    /// The path names a directory where another type is needed.
    #[error("{path}: is a directory")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// The path does not name a symbolic link.
    #[error("{path}: not a symbolic link")]
    NotSymlink {
        /// The path.
        path: String,
    },
    /// The path does not name a regular file.
    #[error("{path}: not a regular file")]
    NotFile {
        /// The path.
        path: String,
    },
    /// Symbolic links lead in a circle, or one path has more than 40.
    #[error("{path}: too many levels of symbolic links")]
    Loop {
        /// The path as it was given.
        path: String,
    },
    /// A name has more than 255 bytes.
    #[error("{path}: name too long")]
    NameTooLong {
        /// The path as it was given.
        path: String,
    },
    /// A name that no entry can have: empty, `.` or `..`, or with a slash or a zero byte.
    #[error("{name:?} cannot be the name of a file")]
    BadName {
        /// The name.
        name: String,
    },
    /// The root directory was to be made, renamed or removed.
    #[error("{path}: the root directory has no name that could be made, moved or removed")]
    Root {
        /// The path as it was given.
        path: String,
    },
    /// A path that does not begin with `/`.
    #[error("{path:?} is not absolute: paths inside a volume begin with /")]
    NotAbsolute {
        /// The path as it was given.
        path: String,
    },
    /// The result is larger than one call returns
    /// ([`Fs::with_whole_max`](crate::Fs::with_whole_max)).
    #[error("{what}: {bytes} bytes or more, of which one call returns at most {max}: {instead}")]
    TooLarge {
        /// The requested object.
        what: &'static str,
        /// Its size so far.
        bytes: u64,
        /// The maximum size.
        max: u64,
        /// The call that returns it in parts.
        instead: &'static str,
    },
    /// A directory that was reached twice. This is damage, because Linux never links one twice.
    #[error(
        "directory {ino} is reached a second time as {path}, first as {first}: expected one parent, found more \
         [dir.twice]"
    )]
    DirTwice {
        /// Its inode.
        ino: xfskit_units::Ino,
        /// The path by which it was reached again. If it begins with the first path, this is a
        /// cycle.
        path: String,
        /// The path by which it was reached first.
        first: String,
    },
}

/// A result with this floor's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Formats `error` for a message that has `path` already.
fn without(path: &str, error: &Error) -> String {
    let text = error.to_string();
    let rest = text.strip_prefix(path).and_then(|rest| rest.strip_prefix(": "));
    rest.map_or(text.clone(), ToOwned::to_owned)
}

impl Error {
    /// Adds `operation` and `path` to the error.
    #[must_use]
    pub fn at(self, operation: &'static str, path: &[u8]) -> Self {
        match self {
            Self::At { .. } => self,
            error => Self::At { path: shown(path), operation, source: Box::new(error) },
        }
    }

    /// Replaces an inode number or a name in the error by `path`.
    #[must_use]
    pub fn by_path(self, path: &[u8]) -> Self {
        use xfskit_core::Error as Core;
        let path = shown(path);
        match self {
            Self::Core(Core::NoEntry) => Self::NotFound { path },
            Self::Core(Core::NotDirectory(_)) => Self::NotDirectory { path },
            Self::Core(Core::IsDirectory(_)) => Self::IsDirectory { path },
            Self::Core(Core::NotSymlink(_)) => Self::NotSymlink { path },
            Self::Core(Core::NotFile(_)) => Self::NotFile { path },
            error => error,
        }
    }

    /// Returns the error without the operation that it ended.
    pub fn reason(&self) -> &Self {
        match self {
            Self::At { source, .. } => source.reason(),
            error => error,
        }
    }

    /// Returns true if an inode that the caller knew is gone. Its name may have another inode by
    /// now.
    pub fn is_stale(&self) -> bool {
        matches!(self.reason(), Self::Core(xfskit_core::Error::NoInode(_)))
    }

    /// Returns the errno of a system call: `ENOENT`, `ELOOP`, `EUCLEAN` for corruption, ….
    pub fn errno(&self) -> i32 {
        use xfskit_core::Error as Core;
        let errno = match self {
            Self::At { source, .. } => return source.errno(),
            Self::NotFound { .. } | Self::Core(Core::Missing(_) | Core::NoEntry) => Errno::NOENT,
            Self::Core(Core::Exists) => Errno::EXIST,
            Self::Core(Core::NotEmpty) => Errno::NOTEMPTY,
            Self::Core(Core::NoSpace(_) | Core::BusyExtents | Core::Full(_)) => Errno::NOSPC,
            Self::Core(Core::ReadOnly) => Errno::ROFS,
            Self::Core(Core::Closed) => Errno::BADF,
            Self::NotDirectory { .. } | Self::Core(Core::NotDirectory(_)) => Errno::NOTDIR,
            Self::IsDirectory { .. } | Self::Core(Core::IsDirectory(_)) => Errno::ISDIR,
            Self::Root { .. } => Errno::BUSY,
            Self::Loop { .. } => Errno::LOOP,
            Self::NameTooLong { .. } | Self::Core(Core::NameTooLong(_)) => Errno::NAMETOOLONG,
            Self::TooLarge { .. } | Self::Core(Core::FileTooLarge(_)) => Errno::FBIG,
            Self::Core(Core::AttrName) => Errno::RANGE,
            Self::Core(Core::AttrValue) => Errno::TOOBIG,
            Self::Core(Core::TooManyLinks) => Errno::MLINK,
            Self::Core(Core::NotPermitted(_)) => Errno::PERM,
            Self::Core(Core::OtherVolume) => Errno::XDEV,
            Self::BadName { .. }
            | Self::NotAbsolute { .. }
            | Self::NotSymlink { .. }
            | Self::NotFile { .. }
            | Self::Core(Core::Limit(_) | Core::NotSymlink(_) | Core::NotFile(_)) => Errno::INVAL,
            Self::Core(Core::NoInode(_)) => Errno::STALE,
            Self::Core(Core::Unsupported(_) | Core::Unwritable(_)) => Errno::OPNOTSUPP,
            Self::DirTwice { .. } | Self::Core(Core::Corrupt(_) | Core::Superblock(_)) => {
                Errno::UCLEAN
            }
            Self::Core(_) => Errno::IO,
        };
        errno.raw_os_error()
    }

    /// Returns true if the path is wrong: it names nothing, or not the type that is needed.
    pub fn is_path(&self) -> bool {
        !matches!(self.reason(), Self::Core(_) | Self::DirTwice { .. } | Self::TooLarge { .. })
    }

    /// Returns the failed check, if the error is one.
    pub fn corruption(&self) -> Option<&xfskit_format::Corruption> {
        match self.reason() {
            Self::Core(error) => error.corruption(),
            _ => None,
        }
    }
}
