//! Floor 7: copy trees out of a volume and into one.
//!
//! A copy includes everything of a file: content with its holes, mode, owner, times to the
//! nanosecond, extended attributes, ACLs, hard links, symbolic links, devices. Damage does not end
//! a copy: each failure is an [`Event`], and the copy continues.
//!
//! | module | what |
//! | --- | --- |
//! | [`get`](mod@get) | copies a tree to a directory, in threads, in the order of the disk |
//! | [`dest`] | the destination: makes files and sets their metadata |
//! | [`archive`](mod@archive) | writes a tree as a tar stream |
//! | [`salvage`](mod@salvage) | copies all that can be read of a damaged volume |
//! | [`put`](mod@put) | copies a tree, or a stream, into an existing volume |
//! | [`within`] | copies a file or a tree within a volume |
//! | [`build`] | makes a whole volume from a tree |
//! | [`source`] | reads a tree from directories and archives |
//! | [`stdin`] | standard input whose wait can be ended |

pub mod archive;
pub mod build;
pub mod dest;
pub mod get;
pub mod put;
pub mod salvage;
pub mod source;
pub mod stdin;
pub mod within;
mod xattrs;

mod acl;
mod inode_set;
mod links;
mod readahead;
mod skipped;

pub use archive::{ArchiveError, archive};
pub use get::{GetError, GetOptions, Report, get};

pub use put::{Destination, PutError, PutOptions, put};
pub use salvage::{Salvaged, salvage, salvage_to_archive};
pub use skipped::{Skipped, SkippedCount};
pub use within::copy_within;

use std::ops::Range;

use xfskit_units::{AgNumber, ByteOffset, Ino};
use xfskit_vfs::{Error, Lost};

/// An event of a running copy. Several threads may report events at the same time.
#[derive(Debug)]
pub enum Event<'a> {
    /// One file is done.
    Done {
        /// Its size in bytes.
        bytes: u64,
    },
    /// An inode was found under a name, before it is copied.
    Found(Ino),
    /// A part of the volume is damaged or cannot be read. The copy continues without it.
    Damaged {
        /// Path in the volume; empty for an inode without one.
        path: &'a [u8],
        /// The inode.
        ino: Ino,
        /// The bytes of the file that are lost, if it is some of the content.
        range: Option<Range<ByteOffset>>,
        /// The error.
        error: Error,
    },
    /// A block of the inode btree of a group is damaged. Inodes of the group that no directory
    /// names may not be found.
    GroupDamaged {
        /// The group.
        agno: AgNumber,
        /// The error.
        error: Error,
    },
    /// The destination refused one file. The copy continues without it.
    Refused {
        /// Path in the volume.
        path: &'a [u8],
        /// The error of the destination.
        error: std::io::Error,
    },
    /// One file was left out although the volume is sound.
    Skipped {
        /// Path in the volume.
        path: &'a [u8],
        /// The reason.
        what: &'static str,
    },
}

impl<'a> Event<'a> {
    /// Returns the event of `path`, some of whose content is lost.
    fn lost(path: &'a [u8], ino: Ino, lost: Lost) -> Self {
        let range = Some(lost.range).filter(|range| !range.is_empty());
        Self::Damaged { path, ino, range, error: lost.error }
    }

    /// Returns the event of `path`, some of whose metadata or names cannot be read.
    fn damaged(path: &'a [u8], ino: Ino, error: Error) -> Self {
        Self::Damaged { path, ino, range: None, error }
    }
}
