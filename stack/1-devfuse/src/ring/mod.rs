//! Requests and replies in memory that the kernel fills and reads, by io_uring (Linux 6.14).
//!
//! ```text
//!   register ─▶ lent to the kernel ─▶ has a request ─▶ has a reply ─┐
//!                       ▲                                           │
//!                       └──────────── commit, and fetch ◀───────────┘
//! ```
//!
//! 1. Each processor has a queue, whose requests are those of programs that run there. A mount
//!    gets its requests so as soon as all processors' queues have an entry.
//! 2. An entry is memory for one request and its reply. The kernel has it between a command
//!    (register, or commit and fetch) and the command's completion, and nothing else touches it
//!    then. Otherwise a thread owns it, as long as it likes: the queue has others.
//! 3. Only the queue's thread makes system calls of its ring: the kernel copies a request in that
//!    thread when it waits for completions. Entries that other threads are done with come back
//!    to it through a `Home`.
//! 4. INIT, FORGET, INTERRUPT and notifications stay with the device.

mod entry;
mod home;

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::device::Channel;
use home::Home;

pub use entry::{Entry, Stage};

/// Commands that are submitted at once.
const COMMANDS: u32 = 64;
/// The completion that says that an entry came home.
const BELL: u64 = u64::MAX;
/// Readable, of poll(2).
const POLLIN: u32 = 1;

/// Commands of the protocol (`FUSE_IO_URING_CMD_…`).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum Operation {
    Register = 1,
    CommitAndFetch = 2,
}

/// A command, as a submission of 128 bytes has it (`io_uring_sqe`, with `fuse_uring_cmd_req`).
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Command {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    operation: u32,
    zero: u32,
    /// Address and number of an entry's parts, to register it.
    addr: u64,
    len: u32,
    kind_flags: u32,
    user_data: u64,
    unused: u64,
    request_flags: u64,
    commit_id: u64,
    qid: u16,
    padding: [u8; 6],
    unused_request: [u64; 7],
}

/// The requests of programs that run on one processor.
pub struct Queue {
    // Closed before the entries are dropped.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    qid: u16,
    /// Number of queues of the mount.
    queues: u16,
    payload: usize,
    channel: Option<Arc<Channel>>,
    /// The entries that the kernel has.
    lent: Vec<Option<Entry>>,
    home: Arc<Home>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("qid", &self.qid).finish_non_exhaustive()
    }
}

impl Queue {
    /// Returns the queue of each processor that the machine may have, for requests and replies
    /// with at most `data` bytes of data.
    ///
    /// # Errors
    /// The system has no io_uring, or refuses it.
    pub fn of_all_processors(data: u32) -> io::Result<Vec<Self>> {
        let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let count = processors(&possible).ok_or(io::ErrorKind::InvalidData)?;
        (0..count).map(|qid| Self::new(qid, count, data)).collect()
    }

    fn new(qid: u16, queues: u16, data: u32) -> io::Result<Self> {
        // The thread that serves the queue enables the ring, and is its only user from then on.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_r_disabled()
            .build(COMMANDS)?;
        let payload = usize::try_from(data).map_err(|_| io::ErrorKind::InvalidInput)?;
        let home = Arc::new(Home::new()?);
        Ok(Self { ring, qid, queues, payload, channel: None, lent: Vec::new(), home })
    }

    /// Returns the processor.
    pub fn processor(&self) -> usize {
        usize::from(self.qid)
    }

    /// Returns how many processors there are, each with its queue.
    pub fn processors(&self) -> usize {
        usize::from(self.queues)
    }

    /// Begins to receive requests of the mount of `channel`, `depth` of them at once. The calling
    /// thread is the only one that may [`receive`](Self::receive).
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(&mut self, channel: Arc<Channel>, depth: usize) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        self.channel = Some(channel);
        (0..depth).try_for_each(|_| self.add())?;
        self.listen()
    }

    /// Adds an entry.
    fn add(&mut self) -> io::Result<()> {
        let slot = self.lent.len();
        self.lent.push(None);
        let entry = Entry::new(slot, self.payload, &self.home);
        self.lend(entry, Operation::Register)
    }

    /// Gives an entry to the kernel, at the next system call.
    fn lend(&mut self, mut entry: Entry, operation: Operation) -> io::Result<()> {
        let channel = self.channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let (addr, len) = match operation {
            Operation::Register => entry.parts(),
            Operation::CommitAndFetch => (0, 0),
        };
        let command = Command {
            opcode: opcode::UringCmd80::CODE,
            flags: 0,
            ioprio: 0,
            fd: channel.number(),
            operation: operation as u32,
            zero: 0,
            addr,
            len,
            kind_flags: 0,
            user_data: entry.slot() as u64,
            unused: 0,
            request_flags: 0,
            commit_id: entry.commit_id(),
            qid: self.qid,
            padding: [0; 6],
            unused_request: [0; 7],
        };
        // In its place before the kernel knows of it.
        let slot = entry.slot();
        self.lent[slot] = Some(entry);
        // SAFETY: both are the 128 bytes of a submission.
        #[allow(unsafe_code)]
        let command = unsafe { std::mem::transmute::<Command, squeue::Entry128>(command) };
        self.push(&command)
    }

    /// Asks for a completion when an entry comes home.
    fn listen(&mut self) -> io::Result<()> {
        let bell = Fd(self.home.bell().as_raw_fd());
        let poll = opcode::PollAdd::new(bell, POLLIN).build().user_data(BELL);
        self.push(&poll.into())
    }

    fn push(&mut self, command: &squeue::Entry128) -> io::Result<()> {
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: the memory that a command names is that of an entry, on the heap. It is in `lent`
        // until the command is complete, and when the queue is dropped the ring is closed first;
        // from then on the kernel copies nothing, since it copies only when this thread waits
        // (invariant 3). The descriptors are those of the channel and of the bell, which `self`
        // holds.
        #[allow(unsafe_code)]
        let pushed = unsafe { self.ring.submission().push(command) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::QuotaExceeded))
    }

    /// Returns the replies to the kernel, waits, and adds entries with requests to `received`.
    /// Returns false if the mount is gone.
    ///
    /// # Errors
    /// The kernel refuses an entry.
    pub fn receive(&mut self, received: &mut Vec<Entry>) -> io::Result<bool> {
        while received.is_empty() {
            let returned = self.home.leave();
            let nothing = returned.is_empty();
            for entry in returned.done {
                self.lend(entry, Operation::CommitAndFetch)?;
            }
            (0..returned.set_aside).try_for_each(|_| self.add())?;
            if !nothing {
                continue;
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
                waited => drop(waited?),
            }
            self.home.come();
            if !self.complete(received)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes what is complete. Returns false if the mount is gone.
    fn complete(&mut self, received: &mut Vec<Entry>) -> io::Result<bool> {
        let mut rung = false;
        for completion in self.ring.completion() {
            let slot = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
            match self.lent.get_mut(slot).and_then(Option::take) {
                Some(entry) if completion.result() >= 0 => received.push(entry),
                Some(_) if is_end(completion.result()) => return Ok(false),
                Some(_) => return Err(io::Error::from_raw_os_error(-completion.result())),
                None => rung = true,
            }
        }
        if rung {
            self.home.hear()?;
            self.listen()?;
        }
        Ok(true)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.home.close();
    }
}

/// Returns true for the results of commands of a mount that is gone.
fn is_end(result: i32) -> bool {
    [Errno::NOTCONN, Errno::CONNABORTED, Errno::NODEV]
        .iter()
        .any(|errno| errno.raw_os_error() == -result)
}

/// Returns the number of processors in a list like `0-3,8-11`.
fn processors(list: &str) -> Option<u16> {
    list.trim().split(',').try_fold(0_u16, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_in_ranges() {
        assert_eq!(processors("0\n"), Some(1));
        assert_eq!(processors("0-1\n"), Some(2));
        assert_eq!(processors("0-3,8-11,15\n"), Some(9));
        for wrong in ["", "1-0", "a", "0-65535"] {
            assert_eq!(processors(wrong), None, "{wrong}");
        }
    }
}
