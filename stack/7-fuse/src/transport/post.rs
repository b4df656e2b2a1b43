//! What each thread of a mount serves.

use std::io;
use std::sync::Arc;

use xfskit_devfuse::Channel;
use xfskit_devfuse::ring::Queue;

use super::watch::Thread;
use super::{REQUEST, Transport};
use crate::operations::Operations;
use crate::options::Options;

/// Threads that serve the device beside rings: FORGET and INTERRUPT come there.
const DEVICE_THREADS: usize = 2;
/// What has a kernel offer io_uring for FUSE, and what a mount without it does.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
const BY_DEVICE: &str = "requests come by the device";

/// What a thread serves.
#[derive(Debug)]
pub(crate) enum Post {
    /// The device, in turns with others.
    Device(Thread, Arc<Channel>),
    /// The ring of a processor.
    Queue(Box<Queue>),
    /// Requests of rings that take long.
    Work(usize),
}

impl Post {
    /// Returns the name of the thread.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Device(number, _) => format!("fuse-{number}"),
            Self::Queue(queue) => format!("fuse-ring-{}", queue.processor()),
            Self::Work(number) => format!("fuse-work-{number}"),
        }
    }
}

impl<O: Operations> Transport<O> {
    /// Returns the posts of a mount, of which INIT has settled what carries its requests.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn posts(&self, queues: Vec<Queue>, threads: usize) -> io::Result<Vec<Post>> {
        let has_rings = self.has_rings();
        if !has_rings && !queues.is_empty() {
            tracing::warn!("the kernel offers no io_uring for FUSE ({PARAMETER}): {BY_DEVICE}");
        }
        let (queues, workers, device) = if has_rings {
            (queues, threads, DEVICE_THREADS.min(threads))
        } else {
            (Vec::new(), 0, threads)
        };
        let by_device = |number| Ok(Post::Device(number, Arc::new(self.channel.try_clone()?)));
        let by_device = (0..device).map(by_device).collect::<io::Result<Vec<_>>>()?;
        let by_ring = queues.into_iter().map(|queue| Post::Queue(Box::new(queue)));
        Ok(by_ring.chain(by_device).chain((0..workers).map(Post::Work)).collect())
    }

    /// Serves a post until the mount is gone.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn serve(&self, post: Post) -> io::Result<()> {
        let served = match post {
            Post::Device(number, channel) => self.serve_device(&channel, number),
            Post::Queue(queue) => self.serve_queue(*queue),
            Post::Work(_) => self.work(),
        };
        self.watch.end();
        self.work.end();
        served
    }
}

/// Returns the queues for io_uring, if the options ask for it and the system has it.
pub(crate) fn queues(options: &Options) -> Vec<Queue> {
    if !options.io_uring {
        return Vec::new();
    }
    Queue::of_all_processors(REQUEST).unwrap_or_else(|error| {
        tracing::warn!(%error, "no io_uring: {BY_DEVICE}");
        Vec::new()
    })
}
