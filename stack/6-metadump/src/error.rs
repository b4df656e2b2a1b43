//! What can go wrong.

use std::io;

/// An error of a dump or of a restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The volume cannot be opened or its journal cannot be replayed.
    #[error(transparent)]
    Volume(#[from] xfskit_core::Error),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file cannot be written.
    #[error("the file cannot be written: {0}")]
    Write(#[source] io::Error),
    /// A feature of the volume or of the file is not supported.
    #[error("{0} are not supported")]
    Unsupported(String),
    /// The journal is dirty and cannot be replayed, so names in it cannot be obfuscated.
    #[error("the journal cannot be replayed, so its names cannot be obfuscated: {0}")]
    Journal(String),
    /// The volume has an external journal that was not named.
    #[error("the journal of this volume is on a device of its own")]
    ExternalLog,
    /// A device was named for a journal that is inside of the volume.
    #[error("the journal is inside of this volume: it is not on a device of its own")]
    InternalLog,
    /// A device was named for a journal that the file does not have.
    #[error("the file has no external journal: there is nothing for the device {0}")]
    NoExternalLog(String),
    /// A device was named for metadata of a realtime device that the file does not have.
    #[error("the file has no metadata of a realtime device: there is nothing for the device {0}")]
    NoRealtime(String),
    /// The file has an external journal, and no device for it was named.
    #[error("the file has an external journal, and no device for it was named")]
    ExternalLogTarget,
    /// The file has metadata of a realtime device, and no device for it was named.
    #[error("the file has metadata of a realtime device, and no device for it was named")]
    RealtimeTarget,
    /// An external journal does not fit into version 1 of the file format.
    #[error("version 1 of the file format cannot hold an external journal")]
    ExternalLogV1,
    /// The file is of another kind.
    #[error("this is no metadump: it begins with {found}")]
    NotAMetadump {
        /// The first bytes, or what they stand for.
        found: String,
        /// The program that decompresses it.
        decompress: Option<&'static str>,
    },
    /// The file ends too early.
    #[error("the metadump is incomplete: it ends after {bytes} bytes, in the middle of a block")]
    Truncated {
        /// Bytes read.
        bytes: u64,
    },
    /// The file is damaged.
    #[error("the metadump is damaged near byte {offset}: {what}")]
    DamagedFile {
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// The damage.
        what: String,
    },
    /// The target is too small.
    #[error("the target has {size} bytes, and the volume needs {needed}")]
    TooSmall {
        /// Bytes of the target.
        size: u64,
        /// Bytes of the volume.
        needed: u64,
    },
    /// Cancelled by the caller.
    #[error("cancelled")]
    Cancelled,
}

/// The result of a dump or of a restore.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes the error of a file that begins with `head`.
    pub(crate) fn not_a_metadump(head: &[u8]) -> Self {
        let (found, decompress) = match head {
            [] => ("nothing".to_owned(), None),
            [0x1f, 0x8b, ..] => ("compressed data (gzip)".to_owned(), Some("gzip -dc")),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => ("compressed data (zstd)".to_owned(), Some("zstd -dc")),
            [0xfd, b'7', b'z', ..] => ("compressed data (xz)".to_owned(), Some("xz -dc")),
            [b'B', b'Z', b'h', ..] => ("compressed data (bzip2)".to_owned(), Some("bzip2 -dc")),
            [b'X', b'F', b'S', b'B', ..] => ("the superblock of a volume".to_owned(), None),
            _ => {
                let hex: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
                (format!("the bytes {}", hex.join(" ")), None)
            }
        };
        Self::NotAMetadump { found, decompress }
    }

    /// Returns what to do about it, if there is advice.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Device(error) => return error.hint(),
            Self::Journal(_) => "Copy the journal as it is, with its clear names \
                                 (--journal copy), or dump without obfuscation (--no-obfuscate)."
                .to_owned(),
            Self::ExternalLog => {
                "Name the device of the journal (--logdev DEVICE), or leave it out of the file \
                 (--journal omit)."
                    .to_owned()
            }
            Self::ExternalLogTarget => {
                "Name a new image or a device for it: --logdev DEVICE.".to_owned()
            }
            Self::RealtimeTarget => {
                "Name a new image or a device for it: --rtdev DEVICE.".to_owned()
            }
            Self::InternalLog | Self::NoExternalLog(_) => "Leave out --logdev.".to_owned(),
            Self::NoRealtime(_) => "Leave out --rtdev.".to_owned(),
            Self::ExternalLogV1 => {
                "Choose version 2 (--format 2), or leave the journal out of the file \
                 (--journal omit)."
                    .to_owned()
            }
            Self::NotAMetadump { decompress: Some(program), .. } => {
                format!("Decompress it first: {program} FILE | xfskit restore - IMAGE")
            }
            Self::NotAMetadump { .. } => {
                "Name a file that `xfskit metadump` or `xfs_metadump` wrote.".to_owned()
            }
            Self::Truncated { .. } => {
                "Copy the file again, or make it again; what comes before its end can be \
                 restored with --partial."
                    .to_owned()
            }
            _ => return None,
        })
    }
}
