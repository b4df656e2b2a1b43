//! Benchmarks: each prints both sides of a claim from one run.
