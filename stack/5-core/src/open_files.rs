//! Files that are open for writing: what of them is in memory only.
//!
//! This module is the state; `file` is what happens to it.

mod dirty;
mod io_lock;
mod staged;

pub(crate) use dirty::Dirty;
pub(crate) use io_lock::IoLock;
pub(crate) use staged::Staged;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{ByteLen, ByteOffset, FilBlks, FileOff, Ino, PositionRange};

/// Largest size of a file.
pub const SIZE_MAX: ByteLen = ByteLen(i64::MAX.unsigned_abs());
/// End of a file of the largest size.
pub(crate) const END_MAX: ByteOffset = ByteOffset(SIZE_MAX.0);

/// The files that are open for writing.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) open: Mutex<HashMap<Ino, Arc<Content>>>,
    /// Number of files that have been closed. It grows under the lock of `open`.
    pub(crate) closed: AtomicU64,
    /// A [`ByteLen`]: data in memory.
    pub(crate) dirty_bytes: AtomicU64,
    /// Staged extents of all files.
    pub(crate) staged: AtomicUsize,
}

/// A regular file that is open for writing. Shared by all of its handles.
#[derive(Debug)]
pub struct Content {
    pub(crate) ino: Ino,
    pub(crate) generation: u32,
    /// The inode's extent size hint; 0 without a hint.
    pub(crate) extsize: FilBlks,
    /// The IOLOCK: taken before any transaction, never inside one.
    pub(crate) state: IoLock,
}

/// The state that the IOLOCK protects.
#[derive(Debug)]
pub(crate) struct State {
    /// Size, including data that is in memory only.
    pub(crate) size: ByteLen,
    pub(crate) dirty: Dirty,
    /// Blocks that a thread has placed and sends to the device: they are not in `dirty` any more,
    /// and may not be read from the device yet. See [`IoLock`].
    pub(crate) behind: Option<Range<FileOff>>,
    /// Staging extents of the file.
    pub(crate) staged: Staged,
    /// Blocks reserved for `dirty`.
    pub(crate) reserved: FilBlks,
    /// Blocks reserved for the present operation, see
    /// [`with_reservation`](Content::with_reservation).
    pub(crate) reservation: Option<FilBlks>,
    /// Time of the last write, if the inode does not have it yet.
    pub(crate) written: Option<Timestamp>,
    /// The size differs from the inode's.
    pub(crate) resized: bool,
}

impl State {
    /// Returns the end of the file.
    pub(crate) fn end(&self) -> ByteOffset {
        ByteOffset(self.size.0)
    }

    /// Zeroes `range`, which is in one block, if that is in memory.
    pub(crate) fn blank(&mut self, range: &Range<ByteOffset>) {
        if !range.is_empty() && self.dirty.has_byte(range.start) {
            self.dirty.write(range.start, &vec![0; range.length().index()]);
        }
    }

    /// Returns true if nothing of the file is in memory or staged.
    pub(crate) fn is_clean(&self) -> bool {
        self.is_flushed() && self.staged.is_empty()
    }

    /// Returns true if the inode and the device have all data and attributes of the file.
    pub(crate) fn is_flushed(&self) -> bool {
        self.dirty.blocks().is_zero() && self.written.is_none() && !self.resized
    }
}
