//! Study E: checksums brought up to date in one pass.
//!
//! A checksum stands within what it sums. Who only verifies must sum around it, in two pieces, for others may
//! be reading; who changes a block owns it, zeroes the field, and sums once. Short pieces are what fast routines are bad
//! at: that is the study.
//!
//! | module | what |
//! | --- | --- |
//! | `passes` | one pass against split, by routine, size and alignment |
//! | `load` | appends, each synced; and the recovery of their journal |

mod load;
mod passes;

use std::io;
use std::time::Duration;

use crate::report::Section;
use crate::suite::{Audience, Settings};

/// What is studied.
#[derive(Clone, Debug)]
pub struct Options {
    /// A turn of one routine with one block.
    pub turn: Duration,
    /// Appends of each thread.
    pub appends: u64,
    /// Bytes of an append.
    pub bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { turn: Duration::from_micros(500), appends: 2000, bytes: 512 }
    }
}

/// Runs the study.
///
/// # Errors
/// Those of the volumes, and where the audience wants to stop.
pub fn run(
    options: &Options,
    settings: &Settings,
    audience: &mut dyn Audience,
) -> io::Result<Vec<Section>> {
    let (sides, refused) = settings.sides();
    let work =
        load::Work { threads: settings.threads, appends: options.appends, bytes: options.bytes };
    let mut sections = vec![
        passes::section(options.turn, settings, audience)?,
        load::section(&work, settings, &sides, audience)?,
    ];
    sections[1].text.splice(0..0, refused);
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::record::Recorder;
    use crate::side::Job;
    use crate::suite::testing::{Heard, settings};

    #[test]
    fn every_routine_and_size_is_told_both_ways_and_then_the_load() {
        let options = Options { turn: Duration::from_micros(1), appends: 5, bytes: 100 };
        let mut heard = Heard::default();
        let sections = run(&options, &settings(), &mut heard).expect("a study");
        let routines = xfskit_crc::routines().iter().filter(|routine| routine.available()).count();
        let of = |key: &str| heard.0.iter().filter(|result| result.get(key).is_some()).count();
        assert_eq!(of("crc"), routines * 8 * 3 * 2);
        assert_eq!(of("fsync"), 2, "the engine and the harness");
        assert_eq!(sections.len(), 2);
    }

    #[test]
    fn each_append_is_synced() {
        let mut recorder = Recorder::default();
        load::Work { threads: 2, appends: 3, bytes: 7 }.run(&mut recorder).expect("no errors");
        let calls = recorder.calls();
        let own: Vec<&str> =
            calls["/journal1"].iter().map(|call| call.split(' ').next().unwrap_or("")).collect();
        assert_eq!(own, ["open", "write", "fsync", "write", "fsync", "write", "fsync"]);
    }
}
