//! Why an array cannot do what was asked of it.

use std::path::PathBuf;

use xfskit_md::Level;
use xfskit_md::assemble;

use crate::{Error, ErrorKind};

/// Why an array cannot do what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The target is no array, or one whose superblocks are not read.
    #[error("{0} is not an array with superblocks")]
    NotArray(String),
    /// The level has no redundancy.
    #[error("{array}: {level} has no redundancy: there is nothing to manage")]
    NoRedundancy {
        /// The array.
        array: String,
        /// Its level.
        level: Level,
    },
    /// The array cannot be read.
    #[error("{array}: {source}")]
    NotRunning {
        /// The array.
        array: String,
        /// The reason.
        #[source]
        source: assemble::Error,
    },
    /// The array cannot be written.
    #[error("{array} cannot be written: {source}")]
    NotWritable {
        /// The array.
        array: String,
        /// The reason.
        #[source]
        source: assemble::Error,
    },
    /// Too many members are missing for a comparison.
    #[error("{0}: a member is missing or not complete")]
    NothingToCompare(String),
    /// Reads of something that is no array cannot be verified.
    #[error("{0}: --verify compares members of an array")]
    NotVerifiable(String),
    /// Members of an array that is being reshaped cannot be compared.
    #[error("{0}: the array is being reshaped; its members cannot be compared")]
    Reshaped(String),
    /// No redundancy is left.
    #[error("{0}: nothing is left to compare members with")]
    NothingLeft(String),
    /// The volume on the array is to be repaired and its journal is dirty.
    #[error("{0}: the journal waits for its replay: open the volume for writing first")]
    DirtyJournal(String),
    /// A device failed below an array.
    #[error("{array}: {source}")]
    Device {
        /// The array.
        array: String,
        /// The error of the device.
        #[source]
        source: xfskit_block::Error,
    },
    /// The name is not that of a member.
    #[error("{member} is not a member of {array}")]
    NotMember {
        /// The name.
        member: String,
        /// The array.
        array: String,
    },
    /// The device is a member already.
    #[error("{member} is a member already: {state}")]
    IsMember {
        /// The device.
        member: String,
        /// What it is to the array.
        state: String,
    },
    /// The member is a spare, the journal, or left out.
    #[error("{member} serves no role: {state}")]
    NoRole {
        /// The member.
        member: String,
        /// What it is to the array.
        state: String,
    },
    /// The member is in use.
    #[error("{member} is in use: {state}")]
    InUse {
        /// The member.
        member: String,
        /// What it is to the array.
        state: String,
    },
    /// The level does not tolerate the loss.
    #[error("{member}: {level} of {raid_disks} members cannot work without it")]
    Needed {
        /// The member.
        member: String,
        /// The level.
        level: Level,
        /// Roles of the array.
        raid_disks: u32,
    },
    /// No spare is there, or none is large enough.
    #[error("there is no spare that could replace {0}")]
    NoSpare(String),
    /// A device cannot be added below an overlay.
    #[error("an overlay holds the changes of the members that it was made for")]
    Overlaid,
    /// The device has content.
    #[error("{name} holds {what}")]
    Occupied {
        /// The device.
        name: String,
        /// The content: `an XFS filesystem`.
        what: &'static str,
    },
    /// The file is missing, and its size is not known.
    #[error("{}: no such file", .0.display())]
    NoFile(PathBuf),
    /// A size is not a number of sectors.
    #[error("{what}: {bytes} bytes are not whole sectors")]
    Sectors {
        /// Which size.
        what: &'static str,
        /// The size.
        bytes: u64,
    },
    /// More spares than devices, or a spare that is missing.
    #[error("{0}")]
    Spares(&'static str),
    /// The text is not a UUID.
    #[error("{0} is not a UUID")]
    Uuid(String),
}

impl ArrayError {
    /// Returns the error of this crate that carries it.
    pub(crate) fn error(self) -> Error {
        Error::new(self)
    }

    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotMember { .. }
            | Self::IsMember { .. }
            | Self::NoRole { .. }
            | Self::InUse { .. }
            | Self::Needed { .. }
            | Self::NoSpare(_) => ErrorKind::Member,
            Self::Occupied { .. } => ErrorKind::AlreadyExists,
            Self::Device { .. } => ErrorKind::Device,
            Self::NoFile(_) => ErrorKind::NotFound,
            _ => ErrorKind::InvalidInput,
        }
    }

    pub(super) fn hint(&self) -> Option<String> {
        if let Self::Device { source, .. } = self {
            return source.hint();
        }
        self.advice().map(str::to_owned)
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotArray(_) => "Name an array by its members: md:MEMBER,MEMBER,…",
            Self::NotRunning { source, .. } | Self::NotWritable { source, .. } => {
                return source.hint();
            }
            Self::NothingToCompare(_) => {
                "`xfskit md rebuild` completes the array; scrub it after that."
            }
            Self::NotVerifiable(_) => {
                "Name the members, as md:a.img,b.img,c.img; or leave --verify out."
            }
            Self::NothingLeft(_) => "Add the missing members, or leave --verify out.",
            Self::NotMember { .. } => "Use the name in the target.",
            Self::InUse { .. } => "`xfskit md fail` takes it out of use first.",
            Self::Needed { .. } => "Rebuild or add what is missing first.",
            Self::NoSpare(_) => "`xfskit md add` makes a device a spare.",
            Self::Overlaid => "Add the device without --overlay, or try it on copies.",
            _ => return None,
        })
    }
}
