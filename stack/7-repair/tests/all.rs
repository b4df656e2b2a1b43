//! All integration tests of this crate, in one program.

/// Kept images and planted faults are those of the check.
#[path = "../../6-check/tests/common/mod.rs"]
#[allow(dead_code)] // the check uses all of it
mod common;

mod claims;
mod crashes;
mod fields;
mod journals;
mod names;
mod planted;
mod threads;
