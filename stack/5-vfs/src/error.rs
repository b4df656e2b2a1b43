//! What can go wrong, in the words of paths, and the errno of each: the edge where one is due.

use rustix::io::Errno;

use crate::path::shown;

/// What can go wrong when a path is followed or a file is read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The volume says no.
    #[error(transparent)]
    Core(#[from] xfskit_core::Error),
    /// An operation on a path failed.
    #[error("cannot {operation} {path}: {}", without(path, source))]
    At {
        /// The path as it was given.
        path: String,
        /// What was to be done: a verb, maybe with more.
        operation: &'static str,
        /// Why it was not.
        source: Box<Error>,
    },
    /// Nothing has this name.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path up to the missing name.
        path: String,
    },
    /// A path goes on behind something that is no directory.
    #[error("{path}: not a directory")]
    NotDirectory {
        /// The path up to what is no directory.
        path: String,
    },
    /// Only directories were left out: the path names one, and a file was needed.
    #[error("{path}: is a directory")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// A symbolic link was needed.
    #[error("{path}: not a symbolic link")]
    NotSymlink {
        /// The path.
        path: String,
    },
    /// A regular file was needed.
    #[error("{path}: not a regular file")]
    NotFile {
        /// The path.
        path: String,
    },
    /// Symbolic links lead in a circle, or through more than 40 others.
    #[error("{path}: too many levels of symbolic links")]
    Loop {
        /// The path as it was given.
        path: String,
    },
    /// A name of more than 255 bytes.
    #[error("{path}: name too long")]
    NameTooLong {
        /// The path as it was given.
        path: String,
    },
    /// A name that no entry can have: empty, `.` or `..`, with a slash or a zero byte in it.
    #[error("{name:?} cannot be the name of a file")]
    BadName {
        /// The name.
        name: String,
    },
    /// A path that does not begin with `/`.
    #[error("{path:?} is not absolute: paths inside a volume begin with /")]
    NotAbsolute {
        /// The path as it was given.
        path: String,
    },
    /// More than one call returns whole ([`Fs::with_whole_max`](crate::Fs::with_whole_max)).
    #[error("{what}: {bytes} bytes or more, of which one call returns at most {max}: {instead}")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// How large it is at least.
        bytes: u64,
        /// How large it may be.
        max: u64,
        /// How to have it in pieces.
        instead: &'static str,
    },
    /// A directory that is reached twice: by damage, for Linux never links one twice.
    #[error(
        "directory {ino} is reached a second time as {path}, first as {first}: expected one parent, found more \
         [dir.twice]"
    )]
    DirTwice {
        /// Its inode.
        ino: xfskit_units::Ino,
        /// The path by which it was reached again: where it begins with the other one, this is a
        /// cycle.
        path: String,
        /// The path by which it was reached first.
        first: String,
    },
}

/// The answer of this floor.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `error` in a message that names `path` already.
fn without(path: &str, error: &Error) -> String {
    let text = error.to_string();
    let rest = text.strip_prefix(path).and_then(|rest| rest.strip_prefix(": "));
    rest.map_or(text.clone(), ToOwned::to_owned)
}

impl Error {
    /// The same error of `operation` on `path`.
    #[must_use]
    pub fn at(self, operation: &'static str, path: &[u8]) -> Self {
        match self {
            Self::At { .. } => self,
            error => Self::At { path: shown(path), operation, source: Box::new(error) },
        }
    }

    /// The same error, which says of `path` what it said of an inode's number or of a name.
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

    /// The error itself, without the operation that it ended.
    pub fn reason(&self) -> &Self {
        match self {
            Self::At { source, .. } => source.reason(),
            error => error,
        }
    }

    /// True where an inode is gone that the caller knew: what named it then may name another by
    /// now.
    pub fn is_stale(&self) -> bool {
        matches!(self.reason(), Self::Core(xfskit_core::Error::NoInode(_)))
    }

    /// The number that a system call would answer: `ENOENT`, `ELOOP`, `EUCLEAN` for corruption, ….
    pub fn errno(&self) -> i32 {
        use xfskit_core::Error as Core;
        let errno = match self {
            Self::At { source, .. } => return source.errno(),
            Self::NotFound { .. } | Self::Core(Core::Missing(_) | Core::NoEntry) => Errno::NOENT,
            Self::Core(Core::Exists) => Errno::EXIST,
            Self::Core(Core::NotEmpty) => Errno::NOTEMPTY,
            Self::Core(Core::NoSpace(_) | Core::Settle) => Errno::NOSPC,
            Self::Core(Core::ReadOnly) => Errno::ROFS,
            Self::Core(Core::Closed) => Errno::BADF,
            Self::NotDirectory { .. } | Self::Core(Core::NotDirectory(_)) => Errno::NOTDIR,
            Self::IsDirectory { .. } | Self::Core(Core::IsDirectory(_)) => Errno::ISDIR,
            Self::Loop { .. } => Errno::LOOP,
            Self::NameTooLong { .. } => Errno::NAMETOOLONG,
            Self::TooLarge { .. } => Errno::FBIG,
            Self::BadName { .. }
            | Self::NotAbsolute { .. }
            | Self::NotSymlink { .. }
            | Self::NotFile { .. }
            | Self::Core(Core::Limit(_) | Core::NotSymlink(_) | Core::NotFile(_)) => Errno::INVAL,
            Self::Core(Core::NoInode(_)) => Errno::STALE,
            Self::Core(Core::Unsupported(_)) => Errno::OPNOTSUPP,
            Self::DirTwice { .. } | Self::Core(Core::Corrupt(_) | Core::Superblock(_)) => {
                Errno::UCLEAN
            }
            Self::Core(_) => Errno::IO,
        };
        errno.raw_os_error()
    }

    /// True where the path is at fault: it names nothing, or not what was needed.
    pub fn is_path(&self) -> bool {
        !matches!(self.reason(), Self::Core(_) | Self::DirTwice { .. } | Self::TooLarge { .. })
    }

    /// The failed check, where this is one.
    pub fn corruption(&self) -> Option<&xfskit_format::Corruption> {
        match self.reason() {
            Self::Core(error) => error.corruption(),
            _ => None,
        }
    }
}
