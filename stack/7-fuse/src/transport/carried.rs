//! A request with the way of its reply: all that the device and the rings differ in, once it is
//! there.

use std::borrow::Cow;
use std::sync::Arc;

use xfskit_devfuse::reply::Sink;
use xfskit_devfuse::ring::Entry;
use xfskit_devfuse::{Channel, Request};

use crate::statistics::Carrier;

/// A request with the way of its reply.
pub(super) trait Carried {
    /// What carries it.
    const BY: Carrier;
    /// The form in which it waits.
    type Kept: Carried + Send + 'static;

    /// Returns the request, unless it is malformed, and where its reply goes.
    fn open(&mut self) -> (Option<Request<'_>>, impl Sink);
    /// Lets the request wait for long, without a thread.
    fn keep(self) -> Self::Kept;
    /// Ends the request, after its reply.
    fn finish(self);
}

/// A request in a thread's buffer, from the device. The reply is written to the device.
pub(super) struct Message<'b> {
    pub(super) channel: Arc<Channel>,
    pub(super) bytes: Cow<'b, [u8]>,
}

impl Carried for Message<'_> {
    const BY: Carrier = Carrier::Device;
    type Kept = Message<'static>;

    fn open(&mut self) -> (Option<Request<'_>>, impl Sink) {
        (Request::parse(&self.bytes), self.channel.sink(&self.bytes))
    }

    fn keep(self) -> Message<'static> {
        Message { channel: self.channel, bytes: Cow::Owned(self.bytes.into_owned()) }
    }

    fn finish(self) {}
}

/// A request in an entry of a ring, which takes the reply too.
impl Carried for Entry {
    const BY: Carrier = Carrier::IoUring;
    type Kept = Self;

    fn open(&mut self) -> (Option<Request<'_>>, impl Sink) {
        Entry::open(self)
    }

    fn keep(self) -> Self {
        self.set_aside();
        self
    }

    fn finish(self) {
        Entry::finish(self);
    }
}
