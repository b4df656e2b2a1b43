//! The buffer cache: metadata blocks, verified once when read, and shared by all threads.
//!
//! A buffer is one whole metadata block: an AG header, a btree block, an inode cluster, or a
//! directory block, which may consist of several pieces on disk ([`BufMap`]). The key of a buffer
//! is the address of its first piece and its length.
//!
//! 1. A buffer that a caller gets has passed the caller's verifier since it was read.
//! 2. Memory stays below the limit given to [`BufCache::new`], apart from buffers in use: those
//!    that are referenced, and those that are changed and not yet written in place.
//! 3. A hit touches nothing that all threads share: each shard has its own lock. The device is read
//!    under the lock of the buffer alone, so two threads that miss the same block read it once.
//! 4. A block has one buffer at most: a buffer that is referenced, or that a `Weak` may upgrade to,
//!    is in the table.
//!
//! If a block fails its verifier, the cache asks the device for the block's alternatives (mirrors,
//! parity): see [`heal`].

use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use xfskit_block::{BlockDevice, IoRead};
use xfskit_format::{Corruption, Ctx, VerifyResult};
use xfskit_units::{ByteLen, ByteOffset, Daddr, Sectors, index};

use crate::buf_map::BufMap;
use crate::bytes::{Buf, Bytes, zeroed};
use crate::heal::{self, Heals};
use crate::icache::InodeLocation;
use crate::lock::{LockRank, LockStats, RankedMutex};
use crate::log_item::{DiskLocation, ItemState, LogItem, NewCluster};
use crate::park::Parking;

/// Shards of the cache.
const SHARDS: usize = 64;
/// Read-ahead joins blocks that lie at most this far apart, in bytes: reading the gap is cheaper
/// than another request.
const JOIN_GAP: u64 = 16 * 1024;
/// Longest single read of a read-ahead, in bytes.
const JOIN_MAX: u64 = 1 << 20;

/// The key of a buffer: [`BufMap::key`].
type Key = (Daddr, usize);

/// Why a buffer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BufError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The block, and every alternative of it, failed its verifier.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
}

/// Counters of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Look-ups.
    pub lookups: u64,
    /// Look-ups that found the buffer in memory, or created it there.
    pub hits: u64,
    /// Bytes read from the device, read-ahead included.
    pub bytes_read: u64,
    /// Blocks that failed their verifier and were read in another way.
    pub healed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    /// Counted on reads of the device: a hit writes to nothing that all threads share.
    misses: AtomicU64,
    bytes_read: AtomicU64,
}

/// A cached buffer in the ring.
#[derive(Debug)]
struct Slot {
    key: Key,
    item: Arc<LogItem>,
}

/// One shard of the cache: a table for look-ups, and a ring for the clock hand. Both hold every
/// buffer, so that a hit touches nothing but the table and the buffer itself, which records its
/// second chance ([`LogItem::used`]). Each shard is on cache lines of its own, because threads
/// write to them on every look-up.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    table: FxHashMap<Key, Arc<LogItem>>,
    ring: Vec<Slot>,
    hand: usize,
    bytes: usize,
    lookups: u64,
}

/// References of the cache itself to a buffer: those of the table and of the ring.
const OWN_REFS: usize = 2;

impl Shard {
    fn get(&self, key: Key) -> Option<Arc<LogItem>> {
        let item = self.table.get(&key)?;
        item.used.mark();
        Some(Arc::clone(item))
    }

    /// Inserts `item`, and returns it. If another thread was first, returns that thread's item.
    fn insert(&mut self, key: Key, item: Arc<LogItem>, limit: usize) -> Arc<LogItem> {
        if let Some(first) = self.get(key) {
            return first;
        }
        while self.bytes.saturating_add(key.1) > limit && self.evict_one() {}
        self.add(key, &item);
        item
    }

    fn add(&mut self, key: Key, item: &Arc<LogItem>) {
        self.bytes += key.1;
        self.table.insert(key, Arc::clone(item));
        self.ring.push(Slot { key, item: Arc::clone(item) });
    }

    /// Advances the hand to the first buffer that has no other reference and was not used since the
    /// hand last passed it, and drops that buffer. Returns false if two rounds find none.
    fn evict_one(&mut self) -> bool {
        (0..self.ring.len().saturating_mul(2)).any(|_| {
            self.hand %= self.ring.len();
            let item = &self.ring[self.hand].item;
            let free = !item.used.clear() && Arc::strong_count(item) == OWN_REFS;
            let dropped = free && self.drop_at_hand();
            // The last buffer of the ring has taken the slot of a dropped one, and the hand passes
            // it.
            self.hand += 1;
            dropped
        })
    }

    /// Drops the buffer at the hand. Returns false if another thread has upgraded a `Weak` to it
    /// meanwhile: then it stays, as the newest.
    fn drop_at_hand(&mut self) -> bool {
        let Slot { key, item } = self.ring.swap_remove(self.hand);
        self.bytes -= key.1;
        self.table.remove(&key);
        // From here on no `Weak` can be upgraded, unless that has happened already.
        let left = Arc::try_unwrap(item);
        left.map_err(|item| self.add(key, &item)).is_ok()
    }
}

/// The buffer cache of one device. All threads share it.
#[derive(Debug)]
pub struct BufCache {
    dev: Arc<dyn BlockDevice>,
    /// Each lock covers a table and its ring; rank [`LockRank::Leaf`].
    shards: Vec<RankedMutex<Shard>>,
    shard_limit: usize,
    /// The CIL whose transactions change blocks. If it is set, read-ahead must not fill the cache,
    /// because what it reads may be old.
    parking: OnceLock<Arc<Parking>>,
    counters: Counters,
    heals: Arc<Heals>,
}

impl BufCache {
    /// Returns a cache of blocks of `dev` that keeps at most `limit` bytes.
    pub fn new(dev: Arc<dyn BlockDevice>, limit: usize) -> Self {
        let shard = || RankedMutex::new(LockRank::Leaf, Shard::default());
        Self {
            dev,
            shards: (0..SHARDS).map(|_| shard()).collect(),
            shard_limit: limit / SHARDS,
            parking: OnceLock::new(),
            counters: Counters::default(),
            heals: Arc::default(),
        }
    }

    /// Returns the blocks that failed their verifier and were read in another way.
    pub fn heals(&self) -> &Arc<Heals> {
        &self.heals
    }

    /// Returns the device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.dev
    }

    /// Returns the number of bytes that the cache keeps at most.
    pub fn limit(&self) -> usize {
        self.shard_limit.saturating_mul(SHARDS)
    }

    /// Returns the counters of the cache.
    pub fn stats(&self) -> Stats {
        let c = &self.counters;
        let lookups: u64 = self.shards.iter().map(|shard| shard.lock().lookups).sum();
        Stats {
            lookups,
            hits: lookups.saturating_sub(c.misses.load(Ordering::Relaxed)),
            bytes_read: c.bytes_read.load(Ordering::Relaxed),
            healed: self.heals.count(),
        }
    }

    pub(crate) fn lock_stats(&self) -> LockStats {
        self.shards.iter().map(RankedMutex::stats).sum()
    }

    fn shard(&self, key: Key) -> &RankedMutex<Shard> {
        // Addresses are multiples of powers of two: mix them, then take the high bits.
        let mixed = key.0.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[index(mixed >> 58)]
    }

    /// Returns the buffer at `map`. Runs `verify` with `ctx` on it once each time it is read.
    ///
    /// A caller that parses the bytes again may do so with [`Ctx::crc_known`].
    ///
    /// # Errors
    /// [`BufError::Device`] if the device fails, [`BufError::Corrupt`] if no copy of the block
    /// passes.
    pub fn read(
        &self,
        map: &BufMap,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Arc<Buf>, BufError> {
        let item = self.item(map);
        {
            let state = item.read(self.parking());
            if let Some(bytes) = state.bytes.share().filter(|_| state.verified) {
                return Ok(bytes);
            }
        }
        self.load(map, &mut item.write(self.parking()), ctx, verify)
    }

    /// Returns the item at `map`, read or not.
    pub(crate) fn item(&self, map: &BufMap) -> Arc<LogItem> {
        let key = map.key();
        let mut shard = self.shard(key).lock();
        shard.lookups += 1;
        if let Some(found) = shard.get(key) {
            return found;
        }
        let new =
            LogItem::new(DiskLocation::Block(map.clone()), ItemState::new(Bytes::default(), false));
        shard.insert(key, Arc::new(new), self.shard_limit)
    }

    /// Reads and verifies the item at `map` if its `state`, locked by the caller, is not verified.
    pub(crate) fn load(
        &self,
        map: &BufMap,
        state: &mut ItemState,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Arc<Buf>, BufError> {
        state.materialize(ctx.geo, map.byte_len());
        if let Some(bytes) = state.bytes.share()
            && (state.verified || verify(&bytes, ctx).is_ok())
        {
            state.verified = true;
            return Ok(bytes);
        }
        state.bytes = Bytes::default();
        self.counters.misses.fetch_add(1, Ordering::Relaxed);
        let bytes = self.read_verified(map, ctx, verify)?;
        state.bytes = Arc::clone(&bytes).into();
        state.verified = true;
        Ok(bytes)
    }

    /// Returns the template of the inode cluster at `location` if the cluster is new and no thread
    /// has needed all of it yet.
    pub fn unmaterialized_cluster(&self, location: &InodeLocation) -> Option<NewCluster> {
        let (daddr, len) = location.cluster;
        self.item(&BufMap::single(daddr, len)).read(self.parking()).unmaterialized_cluster()
    }

    /// Records that transactions that may be parked in `parking` change blocks from now on.
    /// Read-ahead then fills the system's page cache only.
    pub(crate) fn attach(&self, parking: Arc<Parking>) {
        // A cache has one engine, so this happens once.
        let _first = self.parking.set(parking);
    }

    fn parking(&self) -> Option<&Parking> {
        self.parking.get().map(|parking| &**parking)
    }

    /// Returns the bytes at `map` from the device, unverified and uncached, to inspect a damaged
    /// block.
    ///
    /// # Errors
    /// [`BufError::Device`].
    pub fn read_raw(&self, map: &BufMap) -> Result<Arc<Buf>, BufError> {
        let mut bytes = zeroed(map.byte_len());
        self.read_pieces(map, Arc::make_mut(&mut bytes), None)?;
        Ok(bytes)
    }

    /// Reads `map`, and reads it in other ways if the first does not pass `verify`.
    fn read_verified(
        &self,
        map: &BufMap,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Arc<Buf>, BufError> {
        let bytes = self.read_raw(map)?;
        match verify(&bytes, ctx) {
            Ok(()) => Ok(bytes),
            Err(corruption) => self.read_healed(map, ctx, verify, bytes, corruption),
        }
    }

    #[cold]
    fn read_healed(
        &self,
        map: &BufMap,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
        mut bytes: Arc<Buf>,
        corruption: Box<Corruption>,
    ) -> Result<Arc<Buf>, BufError> {
        let ways = map.iter().map(|(d, s)| self.dev.alternatives(d.byte_offset(), s.byte_len()));
        let ways = ways.max().filter(|ways| *ways > 1).unwrap_or(0);
        let read = |copy: &mut [u8], k| self.read_pieces(map, copy, Some(k)).is_ok();
        let Some(way) = heal::newest(ways, Arc::make_mut(&mut bytes), ctx, verify, read) else {
            return Err(BufError::Corrupt(corruption));
        };
        let rewritten = self.parking().is_some() && self.rewrite(map, &bytes, way);
        self.heals.note(corruption, rewritten);
        Ok(bytes)
    }

    /// Lets the device rewrite its other copies with `bytes`, which were read in this way. Returns
    /// false if it did not.
    fn rewrite(&self, map: &BufMap, bytes: &[u8], way: usize) -> bool {
        let (mut rest, mut any) = (bytes, false);
        for (daddr, len) in map.iter() {
            let (piece, after) = rest.split_at(index(len.byte_len().0));
            let ways = self.dev.alternatives(daddr.byte_offset(), len.byte_len());
            let healed = self.dev.heal(daddr.byte_offset(), piece, way.min(ways - 1));
            any |= healed.unwrap_or(false);
            rest = after;
        }
        any
    }

    /// Reads all pieces in the ordinary way, or in the given one. A piece with fewer ways is read
    /// in its last.
    fn read_pieces(
        &self,
        map: &BufMap,
        bytes: &mut [u8],
        way: Option<usize>,
    ) -> Result<(), BufError> {
        self.counters.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut rest = bytes;
        for (daddr, len) in map.iter() {
            let (piece, after) = rest.split_at_mut(index(len.byte_len().0));
            match way {
                None => self.dev.read_at(daddr.byte_offset(), piece)?,
                Some(k) => {
                    let ways = self.dev.alternatives(daddr.byte_offset(), len.byte_len());
                    self.dev.read_alternative(daddr.byte_offset(), piece, k.min(ways - 1))?;
                }
            }
            rest = after;
        }
        Ok(())
    }

    /// Reads blocks that will be needed soon, joining near ones, without verifying them. This is a
    /// hint: [`read`](Self::read) tries again what cannot be read now, and reports the error.
    pub fn read_ahead(&self, wanted: &[(Daddr, Sectors)]) {
        let mut missing: Vec<(Daddr, Sectors)> = wanted
            .iter()
            .filter(|(daddr, len)| {
                let key = (*daddr, index(len.byte_len().0));
                len.0 > 0 && !self.shard(key).lock().table.contains_key(&key)
            })
            .copied()
            .collect();
        missing.sort_unstable();
        missing.dedup();
        let runs = join_near(&missing);
        if self.parking().is_some() {
            for run in &runs {
                self.dev.will_need(ByteOffset(run.start), ByteLen(run.len));
            }
            return;
        }
        let mut bufs: Vec<Vec<u8>> = runs.iter().map(|run| vec![0; index(run.len)]).collect();
        let mut batch: Vec<IoRead<'_>> = runs
            .iter()
            .zip(&mut bufs)
            .map(|(run, buf)| IoRead { offset: ByteOffset(run.start), buf })
            .collect();
        let results = self.dev.read_batch(&mut batch);
        for ((run, buf), result) in runs.iter().zip(&bufs).zip(results) {
            if result.is_err() {
                continue;
            }
            self.counters.bytes_read.fetch_add(run.len, Ordering::Relaxed);
            for (daddr, len) in &missing[run.blocks.clone()] {
                let from = index(daddr.byte_offset().0 - run.start);
                let bytes: Arc<Buf> = buf[from..from + index(len.byte_len().0)].into();
                let key = (*daddr, bytes.len());
                let location = DiskLocation::Block(BufMap::single(*daddr, *len));
                let state = ItemState::new(bytes.into(), false);
                let new = Arc::new(LogItem::new(location, state));
                self.shard(key).lock().insert(key, new, self.shard_limit);
            }
        }
    }

    /// Drops the bytes of everything that is in place, for a device whose content changed
    /// underneath. Waits for transactions that hold a block.
    pub fn clear(&self) {
        for shard in &self.shards {
            let all: Vec<_> = shard.lock().table.values().cloned().collect();
            for item in all {
                let mut state = item.write(self.parking());
                if !item.is_dirty() {
                    // A `Weak` to it may exist, and must not return the old bytes.
                    (state.bytes, state.verified) = Default::default();
                }
            }
        }
    }
}

/// One joined read: bytes `[start, start + len)` hold the blocks with these indexes.
struct Run {
    start: u64,
    len: u64,
    blocks: std::ops::Range<usize>,
}

/// Joins sorted blocks that lie close together.
fn join_near(blocks: &[(Daddr, Sectors)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (i, (daddr, len)) in blocks.iter().enumerate() {
        let start = daddr.byte_offset().0;
        let end = start.saturating_add(len.byte_len().0);
        match runs.last_mut() {
            Some(run)
                if start <= (run.start + run.len).saturating_add(JOIN_GAP)
                    && end - run.start <= JOIN_MAX =>
            {
                run.len = run.len.max(end - run.start);
                run.blocks.end = i + 1;
            }
            _ => runs.push(Run { start, len: end - start, blocks: i..i + 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
