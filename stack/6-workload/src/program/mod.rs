//! Programs that filesystems are measured with, under the interfaces that their users know.
//!
//! | module | program |
//! | --- | --- |
//! | [`fs_mark`] | many small files, and what syncing them costs |
//! | [`dbench`] | clients of a file server |
//! | [`compilebench`] | source trees: made, patched, compiled, read, deleted |

pub mod compilebench;
pub mod dbench;
pub mod fs_mark;
