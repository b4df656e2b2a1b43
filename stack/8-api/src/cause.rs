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
    /// The check could not begin.
    #[error(transparent)]
    Check(#[from] xfskit_check::Error),
    /// No volume can be made of the tree.
    #[error(transparent)]
    Build(#[from] xfskit_copy::build::BuildError),
    /// The copy could not begin, or ended early.
    #[error(transparent)]
    Extract(#[from] xfskit_copy::GetError),
    /// The archive cannot be written.
    #[error(transparent)]
    Archive(#[from] xfskit_copy::ArchiveError),
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
            Self::Device(error)
            | Self::Target(xfskit_target::Error::Device(error))
            | Self::Mkfs(xfskit_mkfs::Error::Device(error)) => kind_of_device(error),
            Self::Target(xfskit_target::Error::NoMatch(_)) => ErrorKind::NotFound,
            Self::Target(xfskit_target::Error::NotWritable { .. }) => ErrorKind::ReadOnly,
            Self::Target(xfskit_target::Error::Unsupported { .. }) => ErrorKind::Unsupported,
            Self::Mkfs(xfskit_mkfs::Error::Occupied { .. }) => ErrorKind::AlreadyExists,
            Self::Check(error) => kind_of_check(error),
            Self::Build(error) => kind_of_build(error),
            Self::Extract(error) => kind_of_extract(error),
            Self::Archive(xfskit_copy::ArchiveError::Write(error)) => kind_of_io(error),
            Self::Target(_) | Self::Mkfs(_) | Self::OpenMode(_) => ErrorKind::InvalidInput,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }

    pub(crate) fn errno(&self) -> i32 {
        match self {
            Self::Volume(error) => error.errno(),
            Self::OpenMode(_) => Errno::BADF.raw_os_error(),
            Self::Cancelled => Errno::CANCELED.raw_os_error(),
            _ => errno_of_system(self).unwrap_or_else(|| errno_of_kind(self.kind()).raw_os_error()),
        }
    }

    pub(crate) fn corruption(&self) -> Option<&Corruption> {
        match self {
            Self::Volume(error) => error.corruption(),
            Self::Check(xfskit_check::Error::Superblock(SbError::Corrupt(fault))) => Some(fault),
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
        Core::Trans(_) | Core::AttrBit | Core::LeftDirty(_) => ErrorKind::Other,
    }
}

fn kind_of_device(error: &xfskit_block::Error) -> ErrorKind {
    match error {
        xfskit_block::Error::InUse { .. } => ErrorKind::ResourceBusy,
        xfskit_block::Error::ReadOnly => ErrorKind::ReadOnly,
        xfskit_block::Error::Open { source, .. } => kind_of_io(source),
        _ => ErrorKind::Device,
    }
}

/// Returns the kind of an error of the operating system: of a file or device outside of the volume.
fn kind_of_io(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound => ErrorKind::NotFound,
        Io::PermissionDenied => ErrorKind::PermissionDenied,
        Io::AlreadyExists => ErrorKind::AlreadyExists,
        Io::NotADirectory => ErrorKind::NotADirectory,
        Io::IsADirectory => ErrorKind::IsADirectory,
        Io::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        Io::ResourceBusy => ErrorKind::ResourceBusy,
        Io::StorageFull => ErrorKind::StorageFull,
        _ => ErrorKind::Device,
    }
}

fn kind_of_check(error: &xfskit_check::Error) -> ErrorKind {
    match error {
        xfskit_check::Error::Device(error) => kind_of_device(error),
        xfskit_check::Error::Superblock(SbError::Corrupt(_)) => ErrorKind::Corrupt,
        xfskit_check::Error::Superblock(SbError::NotXfs { .. }) | xfskit_check::Error::TooSmall => {
            ErrorKind::NotXfs
        }
        xfskit_check::Error::Superblock(_) => ErrorKind::Unsupported,
    }
}

fn kind_of_build(error: &xfskit_copy::build::BuildError) -> ErrorKind {
    use xfskit_copy::build::BuildError;
    use xfskit_copy::source::SourceError;
    match error {
        BuildError::NoSpace { .. } => ErrorKind::StorageFull,
        BuildError::Unfit { .. } => ErrorKind::Unsupported,
        BuildError::Source(SourceError::Stopped) | BuildError::Stopped => ErrorKind::Cancelled,
        BuildError::Source(SourceError::Denied { .. }) => ErrorKind::PermissionDenied,
        BuildError::Source(error) => {
            let io =
                std::error::Error::source(error).and_then(<dyn std::error::Error>::downcast_ref);
            io.map_or(ErrorKind::InvalidInput, kind_of_io)
        }
        BuildError::Mkfs(xfskit_mkfs::Error::Occupied { .. }) => ErrorKind::AlreadyExists,
        BuildError::Mkfs(_) => ErrorKind::InvalidInput,
        BuildError::Device(error) => kind_of_device(error),
        _ => ErrorKind::Other,
    }
}

fn kind_of_extract(error: &xfskit_copy::GetError) -> ErrorKind {
    match error {
        xfskit_copy::GetError::Exists(_) => ErrorKind::AlreadyExists,
        xfskit_copy::GetError::Stopped => ErrorKind::Cancelled,
        xfskit_copy::GetError::Destination { error, .. } => kind_of_io(error),
    }
}

/// Returns the errno of errors behind which there is none of the system.
fn errno_of_kind(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::ReadOnly => Errno::ROFS,
        ErrorKind::ResourceBusy => Errno::BUSY,
        ErrorKind::Corrupt => Errno::UCLEAN,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::Cancelled => Errno::CANCELED,
        ErrorKind::Device => Errno::IO,
        _ => Errno::INVAL,
    }
}
