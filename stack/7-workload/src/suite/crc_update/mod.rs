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

use crate::report::Section;
use crate::suite::{Observer, Settings};

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
pub fn run(
    options: &Options,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> io::Result<Vec<Section>> {
    let (implementations, skipped) = settings.implementations();
    let work =
        load::Work { threads: settings.threads, appends: options.appends, bytes: options.bytes };
    let mut sections = vec![
        passes::section(options.turn, settings, observer)?,
        load::section(&work, settings, &implementations, observer)?,
    ];
    sections[1].text.splice(0..0, skipped);
    if let Some(log) = options.recovery_log {
        sections.push(recovery::section(log, settings, &implementations, observer)?);
    }
    Ok(sections)
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
        let sections = run(&options, &settings(), &mut heard).expect("a study");
        let routines = xfskit_crc::routines().iter().filter(|routine| routine.available()).count();
        let of = |key: &str| heard.0.iter().filter(|result| result.get(key).is_some()).count();
        assert_eq!(of("crc"), routines * 8 * 3 * 2);
        assert_eq!(of("fsync"), 2, "the engine and the harness");
        assert_eq!((sections.len(), of("recovery")), (3, 1));
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
