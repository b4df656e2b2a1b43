//! What can go wrong. A device's failure, a failed check, a refusal and a caller's mistake are four
//! things, and stay four things up to the edge where one becomes an errno.

use std::fmt;

use xfskit_format::inode::Dinode;
use xfskit_format::sb::SbError;
use xfskit_format::Corruption;
use xfskit_trans::{BufError, TransError};
use xfskit_units::{AgNumber, Ino, Lsn};

/// What can go wrong with a volume.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The superblock says that this is no volume for us.
    #[error(transparent)]
    Superblock(#[from] SbError),
    /// The primary superblock is damaged: there is a copy to read by, and none to write by.
    #[error(
        "the primary superblock is damaged ({fault}); by the copy in group {agno} the volume can be read, not changed"
    )]
    PrimaryDamaged {
        /// What is wrong with it.
        fault: Box<Corruption>,
        /// The group that has the copy.
        agno: AgNumber,
    },
    /// A check failed.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
    /// The journal cannot be read or replayed.
    #[error("the journal: {0}")]
    Journal(String),
    /// The journal is damaged between tail and head, or what it changes is.
    #[error(transparent)]
    JournalDamaged(Box<JournalDamage>),
    /// No inode has this number, or it is free.
    #[error("inode {0} is not in use")]
    NoInode(Ino),
    /// A directory was needed.
    #[error("inode {0} is not a directory")]
    NotDirectory(Ino),
    /// A symbolic link was needed.
    #[error("inode {0} is not a symbolic link")]
    NotSymlink(Ino),
    /// No directory was needed.
    #[error("inode {0} is a directory")]
    IsDirectory(Ino),
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
    #[error("file exists")]
    Exists,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// No such name.
    #[error("no such name")]
    NoEntry,
    /// Space that the change needs was freed too recently: it becomes usable with a checkpoint.
    /// [`Volume::transact`](crate::Volume::transact) sees to that.
    #[error("free space waits for a checkpoint")]
    Settle,
    /// The superblock does not say yet that some inode has attributes, and the change makes the first one that does.
    /// [`Volume::transact`](crate::Volume::transact) sees to that.
    #[error("the superblock's ATTR bit is not set")]
    AttrBit,
    /// A transaction cannot go on.
    #[error(transparent)]
    Trans(TransError),
    /// Something the format has and this code does not support yet, by name.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// Where a journal is damaged, and how much of it is whole before.
#[derive(Clone, Debug)]
pub struct JournalDamage {
    /// What is wrong.
    pub fault: Corruption,
    /// The record in which, by cycle and block. `None` where not even head and tail can be found.
    pub record: Option<Lsn>,
    /// Committed transactions before it that can still be replayed.
    pub transactions: u64,
    /// The positions of the first and the last of these.
    pub whole: Option<(Lsn, Lsn)>,
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, record, transactions, whole } = self;
        let Some(record) = record else {
            return write!(
                f,
                "the journal cannot be replayed, for its head cannot be found: {fault}"
            );
        };
        let (cycle, block) = (record.cycle(), record.block());
        write!(
            f,
            "the journal cannot be replayed beyond its record at block {block} of cycle {cycle}: {fault}; "
        )?;
        match whole {
            None => f.write_str("no transaction before it can be replayed"),
            Some((only, _)) if *transactions == 1 => {
                write!(f, "1 transaction before it, at {only}, can be replayed")
            }
            Some((first, last)) => {
                write!(
                    f,
                    "{transactions} transactions before it, {first} to {last}, can be replayed"
                )
            }
        }
    }
}

impl std::error::Error for JournalDamage {}

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
    /// What is said of inode `ino`, which is no regular file.
    pub(crate) fn not_file(ino: Ino, core: &Dinode<'_>) -> Self {
        if core.is_dir() { Self::IsDirectory(ino) } else { Self::NotFile(ino) }
    }

    /// The failed check, where this is one.
    pub fn corruption(&self) -> Option<&xfskit_format::Corruption> {
        match self {
            Self::JournalDamaged(damage) => Some(&damage.fault),
            Self::Corrupt(fault)
            | Self::PrimaryDamaged { fault, .. }
            | Self::Superblock(SbError::Corrupt(fault)) => Some(fault),
            _ => None,
        }
    }
}
