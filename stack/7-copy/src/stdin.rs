//! Input that a reader may wait for, such as standard input or a named pipe. The wait ends when the
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

/// The longest time until a set flag is noticed.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input whose reads fail once a flag is set, by another thread or a signal. Every read is
/// a system call, so nothing else should read standard input through a buffer of its own.
#[derive(Clone, Debug, Default)]
pub struct Stdin(Arc<AtomicBool>);

impl Stdin {
    /// Makes an input whose reads fail as soon as `stop` is set, waiting ones too.
    pub fn until(stop: Arc<AtomicBool>) -> Self {
        Self(stop)
    }

    /// Opens `path` for reading, and does not wait for a named pipe's writer.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }

    /// Reads `file` instead of standard input, with the same flag.
    pub(crate) fn of(&self, file: File) -> InterruptibleInput {
        InterruptibleInput { file, stop: self.clone() }
    }

    /// Reads the next bytes from `input`, as many as are available.
    fn read_from(&self, input: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.0.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped"));
            }
            // A blocking read would go on after a signal; this wait does not. A pipe that no writer
            // has opened yet is not at its end: the system reports nothing until one has.
            match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&POLL_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match rustix::io::read(input, &mut *buf) {
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    result => return Ok(result?),
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

/// A pipe or device that is read in the same way as standard input.
#[derive(Debug)]
pub(crate) struct InterruptibleInput {
    file: File,
    stop: Stdin,
}

impl Read for InterruptibleInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stop.read_from(self.file.as_fd(), buf)
    }
}
