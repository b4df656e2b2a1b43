//! The engine of one writable volume: caches, ctx_lock, cil, journal, and what ends it.
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
use crate::cil::{Cil, CilItems, Counters};
use crate::force::Forcing;
use crate::icache::InodeCache;
use crate::intents::Ids;
use crate::lock::{LockRank, LockStats, RankedMutex};
use crate::log_item::LogItem;
use crate::remapped::RemappedExtents;
use crate::running::WorkerSignal;
use crate::stats::Tally;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, RwLock};
use crate::trans::{Delta, Trans, TransError};
use crate::writeback::WriteBack;

/// A list is due at the latest when it reaches this many bytes.
const CIL_MAX: usize = 32 << 20;
/// However little memory there is, so many items may wait to be written in place.
const OBJECTS_MIN: usize = 512;
/// In journals smaller than this, one transaction runs at a time: a few more could overfill it.
const SMALL_LOG: u64 = 32 << 20;

/// Why the volume was shut down: the first cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the volume was shut down: {0}")]
pub struct ShutDown(pub Arc<str>);

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

/// What makes a volume writable. Shared by all threads.
#[derive(Debug)]
pub struct Engine {
    geo: Geometry,
    cache: Arc<BufCache>,
    inodes: InodeCache,
    busy: BusyExtents,
    remapped: RemappedExtents,
    pub(crate) cil: Arc<Cil>,
    /// Objects that may wait to be written in place: they stay in memory.
    objects_max: usize,
    data: RwLock<Arc<DataInFlight>>,
    pub(crate) intent_ids: Ids,
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
    /// items that are not in place.
    pub fn new(
        geo: Geometry,
        cache: Arc<BufCache>,
        journal: Journal,
        counters: Delta,
        inodes: usize,
    ) -> Self {
        let log_bytes = u64::from(geo.logblocks) << geo.blocklog;
        let objects_max = inodes.max(OBJECTS_MIN);
        let list_max = CIL_MAX.min(objects_max.saturating_mul(CHUNK));
        let limit = usize::try_from(log_bytes / 8).unwrap_or(CIL_MAX).min(list_max);
        let cil = Arc::new(Cil::new(limit, log_bytes < SMALL_LOG));
        cil.counters.add(counters);
        cache.becomes_writable(Arc::clone(&cil));
        Self {
            busy: BusyExtents::new(geo.agcount),
            remapped: RemappedExtents::new(geo.agcount),
            geo,
            cache,
            inodes: InodeCache::new(inodes, Arc::clone(&cil)),
            cil,
            objects_max,
            data: RwLock::default(),
            intent_ids: Ids::default(),
            ail: Ail::new(),
            write_back: WriteBack::new(),
            journal: RankedMutex::new(LockRank::Journal, journal),
            forcing: Forcing::default(),
            tally: RankedMutex::new(LockRank::Leaf, Tally::default()),
            durable: AtomicU64::new(0),
            shut: OnceLock::new(),
        }
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

    /// An extent that begins with `block` moves in the checkpoint to come. The caller holds the ctx_lock.
    pub(crate) fn note_moved(&self, block: FsBlock) {
        if let Some((agno, _)) = self.geo.fsb_split(block) {
            self.remapped.note(agno, self.checkpoint_number());
        }
    }

    /// The checkpoint that must be durable before an extent that begins with `block` is written in place; `None` where
    /// it is. What moved is known by group only.
    pub fn moved_in(&self, block: FsBlock) -> Option<u64> {
        let (agno, _) = self.geo.fsb_split(block)?;
        let last = self.remapped.last(agno);
        (last > self.durable.load(Ordering::Acquire)).then_some(last)
    }

    /// The superblock's counters. Of transactions at rest, the free inodes are not in them ([`settle`](Self::settle)).
    pub fn counters(&self) -> &Counters {
        &self.cil.counters
    }

    /// Commits all transactions at rest.
    pub fn commit_parked(&self) {
        self.cil.commit_parked();
    }

    /// The data device.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    /// Starts a transaction; waits for room in the committed-item list. The caller holds no item.
    ///
    /// # Errors
    /// [`TransError::ShutDown`].
    pub fn begin(&self) -> Result<Trans<'_>, TransError> {
        // Where there is no thread for it, who needs a checkpoint writes it.
        if self.cil.is_full() && !self.cil.wait_for_space(|| self.check_not_shut_down().is_ok()) {
            self.checkpoint_if(|engine| engine.cil.is_full())?;
        }
        self.check_not_shut_down()?;
        let (ctx_lock, waited) = self.cil.enter();
        Ok(Trans::new(self, ctx_lock, waited))
    }

    /// Goes on in the transaction in which the thread's last change [rests](Trans::rest), else starts one.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn resume(&self) -> Result<Trans<'_>, TransError> {
        match self.cil.resume() {
            Some((work, ctx_lock)) => {
                let trans = Trans::again(self, work, ctx_lock);
                self.check_not_shut_down()?;
                Ok(trans)
            }
            None => self.begin(),
        }
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
        self.commit_parked();
        let (mut sum, locks) = self.cil.tally();
        sum.take(&mut self.tally.lock().clone());
        (sum, locks)
    }

    pub(crate) fn checkpoint_number(&self) -> u64 {
        self.cil.checkpoint_number()
    }

    pub(crate) fn data_ticket(&self) -> DataTicket {
        let data = Arc::clone(&self.data.read());
        *data.count.lock() += 1;
        data.unflushed.store(true, Ordering::Release);
        DataTicket(data)
    }

    /// The caller, who holds the ctx_lock, wrote to the device what the journal does not have.
    pub(crate) fn wrote_unlogged(&self) {
        self.data.read().unflushed.store(true, Ordering::Release);
    }

    /// True where transactions run beside each other, and so may threads that write the journal and in place.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.cil.is_concurrent()
    }

    pub(crate) fn signal(&self) -> &WorkerSignal {
        &self.cil.signal
    }

    /// A checkpoint, where the list is half full.
    pub(crate) fn checkpoint_if_due(&self) -> Result<(), TransError> {
        self.checkpoint_if(|engine| engine.cil.is_due())
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
            return Ok(self.check_not_shut_down()?);
        }
        let is_done = || match self.check_not_shut_down() {
            Err(shut) => Some(Err(shut.into())),
            Ok(()) => is_durable().then_some(Ok(())),
        };
        self.forcing.run(is_done, || self.checkpoint_if(|_| !is_durable()))
    }

    /// All that is committed of `item` becomes durable.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn force_object(&self, item: &LogItem) -> Result<(), TransError> {
        self.commit_parked();
        self.force(item.listed_in())
    }

    /// One checkpoint, if `due` still says so when its turn comes.
    fn checkpoint_if(&self, due: impl Fn(&Self) -> bool) -> Result<(), TransError> {
        let mut journal = self.journal.lock();
        self.check_not_shut_down()?;
        if !due(self) {
            return Ok(());
        }
        let answer = journal.checkpoint(self);
        answer.map_err(|error| TransError::ShutDown(self.shut_down(&error.to_string())))
    }

    /// Takes over the list, and lets `take` look at what is on it while the gate is closed ([`Cil::take_over`]).
    pub(crate) fn take_list<T>(&self, take: impl FnOnce(&CilItems) -> T) -> TakenList<T> {
        let (all, number, (snapshots, data)) = self.cil.take_over(|all| {
            self.tally.lock().take(&mut all.tally);
            (take(all), std::mem::take(&mut *self.data.write()))
        });
        let CilItems { items, icreates, .. } = all;
        TakenList { number, items, icreates, snapshots, data }
    }

    /// Numbers of promises up to `newest` are taken: the journal has them from an earlier life of the volume.
    pub fn promises_follow(&self, newest: u64) {
        self.intent_ids.follow(newest);
    }

    /// Whatever the journal promised when it was opened is answered: its tail need not stay there.
    pub fn let_tail_go(&self) {
        self.journal.lock().let_tail_go();
    }

    pub(crate) fn mark_durable(&self, number: u64) {
        self.durable.store(number, Ordering::Release);
        self.busy.commit_parked(number);
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
        self.check_not_shut_down()?;
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
        let first = first.clone();
        self.cil.notify_space();
        first
    }

    /// Fails where the volume was shut down.
    ///
    /// # Errors
    /// The first cause.
    pub fn check_not_shut_down(&self) -> Result<(), ShutDown> {
        self.shut.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }
}

/// A list that was taken over.
#[derive(Debug)]
pub(crate) struct TakenList<T> {
    pub number: u64,
    pub items: Vec<Arc<LogItem>>,
    pub icreates: Vec<Icreate>,
    pub snapshots: T,
    pub data: Arc<DataInFlight>,
}
