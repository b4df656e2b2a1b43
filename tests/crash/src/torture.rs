//! Crash after crash, until there were enough.

use crate::crash::{Crashes, WEARS};
use crate::judge;
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

/// Does the work, and cuts it off everywhere.
///
/// # Errors
/// What is wrong, and where.
pub fn torture(workload: &Workload, seed: u64, zeal: Zeal) -> Result<Tally, String> {
    let run = Run::record(workload, seed);
    let mut random = Random::new(seed ^ 0xc4a5_0000_0000_0000);
    let mut crashes = Crashes::new(&*run.base, &run.events);
    let mut tally = Tally::default();
    while crashes.left() > 0 {
        crashes.advance();
        for wear in WEARS {
            if !random.one_in(zeal.crash_one_in) {
                continue;
            }
            let crash = crashes.crash(wear, &mut random);
            let at = |why: String| {
                let total = run.events.len();
                format!(
                    "{}, seed {seed}, {} of {total} events, {wear:?}: {why}",
                    workload.name, crash.begun
                )
            };
            let recovered = judge::ours(&run, &crash).map_err(at)?;
            tally.crashes += 1;
            if random.one_in(zeal.again_one_in) {
                tally.again += judge::again(&run, &crash, &recovered, &mut random).map_err(at)?;
            }
            if zeal.kernel_one_in > 0 && random.one_in(zeal.kernel_one_in) {
                judge::kernels(&crash, &recovered).map_err(at)?;
                tally.kernel += 1;
            }
        }
    }
    Ok(tally)
}
