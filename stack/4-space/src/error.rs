//! Errors of allocation and freeing.

use xfskit_format::Corruption;
use xfskit_trans::{BufError, TransError};

/// An error of the space of allocation groups.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// A check failed.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
    /// The volume is open for reading only.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// No space, of this kind: blocks, inodes.
    #[error("no {0} left on the volume")]
    NoSpace(&'static str),
    /// A limit of the format, by name.
    #[error("{0}")]
    Limit(&'static str),
    /// The change needs space that was freed too recently. The space becomes usable with a
    /// checkpoint.
    #[error("free space waits for a checkpoint")]
    BusyExtents,
    /// A transaction cannot continue.
    #[error(transparent)]
    Trans(TransError),
    /// A feature of the format that this code does not support, by name.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// The result of an operation on space.
pub type Result<T> = std::result::Result<T, Error>;

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
