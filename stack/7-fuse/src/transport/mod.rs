//! Carries requests of the kernel to [`Operations`], by the FUSE device or by io_uring.
//!
//! Everything particular to the protocol is here: node ids, how long the kernel may cache, and the
//! features of the protocol that are asked for. Requests that change something wait here while the
//! mount is frozen.
//!
//! | module | what |
//! | --- | --- |
//! | `carried` | a request with the way of its reply |
//! | `device` | requests by the device: a thread's loop |
//! | `watch` | … and which thread waits for the next request |
//! | `rings` | requests by io_uring: a thread for each processor, and workers |
//! | `post` | what each thread serves |
//! | `gate` | requests that wait while the mount is frozen |
//! | `serve` | the operation of each request |
//! | `replier` | the reply to a request |
//! | `encode` | attributes, times, modes and device numbers |

mod carried;
mod device;
mod encode;
mod gate;
mod post;
mod replier;
mod rings;
mod serve;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use xfskit_devfuse::Channel;
use xfskit_devfuse::init::{Features, Wishes};
use xfskit_devfuse::message::ROOT;
use xfskit_units::Ino;

use crate::freeze::Kept;
use crate::operations::Operations;
use crate::options::Options;
use crate::statistics::{Carrier, Statistics};
use rings::Work;
use watch::Watch;

pub(crate) use gate::Waiting;
pub(crate) use post::{Post, queues};

/// Time for which a thread looks for the next request, unless the options say otherwise.
const BUSY_POLL: Duration = Duration::from_micros(50);
/// Bytes of data of one request.
pub(crate) const REQUEST: u32 = 1 << 20;

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
    max_background: 64,
};

/// Passes requests on to operations, and replies.
#[derive(Debug)]
pub(crate) struct Transport<O> {
    operations: Arc<O>,
    statistics: Arc<Statistics>,
    /// The mount, for INIT and for messages to the kernel.
    channel: Arc<Channel>,
    no_open: bool,
    /// The kernel is asked for rings.
    wants_rings: bool,
    /// Requests in the background that the kernel sends at once.
    max_background: u16,
    /// Time for which a thread looks for the next request before it sleeps.
    busy_poll: Duration,
    watch: Watch,
    /// Requests of rings that wait for a worker.
    work: Work,
    /// Requests that wait for the thaw.
    kept: Kept<Self>,
}

impl<O: Operations> Transport<O> {
    /// Returns the transport of the mount of `channel`, that so many `threads` serve.
    pub(crate) fn new(
        operations: Arc<O>,
        statistics: Arc<Statistics>,
        channel: Arc<Channel>,
        options: &Options,
        threads: usize,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            operations,
            statistics,
            channel,
            no_open: options.no_open,
            wants_rings: false,
            max_background: WISHES.max_background,
            busy_poll: options.busy_poll.unwrap_or(BUSY_POLL),
            watch: Watch::new(threads, processors.div_ceil(2)),
            work: Work::default(),
            kept: Kept::default(),
        }
    }

    /// Has the kernel asked for rings.
    pub(crate) fn with_rings(self, wants_rings: bool) -> Self {
        Self { wants_rings, ..self }
    }

    /// Has the kernel send so many requests in the background at once.
    pub(crate) fn with_background(self, max_background: u16) -> Self {
        Self { max_background, ..self }
    }

    /// Returns true if requests come by rings: INIT has settled it.
    fn has_rings(&self) -> bool {
        self.statistics.carrier() == Carrier::IoUring
    }

    /// Returns what the kernel is asked for. With ATOMIC_O_TRUNC it leaves the truncation of
    /// O_TRUNC to OPEN: where that is refused, nothing would truncate the file.
    fn wishes(&self) -> Wishes {
        let mut features = WISHES.features;
        features.set(Features::ATOMIC_O_TRUNC, !self.no_open);
        features.set(Features::OVER_IO_URING, self.wants_rings);
        Wishes { features, max_background: self.max_background, ..WISHES }
    }

    /// Returns the inode with the kernel's `node` id: only the root differs.
    fn ino(&self, node: u64) -> Ino {
        if node == ROOT { self.operations.root() } else { Ino(node) }
    }
}
