//! Programs for filesystem benchmarks, with the interfaces that their users know.
//!
//! | module | program |
//! | --- | --- |
//! | [`fs_mark`] | many small files, and the cost of each way to sync them |
//! | [`dbench`] | clients of a file server |
//! | [`compilebench`] | source trees: created, patched, compiled, read, deleted |

pub mod compilebench;
pub mod dbench;
pub mod fs_mark;
