//! Benchmarks: each measures both sides of a claim in one run.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`frame`] | arguments, turns and reports of every program |
//! | [`contest`] | contenders that alternate turn by turn, and their table |
//! | [`grid`] | several figures of each row, the median of all turns |
//! | [`processes`] | programs that do the same to a file: time and memory |
//! | [`disk`] | the disk alone, which bounds what is cold |
//! | [`kernel`] | the kernel's side |
//! | [`array`](mod@array) | the array of the md benchmarks |
//! | [`mount`](mod@mount) | mounted filesystems side by side |

pub mod array;
pub mod contest;
pub mod disk;
pub mod frame;
pub mod grid;
pub mod kernel;
pub mod mount;
pub mod processes;
