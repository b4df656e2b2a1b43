//! Why a volume is not repaired.

use std::io;
use std::path::PathBuf;

use crate::unaccounted::Unaccounted;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a volume is not repaired, or a repair is not taken back. Nothing was written unless
/// [`Error::Commit`] says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// There is no volume that could be checked.
    #[error(transparent)]
    Check(#[from] xfskit_check::Error),
    /// The volume has a feature that a repair does not write yet.
    #[error("repairing a volume with {0} is not written yet")]
    Unsupported(String),
    /// The device ends before the volume does. The superblock is not made smaller.
    #[error("the device has {has} bytes, and the volume needs {needs}: its end is missing")]
    Truncated {
        /// Bytes of the device.
        has: u64,
        /// Bytes of the volume.
        needs: u64,
    },
    /// The journal cannot be replayed.
    #[error("the journal cannot be replayed: {0}")]
    Journal(String),
    /// Records of a damaged journal would be discarded, and that was not accepted.
    #[error("the journal is damaged, and its records behind the damage would be lost")]
    ZeroLog,
    /// A group has too few free blocks for its btrees.
    #[error("group {agno} has no room for its btrees: {missing} blocks are missing")]
    NoRoom {
        /// The group.
        agno: u32,
        /// Blocks that are missing.
        missing: u32,
    },
    /// The volume has too few free blocks for what is made again.
    #[error("there is no room for what is made again: {missing} blocks are missing")]
    NoBlocks {
        /// Blocks that are missing.
        missing: u64,
    },
    /// The content of an inode does not fit it.
    #[error("inode {ino} cannot hold what was found of it")]
    NoFit {
        /// The inode.
        ino: u64,
    },
    /// Losses were not accepted.
    #[error("{lost} losses, of which {accepted} are accepted")]
    Losses {
        /// All losses.
        lost: u64,
        /// Accepted losses.
        accepted: u64,
    },
    /// The changes would overwrite a block of a file. It is a defect of this program.
    #[error("block {agbno} of group {agno} belongs to a file, and would be overwritten")]
    OverwritesFile {
        /// The group.
        agno: u32,
        /// The block.
        agbno: u32,
    },
    /// The second check found damage, so that nothing may be committed.
    #[error("the volume would still be damaged: {errors} errors")]
    NotClean {
        /// Errors of the second check.
        errors: u64,
    },
    /// Files or names would be lost or changed that the plan does not name. It is a defect of this
    /// program.
    #[error("{0}")]
    Unaccounted(Box<Unaccounted>),
    /// The caller stopped the commit before its first write.
    #[error("stopped")]
    Stopped,
    /// A write of the commit failed. The same repair finishes it.
    #[error("the repair was interrupted: {0}")]
    Commit(#[source] xfskit_block::Error),
    /// The undo file cannot be written.
    #[error("the undo file {}: {source}", path.display())]
    UndoFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The undo file cannot be read.
    #[error("the undo file {}: {source}", path.display())]
    UndoUnreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The undo file is damaged.
    #[error("{}: {what}", path.display())]
    UndoDamaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: &'static str,
    },
    /// The undo file belongs to a volume on a device of another size.
    #[error("{}: it belongs to a target of {file} bytes, and this one has {device}", path.display())]
    UndoOfSize {
        /// The file.
        path: PathBuf,
        /// Bytes of the device that was repaired.
        file: u64,
        /// Bytes of this one.
        device: u64,
    },
    /// The undo file belongs to another volume.
    #[error("{}: it belongs to volume {file}, not to {volume}", path.display())]
    UndoOfOther {
        /// The file.
        path: PathBuf,
        /// The volume of the file.
        file: String,
        /// The volume on the target.
        volume: String,
    },
    /// The volume was changed after the repair.
    #[error("the volume was changed since: {changed} of {all} ranges differ")]
    ChangedSince {
        /// Ranges with other content than the repair wrote or found.
        changed: usize,
        /// All ranges.
        all: usize,
    },
}

impl Error {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Device(error) | Self::Commit(error) if error.hint().is_some() => error.hint(),
            Self::Truncated { needs, .. } => Some(format!(
                "Nothing was written. Find the rest of the device; or make it as long as the \
                 volume (`truncate -s {needs}` for an image), and what was there is repaired as \
                 lost. --salvage copies out what can be read."
            )),
            _ => self.advice().map(str::to_owned),
        }
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unsupported(_) => {
                "Nothing was written. `xfs_repair` repairs it; --dry-run prints what it needs, and \
                 --salvage copies out what can be read."
            }
            Self::ZeroLog => "Nothing was written. --zero-log discards these records.",
            Self::Journal(_) => {
                "Copy off what can be read (`xfskit get --norecovery`) before `xfs_repair -L` \
                 discards the journal."
            }
            Self::NoRoom { .. } | Self::NoBlocks { .. } => {
                "Nothing was written. Copy off what can be read."
            }
            Self::NotClean { .. } => {
                "Nothing was written. The plan names what cannot be repaired yet; `xfs_repair` may."
            }
            Self::Unaccounted(_) => {
                "Nothing was written. --salvage copies out what can be read; please report it."
            }
            Self::Losses { .. } => {
                "Nothing was written. --salvage copies out what can be read; --accept-loss all \
                 repairs all the same."
            }
            Self::Commit(_) => "Run the same command again when the device can be written.",
            Self::UndoFile { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "Nothing was written. Make the directory that is to hold it first, or name another \
                 place: --undo-file."
            }
            Self::UndoFile { .. } => {
                "Nothing was written. --undo-file names another place for it; --no-undo does \
                 without."
            }
            Self::UndoUnreadable { .. } | Self::UndoDamaged { .. } => {
                "Nothing was written. Name the file that `xfskit repair` has kept: IMAGE.undo, or \
                 what --undo-file named."
            }
            Self::UndoOfOther { .. } | Self::UndoOfSize { .. } => {
                "Nothing was written. Name the target that was repaired."
            }
            Self::ChangedSince { .. } => {
                "Taking the repair back would destroy later changes; nothing was written."
            }
            _ => return None,
        })
    }
}
