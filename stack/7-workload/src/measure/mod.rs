//! Measurement of phases, and the confidence of the results.
//!
//! A *turn* is one repetition of a measurement. Contenders alternate turn by turn, so that other
//! load on the machine meets all of them.
//!
//! | module | what |
//! | --- | --- |
//! | [`usage`] | wall, user and system time of this process; peak memory |
//! | [`phase`] | one piece of work on many threads that start together |
//! | [`profile`] | functions in which the time is spent, by perf if it is installed |
//! | [`samples`] | the turns of one measurement: median, spread, ratio with confidence interval |

pub mod phase;
pub mod profile;
pub mod samples;
pub mod usage;

pub use phase::{Phase, parallel};
pub use samples::{Ratio, Samples};
pub use usage::Usage;
