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
//! | [`short`] | measurements that are too short to mean anything |
//! | [`share`] | parts of a whole, which are never larger than it; the meter of checksums |
//! | [`together`] | the rate of threads that work at the same time, over wall time |
//! | [`decision`] | what a run shows about a claim: the interval decides |
//! | [`samples`] | the turns of one measurement: median, spread, ratio with confidence interval |

pub mod decision;
pub mod phase;
pub mod profile;
pub mod samples;
pub mod share;
pub mod short;
pub mod together;
pub mod usage;

pub use decision::{Decision, Interval};
pub use phase::{Phase, parallel};
pub use samples::{Ratio, Samples, interval_note};
pub use usage::Usage;
