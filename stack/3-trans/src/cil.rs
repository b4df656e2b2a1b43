//! The committed-item list: what was committed since the last checkpoint, and the gate before it.
//!
//! Both are in shards, one for each thread, so that threads do not meet there. A transaction holds its shard's gate shared from
//! begin to end; a checkpoint closes all gates to take the list over. Between two changes of its thread a
//! transaction may [rest](crate::park), the gate held.

use std::sync::Arc;

use xfskit_format::log::item::Icreate;

use crate::guard;
use crate::intents::IntentItem;
use crate::lock::{LockRank, LockStats, Ranked, RankedMutex};
use crate::log_item::LogItem;
use crate::park::Slot;
use crate::running::WorkerSignal;
use crate::stats::{Tally, counted};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, thread_number};
use crate::trans::Delta;

/// Shards of gate and list: threads take one each, more threads share.
pub(crate) const SHARDS: usize = 16;

/// One shard of the gate and the committed-item list, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    pub ctx_lock: RwLock<()>,
    /// Rank [`LockRank::Cil`].
    list: RankedMutex<CilItems>,
    pub parked: Slot,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            ctx_lock: RwLock::default(),
            list: RankedMutex::new(LockRank::Cil, CilItems::default()),
            parked: Slot::default(),
        }
    }
}

/// What was committed since the last checkpoint, on one shard.
#[derive(Debug, Default)]
pub(crate) struct CilItems {
    pub items: Vec<Arc<LogItem>>,
    pub icreates: Vec<Icreate>,
    pub intents: Vec<IntentItem>,
    /// Bytes, roughly, that are not in [`Cil::bytes`] yet.
    pub bytes: usize,
    pub tally: Tally,
}

impl CilItems {
    /// Takes over all of `other`.
    fn append(&mut self, other: &mut Self) {
        self.items.append(&mut other.items);
        self.icreates.append(&mut other.icreates);
        self.intents.append(&mut other.intents);
        self.bytes += std::mem::take(&mut other.bytes);
        self.tally.take(&mut other.tally);
    }

    /// Forgets everything that was changed, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.icreates.clear();
        self.intents.clear();
        self.bytes = 0;
    }
}

/// The ctx_lock, held by a transaction.
#[derive(Debug)]
pub(crate) struct CtxGuard<'l> {
    _rank: Ranked,
    shard: RwLockReadGuard<'l, ()>,
    exclusive: Option<MutexGuard<'l, ()>>,
}

impl<'l> CtxGuard<'l> {
    /// True where no other transaction runs.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive.is_some()
    }

    /// Leaves the gate held by a transaction at rest.
    pub(crate) fn leave(self) {
        guard::leave(self.shard);
    }

    /// Takes it over from a transaction at rest in `shard`.
    pub(crate) fn again(shard: &'l Shard) -> Self {
        let rank = Ranked::take(LockRank::CilContext);
        Self { _rank: rank, shard: guard::again(&shard.ctx_lock), exclusive: None }
    }
}

/// The list and its ctx_lock, and what every commit counts. Shared by the engine and by the caches, whose readers may have to end
/// a transaction at rest.
#[derive(Debug)]
pub(crate) struct Cil {
    pub shards: Vec<Shard>,
    /// True from when somebody wants to close the gate until it is open again.
    pub closing: AtomicBool,
    /// Held meanwhile: who is to begin waits here, apart from those who are to end.
    ctx_entry: RwLock<()>,
    /// In small journals: held by the one transaction that runs.
    exclusive: Option<Mutex<()>>,
    /// Bytes on the list, roughly.
    bytes: AtomicUsize,
    /// At this many bytes nobody adds to the list any more.
    limit: usize,
    /// Wakes the thread that writes checkpoints.
    pub signal: WorkerSignal,
    /// Held for a moment when the list was taken over, and by those who find it full.
    full: Mutex<()>,
    /// Tells them.
    space: Condvar,
    /// Number of the checkpoint that commits go into.
    number: AtomicU64,
    pub counters: Counters,
    /// Threads that wait for a log item that a transaction at rest may hold: nobody rests meanwhile.
    pub waiting: AtomicUsize,
}

impl Cil {
    /// A list of at most `limit` bytes; with `exclusive`, of one transaction at a time.
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
            waiting: AtomicUsize::new(0),
        }
    }

    /// True where transactions run beside each other.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.exclusive.is_none()
    }

    /// Number of the checkpoint that is to come.
    pub(crate) fn checkpoint_number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// True where nobody may add to the list.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit
    }

    /// Waits while the list is full and `goes_on`; false where there is nobody to take it over.
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

    /// Whoever [waits for room](Self::wait_for_space) looks again.
    pub(crate) fn notify_space(&self) {
        drop(self.full.lock());
        self.space.notify_all();
    }

    /// True where a checkpoint is due.
    pub(crate) fn is_due(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit / 2
    }

    /// Bytes, roughly, that a transaction at rest may add to the list: all of them together little.
    pub(crate) fn park_limit(&self) -> usize {
        self.limit / (8 * SHARDS)
    }

    /// The thread's shard.
    pub(crate) fn shard(&self) -> &Shard {
        &self.shards[shard_of_thread()]
    }

    /// Enters the ctx_lock, and says in the second what that took.
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

    /// Takes over what a transaction committed; its vectors stay with the caller. The caller holds the ctx_lock.
    pub(crate) fn insert(&self, items: &mut CilItems) {
        let mut list = self.shard().list.lock();
        list.append(items);
        // The sum is shared by all threads: add to it seldom.
        if list.bytes >= self.limit / (4 * SHARDS) {
            let more = std::mem::take(&mut list.bytes);
            let before = self.bytes.fetch_add(more, Ordering::Relaxed);
            if before + more >= self.limit / 2 {
                self.signal.notify();
            }
        }
    }

    /// Closes the ctx_lock, takes over the list, lets `take` look at what is on it, and opens the ctx_lock: what is committed from
    /// then on belongs to the next checkpoint. Answers the list, the number of the checkpoint, and what `take` said.
    pub(crate) fn take_over<T>(&self, take: impl FnOnce(&mut CilItems) -> T) -> (CilItems, u64, T) {
        let _rank = Ranked::take(LockRank::CilContext);
        // Those who are to begin wait at the door, at once and all of them: what runs meanwhile is what is to end. There may
        // be many more of them than processors.
        let ctx_entry = self.ctx_entry.write();
        self.closing.store(true, Ordering::SeqCst);
        self.commit_parked();
        let ctx_locks: Vec<_> = self.shards.iter().map(|shard| shard.ctx_lock.write()).collect();
        let mut all = CilItems::default();
        for shard in &self.shards {
            all.append(&mut shard.list.lock());
        }
        self.bytes.store(0, Ordering::Relaxed);
        let answer = take(&mut all);
        let number = self.number.fetch_add(1, Ordering::AcqRel);
        drop(ctx_locks);
        self.closing.store(false, Ordering::SeqCst);
        drop(ctx_entry);
        self.notify_space();
        (all, number, answer)
    }

    /// What transactions counted since the last checkpoint, and the locks of the list.
    pub(crate) fn tally(&self) -> (Tally, LockStats) {
        let mut sum = Tally::default();
        for shard in &self.shards {
            let mut of_shard = shard.list.lock().tally;
            sum.take(&mut of_shard);
        }
        (sum, self.shards.iter().map(|shard| shard.list.stats()).sum())
    }
}

/// The superblock's counters, as of all commits so far. On cache lines of their own: every thread reads what stands beside.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    icount: AtomicI64,
    fdblocks: AtomicI64,
    /// What each shard of threads took and gave back: it changes with every file, and is seldom asked for.
    ifree: [OwnLine; SHARDS],
}

/// A number on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine(AtomicI64);

impl Counters {
    /// Inodes that exist, inodes that are free, blocks that are free.
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

/// Threads take the shards in turn.
pub(crate) fn shard_of_thread() -> usize {
    thread_number() % SHARDS
}
