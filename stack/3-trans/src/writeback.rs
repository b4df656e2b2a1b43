//! The state of the AIL push: what is asked for, and what is being written.

use xfskit_block::AlignedBuf;

use crate::lock::{LockRank, LockStats, Ranked, RankedMutex};
use crate::signal::WorkerSignal;
use crate::sync::RwLock;
use crate::sync::atomic::AtomicU64;
use crate::tally::AilStats;

/// State of the AIL push.
#[derive(Debug)]
pub(crate) struct WriteBack {
    /// Held by the one thread that pushes; rank [`LockRank::WriteBack`].
    pub(crate) state: RankedMutex<PushState>,
    /// Held shared from the copy of a block until it is written; rank [`LockRank::InFlight`].
    pub(crate) in_flight: RwLock<()>,
    /// An [`Lsn`](xfskit_units::Lsn), up to which the thread is asked to push.
    pub(crate) requested: AtomicU64,
    /// Wakes the thread.
    pub(crate) signal: WorkerSignal,
}

/// State that a push leaves for the next one.
#[derive(Debug, Default)]
pub(crate) struct PushState {
    pub stats: AilStats,
    /// Empty buffers, whose memory is reused for batches.
    pub buffers: [AlignedBuf; 2],
}

impl WriteBack {
    pub(crate) fn new() -> Self {
        Self {
            state: RankedMutex::new(LockRank::WriteBack, PushState::default()),
            in_flight: RwLock::default(),
            requested: AtomicU64::new(0),
            signal: WorkerSignal::default(),
        }
    }

    /// Returns the counters of pushes, and the statistics of their lock.
    pub(crate) fn stats(&self) -> (AilStats, LockStats) {
        let done = self.state.lock().stats;
        (done, self.state.stats())
    }

    pub(crate) fn signal(&self) -> &WorkerSignal {
        &self.signal
    }

    /// Waits until every copy made before now is written.
    pub(crate) fn wait_in_flight(&self) {
        let _rank = Ranked::take(LockRank::InFlight);
        drop(self.in_flight.write());
    }
}
