//! The active-item list: what is durable in the journal and not yet in place.
//!
//! Items stand in batches, one for each checkpoint, under its start LSN; an item that is logged again
//! moves to the newer batch. The oldest batch that still holds one is the journal's tail. Write-back takes
//! the oldest batches, sorts what they hold by address, stamps copies with LSN and CRC, and writes them in
//! large batches: nobody who wants to change a block waits for the device.
//!
//! 1. What is written is judged before by the verifiers that judge it when it is read: damage in memory ends
//!    the volume, and does not reach the device.
//! 2. Pinned objects are passed over: their newest change is not durable yet.
//! 3. Inodes are written with their whole cluster, in one go with their neighbours.
//! 4. All of this runs under the journal's lock; only the list itself has a lock of its own.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use xfskit_block::Error as DeviceError;
use xfskit_format::inode::{self, Dinode};
use xfskit_format::log::Stamp;
use xfskit_format::{Ctx, Location, judge};
use xfskit_units::{ByteOffset, Daddr, Ino, Lsn, Sectors, index};

use crate::buf::{BufError, BufMap};
use crate::engine::Engine;
use crate::lock::{LockRank, LockStats, RankedMutex};
use crate::object::{Buf, Chunks, Home, Object};
use crate::stats::AilStats;

/// Bytes of one write-back batch.
const STAGING: usize = 8 << 20;

/// What one checkpoint left to be written.
#[derive(Debug, Default)]
struct Batch {
    objects: Vec<Arc<Object>>,
    /// How many of `objects` still belong here: not written, not logged again.
    live: usize,
}

/// The list.
#[derive(Debug)]
pub(crate) struct Ail {
    /// Rank [`LockRank::Ail`].
    batches: RankedMutex<BTreeMap<Lsn, Batch>>,
    pushes: AtomicU64,
    items: AtomicU64,
    bytes: AtomicU64,
}

impl Ail {
    pub(crate) fn new() -> Self {
        let batches = RankedMutex::new(LockRank::Ail, BTreeMap::new());
        let zero = || AtomicU64::new(0);
        Self { batches, pushes: zero(), items: zero(), bytes: zero() }
    }

    /// What was done so far, and its lock.
    pub(crate) fn stats(&self) -> (AilStats, LockStats) {
        let [pushes, items, bytes] =
            [&self.pushes, &self.items, &self.bytes].map(|count| count.load(Ordering::Relaxed));
        (AilStats { pushes, items, bytes }, self.batches.stats())
    }

    /// The oldest LSN with something left to write.
    pub(crate) fn tail(&self) -> Option<Lsn> {
        self.batches.lock().first_key_value().map(|(lsn, _)| *lsn)
    }

    /// Where there are more than `most` objects: the LSN up to which to write back, so that half as many are left.
    pub(crate) fn too_many(&self, most: usize) -> Option<Lsn> {
        let batches = self.batches.lock();
        let mut left: usize = batches.values().map(|batch| batch.live).sum();
        if left <= most {
            return None;
        }
        let enough = batches.iter().find(|(_, batch)| {
            left -= batch.live;
            left <= most / 2
        });
        enough.map(|(lsn, _)| *lsn)
    }

    /// Takes in objects whose change is durable under `lsn`, and unpins them.
    pub(crate) fn insert(&self, objects: Vec<Arc<Object>>, lsn: Lsn) {
        if objects.is_empty() {
            return;
        }
        let mut batches = self.batches.lock();
        for object in &objects {
            let old = object.ail_lsn.swap(lsn.0, Ordering::AcqRel);
            leave(&mut batches, Lsn(old));
            object.unpin();
        }
        let batch = batches.entry(lsn).or_default();
        batch.live += objects.len();
        batch.objects.extend(objects);
    }

    /// These objects are in place as of their LSNs, or will never be written.
    pub(crate) fn remove<'o>(&self, objects: impl Iterator<Item = (&'o Object, Lsn)>) {
        let mut batches = self.batches.lock();
        for (object, lsn) in objects {
            let gone = (Ordering::AcqRel, Ordering::Relaxed);
            if object.ail_lsn.compare_exchange(lsn.0, 0, gone.0, gone.1).is_ok() {
                leave(&mut batches, lsn);
            }
        }
    }

    /// Everything that may be written now and stands under an LSN up to `upto`.
    fn due(&self, upto: Lsn) -> Vec<Due> {
        let batches = self.batches.lock();
        let due = |lsn: Lsn, object: &Arc<Object>| {
            let is_here = object.lsn() == Some(lsn);
            let free = object.pins.load(Ordering::Acquire) == 0;
            (is_here && free).then(|| Due::new(Arc::clone(object), lsn))
        };
        let mut all: Vec<Due> = batches
            .range(..=upto)
            .flat_map(|(&lsn, batch)| {
                batch.objects.iter().filter_map(move |object| due(lsn, object))
            })
            .collect();
        all.sort_by_key(|due| due.address);
        all
    }

    /// Writes back what stands under LSNs up to `upto`, as far as it is not pinned. The writes are not
    /// flushed: the next record's flush does that.
    ///
    /// # Errors
    /// Where the device fails.
    pub(crate) fn push(&self, engine: &Engine, upto: Lsn) -> Result<(), BufError> {
        let due = self.due(upto);
        self.pushes.fetch_add(1, Ordering::Relaxed);
        let mut rest = &due[..];
        let mut staging = Staging::default();
        while !rest.is_empty() {
            let (unit, behind) = rest.split_at(unit_len(rest));
            staging.add(engine, unit)?;
            if staging.bytes.len() >= STAGING || behind.is_empty() {
                staging.write(engine, self)?;
            }
            rest = behind;
        }
        Ok(())
    }
}

/// One object fewer stands under `lsn`.
fn leave(batches: &mut BTreeMap<Lsn, Batch>, lsn: Lsn) {
    if let Some(batch) = batches.get_mut(&lsn) {
        batch.live -= 1;
        if batch.live == 0 {
            batches.remove(&lsn);
        }
    }
}

/// An object to be written back, and the LSN it is written as.
#[derive(Debug)]
struct Due {
    /// Address and length of what is written: an inode's is its cluster's.
    address: (Daddr, Sectors),
    object: Arc<Object>,
    lsn: Lsn,
}

impl Due {
    fn new(object: Arc<Object>, lsn: Lsn) -> Self {
        let address = match object.home() {
            Home::Block(map) => map.first(),
            Home::Inode { cluster, .. } => *cluster,
        };
        Self { address, object, lsn }
    }
}

/// How many of `due` are written as one: a block alone, a cluster with all of its inodes.
fn unit_len(due: &[Due]) -> usize {
    let first = due[0].address;
    due.iter().take_while(|other| other.address == first).count()
}

/// Stamped copies, and what they are copies of.
#[derive(Debug, Default)]
struct Staging {
    bytes: Vec<u8>,
    /// Pieces of `bytes` and where they go.
    writes: Vec<(ByteOffset, Range<usize>)>,
    written: Vec<(Arc<Object>, Lsn)>,
}

impl Staging {
    /// Copies one block, or one cluster with those of its inodes that are due.
    fn add(&mut self, engine: &Engine, unit: &[Due]) -> Result<(), BufError> {
        let inodes: Vec<_> = unit.iter().filter_map(InodeCopy::of).collect();
        if !inodes.is_empty() {
            return self.add_cluster(engine, unit, &inodes);
        }
        for due in unit {
            let Home::Block(map) = due.object.home() else { continue };
            let content = due.object.lock.read();
            let pinned = due.object.pins.load(Ordering::Acquire) > 0;
            if let Some(buf) = content.bytes.as_ref().filter(|_| !pinned && !content.stale) {
                let at = Location::of("block to be written").daddr(map.first().0, map.sectors());
                judge::before_write(&buf.bytes, &Ctx::new(engine.geo(), at))?;
                let stamp =
                    if content.ordered { None } else { Stamp::of(&buf.bytes, engine.geo()) };
                self.push(map, buf, stamp.map(|stamp| (stamp, due.lsn)));
                self.written.push((Arc::clone(&due.object), due.lsn));
            }
        }
        Ok(())
    }

    /// Puts inodes into their cluster, and copies it. The cluster's own lock is taken last and alone:
    /// who reads an inode takes the inode's first.
    fn add_cluster(
        &mut self,
        engine: &Engine,
        unit: &[Due],
        inodes: &[InodeCopy],
    ) -> Result<(), BufError> {
        let (daddr, len) = unit[0].address;
        let map = BufMap::single(daddr, len);
        let cluster = engine.cache().object(&map);
        let mut content = cluster.lock.write();
        if content.stale || cluster.pins.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        if content.bytes.is_none() {
            content.bytes = Some(Arc::new(Buf { bytes: engine.cache().read_raw(&map)? }));
        }
        let Some(buf) = content.bytes.as_mut() else { return Ok(()) };
        let bytes = &mut Arc::make_mut(buf).bytes;
        for inode in inodes {
            let at = Location::of("inode to be written").ino(inode.ino).daddr(daddr, len);
            let ctx = Ctx::new(engine.geo(), at).crc_known();
            Dinode::verify(&inode.bytes, &ctx, inode.ino)?;
            let image = &mut bytes[inode.offset..inode.offset + inode.bytes.len()];
            image.copy_from_slice(&inode.bytes);
            inode::stamp_lsn(image, inode.lsn);
        }
        let buf = Arc::clone(buf);
        drop(content);
        self.push(&map, &buf, None);
        self.written.extend(unit.iter().filter_map(|due| {
            let copied = match due.object.home() {
                Home::Block(_) => true,
                Home::Inode { ino, .. } => inodes.iter().any(|inode| inode.ino == *ino),
            };
            copied.then(|| (Arc::clone(&due.object), due.lsn))
        }));
        Ok(())
    }

    fn push(&mut self, map: &BufMap, buf: &Buf, stamp: Option<(Stamp, Lsn)>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&buf.bytes);
        if let Some((stamp, lsn)) = stamp {
            stamp.write(&mut self.bytes[start..], lsn);
        }
        let mut at = start;
        for (daddr, len) in map.iter() {
            let end = at + index(len.byte_len().0);
            self.writes.push((daddr.byte_offset(), at..end));
            at = end;
        }
    }

    /// Writes what was gathered, neighbours in one write.
    fn write(&mut self, engine: &Engine, ail: &Ail) -> Result<(), BufError> {
        let mut joined: Vec<(ByteOffset, Range<usize>)> = Vec::with_capacity(self.writes.len());
        for (offset, range) in self.writes.drain(..) {
            match joined.last_mut() {
                Some((start, before))
                    if before.end == range.start && start.0 + before.len() as u64 == offset.0 =>
                {
                    before.end = range.end;
                }
                _ => joined.push((offset, range)),
            }
        }
        let batch: Vec<_> =
            joined.iter().map(|(at, range)| (*at, &self.bytes[range.clone()])).collect();
        let answers = engine.device().write_batch(&batch);
        answers.into_iter().collect::<Result<Vec<()>, DeviceError>>()?;
        ail.items.fetch_add(self.written.len() as u64, Ordering::Relaxed);
        ail.bytes.fetch_add(self.bytes.len() as u64, Ordering::Relaxed);
        for (object, _) in &self.written {
            // No checkpoint came between: what was logged is what was written.
            let mut content = object.lock.write();
            content.logged = Chunks::default();
            content.unlinked_logged = false;
        }
        ail.remove(self.written.iter().map(|(object, lsn)| (&**object, *lsn)));
        self.written.clear();
        self.bytes.clear();
        Ok(())
    }
}

/// An inode as it is to be written.
struct InodeCopy {
    ino: Ino,
    offset: usize,
    lsn: Lsn,
    bytes: Arc<Buf>,
}

impl InodeCopy {
    fn of(due: &Due) -> Option<Self> {
        let Home::Inode { ino, offset, .. } = due.object.home() else { return None };
        let content = due.object.lock.read();
        let pinned = due.object.pins.load(Ordering::Acquire) > 0;
        let bytes = Arc::clone(content.bytes.as_ref().filter(|_| !pinned && !content.stale)?);
        Some(Self { ino: *ino, offset: *offset, lsn: due.lsn, bytes })
    }
}
