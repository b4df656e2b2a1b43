//! The errors of the floors below, and what each means to a program.

use rustix::io::Errno;
use xfskit_core::Error as Core;
use xfskit_format::Corruption;
use xfskit_format::sb::SbError;
use xfskit_trans::TransError;

use crate::ErrorKind;

/// The error of a floor below that an [`Error`](crate::Error) carries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The name leads to no device.
    #[error(transparent)]
    Target(#[from] xfskit_target::Error),
    /// The volume, or a path in it.
    #[error(transparent)]
    Volume(#[from] xfskit_vfs::Error),
    /// No volume can be made there.
    #[error(transparent)]
    Mkfs(#[from] xfskit_mkfs::Error),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The file was not opened for this.
    #[error("the file was not opened for {0}")]
    OpenMode(&'static str),
    /// The caller cancelled the operation.
    #[error("the operation was cancelled")]
    Cancelled,
}

impl From<Core> for Cause {
    fn from(error: Core) -> Self {
        Self::Volume(error.into())
    }
}

impl Cause {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Volume(error) => kind_of_volume(error.reason()),
            Self::Device(error) => kind_of_device(error),
            Self::Target(xfskit_target::Error::Device(error))
            | Self::Mkfs(xfskit_mkfs::Error::Device(error)) => kind_of_device(error),
            Self::Target(xfskit_target::Error::NoMatch(_)) => ErrorKind::NotFound,
            Self::Target(xfskit_target::Error::NotWritable { .. }) => ErrorKind::ReadOnly,
            Self::Target(xfskit_target::Error::Unsupported { .. }) => ErrorKind::Unsupported,
            Self::Mkfs(xfskit_mkfs::Error::Occupied { .. }) => ErrorKind::AlreadyExists,
            Self::Target(_) | Self::Mkfs(_) | Self::OpenMode(_) => ErrorKind::InvalidInput,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }

    pub(crate) fn errno(&self) -> i32 {
        match self {
            Self::Volume(error) => error.errno(),
            Self::OpenMode(_) => Errno::BADF.raw_os_error(),
            Self::Cancelled => Errno::CANCELED.raw_os_error(),
            Self::Target(_) | Self::Mkfs(_) | Self::Device(_) => {
                errno_of_system(self).unwrap_or(Errno::INVAL.raw_os_error())
            }
        }
    }

    pub(crate) fn corruption(&self) -> Option<&Corruption> {
        match self {
            Self::Volume(error) => error.corruption(),
            _ => None,
        }
    }
}

/// Returns the errno of the operating system's error behind `error`.
fn errno_of_system(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if let Some(errno) = io.and_then(std::io::Error::raw_os_error) {
            return Some(errno);
        }
        cause = error.source();
    }
    None
}

fn kind_of_volume(error: &xfskit_vfs::Error) -> ErrorKind {
    use xfskit_vfs::Error;
    match error {
        Error::Core(error) => kind_of_core(error),
        Error::At { source, .. } => kind_of_volume(source),
        Error::NotFound { .. } => ErrorKind::NotFound,
        Error::NotDirectory { .. } => ErrorKind::NotADirectory,
        Error::IsDirectory { .. } => ErrorKind::IsADirectory,
        Error::Loop { .. } => ErrorKind::FilesystemLoop,
        Error::NameTooLong { .. } | Error::BadName { .. } => ErrorKind::InvalidFilename,
        Error::NotSymlink { .. } | Error::NotFile { .. } | Error::NotAbsolute { .. } => {
            ErrorKind::InvalidInput
        }
        Error::Root { .. } => ErrorKind::ResourceBusy,
        Error::TooLarge { .. } => ErrorKind::FileTooLarge,
        Error::DirTwice { .. } => ErrorKind::Corrupt,
    }
}

fn kind_of_core(error: &Core) -> ErrorKind {
    match error {
        Core::Device(error) => kind_of_device(error),
        Core::Superblock(SbError::NotXfs { .. }) => ErrorKind::NotXfs,
        Core::Superblock(SbError::Corrupt(_))
        | Core::PrimaryDamaged { .. }
        | Core::Corrupt(_)
        | Core::Journal(_)
        | Core::JournalDamaged(_) => ErrorKind::Corrupt,
        Core::Superblock(_) | Core::Unsupported(_) => ErrorKind::Unsupported,
        Core::NoInode(_) => ErrorKind::StaleHandle,
        Core::NotDirectory(_) => ErrorKind::NotADirectory,
        Core::IsDirectory(_) => ErrorKind::IsADirectory,
        Core::NotSymlink(_) | Core::NotFile(_) | Core::Limit(_) => ErrorKind::InvalidInput,
        Core::Missing(_) | Core::NoEntry => ErrorKind::NotFound,
        Core::ReadOnly => ErrorKind::ReadOnly,
        Core::Closed => ErrorKind::Closed,
        Core::NoSpace(_) | Core::BusyExtents => ErrorKind::StorageFull,
        Core::Exists => ErrorKind::AlreadyExists,
        Core::NotEmpty => ErrorKind::DirectoryNotEmpty,
        Core::Trans(TransError::ShutDown(_)) => ErrorKind::Shutdown,
        Core::Trans(_) | Core::AttrBit => ErrorKind::Other,
    }
}

fn kind_of_device(error: &xfskit_block::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match error {
        xfskit_block::Error::InUse { .. } => ErrorKind::ResourceBusy,
        xfskit_block::Error::ReadOnly => ErrorKind::ReadOnly,
        xfskit_block::Error::Open { source, .. } => match source.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::PermissionDenied => ErrorKind::PermissionDenied,
            Io::AlreadyExists => ErrorKind::AlreadyExists,
            Io::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            Io::ResourceBusy => ErrorKind::ResourceBusy,
            _ => ErrorKind::Device,
        },
        _ => ErrorKind::Device,
    }
}
