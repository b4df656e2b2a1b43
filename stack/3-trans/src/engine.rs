//! The engine of one writable volume: caches, gate, lists, journal, and what ends it.
//!
//! ```text
//!   Trans ──commit──▶ CIL ──checkpoint──▶ journal ──▶ AIL ──write-back──▶ device
//! ```
//!
//! 1. A transaction starts only while the list has room; a checkpoint, however full the list gets
//!    meanwhile, is at most a sixth of the journal. A thread of the engine's own ([`Running`](crate::Running)) writes it as soon
//!    as the list is half full, so that nobody waits.
//! 2. After a checkpoint at most half of the journal lies between tail and head, apart from what is
//!    pinned by the next checkpoint; so the next one always finds room.
//! 3. After the first error inside a committed change nothing is written any more.

use std::sync::Arc;
use std::sync::OnceLock;

use xfskit_block::BlockDevice;
use xfskit_format::log::item::Icreate;
use xfskit_format::log::item::buf::CHUNK;
use xfskit_units::{FsBlock, Geometry, Lsn};

use crate::ail::Ail;
use crate::buf::{BufCache, BufError};
use crate::busy::BusyExtents;
use crate::checkpoint::Journal;
use crate::force::Forcing;
use crate::icache::InodeCache;
use crate::lock::{LockRank, LockStats, Ranked, RankedMutex};
use crate::moved::Moved;
use crate::object::Object;
use crate::promises::{Ids, Promise};
use crate::running::Bell;
use crate::stats::{Tally, counted};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, thread_number};
use crate::trans::{Delta, Trans, TransError};
use crate::writeback::WriteBack;

/// Shards of gate and list: threads take one each, more threads share.
const SHARDS: usize = 16;
/// A list is due at the latest when it reaches this many bytes.
const CIL_MAX: usize = 32 << 20;
/// However little memory there is, so many objects may wait to be written in place.
const OBJECTS_MIN: usize = 512;
/// In journals smaller than this, one transaction runs at a time: a few more could overfill it.
const SMALL_LOG: u64 = 32 << 20;

/// Why the volume was shut down: the first cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the volume was shut down: {0}")]
pub struct ShutDown(pub Arc<str>);

/// One shard of the gate and the committed-item list, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    gate: RwLock<()>,
    /// Rank [`LockRank::Cil`].
    list: RankedMutex<Listed>,
}

impl Default for Shard {
    fn default() -> Self {
        Self { gate: RwLock::default(), list: RankedMutex::new(LockRank::Cil, Listed::default()) }
    }
}

/// What was committed since the last checkpoint, on one shard.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub objects: Vec<Arc<Object>>,
    pub icreates: Vec<Icreate>,
    pub promises: Vec<Promise>,
    /// Bytes, roughly, that are not in [`Engine::listed_bytes`] yet.
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
pub(crate) struct GateGuard<'e> {
    _rank: Ranked,
    _shard: RwLockReadGuard<'e, ()>,
    _alone: Option<MutexGuard<'e, ()>>,
}

/// Data that a committed change refers to is still to be written; dropped when it is.
#[derive(Debug)]
pub struct DataTicket(Arc<DataInFlight>);

impl Drop for DataTicket {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.zero.notify_all();
    }
}

/// Tickets given out for one checkpoint.
#[derive(Debug, Default)]
pub(crate) struct DataInFlight {
    count: Mutex<usize>,
    zero: Condvar,
    /// The device holds data, or will, that the checkpoint's changes refer to, and that was not flushed.
    unflushed: AtomicBool,
}

impl DataInFlight {
    /// Waits until all of it is written; true where the device is to be flushed then.
    pub(crate) fn wait(&self) -> bool {
        let mut count = self.count.lock();
        while *count > 0 {
            self.zero.wait(&mut count);
        }
        self.unflushed.load(Ordering::Acquire)
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

    fn add(&self, delta: Delta) {
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

/// What makes a volume writable. Shared by all threads.
#[derive(Debug)]
pub struct Engine {
    geo: Geometry,
    cache: Arc<BufCache>,
    inodes: InodeCache,
    busy: BusyExtents,
    moved: Moved,
    counters: Counters,
    shards: Vec<Shard>,
    /// True from when somebody wants to close the gate until it is open again.
    closing: AtomicBool,
    /// Held meanwhile: who is to begin waits here, apart from those who are to end.
    door: RwLock<()>,
    /// In small journals: held by the one transaction that runs.
    alone: Option<Mutex<()>>,
    listed_bytes: AtomicUsize,
    /// Objects that may wait to be written in place: they stay in memory.
    objects_max: usize,
    /// At this many bytes nobody adds to the list any more.
    list_limit: usize,
    /// Wakes the thread that writes checkpoints.
    bell: Bell,
    /// Number of the checkpoint that commits go into.
    number: AtomicU64,
    data: RwLock<Arc<DataInFlight>>,
    pub(crate) promise_ids: Ids,
    /// Rank [`LockRank::Journal`].
    pub(crate) journal: RankedMutex<Journal>,
    /// Those who wait for a checkpoint to be durable.
    pub(crate) forcing: Forcing,
    /// What was done, as of the newest checkpoint; rank [`LockRank::Leaf`].
    tally: RankedMutex<Tally>,
    /// The newest durable checkpoint.
    durable: AtomicU64,
    pub(crate) ail: Ail,
    pub(crate) write_back: WriteBack,
    shut: OnceLock<ShutDown>,
}

impl Engine {
    /// The engine of the volume `geo` in `cache`, with its journal opened for writing. `counters` are
    /// the superblock's, summed anew after recovery. About `inodes` inodes are kept in memory, and so many
    /// objects that are not in place.
    pub fn new(
        geo: Geometry,
        cache: Arc<BufCache>,
        journal: Journal,
        counters: Delta,
        inodes: usize,
    ) -> Self {
        cache.becomes_writable();
        let log_bytes = u64::from(geo.logblocks) << geo.blocklog;
        let objects_max = inodes.max(OBJECTS_MIN);
        let list_max = CIL_MAX.min(objects_max.saturating_mul(CHUNK));
        let engine = Self {
            busy: BusyExtents::new(geo.agcount),
            moved: Moved::new(geo.agcount),
            geo,
            cache,
            inodes: InodeCache::new(inodes),
            counters: Counters::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            closing: AtomicBool::new(false),
            door: RwLock::default(),
            alone: (log_bytes < SMALL_LOG).then(|| Mutex::new(())),
            listed_bytes: AtomicUsize::new(0),
            bell: Bell::default(),
            objects_max,
            list_limit: usize::try_from(log_bytes / 8).unwrap_or(CIL_MAX).min(list_max),
            number: AtomicU64::new(1),
            data: RwLock::default(),
            promise_ids: Ids::default(),
            ail: Ail::new(),
            write_back: WriteBack::new(),
            journal: RankedMutex::new(LockRank::Journal, journal),
            forcing: Forcing::default(),
            tally: RankedMutex::new(LockRank::Leaf, Tally::default()),
            durable: AtomicU64::new(0),
            shut: OnceLock::new(),
        };
        engine.counters.add(counters);
        engine
    }

    /// Sizes and conversions.
    pub fn geo(&self) -> &Geometry {
        &self.geo
    }

    /// Metadata blocks.
    pub fn cache(&self) -> &BufCache {
        &self.cache
    }

    /// Inodes.
    pub fn inodes(&self) -> &InodeCache {
        &self.inodes
    }

    /// Blocks that were freed too recently.
    pub fn busy(&self) -> &BusyExtents {
        &self.busy
    }

    /// An extent that begins with `block` moves in the checkpoint to come. The caller holds the gate.
    pub(crate) fn note_moved(&self, block: FsBlock) {
        if let Some((agno, _)) = self.geo.fsb_split(block) {
            self.moved.note(agno, self.checkpoint_number());
        }
    }

    /// The checkpoint that must be durable before an extent that begins with `block` is written in place; `None` where
    /// it is. What moved is known by group only.
    pub fn moved_in(&self, block: FsBlock) -> Option<u64> {
        let (agno, _) = self.geo.fsb_split(block)?;
        let last = self.moved.last(agno);
        (last > self.durable.load(Ordering::Acquire)).then_some(last)
    }

    /// The superblock's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The data device.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    /// Starts a transaction; waits for room in the committed-item list. The caller holds no object.
    ///
    /// # Errors
    /// [`TransError::ShutDown`].
    pub fn begin(&self) -> Result<Trans<'_>, TransError> {
        if self.listed_bytes.load(Ordering::Relaxed) >= self.list_limit {
            self.checkpoint_if(|engine| {
                engine.listed_bytes.load(Ordering::Relaxed) >= engine.list_limit
            })?;
        }
        self.is_up()?;
        let rank = Ranked::take(LockRank::Gate);
        let alone = self.alone.as_ref().map(Mutex::lock);
        let gate = &self.shards[shard_of_thread()].gate;
        let mut waited = LockStats::default();
        let open = if self.closing.load(Ordering::Relaxed) { None } else { gate.try_read() };
        let shard = counted(&mut waited, open.ok_or(()), |()| {
            drop(self.door.read());
            gate.read()
        });
        Ok(Trans::new(self, GateGuard { _rank: rank, _shard: shard, _alone: alone }, waited))
    }

    pub(crate) fn objects_max(&self) -> usize {
        self.objects_max
    }

    /// What the journal's writer did, and the journal's lock.
    pub(crate) fn journal_stats(&self) -> (xfskit_log::Stats, LockStats) {
        let log = self.journal.lock().stats();
        (log, self.journal.stats())
    }

    /// What transactions did, and the locks of the list.
    pub(crate) fn tally(&self) -> (Tally, LockStats) {
        let mut sum = *self.tally.lock();
        for shard in &self.shards {
            let mut of_shard = shard.list.lock().tally;
            sum.take(&mut of_shard);
        }
        (sum, self.shards.iter().map(|shard| shard.list.stats()).sum())
    }

    pub(crate) fn checkpoint_number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn data_ticket(&self) -> DataTicket {
        let data = Arc::clone(&self.data.read());
        *data.count.lock() += 1;
        data.unflushed.store(true, Ordering::Release);
        DataTicket(data)
    }

    /// The caller, who holds the gate, wrote to the device what the journal does not have.
    pub(crate) fn wrote_unlogged(&self) {
        self.data.read().unflushed.store(true, Ordering::Release);
    }

    /// Takes over what a transaction committed; its vectors stay with the caller. The caller holds the gate.
    pub(crate) fn list(&self, listed: &mut Listed) {
        let mut list = self.shards[shard_of_thread()].list.lock();
        list.append(listed);
        // The sum is shared by all threads: add to it seldom.
        if list.bytes >= self.list_limit / (4 * SHARDS) {
            let more = std::mem::take(&mut list.bytes);
            let before = self.listed_bytes.fetch_add(more, Ordering::Relaxed);
            if before + more >= self.list_limit / 2 {
                self.bell.ring();
            }
        }
    }

    pub(crate) fn apply(&self, delta: Delta) {
        self.counters.add(delta);
    }

    /// True where transactions run beside each other, and so may threads that write the journal and in place.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.alone.is_none()
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// A checkpoint, where the list is half full.
    pub(crate) fn checkpoint_if_due(&self) -> Result<(), TransError> {
        self.checkpoint_if(|engine| {
            engine.listed_bytes.load(Ordering::Relaxed) >= engine.list_limit / 2
        })
    }

    /// All that is committed becomes durable.
    ///
    /// # Errors
    /// [`TransError::ShutDown`] where the journal could not be written, now or earlier.
    pub fn checkpoint(&self) -> Result<(), TransError> {
        self.checkpoint_if(|_| true)
    }

    /// All that is committed up to checkpoint `number` becomes durable. Several threads that ask at once
    /// share one write of the journal.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn force(&self, number: u64) -> Result<(), TransError> {
        let is_durable = || self.durable.load(Ordering::Acquire) >= number;
        if is_durable() {
            return Ok(self.is_up()?);
        }
        let is_done = || match self.is_up() {
            Err(shut) => Some(Err(shut.into())),
            Ok(()) => is_durable().then_some(Ok(())),
        };
        self.forcing.run(is_done, || self.checkpoint_if(|_| !is_durable()))
    }

    /// One checkpoint, if `due` still says so when its turn comes.
    fn checkpoint_if(&self, due: impl Fn(&Self) -> bool) -> Result<(), TransError> {
        let mut journal = self.journal.lock();
        self.is_up()?;
        if !due(self) {
            return Ok(());
        }
        let answer = journal.checkpoint(self);
        answer.map_err(|error| TransError::ShutDown(self.shut_down(&error.to_string())))
    }

    /// Closes the gate, takes over the list, lets `take` look at what is on it, and opens the gate: what
    /// is committed from then on belongs to the next checkpoint.
    pub(crate) fn take_list<T>(&self, take: impl FnOnce(&Listed) -> T) -> TakenList<T> {
        let _rank = Ranked::take(LockRank::Gate);
        // Those who are to begin wait at the door, at once and all of them: what runs meanwhile is what is to end. There may
        // be many more of them than processors.
        let door = self.door.write();
        self.closing.store(true, Ordering::Relaxed);
        let gates: Vec<_> = self.shards.iter().map(|shard| shard.gate.write()).collect();
        let mut all = Listed::default();
        for shard in &self.shards {
            all.append(&mut shard.list.lock());
        }
        self.tally.lock().take(&mut all.tally);
        self.listed_bytes.store(0, Ordering::Relaxed);
        let snapshots = take(&all);
        let number = self.number.fetch_add(1, Ordering::AcqRel);
        let data = std::mem::take(&mut *self.data.write());
        drop(gates);
        self.closing.store(false, Ordering::Relaxed);
        drop(door);
        let Listed { objects, icreates, .. } = all;
        TakenList { number, objects, icreates, snapshots, data }
    }

    /// Numbers of promises up to `newest` are taken: the journal has them from an earlier life of the volume.
    pub fn promises_follow(&self, newest: u64) {
        self.promise_ids.follow(newest);
    }

    /// Whatever the journal promised when it was opened is answered: its tail need not stay there.
    pub fn let_tail_go(&self) {
        self.journal.lock().let_tail_go();
    }

    pub(crate) fn is_durable(&self, number: u64) {
        self.durable.store(number, Ordering::Release);
        self.busy.settle(number);
    }

    /// All that is committed becomes durable and goes in place, and the journal is marked clean. The caller
    /// lets no transaction begin any more.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn unmount(&self) -> Result<(), TransError> {
        self.checkpoint()?;
        self.write_back()?;
        let done = self.journal.lock().unmount();
        done.map_err(|error| TransError::ShutDown(self.shut_down(&error.to_string())))
    }

    /// Everything that is durable in the journal goes in place: memory becomes free.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn write_back(&self) -> Result<(), TransError> {
        self.write_back_with(|| self.write_back.push(self, Lsn(u64::MAX)))
    }

    /// What the thread that writes in place was asked for.
    pub(crate) fn write_back_wanted(&self) -> Result<(), TransError> {
        self.write_back_with(|| self.write_back.push_wanted(self))
    }

    fn write_back_with(
        &self,
        push: impl FnOnce() -> Result<(), BufError>,
    ) -> Result<(), TransError> {
        self.is_up()?;
        push().map_err(|error| {
            let cause = format!("metadata cannot be written back: {error}");
            TransError::ShutDown(self.shut_down(&cause))
        })
    }

    /// Ends all writing; the first cause is kept, and answered.
    pub fn shut_down(&self, cause: &str) -> ShutDown {
        let first = self.shut.get_or_init(|| {
            tracing::error!(cause, "the volume is shut down");
            ShutDown(cause.into())
        });
        first.clone()
    }

    /// Fails where the volume was shut down.
    ///
    /// # Errors
    /// The first cause.
    pub fn is_up(&self) -> Result<(), ShutDown> {
        self.shut.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }
}

/// A list that was taken over.
#[derive(Debug)]
pub(crate) struct TakenList<T> {
    pub number: u64,
    pub objects: Vec<Arc<Object>>,
    pub icreates: Vec<Icreate>,
    pub snapshots: T,
    pub data: Arc<DataInFlight>,
}

/// Threads take the shards in turn.
fn shard_of_thread() -> usize {
    thread_number() % SHARDS
}
