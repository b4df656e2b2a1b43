//! A recording of all writes and flushes of an array's members, in order. It computes what a crash
//! after any number of them leaves on each member.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, Event, OverlayDevice, Result};
use xfskit_units::{ByteLen, ByteOffset, index};

use xfskit_test_support::Random;

/// Bytes that reach a disk together or not at all.
const SECTOR: usize = 512;

/// What happens to writes that were not flushed.
#[derive(Debug)]
pub enum Crash<'r> {
    /// The process is killed: what was written is written.
    Process,
    /// The power fails: any unflushed sector may be lost.
    Power(&'r mut Random),
}

/// The initial members, and the recorded events.
#[derive(Debug)]
pub struct Recording {
    before: Vec<Arc<dyn BlockDevice>>,
    events: Mutex<Vec<(usize, Event)>>,
}

impl Recording {
    /// Returns a tape of these members, which are not changed any more.
    pub fn new(before: Vec<Arc<dyn BlockDevice>>) -> Arc<Self> {
        Arc::new(Self { before, events: Mutex::default() })
    }

    /// Returns the members as recording devices.
    pub fn devices(self: &Arc<Self>) -> Vec<Arc<dyn BlockDevice>> {
        let recorded = |(member, device): (usize, &Arc<dyn BlockDevice>)| {
            let now = OverlayDevice::new(Arc::clone(device));
            Arc::new(RecordedDevice { recording: Arc::clone(self), member, now })
                as Arc<dyn BlockDevice>
        };
        self.before.iter().enumerate().map(recorded).collect()
    }

    /// Returns the number of recorded events.
    pub fn len(&self) -> usize {
        self.events.lock().len()
    }

    /// Returns true if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the members after a crash behind the first `cut` events.
    ///
    /// # Panics
    /// Never panics: the devices are in memory.
    pub fn crash(&self, cut: usize, mut crash: Crash<'_>) -> Vec<Arc<dyn BlockDevice>> {
        let mut after: Vec<Arc<dyn BlockDevice>> = Vec::new();
        let events = self.events.lock();
        for (member, before) in self.before.iter().enumerate() {
            let device = OverlayDevice::new(Arc::clone(before));
            let own: Vec<&Event> = events[..cut]
                .iter()
                .filter(|(m, _)| *m == member)
                .map(|(_, event)| event)
                .collect();
            let flushed = own.iter().rposition(|event| **event == Event::Flush).unwrap_or(0);
            for (at, event) in own.into_iter().enumerate() {
                match (&mut crash, event) {
                    (Crash::Power(random), Event::Write { offset, data, .. }) if at > flushed => {
                        let (mut at, mut rest) = (offset.0, &data[..]);
                        while !rest.is_empty() {
                            let left = SECTOR - index(at % SECTOR as u64);
                            let (sector, behind) = rest.split_at(left.min(rest.len()));
                            if random.below(2) == 0 {
                                device.write_at(ByteOffset(at), sector).expect("memory");
                            }
                            (at, rest) = (at + sector.len() as u64, behind);
                        }
                    }
                    _ => event.play(&device).expect("memory"),
                }
            }
            after.push(Arc::new(device));
        }
        after
    }
}

/// A recording view of one member.
#[derive(Debug)]
struct RecordedDevice {
    recording: Arc<Recording>,
    member: usize,
    now: OverlayDevice,
}

impl BlockDevice for RecordedDevice {
    xfskit_block::plain!();
    fn size(&self) -> ByteLen {
        self.now.size()
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.now.read_at(offset, buf)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let mut events = self.recording.events.lock();
        self.now.write_at(offset, buf)?;
        events.push((self.member, Event::Write { offset, data: buf.into(), fua: false }));
        Ok(())
    }
    fn flush(&self) -> Result<()> {
        self.recording.events.lock().push((self.member, Event::Flush));
        Ok(())
    }
}

/// The writes and flushes of an array, to check its content after a crash.
#[derive(Debug)]
pub struct WriteHistory {
    start: Vec<u8>,
    operations: Vec<Operation>,
}

#[derive(Debug)]
struct Operation {
    began: usize,
    ended: usize,
    /// The offset and the data; `None` for a flush.
    written: Option<(usize, Vec<u8>)>,
}

impl WriteHistory {
    /// Starts a history of an array with this content.
    pub fn new(start: Vec<u8>) -> Self {
        Self { start, operations: Vec::new() }
    }

    /// Writes to the array and records it.
    ///
    /// # Panics
    /// Panics if the write fails.
    pub fn write(
        &mut self,
        recording: &Recording,
        array: &dyn BlockDevice,
        at: usize,
        data: Vec<u8>,
    ) {
        let began = recording.len();
        array.write_at(ByteOffset(at as u64), &data).expect("written");
        self.operations.push(Operation {
            began,
            ended: recording.len(),
            written: Some((at, data)),
        });
    }

    /// Flushes the array and records it.
    ///
    /// # Panics
    /// Panics if the flush fails.
    pub fn flush(&mut self, recording: &Recording, array: &dyn BlockDevice) {
        let began = recording.len();
        array.flush().expect("flushed");
        self.operations.push(Operation { began, ended: recording.len(), written: None });
    }

    /// Checks the array's content after a crash behind `cut` events: every sector holds what was
    /// last durable, or data written since then.
    ///
    /// # Errors
    /// Returns the first sector that holds anything else.
    pub fn check(&self, cut: usize, power: bool, found: &[u8]) -> std::result::Result<(), usize> {
        self.check_stripes(cut, power, found, None)
    }

    /// Does what [`check`](Self::check) does for an array whose parity cannot be trusted: if a part
    /// of a stripe, of this many bytes, was written since then, the whole stripe may hold anything.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    pub fn check_stripes(
        &self,
        cut: usize,
        power: bool,
        found: &[u8],
        stripe: Option<u64>,
    ) -> std::result::Result<(), usize> {
        let (sure, maybe) = self.at(cut, power);
        let stripe = stripe.map_or(1, index);
        for start in (0..found.len()).step_by(SECTOR) {
            let here = start..(start + SECTOR).min(found.len());
            let stripe = here.start / stripe * stripe..here.end.next_multiple_of(stripe);
            let meets = |range: &Range<usize>, (at, data): &(usize, Vec<u8>)| {
                *at < range.end && range.start < at + data.len()
            };
            if stripe.len() > SECTOR && maybe.iter().any(|written| meets(&stripe, written)) {
                continue;
            }
            let written: Vec<_> = maybe.iter().filter(|written| meets(&here, written)).collect();
            if !may_hold(&here, &sure, &written, found) {
                return Err(start);
            }
        }
        Ok(())
    }

    /// Replaces ranges of writes in flight by their durable content, so that they do not count.
    pub fn forget_under_way(&self, cut: usize, power: bool, found: &mut [u8]) {
        let (sure, maybe) = self.at(cut, power);
        for (at, data) in maybe {
            found[*at..at + data.len()].copy_from_slice(&sure[*at..at + data.len()]);
        }
    }

    /// Returns the durable content, and the writes since then.
    fn at(&self, cut: usize, power: bool) -> (Vec<u8>, Vec<&(usize, Vec<u8>)>) {
        let begun: Vec<&Operation> =
            self.operations.iter().filter(|operation| operation.began < cut).collect();
        // Durable: written before the last flush that returned or, if only the process ends, before
        // the cut.
        let durable = if power {
            let flush = begun
                .iter()
                .rposition(|operation| operation.written.is_none() && operation.ended <= cut);
            flush.unwrap_or(0)
        } else {
            begun.iter().take_while(|operation| operation.ended <= cut).count()
        };
        let mut sure = self.start.clone();
        for (at, data) in begun[..durable].iter().filter_map(|operation| operation.written.as_ref())
        {
            sure[*at..at + data.len()].copy_from_slice(data);
        }
        (sure, begun[durable..].iter().filter_map(|operation| operation.written.as_ref()).collect())
    }

    /// Returns the size of the array, in bytes.
    pub fn len(&self) -> u64 {
        self.start.len() as u64
    }

    /// Returns true if the array has no space.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
}

/// Returns whether a sector may hold what was found: the durable data or those of one write. If a
/// write does not cover whole sectors, any mixture is allowed.
fn may_hold(
    here: &Range<usize>,
    sure: &[u8],
    written: &[&&(usize, Vec<u8>)],
    found: &[u8],
) -> bool {
    let byte = |i: usize, (at, data): &(usize, Vec<u8>)| {
        i.checked_sub(*at).and_then(|i| data.get(i)).copied()
    };
    let aligned = |at: usize, len: usize| at.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR);
    let whole = written.iter().all(|(at, data)| aligned(*at, data.len()));
    sure[here.clone()] == found[here.clone()]
        || if whole {
            written.iter().any(|one| here.clone().all(|i| byte(i, one) == Some(found[i])))
        } else {
            let any = |i: usize| written.iter().any(|one| byte(i, one) == Some(found[i]));
            here.clone().all(|i| sure[i] == found[i] || any(i))
        }
}

/// Makes random writes of whole sectors, small and large, and flushes.
pub fn random_writes(
    history: &mut WriteHistory,
    recording: &Recording,
    array: &dyn BlockDevice,
    random: &mut Random,
    operations: usize,
) {
    for _ in 0..operations {
        if random.below(5) == 0 {
            history.flush(recording, array);
            continue;
        }
        let most = [4, 64, 500][random.below(3)];
        let size = history.len() / SECTOR as u64;
        let len = 1 + random.below(most.min(size));
        let at = random.below(size - len + 1);
        let mut data = vec![0; index(len) * SECTOR];
        random.fill(&mut data);
        history.write(recording, array, index(at) * SECTOR, data);
    }
}
