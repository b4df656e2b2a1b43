//! Input that may keep a reader waiting, standard input or a named pipe: the wait ends when the
//! caller asks to stop.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// How long a flag that is set just before the wait begins may go unseen.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input, of which no more comes once a flag is set: by another thread, or by a signal.
/// Every read asks the system, so nothing else should read standard input with a buffer of its own.
#[derive(Clone, Debug, Default)]
pub struct Stdin(Arc<AtomicBool>);

impl Stdin {
    /// Reads fail as soon as `stop` is set, those that wait too.
    pub fn until(stop: Arc<AtomicBool>) -> Self {
        Self(stop)
    }

    /// Opens `path` for reading, and does not wait for a named pipe's writer.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub(crate) fn open(path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }

    /// `file` in the place of standard input, with the same flag.
    pub(crate) fn of(&self, file: File) -> Waiting {
        Waiting { file, stop: self.clone() }
    }

    /// Reads from `input` what comes next, of however many bytes it has then.
    fn read_from(&self, input: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.0.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped"));
            }
            // A read that waits would go on after a signal; this does not. A pipe that no writer
            // has opened yet is not at its end: the system reports nothing until one has come.
            match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&GLANCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match rustix::io::read(input, &mut *buf) {
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    answer => return Ok(answer?),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_from(io::stdin().as_fd(), buf)
    }
}

/// A pipe or a device that is read as standard input is.
#[derive(Debug)]
pub(crate) struct Waiting {
    file: File,
    stop: Stdin,
}

impl Read for Waiting {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stop.read_from(self.file.as_fd(), buf)
    }
}
