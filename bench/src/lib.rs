//! Benchmarks: each measures both sides of a claim in one run.

pub mod array;
pub mod kernel;
pub mod turns;
