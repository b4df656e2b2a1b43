//! How far the kernel reads ahead of a program.
//!
//! As much as one request takes, on most devices. On an array a whole stripe, as for Linux's own
//! arrays: all members work for one reader, and its requests of one stripe arrive together. A
//! degraded array reads the stripe for the first of them and hands it out to the others at once. If
//! each reader took its time, the stripes of many readers would have to stay in memory meanwhile.

use std::path::Path;

use xfskit_units::ByteLen;

use crate::options::Options;
use crate::transport::REQUEST;

/// Most bytes that are read ahead.
const MAX: u64 = 32 << 20;
/// Requests in the background (read-ahead, writeback) that the kernel sends at once. Most of them
/// wait for a thread.
const BACKGROUND: u16 = 64;
/// … where they are those of a stripe for each reader. The kernel stops reading ahead when there
/// are three quarters of them.
const BACKGROUND_STRIPED: u16 = 512;
/// Threads that serve requests, for each processor: as many requests wait for disks at once.
const THREADS: usize = 16;
const THREADS_STRIPED: usize = 32;
/// Fewest threads, and most, unless the options say otherwise.
const THREADS_MIN: usize = 32;
const THREADS_MAX: usize = 128;

/// How far the kernel reads ahead, and what it takes to serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadAhead {
    bytes: u64,
    is_striped: bool,
}

impl ReadAhead {
    /// Returns that of a device with stripes of `stripe_width`, 0 if it has none.
    pub(crate) fn new(stripe_width: ByteLen) -> Self {
        let request = u64::from(REQUEST);
        let bytes = stripe_width.0.min(MAX).next_multiple_of(request).max(request);
        Self { bytes, is_striped: bytes > request }
    }

    /// Returns the number of requests in the background that the kernel is to send at once.
    pub(crate) fn max_background(self) -> u16 {
        if self.is_striped { BACKGROUND_STRIPED } else { BACKGROUND }
    }

    /// Returns the number of threads.
    pub(crate) fn threads(self, options: &Options) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let each = if self.is_striped { THREADS_STRIPED } else { THREADS };
        options.threads.unwrap_or((each * processors).clamp(THREADS_MIN, THREADS_MAX))
    }

    /// Has the kernel read ahead on the mount, rather than 128 KiB. Only root may say so.
    pub(crate) fn raise(self, dir: &Path) {
        let raise = || {
            let device = rustix::fs::stat(dir)?.st_dev;
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
            std::fs::write(file, (self.bytes >> 10).to_string())
        };
        if let Err(error) = raise() {
            tracing::debug!(%error, "the kernel reads ahead as it does");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_read_ahead_in_whole_requests() {
        let bytes = |stripe_width| ReadAhead::new(ByteLen(stripe_width)).bytes;
        assert_eq!(bytes(0), 1 << 20, "no stripes");
        assert_eq!(bytes(192 << 10), 1 << 20, "less than a request");
        assert_eq!(bytes(11 << 20), 11 << 20);
        assert_eq!(bytes((11 << 20) + 1), 12 << 20);
        assert_eq!(bytes(u64::MAX), MAX);
    }
}
