//! Sync actions: work that goes over the whole array, like md's `resync`, `recover`, `check` and
//! `repair`.
//!
//! An action goes over the array in units: stripes on levels with parity, chunks or megabytes of
//! mirrors. Units are grouped into windows of a few megabytes of every member. While all processors
//! work on one window, the next one is announced to all members, so that disks never wait for
//! parity nor parity for disks. After each window the caller receives the progress and may stop or
//! delay the action. Superblocks record from time to time where to continue ([`MARK_MAX`]).
//!
//! Each window is a barrier, and its first unit that fails decides the error. Threads of std do
//! that as shortly as a pool would, and starting them costs little beside megabytes of parity.
//!
//! | module | action |
//! | --- | --- |
//! | `rebuild` | md's `recover`: members that lack data, and replacements, are filled |
//! | `spare` | spares that take over when a member fails, and members that are re-added |
//! | [`resync`](super::resync) | members are made to agree after a crash |
//! | `check` | md's `check` and `repair`: members are compared ([`scrub`](super::scrub)) |

mod check;
mod rebuild;
mod spare;

use std::ops::{ControlFlow, Range};

use xfskit_block::Result;
use xfskit_units::{ByteLen, Sectors};

use super::Array;

pub use check::ScrubProgress;
pub use spare::{ReAddCandidate, Spare};

/// The part of every member in a window.
const WINDOW: ByteLen = ByteLen(4 << 20);

/// The least part of a member after which progress is recorded in superblocks.
const MARK_MIN: ByteLen = ByteLen(16 << 20);
/// The largest part of a member after which progress is recorded in superblocks; otherwise a 64th
/// of the member.
pub const MARK_MAX: ByteLen = ByteLen(4 << 30);

/// How a sync action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Everything was done.
    Finished,
    /// The caller stopped it.
    Stopped,
}

/// The progress of a sync action, on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Done.
    pub done: ByteLen,
    /// To be done in all.
    pub total: ByteLen,
    /// What no member could deliver: bad blocks of rebuilt members, or sectors that a scrub could
    /// not compare.
    pub bad: Sectors,
}

/// A sync action's units.
pub(super) struct SyncJob<'a> {
    pub(super) units: Range<u64>,
    /// The part of a member in a unit.
    pub(super) unit_bytes: ByteLen,
    /// Tells whether a unit needs work.
    pub(super) needs_work: &'a dyn Fn(u64) -> bool,
    /// Announces what the work on a unit will read.
    pub(super) prefetch: &'a dyn Fn(u64),
}

impl Array {
    /// Runs a sync action: calls `work` on every unit, in several threads. After each window calls
    /// `after` with the next unit and the results of `work`, in order.
    pub(super) fn run_sync_action<T: Send>(
        &self,
        job: &SyncJob<'_>,
        work: impl Fn(u64) -> Result<T> + Sync,
        mut after: impl FnMut(u64, Vec<T>) -> Result<ControlFlow<()>>,
    ) -> Result<Completion> {
        let threads = self.options.threads.max(1);
        let per_window = WINDOW.whole(job.unit_bytes.max(ByteLen(1))).max(threads as u64);
        let window = |start: u64| {
            let end = start.saturating_add(per_window).min(job.units.end);
            (start..end).filter(|unit| (job.needs_work)(*unit)).collect::<Vec<u64>>()
        };
        let mut at = job.units.start;
        let mut units = window(at);
        for unit in &units {
            (job.prefetch)(*unit);
        }
        while at < job.units.end {
            let next = at.saturating_add(per_window).min(job.units.end);
            let following = window(next);
            for unit in &following {
                (job.prefetch)(*unit);
            }
            let results = run_parallel(&units, threads, &work)?;
            if after(next, results)?.is_break() {
                return Ok(Completion::Stopped);
            }
            (at, units) = (next, following);
        }
        Ok(Completion::Finished)
    }
}

/// Calls `work` on all units, in several threads. Returns the results in order.
fn run_parallel<T: Send>(
    units: &[u64],
    threads: usize,
    work: &(impl Fn(u64) -> Result<T> + Sync),
) -> Result<Vec<T>> {
    let some = |units: &[u64]| units.iter().map(|unit| work(*unit)).collect::<Result<Vec<T>>>();
    if threads == 1 || units.len() < 2 {
        return some(units);
    }
    std::thread::scope(|scope| {
        let shares = units.chunks(units.len().div_ceil(threads));
        let workers: Vec<_> = shares.map(|units| scope.spawn(|| some(units))).collect();
        let mut results = Vec::with_capacity(units.len());
        for worker in workers {
            match worker.join() {
                Ok(result) => results.extend(result?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(results)
    })
}
