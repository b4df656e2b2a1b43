//! Whole rows of a degraded array, kept for the readers that will want the rest of them.
//!
//! A sequential reader with requests smaller than a row meets the missing chunk once per row. To
//! compute it takes all other chunks, which the same reader wanted just before or will want next. So
//! the row is read once, whole, and kept in the order of the array until it was handed out.
//!
//! The budget is strict: where all rows are in use, the answer is `None` and the caller reads what it
//! needs without the cache. A row that is still being read out is not pushed out by another: with more
//! readers than rows that would make every request read a whole row.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use xfskit_block::Result;
use xfskit_units::index;

/// Shards of the table of rows.
const SHARDS: usize = 64;

/// Remembered ends of requests.
const STREAMS: usize = 4096;

/// Memory of rows that are gone: its pages are there already.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// Memory for one row, which goes back where it came from.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    home: Spare,
}

impl Drop for Memory {
    fn drop(&mut self) {
        lock(&self.home).push(std::mem::take(&mut self.bytes));
    }
}

/// One row; `None` while it is read, or where it could not be read.
#[derive(Debug)]
struct Entry {
    content: RwLock<Option<Memory>>,
    /// Bytes that were handed out, or lie before where its first reader began: nobody waits for them.
    delivered: AtomicU64,
    /// When it was last asked for, in lookups.
    used_at: AtomicU64,
}

/// Rows by number, and the ends of recent requests.
#[derive(Debug)]
pub struct StripeCache {
    stripe_bytes: u64,
    stripes_max: u64,
    stripes: AtomicU64,
    shards: Vec<Mutex<HashMap<u64, Arc<Entry>>>>,
    /// Rows in the order in which they came. Taken once per row that is read.
    order: Mutex<VecDeque<u64>>,
    spare: Spare,
    lookups: AtomicU64,
    streams: Vec<AtomicU64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StripeCache {
    /// A cache of at most `budget` bytes for rows of `stripe_bytes`.
    pub fn new(budget: u64, stripe_bytes: u64) -> Self {
        Self {
            stripe_bytes,
            stripes_max: budget.checked_div(stripe_bytes).unwrap_or(0),
            stripes: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            order: Mutex::default(),
            spare: Spare::default(),
            lookups: AtomicU64::new(0),
            streams: (0..STREAMS).map(|_| AtomicU64::new(u64::MAX)).collect(),
        }
    }

    /// VerifyLog a request from `start` to `end`, in bytes. True where an earlier one ended at `start`.
    pub fn continues(&self, start: u64, end: u64) -> bool {
        let slot = |at: u64| {
            let hash = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            &self.streams[index(hash % STREAMS as u64)]
        };
        slot(end).store(end, Ordering::Relaxed);
        slot(start).load(Ordering::Relaxed) == start
    }

    fn shard(&self, stripe: u64) -> MutexGuard<'_, HashMap<u64, Arc<Entry>>> {
        lock(&self.shards[index(stripe % SHARDS as u64)])
    }

    /// Copies the bytes of `row` from `start` on to `buf`. Where the row is not here it is read with
    /// `fill`, if `may_fill`. `None`: not here, and no room or no leave to read it.
    pub fn read(
        &self,
        stripe: u64,
        start: u64,
        buf: &mut [u8],
        may_fill: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Option<()> {
        let now = self.lookups.fetch_add(1, Ordering::Relaxed);
        let found = self.shard(stripe).get(&stripe).map(Arc::clone);
        let entry = match found {
            Some(entry) => entry,
            None if may_fill => self.filled(stripe, start, now, fill)?,
            None => return None,
        };
        entry.used_at.store(now, Ordering::Relaxed);
        {
            let content = entry.content.read().unwrap_or_else(PoisonError::into_inner);
            let from = content.as_ref()?.bytes.get(index(start)..)?.get(..buf.len())?;
            buf.copy_from_slice(from);
        }
        let more = buf.len() as u64;
        if entry.delivered.fetch_add(more, Ordering::Relaxed) + more >= self.stripe_bytes {
            self.remove(stripe, &entry);
        }
        Some(())
    }

    /// The row, read by us or, meanwhile, by somebody else.
    fn filled(
        &self,
        stripe: u64,
        start: u64,
        now: u64,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Option<Arc<Entry>> {
        let mut memory = self.room(now)?;
        let entry = Arc::new(Entry {
            content: RwLock::new(None),
            delivered: AtomicU64::new(start),
            used_at: AtomicU64::new(now),
        });
        let mut content = entry.content.write().unwrap_or_else(PoisonError::into_inner);
        {
            let mut shard = self.shard(stripe);
            if let Some(theirs) = shard.get(&stripe) {
                return Some(Arc::clone(theirs));
            }
            shard.insert(stripe, Arc::clone(&entry));
        }
        lock(&self.order).push_back(stripe);
        let answer = fill(&mut memory.bytes);
        if answer.is_err() {
            self.remove(stripe, &entry);
            return None;
        }
        *content = Some(memory);
        drop(content);
        Some(entry)
    }

    /// Memory for one row: spare, new, or of the oldest row if nobody asked for it lately.
    fn room(&self, now: u64) -> Option<Memory> {
        let memory = |bytes| Memory { bytes, home: Arc::clone(&self.spare) };
        if let Some(bytes) = lock(&self.spare).pop() {
            return Some(memory(bytes));
        }
        if self.stripes.fetch_add(1, Ordering::Relaxed) < self.stripes_max {
            return Some(memory(vec![0; index(self.stripe_bytes)]));
        }
        self.stripes.fetch_sub(1, Ordering::Relaxed);
        let patience = 256 + 4 * self.stripes_max;
        let oldest = lock(&self.order).pop_front()?;
        let entry = self.shard(oldest).get(&oldest).map(Arc::clone)?;
        if now.saturating_sub(entry.used_at.load(Ordering::Relaxed)) < patience {
            lock(&self.order).push_back(oldest);
            return None;
        }
        self.remove(oldest, &entry);
        drop(entry);
        lock(&self.spare).pop().map(memory)
    }

    fn remove(&self, stripe: u64, entry: &Arc<Entry>) {
        let mut shard = self.shard(stripe);
        if shard.get(&stripe).is_some_and(|there| Arc::ptr_eq(there, entry)) {
            shard.remove(&stripe);
        }
        drop(shard);
        lock(&self.order).retain(|other| *other != stripe);
    }

    /// Forgets `row`, which is about to change. Waits for nobody.
    pub fn forget(&self, stripe: u64) {
        let found = self.shard(stripe).get(&stripe).map(Arc::clone);
        if let Some(entry) = found {
            self.remove(stripe, &entry);
        }
    }
}
