//! Tending an array: jobs that go over all of it.
//!
//! A job goes over the array in units: rows of levels with parity, chunks or megabytes of mirrors. Units
//! come in windows, a few megabytes of every member: while one window is worked on by all processors, the
//! next is announced to all members, so that disks never wait for parity nor parity for disks. After
//! each window the caller hears how far it is, and may stop it or slow it down; what it needs to go on from
//! there stands in superblocks from time to time ([`MARK_MAX`]).
//!
//! | module | job |
//! | --- | --- |
//! | `rebuild` | members that lack their content get it; replacements are filled |
//! | `spare` | who takes over when a member fails |
//! | [`resync`](super::resync) | members made to agree after a crash |
//! | `sweep` | members compared ([`scrub`](super::scrub)) over all of the array |

mod check;
mod rebuild;
mod spare;

use std::ops::{ControlFlow, Range};

use xfskit_block::Result;

use super::Array;

pub use check::ScrubProgress;
pub use spare::{ReAddCandidate, Spare};

/// Bytes of every member in a window.
const WINDOW: u64 = 4 << 20;

/// The least bytes of a member after which what is done is noted in superblocks.
const MARK_MIN: u64 = 16 << 20;
/// The most bytes of a member that are done before it is noted in superblocks; otherwise a 64th of it.
pub const MARK_MAX: u64 = 4 << 30;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All is done.
    Finished,
    /// The caller stopped it.
    Stopped,
}

/// How far a job is, in bytes of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Done.
    pub done: u64,
    /// To be done in all.
    pub total: u64,
    /// Sectors that nobody could give: bad blocks of what was rebuilt; what a scrub could not compare.
    pub bad: u64,
}

/// What a job does with units.
pub(super) struct SyncJob<'a> {
    pub(super) units: Range<u64>,
    /// Bytes of a member in a unit.
    pub(super) unit_bytes: u64,
    /// Units that there is something to do in.
    pub(super) wanted: &'a dyn Fn(u64) -> bool,
    /// Announces what the work on a unit will read.
    pub(super) prefetch: &'a dyn Fn(u64),
}

impl Array {
    /// Carries out a job: `work` on every unit, by several threads; after each window `after` with the
    /// unit that comes next and what the work answered, in order.
    pub(super) fn run_sync_action<T: Send>(
        &self,
        job: &SyncJob<'_>,
        work: impl Fn(u64) -> Result<T> + Sync,
        mut after: impl FnMut(u64, Vec<T>) -> Result<ControlFlow<()>>,
    ) -> Result<Completion> {
        let threads = self.options.threads.max(1);
        let per_window = (WINDOW / job.unit_bytes.max(1)).max(threads as u64);
        let window = |start: u64| {
            let end = start.saturating_add(per_window).min(job.units.end);
            (start..end).filter(|unit| (job.wanted)(*unit)).collect::<Vec<u64>>()
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
            let answers = run_parallel(&units, threads, &work)?;
            if after(next, answers)?.is_break() {
                return Ok(Completion::Stopped);
            }
            (at, units) = (next, following);
        }
        Ok(Completion::Finished)
    }
}

/// Works on all units, in as many threads; answers in order.
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
        let mut answers = Vec::with_capacity(units.len());
        for worker in workers {
            match worker.join() {
                Ok(answer) => answers.extend(answer?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(answers)
    })
}
