//! AIL push: writes items in place that are durable in the journal.
//!
//! A push takes the oldest items of the [`Ail`](crate::ail) and sorts them by address. It stamps
//! copies with LSN and CRC, writes them in large batches, with two threads if there are many, and
//! flushes the device. Then the items leave the AIL, and the journal's tail may pass them. A thread
//! of the engine pushes beside transactions and checkpoints ([`Running`](crate::Running)). If that
//! thread is late, or there is none, the thread that writes checkpoints pushes.
//!
//! 1. Every block is verified before it is written, with the verifier for reads: damage in memory
//!    shuts the volume down, and does not reach the device.
//! 2. Pinned items are skipped: their newest change is not durable yet.
//! 3. Inodes are written with their whole cluster, together with their neighbours.
//! 4. A change that is logged while a copy of the item is being written counts as not in place
//!    ([`ItemState::logged`] beside [`ItemState::writing`]), and so does the copy until it is
//!    flushed.
//! 5. A freed block is not written any more once it may be reused: [`WriteBack::wait_in_flight`].
//!
//! [`ItemState::logged`]: crate::log_item::ItemState::logged
//! [`ItemState::writing`]: crate::log_item::ItemState::writing

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use xfskit_block::{AlignedBuf, Error as DeviceError};
use xfskit_format::inode::{self, Dinode};
use xfskit_format::log::Stamp;
use xfskit_format::{Ctx, Location, VerifyResult, verify};
use xfskit_units::{ByteOffset, Daddr, Geometry, Ino, Lsn, Sectors, index};

use crate::buf::BufError;
use crate::buf_map::BufMap;
use crate::bytes::{Buf, Bytes, Frozen};
use crate::engine::{Engine, PanicGuard};
use crate::error::TransError;
use crate::lock::{LockRank, Ranked};
use crate::log_item::{DiskLocation, LogItem, Unplaced};
use crate::park::Parking;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use crate::writeback::{PushState, WriteBack};

/// Approximate size of a batch in bytes.
const BATCH: u64 = if cfg!(test) { 64 << 10 } else { 2 << 20 };

/// From this many items on, a second thread takes part.
pub(crate) const SPLIT_PUSH_ITEMS: usize = if cfg!(test) { 128 } else { 4096 };

/// Items of one portion. It is large because a device that seeks should get many writes at once.
const PORTION: usize = 8192;

impl Engine {
    /// Writes everything in place that is durable in the journal. That frees memory.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn write_back(&self) -> Result<(), TransError> {
        self.write_back_with(|| self.write_back.push(self, Lsn(u64::MAX)))
    }

    /// Writes in place what the AIL push thread was asked for.
    pub(crate) fn write_back_requested(&self) -> Result<(), TransError> {
        self.write_back_with(|| self.write_back.push_requested(self))
    }

    fn write_back_with(
        &self,
        push: impl FnOnce() -> Result<(), BufError>,
    ) -> Result<(), TransError> {
        self.check_not_shut_down()?;
        push().map_err(|error| {
            let cause = format!("metadata cannot be written back: {error}");
            TransError::ShutDown(self.shut_down(&cause))
        })
    }
}

impl WriteBack {
    /// Asks the thread to push everything under LSNs up to `upto`. Pushes at once if there is no
    /// thread.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn request(&self, engine: &Engine, upto: Lsn) -> Result<(), BufError> {
        self.requested.fetch_max(upto.0, Ordering::AcqRel);
        if self.signal.notify() { Ok(()) } else { self.push_requested(engine) }
    }

    /// Pushes what was asked for.
    pub(crate) fn push_requested(&self, engine: &Engine) -> Result<(), BufError> {
        let upto = Lsn(self.requested.swap(0, Ordering::AcqRel));
        self.push_until(engine, upto, || false)
    }

    /// Writes the oldest items in place by [`push`](Self::push), a portion at a time, until
    /// `is_enough` returns true, so that a thread that waits for the journal's tail waits no longer
    /// than necessary.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn push_until(
        &self,
        engine: &Engine,
        upto: Lsn,
        is_enough: impl Fn() -> bool,
    ) -> Result<(), BufError> {
        let mut after = Lsn(0);
        while !is_enough()
            && let Some(lsn) = engine.ail.portion_end(after, upto, PORTION)
        {
            self.push(engine, lsn)?;
            after = lsn;
        }
        Ok(())
    }

    /// Writes in place everything under LSNs up to `upto` that is not pinned, and flushes the
    /// device.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn push(&self, engine: &Engine, upto: Lsn) -> Result<(), BufError> {
        let mut state = self.state.lock();
        let _guard = PanicGuard::new(engine, "an AIL push");
        let PushState { stats, buffers } = &mut *state;
        let mut due: Vec<Due> = engine.ail.due(upto).into_iter().map(Due::new).collect();
        due.sort_unstable_by_key(|due| due.address.0);
        stats.pushes += 1;
        let done = self.write_all(engine, &due, buffers)?;
        stats.bytes += done.bytes;
        if done.items.is_empty() {
            return Ok(());
        }
        engine.device().flush()?;
        stats.flushes += 1;
        stats.items += done.items.len() as u64;
        for (item, _) in &done.items {
            item.write(Some(&engine.parking)).writing = Unplaced::default();
        }
        engine.ail.remove(done.items.iter().map(|(item, lsn)| (&**item, *lsn)));
        Ok(())
    }

    /// Writes `due`, sorted by address. Two threads share a large push: while one waits for the
    /// device, the other copies.
    fn write_all(
        &self,
        engine: &Engine,
        due: &[Due],
        [first, second]: &mut [AlignedBuf; 2],
    ) -> Result<Done, BufError> {
        let remaining = Mutex::new(due);
        if !engine.is_concurrent() || due.len() < SPLIT_PUSH_ITEMS {
            return self.write_remaining(engine, &remaining, first);
        }
        thread::scope(|scope| {
            let other = thread::Builder::new().name("xfskit-writes".into());
            // If the system gives no thread, one writes everything.
            let other =
                other.spawn_scoped(scope, || self.write_remaining(engine, &remaining, second)).ok();
            let mut done = self.write_remaining(engine, &remaining, first)?;
            if let Some(other) = other {
                done.join(other.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok(done)
        })
    }

    /// Writes what remains, a batch at a time, copied to `buffer` first.
    fn write_remaining(
        &self,
        engine: &Engine,
        remaining: &Mutex<&[Due]>,
        buffer: &mut AlignedBuf,
    ) -> Result<Done, BufError> {
        let mut staging = Staging::into(buffer);
        let mut bytes = 0;
        loop {
            let _rank = Ranked::take(LockRank::InFlight);
            let _in_flight = self.in_flight.read();
            let batch = take_batch(&mut remaining.lock());
            if batch.is_empty() {
                return Ok(Done { items: staging.written, bytes });
            }
            for unit in units(batch) {
                staging.add(engine, unit)?;
            }
            bytes += staging.write(engine)?;
        }
    }
}

/// The items that were written, their LSNs, and the number of bytes.
#[derive(Debug, Default)]
struct Done {
    items: Vec<(Arc<LogItem>, Lsn)>,
    bytes: u64,
}

impl Done {
    fn join(&mut self, other: Self) {
        self.items.extend(other.items);
        self.bytes += other.bytes;
    }
}

/// Takes a batch off the front of `remaining`: units of [`BATCH`] bytes together, or a little more.
fn take_batch<'d>(remaining: &mut &'d [Due]) -> &'d [Due] {
    let mut bytes = 0;
    let enough = units(remaining).take_while(|unit| {
        let before = bytes;
        bytes += unit[0].address.1.byte_len().0;
        before < BATCH
    });
    let len = enough.map(<[Due]>::len).sum();
    let (batch, behind) = remaining.split_at(len);
    *remaining = behind;
    batch
}

/// A log item to be written in place.
#[derive(Debug)]
struct Due {
    /// Address and length of the write: for an inode those of its cluster.
    address: (Daddr, Sectors),
    item: Arc<LogItem>,
}

impl Due {
    fn new(item: Arc<LogItem>) -> Self {
        let address = match item.location() {
            DiskLocation::Block(map) => map.first(),
            DiskLocation::Inode { cluster, .. } => *cluster,
        };
        Self { address, item }
    }

    /// Returns the bytes and the LSN to write them with, or `None` if the item is not to be
    /// written, for now or ever. Its logged part counts as being written from here on.
    fn copy(&self, parking: &Parking) -> Option<(Frozen, Lsn)> {
        let mut state = self.item.write(Some(parking));
        let pinned = self.item.pins.load(Ordering::Acquire) > 0;
        let bytes = state.bytes.freeze().filter(|_| !pinned && !state.stale)?;
        // Read after the pins: the last checkpoint set it before it unpinned the item.
        let lsn = self.item.lsn()?;
        state.begin_write();
        Some((bytes, lsn))
    }

    /// Returns true for an inode, and for a new inode cluster.
    fn is_of_cluster(&self, parking: &Parking) -> bool {
        matches!(self.item.location(), DiskLocation::Inode { .. })
            || self.item.read(Some(parking)).new.is_some()
    }
}

/// Splits `due`, sorted by address, into units of one write: a block, or a cluster with all of its
/// inodes.
fn units(due: &[Due]) -> impl Iterator<Item = &[Due]> {
    due.chunk_by(|one, next| one.address == next.address)
}

/// Stamped copies and the items that they are copies of.
#[derive(Debug)]
struct Staging<'t> {
    bytes: &'t mut AlignedBuf,
    /// Pieces of `bytes` and where they go.
    writes: Vec<(ByteOffset, Range<usize>)>,
    /// Clusters in `bytes`. They stay in memory until they are written, because a reader must not
    /// find the old ones. True for clusters that were not in memory as a whole.
    clusters: Vec<(Arc<LogItem>, bool)>,
    /// All copied items, with their LSNs at that time.
    written: Vec<(Arc<LogItem>, Lsn)>,
}

impl<'t> Staging<'t> {
    /// Returns an empty staging area that reuses the memory of `bytes`.
    fn into(bytes: &'t mut AlignedBuf) -> Self {
        bytes.clear();
        Self { bytes, writes: Vec::new(), clusters: Vec::new(), written: Vec::new() }
    }

    /// Copies one block, or one cluster with those of its inodes that are due.
    fn add(&mut self, engine: &Engine, unit: &[Due]) -> Result<(), BufError> {
        if unit.iter().any(|due| due.is_of_cluster(&engine.parking)) {
            return self.add_cluster(engine, unit);
        }
        for due in unit {
            let DiskLocation::Block(map) = due.item.location() else { continue };
            let Some((Frozen::Whole(buf), lsn)) = due.copy(&engine.parking) else { continue };
            self.add_block(engine.geo(), map, &buf, lsn)?;
            self.written.push((Arc::clone(&due.item), lsn));
        }
        Ok(())
    }

    /// Copies inodes into their cluster, and copies the cluster. The cluster's lock is taken last,
    /// with no other: a reader of an inode takes the inode's lock first.
    fn add_cluster(&mut self, engine: &Engine, unit: &[Due]) -> Result<(), BufError> {
        let (daddr, len) = unit[0].address;
        let (geo, map) = (engine.geo(), BufMap::single(daddr, len));
        let cluster = engine.cache().item(&map);
        let inodes: Vec<_> =
            unit.iter().filter_map(|due| InodeCopy::of(due, &engine.parking)).collect();
        let mut state = cluster.write(Some(&engine.parking));
        if state.stale || cluster.pins.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        let new = cluster.lsn();
        // If all of its inodes are written, the old content does not matter and need not be in
        // memory.
        let whole = !state.bytes.is_some() && inodes.len() << geo.inodelog == map.byte_len();
        if whole {
            let staged = self.reserve(&map);
            put_inodes(geo, &mut self.bytes[staged], &inodes)?;
        } else {
            if !state.bytes.is_some() && state.new.is_none() {
                state.bytes = engine.cache().read_raw(&map)?.into();
            }
            let Some(bytes) = state.materialize(geo, map.byte_len()) else { return Ok(()) };
            if new.is_some() {
                stamp_others(bytes, geo.inodesize(), &inodes);
            }
            put_inodes(geo, bytes, &inodes)?;
            let staged = self.reserve(&map);
            self.bytes[staged].copy_from_slice(bytes);
        }
        if let Some(lsn) = new {
            state.begin_write();
            self.written.push((Arc::clone(&cluster), lsn));
        }
        drop(state);
        self.clusters.push((cluster, whole));
        self.written.extend(inodes.into_iter().map(|inode| (inode.item, inode.lsn)));
        Ok(())
    }

    /// Copies a block, verifies the copy, and stamps it. The block is mostly not in the processor's
    /// cache: a copy reads it in order, a verifier here and there.
    fn add_block(&mut self, geo: &Geometry, map: &BufMap, buf: &Buf, lsn: Lsn) -> VerifyResult {
        let staged = self.reserve(map);
        let bytes = &mut self.bytes[staged];
        bytes.copy_from_slice(buf);
        let at = Location::of("block to be written").daddr(map.first().0, map.sectors());
        verify::before_write(bytes, &Ctx::new(geo, at))?;
        if let Some(stamp) = Stamp::of(bytes, geo) {
            stamp.write(bytes, lsn);
        }
        Ok(())
    }

    /// Reserves space for the bytes of `map`.
    fn reserve(&mut self, map: &BufMap) -> Range<usize> {
        let len = map.byte_len();
        // Runs of whole pages go to the device without a copy.
        if len.is_multiple_of(AlignedBuf::ALIGN) {
            self.bytes.align();
        }
        let start = self.bytes.len();
        self.bytes.resize(start + len);
        let mut at = start;
        for (daddr, len) in map.iter() {
            let end = at + index(len.byte_len().0);
            self.writes.push((daddr.byte_offset(), at..end));
            at = end;
        }
        start..start + len
    }

    /// Writes the copies, joining neighbours into one write. Returns the number of bytes.
    fn write(&mut self, engine: &Engine) -> Result<u64, BufError> {
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
        let results = engine.device().write_batch(&batch);
        results.into_iter().collect::<Result<Vec<()>, DeviceError>>()?;
        let bytes = self.bytes.len() as u64;
        for (cluster, whole) in self.clusters.drain(..) {
            let mut state = cluster.write(Some(&engine.parking));
            state.new = None;
            // A reader may have asked for the cluster meanwhile.
            if whole && !state.in_cil && state.unplaced().chunks.is_empty() {
                state.bytes = Bytes::default();
            }
        }
        self.bytes.clear();
        Ok(bytes)
    }
}

/// The copy of an inode to be written.
struct InodeCopy {
    item: Arc<LogItem>,
    ino: Ino,
    offset: usize,
    lsn: Lsn,
    bytes: Frozen,
}

impl InodeCopy {
    fn of(due: &Due, parking: &Parking) -> Option<Self> {
        let DiskLocation::Inode { ino, offset, .. } = due.item.location() else { return None };
        let (bytes, lsn) = due.copy(parking)?;
        Some(Self { item: Arc::clone(&due.item), ino: *ino, offset: *offset, lsn, bytes })
    }
}

/// Copies `inodes` into their cluster.
fn put_inodes(geo: &Geometry, cluster: &mut [u8], inodes: &[InodeCopy]) -> VerifyResult {
    for inode in inodes {
        let at = Location::of("inode to be written").ino(inode.ino);
        let ctx = Ctx::new(geo, at).crc_known();
        let image = &mut cluster[inode.offset..inode.offset + inode.bytes.len()];
        inode.bytes.put(image);
        Dinode::verify(image, &ctx, inode.ino)?;
        if inode.bytes.is_compact() {
            inode::stamp_empty_forks(image, inode.lsn);
        } else {
            inode::stamp_lsn(image, inode.lsn);
        }
    }
    Ok(())
}

/// Stamps the inodes of a new cluster that are not among `inodes`. None of them has a CRC so far,
/// because most are allocated, and then stamped, before they are ever written.
fn stamp_others(cluster: &mut [u8], inodesize: usize, inodes: &[InodeCopy]) {
    for (offset, bytes) in (0..).step_by(inodesize).zip(cluster.chunks_exact_mut(inodesize)) {
        if inodes.iter().all(|inode| inode.offset != offset) {
            inode::stamp(bytes);
        }
    }
}
