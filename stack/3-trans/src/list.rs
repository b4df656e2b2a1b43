//! The committed-item list: what was committed since the last checkpoint, and the gate before it.
//!
//! Both are in shards, one for each thread, so that threads do not meet there. A transaction holds its shard's gate shared from
//! begin to end; a checkpoint closes all gates to take the list over. Between two changes of its thread a
//! transaction may [rest](crate::rest), the gate held.

use std::sync::Arc;

use xfskit_format::log::item::Icreate;

use crate::guard;
use crate::lock::{LockRank, LockStats, Ranked, RankedMutex};
use crate::object::Object;
use crate::promises::Promise;
use crate::rest::Slot;
use crate::running::Bell;
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
    pub gate: RwLock<()>,
    /// Rank [`LockRank::Cil`].
    list: RankedMutex<Listed>,
    pub at_rest: Slot,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            gate: RwLock::default(),
            list: RankedMutex::new(LockRank::Cil, Listed::default()),
            at_rest: Slot::default(),
        }
    }
}

/// What was committed since the last checkpoint, on one shard.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub objects: Vec<Arc<Object>>,
    pub icreates: Vec<Icreate>,
    pub promises: Vec<Promise>,
    /// Bytes, roughly, that are not in [`Lists::bytes`] yet.
    pub bytes: usize,
    pub tally: Tally,
}

impl Listed {
    /// Takes over all of `other`.
    fn append(&mut self, other: &mut Self) {
        self.objects.append(&mut other.objects);
        self.icreates.append(&mut other.icreates);
        self.promises.append(&mut other.promises);
        self.bytes += std::mem::take(&mut other.bytes);
        self.tally.take(&mut other.tally);
    }

    /// Forgets everything that was changed, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.icreates.clear();
        self.promises.clear();
        self.bytes = 0;
    }
}

/// The gate, held by a transaction.
#[derive(Debug)]
pub(crate) struct GateGuard<'l> {
    _rank: Ranked,
    shard: RwLockReadGuard<'l, ()>,
    alone: Option<MutexGuard<'l, ()>>,
}

impl<'l> GateGuard<'l> {
    /// True where no other transaction runs.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// Leaves the gate held by a transaction at rest.
    pub(crate) fn leave(self) {
        guard::leave(self.shard);
    }

    /// Takes it over from a transaction at rest in `shard`.
    pub(crate) fn again(shard: &'l Shard) -> Self {
        let rank = Ranked::take(LockRank::Gate);
        Self { _rank: rank, shard: guard::again(&shard.gate), alone: None }
    }
}

/// The list and its gate, and what every commit counts. Shared by the engine and by the caches, whose readers may have to end
/// a transaction at rest.
#[derive(Debug)]
pub(crate) struct Lists {
    pub shards: Vec<Shard>,
    /// True from when somebody wants to close the gate until it is open again.
    pub closing: AtomicBool,
    /// Held meanwhile: who is to begin waits here, apart from those who are to end.
    door: RwLock<()>,
    /// In small journals: held by the one transaction that runs.
    alone: Option<Mutex<()>>,
    /// Bytes on the list, roughly.
    bytes: AtomicUsize,
    /// At this many bytes nobody adds to the list any more.
    limit: usize,
    /// Wakes the thread that writes checkpoints.
    pub bell: Bell,
    /// Held for a moment when the list was taken over, and by those who find it full.
    full: Mutex<()>,
    /// Tells them.
    room: Condvar,
    /// Number of the checkpoint that commits go into.
    number: AtomicU64,
    pub counters: Counters,
    /// Threads that wait for an object that a transaction at rest may hold: nobody rests meanwhile.
    pub waiting: AtomicUsize,
}

impl Lists {
    /// A list of at most `limit` bytes; with `alone`, of one transaction at a time.
    pub(crate) fn new(limit: usize, alone: bool) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            closing: AtomicBool::new(false),
            door: RwLock::default(),
            alone: alone.then(|| Mutex::new(())),
            bytes: AtomicUsize::new(0),
            limit,
            bell: Bell::default(),
            full: Mutex::default(),
            room: Condvar::default(),
            number: AtomicU64::new(1),
            counters: Counters::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// True where transactions run beside each other.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.alone.is_none()
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
    pub(crate) fn wait_for_room(&self, goes_on: impl Fn() -> bool) -> bool {
        let mut full = self.full.lock();
        while self.is_full() && goes_on() {
            if !self.bell.ring() {
                return false;
            }
            self.room.wait(&mut full);
        }
        true
    }

    /// Whoever [waits for room](Self::wait_for_room) looks again.
    pub(crate) fn has_room(&self) {
        drop(self.full.lock());
        self.room.notify_all();
    }

    /// True where a checkpoint is due.
    pub(crate) fn is_due(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit / 2
    }

    /// Bytes, roughly, that a transaction at rest may add to the list: all of them together little.
    pub(crate) fn rest_limit(&self) -> usize {
        self.limit / (8 * SHARDS)
    }

    /// The thread's shard.
    pub(crate) fn shard(&self) -> &Shard {
        &self.shards[shard_of_thread()]
    }

    /// Enters the gate, and says in the second what that took.
    pub(crate) fn enter(&self) -> (GateGuard<'_>, LockStats) {
        let rank = Ranked::take(LockRank::Gate);
        let alone = self.alone.as_ref().map(Mutex::lock);
        let gate = &self.shard().gate;
        let mut waited = LockStats::default();
        let open = if self.closing.load(Ordering::Relaxed) { None } else { gate.try_read() };
        let shard = counted(&mut waited, open.ok_or(()), |()| {
            drop(self.door.read());
            gate.read()
        });
        (GateGuard { _rank: rank, shard, alone }, waited)
    }

    /// Takes over what a transaction committed; its vectors stay with the caller. The caller holds the gate.
    pub(crate) fn list(&self, listed: &mut Listed) {
        let mut list = self.shard().list.lock();
        list.append(listed);
        // The sum is shared by all threads: add to it seldom.
        if list.bytes >= self.limit / (4 * SHARDS) {
            let more = std::mem::take(&mut list.bytes);
            let before = self.bytes.fetch_add(more, Ordering::Relaxed);
            if before + more >= self.limit / 2 {
                self.bell.ring();
            }
        }
    }

    /// Closes the gate, takes over the list, lets `take` look at what is on it, and opens the gate: what is committed from
    /// then on belongs to the next checkpoint. Answers the list, the number of the checkpoint, and what `take` said.
    pub(crate) fn take_over<T>(&self, take: impl FnOnce(&mut Listed) -> T) -> (Listed, u64, T) {
        let _rank = Ranked::take(LockRank::Gate);
        // Those who are to begin wait at the door, at once and all of them: what runs meanwhile is what is to end. There may
        // be many more of them than processors.
        let door = self.door.write();
        self.closing.store(true, Ordering::SeqCst);
        self.settle();
        let gates: Vec<_> = self.shards.iter().map(|shard| shard.gate.write()).collect();
        let mut all = Listed::default();
        for shard in &self.shards {
            all.append(&mut shard.list.lock());
        }
        self.bytes.store(0, Ordering::Relaxed);
        let answer = take(&mut all);
        let number = self.number.fetch_add(1, Ordering::AcqRel);
        drop(gates);
        self.closing.store(false, Ordering::SeqCst);
        drop(door);
        self.has_room();
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
