//! Tests of mounted volumes, in one program.

mod degraded;
mod fsx;
mod limits;
mod owners;
mod panics;
mod semantics;
mod traps;
mod trees;
