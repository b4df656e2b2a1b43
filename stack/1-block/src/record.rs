//! Records every write and flush, for crash simulation.
//!
//! A crash may lose any writes after the last flush that returned. So a test takes a prefix of the
//! [`Event`]s (and any subset of the events after the prefix's last barrier), replays it onto a
//! copy of the initial device and recovers.

use std::sync::Arc;

use parking_lot::Mutex;
use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, Result};
use crate::{forward, plain};

/// One change that a device has carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes written at an offset.
    Write {
        /// Offset in bytes.
        offset: ByteOffset,
        /// The bytes.
        data: Arc<[u8]>,
        /// True if the write was durable when it returned (FUA).
        fua: bool,
    },
    /// A range set to zero.
    WriteZeroes {
        /// Offset in bytes.
        offset: ByteOffset,
        /// Length in bytes.
        len: ByteLen,
    },
    /// A discarded range.
    Discard {
        /// Offset in bytes.
        offset: ByteOffset,
        /// Length in bytes.
        len: ByteLen,
    },
    /// The barrier: all events before it are durable.
    Flush,
}

impl Event {
    /// Makes the same change on `device`.
    ///
    /// # Errors
    /// Those of the device.
    pub fn play(&self, device: &dyn BlockDevice) -> Result<()> {
        match self {
            Self::Write { offset, data, .. } => device.write_at(*offset, data),
            Self::WriteZeroes { offset, len } => device.write_zeroes(*offset, *len),
            Self::Discard { offset, len } => device.discard(*offset, *len),
            Self::Flush => device.flush(),
        }
    }
}

/// A device that records its changes in order. Reads pass through.
///
/// One leaf lock covers the list. It is held while a change is carried out, so that the order of
/// the list is the order on the device.
#[derive(Debug)]
pub struct RecordingDevice {
    base: Arc<dyn BlockDevice>,
    events: Mutex<Vec<Event>>,
}

impl RecordingDevice {
    /// Records the changes of `base` from now on.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self { base, events: Mutex::default() }
    }

    /// Returns the changes so far, in order.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }

    /// Returns the number of events so far.
    pub fn event_count(&self) -> usize {
        self.events.lock().len()
    }

    /// Replays the first `n` events (or all, if there are fewer) onto another device.
    ///
    /// # Errors
    /// Those of `onto`.
    pub fn replay(&self, n: usize, onto: &dyn BlockDevice) -> Result<()> {
        self.events.lock().iter().take(n).try_for_each(|event| event.play(onto))
    }

    fn record(&self, event: Event, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut events = self.events.lock();
        change()?;
        events.push(event);
        Ok(())
    }
}

impl BlockDevice for RecordingDevice {
    forward!(this => this.base;
        size, logical_block_size, physical_block_size, topology, is_read_only, read_at, read_batch, lend,
        will_need, skip_hole, alternatives, read_alternative
    );
    // A write that heals is not recorded, so there is none.
    plain!(write_batch, heal);
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let event = Event::Write { offset, data: buf.into(), fua: false };
        self.record(event, || self.base.write_at(offset, buf))
    }
    fn flush(&self) -> Result<()> {
        self.record(Event::Flush, || self.base.flush())
    }
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let event = Event::Write { offset, data: buf.into(), fua: true };
        self.record(event, || self.base.write_fua(offset, buf))
    }
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.record(Event::Discard { offset, len }, || self.base.discard(offset, len))
    }
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.record(Event::WriteZeroes { offset, len }, || self.base.write_zeroes(offset, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    fn content(device: &dyn BlockDevice) -> Vec<u8> {
        let mut all = vec![0; 64];
        device.read_at(ByteOffset(0), &mut all).unwrap();
        all
    }

    #[test]
    fn replaying_all_events_gives_the_same_device_and_a_prefix_an_earlier_one() {
        let device = RecordingDevice::new(Arc::new(MemDevice::new(ByteLen(64))));
        let mut states = vec![content(&device)];
        device.write_at(ByteOffset(3), b"first").unwrap();
        states.push(content(&device));
        device.flush().unwrap();
        states.push(content(&device));
        device.write_fua(ByteOffset(5), b"second").unwrap();
        states.push(content(&device));
        device.write_zeroes(ByteOffset(4), ByteLen(3)).unwrap();
        states.push(content(&device));
        assert_eq!(device.event_count() + 1, states.len());
        for (n, state) in states.iter().enumerate() {
            let copy = MemDevice::new(ByteLen(64));
            device.replay(n, &copy).unwrap();
            assert_eq!(&content(&copy), state, "after {n} events");
        }
    }

    #[test]
    fn a_write_that_was_refused_is_not_recorded() {
        let device = RecordingDevice::new(Arc::new(MemDevice::new(ByteLen(64))));
        assert!(device.write_at(ByteOffset(64), b"x").is_err());
        assert!(device.events().is_empty());
    }

    #[test]
    fn barriers_stand_where_the_flushes_were() {
        let device = RecordingDevice::new(Arc::new(MemDevice::new(ByteLen(64))));
        device.write_batch(&[(ByteOffset(0), b"a"), (ByteOffset(1), b"b")]);
        device.flush().unwrap();
        device.discard(ByteOffset(0), ByteLen(1)).unwrap();
        let events = device.events();
        assert_eq!(events[2], Event::Flush);
        assert_eq!(events[3], Event::Discard { offset: ByteOffset(0), len: ByteLen(1) });
        assert_eq!(events.len(), 4);
    }
}
