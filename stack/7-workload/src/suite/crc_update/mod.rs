//! Study E: checksum updates in one pass.
//!
//! A checksum is stored inside the bytes that it covers. A verifier must sum around it, in two
//! pieces, because other threads may be reading the block. A thread that changes a block owns it;
//! it zeroes the field and sums the block once. Fast routines are slow on short pieces, and the
//! study measures how much.
//!
//! | module | what |
//! | --- | --- |
//! | `passes` | one pass against split, by routine, size and alignment |
//! | `load` | appends with fsync, and the recovery of their journal |
//! | `counts` | passes over the bytes of journal records, counted |
//! | `recovery` | recovery of a full journal, beside the kernel's |

mod counts;
mod load;
mod passes;
mod recovery;

use std::io;
use std::time::Duration;

use crate::suite::{Observer, PartPlan, Parts, Settings};

pub use recovery::LOG_MAX;

/// The parameters of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a turn of one routine with one block.
    pub turn: Duration,
    /// Appends per thread.
    pub appends: u64,
    /// Bytes of an append.
    pub bytes: usize,
    /// Bytes of the journal whose recovery is measured; `None` skips it.
    pub recovery_log: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            turn: Duration::from_micros(500),
            appends: 2000,
            bytes: 512,
            recovery_log: Some(LOG_MAX),
        }
    }
}

/// Runs the study.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub fn run(options: &Options, settings: &Settings, observer: &mut dyn Observer) -> io::Result<()> {
    let (implementations, skipped) = settings.implementations_below();
    let work =
        load::Work { threads: settings.threads, appends: options.appends, bytes: options.bytes };
    let all = work.appends.saturating_mul(work.threads as u64);
    let bytes = all.saturating_mul(work.bytes as u64);
    settings.verify_space(bytes, &format!("{all} appends"))?;
    let turns = settings.repetitions;
    let mut plan = vec![
        PartPlan::timed("blocks", turns, passes::turn_time(options.turn)),
        PartPlan::new("fsync", load::STEPS * turns * implementations.len()),
    ];
    if options.recovery_log.is_some() {
        // The first step fills the journal.
        plan.push(PartPlan::new("recovery", 1 + turns * implementations.len()));
    }
    let mut parts = Parts::begin("crc-update", plan, None, observer)?;
    parts.measure("blocks", |observer| passes::section(options.turn, settings, observer))?;
    parts.measure("fsync", |observer| {
        let mut section = load::section(&work, settings, &implementations, observer)?;
        section.text.splice(0..0, skipped);
        Ok(section)
    })?;
    let Some(log) = options.recovery_log else { return Ok(()) };
    parts.measure("recovery", |observer| {
        recovery::section(log, settings, &implementations, observer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::testing::Recorder;
    use crate::suite::testing::{Heard, settings};
    use crate::testbed::Job;

    #[test]
    fn every_routine_and_size_is_reported_for_both_methods_and_then_the_load() {
        let options = Options {
            turn: Duration::from_micros(1),
            appends: 5,
            bytes: 100,
            recovery_log: Some(16 << 20),
        };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        heard.assert_steps();
        let routines = xfskit_crc::routines().iter().filter(|routine| routine.available()).count();
        let of = |key: &str| heard.0.iter().filter(|result| result.get(key).is_some()).count();
        assert_eq!(of("crc"), routines * 8 * 3 * 2);
        assert_eq!(of("fsync"), 2, "the engine and the harness");
        assert_eq!((heard.1.len(), of("recovery")), (3, 1));
    }

    #[test]
    fn each_append_is_followed_by_fsync() {
        let mut recorder = Recorder::default();
        load::Work { threads: 2, appends: 3, bytes: 7 }.run(&mut recorder).expect("no errors");
        let calls = recorder.calls();
        let own: Vec<&str> =
            calls["/journal1"].iter().map(|call| call.split(' ').next().unwrap_or("")).collect();
        assert_eq!(own, ["open", "write", "fsync", "write", "fsync", "write", "fsync"]);
    }
}
