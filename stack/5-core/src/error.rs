//! Errors of a volume. Device failures, failed checks, refused requests and mistakes of the caller
//! are four kinds. They stay apart up to the edge where each becomes an errno.

use xfskit_format::Corruption;
use xfskit_format::inode::Dinode;
use xfskit_format::sb::SbError;
use xfskit_recovery::JournalDamage;
use xfskit_trans::{BufError, TransError};
use xfskit_units::{AgNumber, Ino};

use crate::orphan::Orphan;

/// An error of a volume.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The superblock is not one of a volume that this code can open.
    #[error(transparent)]
    Superblock(#[from] SbError),
    /// The primary superblock is damaged. A secondary allows reading, but not writing.
    #[error(
        "the primary superblock is damaged ({fault}); by the copy in group {agno} the volume can be read, not changed"
    )]
    PrimaryDamaged {
        /// The corruption of the primary.
        fault: Box<Corruption>,
        /// The group of the secondary.
        agno: AgNumber,
    },
    /// The device ends before the volume does, so the volume can be read in part, not changed.
    #[error(
        "the device is shorter than the filesystem: it has {size} of {need} bytes, {} are missing",
        .need.saturating_sub(*.size)
    )]
    ShortDevice {
        /// Bytes of the device.
        size: u64,
        /// Bytes of the volume.
        need: u64,
    },
    /// A device was named for a journal that is inside of the volume.
    #[error("the journal is inside of this volume: it is not on a device of its own")]
    InternalLog,
    /// A check failed.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
    /// The journal cannot be read or replayed.
    #[error("the journal: {0}")]
    Journal(String),
    /// The journal is damaged between tail and head, or a block that it changes is damaged.
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
    /// The inode is a directory, and must not be one.
    #[error("inode {0} is a directory")]
    IsDirectory(Ino),
    /// A regular file was needed.
    #[error("inode {0} is not a regular file")]
    NotFile(Ino),
    /// The volume does not have the structure or number that was asked for.
    #[error("this volume has no {0}")]
    Missing(&'static str),
    /// The device, or the mode in which the volume was opened, does not allow changes.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// The volume was closed.
    #[error("the volume is closed")]
    Closed,
    /// The volume is closed, and its journal stays dirty: deleted inodes could not be freed. The
    /// next opening for writing tries again.
    #[error("the journal stays dirty: {}", list(.0))]
    LeftDirty(Vec<Orphan>),
    /// No space, of this kind: blocks, inodes.
    #[error("no {0} left on the volume")]
    NoSpace(&'static str),
    /// The request is not valid, or exceeds a limit of the format that has no variant of its own.
    #[error("{0}")]
    Limit(&'static str),
    /// The file would be larger than one can be, or consist of more extents.
    #[error("{0}")]
    FileTooLarge(&'static str),
    /// The name of a file, or the target of a symbolic link, is too long.
    #[error("{0}")]
    NameTooLong(&'static str),
    /// The name of an attribute is empty or too long.
    #[error("the name of an attribute has 1 to 255 bytes")]
    AttrName,
    /// The value of an attribute is too long.
    #[error("the value of an attribute has at most 65536 bytes")]
    AttrValue,
    /// The inode has as many links as one can have.
    #[error("too many links to one inode")]
    TooManyLinks,
    /// A directory or an attribute fork is as large as one can be, whatever space the volume has.
    #[error("{0}")]
    Full(&'static str),
    /// Inodes of this type cannot have what was asked for, under any permissions.
    #[error("{0}")]
    NotPermitted(&'static str),
    /// The files are on different volumes.
    #[error("the files are on different volumes")]
    OtherVolume,
    /// The name exists already.
    #[error("file exists")]
    Exists,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// No such name.
    #[error("no such name")]
    NoEntry,
    /// The change needs space that was freed too recently. The space becomes usable with a
    /// checkpoint. [`Volume::transact`](crate::Volume::transact) waits for one and retries.
    #[error("free space waits for a checkpoint")]
    BusyExtents,
    /// The superblock does not have the ATTR bit yet, and the change makes the first attribute.
    /// [`Volume::transact`](crate::Volume::transact) sets the bit and retries.
    #[error("the superblock's ATTR bit is not set")]
    AttrBit,
    /// A transaction cannot continue.
    #[error(transparent)]
    Trans(TransError),
    /// The volume has a feature with which it can be read, not changed, by name.
    #[error("changing a volume with {0} is not supported")]
    Unwritable(String),
    /// A feature of the format that this code does not support, by name.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// Orphans that a message names one by one.
const NAMED_MAX: usize = 8;

fn list(orphans: &[Orphan]) -> String {
    let mut named: Vec<String> = orphans.iter().take(NAMED_MAX).map(Orphan::to_string).collect();
    if orphans.len() > NAMED_MAX {
        named.push(format!("and {} more", orphans.len() - NAMED_MAX));
    }
    named.join("; ")
}

/// The result of an operation on a volume.
pub type Result<T> = std::result::Result<T, Error>;

impl From<xfskit_recovery::Error> for Error {
    fn from(err: xfskit_recovery::Error) -> Self {
        match err {
            xfskit_recovery::Error::Device(err) => Self::Device(err),
            xfskit_recovery::Error::Superblock(err) => Self::Superblock(err),
            xfskit_recovery::Error::Corrupt(fault) => Self::Corrupt(fault),
            xfskit_recovery::Error::Journal(what) => Self::Journal(what),
            xfskit_recovery::Error::JournalDamaged(damage) => Self::JournalDamaged(damage),
        }
    }
}

impl From<xfskit_space::Error> for Error {
    fn from(err: xfskit_space::Error) -> Self {
        match err {
            xfskit_space::Error::Device(err) => Self::Device(err),
            xfskit_space::Error::Corrupt(fault) => Self::Corrupt(fault),
            xfskit_space::Error::ReadOnly => Self::ReadOnly,
            xfskit_space::Error::NoSpace(what) => Self::NoSpace(what),
            xfskit_space::Error::Limit(what) => Self::Limit(what),
            xfskit_space::Error::BusyExtents => Self::BusyExtents,
            xfskit_space::Error::Trans(err) => Self::Trans(err),
            xfskit_space::Error::Unsupported(what) => Self::Unsupported(what),
        }
    }
}

impl From<xfskit_log::Error> for Error {
    fn from(err: xfskit_log::Error) -> Self {
        xfskit_recovery::Error::from(err).into()
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
    /// Returns the error for inode `ino`, which is not a regular file.
    pub(crate) fn not_file(ino: Ino, core: &Dinode<'_>) -> Self {
        if core.is_dir() { Self::IsDirectory(ino) } else { Self::NotFile(ino) }
    }

    /// Returns the failed check, if this is one.
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
