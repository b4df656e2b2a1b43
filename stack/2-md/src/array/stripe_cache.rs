//! The stripe cache: whole stripes of a degraded array, kept for readers that will want the rest of
//! them.
//!
//! A sequential reader with requests smaller than a stripe meets the missing chunk once per stripe.
//! Computing it needs all other chunks, which the same reader wanted just before or will want next.
//! The stripe is therefore read once, whole, and kept in array order until all of it was handed
//! out.
//!
//! The budget is strict. If all stripes are in use, [`StripeCache::read`] returns `None` and the
//! caller reads what it needs without the cache. A stripe that is still being read out is not
//! evicted: with more readers than stripes, every request would otherwise read a whole stripe.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use xfskit_block::Result;
use xfskit_units::{ByteLen, ByteOffset, StripeByte, index};

/// Shards of the table of stripes.
const SHARDS: usize = 64;

/// Number of ends of requests that are remembered.
const STREAMS: usize = 4096;

/// Memory of evicted stripes. It is reused because its pages are already mapped.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// The memory of one stripe. Dropping it returns the memory to the pool.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    pool: Spare,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.pool.lock().push(std::mem::take(&mut self.bytes));
    }
}

/// One cached stripe. Its content is `None` while it is read, or if it could not be read.
#[derive(Debug)]
struct Entry {
    content: RwLock<Option<Memory>>,
    /// A [`ByteLen`]: what was handed out, or lies before the start of the first request and will
    /// not be asked for.
    delivered: AtomicU64,
    /// The number of the last lookup that asked for it.
    used_at: AtomicU64,
}

/// Cached stripes by number, and the ends of recent requests.
#[derive(Debug)]
pub struct StripeCache {
    stripe_bytes: ByteLen,
    stripes_max: u64,
    stripes: AtomicU64,
    shards: Vec<Mutex<HashMap<u64, Arc<Entry>>>>,
    /// Stripes in the order in which they were added. Locked once per stripe that is read.
    order: Mutex<VecDeque<u64>>,
    spare: Spare,
    lookups: AtomicU64,
    /// The ends of requests, each a [`ByteOffset`].
    streams: Vec<AtomicU64>,
}
impl StripeCache {
    /// Creates a cache of at most `budget` for stripes of `stripe_bytes`.
    pub fn new(budget: ByteLen, stripe_bytes: ByteLen) -> Self {
        Self {
            stripe_bytes,
            stripes_max: if stripe_bytes.is_zero() { 0 } else { budget.whole(stripe_bytes) },
            stripes: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            order: Mutex::default(),
            spare: Spare::default(),
            lookups: AtomicU64::new(0),
            streams: (0..STREAMS).map(|_| AtomicU64::new(u64::MAX)).collect(),
        }
    }

    /// Returns the memory of all stripes, in use or kept for the next ones.
    pub fn allocated(&self) -> ByteLen {
        // A thread that finds no free stripe counts one more for a moment.
        self.stripe_bytes.times(self.stripes.load(Ordering::Relaxed).min(self.stripes_max))
    }

    /// Records a request for a range of the array. Returns true if an earlier request ended where
    /// it starts.
    pub fn continues(&self, range: &Range<ByteOffset>) -> bool {
        let slot = |at: ByteOffset| {
            let hash = at.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            &self.streams[index(hash % STREAMS as u64)]
        };
        slot(range.end).store(range.end.0, Ordering::Relaxed);
        slot(range.start).load(Ordering::Relaxed) == range.start.0
    }

    fn shard(&self, stripe: u64) -> MutexGuard<'_, HashMap<u64, Arc<Entry>>> {
        self.shards[index(stripe % SHARDS as u64)].lock()
    }

    /// Copies the bytes of `stripe` from `start` on to `buf`. If the stripe is not cached and
    /// `may_fill` is set, reads it with `fill`. Returns `None` if the stripe is not cached and
    /// cannot be read into the cache.
    pub fn read(
        &self,
        stripe: u64,
        start: StripeByte,
        buf: &mut [u8],
        may_fill: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Option<()> {
        let now = self.lookups.fetch_add(1, Ordering::Relaxed);
        let found = self.shard(stripe).get(&stripe).map(Arc::clone);
        let entry = match found {
            Some(entry) => entry,
            None if may_fill => self.insert_filled(stripe, start, now, fill)?,
            None => return None,
        };
        entry.used_at.store(now, Ordering::Relaxed);
        {
            let content = entry.content.read();
            let from = content.as_ref()?.bytes.get(index(start.0)..)?.get(..buf.len())?;
            buf.copy_from_slice(from);
        }
        let more = ByteLen::of(buf);
        let before = ByteLen(entry.delivered.fetch_add(more.0, Ordering::Relaxed));
        if before.plus(more) >= self.stripe_bytes {
            self.remove(stripe, &entry);
        }
        Some(())
    }

    /// Returns the stripe, read by this thread or by another one in the meantime.
    fn insert_filled(
        &self,
        stripe: u64,
        start: StripeByte,
        now: u64,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Option<Arc<Entry>> {
        let mut memory = self.allocate(now)?;
        let entry = Arc::new(Entry {
            content: RwLock::new(None),
            delivered: AtomicU64::new(start.0),
            used_at: AtomicU64::new(now),
        });
        let mut content = entry.content.write();
        {
            let mut shard = self.shard(stripe);
            if let Some(existing) = shard.get(&stripe) {
                return Some(Arc::clone(existing));
            }
            shard.insert(stripe, Arc::clone(&entry));
        }
        self.order.lock().push_back(stripe);
        let result = fill(&mut memory.bytes);
        if result.is_err() {
            self.remove(stripe, &entry);
            return None;
        }
        *content = Some(memory);
        drop(content);
        Some(entry)
    }

    /// Returns memory for one stripe: from the pool, newly allocated, or taken from the oldest
    /// stripe if it was not used lately.
    fn allocate(&self, now: u64) -> Option<Memory> {
        let memory = |bytes| Memory { bytes, pool: Arc::clone(&self.spare) };
        if let Some(bytes) = self.spare.lock().pop() {
            return Some(memory(bytes));
        }
        if self.stripes.fetch_add(1, Ordering::Relaxed) < self.stripes_max {
            return Some(memory(vec![0; self.stripe_bytes.index()]));
        }
        self.stripes.fetch_sub(1, Ordering::Relaxed);
        let min_age = 256 + 4 * self.stripes_max;
        let oldest = self.order.lock().pop_front()?;
        let entry = self.shard(oldest).get(&oldest).map(Arc::clone)?;
        if now.saturating_sub(entry.used_at.load(Ordering::Relaxed)) < min_age {
            self.order.lock().push_back(oldest);
            return None;
        }
        self.remove(oldest, &entry);
        drop(entry);
        self.spare.lock().pop().map(memory)
    }

    fn remove(&self, stripe: u64, entry: &Arc<Entry>) {
        let mut shard = self.shard(stripe);
        if shard.get(&stripe).is_some_and(|there| Arc::ptr_eq(there, entry)) {
            shard.remove(&stripe);
        }
        drop(shard);
        self.order.lock().retain(|other| *other != stripe);
    }

    /// Removes `stripe`, which is about to change. Does not wait.
    pub fn forget(&self, stripe: u64) {
        let found = self.shard(stripe).get(&stripe).map(Arc::clone);
        if let Some(entry) = found {
            self.remove(stripe, &entry);
        }
    }
}
