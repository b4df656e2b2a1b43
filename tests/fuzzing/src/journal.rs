//! Replay of a damaged journal.
//!
//! Only records between tail and head are changed. Their cycle numbers and checksums are
//! recomputed, so that the damage reaches replay and the decoders of operations and items. Linux
//! left the images dirty (`tests/images`); most of their trees exist in the journal alone.
//!
//! An input is a choice of image and a list of changes. The highest bit of the choice opens the
//! volume for writing (not version 4); the next bit walks it after replay in memory; the other six
//! select the image, the slow ones rarely. A change has [`STEP`] bytes: a record, an operation in
//! it (one above the last selects the record's header), and a change of the operation's header and
//! data.

use std::sync::{Arc, OnceLock};

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::Ctx;
use xfskit_format::Location;
use xfskit_format::log::op;
use xfskit_format::log::record::{self, BLOCK};
use xfskit_format::sb::Superblock;
use xfskit_log::{Log, Ring};
use xfskit_units::{AgNumber, ByteOffset, Daddr, Geometry, LogBlock};

use crate::change::{self, Change};
use crate::image::{self, Image};

/// Kept images with a dirty journal.
pub const IMAGES: [&str; 6] =
    ["v5-dirty", "intents-1k", "intents-parent", "intents-exchange", "v4-dirty", "small-dirty"];
/// Index of the image that most inputs damage: its journal replays in a fraction of a millisecond.
const SMALL: usize = 5;
/// Images whose journal takes a few milliseconds.
const MEDIUM: [usize; 3] = [0, 2, 4];
/// Size of one change, in bytes: the record, then a [`change`].
pub const STEP: usize = 1 + change::LEN;
/// Most changes of one input.
const CHANGES_MAX: usize = 12;
/// Bit of the first byte: the volume is opened for writing.
const WRITE: u8 = 0x80;
/// Bit of the first byte: the volume is walked after replay in memory.
const WALK: u8 = 0x40;

/// One record of the active journal.
#[derive(Debug)]
struct Record {
    at: LogBlock,
    /// Blocks of its header.
    headers: usize,
    cycle: u32,
    /// Header and payload, without the cycle numbers of the ring.
    bytes: Vec<u8>,
    /// The range of each operation in `bytes`, header and data, and last the record's own header.
    ops: Vec<std::ops::Range<usize>>,
}

/// A dirty image and the active part of its journal.
#[derive(Debug)]
struct Dirty {
    image: Image,
    geo: Geometry,
    start: Daddr,
    records: Vec<Record>,
}

impl Dirty {
    fn load(name: &str) -> Self {
        let image = Image::load(name);
        let mut sector = vec![0; 512];
        image.base.read_at(ByteOffset(0), &mut sector).expect("memory");
        let sb = Superblock::verify(&sector, AgNumber(0)).expect("a good image");
        let geo = sb.geometry();
        let start = geo.log_daddr().expect("an internal journal");
        let records = records(&image.base, start, &geo);
        assert!(!records.is_empty(), "{name} is clean");
        Self { image, geo, start, records }
    }

    /// Returns a copy-on-write copy with the changes of `data` applied to the journal.
    fn damaged(&self, data: &[u8]) -> Arc<dyn BlockDevice> {
        let copy = OverlayDevice::new(Arc::clone(&self.image.base));
        let mut changed: Vec<Option<Vec<u8>>> = vec![None; self.records.len()];
        for step in data.chunks_exact(STEP).take(CHANGES_MAX) {
            let Some((&which, rest)) = step.split_first() else { continue };
            let which = usize::from(which) % self.records.len();
            let record = &self.records[which];
            let bytes = changed[which].get_or_insert_with(|| record.bytes.clone());
            change::changes(rest, 1).for_each(|change| record.change(change, bytes));
        }
        let ring = Ring::new(&copy, self.start, &self.geo).expect("the ring of the image");
        for (record, bytes) in self.records.iter().zip(changed) {
            let Some(bytes) = bytes else { continue };
            ring.write(record.at, &record.sealed(bytes, &ring)).expect("memory");
        }
        Arc::new(copy)
    }
}

impl Record {
    fn change(&self, change: Change, bytes: &mut [u8]) {
        let place = self.ops[change.which % self.ops.len()].clone();
        if let Some(bytes) = bytes.get_mut(place) {
            change.apply(bytes);
        }
    }

    /// Returns the record as the ring stores it: cycle numbers in every block, valid checksum.
    fn sealed(&self, mut bytes: Vec<u8>, ring: &Ring<'_>) -> Vec<u8> {
        record::pack(&mut bytes, self.headers, self.cycle);
        let to_end = ring.distance(self.at, LogBlock(0));
        record::wrap(&mut bytes, if to_end == 0 { usize::MAX } else { to_end as usize });
        let claimed = xfskit_format::bytes::be32(&bytes, 12).unwrap_or(0) as usize;
        let summed = bytes.len().min(self.headers * BLOCK + claimed);
        record::sum(&mut bytes[..summed], self.headers);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }
}

/// Returns the records between tail and head.
fn records(dev: &dyn BlockDevice, start: Daddr, geo: &Geometry) -> Vec<Record> {
    let log = Log::open(dev, start, geo).expect("a good journal");
    let ctx = Ctx::new(geo, Location::of("log record"));
    let read = |found: xfskit_log::Record| {
        let headers = found.header.header_blocks();
        let count = u32::try_from(headers).expect("few blocks");
        let mut bytes = log.ring().read_blocks(found.at, count).expect("memory");
        let payload = bytes.len();
        bytes.extend_from_slice(&found.payload);
        let op = |op: op::Op<'_>| {
            let start = payload + op.offset;
            start..start + op::LEN + op.data.len()
        };
        let mut ops: Vec<_> = found.ops(&ctx).map_while(Result::ok).map(op).collect();
        ops.push(0..BLOCK);
        Record { at: found.at, headers, cycle: found.lsn().cycle(), bytes, ops }
    };
    log.records().map_while(Result::ok).map(read).collect()
}

fn images() -> &'static [Dirty] {
    static IMAGES_LOADED: OnceLock<Vec<Dirty>> = OnceLock::new();
    IMAGES_LOADED.get_or_init(|| IMAGES.iter().map(|name| Dirty::load(name)).collect())
}

/// Returns the index of the image that an input's first byte selects. The images with many intents
/// take tens of milliseconds, so each has one choice of 64.
fn select(choice: u8) -> usize {
    let choice = usize::from(choice & !(WRITE | WALK));
    match choice {
        _ if choice < IMAGES.len() => choice,
        _ if choice.is_multiple_of(4) => MEDIUM[choice / 4 % MEDIUM.len()],
        _ => SMALL,
    }
}

/// Returns true if a run of this input takes tens of milliseconds. The fuzzer runs such inputs and
/// does not keep them, or most of its time would go into them.
pub fn is_slow(data: &[u8]) -> bool {
    data.first().is_some_and(|&choice| matches!(select(choice), 1 | 3))
}

/// Returns the volume with the damaged journal of an input.
pub fn damaged(data: &[u8]) -> Option<Arc<dyn BlockDevice>> {
    let (&choice, changes) = data.split_first()?;
    Some(images()[select(choice)].damaged(changes))
}

/// Replays a damaged journal: in memory, with a walk, or onto the volume, which must be clean then.
///
/// # Panics
/// Where the sound journal is refused, a volume that was opened for writing and closed without an
/// error is not clean, or a group whose unlinked lists cannot be read is not named.
pub fn replay(data: &[u8]) {
    let Some((&choice, changes)) = data.split_first() else { return };
    let dirty = &images()[select(choice)];
    let dev = dirty.damaged(changes);
    let write = choice & WRITE != 0 && dirty.geo.v5();
    let volume = Volume::open(Arc::clone(&dev), &OpenOptions { write, ..OpenOptions::default() });
    if let Err(error) = &volume {
        assert!(changes.len() >= STEP, "a sound journal is refused: {error}");
    }
    match volume {
        Ok(volume) if !write => {
            if choice & WALK != 0 {
                image::walk(&volume);
            }
        }
        Ok(volume) => {
            let unread = unread_lists(&volume);
            let damaged = volume.damaged_orphans();
            if volume.close().is_ok() {
                let log = Log::open(&dev, dirty.start, &dirty.geo).expect("a journal just closed");
                assert!(log.is_clean(), "closed without an error, and not clean");
                let named = damaged.iter().filter(|orphan| orphan.ino.is_none()).count();
                assert!(named >= unread, "{unread} groups cannot be read, {named} are named");
            }
        }
        Err(_) => {}
    }
}

/// Returns how many groups have unlinked lists that cannot be read.
fn unread_lists(volume: &Volume) -> usize {
    volume.geo().ags().filter(|agno| volume.agi(*agno).is_err()).count()
}

/// Returns the seeds: each image as it is, and a change of every operation of its first records.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (choice, dirty) in (0u8..).zip(images()) {
        for write in [0, WALK, WRITE] {
            seeds.push(vec![choice | write]);
        }
        let records = dirty.records.len().min(256);
        for (which, record) in (0u8..=255).zip(&dirty.records[..records]) {
            let ops = record.ops.len();
            for op in (0..ops).step_by(ops.div_ceil(24).max(1)).chain([ops - 1]) {
                let [hi, lo] = u16::try_from(op).unwrap_or(u16::MAX).to_be_bytes();
                let write = if op % 2 == 0 { WRITE } else { 0 };
                seeds.push(vec![choice | write, which, hi, lo, 0, 16, 1, lo, 0]);
            }
        }
    }
    seeds.dedup();
    seeds
}
