//! Standard input that nobody has to wait for.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long a flag that is set just before the wait begins may go unseen.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input, of which no more comes once a flag is set: by another thread, or by a signal. Every read asks the
/// system, so nothing else should read standard input with a buffer of its own.
#[derive(Clone, Debug, Default)]
pub struct Stdin(Arc<AtomicBool>);

impl Stdin {
    /// Reads fail as soon as `stop` is set, those that wait too.
    pub fn until(stop: Arc<AtomicBool>) -> Self {
        Self(stop)
    }
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        loop {
            if self.0.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped"));
            }
            // A read that waits would go on after a signal; this does not.
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&GLANCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match rustix::io::read(&stdin, &mut *buf) {
                    Err(Errno::INTR) => {}
                    answer => return Ok(answer?),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}
