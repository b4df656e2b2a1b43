//! The programs that the studies used, as their users know them: the same options, the same lines.
//!
//! | module | program |
//! | --- | --- |
//! | [`fs_mark`] | many small files, and what a file costs with each way to sync |

pub mod fs_mark;
