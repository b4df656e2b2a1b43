//! The stripe cache: stripes of a degraded array, kept for readers that will want the rest of them.
//!
//! A sequential reader with requests smaller than a stripe meets the missing chunk once per stripe.
//! Computing it needs all other chunks, which the same reader wanted just before or will want next.
//! The stripe is therefore read once, whole. Its chunks are kept from the reader's position on,
//! each until all of it was handed out: half a stripe for each reader, on average. A reader borrows
//! the memory of the chunks and need not copy them.
//!
//! The budget is strict. If all memory is in use, [`StripeCache::get`] returns `None` and the
//! caller reads what it needs without the cache. A stripe that is still being read out is not
//! evicted: with more readers than stripes, every request would otherwise read a whole stripe.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use xfskit_block::Result;
use xfskit_units::{ByteLen, ByteOffset, StripeByte, index};

/// Shards of the table of stripes.
const SHARDS: usize = 64;

/// Number of ends of requests that are remembered.
const STREAMS: usize = 4096;

/// Requests after which a neighbour that is not exactly the one before is another reader's.
const RECENT: u64 = 64;

/// Stripes that are looked at to find one to evict.
const EVICT_LOOKS: usize = 256;

/// Memory of chunks.
#[derive(Debug, Default)]
struct Pool {
    /// Not in use. It is reused because its pages are already mapped.
    free: Vec<Vec<u8>>,
    /// Chunks, in use or not.
    allocated: usize,
}

/// The memory of one chunk. Dropping it returns the memory to the pool.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    pool: Arc<Mutex<Pool>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.pool.lock().free.push(std::mem::take(&mut self.bytes));
    }
}

/// One chunk of a cached stripe.
#[derive(Debug)]
struct Kept {
    /// `None` after all of it was handed out.
    memory: Mutex<Option<Arc<Memory>>>,
    /// A [`ByteLen`]: what was handed out, or lies before the start of the first request or behind
    /// the end of the file, and will not be asked for.
    delivered: AtomicU64,
}

/// One cached stripe.
#[derive(Debug)]
struct Entry {
    /// The numbers of the chunks that are kept.
    range: Range<usize>,
    /// The chunks. `None` while they are read, or if they could not be read.
    chunks: RwLock<Option<Vec<Kept>>>,
    /// Chunks that were not handed out yet.
    left: AtomicUsize,
    /// The number of the last lookup that asked for it.
    used_at: AtomicU64,
}

/// A range of a cached stripe.
#[derive(Debug)]
pub struct Lent {
    stripe: u64,
    entry: Arc<Entry>,
    /// The number of the first part's chunk.
    chunk: usize,
    parts: Vec<(Arc<Memory>, Range<usize>)>,
}

impl Lent {
    /// Returns the bytes, in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|(memory, range)| &memory.bytes[range.clone()])
    }
}

/// Cached stripes by number.
type Shard = HashMap<u64, Vec<Arc<Entry>>>;

/// Cached stripes by number, and the ends of recent requests.
#[derive(Debug)]
pub struct StripeCache {
    chunk_bytes: ByteLen,
    stripe_bytes: ByteLen,
    chunks_max: usize,
    pool: Arc<Mutex<Pool>>,
    /// A stripe in which one file ends and another one begins may be there for both.
    shards: Vec<Mutex<Shard>>,
    /// Stripes in the order in which they were added. Locked once per stripe that is read.
    order: Mutex<VecDeque<(u64, Arc<Entry>)>>,
    lookups: AtomicU64,
    /// The ends of requests.
    streams: Vec<Stream>,
    requests: AtomicU64,
}

/// The end of a request.
#[derive(Debug)]
struct Stream {
    /// A [`ByteOffset`].
    end: AtomicU64,
    /// A [`ByteOffset`]: the reader will not go on behind it.
    until: AtomicU64,
    /// The number of the request.
    at: AtomicU64,
}

impl StripeCache {
    /// Creates a cache of at most `budget` for stripes of `data_disks` chunks of data.
    pub fn new(budget: ByteLen, chunk_bytes: ByteLen, data_disks: u32) -> Self {
        let chunks = if chunk_bytes.is_zero() { 0 } else { budget.whole(chunk_bytes) };
        Self {
            chunk_bytes,
            stripe_bytes: chunk_bytes.saturating_times(data_disks.into()),
            chunks_max: index(chunks),
            pool: Arc::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            order: Mutex::default(),
            lookups: AtomicU64::new(0),
            streams: (0..STREAMS)
                .map(|_| Stream {
                    end: AtomicU64::new(u64::MAX),
                    until: AtomicU64::new(u64::MAX),
                    at: AtomicU64::new(0),
                })
                .collect(),
            requests: AtomicU64::new(0),
        }
    }

    /// Returns the memory of all chunks, in use or kept for the next ones.
    pub fn allocated(&self) -> ByteLen {
        self.chunk_bytes.times(self.pool.lock().allocated as u64)
    }

    /// Records a request for a range of the array. Returns true if an earlier request ended where
    /// it starts, or a recent one of its length near it: requests of one reader that are served by
    /// several threads may overtake each other. Records, too, how many bytes are ahead of the
    /// reader, if that is known.
    pub fn continues(&self, range: &Range<ByteOffset>, ahead: Option<ByteLen>) -> bool {
        let slot = |at| self.stream(at);
        let now = self.requests.fetch_add(1, Ordering::Relaxed);
        let (start, end, len) = (range.start.0, range.end.0, range.end.0 - range.start.0);
        match ahead {
            Some(ahead) => slot(end).until.store(end.saturating_add(ahead.0), Ordering::Relaxed),
            None if slot(end).end.load(Ordering::Relaxed) == end => {}
            None => slot(end).until.store(u64::MAX, Ordering::Relaxed),
        }
        slot(end).end.store(end, Ordering::Relaxed);
        slot(end).at.store(now, Ordering::Relaxed);
        let ended = |at: u64| slot(at).end.load(Ordering::Relaxed) == at;
        let ended_lately = |at: u64| {
            ended(at) && now.saturating_sub(slot(at).at.load(Ordering::Relaxed)) <= RECENT
        };
        let before = [1, 2].map(|n| start.checked_sub(len.saturating_mul(n)));
        let behind = [2, 3].map(|n| start.checked_add(len.saturating_mul(n)));
        ended(start) || before.into_iter().chain(behind).flatten().any(ended_lately)
    }

    /// Returns how far the reader of a request that ends at `end` goes on, at most.
    pub fn until(&self, end: ByteOffset) -> ByteOffset {
        let stream = self.stream(end.0);
        let is_it = stream.end.load(Ordering::Relaxed) == end.0;
        ByteOffset(if is_it { stream.until.load(Ordering::Relaxed) } else { u64::MAX })
    }

    fn stream(&self, end: u64) -> &Stream {
        let hash = end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        &self.streams[index(hash % STREAMS as u64)]
    }

    fn shard(&self, stripe: u64) -> MutexGuard<'_, Shard> {
        self.shards[index(stripe % SHARDS as u64)].lock()
    }

    /// Returns `len` bytes of `stripe` from `start` on, which do not leave the stripe. If they are
    /// not cached, has `fill` read the chunks from that of `start` to that before `fill_until`,
    /// unless this is `None`. Returns `None` if the bytes are not cached and cannot be read into
    /// the cache.
    pub fn get(
        &self,
        stripe: u64,
        start: StripeByte,
        len: ByteLen,
        fill_until: Option<StripeByte>,
        fill: impl FnOnce(usize, &mut [&mut [u8]]) -> Result<()>,
    ) -> Option<Lent> {
        let now = self.lookups.fetch_add(1, Ordering::Relaxed);
        let first = index(start.whole(self.chunk_bytes));
        let found = Self::find(&self.shard(stripe), stripe, first);
        if let Some(entry) = found {
            entry.used_at.store(now, Ordering::Relaxed);
            if entry.chunks.read().is_none() {
                return None;
            }
            if let Some(lent) = self.lend(stripe, &entry, start, len) {
                return Some(lent);
            }
            if fill_until.is_some() {
                self.remove(stripe, &entry);
            }
        }
        let until = StripeByte(fill_until?.0.min(self.stripe_bytes.0));
        let entry = self.insert_filled(stripe, start..until, now, fill)?;
        self.lend(stripe, &entry, start, len)
    }

    /// Returns the entry that keeps chunk `chunk` of the stripe, or has kept it.
    fn find(shard: &Shard, stripe: u64, chunk: usize) -> Option<Arc<Entry>> {
        let mut entries = shard.get(&stripe)?.iter();
        entries.find(|entry| entry.range.contains(&chunk)).map(Arc::clone)
    }

    /// Returns a range of the stripe, after it was read.
    fn lend(
        &self,
        stripe: u64,
        entry: &Arc<Entry>,
        start: StripeByte,
        len: ByteLen,
    ) -> Option<Lent> {
        let chunk = index(start.whole(self.chunk_bytes));
        let (mut from, mut left) = (start.within(self.chunk_bytes).index(), len.index());
        let mut parts = Vec::new();
        let chunks = entry.chunks.read();
        for kept in chunks.as_ref()?.get(chunk.checked_sub(entry.range.start)?..)? {
            if left == 0 {
                break;
            }
            let memory = Arc::clone(kept.memory.lock().as_ref()?);
            let end = memory.bytes.len().min(from + left);
            left -= end - from;
            parts.push((memory, from..end));
            from = 0;
        }
        drop(chunks);
        (left == 0).then(|| Lent { stripe, entry: Arc::clone(entry), chunk, parts })
    }

    /// Copies what was handed out to `buf`, and takes it back.
    pub fn copy(&self, lent: Lent, buf: &mut [u8]) {
        let mut rest = buf;
        for from in lent.parts() {
            let (to, behind) = rest.split_at_mut(from.len());
            to.copy_from_slice(from);
            rest = behind;
        }
        self.deliver(lent);
    }

    /// Takes back what was handed out. Chunks of which the reader has all are not kept longer.
    pub fn deliver(&self, lent: Lent) {
        let Lent { stripe, entry, chunk, parts } = lent;
        let chunks = entry.chunks.read();
        let kept = chunks.iter().flatten().skip(chunk - entry.range.start);
        let mut is_last = false;
        for (kept, (memory, range)) in kept.zip(parts) {
            let more = range.len() as u64;
            let before = kept.delivered.fetch_add(more, Ordering::Relaxed);
            if before + more >= memory.bytes.len() as u64 && kept.memory.lock().take().is_some() {
                is_last |= entry.left.fetch_sub(1, Ordering::Relaxed) == 1;
            }
        }
        drop(chunks);
        if is_last {
            self.remove(stripe, &entry);
        }
    }

    /// Returns the chunks of `wanted`, read by this thread or by another one in the meantime.
    fn insert_filled(
        &self,
        stripe: u64,
        wanted: Range<StripeByte>,
        now: u64,
        fill: impl FnOnce(usize, &mut [&mut [u8]]) -> Result<()>,
    ) -> Option<Arc<Entry>> {
        let first = index(wanted.start.whole(self.chunk_bytes));
        let range = first..index(wanted.end.div_ceil(self.chunk_bytes));
        let chunk_start = |number: usize| self.chunk_bytes.0 * number as u64;
        let mut memory = self.allocate(range.len(), now)?;
        let entry = Arc::new(Entry {
            left: AtomicUsize::new(range.len()),
            range,
            chunks: RwLock::new(None),
            used_at: AtomicU64::new(now),
        });
        let mut chunks = entry.chunks.write();
        {
            let mut shard = self.shard(stripe);
            if let Some(existing) = Self::find(&shard, stripe, first) {
                return Some(existing);
            }
            // A request that was overtaken does not read the stripe again.
            let entries = shard.entry(stripe).or_default();
            if entries.iter().any(|other| entry.range.contains(&other.range.start)) {
                return None;
            }
            entries.push(Arc::clone(&entry));
            self.order.lock().push_back((stripe, Arc::clone(&entry)));
        }
        let mut bufs: Vec<&mut [u8]> = memory.iter_mut().map(|one| &mut *one.bytes).collect();
        if fill(first, &mut bufs).is_err() {
            self.remove(stripe, &entry);
            return None;
        }
        let kept = |(number, memory): (usize, Memory)| {
            let before = wanted.start.0.saturating_sub(chunk_start(number));
            let behind = chunk_start(number + 1).saturating_sub(wanted.end.0);
            let memory = Mutex::new(Some(Arc::new(memory)));
            Kept { memory, delivered: AtomicU64::new(before + behind) }
        };
        *chunks = Some((first..).zip(memory).map(kept).collect());
        drop(chunks);
        Some(entry)
    }

    /// Returns memory for so many chunks: from the pool, newly allocated, or taken from the oldest
    /// stripes if they were not used lately.
    fn allocate(&self, count: usize, now: u64) -> Option<Vec<Memory>> {
        if count > self.chunks_max {
            return None;
        }
        let mut free = loop {
            {
                let mut pool = self.pool.lock();
                let unallocated = self.chunks_max - pool.allocated;
                let kept = pool.free.len();
                if kept + unallocated >= count {
                    pool.allocated += count.saturating_sub(kept);
                    break pool.free.split_off(kept.saturating_sub(count));
                }
            }
            self.evict_oldest(now)?;
        };
        free.resize_with(count, || vec![0; self.chunk_bytes.index()]);
        let memory = |bytes| Memory { bytes, pool: Arc::clone(&self.pool) };
        Some(free.into_iter().map(memory).collect())
    }

    /// Removes an old stripe that was not used lately. Returns `None` if there is none.
    fn evict_oldest(&self, now: u64) -> Option<()> {
        // Between two bursts of requests of one reader come those of all others.
        let min_age = 256 + 4 * self.chunks_max as u64;
        let looks = self.order.lock().len().min(EVICT_LOOKS);
        for _ in 0..looks {
            let (stripe, entry) = self.order.lock().pop_front()?;
            if now.saturating_sub(entry.used_at.load(Ordering::Relaxed)) >= min_age {
                self.remove(stripe, &entry);
                return Some(());
            }
            self.order.lock().push_back((stripe, entry));
        }
        None
    }

    fn remove(&self, stripe: u64, entry: &Arc<Entry>) {
        let mut shard = self.shard(stripe);
        if let Some(entries) = shard.get_mut(&stripe) {
            entries.retain(|other| !Arc::ptr_eq(other, entry));
            if entries.is_empty() {
                shard.remove(&stripe);
            }
        }
        drop(shard);
        self.order.lock().retain(|(_, other)| !Arc::ptr_eq(other, entry));
    }

    /// Removes `stripe`, which is about to change. Does not wait.
    pub fn forget(&self, stripe: u64) {
        let entries = self.shard(stripe).remove(&stripe).unwrap_or_default();
        if !entries.is_empty() {
            self.order.lock().retain(|(number, _)| *number != stripe);
        }
    }
}
