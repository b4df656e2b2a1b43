//! The engine of one writable volume: caches, CIL, journal, AIL, and shutdown.
//!
//! ```text
//!   Trans ──commit──▶ CIL ──checkpoint──▶ journal ──▶ AIL ──push──▶ device
//! ```
//!
//! 1. A transaction starts only while the CIL has space. However full the CIL gets meanwhile, a
//!    checkpoint takes at most a sixth of the journal. A thread of the engine
//!    ([`Running`](crate::Running)) writes it as soon as the CIL is half full, so that transactions
//!    rarely wait.
//! 2. After a checkpoint at most half of the journal lies between tail and head, apart from items
//!    that the next checkpoint pins; so the next one always finds space.
//! 3. After the first error inside a committed change, or a panic in the midst of one, nothing is
//!    written any more.

use std::sync::Arc;
use std::sync::OnceLock;

use xfskit_block::BlockDevice;
use xfskit_format::log::item::Icreate;
use xfskit_format::log::item::buf::CHUNK;
use xfskit_units::{ByteLen, FsBlock, Geometry};

use crate::ail::Ail;
use crate::buf::BufCache;
use crate::busy::{BusyExtents, Freed};
use crate::cil::{Cil, CilItems, Counters, Delta};
use crate::error::ShutDown;
use crate::force::Forcing;
use crate::icache::InodeCache;
use crate::intents::Ids;
use crate::journal::{Journal, JournalError};
use crate::lock::{LockRank, LockStats, RankedMutex};
use crate::log_item::LogItem;
use crate::park::Parking;
use crate::remapped::RemappedExtents;
use crate::signal::WorkerSignal;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, RwLock};
use crate::tally::Tally;
use crate::unwinding::SinceThen;
use crate::writeback::WriteBack;

/// Largest limit of the CIL, in bytes.
const CIL_MAX: usize = 32 << 20;
/// Items that may wait to be written in place, however little memory there is.
const ITEMS_MIN: usize = 512;
/// In journals smaller than this, in bytes, one transaction runs at a time: a few more could
/// overfill them.
const SMALL_LOG: u64 = 32 << 20;

/// File data that a committed change refers to and that is still to be written. The ticket is
/// dropped once the data is written.
#[derive(Debug)]
pub struct DataTicket {
    data: Arc<DataInFlight>,
    since: SinceThen,
}

impl Drop for DataTicket {
    fn drop(&mut self) {
        if self.since.has_panicked() {
            self.data.lost.store(true, Ordering::Release);
        }
        *self.data.count.lock() -= 1;
        self.data.zero.notify_all();
    }
}

/// The tickets of one checkpoint.
#[derive(Debug, Default)]
pub(crate) struct DataInFlight {
    count: Mutex<usize>,
    zero: Condvar,
    /// The device holds, or will hold, data that the checkpoint's changes refer to and that was not
    /// flushed.
    unflushed: AtomicBool,
    /// A thread panicked before its data was written.
    lost: AtomicBool,
}

impl DataInFlight {
    /// Waits until all data is written. Returns true if the device must be flushed then.
    ///
    /// # Errors
    /// A thread panicked instead of writing its data: the changes must not become durable.
    pub(crate) fn wait(&self) -> Result<bool, JournalError> {
        let mut count = self.count.lock();
        while *count > 0 {
            self.zero.wait(&mut count);
        }
        if self.lost.load(Ordering::Acquire) {
            return Err(JournalError::DataLost);
        }
        Ok(self.unflushed.load(Ordering::Acquire))
    }
}

/// The engine of a writable volume. All threads share it.
#[derive(Debug)]
pub struct Engine {
    geo: Geometry,
    cache: Arc<BufCache>,
    inodes: InodeCache,
    busy: BusyExtents,
    remapped: RemappedExtents,
    pub(crate) parking: Arc<Parking>,
    /// Items that may wait to be written in place: they stay in memory.
    items_max: usize,
    /// Freed blocks are discarded before they may be reused.
    discard: bool,
    data: RwLock<Arc<DataInFlight>>,
    pub(crate) intent_ids: Ids,
    /// Rank [`LockRank::Journal`].
    pub(crate) journal: RankedMutex<Journal>,
    /// Threads that wait for a checkpoint to be durable.
    pub(crate) forcing: Forcing,
    /// Counters as of the newest checkpoint; rank [`LockRank::Leaf`].
    tally: RankedMutex<Tally>,
    /// Number of the newest durable checkpoint.
    durable: AtomicU64,
    pub(crate) ail: Ail,
    pub(crate) write_back: WriteBack,
    shut: OnceLock<ShutDown>,
}

impl Engine {
    /// Returns the engine of the volume `geo` in `cache`, with its journal open for writing.
    /// `counters` are the superblock's, summed anew after recovery. About `inodes` inodes are kept
    /// in memory, and as many items may wait to be written in place.
    pub fn new(
        geo: Geometry,
        cache: Arc<BufCache>,
        journal: Journal,
        counters: Delta,
        inodes: usize,
    ) -> Self {
        let log_bytes = u64::from(geo.logblocks) << geo.blocklog;
        let items_max = inodes.max(ITEMS_MIN);
        let cil_max = CIL_MAX.min(items_max.saturating_mul(CHUNK));
        let limit = usize::try_from(log_bytes / 8).unwrap_or(CIL_MAX).min(cil_max);
        let parking = Arc::new(Parking::new(Cil::new(limit, log_bytes < SMALL_LOG)));
        parking.cil.counters.add(counters);
        cache.attach(Arc::clone(&parking));
        Self {
            busy: BusyExtents::new(geo.agcount),
            remapped: RemappedExtents::new(geo.agcount),
            geo,
            cache,
            inodes: InodeCache::new(inodes, Arc::clone(&parking)),
            parking,
            items_max,
            discard: false,
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

    /// Sets whether freed blocks are discarded, when the checkpoint that freed them is durable.
    pub fn with_discard(self, discard: bool) -> Self {
        Self { discard, ..self }
    }

    /// Returns the geometry of the volume.
    pub fn geo(&self) -> &Geometry {
        &self.geo
    }

    pub(crate) fn cil(&self) -> &Cil {
        &self.parking.cil
    }

    /// Returns the cache of metadata blocks.
    pub fn cache(&self) -> &BufCache {
        &self.cache
    }

    /// Returns the inode cache.
    pub fn inodes(&self) -> &InodeCache {
        &self.inodes
    }

    /// Returns the busy extents.
    pub fn busy(&self) -> &BusyExtents {
        &self.busy
    }

    /// Records that the extent at `block` is remapped in the current checkpoint. The caller holds
    /// the context lock.
    pub(crate) fn note_remapped(&self, block: FsBlock) {
        if let Some((agno, _)) = self.geo.fsb_split(block) {
            self.remapped.note(agno, self.checkpoint_number());
        }
    }

    /// Returns the number of the checkpoint that must be durable before the extent at `block` is
    /// written in place, or `None` if it is durable. Remapped extents are recorded by group only.
    pub fn remapped_in(&self, block: FsBlock) -> Option<u64> {
        let (agno, _) = self.geo.fsb_split(block)?;
        let last = self.remapped.last(agno);
        (!self.is_durable(last)).then_some(last)
    }

    /// Returns the superblock's counters. The free inodes of parked transactions are not included
    /// ([`commit_parked`](Self::commit_parked)).
    pub fn counters(&self) -> &Counters {
        &self.cil().counters
    }

    /// Commits all parked transactions.
    pub fn commit_parked(&self) {
        self.parking.commit_parked();
    }

    /// Returns the data device.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    pub(crate) fn items_max(&self) -> usize {
        self.items_max
    }

    /// Returns the statistics of the journal's writer and of the journal's lock.
    pub(crate) fn journal_stats(&self) -> (xfskit_log::Stats, LockStats) {
        let log = self.journal.lock().stats();
        (log, self.journal.stats())
    }

    /// Returns the counters of transactions, and the statistics of the CIL's locks.
    pub(crate) fn tally(&self) -> (Tally, LockStats) {
        self.commit_parked();
        let (mut sum, locks) = self.cil().tally();
        sum.take(&mut self.tally.lock().clone());
        (sum, locks)
    }

    pub(crate) fn checkpoint_number(&self) -> u64 {
        self.cil().checkpoint_number()
    }

    pub(crate) fn data_ticket(&self) -> DataTicket {
        let data = Arc::clone(&self.data.read());
        *data.count.lock() += 1;
        data.unflushed.store(true, Ordering::Release);
        DataTicket { data, since: SinceThen::new() }
    }

    /// Records that the caller wrote to the device without logging. The caller holds the context
    /// lock.
    pub(crate) fn note_unlogged_write(&self) {
        self.data.read().unflushed.store(true, Ordering::Release);
    }

    /// Returns true if transactions run concurrently. Then checkpoints and AIL pushes have threads
    /// too.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.cil().is_concurrent()
    }

    pub(crate) fn signal(&self) -> &WorkerSignal {
        &self.cil().signal
    }

    /// Takes the CIL over for a checkpoint, and calls `take` on its items under the exclusive
    /// context lock ([`Parking::take_over`]).
    pub(crate) fn take_cil<T>(&self, take: impl FnOnce(&CilItems) -> T) -> TakenCil<T> {
        let (all, number, (snapshots, data)) = self.parking.take_over(|all| {
            self.tally.lock().take(&mut all.tally);
            (take(all), std::mem::take(&mut *self.data.write()))
        });
        let CilItems { items, icreates, .. } = all;
        TakenCil { number, items, icreates, snapshots, data }
    }

    /// Reserves the intent ids up to `newest`: the journal holds intents with them from an earlier
    /// mount.
    pub fn reserve_intent_ids(&self, newest: u64) {
        self.intent_ids.reserve(newest);
    }

    /// Releases the journal's tail: all intents that recovery found are done.
    pub fn release_tail(&self) {
        self.journal.lock().release_tail();
    }

    /// Returns true if checkpoint `number` is durable.
    pub(crate) fn is_durable(&self, number: u64) -> bool {
        self.durable.load(Ordering::Acquire) >= number
    }

    pub(crate) fn mark_durable(&self, number: u64) {
        self.durable.store(number, Ordering::Release);
        if self.discard {
            self.discard_freed(number);
        }
        self.busy.mark_durable(number);
    }

    /// Discards what checkpoints up to `number` freed. A device that fails keeps the blocks.
    fn discard_freed(&self, number: u64) {
        let device = self.cache.device();
        for Freed { agno, agbno, len } in self.busy.freed_until(number) {
            let offset = self.geo.agb_to_daddr(agno, agbno).byte_offset();
            let bytes = ByteLen(u64::from(len.0) << self.geo.blocklog);
            if let Err(error) = device.discard(offset, bytes) {
                tracing::debug!(%error, "freed blocks are not discarded");
            }
        }
    }

    /// Shuts the volume down: nothing is written any more. Returns the first cause.
    pub fn shut_down(&self, cause: &str) -> ShutDown {
        let first = self.shut.get_or_init(|| {
            tracing::error!(cause, "the volume is shut down");
            ShutDown(cause.into())
        });
        let first = first.clone();
        self.cil().notify_space();
        first
    }

    /// Fails if the volume was shut down.
    ///
    /// # Errors
    /// The first cause of the shutdown.
    pub fn check_not_shut_down(&self) -> Result<(), ShutDown> {
        self.shut.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }
}

/// Shuts the volume down if a panic, which is a bug of this program, unwinds through its scope.
///
/// The thread may survive the panic: the server of a mount fails the request and serves the next
/// one. What the panic left half done in memory must not reach the device, so the guard is declared
/// after a lock and dropped before it is released. The journal has all that was durable.
#[derive(Debug)]
pub(crate) struct PanicGuard<'e> {
    engine: &'e Engine,
    during: &'static str,
    since: SinceThen,
}

impl<'e> PanicGuard<'e> {
    /// Returns the guard of work that is named `during` in the cause of the shutdown.
    pub(crate) fn new(engine: &'e Engine, during: &'static str) -> Self {
        Self { engine, during, since: SinceThen::new() }
    }

    /// Shuts the volume down if a panic unwinds.
    pub(crate) fn check(&self) {
        if self.since.has_panicked() {
            self.engine.shut_down(&format!("a bug in xfskit: panic during {}", self.during));
        }
    }
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.check();
    }
}

/// The CIL as a checkpoint took it over.
#[derive(Debug)]
pub(crate) struct TakenCil<T> {
    pub number: u64,
    pub items: Vec<Arc<LogItem>>,
    pub icreates: Vec<Icreate>,
    pub snapshots: T,
    pub data: Arc<DataInFlight>,
}
