//! The device states that a crash may leave.

use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, OverlayDevice};
use xfskit_units::{ByteOffset, index};

use xfskit_test_support::Random;

/// The fate of writes that were in flight at the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLoss {
    /// The unit that arrives or is lost: the sector of the disk, in bytes.
    pub sector: usize,
    /// One unit in this many is lost: 0 loses all, 1 loses half of them.
    pub lost_one_in: usize,
    /// One arriving unit in this many is torn within; 0 for none.
    pub torn_one_in: usize,
}

impl WriteLoss {
    /// Returns whether no write can arrive in part.
    pub fn is_all_or_nothing(&self) -> bool {
        [0, usize::MAX].contains(&self.lost_one_in) && self.torn_one_in == 0
    }
}

/// The cases that are tested: no write arrives, all arrive, or some of them; in whole blocks, in
/// sectors, and torn.
pub const WRITE_LOSSES: [WriteLoss; 5] = [
    WriteLoss { sector: 4096, lost_one_in: 0, torn_one_in: 0 },
    WriteLoss { sector: 4096, lost_one_in: usize::MAX, torn_one_in: 0 },
    WriteLoss { sector: 4096, lost_one_in: 1, torn_one_in: 0 },
    WriteLoss { sector: 512, lost_one_in: 1, torn_one_in: 0 },
    WriteLoss { sector: 512, lost_one_in: 10, torn_one_in: 10 },
];

/// A device after a crash, and the moment of the crash.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The device. Writing to it changes no other.
    pub dev: Arc<OverlayDevice>,
    /// Number of events that had returned before the crash.
    pub returned: usize,
    /// Number of events that had begun.
    pub begun: usize,
    /// The fate of the writes in flight.
    pub loss: WriteLoss,
}

/// Steps through the recorded events and makes crashes.
#[derive(Debug)]
pub struct Crashes<'r> {
    events: &'r [Event],
    /// The content that no crash can take back.
    durable: Arc<OverlayDevice>,
    /// Events that no flush has followed yet.
    pending: Vec<usize>,
    next: usize,
}

impl<'r> Crashes<'r> {
    /// Starts before the first of `events`, which were written over `base`; `base` itself is never
    /// written.
    pub fn new(base: Arc<dyn BlockDevice>, events: &'r [Event]) -> Self {
        let durable = Arc::new(OverlayDevice::new(base));
        Self { events, durable, pending: Vec::new(), next: 0 }
    }

    /// Returns the number of events left.
    pub fn left(&self) -> usize {
        self.events.len() - self.next
    }

    /// Applies the next event.
    ///
    /// # Panics
    /// If no event is left.
    pub fn advance(&mut self) {
        match &self.events[self.next] {
            Event::Flush => {
                for event in std::mem::take(&mut self.pending) {
                    self.events[event].play(&*self.durable).expect("in memory");
                }
            }
            _ => self.pending.push(self.next),
        }
        self.next += 1;
    }

    /// Makes a crash at the current position: after the newest event, or before it has returned.
    ///
    /// # Panics
    /// Never: the device is in memory.
    pub fn crash(&self, loss: WriteLoss, random: &mut Random) -> Crash {
        let dev = Arc::new(OverlayDevice::new(self.durable.clone()));
        let returned = self.next - usize::from(self.next > 0 && random.one_in(2));
        for &at in &self.pending {
            match &self.events[at] {
                Event::Write { offset, data, fua } if !fua || at >= returned => {
                    apply_write(&*dev, *offset, data, loss, random);
                }
                event => event.play(&*dev).expect("in memory"),
            }
        }
        Crash { dev, returned, begun: self.next, loss }
    }
}

/// The first bytes of a block, which hold the LSN and the CRC of inodes and blocks.
const HEADER_BYTES: usize = 128;

/// Applies the part of a write that arrives.
fn apply_write(
    dev: &dyn BlockDevice,
    offset: ByteOffset,
    data: &[u8],
    loss: WriteLoss,
    random: &mut Random,
) {
    let mut at = 0;
    while at < data.len() {
        let here = index(offset.0) + at;
        let end = data.len().min(at + loss.sector - here % loss.sector);
        let lost = match loss.lost_one_in {
            0 => true,
            1 => random.one_in(2),
            n => random.one_in(n),
        };
        // The superblock's sector is never torn: it locates the journal, and XFS relies on the disk
        // to write it whole.
        let torn = here > 0 && loss.torn_one_in > 0 && random.one_in(loss.torn_one_in);
        // Half of the tears are in the header, whose fields recovery reads first.
        let most = if random.one_in(2) { HEADER_BYTES.min(end - at) } else { end - at };
        let upto = if torn { at + random.below(most) } else { end };
        if !lost {
            dev.write_at(ByteOffset(here as u64), &data[at..upto]).expect("in memory");
        }
        at = end;
    }
}
