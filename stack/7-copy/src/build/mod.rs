//! Makes a volume from a tree in one pass.
//!
//! Everything is planned before anything is written. The sorted [`Tree`] is walked directory by
//! directory. Each directory gets an allocation group, with the inodes of its files one after the
//! other. Then each inode's blocks (names, extents, attributes) are counted and allocated one after
//! the other, in the same order. The groups' headers and btrees follow from that. The result is a
//! [`Blueprint`]. The bytes of every block are a function of it, the tree and the contents of the
//! files, so they are the same on any number of threads.
//!
//! ```text
//! group   headers, roots | log? | AGFL | inode chunks … | blocks of inode 1, 2, 3 … | btrees|free
//! ```
//!
//! Writing takes batches of inodes: their blocks are contiguous, and so are their inodes, so each
//! is a few large writes. There is no journal: until the last write, the primary superblock has "in
//! progress" set.
//!
//! | module | what |
//! | --- | --- |
//! | [`inode_order`](mod@inode_order) | the order of all inodes, their groups and numbers |
//! | [`space`](mod@space) | free blocks of each group during planning |
//! | `inode_plan` | plans one inode: the contents of its forks, and their formats |
//! | [`blueprint`](mod@blueprint) | the plan of a volume |
//! | `groups` | the contents of the groups' headers and btrees |
//! | `inode`, `content` | the bytes |
//! | [`mod@write`] | the order of writing |
//! | [`mod@fit`] | the smallest volume for a tree |

use std::ops::ControlFlow;

use crate::source::{NodeId, SourceError, Tree};

pub mod blueprint;
pub mod fit;
pub mod inode_order;
pub mod space;
pub mod write;

mod content;
mod groups;
mod inode;
mod inode_plan;

pub use blueprint::Blueprint;
pub use fit::{Free, fit};
pub use write::{Progress, WriteOptions, write};

/// The reason why a tree does not become a volume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The tree does not fit.
    #[error("the tree does not fit: about {more} bytes more are needed; make the volume larger")]
    NoSpace {
        /// Number of missing bytes.
        more: u64,
    },
    /// XFS, or this volume, cannot hold something.
    #[error("{}: {what}", String::from_utf8_lossy(path))]
    Unfit {
        /// Path of the file.
        path: Vec<u8>,
        /// The reason.
        what: String,
    },
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The volume cannot be made.
    #[error(transparent)]
    Mkfs(#[from] xfskit_mkfs::Error),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl BuildError {
    fn unfit(tree: &Tree, id: NodeId, what: impl Into<String>) -> Self {
        Self::Unfit { path: tree.path(id), what: what.into() }
    }
}

/// Called now and then, from any thread, with the progress of the writing; may stop it.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);
