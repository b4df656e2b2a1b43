//! Requests by io_uring: a thread for each processor, and workers.
//!
//! The thread of a queue stays on the queue's processor, where the program is that waits for the
//! reply: neither has to wake another processor. It serves what should be quick, and hands the rest
//! to workers, which run anywhere. A worker that is done leaves the reply with the queue's thread.
//! No other thread can stand in for it: the kernel copies requests in the thread that has waited
//! for them. A request that takes long against all expectation holds up its processor's queue, and
//! the next ones of its kind go to workers.
//!
//! A queue has entries enough for the requests that workers serve. One that is kept while the
//! mount is frozen is replaced, so that requests that read find as many as before.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rustix::thread::CpuSet;
use xfskit_devfuse::ring::{Entry, Queue};

use super::Transport;
use super::watch::Expected;
use crate::operations::Operations;

/// Entries of all queues, and the fewest and the most of one.
const ENTRIES: usize = 128;
const ENTRIES_MIN: usize = 8;
const ENTRIES_MAX: usize = 32;

/// Requests that wait for a worker.
#[derive(Debug, Default)]
pub(super) struct Work {
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    ended: bool,
}

impl Work {
    fn add(&self, entry: Entry) {
        self.state.lock().entries.push_back(entry);
        self.called.notify_one();
    }

    /// Waits for the next request. Returns `None` at the end of the mount.
    fn next(&self) -> Option<Entry> {
        let mut state = self.state.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(entry) = state.entries.pop_front() {
                return Some(entry);
            }
            self.called.wait(&mut state);
        }
    }

    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.called.notify_all();
    }
}

impl<O: Operations> Transport<O> {
    /// Serves the requests of a processor until the mount is gone.
    pub(super) fn serve_queue(&self, mut queue: Queue) -> io::Result<()> {
        stay_on(queue.processor());
        let depth = (ENTRIES / queue.processors()).clamp(ENTRIES_MIN, ENTRIES_MAX);
        queue.start(Arc::clone(&self.channel), depth)?;
        let mut received = Vec::new();
        while queue.receive(&mut received)? {
            self.serve_received(&mut received)?;
        }
        Ok(())
    }

    fn serve_received(&self, received: &mut Vec<Entry>) -> io::Result<()> {
        let is_alone = received.len() == 1;
        for mut entry in received.drain(..) {
            match self.expected(&mut entry) {
                Expected::Quick => self.pass(entry)?,
                // No other waits, and waking a worker costs time, too.
                Expected::Disk if is_alone => self.pass(entry)?,
                Expected::Disk | Expected::Long => self.work.add(entry),
            }
        }
        Ok(())
    }

    /// Serves requests that take long, until the mount is gone.
    pub(super) fn work(&self) -> io::Result<()> {
        while let Some(entry) = self.work.next() {
            self.pass(entry)?;
        }
        Ok(())
    }
}

/// Has the calling thread stay on a processor. A processor that is off, or that this process may
/// not use, is served from another.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        set.set(processor);
    }
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::debug!(processor, %error, "a queue is served from another processor");
    }
}
