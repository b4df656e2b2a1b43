//! All integration tests of this crate, in one program.

/// Kept images and planted faults are those of the check.
#[path = "../../6-check/tests/common/mod.rs"]
#[allow(dead_code)] // the check uses all of it
mod common;

mod blocks;
mod claims;
mod copies;
mod crashes;
mod cycles;
mod dead_names;
mod fields;
mod gaps;
mod grow;
mod journals;
mod maps;
mod members;
mod names;
mod plans;
mod planted;
mod progress;
mod regions;
mod survivors;
mod threads;
mod unclaimed;
