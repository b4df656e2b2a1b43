//! Benchmarks: each prints both sides of a claim from one run.

pub mod array;
pub mod kernel;
pub mod turns;
