//! Where entries come back to the thread of their queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::Entry;

/// Entries that other threads, or the queue's own, are done with.
#[derive(Debug)]
pub(super) struct Home {
    state: Mutex<State>,
    /// Readable after a thread rang it: the queue's thread waits for that too.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    returned: Returned,
    /// The queue's thread waits, and has to be told.
    is_left: bool,
    /// There is no queue any more.
    is_closed: bool,
}

/// What came home.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// Entries with a reply.
    pub(super) done: Vec<Entry>,
    /// Number of entries that will stay away for long.
    pub(super) set_aside: usize,
}

impl Returned {
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty() && self.set_aside == 0
    }
}

impl Home {
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { state: Mutex::default(), bell })
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes an entry with a reply back.
    pub(super) fn take_back(&self, entry: Entry) {
        self.change(|returned| returned.done.push(entry));
    }

    /// Has the queue add an entry in place of one that stays away.
    pub(super) fn set_aside(&self) {
        self.change(|returned| returned.set_aside += 1);
    }

    fn change(&self, change: impl FnOnce(&mut Returned)) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        change(&mut state.returned);
        let ring = std::mem::take(&mut state.is_left);
        drop(state);
        if ring {
            // It has room for more rings than there are entries.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Returns what came home. If it is nothing, the queue's thread has to be told of the next.
    pub(super) fn leave(&self) -> Returned {
        let mut state = self.state.lock();
        state.is_left = state.returned.is_empty();
        std::mem::take(&mut state.returned)
    }

    /// Notes that the queue's thread looks by itself.
    pub(super) fn come(&self) {
        self.state.lock().is_left = false;
    }

    /// Silences the bell.
    pub(super) fn hear(&self) -> io::Result<()> {
        match rustix::io::read(&self.bell, &mut [0; 8]) {
            Err(Errno::AGAIN) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops what comes home from now on.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.returned = Returned::default();
    }
}
