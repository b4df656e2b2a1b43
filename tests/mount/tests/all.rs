//! Tests of mounted volumes, in one program.

mod semantics;
mod traps;
mod trees;
