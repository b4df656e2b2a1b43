//! What a phase costs, and how sure we are.
//!
//! | module | what |
//! | --- | --- |
//! | [`usage`] | wall, user and system time of this process; peak memory |
//! | [`phase`] | one piece of work on many threads, started together |
//! | [`profile`] | in which functions the time was, where there is perf |
//! | [`samples`] | several turns of the same: median, spread, ratio with confidence |

pub mod phase;
pub mod profile;
pub mod samples;
pub mod usage;

pub use phase::{Phase, parallel};
pub use samples::{Ratio, Samples};
pub use usage::Usage;
