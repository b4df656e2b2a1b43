//! Floor 6: trees out of a volume, and trees to be put into one.
//!
//! A copy carries everything that belongs to a file: content with its holes, mode, owner, times to
//! the nanosecond, extended attributes, ACLs, hard links, symbolic links, devices. Damage does not
//! end a copy: each fault is an [`Event`], and the rest comes out.
//!
//! | module | what |
//! | --- | --- |
//! | [`get`](mod@get) | a tree into a directory, on several threads, in the order of the disk |
//! | [`dest`] | the receiving side: making files and giving them what belongs to them |
//! | [`archive`](mod@archive) | a tree as a tar stream |
//! | [`put`](mod@put) | a tree, or a stream, into a volume that is there |
//! | [`within`] | a file or a tree within a volume |
//! | [`build`] | a whole volume from such a tree |
//! | [`source`] | a tree to be put into a volume, read from directories and archives |
//! | [`stdin`] | standard input that nobody has to wait for |

pub mod archive;
pub mod build;
pub mod dest;
pub mod get;
pub mod put;
pub mod source;
pub mod stdin;
pub mod within;

mod acl;
mod ahead;
mod links;
mod skipped;

pub use archive::{ArchiveError, archive};
pub use get::{GetError, GetOptions, Report, get};

pub use put::{Destination, PutError, PutOptions, put};
pub use skipped::{Skipped, SkippedCount};
pub use within::copy_within;

use xfskit_vfs::Error;

/// What a copy tells while it runs; perhaps from many threads at once.
#[derive(Debug)]
pub enum Event<'a> {
    /// One file is done.
    Done {
        /// Its size in bytes.
        bytes: u64,
    },
    /// Something in the volume is damaged; the copy goes on without it.
    Fault {
        /// Where, in the volume.
        path: &'a [u8],
        /// What is wrong.
        error: &'a Error,
    },
    /// The destination refused one file; the copy goes on without it.
    Refused {
        /// Where, in the volume.
        path: &'a [u8],
        /// What the destination said.
        error: &'a std::io::Error,
    },
    /// One file was left out, which is no fault of the volume.
    Skipped {
        /// Where, in the volume.
        path: &'a [u8],
        /// Why.
        what: &'a str,
    },
}
