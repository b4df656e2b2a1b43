//! Tests of mounted volumes, in one program.

mod owners;
mod semantics;
mod traps;
mod trees;
