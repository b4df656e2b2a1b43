//! What can go wrong, in the words of paths, and the errno of each: the edge where one is due.

use rustix::io::Errno;

/// What can go wrong when a path is followed or a file is read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The volume says no.
    #[error(transparent)]
    Core(#[from] xfskit_core::Error),
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
    /// A directory that is reached twice: by damage, for Linux never links one twice.
    #[error(
        "directory {ino} is reached a second time: expected one parent, found more [dir.twice]"
    )]
    DirTwice {
        /// Its inode.
        ino: xfskit_units::Ino,
    },
}

/// The answer of this floor.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The number that a system call would answer: `ENOENT`, `ELOOP`, `EUCLEAN` for corruption, ….
    pub fn errno(&self) -> i32 {
        use xfskit_core::Error as Core;
        let errno = match self {
            Self::NotFound { .. } | Self::Core(Core::Missing(_) | Core::NoEntry) => Errno::NOENT,
            Self::BadName { .. } | Self::Core(Core::Limit(_)) => Errno::INVAL,
            Self::Core(Core::Exists) => Errno::EXIST,
            Self::Core(Core::NotEmpty) => Errno::NOTEMPTY,
            Self::Core(Core::NoSpace(_) | Core::Settle) => Errno::NOSPC,
            Self::Core(Core::ReadOnly) => Errno::ROFS,
            Self::NotDirectory { .. } | Self::Core(Core::NotDirectory(_)) => Errno::NOTDIR,
            Self::IsDirectory { .. } => Errno::ISDIR,
            Self::Loop { .. } => Errno::LOOP,
            Self::NameTooLong { .. } => Errno::NAMETOOLONG,
            Self::NotAbsolute { .. } | Self::Core(Core::NotSymlink(_) | Core::NotFile(_)) => {
                Errno::INVAL
            }
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
        !matches!(self, Self::Core(_) | Self::DirTwice { .. })
    }

    /// The failed check, where this is one.
    pub fn fault(&self) -> Option<&xfskit_format::Corruption> {
        match self {
            Self::Core(error) => error.fault(),
            _ => None,
        }
    }
}
