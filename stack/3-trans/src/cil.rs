//! The CIL (committed item list): the items committed since the last checkpoint, and the context
//! lock that protects them.
//!
//! The list and the context lock are sharded by thread, so that threads do not contend. A
//! transaction holds its shard of the context lock shared from begin to end. A checkpoint takes all
//! shards exclusively to take the list over. A transaction that is parked between two changes of
//! its thread keeps the context lock.

use std::sync::Arc;

use xfskit_format::log::item::Icreate;

use crate::guard;
use crate::intents::IntentItem;
use crate::lock::{LockRank, LockStats, Ranked, RankedMutex};
use crate::log_item::LogItem;
use crate::signal::WorkerSignal;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, thread_number};
use crate::tally::{Tally, counted};

/// Shards of the CIL and of its context lock. Threads take them in turn; more threads share them.
pub(crate) const SHARDS: usize = 16;

/// One shard of the CIL and of its context lock, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    pub ctx_lock: RwLock<()>,
    /// Rank [`LockRank::Cil`].
    list: RankedMutex<CilItems>,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            ctx_lock: RwLock::default(),
            list: RankedMutex::new(LockRank::Cil, CilItems::default()),
        }
    }
}

/// The items committed since the last checkpoint, on one shard.
#[derive(Debug, Default)]
pub(crate) struct CilItems {
    pub items: Vec<Arc<LogItem>>,
    pub icreates: Vec<Icreate>,
    pub intents: Vec<IntentItem>,
    /// Bytes, roughly, that [`Cil::bytes`] does not include yet.
    pub bytes: usize,
    pub tally: Tally,
}

impl CilItems {
    /// Moves everything from `other` to the end of this list.
    fn append(&mut self, other: &mut Self) {
        self.items.append(&mut other.items);
        self.icreates.append(&mut other.icreates);
        self.intents.append(&mut other.intents);
        self.bytes += std::mem::take(&mut other.bytes);
        self.tally.take(&mut other.tally);
    }

    /// Removes all items and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.icreates.clear();
        self.intents.clear();
        self.bytes = 0;
    }
}

/// The context lock, held by a transaction.
#[derive(Debug)]
pub(crate) struct CtxGuard<'l> {
    _rank: Ranked,
    shard: RwLockReadGuard<'l, ()>,
    exclusive: Option<MutexGuard<'l, ()>>,
}

impl<'l> CtxGuard<'l> {
    /// Returns true if no other transaction can run.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive.is_some()
    }

    /// Keeps the context lock held on behalf of a parked transaction.
    pub(crate) fn forget(self) {
        guard::forget(self.shard);
    }

    /// Takes the context lock over from the transaction parked in `shard`.
    pub(crate) fn reclaim(shard: &'l Shard) -> Self {
        let rank = Ranked::take(LockRank::CilContext);
        Self { _rank: rank, shard: guard::reclaim(&shard.ctx_lock), exclusive: None }
    }
}

/// The CIL, its context lock, and the counters that every commit changes.
#[derive(Debug)]
pub(crate) struct Cil {
    pub shards: Vec<Shard>,
    /// True while a thread waits for, or holds, the context lock exclusively.
    pub closing: AtomicBool,
    /// Held exclusively during that time. New transactions wait here, so that they do not delay the
    /// transactions that must end first.
    ctx_entry: RwLock<()>,
    /// Held by the running transaction in small journals, where one transaction runs at a time.
    exclusive: Option<Mutex<()>>,
    /// Bytes in the CIL, roughly.
    bytes: AtomicUsize,
    /// From this many bytes on, transactions wait before they begin.
    limit: usize,
    /// Wakes the thread that writes checkpoints.
    pub signal: WorkerSignal,
    /// Protects the condition that [`space`](Self::space) signals.
    full: Mutex<()>,
    /// Signalled when a checkpoint has taken the CIL over.
    space: Condvar,
    /// Number of the checkpoint that will contain current commits.
    number: AtomicU64,
    pub counters: Counters,
}

impl Cil {
    /// Returns an empty CIL of at most `limit` bytes. With `exclusive`, one transaction runs at a
    /// time.
    pub(crate) fn new(limit: usize, exclusive: bool) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            closing: AtomicBool::new(false),
            ctx_entry: RwLock::default(),
            exclusive: exclusive.then(|| Mutex::new(())),
            bytes: AtomicUsize::new(0),
            limit,
            signal: WorkerSignal::default(),
            full: Mutex::default(),
            space: Condvar::default(),
            number: AtomicU64::new(1),
            counters: Counters::default(),
        }
    }

    /// Returns true if transactions run concurrently.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.exclusive.is_none()
    }

    /// Returns the number of the next checkpoint.
    pub(crate) fn checkpoint_number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns true if the CIL has reached its limit.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit
    }

    /// Waits while the CIL is full and `goes_on` returns true. Returns false if no thread writes
    /// checkpoints.
    pub(crate) fn wait_for_space(&self, goes_on: impl Fn() -> bool) -> bool {
        let mut full = self.full.lock();
        while self.is_full() && goes_on() {
            if !self.signal.notify() {
                return false;
            }
            self.space.wait(&mut full);
        }
        true
    }

    /// Wakes the threads that [wait for space](Self::wait_for_space).
    pub(crate) fn notify_space(&self) {
        drop(self.full.lock());
        self.space.notify_all();
    }

    /// Returns true if a checkpoint is due.
    pub(crate) fn is_due(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit / 2
    }

    /// Returns the approximate size in bytes up to which a transaction may be parked, so that all
    /// parked transactions together stay small.
    pub(crate) fn park_limit(&self) -> usize {
        self.limit / (8 * SHARDS)
    }

    /// Returns the calling thread's shard.
    pub(crate) fn shard(&self) -> &Shard {
        &self.shards[shard_of_thread()]
    }

    /// Takes the context lock shared. Returns the guard, and the wait as lock statistics.
    pub(crate) fn enter(&self) -> (CtxGuard<'_>, LockStats) {
        let rank = Ranked::take(LockRank::CilContext);
        let exclusive = self.exclusive.as_ref().map(Mutex::lock);
        let ctx_lock = &self.shard().ctx_lock;
        let mut waited = LockStats::default();
        let open = if self.closing.load(Ordering::Relaxed) { None } else { ctx_lock.try_read() };
        let shard = counted(&mut waited, open.ok_or(()), |()| {
            drop(self.ctx_entry.read());
            ctx_lock.read()
        });
        (CtxGuard { _rank: rank, shard, exclusive }, waited)
    }

    /// Moves the items of a commit into the CIL; the caller keeps the emptied vectors. The caller
    /// holds the context lock.
    pub(crate) fn insert(&self, items: &mut CilItems) {
        let mut list = self.shard().list.lock();
        list.append(items);
        // All threads share the sum, so it is updated seldom.
        if list.bytes >= self.limit / (4 * SHARDS) {
            let more = std::mem::take(&mut list.bytes);
            let before = self.bytes.fetch_add(more, Ordering::Relaxed);
            if before + more >= self.limit / 2 {
                self.signal.notify();
            }
        }
    }

    /// Takes the CIL over for a checkpoint. Holds the context lock exclusively while it collects
    /// the items of all shards and calls `take` on them; later commits belong to the next
    /// checkpoint. Before it takes the lock, `commit_parked` commits the transactions that hold it
    /// while they are parked. Returns the items, the number of the checkpoint, and the result of
    /// `take`.
    pub(crate) fn take_over<T>(
        &self,
        commit_parked: impl FnOnce(),
        take: impl FnOnce(&mut CilItems) -> T,
    ) -> (CilItems, u64, T) {
        let _rank = Ranked::take(LockRank::CilContext);
        // New transactions wait for the entry lock, all at once, so only running transactions have
        // to end. There may be many more threads than processors.
        let ctx_entry = self.ctx_entry.write();
        self.closing.store(true, Ordering::SeqCst);
        commit_parked();
        let ctx_locks: Vec<_> = self.shards.iter().map(|shard| shard.ctx_lock.write()).collect();
        let mut all = CilItems::default();
        for shard in &self.shards {
            all.append(&mut shard.list.lock());
        }
        self.bytes.store(0, Ordering::Relaxed);
        let taken = take(&mut all);
        let number = self.number.fetch_add(1, Ordering::AcqRel);
        drop(ctx_locks);
        self.closing.store(false, Ordering::SeqCst);
        drop(ctx_entry);
        self.notify_space();
        (all, number, taken)
    }

    /// Returns the sum of all shards' tallies, and the statistics of the shards' locks.
    pub(crate) fn tally(&self) -> (Tally, LockStats) {
        let mut sum = Tally::default();
        for shard in &self.shards {
            let mut shard_tally = shard.list.lock().tally;
            sum.take(&mut shard_tally);
        }
        (sum, self.shards.iter().map(|shard| shard.list.stats()).sum())
    }
}

/// Changes of the superblock's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Allocated inodes, free ones included.
    pub icount: i64,
    /// Free inodes.
    pub ifree: i64,
    /// Free blocks.
    pub fdblocks: i64,
}

impl Delta {
    /// Returns true if the change at most took or released existing inodes.
    pub(crate) fn only_takes_inodes(self) -> bool {
        (self.icount, self.fdblocks) == (0, 0)
    }
}

/// The superblock's counters, including all commits so far. They have cache lines of their own,
/// because every thread reads the fields beside them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    icount: AtomicI64,
    fdblocks: AtomicI64,
    /// Changes by shard of threads: every create changes them, and they are seldom summed.
    ifree: [OwnLine; SHARDS],
}

/// A number on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine(AtomicI64);

impl Counters {
    /// Returns the numbers of allocated inodes, free inodes and free blocks.
    pub fn get(&self) -> Delta {
        Delta {
            icount: self.icount.load(Ordering::Relaxed),
            ifree: self.ifree.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum(),
            fdblocks: self.fdblocks.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn add(&self, delta: Delta) {
        for (counter, change) in [
            (&self.icount, delta.icount),
            (&self.ifree[shard_of_thread()].0, delta.ifree),
            (&self.fdblocks, delta.fdblocks),
        ] {
            if change != 0 {
                counter.fetch_add(change, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the shard of the calling thread. Threads take the shards in turn.
pub(crate) fn shard_of_thread() -> usize {
    thread_number() % SHARDS
}
