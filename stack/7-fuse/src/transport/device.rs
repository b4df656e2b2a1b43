//! Requests by the device: the loop of a thread.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use xfskit_devfuse::device::Buffer;
use xfskit_devfuse::{Channel, Received};

use super::carried::Message;
use super::watch::Thread;
use super::{REQUEST, Transport};
use crate::operations::Operations;

impl<O: Operations> Transport<O> {
    /// Replies to INIT, the first request of a mount, which settles what carries the others.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn greet(&self) -> io::Result<()> {
        let mut buffer = Buffer::new(REQUEST);
        match self.channel.receive(&mut buffer)? {
            Received::Message(bytes) => {
                let (channel, bytes) = (Arc::clone(&self.channel), Cow::Borrowed(bytes));
                self.answer_safely(Message { channel, bytes })
            }
            // The threads find it out, too.
            Received::End => Ok(()),
        }
    }

    /// Serves requests of `channel` until the mount is gone, as the thread of this number.
    pub(super) fn serve_device(&self, channel: &Arc<Channel>, thread: Thread) -> io::Result<()> {
        let mut buffer = Buffer::new(REQUEST);
        // Beside rings, there is nothing that a program waits for.
        let look = if self.has_rings() { Duration::ZERO } else { self.busy_poll };
        while self.watch.take(thread) {
            let queued = channel.look(look);
            let Received::Message(bytes) = channel.receive(&mut buffer)? else { return Ok(()) };
            let (channel, bytes) = (Arc::clone(channel), Cow::Borrowed(bytes));
            let mut message = Message { channel, bytes };
            let more = self.watch.counts_backlog() && message.channel.is_ready();
            self.watch.received(self.expected(&mut message), queued, more);
            let answered = self.pass(message);
            self.watch.served();
            answered?;
        }
        Ok(())
    }
}
