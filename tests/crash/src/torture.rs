//! Crash after crash, until there were enough.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use crate::crash::{Crashes, WEARS};
use crate::judge::{self, Case};
use crate::random::Random;
use crate::run::Run;
use crate::workload::Workload;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub struct Zeal {
    /// Of so many crashes one happens; 1 for all.
    pub crash_one_in: usize,
    /// Of so many crashes the kernel and `xfs_repair -n` are asked about one; 0 for none.
    pub kernel_one_in: usize,
    /// Of so many crashes the recovery is cut at each of its writes for one.
    pub again_one_in: usize,
}

/// How many crashes there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Crashes of the work.
    pub crashes: usize,
    /// Crashes of a recovery.
    pub again: usize,
    /// Crashes of the work that the kernel and `xfs_repair -n` judged too.
    pub kernel: usize,
}

impl Tally {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.again += other.again;
        self.kernel += other.kernel;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { crashes, again, kernel } = self;
        write!(f, "{crashes} crashes of work, {kernel} of them judged by the kernel and ")?;
        write!(f, "xfs_repair too, and {again} crashes of recovery")
    }
}

/// Cases that the kernel has before it at a time: it lets wait.
const CASES: usize = 6;

/// Does the work, and cuts it off everywhere.
///
/// # Errors
/// What is wrong, and where.
pub fn torture(workload: &Workload, seed: u64, zeal: Zeal) -> Result<Tally, String> {
    let run = Run::record(workload, seed);
    let mut random = Random::new(seed ^ 0xc4a5_0000_0000_0000);
    let mut crashes = Crashes::new(run.base.clone(), &run.events);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let mut cases = VecDeque::new();
        while crashes.left() > 0 {
            crashes.advance();
            for wear in WEARS {
                if !random.one_in(zeal.crash_one_in) {
                    continue;
                }
                let crash = crashes.crash(wear, &mut random);
                let (name, begun, total) = (workload.name, crash.begun, run.events.len());
                let at = move |why| {
                    format!("{name}, seed {seed}, {begun} of {total} events, {wear:?}: {why}")
                };
                let recovered = judge::ours(&run, &crash).map_err(at)?;
                tally.crashes += 1;
                if random.one_in(zeal.again_one_in) {
                    tally.again +=
                        judge::again(&run, &crash, &recovered, &mut random).map_err(at)?;
                }
                if zeal.kernel_one_in > 0 && random.one_in(zeal.kernel_one_in) {
                    let case = Case::new(&crash, &recovered);
                    cases.push_back(scope.spawn(move || case.judge().map_err(at)));
                    tally.kernel += 1;
                }
                if cases.len() > CASES {
                    judged(cases.pop_front())?;
                }
            }
        }
        cases.into_iter().try_for_each(|case| judged(Some(case)))?;
        Ok(tally)
    })
}

/// Waits for the answer about a case.
fn judged(case: Option<ScopedJoinHandle<'_, Result<(), String>>>) -> Result<(), String> {
    case.map_or(Ok(()), |case| case.join().unwrap_or_else(|panic| resume_unwind(panic)))
}
