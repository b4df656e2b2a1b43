//! A volume from a tree, all in one go.
//!
//! Everything is decided before anything is written. The sorted [`Tree`] is walked directory by
//! directory; each gets an allocation group, and its files' inodes follow each other there. Then
//! each inode's blocks are counted (names, extents, attributes) and placed one behind the other, in
//! the same order. What a group's headers and btrees have to say follows from that. The result is a
//! [`Blueprint`]; the bytes of every block are a function of it, the tree and the contents of the
//! files, so they are the same on any number of threads.
//!
//! ```text
//! group   headers, roots | log? | AGFL | inode chunks … | blocks of inode 1, 2, 3 … | btrees|free
//! ```
//!
//! Writing takes stretches of inodes: their blocks lie together, their inodes lie together, and so
//! each is a few large writes. There is no journal: until the last write, the primary superblock
//! says "in progress".
//!
//! | module | what |
//! | --- | --- |
//! | [`census`](mod@census) | the order of all inodes, their groups and numbers |
//! | [`space`](mod@space) | free blocks of each group while they are given out |
//! | `anatomy` | one inode: what its forks hold, and in which form |
//! | [`blueprint`](mod@blueprint) | everything decided |
//! | `groups` | what the groups' headers and btrees will say |
//! | `inode`, `content` | the bytes |
//! | [`mod@write`] | the order of writing |
//! | [`mod@fit`] | a volume of just the right size |

use std::ops::ControlFlow;

use crate::source::{NodeId, SourceError, Tree};

pub mod blueprint;
pub mod census;
pub mod fit;
pub mod space;
pub mod write;

mod anatomy;
mod content;
mod groups;
mod inode;

pub use blueprint::Blueprint;
pub use fit::{Free, fit};
pub use write::{Progress, WriteOptions, write};

/// Why a tree does not become a volume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The tree does not fit.
    #[error("the tree does not fit: about {more} bytes more are needed; make the volume larger")]
    NoSpace {
        /// How much is missing, in bytes.
        more: u64,
    },
    /// XFS, or this volume, has no place for something.
    #[error("{}: {what}", String::from_utf8_lossy(path))]
    Unfit {
        /// What.
        path: Vec<u8>,
        /// Why.
        what: String,
    },
    /// The source cannot be read any more.
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

/// Told how far the writing is, now and then, from any thread; may stop it.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);
