//! What can go wrong. A device's failure, a failed check, a refusal and a caller's mistake are four
//! things, and stay four things up to the edge where one becomes an errno.

use xfskit_format::Fault;
use xfskit_format::sb::SbError;
use xfskit_trans::{BufError, TransError};
use xfskit_units::Ino;

/// What can go wrong with a volume.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The superblock says that this is no volume for us.
    #[error(transparent)]
    Superblock(#[from] SbError),
    /// A check failed.
    #[error(transparent)]
    Corrupt(#[from] Fault),
    /// The journal cannot be read or replayed.
    #[error("the journal: {0}")]
    Journal(String),
    /// No inode has this number, or it is free.
    #[error("inode {0} is not in use")]
    NoInode(Ino),
    /// A directory was needed.
    #[error("inode {0} is not a directory")]
    NotDirectory(Ino),
    /// A symbolic link was needed.
    #[error("inode {0} is not a symbolic link")]
    NotSymlink(Ino),
    /// A regular file was needed.
    #[error("inode {0} is not a regular file")]
    NotFile(Ino),
    /// The volume has nothing of this kind or number.
    #[error("this volume has no {0}")]
    Missing(&'static str),
    /// The device, or the way it was opened, does not allow changes.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// No space, of this kind: blocks, inodes.
    #[error("no {0} left on the volume")]
    NoSpace(&'static str),
    /// A limit of the format, by name.
    #[error("{0}")]
    Limit(&'static str),
    /// The name exists already.
    #[error("the name exists")]
    Exists,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// No such name.
    #[error("no such name")]
    NoEntry,
    /// Space that the change needs was freed too recently: it becomes usable with a checkpoint.
    /// [`Volume::transact`](crate::Volume::transact) sees to that.
    #[error("free space waits for a checkpoint")]
    Settle,
    /// A transaction cannot go on.
    #[error(transparent)]
    Trans(TransError),
    /// Something the format has and this code does not support yet, by name.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// A volume's answer.
pub type Result<T> = std::result::Result<T, Error>;

impl From<xfskit_log::Error> for Error {
    fn from(err: xfskit_log::Error) -> Self {
        match err {
            xfskit_log::Error::Device(err) => Self::Device(err),
            xfskit_log::Error::Corrupt(fault) => Self::Corrupt(fault),
        }
    }
}

impl From<BufError> for Error {
    fn from(err: BufError) -> Self {
        match err {
            BufError::Device(err) => Self::Device(err),
            BufError::Corrupt(fault) => Self::Corrupt(fault),
        }
    }
}

impl From<TransError> for Error {
    fn from(err: TransError) -> Self {
        match err {
            TransError::Buf(err) => err.into(),
            other => Self::Trans(other),
        }
    }
}

impl Error {
    /// The failed check, where this is one.
    pub fn fault(&self) -> Option<&xfskit_format::Corruption> {
        match self {
            Self::Corrupt(fault) | Self::Superblock(SbError::Corrupt(fault)) => Some(fault),
            _ => None,
        }
    }
}
