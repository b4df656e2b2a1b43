//! Members on one tape: every write and flush of all of them, in order; and what a crash at any place of
//! the tape would leave of each.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xfskit_block::{BlockDevice, Event, OverlayDevice, Result};
use xfskit_units::{ByteLen, ByteOffset, index};

use crate::Random;

/// Bytes that arrive on a disk together or not at all.
const SECTOR: usize = 512;

/// What becomes of writes that no flush has followed.
#[derive(Debug)]
pub enum Crash<'r> {
    /// The process is killed: what was written is written.
    Process,
    /// The power fails: any sector may be lost.
    Power(&'r mut Random),
}

/// The members before, and what happened to them.
#[derive(Debug)]
pub struct Recording {
    before: Vec<Arc<dyn BlockDevice>>,
    events: Mutex<Vec<(usize, Event)>>,
}

impl Recording {
    /// A tape of these members, which are not changed any more.
    pub fn new(before: Vec<Arc<dyn BlockDevice>>) -> Arc<Self> {
        Arc::new(Self { before, events: Mutex::default() })
    }

    /// The members as devices to write.
    pub fn devices(self: &Arc<Self>) -> Vec<Arc<dyn BlockDevice>> {
        let recorded = |(member, device): (usize, &Arc<dyn BlockDevice>)| {
            let now = OverlayDevice::new(Arc::clone(device));
            Arc::new(RecordedDevice { recording: Arc::clone(self), member, now })
                as Arc<dyn BlockDevice>
        };
        self.before.iter().enumerate().map(recorded).collect()
    }

    /// Events so far.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True where nothing happened yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The members after a crash behind the first `cut` events.
    ///
    /// # Panics
    /// Never: the devices are memory.
    pub fn crash(&self, cut: usize, mut crash: Crash<'_>) -> Vec<Arc<dyn BlockDevice>> {
        let mut after: Vec<Arc<dyn BlockDevice>> = Vec::new();
        let events = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Event)>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One member on the tape.
#[derive(Debug)]
struct RecordedDevice {
    recording: Arc<Recording>,
    member: usize,
    now: OverlayDevice,
}

impl BlockDevice for RecordedDevice {
    fn size(&self) -> ByteLen {
        self.now.size()
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.now.read_at(offset, buf)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let mut events = self.recording.lock();
        self.now.write_at(offset, buf)?;
        events.push((self.member, Event::Write { offset, data: buf.into(), fua: false }));
        Ok(())
    }
    fn flush(&self) -> Result<()> {
        self.recording.lock().push((self.member, Event::Flush));
        Ok(())
    }
}

/// What the sectors of an array may hold after a crash.
#[derive(Debug)]
pub struct WriteHistory {
    start: Vec<u8>,
    operations: Vec<Operation>,
}

#[derive(Debug)]
struct Operation {
    began: usize,
    ended: usize,
    /// Where, and what; nothing for a flush.
    written: Option<(usize, Vec<u8>)>,
}

impl WriteHistory {
    /// An array that holds this.
    pub fn new(start: Vec<u8>) -> Self {
        Self { start, operations: Vec::new() }
    }

    /// Writes, and remembers.
    ///
    /// # Panics
    /// Where the array does not take it.
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

    /// Flushes, and remembers.
    ///
    /// # Panics
    /// Where the array fails.
    pub fn flush(&mut self, recording: &Recording, array: &dyn BlockDevice) {
        let began = recording.len();
        array.flush().expect("flushed");
        self.operations.push(Operation { began, ended: recording.len(), written: None });
    }

    /// Judges the array as a crash behind `cut` events left it: every sector holds what was last
    /// made durable, or something that was written since.
    ///
    /// # Errors
    /// The first sector that holds anything else.
    pub fn check(&self, cut: usize, power: bool, found: &[u8]) -> std::result::Result<(), usize> {
        self.check_stripes(cut, power, found, None)
    }

    /// [`judge`](Self::judge) of an array whose parity is not to be trusted: where something of a row, of
    /// so many bytes, was written since, all of that row is in doubt.
    ///
    /// # Errors
    /// As there.
    pub fn check_stripes(
        &self,
        cut: usize,
        power: bool,
        found: &[u8],
        row: Option<u64>,
    ) -> std::result::Result<(), usize> {
        let (sure, maybe) = self.at(cut, power);
        let row = row.map_or(1, index);
        for start in (0..found.len()).step_by(SECTOR) {
            let here = start..(start + SECTOR).min(found.len());
            let row = here.start / row * row..here.end.next_multiple_of(row);
            let meets = |range: &Range<usize>, (at, data): &(usize, Vec<u8>)| {
                *at < range.end && range.start < at + data.len()
            };
            if row.len() > SECTOR && maybe.iter().any(|written| meets(&row, written)) {
                continue;
            }
            let written: Vec<_> = maybe.iter().filter(|written| meets(&here, written)).collect();
            if !may_hold(&here, &sure, &written, found) {
                return Err(start);
            }
        }
        Ok(())
    }

    /// Puts what was durable where writes were under way: what stands there shall not count.
    pub fn forget_under_way(&self, cut: usize, power: bool, found: &mut [u8]) {
        let (sure, maybe) = self.at(cut, power);
        for (at, data) in maybe {
            found[*at..at + data.len()].copy_from_slice(&sure[*at..at + data.len()]);
        }
    }

    /// What is durable for sure, and the writes since.
    fn at(&self, cut: usize, power: bool) -> (Vec<u8>, Vec<&(usize, Vec<u8>)>) {
        let begun: Vec<&Operation> =
            self.operations.iter().filter(|operation| operation.began < cut).collect();
        // Written before the last flush that returned, or where only the process ends, at all.
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

    /// How long the array is, in bytes.
    pub fn len(&self) -> u64 {
        self.start.len() as u64
    }

    /// True where the array has no room.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
}

/// Whether a sector may hold what was found there: what is sure, or one of the writes; where one of them
/// is not of whole sectors, any mixture.
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

/// Random writes of whole sectors, small and large, and flushes.
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
        let most = [4, 64, 500][index(random.below(3))];
        let size = history.len() / SECTOR as u64;
        let len = 1 + random.below(most.min(size));
        let at = random.below(size - len + 1);
        let mut data = vec![0; index(len) * SECTOR];
        random.fill(&mut data);
        history.write(recording, array, index(at) * SECTOR, data);
    }
}
