//! Carries requests of the kernel to [`Operations`], by the FUSE device.
//!
//! Everything particular to the protocol is here: node ids, how long the kernel may cache, and the
//! features of the protocol that are asked for.
//!
//! | module | what |
//! | --- | --- |
//! | `serve` | a thread's loop, and the operation of each request |
//! | `encode` | attributes, times, modes and device numbers |

mod encode;
mod serve;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_devfuse::init::{Features, Wishes};
use xfskit_devfuse::message::ROOT;
use xfskit_units::Ino;

use crate::operations::Operations;
use crate::statistics::Statistics;

/// Bytes of data of one request.
const REQUEST: u32 = 1 << 20;

/// What the kernel is asked for: features that make the mount faster or more complete.
const WISHES: Wishes = Wishes {
    features: Features::ASYNC_READ
        .union(Features::ATOMIC_O_TRUNC)
        .union(Features::EXPORT_SUPPORT)
        .union(Features::BIG_WRITES)
        .union(Features::DONT_MASK)
        .union(Features::HAS_IOCTL_DIR)
        .union(Features::DO_READDIRPLUS)
        .union(Features::READDIRPLUS_AUTO)
        .union(Features::ASYNC_DIO)
        .union(Features::WRITEBACK_CACHE)
        .union(Features::NO_OPEN_SUPPORT)
        .union(Features::NO_OPENDIR_SUPPORT)
        .union(Features::PARALLEL_DIROPS)
        .union(Features::HANDLE_KILLPRIV_V2)
        .union(Features::POSIX_ACL)
        .union(Features::CACHE_SYMLINKS)
        .union(Features::EXPLICIT_INVAL_DATA)
        .union(Features::DIRECT_IO_ALLOW_MMAP),
    max_write: REQUEST,
    max_readahead: REQUEST,
    // Requests in the background (readahead, writeback) that the kernel sends at once.
    max_background: 64,
};

/// Passes requests on to operations, and replies.
#[derive(Debug)]
pub(crate) struct Transport<O> {
    operations: Arc<O>,
    statistics: Arc<Statistics>,
    no_open: bool,
    /// A thread looks for the next request without sleeping.
    looking: AtomicBool,
}

impl<O: Operations> Transport<O> {
    pub(crate) fn new(operations: Arc<O>, statistics: Arc<Statistics>, no_open: bool) -> Self {
        Self { operations, statistics, no_open, looking: AtomicBool::new(false) }
    }

    /// Returns the inode with the kernel's `node` id: only the root differs.
    fn ino(&self, node: u64) -> Ino {
        if node == ROOT { self.operations.root() } else { Ino(node) }
    }

    /// Calls `look` unless another thread does that already.
    fn look(&self, look: impl FnOnce()) {
        if !self.looking.swap(true, Ordering::Acquire) {
            look();
            self.looking.store(false, Ordering::Release);
        }
    }
}
