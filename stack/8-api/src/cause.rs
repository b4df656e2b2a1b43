//! The errors of the floors below, and what each means to a program.

pub(crate) mod array;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use xfskit_core::Error as Core;
use xfskit_format::Corruption;
use xfskit_format::sb::SbError;
use xfskit_trans::TransError;

use crate::ErrorKind;
use array::ArrayError;

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
    /// The volume is not repaired.
    #[error(transparent)]
    Repair(#[from] xfskit_repair::Error),
    /// No volume can be made of the tree.
    #[error(transparent)]
    Build(#[from] xfskit_copy::build::BuildError),
    /// The tree cannot be put into the volume.
    #[error(transparent)]
    Put(#[from] xfskit_copy::PutError),
    /// The file with owners or labels cannot be understood.
    #[error(transparent)]
    Map(#[from] xfskit_copy::source::MapError),
    /// The journal cannot be printed.
    #[error(transparent)]
    Journal(#[from] xfskit_inspect::log::Error),
    /// The metadata cannot be copied to a file, or back.
    #[error(transparent)]
    Metadump(#[from] xfskit_metadump::Error),
    /// Something is on the target.
    #[error("the target exists, and all that is on it would be overwritten")]
    Occupied,
    /// The text names no structure.
    #[error("{0}")]
    Structure(String),
    /// The output of a copy failed.
    #[error(transparent)]
    Output(#[from] std::io::Error),
    /// An operation of the volume runs on this thread.
    #[error("the volume cannot be closed within an operation of its own")]
    Within,
    /// The copy could not begin, or ended early.
    #[error(transparent)]
    Extract(#[from] xfskit_copy::GetError),
    /// The archive cannot be written.
    #[error(transparent)]
    Archive(#[from] xfskit_copy::ArchiveError),
    /// The array cannot do what was asked of it.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// No array can be made of the devices.
    #[error(transparent)]
    MdCreate(#[from] xfskit_md::create::Error),
    /// The file was not opened for this.
    #[error("the file was not opened for {0}")]
    OpenMode(&'static str),
    /// No extended attribute has this name.
    #[error("no such attribute")]
    NoAttribute,
    /// The caller cancelled the operation.
    #[error("the operation was cancelled")]
    Cancelled,
    /// A removed file is not restored where it was.
    #[error("it is not good: only files of which nothing is lost are given back in place")]
    NotGood,
    /// The device that was named as the realtime device is another one.
    #[error("{name}: not the realtime device of this volume: {why}")]
    NotRealtime {
        /// The name of the target.
        name: String,
        /// What shows it.
        why: String,
    },
    /// A device was named as the realtime device of a volume without one.
    #[error("{0}: this volume has no realtime device of its own")]
    NoRealtime(String),
}

impl From<xfskit_log::Error> for Cause {
    fn from(error: xfskit_log::Error) -> Self {
        Self::Journal(error.into())
    }
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
            Self::NotGood | Self::Target(xfskit_target::Error::Unsupported { .. }) => {
                ErrorKind::Unsupported
            }
            Self::Mkfs(xfskit_mkfs::Error::Occupied { .. }) | Self::Occupied => {
                ErrorKind::AlreadyExists
            }
            Self::Check(error) => kind_of_check(error),
            Self::Repair(error) => kind_of_repair(error),
            Self::Build(error) => kind_of_build(error),
            Self::Put(error) => kind_of_put(error),
            Self::Extract(error) => kind_of_extract(error),
            Self::Journal(error) => kind_of_journal(error),
            Self::Metadump(error) => kind_of_metadump(error),
            Self::Output(error) | Self::Archive(xfskit_copy::ArchiveError::Write(error)) => {
                kind_of_io(error)
            }
            Self::Within => ErrorKind::ResourceBusy,
            Self::Array(error) => error.kind(),
            Self::MdCreate(xfskit_md::create::Error::Device { source, .. }) => {
                kind_of_device(source)
            }
            Self::Target(_)
            | Self::Mkfs(_)
            | Self::MdCreate(_)
            | Self::OpenMode(_)
            | Self::Map(_)
            | Self::NotRealtime { .. }
            | Self::NoRealtime(_)
            | Self::Structure(_) => ErrorKind::InvalidInput,
            Self::NoAttribute => ErrorKind::NoAttribute,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }

    /// Returns the error without an operation and its path.
    pub(crate) fn reason(&self) -> &(dyn std::error::Error + 'static) {
        match self {
            Self::Volume(error) | Self::Put(xfskit_copy::PutError::Volume { error, .. }) => {
                error.reason()
            }
            Self::Put(xfskit_copy::PutError::Source(error))
            | Self::Build(xfskit_copy::build::BuildError::Source(error)) => error,
            Self::Build(xfskit_copy::build::BuildError::Mkfs(error)) | Self::Mkfs(error) => error,
            Self::Build(error) => error,
            error => error,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        use xfskit_copy::build::BuildError;
        match self {
            Self::Target(error) => error.hint(),
            Self::Array(error) => error.hint(),
            Self::Repair(error) => error.hint(),
            Self::Metadump(error) => error.hint(),
            Self::Device(error)
            | Self::Mkfs(xfskit_mkfs::Error::Device(error))
            | Self::MdCreate(xfskit_md::create::Error::Device { source: error, .. })
            | Self::Build(
                BuildError::Device(error) | BuildError::Mkfs(xfskit_mkfs::Error::Device(error)),
            )
            | Self::Check(xfskit_check::Error::Device(error)) => error.hint(),
            Self::Volume(error) => match error.reason() {
                xfskit_vfs::Error::Core(error) => hint_of_core(error),
                _ => None,
            },
            Self::NoRealtime(_) => Some("Leave out --rtdev.".to_owned()),
            _ => None,
        }
    }

    /// Returns the path that the error itself has.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Put(xfskit_copy::PutError::Volume { path, .. }) => {
                Some(Path::new(OsStr::from_bytes(path)))
            }
            _ => None,
        }
    }

    pub(crate) fn errno(&self) -> i32 {
        match self {
            Self::Volume(error) => error.errno(),
            Self::OpenMode(_) => Errno::BADF.raw_os_error(),
            Self::NoAttribute => Errno::NODATA.raw_os_error(),
            Self::Cancelled => Errno::CANCELED.raw_os_error(),
            _ => errno_of_system(self).unwrap_or_else(|| errno_of_kind(self.kind()).raw_os_error()),
        }
    }

    pub(crate) fn corruption(&self) -> Option<&Corruption> {
        match self {
            Self::Volume(error) | Self::Put(xfskit_copy::PutError::Volume { error, .. }) => {
                error.corruption()
            }
            Self::Check(xfskit_check::Error::Superblock(SbError::Corrupt(fault))) => Some(fault),
            Self::Metadump(xfskit_metadump::Error::Volume(error)) => error.corruption(),
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

fn hint_of_core(error: &Core) -> Option<String> {
    let hint = match error {
        Core::Device(error) => return error.hint(),
        Core::ShortDevice { .. } => {
            "Copy the image or the device again, whole. What is there can be read as it is; \
             `xfskit repair --salvage DIR` copies it out, and `xfskit check` names what is lost."
        }
        Core::InternalLog => "Leave out --logdev.",
        Core::Unwritable(_) => {
            "It can be read: `xfskit ls`, `xfskit get`, or `xfskit mount -o ro`."
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn kind_of_core(error: &Core) -> ErrorKind {
    match error {
        Core::Device(error) => kind_of_device(error),
        Core::Superblock(SbError::NotXfs { .. }) => ErrorKind::NotXfs,
        Core::Superblock(SbError::Corrupt(_)) => ErrorKind::SuperblockDamaged,
        Core::PrimaryDamaged { .. } => ErrorKind::PrimaryDamaged,
        Core::Corrupt(_) | Core::ShortDevice { .. } => ErrorKind::Corrupt,
        Core::Journal(_) => ErrorKind::JournalUnreadable,
        Core::JournalDamaged(_) => ErrorKind::JournalDamaged,
        Core::Superblock(_)
        | Core::Unsupported(_)
        | Core::Unwritable(_)
        | Core::NotPermitted(_) => ErrorKind::Unsupported,
        Core::NoInode(_) => ErrorKind::StaleHandle,
        Core::NotDirectory(_) => ErrorKind::NotADirectory,
        Core::IsDirectory(_) => ErrorKind::IsADirectory,
        Core::NotSymlink(_)
        | Core::NotFile(_)
        | Core::Limit(_)
        | Core::InternalLog
        | Core::AttrName
        | Core::AttrValue => ErrorKind::InvalidInput,
        Core::FileTooLarge(_) => ErrorKind::FileTooLarge,
        Core::NameTooLong(_) => ErrorKind::InvalidFilename,
        Core::TooManyLinks => ErrorKind::TooManyLinks,
        Core::OtherVolume => ErrorKind::CrossesDevices,
        Core::Missing(_) | Core::NoEntry => ErrorKind::NotFound,
        Core::ReadOnly => ErrorKind::ReadOnly,
        Core::Closed => ErrorKind::Closed,
        Core::NoSpace(_) | Core::BusyExtents | Core::Full(_) => ErrorKind::StorageFull,
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
        xfskit_block::Error::Overlay(_) => ErrorKind::InvalidInput,
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

fn kind_of_metadump(error: &xfskit_metadump::Error) -> ErrorKind {
    use xfskit_metadump::Error;
    match error {
        Error::Volume(error) => kind_of_core(error),
        Error::Device(error) => kind_of_device(error),
        Error::Read(error) | Error::Write(error) => kind_of_io(error),
        Error::Unsupported(_) | Error::ExternalLogV1 => ErrorKind::Unsupported,
        Error::Journal(_) => ErrorKind::JournalUnreadable,
        Error::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::InvalidInput,
    }
}

fn kind_of_check(error: &xfskit_check::Error) -> ErrorKind {
    match error {
        xfskit_check::Error::Device(error) => kind_of_device(error),
        xfskit_check::Error::Superblock(SbError::Corrupt(_)) => ErrorKind::SuperblockDamaged,
        xfskit_check::Error::Superblock(SbError::NotXfs { .. }) => ErrorKind::NotXfs,
        xfskit_check::Error::TooSmall => ErrorKind::InvalidInput,
        xfskit_check::Error::Superblock(_) => ErrorKind::Unsupported,
    }
}

fn kind_of_repair(error: &xfskit_repair::Error) -> ErrorKind {
    use xfskit_repair::Error;
    match error {
        Error::Device(error) | Error::Commit(error) => kind_of_device(error),
        Error::Check(error) => kind_of_check(error),
        Error::Unsupported(_) => ErrorKind::Unsupported,
        Error::Journal(_) | Error::ZeroLog => ErrorKind::JournalDamaged,
        Error::NoRoom { .. } => ErrorKind::StorageFull,
        Error::NotClean { .. }
        | Error::Unaccounted(_)
        | Error::Losses { .. }
        | Error::NoFit { .. }
        | Error::Truncated { .. } => ErrorKind::Corrupt,
        Error::UndoFile { source, .. } | Error::UndoUnreadable { source, .. } => kind_of_io(source),
        Error::UndoDamaged { .. }
        | Error::UndoOfOther { .. }
        | Error::UndoOfSize { .. }
        | Error::ChangedSince { .. } => ErrorKind::InvalidInput,
        _ => ErrorKind::Other,
    }
}

fn kind_of_build(error: &xfskit_copy::build::BuildError) -> ErrorKind {
    use xfskit_copy::build::BuildError;
    match error {
        BuildError::NoSpace { .. } => ErrorKind::StorageFull,
        BuildError::Unfit { .. } => ErrorKind::Unsupported,
        BuildError::Stopped => ErrorKind::Cancelled,
        BuildError::Source(error) => kind_of_source(error),
        BuildError::Mkfs(xfskit_mkfs::Error::Occupied { .. }) => ErrorKind::AlreadyExists,
        BuildError::Device(error) | BuildError::Mkfs(xfskit_mkfs::Error::Device(error)) => {
            kind_of_device(error)
        }
        BuildError::Mkfs(_) => ErrorKind::InvalidInput,
        _ => ErrorKind::Other,
    }
}

fn kind_of_source(error: &xfskit_copy::source::SourceError) -> ErrorKind {
    use xfskit_copy::source::SourceError;
    match error {
        SourceError::Stopped => ErrorKind::Cancelled,
        SourceError::Denied { .. } => ErrorKind::PermissionDenied,
        error => {
            let io =
                std::error::Error::source(error).and_then(<dyn std::error::Error>::downcast_ref);
            io.map_or(ErrorKind::InvalidInput, kind_of_io)
        }
    }
}

fn kind_of_put(error: &xfskit_copy::PutError) -> ErrorKind {
    use xfskit_copy::PutError;
    match error {
        PutError::Source(error) => kind_of_source(error),
        PutError::Stream(error) => kind_of_io(error),
        PutError::Volume { error, .. } => kind_of_volume(error.reason()),
        PutError::Clash { is_dir: true, .. } => ErrorKind::IsADirectory,
        PutError::Clash { .. } => ErrorKind::NotADirectory,
        PutError::BelowItself { .. } => ErrorKind::InvalidInput,
        PutError::Stopped => ErrorKind::Cancelled,
        _ => ErrorKind::Other,
    }
}

fn kind_of_journal(error: &xfskit_inspect::log::Error) -> ErrorKind {
    match error {
        xfskit_inspect::log::Error::Log(xfskit_log::Error::Device(error)) => kind_of_device(error),
        xfskit_inspect::log::Error::Log(_) => ErrorKind::JournalDamaged,
        xfskit_inspect::log::Error::Output(error) => kind_of_io(error),
    }
}

fn kind_of_extract(error: &xfskit_copy::GetError) -> ErrorKind {
    match error {
        xfskit_copy::GetError::Exists(_) => ErrorKind::AlreadyExists,
        xfskit_copy::GetError::Busy(_) => ErrorKind::ResourceBusy,
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
        ErrorKind::Corrupt
        | ErrorKind::PrimaryDamaged
        | ErrorKind::SuperblockDamaged
        | ErrorKind::JournalDamaged => Errno::UCLEAN,
        ErrorKind::IsADirectory => Errno::ISDIR,
        ErrorKind::NotADirectory => Errno::NOTDIR,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::Cancelled => Errno::CANCELED,
        ErrorKind::Device => Errno::IO,
        _ => Errno::INVAL,
    }
}
