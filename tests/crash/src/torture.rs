//! Repeated crashes of one workload.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use xfskit_test_support::Random;

use crate::crash::{Crashes, WRITE_LOSSES};
use crate::run::Run;
use crate::verify::{self, Case};
use crate::workload::Workload;

/// Sampling rates.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// One crash in this many is made; 1 for all.
    pub crash_one_in: usize,
    /// For one crash in this many the kernel and `xfs_repair -n` verify the result; 0 for none.
    pub kernel_one_in: usize,
    /// For one crash in this many the recovery is interrupted at each of its writes.
    pub interrupt_one_in: usize,
}

/// Numbers of crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashCounts {
    /// Crashes of the workload.
    pub crashes: usize,
    /// Crashes of a recovery.
    pub recovery_crashes: usize,
    /// Crashes of the workload that the kernel and `xfs_repair -n` verified too.
    pub kernel: usize,
}

impl CrashCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.recovery_crashes += other.recovery_crashes;
        self.kernel += other.kernel;
    }
}

impl std::fmt::Display for CrashCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { crashes, recovery_crashes, kernel } = self;
        write!(
            f,
            "{crashes} crashes of the workload, {kernel} of them verified by the kernel and "
        )?;
        write!(f, "xfs_repair too, and {recovery_crashes} crashes of recovery")
    }
}

/// Kernel verifications that run at a time. They spend most of their time waiting.
const CASES: usize = 6;

/// Runs the workload and makes a crash at each point.
///
/// # Errors
/// The first violation, with its point.
pub fn torture(workload: &Workload, seed: u64, sampling: Sampling) -> Result<CrashCounts, String> {
    let run = Run::record(workload, seed);
    let mut random = Random::new(seed ^ 0xc4a5_0000_0000_0000);
    let mut crashes = Crashes::new(run.base.clone(), &run.events);
    let mut counts = CrashCounts::default();
    std::thread::scope(|scope| {
        let mut cases = VecDeque::new();
        while crashes.left() > 0 {
            crashes.advance();
            for loss in WRITE_LOSSES {
                if !random.one_in(sampling.crash_one_in) {
                    continue;
                }
                let crash = crashes.crash(loss, &mut random);
                let (name, begun, total) = (workload.name, crash.begun, run.events.len());
                let at = move |why| {
                    format!("{name}, seed {seed}, {begun} of {total} events, {loss:?}: {why}")
                };
                let recovered = verify::recovery(&run, &crash).map_err(at)?;
                counts.crashes += 1;
                if random.one_in(sampling.interrupt_one_in) {
                    counts.recovery_crashes +=
                        verify::interrupted_recovery(&run, &crash, &recovered, &mut random)
                            .map_err(at)?;
                }
                if sampling.kernel_one_in > 0 && random.one_in(sampling.kernel_one_in) {
                    let case = Case::new(&crash, &recovered);
                    cases.push_back(scope.spawn(move || case.verify().map_err(at)));
                    counts.kernel += 1;
                }
                if cases.len() > CASES {
                    join_case(cases.pop_front())?;
                }
            }
        }
        cases.into_iter().try_for_each(|case| join_case(Some(case)))?;
        Ok(counts)
    })
}

/// Waits for the result of a kernel verification.
fn join_case(case: Option<ScopedJoinHandle<'_, Result<(), String>>>) -> Result<(), String> {
    case.map_or(Ok(()), |case| case.join().unwrap_or_else(|panic| resume_unwind(panic)))
}
