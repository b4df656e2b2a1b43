//! Reading requests from the device, and writing replies to it.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::message::{OutHeader, notify};
use crate::reply::Sink;

/// The device.
pub(crate) const PATH: &str = "/dev/fuse";
/// Bytes of a request beside its data: more than the longest names.
const HEADER: usize = 4096;
/// Parts of a message that the system takes with its header in one call, less one (`IOV_MAX`).
const PARTS_MAX: usize = 1023;

/// A descriptor of a mount, to receive requests and reply to them. Several threads may use one, or
/// each its own copy: the replies to the requests of a copy go through it.
#[derive(Debug)]
pub struct Channel(File);

/// What was received.
#[derive(Debug)]
pub enum Received<'b> {
    /// A message, which should be a request.
    Message(&'b [u8]),
    /// The mount is gone.
    End,
}

/// A buffer for one request.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// Returns a buffer for requests with at most `data` bytes of data.
    pub fn new(data: u32) -> Self {
        Self(vec![0; HEADER + usize::try_from(data).unwrap_or(usize::MAX - HEADER)])
    }
}

impl Channel {
    /// Opens the device. A mount is made with it afterwards.
    ///
    /// # Errors
    /// The device is missing, or may not be opened.
    pub(crate) fn open() -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(PATH).map(Self)
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self(File::from(fd))
    }

    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Returns another descriptor of the same mount, with a queue of its own for requests that are
    /// being served.
    ///
    /// # Errors
    /// The system refuses.
    pub fn try_clone(&self) -> io::Result<Self> {
        let new = Self::open()?;
        crate::ioctl::attach(&new.0, self.number())?;
        Ok(new)
    }

    /// Waits for a request, and returns it.
    ///
    /// # Errors
    /// The device fails.
    pub fn receive<'b>(&self, buffer: &'b mut Buffer) -> io::Result<Received<'b>> {
        let len = loop {
            match (&self.0).read(&mut buffer.0) {
                Ok(len) => break len,
                // The request was taken back; a signal.
                Err(error) if is(&error, Errno::NOENT) || is(&error, Errno::INTR) => {}
                Err(error) if is(&error, Errno::NODEV) => return Ok(Received::End),
                Err(error) => return Err(error),
            }
        };
        Ok(Received::Message(&buffer.0[..len]))
    }

    /// Returns true if a request is there, or the mount is gone.
    pub fn is_ready(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        !matches!(poll(&mut fds, Some(&now)), Ok(0))
    }

    /// Looks for a request until one is there, at most for `time`. This costs processor time and
    /// saves the time in which a sleeping thread is woken. Returns true if one was there already.
    pub fn look(&self, time: Duration) -> bool {
        if self.is_ready() {
            return true;
        }
        let start = Instant::now();
        while start.elapsed() < time {
            std::thread::yield_now();
            if self.is_ready() {
                break;
            }
        }
        false
    }

    /// Returns where the reply to the request `message` goes.
    pub fn sink(&self, message: &[u8]) -> Direct<'_> {
        Direct { channel: self, unique: unique(message) }
    }

    /// Tells the kernel that it must not use what it has cached of an inode: its attributes, and
    /// its content. Waits until content that was written to the cache is sent.
    ///
    /// # Errors
    /// The device fails. An inode that the kernel does not know is no error.
    pub fn invalidate(&self, node: u64) -> io::Result<()> {
        self.notify_invalid(node, 0)
    }

    /// Tells the kernel that it must not use the attributes and ACLs that it has of an inode. It
    /// keeps the content, so this waits for no request.
    ///
    /// # Errors
    /// As [`invalidate`](Self::invalidate).
    pub fn invalidate_attributes(&self, node: u64) -> io::Result<()> {
        self.notify_invalid(node, -1)
    }

    /// Invalidates an inode, and its content from `off` on unless that is negative.
    fn notify_invalid(&self, node: u64, off: i64) -> io::Result<()> {
        let message = crate::message::NotifyInvalInode { ino: node, off, len: 0 };
        let header = OutHeader { error: notify::INVAL_INODE, ..OutHeader::default() };
        self.send(header, &[message.as_bytes()])
    }

    fn send(&self, header: OutHeader, parts: &[&[u8]]) -> io::Result<()> {
        let len = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let header = OutHeader { len: u32::try_from(len).map_err(too_long)?, ..header };
        let joined = if parts.len() < PARTS_MAX { Vec::new() } else { parts.concat() };
        let parts = if parts.len() < PARTS_MAX { parts } else { &[&*joined] };
        let (mut few, mut many) = ([IoSlice::new(&[]); 4], Vec::new());
        let slices = if parts.len() < few.len() {
            &mut few[..=parts.len()]
        } else {
            many.resize(parts.len() + 1, IoSlice::new(&[]));
            many.as_mut_slice()
        };
        slices[0] = IoSlice::new(header.as_bytes());
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        // The device takes a message as a whole, or not at all.
        match (&self.0).write_vectored(slices) {
            Ok(_) => Ok(()),
            Err(error) if is(&error, Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Sends the reply to one request at once. A request that was taken back is no error.
#[derive(Debug)]
pub struct Direct<'c> {
    channel: &'c Channel,
    unique: u64,
}

impl Sink for Direct<'_> {
    fn reply(&mut self, reply: Result<&[&[u8]], Errno>) -> io::Result<()> {
        let error = reply.err().map_or(0, |errno| -errno.raw_os_error());
        let header = OutHeader { unique: self.unique, error, len: 0 };
        self.channel.send(header, reply.unwrap_or_default())
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Returns the number of a message that may not be whole.
fn unique(message: &[u8]) -> u64 {
    message.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
