//! Carries requests of the kernel to [`Operations`], by the FUSE device.
//!
//! Everything particular to the protocol is here: node ids, how long the kernel may cache, and the
//! features of the protocol that are asked for. Requests that change something wait here while the
//! mount is frozen.
//!
//! | module | what |
//! | --- | --- |
//! | `serve` | a thread's loop, and the operation of each request |
//! | `gate` | requests that wait while the mount is frozen |
//! | `replier` | the reply to a request |
//! | `watch` | which thread waits for the next request |
//! | `encode` | attributes, times, modes and device numbers |

mod encode;
mod gate;
mod replier;
mod serve;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use xfskit_devfuse::init::{Features, Wishes};
use xfskit_devfuse::message::ROOT;
use xfskit_units::Ino;

use crate::freeze::Kept;
use crate::operations::Operations;
use crate::options::Options;
use crate::statistics::Statistics;
use watch::Watch;

pub(crate) use gate::Waiting;

/// Time for which a thread looks for the next request, unless the options say otherwise.
const BUSY_POLL: Duration = Duration::from_micros(50);
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

/// Returns what the kernel is asked for. With ATOMIC_O_TRUNC it leaves the truncation of O_TRUNC to
/// OPEN: where that is refused, nothing would truncate the file.
fn wishes(no_open: bool) -> Wishes {
    let without = if no_open { Features::ATOMIC_O_TRUNC } else { Features::empty() };
    Wishes { features: WISHES.features.difference(without), ..WISHES }
}

/// Passes requests on to operations, and replies.
#[derive(Debug)]
pub(crate) struct Transport<O> {
    operations: Arc<O>,
    statistics: Arc<Statistics>,
    no_open: bool,
    /// Time for which a thread looks for the next request before it sleeps.
    busy_poll: Duration,
    watch: Watch,
    /// Requests that wait for the thaw.
    kept: Kept<Self>,
}

impl<O: Operations> Transport<O> {
    /// Returns the transport of a mount that so many `threads` serve.
    pub(crate) fn new(
        operations: Arc<O>,
        statistics: Arc<Statistics>,
        options: &Options,
        threads: usize,
    ) -> Self {
        let busy_poll = options.busy_poll.unwrap_or(BUSY_POLL);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (no_open, watch) = (options.no_open, Watch::new(threads, processors.div_ceil(2)));
        let kept = Kept::default();
        Self { operations, statistics, no_open, busy_poll, watch, kept }
    }

    /// Returns the inode with the kernel's `node` id: only the root differs.
    fn ino(&self, node: u64) -> Ino {
        if node == ROOT { self.operations.root() } else { Ino(node) }
    }
}
