//! The devices that a crash may leave.

use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, OverlayDevice};
use xfskit_units::{ByteOffset, index};

use crate::random::Random;

/// What becomes of writes that were on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wear {
    /// The unit that arrives or does not: the sector of the disk, in bytes.
    pub sector: usize,
    /// Of so many units one is lost; 0 loses all, 1 half of them.
    pub lost_one_in: usize,
    /// Of so many units that arrive one is torn within; 0 for none.
    pub torn_one_in: usize,
}

impl Wear {
    /// No write arrives in part.
    pub fn is_all_or_nothing(&self) -> bool {
        [0, usize::MAX].contains(&self.lost_one_in) && self.torn_one_in == 0
    }
}

/// Ways in which writes may arrive: none, all, and some of them; whole blocks, sectors, torn ones.
pub const WEARS: [Wear; 5] = [
    Wear { sector: 4096, lost_one_in: 0, torn_one_in: 0 },
    Wear { sector: 4096, lost_one_in: usize::MAX, torn_one_in: 0 },
    Wear { sector: 4096, lost_one_in: 1, torn_one_in: 0 },
    Wear { sector: 512, lost_one_in: 1, torn_one_in: 0 },
    Wear { sector: 512, lost_one_in: 10, torn_one_in: 10 },
];

/// A device after a crash, and when that was.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The device; writing to it changes no other.
    pub dev: Arc<OverlayDevice>,
    /// Events that had returned before the crash.
    pub returned: usize,
    /// Events that had begun.
    pub begun: usize,
    /// What became of the last of them.
    pub wear: Wear,
}

/// Walks through what was written, crash by crash.
#[derive(Debug)]
pub struct Crashes<'r> {
    events: &'r [Event],
    /// What no crash takes back any more.
    durable: Arc<OverlayDevice>,
    /// Events that no flush has followed yet.
    pending: Vec<usize>,
    next: usize,
}

impl<'r> Crashes<'r> {
    /// From the start of `events`, which were written to `base`; that one stays as it is.
    pub fn new(base: Arc<dyn BlockDevice>, events: &'r [Event]) -> Self {
        let durable = Arc::new(OverlayDevice::new(base));
        Self { events, durable, pending: Vec::new(), next: 0 }
    }

    /// Events left.
    pub fn left(&self) -> usize {
        self.events.len() - self.next
    }

    /// Lets the next event happen.
    ///
    /// # Panics
    /// Where the run has ended.
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

    /// A crash here and now: behind the newest event, or before it has returned.
    ///
    /// # Panics
    /// Never: the device is memory.
    pub fn crash(&self, wear: Wear, random: &mut Random) -> Crash {
        let dev = Arc::new(OverlayDevice::new(self.durable.clone()));
        let returned = self.next - usize::from(self.next > 0 && random.one_in(2));
        for &at in &self.pending {
            match &self.events[at] {
                Event::Write { offset, data, fua } if !fua || at >= returned => {
                    arrive(&*dev, *offset, data, wear, random);
                }
                event => event.play(&*dev).expect("in memory"),
            }
        }
        Crash { dev, returned, begun: self.next, wear }
    }
}

/// Bytes in which inodes and blocks have their LSN and CRC.
const HEAD: usize = 128;

/// What of a write arrives.
fn arrive(dev: &dyn BlockDevice, offset: ByteOffset, data: &[u8], wear: Wear, random: &mut Random) {
    let mut at = 0;
    while at < data.len() {
        let here = index(offset.0) + at;
        let end = data.len().min(at + wear.sector - here % wear.sector);
        let lost = match wear.lost_one_in {
            0 => true,
            1 => random.one_in(2),
            n => random.one_in(n),
        };
        // The first sector says where the journal is: XFS relies on disks that write it whole.
        let torn = here > 0 && wear.torn_one_in > 0 && random.one_in(wear.torn_one_in);
        // Half of them in the head, where the fields are that recovery asks first.
        let most = if random.one_in(2) { HEAD.min(end - at) } else { end - at };
        let upto = if torn { at + random.below(most) } else { end };
        if !lost {
            dev.write_at(ByteOffset(here as u64), &data[at..upto]).expect("in memory");
        }
        at = end;
    }
}
